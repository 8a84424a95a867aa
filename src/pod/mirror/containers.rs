//! Container statuses of the remote pod -> those of the local pod's own containers.

use serde_json::{Map, Value};

use super::patch::StatusPatch;

/// A list of statuses, and the list of the local spec that says which containers are the local pod's own: what a
/// worker's webhook injected is not shown (R25, R26).
pub(super) const LISTS: [(&str, &str); 3] = [
    ("initContainerStatuses", "initContainers"),
    ("containerStatuses", "containers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// What is mirrored of a container status. Left out, each for its reason: `resources`, `allocatedResources` (the local
/// pod is not resized), `allocatedResourcesStatus` (must fit the local pod's claims), `user`, `stopSignal`,
/// `volumeMounts` (a manager without the feature drops them, and each pass would write them again).
const FIELDS: [&str; 9] = [
    "name",
    "state",
    "lastState",
    "ready",
    "restartCount",
    "image",
    "imageID",
    "containerID",
    "started",
];

pub(super) fn mirror(patch: &mut StatusPatch<'_>, local: &Value, remote: &Value) {
    for (statuses, containers) in LISTS {
        let own: Vec<&str> = list(&local["spec"][containers])
            .filter_map(|own| own["name"].as_str())
            .collect();
        let mirrored: Vec<Value> = list(&remote["status"][statuses])
            .filter(|status| status["name"].as_str().is_some_and(|name| own.contains(&name)))
            .map(|status| status_of(status, &local["status"][statuses]))
            .collect();
        patch.set_list(statuses, mirrored);
    }
}

/// One container's status. Its restart count never goes down (R53).
fn status_of(remote: &Value, local_statuses: &Value) -> Value {
    let mut status: Map<String, Value> = FIELDS
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), remote.get(field)?.clone())))
        .collect();
    let before = list(local_statuses).find(|local| local["name"] == remote["name"]);
    let counts = [Some(remote), before].into_iter().flatten();
    if let Some(most) = counts.filter_map(|status| status["restartCount"].as_i64()).max() {
        status.insert("restartCount".to_owned(), most.into());
    }
    Value::Object(status)
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::ContainerStatus;
    use serde_json::json;

    use super::super::testing::{check_mirror, local, mirrored, remote};
    use super::*;

    #[allow(clippy::needless_pass_by_value)]
    fn status(name: &str, more: Value) -> Value {
        let mut status = json!({"name": name, "ready": true, "restartCount": 0, "image": "i", "imageID": ""});
        json_patch::merge(&mut status, &more);
        status
    }

    #[test]
    fn containers_that_the_local_pod_does_not_have_are_not_shown() {
        let local = local(json!({"spec": {
            "initContainers": [{"name": "init"}], "ephemeralContainers": [{"name": "debug"}],
        }}));
        let remote = remote(json!({"status": {
            "initContainerStatuses": [status("istio-init", json!({})), status("init", json!({}))],
            "containerStatuses": [status("app", json!({})), status("istio-proxy", json!({}))],
            "ephemeralContainerStatuses": [status("debug", json!({})), status("shell", json!({}))],
        }}));
        check_mirror(
            &local,
            &remote,
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"image":"i","imageID":"","name":"app","ready":true,"restartCount":0}
            ephemeralContainerStatuses:
            - {"image":"i","imageID":"","name":"debug","ready":true,"restartCount":0}
            initContainerStatuses:
            - {"image":"i","imageID":"","name":"init","ready":true,"restartCount":0}
        "#]],
        );
    }

    #[test]
    fn restart_counts_do_not_go_down() {
        let statuses = |count: i64| json!({"status": {"containerStatuses": [status("app", json!({"restartCount": count}))]}});
        let count = |before: i64, now: i64| {
            let patch = mirrored(&local(statuses(before)), &remote(statuses(now))).unwrap();
            patch["status"]
                .get("containerStatuses")
                .map(|statuses| statuses[0]["restartCount"].clone())
        };
        assert_eq!(count(3, 0), None, "as it was");
        assert_eq!(count(3, 4), Some(json!(4)));
    }

    #[test]
    fn what_a_manager_may_refuse_or_drop_is_not_mirrored() {
        let foreign = json!({
            "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"},
            "allocatedResourcesStatus": [{"name": "claim:gpu"}], "user": {"linux": {"uid": 0}},
            "volumeMounts": [{"name": "kube-api-access-x"}], "stopSignal": "SIGTERM",
        });
        let remote = remote(json!({"status": {"containerStatuses": [status("app", foreign)]}}));
        check_mirror(
            &local(json!({})),
            &remote,
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"image":"i","imageID":"","name":"app","ready":true,"restartCount":0}
        "#]],
        );
    }

    #[test]
    fn statuses_that_are_gone_are_taken_away() {
        let told = local(json!({"status": {"containerStatuses": [status("app", json!({}))]}}));
        check_mirror(
            &told,
            &remote(json!({})),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses: null
        "#]],
        );
    }

    #[test]
    fn one_servers_nulls_are_anothers_nothing() {
        let ended = json!({"state": {"terminated": {"exitCode": 0, "startedAt": null, "finishedAt": null}}});
        let printed = json!({"state": {"terminated": {"exitCode": 0}}, "lastState": {}, "containerID": ""});
        let told = local(json!({"status": {"containerStatuses": [status("app", printed)]}}));
        let remote = remote(json!({"status": {"containerStatuses": [status("app", ended)]}}));
        assert_eq!(
            mirrored(&told, &remote).unwrap()["status"].get("containerStatuses"),
            None
        );
    }

    /// Compiles as long as ContainerStatus has these fields and no other: a new one must be decided upon.
    #[test]
    fn every_field_of_a_container_status_is_decided_upon() {
        let ContainerStatus {
            // mirrored
            container_id: _,
            image: _,
            image_id: _,
            last_state: _,
            name: _,
            ready: _,
            restart_count: _,
            started: _,
            state: _,
            // not mirrored: see FIELDS
            allocated_resources: _,
            allocated_resources_status: _,
            resources: _,
            stop_signal: _,
            user: _,
            volume_mounts: _,
        } = ContainerStatus::default();
        assert_eq!(FIELDS.len(), 9);
    }
}
