//! Lives of a Job on workers of any version and of any conduct: every status that the manager gets is one that its API
//! server takes, the last one shows the end, and after it nothing is written.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::super::testing::{applied, kind, local, mirrored, remote};
use super::validation::refusals;

/// A status that some worker might show.
fn status() -> impl Strategy<Value = Value> {
    let conditions = prop::sample::subsequence(
        vec![
            "Suspended",
            "FailureTarget",
            "SuccessCriteriaMet",
            "Failed",
            "Complete",
        ],
        0..3,
    );
    let time = prop::option::of(0..4u8);
    (
        (0..4u8, 0..4u8, prop::option::of(0..3u8)),
        (0..4u8, 0..4u8),
        (time.clone(), time),
        conditions,
        any::<bool>(),
    )
        .prop_map(|((active, ready, terminating), (succeeded, failed), (start, end), conditions, indexes)| {
            let at = |hour: u8| format!("2026-11-30T1{hour}:00:00Z");
            let conditions: Vec<Value> = conditions
                .into_iter()
                .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": at(5)}))
                .collect();
            let mut status = json!({
                "active": active, "ready": ready, "terminating": terminating, "succeeded": succeeded, "failed": failed,
                "startTime": start.map(at), "completionTime": end.map(at), "conditions": conditions,
                "uncountedTerminatedPods": {"succeeded": ["u"]},
            });
            if indexes {
                status["completedIndexes"] = "0-1".into();
                status["failedIndexes"] = "2".into();
            }
            status
        })
}

/// One look: the two suspend fields, and what the worker shows.
fn look() -> impl Strategy<Value = (bool, bool, Value)> {
    (any::<bool>(), any::<bool>(), status())
}

/// A worker's own API server would not have taken it: it contradicts itself or what it said before.
fn contradicts_itself(job: &Value, status: &Value) -> bool {
    let has = |status: &Value, kind: &str| {
        let conditions = status["conditions"].as_array();
        conditions.is_some_and(|conditions| {
            conditions
                .iter()
                .any(|condition| condition["type"] == kind && condition["status"] == "True")
        })
    };
    let succeeds = |status: &Value| has(status, "SuccessCriteriaMet") || has(status, "Complete");
    let fails = |status: &Value| has(status, "FailureTarget") || has(status, "Failed");
    let before = &job["status"];
    (succeeds(status) || succeeds(before)) && (fails(status) || fails(before))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_status_is_one_that_the_api_server_takes(
        looks in prop::collection::vec(look(), 1..8),
        indexed in any::<bool>(),
        elastic in any::<bool>(),
    ) {
        let kind = kind("Job");
        let spec = json!({
            "completionMode": if indexed { "Indexed" } else { "NonIndexed" },
            "completions": 4,
            "parallelism": if elastic { 4 } else { 2 },
        });
        let mut job = local(kind, json!({"spec": spec}));
        for (suspended, remote_suspended, status) in looks {
            if contradicts_itself(&job, &status) {
                continue;
            }
            job["spec"]["suspend"] = suspended.into();
            let copy = remote(kind, json!({"spec": {"suspend": remote_suspended}, "status": status}));
            let Some(patch) = mirrored(kind, &job, &copy) else { continue };
            let after = applied(&job, &patch);
            prop_assert_eq!(refusals(&job, &after), Vec::<&str>::new(), "{} then {}", job["status"], patch);
            prop_assert_eq!(mirrored(kind, &after, &copy), None);
            prop_assert_eq!(kind.is_finished(&after), kind.is_finished(&copy));
            job = after;
        }
    }
}
