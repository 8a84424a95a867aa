//! One test per row of the rules in `docs/protocol.md`: a view in, steps out. [`view`] explains the notation. Rules 7
//! to 14 are in [`committed`].

mod committed;
mod gangs;
mod going;
mod jobs;
mod laws;
mod objects;
mod shown;
mod undone;
mod view;
mod words;

use expect_test::{Expect, expect};
use serde_json::json;

use super::super::local::Subject;
use crate::names::DISPATCHED;
use crate::reconcile::step::Step;
use crate::workload::jobs::BatchJob;
use view::View;

#[test]
fn rule_0_nothing_is_done_for_a_worker_whose_list_is_not_complete() {
    check(
        "L committed a/u1; a: unsynced R u1 gated; b: -",
        expect!["nothing"],
    );
    check("L; a: unsynced R u1 gated; b: unsynced", expect!["again in 5s"]);
    check("-; a: unsynced R u1 gated; b: -", expect!["nothing"]);
    check(
        "L terminating committed a/u1; a: unsynced; b: -",
        expect!["nothing"],
    );
}

#[test]
fn rule_1_a_gated_copy_goes_once_its_local_pod_is_proven_gone() {
    check(
        "-; a: R u1 gated; b: -",
        expect!["ask the manager whether L1 is gone"],
    );
    check(
        "-; a: R u1 gated; b: -; L1 is gone",
        expect!["delete u1 on a [uid]: its local pod is gone"],
    );
    check(
        "-; a: R u1 gated terminating; b: -; L1 is gone",
        expect!["nothing"],
    );
    check(
        "L of L2 other-gate; a: R u1 gated; b: -",
        expect![[r#"
            ask the manager whether L1 is gone
            say Dispatched=False WaitingForGates"#]],
    );
}

#[test]
fn rule_1_an_opened_copy_of_nobody_is_listed_and_never_deleted_by_guess() {
    check("-; a: R u1 opened; b: -; L1 is gone", expect!["orphan u1 on a"]);
    check(
        "-; a: R u1 opened terminating; b: -; L1 is gone",
        expect!["orphan u1 on a"],
    );
}

#[test]
fn rule_2_prepares_on_the_first_worker_that_takes_it() {
    check("L; a: -; b: -", expect!["prepare on a"]);
    check("L; a: - refuses; b: -", expect!["prepare on b"]);
    check(
        "L; a: - refuses; b: - refuses",
        expect!["say Dispatched=False NoClusterTakesIt\nagain in 2s"],
    );
}

#[test]
fn rule_2_waits_for_other_gates_and_for_the_end_of_an_earlier_copy() {
    check(
        "L other-gate; a: -; b: -",
        expect!["say Dispatched=False WaitingForGates"],
    );
    check("L; a: R u1 gated terminating; b: -", expect!["nothing"]);
}

/// Anyone may put any number of gates on a pod.
#[test]
fn rule_2_names_a_few_of_many_gates_and_counts_the_others() {
    let mut view = View::parse("L; a: -; b: -");
    let gates = view.local.as_mut().unwrap()["spec"]["schedulingGates"]
        .as_array_mut()
        .unwrap();
    gates.extend((1..=500).map(|number| json!({"name": format!("example.com/gate-{number}")})));
    let plan = view.plan();
    let [Step::Mirror { patch, .. }] = &plan.steps[..] else {
        panic!("the pod says why it waits: {:?}", words::lines(&plan));
    };
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let ours = conditions
        .iter()
        .find(|condition| condition["type"] == DISPATCHED)
        .unwrap();
    expect!["waits for other scheduling gates: example.com/gate-1, example.com/gate-2, example.com/gate-3, example.com/gate-4, example.com/gate-5 and 495 more"]
        .assert_eq(ours["message"].as_str().unwrap());
}

#[test]
fn rule_2_nothing_new_without_a_policy() {
    check(
        "L; a: R u1 gated; b: -; not opted in",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
    check(
        "L; a: -; b: -; no policy",
        expect!["say Dispatched=False PolicyNotFound"],
    );
}

#[test]
fn rule_3_commits_a_ready_copy() {
    check("L; a: R u1 gated; b: -", expect!["commit u1 on a [L uid rv]"]);
    check(
        "L attempt 2; a: -; b: R u1 gated attempt 2",
        expect!["commit u1 on b [L uid rv]"],
    );
}

#[test]
fn rule_3_a_void_commit_counts_as_none() {
    check(
        "L committed a/u9 of L9; a: R u1 gated; b: -",
        expect!["commit u1 on a [L uid rv]"],
    );
}

#[test]
fn rule_3_one_of_two_copies_is_kept() {
    check(
        "L; a: R u1 gated; b: R u2 gated",
        expect!["commit u1 on a [L uid rv]"],
    );
}

#[test]
fn rule_3b_a_copy_of_an_older_spec_is_not_committed() {
    check(
        "L; a: R u1 gated stale; b: -",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
}

#[test]
fn rule_3c_an_unwanted_copy_goes_only_after_its_attempt() {
    check(
        "L attempt 1 other-gate; a: R u1 gated attempt 1; b: -",
        expect!["give the attempt up, attempt 2 [L uid rv]"],
    );
    check(
        "L attempt 2 other-gate; a: R u1 gated attempt 1; b: -",
        expect!["delete u1 on a [uid]: of an earlier attempt"],
    );
    check(
        "L; a: R u1 gated; b: -; no policy",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
    check(
        "L; a: R u1 gated; b: -; siblings on b",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
    check(
        "L; a: - ; b: R u1 gated; siblings on b",
        expect!["commit u1 on b [L uid rv]"],
    );
}

#[test]
fn rule_4_an_opened_copy_means_that_the_view_is_old() {
    check(
        "L; a: R u1 opened; b: -",
        expect![[r#"
        look at L
        say Dispatched=False UnrecordedCopy
        again in 2s"#]],
    );
    check(
        "L; a: R u1 opened terminating; b: R u2 gated",
        expect![[r#"
            look at L
            say Dispatched=False UnrecordedCopy
            again in 2s"#]],
    );
    check("L terminating; a: R u1 opened; b: -", expect!["look at L"]);
    check(
        "L other-gate; a: R u1 opened; b: -",
        expect![[r#"
            look at L
            say Dispatched=False UnrecordedCopy
            again in 2s"#]],
    );
    check(
        "L; a: R u1 opened; b: -; not opted in",
        expect![[r#"
            look at L
            say Dispatched=False UnrecordedCopy
            again in 2s"#]],
    );
}

#[test]
fn rule_5_a_copy_of_an_earlier_attempt_goes_opened_or_not() {
    check(
        "L attempt 1; a: R u1 gated; b: -",
        expect!["delete u1 on a [uid]: of an earlier attempt"],
    );
    check(
        "L attempt 1; a: R u1 opened; b: -",
        expect!["delete u1 on a [uid]: of an earlier attempt"],
    );
    check(
        "L attempt 1; a: R u1 opened terminating; b: -",
        expect!["nothing"],
    );
}

#[test]
fn rule_6_a_copy_of_a_later_attempt_means_that_the_view_is_old() {
    check(
        "L; a: R u1 gated attempt 1; b: -",
        expect![[r#"
        look at L
        say Dispatched=False UnrecordedCopy"#]],
    );
    check(
        "L committed a/u1; a: R u1 gated; b: R u2 opened attempt 1",
        expect!["look at L"],
    );
    check(
        "L terminating; a: R u1 gated attempt 1; b: -",
        expect!["look at L"],
    );
}

#[test]
fn rule_15_an_uncommitted_pod_that_ends_takes_its_gated_copies_with_it() {
    check(
        "L terminating; a: R u1 gated; b: R u2 gated",
        expect![[r#"
            delete u1 on a [uid]: local pod ended uncommitted
            delete u2 on b [uid]: local pod ended uncommitted"#]],
    );
    check(
        "L ended; a: R u1 gated; b: -",
        expect!["delete u1 on a [uid]: local pod ended uncommitted"],
    );
    check("L ended; a: R u1 gated terminating; b: -", expect!["nothing"]);
}

#[test]
fn rule_15_the_finalizer_of_a_void_commit_comes_off() {
    check(
        "L terminating committed a/u9 of L9; a: -; b: -",
        expect!["release the finalizer [L uid place rv]"],
    );
}

#[test]
fn rule_16_a_pod_that_names_no_local_pod_is_left_alone() {
    check("-; a: R u1 gated of nobody; b: -", expect!["nothing"]);
    check(
        "L committed b/u2; a: R u1 opened of nobody; b: R u2 gated",
        expect!["open u2 on b [uid gate]"],
    );
}

#[test]
fn rule_17_no_worker_gets_a_second_copy_of_a_name_that_an_earlier_pod_holds() {
    check(
        "L of L2; a: R u1 opened; b: -",
        expect!["ask the manager whether L1 is gone"],
    );
    check(
        "L of L2; a: R u1 opened; b: -; L1 is gone",
        expect!["say Dispatched=False OrphanHoldsName\norphan u1 on a"],
    );
    check(
        "L of L2; a: R u1 opened terminating; b: -; L1 is gone",
        expect!["say Dispatched=False PreviousPodTerminating\norphan u1 on a"],
    );
    check(
        "L of L2; a: - refuses; b: R u1 opened; L1 is gone",
        expect!["say Dispatched=False OrphanHoldsName\norphan u1 on b"],
    );
}

#[test]
fn a_namespace_that_does_not_consent_has_no_copy_of_ours_whatever_a_pod_there_says() {
    check(
        "L of L2; a: -; b: R u1 opened unread; L1 is gone",
        expect!["ask b whether the namespace consents\norphan u1 on b"],
    );
    check(
        "L of L2; a: -; b: R u1 opened strange; L1 is gone",
        expect!["prepare on a"],
    );
    check(
        "L; a: -; b: R u1 opened unread",
        expect!["ask b whether the namespace consents"],
    );
    check("L; a: -; b: R u1 opened strange", expect!["prepare on a"]);
    check(
        "L; a: -; b: R u1 gated attempt 7 strange",
        expect!["prepare on a"],
    );
}

#[test]
fn a_pod_without_our_gate_is_none_of_ours() {
    check("L ungated; a: -; b: -", expect!["nothing"]);
    check(
        "L ungated; a: R u1 gated; b: -",
        expect!["delete u1 on a [uid]: local pod ended uncommitted"],
    );
}

#[test]
fn a_pod_whose_gate_was_removed_by_force_lets_its_copy_go() {
    let committed = "L ungated committed a/u1";
    check(
        &format!("{committed}; a: R u1 opened node; b: -"),
        expect!["delete u1 on a [uid]: its gate was removed by force"],
    );
    check(
        &format!("{committed}; a: R u1 opened node terminating; b: -"),
        expect!["nothing"],
    );
    check(
        &format!("{committed}; a: -; b: R u2 gated"),
        expect!["ask a whether u1 is gone"],
    );
    check(
        &format!("{committed}; a: -; b: -; u1 is gone"),
        expect!["release the finalizer [L uid place]"],
    );
    for unusable in ["unsynced", "lost", "another-cluster"] {
        check(
            &format!("{committed}; a: R u1 opened node {unusable}; b: -"),
            expect!["nothing"],
        );
    }
    check(
        &format!("{committed} no-finalizer; a: R u1 opened node; b: -"),
        expect!["nothing"],
    );
}

/// The view and its plan, as people read them, in words of pods; the same view of jobs gives the same plan.
#[track_caller]
fn check(view: &str, expect: Expect) {
    let pods = planned(Subject::Pod, view);
    assert_eq!(
        words::of_jobs(&pods),
        planned(Subject::Job(&BatchJob), view),
        "a job: {view}"
    );
    expect.assert_eq(&pods);
}

/// As [`check`], for what there is of one of the two only.
#[track_caller]
fn check_of(subject: Subject, view: &str, expect: Expect) {
    expect.assert_eq(&planned(subject, view));
}

/// The only caller of `plan` in these tests.
#[track_caller]
fn planned(subject: Subject, view: &str) -> String {
    let view = View::of(subject, view);
    let first = view.plan();
    assert_eq!(first, view.plan(), "the same view gives the same plan");
    words::lines(&first)
}
