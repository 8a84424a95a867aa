//! What people read: where a pod is, and what keeps it from being ready.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::super::local::{RemoteObject, Subject};
use super::super::super::observed::{GangSeen, GangsThere, Heard, Memory, RefusedStatus, WorkerSeen};
use super::super::{gist, mirror_pod_ips, opened};
use super::view::View;
use crate::reconcile::step::Step;
use crate::workload::jobs::BatchJob;

fn worker() -> WorkerSeen {
    WorkerSeen {
        name: "a".into(),
        cluster_uid: "a-uid".into(),
        synced: true,
        lost: None,
        accepts: Some(true),
        remote: None,
        gangs: GangsThere::default(),
        gang: GangSeen::default(),
    }
}

fn copy(node: Option<&str>, ready: bool, unschedulable: Option<&str>) -> RemoteObject {
    let mut conditions = vec![json!({"type": "Ready", "status": if ready { "True" } else { "False" }})];
    conditions.extend(unschedulable.map(|message| {
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message})
    }));
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u1", "resourceVersion": "7"},
        "spec": {"containers": []},
        "status": {"phase": "Pending", "conditions": conditions},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = Value::from(node);
    }
    RemoteObject::parse(Subject::Pod, pod.to_string().into()).unwrap()
}

fn heard(of: &str, warning: &str) -> Memory {
    Memory {
        heard: Some(Heard {
            remote: of.into(),
            warning: Some(warning.to_owned()),
            at: Instant::now(),
            same: 0,
        }),
        ..Memory::default()
    }
}

#[test]
fn a_pod_says_where_it_is() {
    let nothing = Memory::default();
    let at = |node| opened::on_worker(&worker(), &copy(node, true, None), &nothing);
    assert_eq!(at(Some("node-1")), "on a, node node-1");
    assert_eq!(at(None), "on a");
}

#[test]
fn a_pod_says_what_it_waits_for_and_the_last_warning_if_that_is_news() {
    let waits = copy(None, false, Some("0/2 nodes are available"));
    let says = |memory: &Memory, pod: &RemoteObject| opened::on_worker(&worker(), pod, memory);
    let alone = says(&Memory::default(), &waits);
    assert!(
        alone.starts_with("on a: ") && alone.contains("0/2 nodes are available"),
        "{alone}"
    );
    let same = heard("u1", "FailedScheduling: 0/2 nodes are available");
    assert_eq!(says(&same, &waits), alone, "the same words are not told twice");
    let news = heard("u1", "FailedMount: no such secret");
    assert_eq!(
        says(&news, &waits),
        format!("{alone}; FailedMount: no such secret")
    );
    let runs = copy(Some("node-1"), false, None);
    assert_eq!(says(&news, &runs), "on a: FailedMount: no such secret");
    assert_eq!(
        says(&heard("u9", "FailedMount: no such secret"), &runs),
        "on a, node node-1",
        "another pod's"
    );
    let ready = copy(Some("node-1"), true, None);
    assert_eq!(says(&news, &ready), "on a, node node-1", "it got over it");
}

#[test]
fn pod_addresses_are_shown_only_where_the_policy_says_so() {
    for (policy, shown) in [
        ("", false),
        ("; mirror pod IPs", true),
        ("; not opted in", false),
        ("; no policy", false),
    ] {
        let view = View::parse(&format!("L committed a/u1; a: R u1 opened node; b: -{policy}"));
        assert_eq!(mirror_pod_ips(&view.observed(Instant::now())), shown, "{policy}");
    }
}

/// R49: a schema on the manager lacks a field that the worker's has.
#[test]
fn what_the_manager_does_not_keep_is_written_once() {
    let text = "L committed a/u1 dispatched; a: R u1 opened node; b: -";
    let mut view = View::of(Subject::Job(&BatchJob), text);
    let plan = view.plan();
    let [Step::Mirror { local, patch }] = &plan.steps[..] else {
        panic!("one write: {:?}", plan.steps);
    };
    let mut later = patch.clone();
    for condition in later["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = "2030-01-01T00:00:00Z".into();
    }
    let remember = |uid: &str, patch: &Value| Some((uid.into(), gist(patch).into()));
    view.memory.unkept = remember(&local.uid, &later);
    assert!(view.plan().steps.is_empty(), "{:?}", view.plan());
    view.memory.unkept = remember("another", patch);
    assert_eq!(view.plan().steps.len(), 1, "it was another job's");
    view.memory.unkept = remember(&local.uid, patch);
    view.workers[0].remote.as_mut().unwrap()["status"]["failed"] = 3.into();
    assert_eq!(view.plan().steps.len(), 1, "it says more now");
}

#[test]
fn a_status_that_the_manager_refuses_is_not_tried_before_its_pause_is_over() {
    let text = "L committed a/u1 dispatched; a: R u1 opened node; b: -";
    let mut view = View::of(Subject::Job(&BatchJob), text);
    let plan = view.plan();
    let [Step::Mirror { local, patch }] = &plan.steps[..] else {
        panic!("one write: {:?}", plan.steps);
    };
    let refused = |pause: Duration| RefusedStatus {
        uid: local.uid.clone(),
        gist: gist(patch).into(),
        until: Instant::now() + pause,
        before: 3,
    };
    view.memory.refused = Some(refused(Duration::from_secs(1 << 30)));
    let waits = view.plan();
    assert!(waits.steps.is_empty(), "{waits:?}");
    assert!(
        waits
            .look_again
            .is_some_and(|pause| pause > Duration::from_secs(300))
    );
    view.memory.refused = Some(refused(Duration::ZERO));
    assert_eq!(view.plan().steps.len(), 1, "its time has come");
    view.memory.refused = Some(refused(Duration::from_secs(1 << 30)));
    view.workers[0].remote.as_mut().unwrap()["status"]["failed"] = 3.into();
    assert_eq!(view.plan().steps.len(), 1, "another status may be taken");
}

/// Its end is told before the finalizer goes, but nothing more of it will ever be kept.
#[test]
fn what_the_manager_does_not_keep_holds_no_finalizer() {
    let text = "L terminating committed a/u1; a: -; b: -; u1 ended; u1 is gone";
    let mut view = View::of(Subject::Job(&BatchJob), text);
    let plan = view.plan();
    let [Step::Mirror { local, patch }] = &plan.steps[..] else {
        panic!("its end: {:?}", plan.steps);
    };
    view.memory.unkept = Some((local.uid.clone(), gist(patch).into()));
    let plan = view.plan();
    assert!(
        matches!(plan.steps[..], [Step::ReleaseFinalizer { .. }]),
        "{plan:?}"
    );
}
