use serde_json::json;

use super::*;

fn job(cluster: &str, uid: &str, content: Value) -> Job {
    Job {
        kind: JOB,
        cluster: cluster.to_owned(),
        at: ("ns".to_owned(), "j".to_owned()),
        uid: uid.to_owned(),
        content,
    }
}

fn local(spec: Value, status: Value) -> Job {
    let metadata = json!({"annotations": {REMOTE_UID: "local/remote"}});
    job(
        "manager",
        "local",
        json!({"metadata": metadata, "spec": spec, "status": status}),
    )
}

fn remote(spec: Value, status: Value) -> Job {
    job(
        "worker-a",
        "remote",
        json!({"metadata": {}, "spec": spec, "status": status}),
    )
}

fn condition(kind: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True"}]})
}

#[track_caller]
fn check(local: &Job, remote: &Job, expected: &[Kind]) {
    let found: Vec<Kind> = untrue(local, remote)
        .iter()
        .map(|violation| violation.kind)
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_job_tells_the_truth_if_both_sides_show_the_same() {
    let running = json!({"active": 1, "conditions": [{"type": DISPATCHED, "status": "True"}]});
    let there = json!({"active": 1, "uncountedTerminatedPods": {}, "observedGeneration": 7});
    check(&local(json!({}), running.clone()), &remote(json!({}), there), &[]);
    let other = remote(json!({}), json!({"active": 2}));
    check(&local(json!({}), running), &other, &[Kind::StatusUntrue]);
}

#[test]
fn an_end_must_be_the_same_on_both_sides() {
    let ended = || local(json!({}), condition("Complete"));
    check(&ended(), &remote(json!({}), condition("Complete")), &[]);
    check(&ended(), &remote(json!({}), json!({})), &[Kind::StatusUntrue]);
    check(
        &ended(),
        &remote(json!({}), condition("Failed")),
        &[Kind::StatusUntrue],
    );
    let open = local(json!({}), json!({}));
    check(
        &open,
        &remote(json!({}), condition("Failed")),
        &[Kind::StatusUntrue],
    );
}

#[test]
fn edits_must_have_arrived() {
    let wanted = local(json!({"suspend": true}), json!({}));
    check(
        &wanted,
        &remote(json!({"suspend": false}), json!({})),
        &[Kind::StatusUntrue],
    );
    let wanted = local(json!({"parallelism": 2}), json!({}));
    check(
        &wanted,
        &remote(json!({"parallelism": 1}), json!({})),
        &[Kind::StaleCopy],
    );
}

#[test]
fn a_copy_that_nobody_recorded_is_found() {
    let mut other = remote(json!({}), json!({}));
    other.uid = "another".to_owned();
    check(&local(json!({}), json!({})), &other, &[Kind::StatusUntrue]);
}

#[test]
fn a_job_on_no_worker_does_not_run() {
    let is_wrong = |job: &Job| not_running(job).is_some();
    assert!(is_wrong(&local(json!({}), json!({}))));
    assert!(!is_wrong(&local(json!({}), condition(DISPATCHED))));
    assert!(!is_wrong(&local(json!({"suspend": true}), json!({}))));
    assert!(!is_wrong(&local(json!({}), condition("Failed"))));
    let due = json!({"ttlSecondsAfterFinished": 3});
    assert!(is_wrong(&local(due, condition("Failed"))));
}
