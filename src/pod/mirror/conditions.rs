//! Conditions of the remote pod -> the local pod's list, merged by type.

use serde_json::{Value, json};

use super::Dispatched;
use super::containers::list;
use crate::names;

/// Types that a kubelet writes: they follow the remote pod and go when they go there. Every other type on the local
/// pod is the manager's and stays (R50).
const KUBELETS: [&str; 7] = [
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];
const SCHEDULED: &str = "PodScheduled";
const DISRUPTED: &str = "DisruptionTarget";
const GATED_REASON: &str = "SchedulingGated";
/// The words of the API server itself.
const GATED_MESSAGE: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// The local conditions with the remote ones merged in, and ours.
pub(super) fn mirror(local: &Value, remote: &Value, dispatched: &Dispatched, now: &str) -> Value {
    let mut conditions = own_list(local);
    let remote_has = |kind: &str| find(&remote["status"]["conditions"], kind);
    for kind in KUBELETS {
        match remote_has(kind) {
            Some(remote) => put(&mut conditions, Said::by(remote), now),
            None => conditions.retain(|condition| condition["type"] != kind),
        }
    }
    for kind in list(&local["spec"]["readinessGates"]).filter_map(|gate| gate["conditionType"].as_str()) {
        if let Some(remote) = remote_has(kind) {
            put(&mut conditions, Said::by(remote), now);
        }
    }
    put_scheduled(&mut conditions, remote_has(SCHEDULED), now);
    put_disrupted(&mut conditions, remote_has(DISRUPTED), now);
    put(&mut conditions, Said::ours(dispatched), now);
    Value::Array(conditions)
}

/// The local conditions with ours.
pub(super) fn own(local: &Value, dispatched: &Dispatched, now: &str) -> Value {
    let mut conditions = own_list(local);
    put(&mut conditions, Said::ours(dispatched), now);
    Value::Array(conditions)
}

/// The local conditions with ours, and these.
pub(super) fn with(local: &Value, said: &[Said<'_>], dispatched: &Dispatched, now: &str) -> Value {
    let mut conditions = own_list(local);
    for said in said {
        put(&mut conditions, *said, now);
    }
    put(&mut conditions, Said::ours(dispatched), now);
    Value::Array(conditions)
}

/// A bound remote pod makes the local one scheduled, for good (R04). Until then the local pod says that it is gated:
/// an Unschedulable of the worker would make the manager's autoscaler buy nodes (R03).
fn put_scheduled(conditions: &mut Vec<Value>, remote: Option<&Value>, now: &str) {
    let said_true = |condition: &Value| condition["status"] == "True";
    let before = conditions.iter().find(|condition| condition["type"] == SCHEDULED);
    match (before.is_some_and(said_true), remote.is_some_and(said_true)) {
        (true, _) => {}
        (false, true) => put(
            conditions,
            Said {
                kind: SCHEDULED,
                status: "True",
                reason: "",
                message: "",
            },
            now,
        ),
        (false, false) => {
            let gated = Said {
                kind: SCHEDULED,
                status: "False",
                reason: GATED_REASON,
                message: GATED_MESSAGE,
            };
            put(conditions, gated, now);
        }
    }
}

/// The first who says that the pod is being disrupted is believed: the manager's eviction (R50), or the worker's.
fn put_disrupted(conditions: &mut Vec<Value>, remote: Option<&Value>, now: &str) {
    let said = conditions
        .iter()
        .any(|condition| condition["type"] == DISRUPTED && condition["status"] == "True");
    if let (false, Some(remote)) = (said, remote) {
        put(conditions, Said::by(remote), now);
    }
}

/// What a condition says, without its times and generations: those are the other cluster's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Said<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Said<'a> {
    fn by(condition: &'a Value) -> Self {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        Self {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
        }
    }

    fn ours(dispatched: &'a Dispatched) -> Self {
        Self {
            kind: names::DISPATCHED,
            status: if dispatched.status { "True" } else { "False" },
            reason: &dispatched.reason,
            message: &dispatched.message,
        }
    }
}

/// Adds or replaces a condition by type. One that says the same stays as it is, to the letter; one whose status stays
/// keeps its lastTransitionTime, so that `minReadySeconds` is counted by the manager's clock.
fn put(conditions: &mut Vec<Value>, said: Said<'_>, now: &str) {
    let before = conditions
        .iter_mut()
        .find(|condition| condition["type"] == said.kind);
    let since = match &before {
        Some(before) if Said::by(before) == said => return,
        Some(before) if before["status"] == said.status && !before["lastTransitionTime"].is_null() => {
            before["lastTransitionTime"].clone()
        }
        Some(_) | None => now.into(),
    };
    let mut condition = json!({"type": said.kind, "status": said.status, "lastTransitionTime": since});
    for (field, text) in [("reason", said.reason), ("message", said.message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
    match before {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}

fn own_list(local: &Value) -> Vec<Value> {
    list(&local["status"]["conditions"]).cloned().collect()
}

pub(super) fn find<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    list(conditions).find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::PodCondition;

    use super::super::testing::{BEFORE, NOW, applied, check_mirror, local, mirrored, remote, running};
    use super::*;

    #[test]
    fn an_unschedulable_pod_stays_gated_on_the_manager() {
        let unschedulable = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available",
        });
        let remote = remote(json!({"status": {"conditions": [unschedulable]}}));
        check_mirror(
            &local(json!({})),
            &remote,
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
        // Whoever else wrote it there: it does not stay.
        check_mirror(
            &local(json!({"status": {"conditions": [unschedulable]}})),
            &remote,
            expect![[r#"
                conditions:
                - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
                - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            "#]],
        );
        check_mirror(
            &local(json!({"status": {"conditions": null}})),
            &remote,
            expect![[r#"
                conditions:
                - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
                - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            "#]],
        );
    }

    #[test]
    fn a_bound_pod_is_scheduled_and_never_gated_again() {
        let bound = json!({"spec": {"nodeName": "node-1"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE},
        ]}});
        let before = local(json!({}));
        check_mirror(
            &before,
            &remote(bound.clone()),
            expect![[r#"
            annotations: {"portcullis.dev/remote-node":"node-1"}
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
        let after = applied(&before, &mirrored(&before, &remote(bound)).unwrap());
        assert_eq!(
            mirrored(&after, &remote(json!({}))),
            None,
            "an old view does not gate it"
        );
    }

    #[test]
    fn conditions_of_the_manager_stay() {
        let theirs = [
            json!({"type": "TerminationTarget", "status": "True", "reason": "Preempted", "lastTransitionTime": BEFORE}),
            json!({"type": "example.com/audited", "status": "True", "lastTransitionTime": BEFORE}),
            json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}),
        ];
        let local = local(json!({"status": {"conditions": theirs}}));
        let mut remote = running();
        let drained =
            json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
        remote["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(drained);
        let patch = mirrored(&local, &remote).unwrap();
        assert_eq!(&patch["status"]["conditions"].as_array().unwrap()[..3], theirs);
    }

    #[test]
    fn a_disruption_on_the_worker_is_shown() {
        let disrupted = |status: &str| json!({"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler"});
        let remote = remote(json!({"status": {"conditions": [disrupted("True")]}}));
        for before in [json!({"type": "Ready", "status": "True"}), disrupted("False")] {
            let local = local(json!({"status": {"conditions": [before]}}));
            let patch = mirrored(&local, &remote).unwrap();
            let shown = find(&patch["status"]["conditions"], DISRUPTED).unwrap();
            assert_eq!(
                (&shown["status"], &shown["reason"]),
                (&json!("True"), &json!("PreemptionByScheduler"))
            );
        }
    }

    #[test]
    fn a_condition_that_says_the_same_stays_to_the_letter() {
        let scheduled = json!({"type": "PodScheduled", "status": "False", "reason": GATED_REASON, "message": GATED_MESSAGE,
            "observedGeneration": 1, "lastProbeTime": BEFORE, "lastTransitionTime": BEFORE});
        let local = local(json!({"status": {"conditions": [scheduled]}}));
        let patch = mirrored(&local, &remote(json!({}))).unwrap();
        assert_eq!(patch["status"]["conditions"][0], scheduled);
    }

    #[test]
    fn kubelet_conditions_come_and_go_with_the_remote_pods() {
        let resizing = json!({"status": {"conditions": [
            {"type": "PodResizeInProgress", "status": "True", "observedGeneration": 3},
            {"type": "AllContainersRestarting", "status": "True"},
        ]}});
        let before = local(json!({}));
        let patch = mirrored(&before, &remote(resizing.clone()));
        check_mirror(
            &before,
            &remote(resizing),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodResizeInProgress"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"AllContainersRestarting"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
        check_mirror(
            &applied(&before, &patch.unwrap()),
            &remote(json!({})),
            expect![[r#"
                conditions:
                - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
                - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            "#]],
        );
    }

    #[test]
    fn readiness_gates_are_mirrored_and_other_conditions_of_the_worker_are_not() {
        let gates =
            json!([{"conditionType": "example.com/ready"}, {"conditionType": "example.com/managers"}]);
        let managers = json!([{"type": "example.com/managers", "status": "True"}]);
        let local = local(json!({"spec": {"readinessGates": gates}, "status": {"conditions": managers}}));
        let remote = remote(json!({"status": {"conditions": [
            {"type": "example.com/ready", "status": "True", "reason": "Up"},
            {"type": "example.com/scanned", "status": "True"},
        ]}}));
        check_mirror(
            &local,
            &remote,
            expect![[r#"
            conditions:
            - {"status":"True","type":"example.com/managers"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","reason":"Up","status":"True","type":"example.com/ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
        "#]],
        );
    }

    #[test]
    fn a_transition_is_dated_by_the_managers_clock_and_only_when_the_status_changes() {
        let ready = |status: &str, reason: &str| json!({"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": BEFORE});
        let local = local(json!({"status": {"conditions": [ready("False", "ContainersNotReady")]}}));
        let since = |remote_says: Value| {
            let remote = remote(json!({"status": {"conditions": [remote_says]}}));
            find(
                &mirrored(&local, &remote).unwrap()["status"]["conditions"],
                "Ready",
            )
            .unwrap()["lastTransitionTime"]
                .clone()
        };
        assert_eq!(since(ready("True", "")), NOW);
        assert_eq!(since(ready("False", "ReadinessGatesNotReady")), BEFORE);
    }

    /// Compiles as long as PodCondition has these fields and no other: a new one must be decided upon in `Said`.
    #[test]
    fn every_field_of_a_condition_is_decided_upon() {
        let PodCondition {
            // mirrored
            message: _,
            reason: _,
            status: _,
            type_: _,
            // ours, or left out
            last_probe_time: _,
            last_transition_time: _,
            observed_generation: _,
        } = PodCondition::default();
    }
}
