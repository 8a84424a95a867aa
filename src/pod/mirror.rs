//! A remote pod's status -> the merge patch that makes the local pod tell the truth.
//!
//! Every function gives the body of a merge patch for the local pod's `status` subresource, with the UID and the
//! resourceVersion of the local pod as preconditions, and `None` when there is nothing to write (R49). A local pod
//! that has ended is final (R05): only while it is being deleted are container states still written, because
//! kube-controller-manager writes phase Failed on a terminating pod without a node, often before the remote one ends.

mod conditions;
mod containers;
mod ending;
mod finished;
pub(crate) mod patch;
mod phase;
mod waiting;

use serde_json::Value;

use crate::names;
use patch::StatusPatch;

pub use ending::{failed, worker_lost};
pub use finished::finished_at;
pub use waiting::waiting_reason;

/// How much of the remote pod is shown, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorOptions {
    /// Whether the worker's addresses of pod and node are shown. A mirrored address without a node makes the manager's
    /// EndpointSlice controller fail in a loop, so the default is not to (R28).
    pub pod_ips: bool,
    /// The WorkerCluster that the remote pod is on. A local pod committed to another one gets nothing from it.
    pub cluster: String,
}

/// Our own condition, [`names::DISPATCHED`]: where the pod is, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    pub status: bool,
    /// One word in CamelCase.
    pub reason: String,
    pub message: String,
}

impl Dispatched {
    /// As an object, or a patch of its status, has it.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let ours = conditions::find(&object["status"]["conditions"], names::DISPATCHED)?;
        let text = |key: &str| ours[key].as_str().map(str::to_owned);
        Some(Self {
            status: ours["status"] == "True",
            reason: text("reason")?,
            message: text("message")?,
        })
    }
}

/// The status of `remote` and its node, for `local`. `now` is RFC 3339, for conditions whose status changes.
///
/// A remote pod that is not the committed one gives nothing (R12). A terminating local pod gets container states, our
/// condition, and once the remote pod has ended, how; never a phase after it has one that is final.
pub fn mirror(
    local: &Value,
    remote: &Value,
    dispatched: &Dispatched,
    options: &MirrorOptions,
    now: &str,
) -> Option<Value> {
    if is_final(local) || !are_paired(local, remote, &options.cluster) {
        return None;
    }
    let mut patch = StatusPatch::of(local);
    containers::mirror(&mut patch, local, remote);
    if let Some(node) = remote["spec"]["nodeName"].as_str() {
        patch.annotate(names::REMOTE_NODE, node);
    }
    if is_terminating(local) {
        if has_ended(&remote["status"]) && !has_ended(&local["status"]) {
            phase::mirror(&mut patch, &remote["status"]);
        }
        patch.set("conditions", conditions::own(local, dispatched, now));
    } else {
        phase::mirror(&mut patch, &remote["status"]);
        mirror_addresses(&mut patch, &remote["status"], options);
        patch.set("conditions", conditions::mirror(local, remote, dispatched, now));
    }
    patch.into_body()
}

/// The worker's addresses, all of them or none.
fn mirror_addresses(patch: &mut StatusPatch<'_>, remote: &Value, options: &MirrorOptions) {
    for field in ["podIP", "podIPs", "hostIP", "hostIPs"] {
        patch.set(
            field,
            if options.pod_ips {
                remote[field].clone()
            } else {
                Value::Null
            },
        );
    }
}

/// Only our condition: nothing is known of a remote pod, or nothing more than before.
pub fn condition_patch(local: &Value, dispatched: &Dispatched, now: &str) -> Option<Value> {
    if is_final(local) {
        return None;
    }
    let mut patch = StatusPatch::of(local);
    patch.set("conditions", conditions::own(local, dispatched, now));
    patch.into_body()
}

/// A pod that has ended and is not being deleted: nothing is ever written to it again.
fn is_final(local: &Value) -> bool {
    has_ended(&local["status"]) && !is_terminating(local)
}

fn has_ended(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Whether what the local pod says of its commit, if anything, names this remote pod on this cluster.
fn are_paired(local: &Value, remote: &Value, cluster: &str) -> bool {
    let annotation = |key: &str| local["metadata"]["annotations"][key].as_str();
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let committed = annotation(names::REMOTE_UID);
    annotation(names::CLUSTER).is_none_or(|committed| committed == cluster)
        && committed.is_none_or(|committed| committed == format!("{}/{}", uid(local), uid(remote)))
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::PodStatus;
    use serde_json::json;

    use super::testing::{
        NOW, applied, check, check_mirror, dispatched, local, mirrored, options, remote, running,
    };
    use super::*;

    #[test]
    fn a_running_pod_is_shown_as_running() {
        check_mirror(
            &local(json!({})),
            &running(),
            expect![[r#"
            annotations: {"portcullis.dev/remote-node":"node-1"}
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodReadyToStartContainers"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"Initialized"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"ContainersReady"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"Ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"containerID":"containerd://1","image":"app:1","imageID":"sha256:1","lastState":{},"name":"app","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-11-30T09:58:30Z"}}}
            phase: "Running"
            startTime: "2026-11-30T09:58:00Z"
        "#]],
        );
    }

    #[test]
    fn a_steady_pair_gets_no_write() {
        let mut steady = local(json!({}));
        steady = applied(&steady, &mirrored(&steady, &running()).unwrap());
        let mut later = running();
        later["metadata"]["resourceVersion"] = "another".into();
        later["status"]["conditions"][2]["lastProbeTime"] = NOW.into();
        later["status"]["conditions"][2]["lastTransitionTime"] = NOW.into();
        assert_eq!(
            mirror(&steady, &later, &dispatched(), &options(), "2026-11-30T11:00:00Z"),
            None
        );
    }

    #[test]
    fn a_pod_that_has_ended_is_final() {
        for phase in ["Succeeded", "Failed"] {
            let ended = local(json!({"status": {"phase": phase}}));
            assert_eq!(mirrored(&ended, &running()), None);
            assert_eq!(condition_patch(&ended, &dispatched(), NOW), None);
            assert_eq!(worker_lost(&ended, &dispatched(), NOW), None);
        }
    }

    /// Its owner counts what it says last: a Job with `podReplacementPolicy: Failed` waits for it.
    #[test]
    fn a_terminating_pod_ends_as_the_remote_one_did() {
        let terminating =
            local(json!({"metadata": {"deletionTimestamp": NOW}, "status": {"phase": "Running"}}));
        let ended = remote(json!({"status": {"phase": "Succeeded"}}));
        check_mirror(
            &terminating,
            &ended,
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            phase: "Succeeded"
        "#]],
        );
    }

    #[test]
    fn of_a_terminating_pod_only_container_states_are_mirrored() {
        let terminating = json!({"metadata": {"deletionTimestamp": NOW}});
        check_mirror(
            &local(terminating.clone()),
            &running(),
            expect![[r#"
            annotations: {"portcullis.dev/remote-node":"node-1"}
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"containerID":"containerd://1","image":"app:1","imageID":"sha256:1","lastState":{},"name":"app","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-11-30T09:58:30Z"}}}
        "#]],
        );
        let mut failed_by_podgc = local(terminating);
        failed_by_podgc["status"]["phase"] = "Failed".into();
        let mut ended = running();
        ended["status"]["phase"] = "Succeeded".into();
        ended["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
        check_mirror(
            &failed_by_podgc,
            &ended,
            expect![[r#"
            annotations: {"portcullis.dev/remote-node":"node-1"}
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"containerID":"containerd://1","image":"app:1","imageID":"sha256:1","lastState":{},"name":"app","ready":true,"restartCount":0,"started":true,"state":{"terminated":{"exitCode":0}}}
        "#]],
        );
    }

    #[test]
    fn addresses_are_withheld_unless_asked_for() {
        let before = local(json!({}));
        let shown = MirrorOptions {
            pod_ips: true,
            ..options()
        };
        let patch = mirror(&before, &running(), &dispatched(), &shown, NOW).unwrap();
        let status = &patch["status"];
        assert_eq!(
            (&status["podIP"], &status["podIPs"]),
            (&json!("10.2.0.1"), &json!([{"ip": "10.2.0.1"}]))
        );
        assert_eq!(
            (&status["hostIP"], &status["hostIPs"]),
            (&json!("10.1.0.1"), &json!([{"ip": "10.1.0.1"}]))
        );
        let with_addresses = applied(&before, &patch);
        assert_eq!(
            mirror(&with_addresses, &running(), &dispatched(), &shown, NOW),
            None
        );
        check_mirror(
            &with_addresses,
            &running(),
            expect![[r#"
            hostIP: null
            hostIPs: null
            podIP: null
            podIPs: null
        "#]],
        );
    }

    #[test]
    fn what_belongs_to_the_worker_is_left_there() {
        let foreign = json!({"status": {
            "qosClass": "Guaranteed", "nominatedNodeName": "node-2", "observedGeneration": 9, "resize": "Proposed",
            "resourceClaimStatuses": [{"name": "gpu"}], "extendedResourceClaimStatus": {"resourceClaimName": "x"},
            "nodeAllocatableResourceClaimStatuses": [{}], "volumeHealth": [{}],
            "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"},
        }});
        check_mirror(
            &local(json!({})),
            &remote(foreign),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
    }

    #[test]
    fn only_the_committed_pod_on_its_cluster_is_mirrored() {
        let mut successor = running();
        successor["metadata"]["uid"] = "another".into();
        assert_eq!(mirrored(&local(json!({})), &successor), None);
        let elsewhere = MirrorOptions {
            cluster: "worker-b".into(),
            ..options()
        };
        assert_eq!(
            mirror(&local(json!({})), &running(), &dispatched(), &elsewhere, NOW),
            None
        );
        let restored = local(json!({"metadata": {"uid": "restored-under-another-uid"}}));
        assert_eq!(mirrored(&restored, &running()), None);
    }

    #[test]
    fn our_condition_alone_is_written_once() {
        let before = local(json!({}));
        let patch = condition_patch(&before, &dispatched(), NOW);
        let after = applied(&before, patch.as_ref().unwrap());
        check(
            &before,
            patch,
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
        assert_eq!(condition_patch(&after, &dispatched(), "later"), None);
    }

    /// Compiles as long as PodStatus has these fields and no other: a new one must be decided upon.
    #[test]
    fn every_status_field_of_kubernetes_1_37_is_decided_upon() {
        let PodStatus {
            // mirrored
            conditions: _,
            container_statuses: _,
            ephemeral_container_statuses: _,
            init_container_statuses: _,
            message: _,
            phase: _,
            reason: _,
            start_time: _,
            // mirrored if asked for
            host_ip: _,
            host_ips: _,
            pod_ip: _,
            pod_ips: _,
            // the worker's own: the test above
            allocated_resources: _,
            extended_resource_claim_status: _,
            node_allocatable_resource_claim_statuses: _,
            nominated_node_name: _,
            observed_generation: _,
            qos_class: _,
            resize: _,
            resource_claim_statuses: _,
            resources: _,
            volume_health: _,
        } = PodStatus::default();
    }
}
