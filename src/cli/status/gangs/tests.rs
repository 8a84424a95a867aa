//! Jobs and what is beside them -> the lines of the table.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::workload::jobs::{BatchJob, MpiJob};

const GROUP: &str = "train";

fn job(edit: impl FnOnce(&mut Value)) -> Value {
    let template = json!({
        "metadata": {"labels": {names::POD_GROUP: GROUP, "scheduling.x-k8s.io/pod-group": GROUP}},
        "spec": {"containers": [{"name": "main"}]},
    });
    let mut job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "n", "uid": "j1", "annotations": {}},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    });
    edit(&mut job);
    job
}

fn around() -> Around {
    Around {
        label: Some("coscheduling".to_owned()),
        served: gang::Served {
            coscheduling: true,
            ..gang::Served::default()
        },
        classes: Some(PriorityClasses::default()),
        ..Around::default()
    }
}

/// The group, made by us for the job.
fn stands(seen: &mut Around) {
    let owner = json!({"uid": "j1", "controller": true, "kind": "MPIJob", "name": "train"});
    let group =
        json!({"metadata": {"name": GROUP, "labels": {names::JOB_UID: "j1"}, "ownerReferences": [owner]}});
    seen.groups.insert((COSCHEDULING.group, GROUP.to_owned()), group);
}

fn pod(seen: &mut Around, phase: &str, node: Option<&str>) {
    let pod = json!({
        "metadata": {"labels": {names::POD_GROUP: GROUP}},
        "spec": {"containers": [], "nodeName": node}, "status": {"phase": phase},
    });
    seen.count(&serde_json::from_value(pod).unwrap());
}

fn held(job: &mut Value) {
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    job["spec"]["runPolicy"]["suspend"] = true.into();
}

fn unmarked(job: &mut Value) {
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = json!({});
}

fn event(seconds: i64, reason: &str, note: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": "e", "namespace": "n"}, "reason": reason, "note": note,
        "regarding": {"uid": "j1"}, "eventTime": format!("2026-01-01T00:00:0{seconds}.000000Z"),
    }))
    .unwrap()
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)]
fn check(job: Value, seen: &Around, expect: Expect) {
    let lines: Vec<_> = line(&MpiJob, &job, seen).into_iter().collect();
    let rows: Vec<_> = lines.iter().map(GangLine::cells).collect();
    expect.assert_eq(&crate::cli::table::table(GangLine::COLUMNS, &rows));
}

/// State and cause.
fn said(job: &Value, seen: &Around) -> String {
    let [_, _, _, _, state, why] = line(&MpiJob, job, seen).unwrap().cells();
    format!("{state} {why}")
}

#[test]
fn a_job_is_held_waits_runs_and_ends() {
    let mut seen = around();
    seen.hear(event(2, "PodGroupRefused", "create: quota"));
    seen.hear(event(1, "WaitingForOldGroup", "an older one"));
    check(
        job(held),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE   WHY
        n           MPIJob train   coscheduling   -          Held    PodGroupRefused: create: quota
    "#]],
    );
    seen.hear(event(3, "PodGroupCreated", "news"));
    stands(&mut seen);
    pod(&mut seen, "Pending", None);
    pod(&mut seen, "Failed", None);
    check(
        job(|_| ()),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   train      Waiting   1 of 2 pods are there, none has a node
    "#]],
    );
    pod(&mut seen, "Running", Some("node"));
    check(
        job(|_| ()),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   train      Running   -
    "#]],
    );
    let ended = job(|job| {
        let succeeded = json!([{"type": "Succeeded", "status": "True"}]);
        job["status"] = json!({"completionTime": "2026-01-02T03:04:05Z", "conditions": succeeded});
    });
    check(ended, &seen, expect![""]);
}

#[test]
fn a_cause_that_is_over_is_not_told() {
    let held = job(held);
    let suspended = job(|job| job["spec"]["runPolicy"]["suspend"] = true.into());
    let runs = job(|_| ());
    let bare = job(unmarked);
    let waits = "Waiting 0 of 2 pods are there, none has a node";
    for (job, reason, sentence, group_stands, expected) in [
        (&held, "WaitingForPodGroup", "", false, "Held -"),
        (
            &held,
            "PodGroupConflict",
            "taken",
            false,
            "Held PodGroupConflict: taken",
        ),
        (&held, "PodGroupConflict", "taken", true, "Held -"),
        (&held, "PodGroupRefused", "create: no", true, "Held -"),
        (
            &held,
            "PodGroupRefused",
            "release: no",
            true,
            "Held PodGroupRefused: release: no",
        ),
        (&suspended, "PodGroupRefused", "create: no", false, "Suspended -"),
        (
            &suspended,
            "PodGroupRefused",
            "delete: no",
            true,
            "Suspended PodGroupRefused: delete: no",
        ),
        (&suspended, "WaitingForOldGroup", "goes", false, "Suspended -"),
        (
            &runs,
            "PodGroupRefused",
            "update: no",
            true,
            "Waiting PodGroupRefused: update: no",
        ),
        (
            &runs,
            "WaitingForOldGroup",
            "goes",
            false,
            "Waiting WaitingForOldGroup: goes",
        ),
        (&runs, "HoldTimedOut", "late", false, "Waiting HoldTimedOut: late"),
        (&runs, "HoldTimedOut", "late", true, waits),
        (&runs, "OperatorManagesPodGroup", "jane", true, waits),
        (&runs, "NotGangScheduled", "anew", true, waits),
        (
            &bare,
            "NotGangScheduled",
            "anew",
            false,
            "NoGang NotGangScheduled: anew",
        ),
        (&runs, "QueueIgnored", "q", true, waits),
    ] {
        let mut seen = around();
        seen.hear(event(1, "Released", "an earlier start"));
        seen.hear(event(2, reason, sentence));
        if group_stands {
            stands(&mut seen);
        }
        assert_eq!(said(job, &seen), expected, "{reason} {sentence}");
        // Something was done since then.
        if ["PodGroupRefused", "WaitingForOldGroup"].contains(&reason) {
            seen.hear(event(3, "PodGroupUpdated", "done"));
            let why = said(job, &seen);
            assert!(!why.contains(reason), "{why}");
        }
    }
}

#[test]
fn what_is_wrong_comes_before_what_is_worth_knowing() {
    let policy = |policy: Value| job(|job| job["spec"]["runPolicy"]["schedulingPolicy"] = policy);
    let mut seen = around();
    seen.classes = Some(PriorityClasses {
        values: BTreeMap::from([("low".to_owned(), 1)]),
        global_default: None,
    });
    stands(&mut seen);
    let both = policy(json!({"queue": "q", "priorityClass": "high"}));
    let why = said(&both, &seen);
    assert!(why.starts_with("Waiting UnknownPriorityClass: "), "{why}");
    let note = policy(json!({"queue": "q"}));
    assert_eq!(
        said(&note, &seen),
        "Waiting 0 of 2 pods are there, none has a node"
    );
    pod(&mut seen, "Running", Some("node"));
    let why = said(&note, &seen);
    assert!(why.starts_with("Running QueueIgnored: "), "{why}");
    // Whoever may not read classes is told what was told.
    seen.classes = None;
    let why = said(&both, &seen);
    assert!(why.starts_with("Running QueueIgnored: "), "{why}");
    seen.hear(event(1, "UnknownPriorityClass", "there is no high"));
    seen.hear(event(2, "PodGroupCreated", "in the same turn"));
    assert_eq!(
        said(&both, &seen),
        "Running UnknownPriorityClass: there is no high"
    );
}

#[test]
fn conflicts_and_those_who_stood_down_are_told_apart() {
    let mut seen = around();
    seen.groups.insert(
        (COSCHEDULING.group, GROUP.to_owned()),
        json!({"metadata": {"name": GROUP}}),
    );
    check(
        job(|_| ()),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE      WHY
        n           MPIJob train   coscheduling   train      Conflict   PodGroupConflict: a PodGroup of this name belongs to somebody else; delete it, or give the job another name
    "#]],
    );
    let adopts = job(|job| job["metadata"]["annotations"] = json!({names::ADOPT_PODGROUP: GROUP}));
    check(
        adopts.clone(),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   train      Waiting   0 of 2 pods are there, none has a node
    "#]],
    );
    check(
        adopts,
        &around(),
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   -          Waiting   WaitingForPodGroup: PodGroup train is not there; create it, or correct portcullis.dev/adopt-podgroup
    "#]],
    );
    let stood_down =
        job(|job| job["metadata"]["annotations"] = json!({names::STAND_DOWN: "its operator makes it"}));
    check(
        stood_down,
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE       WHY
        n           MPIJob train   coscheduling   train      StoodDown   OperatorManagesPodGroup: its operator makes it
    "#]],
    );
}

#[test]
fn a_job_without_marks_is_no_gang_and_one_that_did_not_ask_is_not_listed() {
    check(
        job(unmarked),
        &around(),
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE    WHY
        n           MPIJob train   coscheduling   -          NoGang   NotGangScheduled: its pods do not name a PodGroup; suspend and resume it
    "#]],
    );
    let unasked = job(|job| {
        unmarked(job);
        job["spec"]["runPolicy"] = json!({});
    });
    check(unasked, &around(), expect![""]);
}

#[test]
fn a_job_that_is_left_where_no_gangs_are_asked_for_any_more_is_listed() {
    let mut seen = around();
    seen.label = None;
    check(job(|_| ()), &seen, expect![""]);
    assert_eq!(
        said(&job(held), &seen),
        "Held its namespace has no label portcullis.dev/gang any more"
    );
    stands(&mut seen);
    assert_eq!(
        said(&job(|_| ()), &seen),
        "Waiting its namespace has no label portcullis.dev/gang any more"
    );
}

#[test]
fn a_label_that_is_none_of_the_four_is_told_and_so_is_one_for_dispatch() {
    let space = |label: &str| Space {
        name: "research".to_owned(),
        label: Some(label.to_owned()),
        is_dispatched: false,
    };
    assert_eq!(unknown_label(&space("auto")), None);
    expect![[r#"Label portcullis.dev/gang of namespace research: found "Volcano", expected coscheduling, volcano, native or auto; jobs that ask for gangs are refused there."#]]
        .assert_eq(&unknown_label(&space("Volcano")).unwrap());
    let mut seen = around();
    seen.label = Some("Volcano".to_owned());
    let why = said(&job(unmarked), &seen);
    assert!(why.starts_with("NoGang InvalidJob: "), "{why}");
    seen.label = Some("coscheduling".to_owned());
    seen.is_dispatched = true;
    let why = said(&job(unmarked), &seen);
    assert!(why.starts_with("NoGang GangUnsupported: "), "{why}");
}

#[test]
fn a_scheduler_of_another_name_that_we_wrote_is_no_mismatch() {
    let named = |edit: fn(&mut Value)| {
        job(|job| {
            job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "gangs".into();
            edit(job);
        })
    };
    let mut seen = around();
    stands(&mut seen);
    pod(&mut seen, "Running", Some("node"));
    assert_eq!(said(&named(|_| ()), &seen), "Running -");
    let why = said(&named(unmarked), &seen);
    assert!(why.starts_with("NoGang SchedulerNameMismatch: "), "{why}");
}

#[test]
fn a_job_without_pods_does_not_wait_and_machines_read_its_parts() {
    let labels = json!({names::POD_GROUP: GROUP, "scheduling.x-k8s.io/pod-group": GROUP});
    let done = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "n", "uid": "j1", "annotations": {names::GANG_SCHEDULING: "true"}},
        "spec": {"parallelism": 0, "template": {"metadata": {"labels": labels}, "spec": {"containers": []}}},
    });
    let line = line(&BatchJob, &done, &around()).unwrap();
    expect![[r#"
        {
          "namespace": "n",
          "apiVersion": "batch/v1",
          "kind": "Job",
          "name": "train",
          "scheduler": "coscheduling",
          "podGroup": null,
          "state": "NoGang",
          "reason": "NoPods",
          "message": "the job has no pods, so there is nothing to start together"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&line).unwrap());
}
