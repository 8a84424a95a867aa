//! What there is of jobs only: suspend follows, and time ends them.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::json;

use super::super::super::local::Subject;
use super::super::super::observed::Heard;
use super::super::super::waits;
use super::view::View;
use super::{check_of, words};
use crate::job::pods::PodsSeen;
use crate::names::DISPATCHED;
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
        expect!["say Dispatched=True RemoteTerminating"],
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

/// A running job of this kind whose worker said this of its pods at the last answer.
fn asked(subject: Subject, seen: PodsSeen) -> View {
    let mut view = View::of(subject, "L committed a/u1 dispatched; a: R u1 opened node; b: -");
    let observed = view.observed(view.now());
    let remote = observed.workers[0].remote.clone().unwrap();
    let since = view.now() - Duration::from_secs(60);
    let doubt = waits::seen(None, Some(&remote), since).unwrap();
    view.memory.doubt = waits::answered(doubt, &remote.uid, remote.untold.unwrap(), Some(seen), view.now());
    view
}

fn wait(words: &str) -> PodsSeen {
    PodsSeen::Wait(words.to_owned())
}

#[test]
fn a_job_that_runs_for_a_while_is_asked_about_once_all_is_written() {
    let mut view = asked(JOB, PodsSeen::Run);
    let remote = view.observed(view.now()).workers[0].remote.clone().unwrap();
    let running = "Dispatched=True Running";
    for (ago, lines) in [
        (9, "again in 1s"),
        (
            10,
            "ask about the pods of u1 on a by batch.kubernetes.io/controller-uid=u1",
        ),
    ] {
        let since = view.now() - Duration::from_secs(ago);
        view.memory.doubt = waits::seen(None, Some(&remote), since).unwrap();
        view.local.as_mut().unwrap()["status"] =
            json!({"conditions": [{"type": DISPATCHED, "status": "True", "reason": "WaitingOnWorker"}]});
        assert!(words::lines(&view.plan()).contains(running), "writes come first");
        let Step::Mirror { patch, .. } = view.plan().steps.remove(0) else {
            panic!("it is mirrored");
        };
        json_patch::merge(view.local.as_mut().unwrap(), &patch);
        assert_eq!(words::lines(&view.plan()), lines, "{ago} s ago");
    }
}

#[test]
fn a_job_says_what_its_pods_wait_for_and_that_it_is_over() {
    let says = |view: &View| {
        let plan = view.plan();
        let [Step::Mirror { patch, .. }] = &plan.steps[..] else {
            panic!("it is mirrored: {plan:?}");
        };
        let ours = patch["status"]["conditions"][0].clone();
        format!(
            "{} {}",
            ours["reason"].as_str().unwrap(),
            ours["message"].as_str().unwrap()
        )
    };
    let waits = asked(JOB, wait("2 pods wait: Unschedulable: 0/2 nodes are available"));
    assert_eq!(
        says(&waits),
        "WaitingOnWorker on a: 2 pods wait: Unschedulable: 0/2 nodes are available"
    );
    for seen in [PodsSeen::Start, PodsSeen::Run] {
        assert_eq!(says(&asked(JOB, seen)), "Running on a");
    }
    // Whatever was said, its own status knows better.
    let mut over = waits.clone();
    over.workers[0].remote.as_mut().unwrap()["status"] = json!({"active": 1, "ready": 1});
    assert_eq!(says(&over), "Running on a");
    let mut suspended = waits.clone();
    for job in [suspended.local.as_mut(), suspended.workers[0].remote.as_mut()] {
        job.unwrap()["spec"]["suspend"] = json!(true);
    }
    assert_eq!(says(&suspended), "Suspended on a");
}

#[test]
fn what_pods_wait_for_is_told_where_there_are_no_conditions() {
    let mut view = asked(RAY, wait("1 pod waits: Unschedulable: no room"));
    assert!(words::lines(&view.plan()).contains("tell WaitingOnWorker"));
    let uid = view.observed(view.now()).local.unwrap().uid.clone();
    view.memory.tell(
        &uid,
        "WaitingOnWorker",
        "on a: 1 pod waits: Unschedulable: no room",
    );
    assert!(!words::lines(&view.plan()).contains("tell"), "once");
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
