//! What there is of jobs only: suspend follows, and time ends them.

use std::time::Instant;

use expect_test::expect;

use super::super::super::local::Subject;
use super::super::super::observed::Heard;
use super::view::View;
use super::{check_of, words};
use crate::reconcile::step::Step;
use crate::workload::jobs::{BatchJob, JobSet, RayJob};

const JOB: Subject = Subject::Job(&BatchJob);
/// Its status has no place for our condition.
const RAY: Subject = Subject::Job(&RayJob);

#[test]
fn a_suspended_job_waits_and_a_ready_copy_of_it_is_given_up() {
    check_of(
        JOB,
        "L other-gate; a: -; b: -",
        expect!["say Dispatched=False Suspended"],
    );
    check_of(
        JOB,
        "L other-gate; a: R u1 gated; b: -",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
}

/// Committed and not opened yet: it is opened, suspended.
#[test]
fn a_job_that_is_suspended_after_its_commit_is_opened_and_stays_suspended() {
    check_of(
        JOB,
        "L other-gate committed a/u1; a: R u1 gated; b: -",
        expect!["open u1 on a [uid gate]"],
    );
}

#[test]
fn suspend_follows_in_both_directions() {
    check_of(
        JOB,
        "L other-gate committed a/u1 dispatched; a: R u1 opened node; b: -",
        expect!["forward to u1 on a [uid opened]\nsay Dispatched=True Running"],
    );
    check_of(
        JOB,
        "L committed a/u1 dispatched; a: R u1 opened suspended; b: -",
        expect!["forward to u1 on a [uid opened]\nsay Dispatched=True Suspended"],
    );
    check_of(
        JOB,
        "L other-gate committed a/u1 dispatched; a: R u1 opened suspended; b: -",
        expect!["say Dispatched=True Suspended"],
    );
    check_of(
        JOB,
        "L other-gate committed a/u1 dispatched; a: R u1 opened node terminating; b: -",
        expect!["say Dispatched=True Running"],
    );
}

/// Its worker dropped `suspend`: it runs, and nobody recorded it.
#[test]
fn a_copy_that_is_not_suspended_is_never_committed() {
    check_of(
        JOB,
        "L; a: R u1 gated loose; b: -",
        expect!["give the attempt up, attempt 1 [L uid rv]"],
    );
    check_of(
        JOB,
        "L attempt 1; a: R u1 gated loose; b: -",
        expect!["delete u1 on a [uid]: of an earlier attempt"],
    );
}

/// Somebody on the worker marks a running copy: no backup brought it, since it is not suspended.
#[test]
fn a_mark_on_a_running_copy_is_taken_off() {
    check_of(
        JOB,
        "L committed a/u1 dispatched; a: R u1 gated loose node; b: -",
        expect!["open u1 on a [uid gate]"],
    );
}

#[test]
fn an_ended_job_goes_when_its_time_is_over_if_nobody_else_does_it() {
    let set = Subject::Job(&JobSet);
    check_of(
        set,
        "L committed a/u1 ended expires 3600; a: R u1 opened ended; b: -",
        expect!["expire [L uid rv]"],
    );
    check_of(
        set,
        "L committed a/u1 ended expires 3600; a: -; b: -",
        expect!["expire [L uid rv]"],
    );
    check_of(
        set,
        "L committed a/u1 ended expires 3660; a: R u1 opened ended; b: -",
        expect!["again in 60s"],
    );
    check_of(
        set,
        "L terminating committed a/u1 ended expires 3600; a: R u1 opened ended; b: -",
        expect!["delete u1 on a [uid]: local pod deleted"],
    );
    check_of(
        JOB,
        "L committed a/u1 ended expires 3600; a: R u1 opened ended; b: -",
        expect!["nothing"],
    );
}

#[test]
fn a_kind_without_conditions_is_told_by_events_each_reason_once() {
    for (view, lines) in [
        ("L other-gate; a: -; b: -", "tell Suspended"),
        ("L; a: -; b: -; no policy", "tell PolicyNotFound"),
        (
            "L; a: - refuses; b: - refuses",
            "tell NoClusterTakesIt\nagain in 2s",
        ),
        ("L; a: -; b: -; manager refused", "tell WriteRefused"),
        (
            "L committed a/u1; a: R u1 opened lost; b: -",
            "tell WorkerUnreachable",
        ),
    ] {
        let mut view = View::of(RAY, view);
        let plan = view.plan();
        assert_eq!(words::lines(&plan), lines);
        let [
            Step::Tell {
                local,
                reason,
                message,
            },
        ] = &plan.steps[..]
        else {
            panic!("one thing is told");
        };
        view.memory.tell(&local.uid, reason, "other words");
        assert_eq!(words::lines(&view.plan()), lines, "{message}");
        view.memory.tell(&local.uid, reason, message);
        view.memory.tell(&local.uid, "Another", message);
        assert!(!words::lines(&view.plan()).contains("tell"), "{message}");
        // What was told of an earlier job of this name was told of another job.
        view.memory.tell(&"L0".into(), reason, message);
        assert_eq!(words::lines(&view.plan()), lines, "{message}");
    }
}

#[test]
fn what_a_worker_says_of_a_copy_is_told_where_there_are_no_conditions() {
    let mut view = View::of(RAY, "L committed a/u1; a: R u1 opened; b: -");
    assert_eq!(words::lines(&view.plan()), "nothing", "it says nothing");
    view.memory.heard = Some(Heard {
        remote: "u1".into(),
        warning: Some("FailedCreate: no room".to_owned()),
        at: Instant::now(),
        same: 0,
    });
    assert_eq!(words::lines(&view.plan()), "tell WaitingOnWorker");
}

/// Where the schema drops `managedBy`, the operator of the manager runs the job and owns its status.
#[test]
fn a_job_that_runs_here_gets_no_copy_and_is_told_by_an_event() {
    for subject in [JOB, RAY] {
        check_of(
            subject,
            "L; a: -; b: -; runs here",
            expect!["tell FieldDropped\nagain in 30s"],
        );
        check_of(
            subject,
            "L; a: R u1 gated; b: -; runs here",
            expect!["give the attempt up, attempt 1 [L uid rv]"],
        );
        check_of(
            subject,
            "L attempt 1; a: R u1 gated; b: -; runs here",
            expect!["delete u1 on a [uid]: of an earlier attempt"],
        );
    }
}
