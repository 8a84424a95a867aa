//! Rules 7 to 14: a committed pod.

use expect_test::expect;

use super::super::super::local::Subject;
use super::words::lines;
use super::{check, check_of};
use crate::reconcile::step::Step;
use crate::workload::jobs::BatchJob;

#[test]
fn rule_7_opens_the_committed_copy_and_only_that() {
    check(
        "L committed a/u1; a: R u1 gated; b: -",
        expect!["open u1 on a [uid gate]"],
    );
    check(
        "L committed a/u1; a: R u1 gated; b: -; not opted in",
        expect!["open u1 on a [uid gate]"],
    );
    check(
        "L committed a/u1; a: R u1 gated terminating; b: -",
        expect!["nothing"],
    );
    check(
        "L committed a/u1; a: R u1 gated another-cluster; b: -",
        expect!["say Dispatched=False WorkerUnreachable"],
    );
}

#[test]
fn what_follows_an_opening_at_once_is_mirrored_together() {
    let at = |ago: &str| format!("L committed a/u1; a: R u1 opened; b: -; opened u1 {ago} ago");
    check_of(Subject::Pod, &at("100ms"), expect!["again in 400ms"]);
    check_of(Subject::Job(&BatchJob), &at("100ms"), expect!["again in 1.9s"]);
    check_of(
        Subject::Pod,
        &at("500ms"),
        expect!["say Dispatched=True WaitingOnWorker\nagain in 300s"],
    );
    check(
        &at("2s"),
        expect!["say Dispatched=True WaitingOnWorker\nagain in 300s"],
    );
    check(
        "L committed a/u1; a: R u1 opened node; b: -; opened u1 100ms ago",
        expect!["mirror Dispatched=True Scheduled phase=Running"],
    );
    check(
        "L committed a/u1; a: R u1 opened; b: -; opened u9 100ms ago",
        expect!["say Dispatched=True WaitingOnWorker\nagain in 300s"],
    );
}

#[test]
fn what_the_manager_refuses_is_said_before_it_is_tried_again() {
    check(
        "L committed a/u1; a: R u1 opened node; b: -; manager refused",
        expect!["say Dispatched=True WriteRefused"],
    );
    let mut view = super::view::View::parse("L committed a/u1; a: R u1 opened node; b: -; manager refused");
    let Step::Mirror { patch, .. } = &view.plan().steps[0] else {
        panic!("it says something");
    };
    view.local.as_mut().unwrap()["status"] = patch["status"].clone();
    expect!["mirror Dispatched=True Scheduled phase=Running"].assert_eq(&lines(&view.plan()));
    check(
        "L; a: R u1 gated; b: -; manager refused",
        expect!["say Dispatched=False WriteRefused"],
    );
}

#[test]
fn rule_7_a_copy_that_was_seen_open_is_never_opened_again() {
    check(
        "L committed a/u1 dispatched; a: R u1 gated; b: -",
        expect!["ask a whether u1 is gone"],
    );
    check(
        "L committed a/u1 dispatched; a: R u1 gated; b: -; u1 is gated",
        expect!["fail RemoteRolledBack [L uid rv]"],
    );
}

#[test]
fn rule_8_takes_back_what_was_not_scheduled_in_time_if_there_is_somewhere_to_go() {
    check_of(
        Subject::Pod,
        "L committed a/u1; a: R u1 opened unscheduled 6m; b: -",
        expect![[r#"
            say Dispatched=True WaitingOnWorker
            take back u1 on a [uid rv]"#]],
    );
    check_of(
        Subject::Pod,
        "L committed a/u1; a: R u1 opened unscheduled 6m; b: - refuses",
        expect![[r#"
            say Dispatched=True WaitingOnWorker
            again in 10s"#]],
    );
    check_of(
        Subject::Pod,
        "L committed a/u1; a: R u1 opened unscheduled 2m; b: -",
        expect![[r#"
            say Dispatched=True WaitingOnWorker
            again in 180s"#]],
    );
    check_of(
        Subject::Pod,
        "L committed a/u1; a: R u1 opened terminating unscheduled 6m; b: -",
        expect!["say Dispatched=True RemoteTerminating"],
    );
    check_of(
        Subject::Pod,
        "L committed a/u1; a: R u1 opened node unscheduled 6m; b: -",
        expect!["mirror Dispatched=True Scheduled phase=Running"],
    );
}

#[test]
fn rule_9_only_who_saw_the_take_back_succeed_clears_the_commit() {
    check(
        "L committed a/u1; a: -; b: -; took back u1",
        expect!["ask a whether u1 is gone"],
    );
    check(
        "L committed a/u1; a: -; b: -; took back u1; u1 is gone",
        expect!["clear the commit, attempt 1 [L uid rv]"],
    );
    check(
        "L committed a/u2 attempt 1; a: -; b: -; took back u1; u1 is gone",
        expect!["ask a whether u2 is gone"],
    );
    check(
        "L committed a/u1 dispatched; a: -; b: -; took back u1; u1 is gone",
        expect!["clear the commit, attempt 1 [L uid rv]"],
    );
}

#[test]
fn rule_9_what_a_taken_back_copy_showed_is_not_shown_for_the_next() {
    check(
        "L attempt 1 dispatched; a: -; b: R u2 gated attempt 1",
        expect!["say Dispatched=False TakenBack"],
    );
}

#[test]
fn rule_10_mirrors_the_end() {
    check(
        "L committed a/u1; a: R u1 opened node ended; b: -",
        expect!["mirror Dispatched=True Scheduled phase=Succeeded"],
    );
    check(
        "L committed a/u1; a: -; b: -; u1 ended; u1 is gone",
        expect!["mirror Dispatched=True Finished phase=Succeeded"],
    );
    check(
        "L committed a/u1 ended; a: R u1 opened node ended; b: -",
        expect!["nothing"],
    );
}

#[test]
fn rule_11_fails_only_when_the_committed_copy_is_proven_gone() {
    check(
        "L committed a/u1; a: -; b: -",
        expect!["ask a whether u1 is gone"],
    );
    check(
        "L committed a/u1; a: -; b: -; u1 is gone",
        expect!["fail RemotePodDeleted [L uid rv]"],
    );
    check(
        "L committed a/u1 ended; a: -; b: -; u1 is gone",
        expect!["nothing"],
    );
    check(
        "L committed a/u1; a: lost; b: -; u1 is gone",
        expect!["say Dispatched=False WorkerUnreachable"],
    );
}

#[test]
fn rule_12_copies_beside_the_committed_one_go_unless_they_are_newer() {
    check(
        "L committed a/u1 attempt 1; a: R u1 gated attempt 1; b: R u2 gated attempt 1",
        expect!["delete u2 on b [uid]: another copy is committed\nopen u1 on a [uid gate]"],
    );
    check(
        "L committed a/u1 attempt 1; a: R u1 gated attempt 1; b: R u2 opened",
        expect!["delete u2 on b [uid]: another copy is committed\nopen u1 on a [uid gate]"],
    );
    check(
        "L committed a/u1; a: R u1 gated; b: R u2 opened attempt 1",
        expect!["look at L"],
    );
    check(
        "L committed a/u1; a: R u2 gated; b: -; u1 is gone",
        expect!["delete u2 on a [uid]: another copy is committed\nfail RemotePodDeleted [L uid rv]"],
    );
}

#[test]
fn marks_that_somebody_changed_on_the_committed_copy_are_put_back() {
    check(
        "L committed a/u1; a: R u1 opened node unlabelled; b: -",
        expect!["mark u1 on a [uid] attempt 0"],
    );
    check(
        "L committed a/u1; a: R u1 opened node attempt 99; b: -",
        expect!["mark u1 on a [uid] attempt 0"],
    );
    check(
        "L terminating committed a/u1; a: R u1 opened node of other; b: -",
        expect!["mark u1 on a [uid] attempt 0"],
    );
}

#[test]
fn rule_13_a_pod_that_is_deleted_takes_its_copy_with_it() {
    check(
        "L terminating committed a/u1; a: R u1 opened node; b: -",
        expect!["delete u1 on a [uid]: local pod deleted\nmirror Dispatched=True Terminating"],
    );
    check(
        "L terminating committed a/u1; a: R u1 gated; b: -",
        expect![[r#"
            delete u1 on a [uid]: local pod deleted
            say Dispatched=True Terminating"#]],
    );
    check(
        "L terminating committed a/u1; a: R u1 opened node terminating; b: -",
        expect!["mirror Dispatched=True Terminating"],
    );
}

#[test]
fn rule_13_a_finished_pod_keeps_its_copy_for_keep_finished() {
    check(
        "L committed a/u1 ended; a: R u1 opened node ended; b: -; keep 2h",
        expect!["again in 3601s"],
    );
    check(
        "L committed a/u1 ended; a: R u1 opened node ended; b: -; keep 30m",
        expect!["delete u1 on a [uid]: keepFinished is over"],
    );
    check(
        "L committed a/u1 ended; a: R u1 opened node ended terminating; b: -; keep 30m",
        expect!["nothing"],
    );
}

#[test]
fn rule_14_the_last_state_is_shown_before_the_finalizer_comes_off() {
    check(
        "L terminating committed a/u1; a: -; b: -; u1 ended; u1 is gone",
        expect!["mirror Dispatched=True Finished phase=Succeeded"],
    );
}

#[test]
fn rule_14_the_finalizer_comes_off_when_the_copy_is_proven_gone() {
    check(
        "L terminating committed a/u1; a: -; b: -",
        expect!["ask a whether u1 is gone"],
    );
    check(
        "L terminating committed a/u1; a: -; b: -; u1 is gone",
        expect!["release the finalizer [L uid place]"],
    );
    check(
        "L terminating ended committed a/u1; a: -; b: -; u1 is gone",
        expect!["release the finalizer [L uid place]"],
    );
    check(
        "L terminating committed a/u1; a: lost; b: -; u1 is gone",
        expect!["say Dispatched=False WorkerUnreachable"],
    );
    check(
        "L terminating committed a/u1 no-finalizer; a: -; b: -; u1 is gone",
        expect!["nothing"],
    );
}

#[test]
fn rule_13_a_copy_that_still_runs_goes_when_somebody_else_ended_its_pod() {
    check(
        "L committed a/u1 ended; a: R u1 opened node; b: -",
        expect!["delete u1 on a [uid rv]: its local pod was ended"],
    );
    check(
        "L committed a/u1 ended; a: R u1 gated; b: -",
        expect!["delete u1 on a [uid rv]: its local pod was ended"],
    );
    check(
        "L committed a/u1 ended; a: R u1 opened node terminating; b: -; keep 30m",
        expect!["nothing"],
    );
}

/// No Event tells that somebody else ended it.
#[test]
fn rule_13_a_copy_whose_object_we_failed_goes_for_that_reason() {
    check(
        "L committed a/u1 ended lost; a: R u1 gated; b: -",
        expect!["delete u1 on a [uid rv]: its local pod has failed"],
    );
}

#[test]
fn rule_8_what_had_a_node_or_has_siblings_there_is_not_taken_back() {
    for view in [
        "L committed a/u1 scheduled-before; a: R u1 opened unscheduled 6m; b: -",
        "L committed a/u1; a: R u1 opened unscheduled 6m; b: -; siblings scheduled",
        "L committed a/u1; a: R u1 opened ended unscheduled 6m; b: -",
    ] {
        let plan = super::view::View::parse(view).plan();
        let takes_back = |step: &Step| matches!(step, Step::TakeBack { .. });
        assert!(!plan.steps.iter().any(takes_back), "{view}");
        assert_eq!(plan.look_again, None, "{view}");
    }
}

#[test]
fn rule_14_the_copy_of_a_pod_that_ended_is_asked_for_before_the_finalizer_goes() {
    check(
        "L terminating ended committed a/u1; a: -; b: -",
        expect!["ask a whether u1 is gone"],
    );
    check("L ended committed a/u1; a: -; b: -", expect!["nothing"]);
}
