//! The gang of a whole job: which worker it may go to, and what its opening waits for.

use std::time::Instant;

use expect_test::expect;
use serde_json::json;

use super::super::super::local::Subject;
use super::check_of;
use super::view::View;
use crate::names::GANG_SCHEDULING;
use crate::reconcile::step::Step;
use crate::workload::jobs::BatchJob;

const JOB: Subject = Subject::Job(&BatchJob);

#[test]
fn a_copy_is_opened_once_its_group_stands() {
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated gangs awaits; b: -; asks for a gang",
        expect!["again in 30s"],
    );
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated gangs group-refused; b: -; asks for a gang",
        expect!["say Dispatched=False WaitingForPodGroup\nagain in 30s"],
    );
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated gangs stands; b: -; asks for a gang",
        expect!["open u1 on a [uid gate]"],
    );
    check_of(
        JOB,
        "L committed a/u1 dispatched; a: R u1 gated gangs stands; b: -; asks for a gang",
        expect!["ask a whether u1 is gone"],
    );
}

/// Its WorkerCluster names no gang scheduler any more, but the copy has its marks (`Gangs::of_copy` says so).
#[test]
fn a_copy_whose_gang_scheduler_went_is_not_opened_without_its_group() {
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated group-refused; b: -; asks for a gang",
        expect!["say Dispatched=False WaitingForPodGroup\nagain in 30s"],
    );
    check_of(
        JOB,
        "L terminating committed a/u1; a: R u1 gated group-refused; b: -; asks for a gang",
        expect!["delete u1 on a [uid]: local pod deleted\nsay Dispatched=True Terminating"],
    );
}

#[test]
fn what_waits_for_its_group_is_still_deleted_and_lost_as_any_other() {
    check_of(
        JOB,
        "L terminating committed a/u1; a: R u1 gated gangs awaits; b: -; asks for a gang",
        expect!["delete u1 on a [uid]: local pod deleted\nsay Dispatched=True Terminating"],
    );
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated gangs awaits; b: R u2 gated; asks for a gang",
        expect!["delete u2 on b [uid]: another copy is committed\nagain in 30s"],
    );
    check_of(
        JOB,
        "L committed a/u1; a: lost R u1 gated gangs awaits; b: -; asks for a gang",
        expect!["say Dispatched=False WorkerUnreachable"],
    );
}

#[test]
fn a_worker_without_a_gang_scheduler_is_told_once() {
    let text = "L committed a/u1; a: R u1 gated; b: -; asks for a gang";
    check_of(JOB, text, expect!["tell GangUnsupported"]);
    let mut view = View::of(JOB, text);
    let Some(Step::Tell { reason, message, .. }) = view.plan().steps.first().cloned() else {
        panic!("it is told");
    };
    assert!(
        message.starts_with("a: its WorkerCluster names no gang scheduler"),
        "{message}"
    );
    view.memory.tell(&"L1".into(), &reason, &message);
    assert!(matches!(view.plan().steps[..], [Step::Open { .. }]));
    check_of(
        JOB,
        "L committed a/u1; a: R u1 gated; b: -",
        expect!["open u1 on a [uid gate]"],
    );
}

/// The marks are part of the copy, and another scheduler gives other marks.
#[test]
fn a_ready_copy_of_another_gang_scheduler_is_given_up() {
    let mut view = View::of(JOB, "L; a: R u1 gated gangs; b: -; asks for a gang");
    assert!(
        matches!(view.plan().steps[..], [Step::Commit { .. }]),
        "it is no gang"
    );
    let local = view.local.as_mut().unwrap();
    local["metadata"]["annotations"][GANG_SCHEDULING] = "true".into();
    local["spec"]["template"] = json!({"spec": {"containers": [{"name": "main"}]}});
    assert!(
        matches!(view.plan().steps[..], [Step::GiveUp { .. }]),
        "made without marks"
    );
    view.workers[0].remote = None;
    let observed = view.observed(Instant::now());
    assert!(observed.workers[0].gangs.maker().is_some());
    let Some(Step::Prepare { copy, .. }) = view.plan().steps.first().cloned() else {
        panic!("it is prepared");
    };
    let template = &copy["spec"]["template"];
    assert_eq!(
        template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"],
        "p"
    );
    assert_eq!(template["spec"]["schedulerName"], "scheduler-plugins-scheduler");
    assert_eq!(copy["spec"]["suspend"], true);
    let mut made = (*copy).clone();
    made["metadata"]["uid"] = "u2".into();
    made["metadata"]["resourceVersion"] = "8".into();
    view.workers[0].remote = Some(made);
    assert!(
        matches!(view.plan().steps[..], [Step::Commit { .. }]),
        "as it would be made now"
    );
}

#[test]
fn as_long_as_a_workers_gang_scheduler_is_not_known_a_ready_copy_waits() {
    check_of(
        JOB,
        "L; a: R u1 gated gangs-unknown; b: -; asks for a gang",
        expect!["again in 1s"],
    );
    check_of(
        JOB,
        "L; a: R u1 gated gangs-unknown; b: -",
        expect!["commit u1 on a [L uid rv]"],
    );
}

/// It would run as what it is not.
#[test]
fn a_job_whose_gang_cannot_be_made_gets_no_copy() {
    let mut view = View::of(JOB, "L; a: R u1 gated gangs; b: -; asks for a gang");
    let local = view.local.as_mut().unwrap();
    local["metadata"]["annotations"][GANG_SCHEDULING] = "true".into();
    local["spec"]["template"] = json!({"spec": {"containers": [{"name": "main"}]}});
    local["spec"]["parallelism"] = (i64::from(i32::MAX) + 1).into();
    assert!(
        matches!(view.plan().steps[..], [Step::GiveUp { .. }]),
        "its worker had no gang scheduler when it was made"
    );
    view.workers[0].remote = None;
    let plan = view.plan();
    let [Step::Mirror { patch, .. }] = &plan.steps[..] else {
        panic!("it says why it waits: {:?}", plan.steps);
    };
    let said = patch.to_string();
    for words in ["InvalidJob", "spec.parallelism: found 2147483648"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(plan.look_again, None, "the job has to change first");
}
