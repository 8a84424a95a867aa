//! What a batch Job shows: one row of a table each, and every patch is one that the API server takes.

use expect_test::expect;
use serde_json::json;

use super::*;

/// R58: the four combinations of the two suspend fields, and the end, which is always shown.
#[test]
fn suspend_of_the_two_jobs_decides_what_is_shown() {
    let running = json!({"active": 2, "ready": 1, "startTime": BEFORE, "conditions": [condition("Suspended", "False")]});
    let stopped = json!({"conditions": [condition("Suspended", "True")]});
    let ended = json!({
        "succeeded": 4, "startTime": BEFORE, "completionTime": NOW, "completedIndexes": "0-3",
        "conditions": [condition("SuccessCriteriaMet", "True"), condition("Complete", "True")],
    });
    let mut shown = String::new();
    for (suspended, remote_suspended, status) in [
        (false, false, &running),
        (false, true, &stopped),
        (true, true, &stopped),
        (true, false, &running),
        (true, false, &ended),
        (true, true, &ended),
        (false, false, &ended),
    ] {
        let kind = kind("Job");
        let job = local(kind, json!({"spec": {"suspend": suspended}}));
        let copy = remote(
            kind,
            json!({"spec": {"suspend": remote_suspended}, "status": status}),
        );
        shown += &format!("local {suspended}, remote {remote_suspended}:\n");
        shown += &show(patch_of_job(&job, &copy).as_ref());
    }
    expect![[r#"
        local false, remote false:
        active: 2
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"False","type":"Suspended"}
        ready: 1
        startTime: "2026-11-30T09:00:00Z"
        local false, remote true:
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Suspended"}
        local true, remote true:
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Suspended"}
        local true, remote false:
        conditions:
        local true, remote false:
        completedIndexes: "0-3"
        completionTime: "2026-11-30T10:00:00Z"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Complete"}
        startTime: "2026-11-30T09:00:00Z"
        succeeded: 4
        local true, remote true:
        completedIndexes: "0-3"
        completionTime: "2026-11-30T10:00:00Z"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Complete"}
        startTime: "2026-11-30T09:00:00Z"
        succeeded: 4
        local false, remote false:
        completedIndexes: "0-3"
        completionTime: "2026-11-30T10:00:00Z"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Complete"}
        startTime: "2026-11-30T09:00:00Z"
        succeeded: 4
    "#]]
    .assert_eq(&shown);
}

/// A Job that is started again may show a new start only if it showed that it was stopped.
#[test]
fn a_time_of_start_is_taken_back_only_while_the_job_is_suspended() {
    let shown = json!({"startTime": BEFORE, "active": 2});
    let stopped = json!({"conditions": [condition("Suspended", "True")]});
    let again = json!({"startTime": NOW, "active": 1, "conditions": [condition("Suspended", "False")]});
    check(
        json!({"spec": {"suspend": true}, "status": shown}),
        json!({"spec": {"suspend": true}, "status": stopped}),
        expect![[r#"
            active: null
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Suspended"}
            startTime: null
        "#]],
    );
    check(
        json!({"status": stopped}),
        json!({"status": again}),
        expect![[r#"
            active: 1
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"False","type":"Suspended"}
            startTime: "2026-11-30T10:00:00Z"
        "#]],
    );
    // It was stopped and started before anybody looked.
    check(
        json!({"status": shown}),
        json!({"status": again}),
        expect![[r#"
        active: 1
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"False","type":"Suspended"}
    "#]],
    );
    check(
        json!({"status": shown}),
        json!({"spec": {"suspend": true}, "status": stopped}),
        expect![[r#"
            active: null
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Suspended"}
        "#]],
    );
}

#[test]
fn counters_never_fall_and_no_more_are_ready_than_active() {
    let shown = json!({"startTime": BEFORE, "active": 3, "ready": 3, "failed": 2, "succeeded": 2});
    check(
        json!({"spec": {"parallelism": 2}, "status": shown}),
        json!({"status": {"startTime": BEFORE, "active": 1, "ready": 2, "failed": 1, "succeeded": 1}}),
        expect![[r#"
            active: 1
            conditions:
            ready: 1
        "#]],
    );
    // An elastic Job may have been made smaller.
    check(
        json!({"status": shown}),
        json!({"status": {"startTime": BEFORE, "active": 1, "failed": 2, "succeeded": 1}}),
        expect![[r#"
            active: 1
            conditions:
            ready: null
            succeeded: 1
        "#]],
    );
}

/// R59: a worker of an older version tells neither what decided the end, nor always a start.
#[test]
fn an_end_without_its_decision_is_completed() {
    let shown = json!({"startTime": BEFORE, "active": 3, "ready": 3, "terminating": 1});
    check(
        json!({"status": shown}),
        json!({"status": {
            "startTime": BEFORE, "completionTime": NOW, "succeeded": 4, "terminating": 1, "ready": 0,
            "uncountedTerminatedPods": {"succeeded": ["u"]}, "conditions": [condition("Complete", "True")],
        }}),
        expect![[r#"
            active: null
            completionTime: "2026-11-30T10:00:00Z"
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Complete"}
            ready: 0
            succeeded: 4
            terminating: 0
        "#]],
    );
    check(
        json!({}),
        json!({"status": {"failed": 1, "active": 1, "conditions": [condition("Failed", "True")]}}),
        expect![[r#"
            active: 0
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"FailureTarget"}
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Failed"}
            failed: 1
            startTime: "2026-11-30T09:00:00Z"
        "#]],
    );
    check(
        json!({"status": shown}),
        json!({"status": {"failed": 1, "completionTime": NOW, "conditions": [condition("FailureTarget", "True")]}}),
        expect![[r#"
            active: null
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"FailureTarget"}
            failed: 1
            ready: null
            terminating: null
        "#]],
    );
    // The manager kept an earlier start than the worker tells, and a clock went back.
    check(
        json!({"status": {"startTime": NOW}}),
        json!({"status": {"startTime": BEFORE, "completionTime": BEFORE, "conditions": [condition("Complete", "True")]}}),
        expect![[r#"
            completionTime: "2026-11-30T10:00:00Z"
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Complete"}
        "#]],
    );
}

#[test]
fn what_the_managers_own_spec_forbids_is_not_shown() {
    check(
        json!({"spec": {"completionMode": "NonIndexed"}}),
        json!({"status": {"startTime": BEFORE, "completedIndexes": "0-1", "failedIndexes": "3"}}),
        expect![[r#"
            conditions:
            startTime: "2026-11-30T09:00:00Z"
        "#]],
    );
}

/// R05, and that a decision stands.
#[test]
fn the_end_is_final_and_so_is_its_decision() {
    let decided =
        json!({"startTime": BEFORE, "active": 1, "conditions": [condition("FailureTarget", "True")]});
    check(
        json!({"status": decided}),
        json!({"status": {"startTime": BEFORE, "active": 2}}),
        expect![[r#"
            active: 2
            conditions:
            - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"FailureTarget"}
        "#]],
    );
    for end in ["Complete", "Failed"] {
        check(
            json!({"status": {"conditions": [condition(end, "True")]}}),
            json!({"status": {"active": 2}}),
            expect!["nothing\n"],
        );
    }
}

#[test]
fn a_lost_job_fails_in_one_write_that_the_api_server_takes() {
    let kind = kind("Job");
    let lost = Dispatched {
        status: false,
        reason: "RemoteJobDeleted".into(),
        message: "gone from worker-a".into(),
    };
    let running = json!({
        "startTime": BEFORE, "active": 2, "ready": 1, "terminating": 1, "failed": 1,
        "uncountedTerminatedPods": {"failed": ["u"]},
    });
    let deciding =
        json!({"startTime": BEFORE, "active": 1, "conditions": [condition("FailureTarget", "True")]});
    let succeeding =
        json!({"startTime": BEFORE, "active": 1, "conditions": [condition("SuccessCriteriaMet", "True")]});
    let mut shown = String::new();
    for status in [json!({}), running, deciding, succeeding] {
        for suspended in [false, true] {
            let job = local(kind, json!({"spec": {"suspend": suspended}, "status": status}));
            let patch = failed(kind, &job, "RemoteJobDeleted", "gone from worker-a", &lost, NOW);
            let after = applied(&job, &patch);
            assert_eq!(validation::refusals(&job, &after), Vec::<&str>::new(), "{patch}");
            assert!(kind.is_finished(&after));
            if !suspended {
                shown += &format!("{status}\n{}", show(Some(&patch)));
            }
        }
    }
    expect![[r#"
        {}
        conditions:
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"FailureTarget"}
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
        startTime: "2026-11-30T10:00:00Z"
        {"active":2,"failed":1,"ready":1,"startTime":"2026-11-30T09:00:00Z","terminating":1,"uncountedTerminatedPods":{"failed":["u"]}}
        active: 0
        conditions:
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"FailureTarget"}
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
        ready: 0
        terminating: 0
        uncountedTerminatedPods: null
        {"active":1,"conditions":[{"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"FailureTarget"}],"startTime":"2026-11-30T09:00:00Z"}
        active: 0
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"FailureTarget"}
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
        {"active":1,"conditions":[{"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}],"startTime":"2026-11-30T09:00:00Z"}
        active: 0
        completionTime: "2026-11-30T10:00:00Z"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"SuccessCriteriaMet"}
        - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"True","type":"Complete"}
    "#]].assert_eq(&shown);
}
