//! What there is of jobs only: suspend follows, and time ends them.

use expect_test::expect;

use super::super::super::local::Subject;
use super::check_of;
use crate::workload::jobs::{BatchJob, JobSet};

const JOB: Subject = Subject::Job(&BatchJob);

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
