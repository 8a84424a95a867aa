//! Laws over all views: a plan whose answers were absorbed leads to rest, and never opens two copies on its way.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::super::local::{RemoteObject, Subject};
use super::objects::commit;
use super::view::View;
use crate::names;
use crate::reconcile::step::Step;
use crate::workload::jobs::BatchJob;

const LOCALS: [&str; 12] = [
    "-",
    "L",
    "L attempt 1",
    "L other-gate",
    "L ended",
    "L terminating",
    "L committed a/u1",
    "L committed a/u1 dispatched",
    "L committed a/u1 attempt 1",
    "L committed a/u1 ended",
    "L terminating committed a/u1",
    "L committed a/u9 of L9",
];
const REMOTES: [&str; 10] = [
    "-",
    "R u1 gated",
    "R u1 gated stale",
    "R u1 gated terminating",
    "R u1 opened",
    "R u1 opened node",
    "R u1 opened node ended",
    "R u1 gated attempt 1",
    "R u1 opened node attempt 1",
    "R u1 opened of L7",
];
const MEMORIES: [&str; 4] = ["", "; took back u1", "; L7 is gone", "; not opted in"];

/// Turns until nothing changes any more; more than any pair needs.
const MOST_TURNS: usize = 20;

#[test]
fn every_view_comes_to_rest() {
    let mut count = 0;
    for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
        for local in LOCALS {
            for a in REMOTES {
                for b in REMOTES {
                    for memory in MEMORIES {
                        let b = b.replace("u1", "u2");
                        rests(subject, &format!("{local}; a: {a}; b: {b}{memory}"));
                        count += 1;
                    }
                }
            }
        }
    }
    assert_eq!(
        count,
        2 * LOCALS.len() * REMOTES.len() * REMOTES.len() * MEMORIES.len()
    );
}

/// A worker that drops `suspend` runs the copy at once, so it never keeps one.
#[test]
fn a_loose_copy_goes_and_the_next_is_on_another_worker() {
    let end = rests(Subject::Job(&BatchJob), "L; a: R u1 gated loose refuses; b: -");
    let annotations = &end.local.unwrap()["metadata"]["annotations"];
    assert_eq!(
        (&annotations[names::CLUSTER], &annotations[names::ATTEMPT]),
        (&json!("b"), &json!("1"))
    );
    assert_eq!(end.workers[0].remote, None);
}

#[test]
fn what_is_taken_back_is_opened_elsewhere() {
    let end = rests(
        Subject::Pod,
        "L committed a/u1 dispatched; a: R u1 opened unscheduled 6m; b: -",
    );
    let local = end.local.unwrap();
    assert_eq!(local["metadata"]["annotations"][names::CLUSTER], "b");
    assert_eq!(local["metadata"]["annotations"][names::ATTEMPT], "1");
    assert_eq!(local["status"]["phase"], "Pending");
}

fn rests(subject: Subject, text: &str) -> View {
    let mut view = View::of(subject, text);
    let mut opened = BTreeSet::new();
    for _ in 0..MOST_TURNS {
        let plan = view.plan();
        assert_eq!(plan, view.plan(), "{text}: the same view gives the same plan");
        let reads_only = plan
            .steps
            .iter()
            .all(|step| matches!(step, Step::LookAtLocal { .. }));
        if reads_only {
            return view; // at rest, or a view that only time makes newer
        }
        for step in &plan.steps {
            if let Step::Open { remote, .. } = step {
                opened.insert(remote.uid.clone());
            }
            absorb(&mut view, step);
        }
        assert!(opened.len() <= 1, "{text}: opened {opened:?}");
    }
    panic!("{text}: still {}", super::words::lines(&view.plan()));
}

/// What the API servers would make of the step.
fn absorb(view: &mut View, step: &Step) {
    match step {
        Step::Prepare { worker, copy, .. } => {
            let mut pod = (**copy).clone();
            pod["metadata"]["uid"] = format!("new-{worker}").into();
            pod["metadata"]["resourceVersion"] = "70".into();
            if view.subject == Subject::Pod {
                pod["status"] = json!({"phase": "Pending"});
            }
            set(view, worker, Some(pod));
        }
        Step::Commit { remote, .. } => {
            let local = view.local.as_mut().unwrap();
            let uid = local["metadata"]["uid"].as_str().unwrap().to_owned();
            commit(local, &remote.worker, &remote.uid, &uid);
        }
        Step::GiveUp { attempt, .. } => {
            view.local.as_mut().unwrap()["metadata"]["annotations"][names::ATTEMPT] =
                attempt.to_string().into();
        }
        Step::Open { remote, patch, .. } | Step::Forward { remote, patch, .. } => {
            let mut object = get(view, &remote.worker).unwrap();
            let patch: json_patch::Patch = serde_json::from_value((**patch).clone()).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
            set(view, &remote.worker, Some(object));
        }
        Step::Expire { .. } => {
            view.local.as_mut().unwrap()["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        }
        Step::Remark {
            remote,
            origin,
            local,
            attempt,
        } => {
            let mut pod = get(view, &remote.worker).unwrap();
            pod["metadata"]["labels"][names::ORIGIN] = (&**origin).into();
            pod["metadata"]["annotations"][names::LOCAL_UID] = (&*local.uid).into();
            pod["metadata"]["annotations"][names::LOCAL_ATTEMPT] = attempt.to_string().into();
            set(view, &remote.worker, Some(pod));
        }
        Step::Delete { remote, .. } => set(view, &remote.worker, None),
        Step::TakeBack { remote, .. } => {
            set(view, &remote.worker, None);
            view.refuse(&remote.worker);
            view.memory.taken_back.insert(remote.uid.clone());
        }
        Step::ClearCommit { attempt, .. } => {
            let metadata = &mut view.local.as_mut().unwrap()["metadata"];
            metadata["annotations"] = json!({names::ATTEMPT: attempt.to_string()});
            metadata["finalizers"] = json!([]);
        }
        Step::Mirror { patch, .. } | Step::Fail { patch, .. } => {
            json_patch::merge(view.local.as_mut().unwrap(), patch);
        }
        Step::ReleaseFinalizer { .. } => view.local = None,
        Step::ProveRemoteGone { remote, cluster_uid } => {
            let there = get(view, &remote.worker).filter(|pod| pod["metadata"]["uid"] == *remote.uid);
            if let Some(object) = there {
                let seen = RemoteObject::parse(view.subject, object.to_string().into()).unwrap();
                assert!(seen.gate.is_some(), "it is seen there, open");
                view.memory.rolled_back.insert(remote.uid.clone());
                return;
            }
            view.memory
                .remote_gone
                .insert((cluster_uid.clone(), remote.uid.clone()));
        }
        Step::ProveLocalGone { uid, .. } => {
            view.memory.local_gone.insert(uid.clone());
        }
        Step::Tell {
            local,
            reason,
            message,
        } => view.memory.tell(&local.uid, reason, message),
        Step::LookAtLocal { .. } | Step::AskConsent { .. } | Step::AskPods { .. } => {}
    }
}

fn get(view: &View, worker: &str) -> Option<Value> {
    view.workers
        .iter()
        .find(|found| &*found.name == worker)?
        .remote
        .clone()
}

fn set(view: &mut View, worker: &str, remote: Option<Value>) {
    let found = view.workers.iter_mut().find(|found| &*found.name == worker);
    found.expect("a worker of the view").remote = remote;
}
