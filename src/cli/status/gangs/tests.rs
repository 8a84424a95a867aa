//! Jobs and what is beside them -> the lines of the table.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::cli::documents;
use crate::workload::jobs::MpiJob;

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
        served: gang::Served {
            coscheduling: true,
            ..gang::Served::default()
        },
        ..Around::default()
    }
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
    let lines: Vec<_> = line(&MpiJob, &job, "coscheduling", seen).into_iter().collect();
    let rows: Vec<_> = lines.iter().map(GangLine::cells).collect();
    expect.assert_eq(&documents::table(GangLine::COLUMNS, &rows));
}

#[test]
fn a_job_is_held_waits_runs_and_ends() {
    let mut seen = around();
    let held = job(|job| {
        job["metadata"]["annotations"] = json!({names::HELD: "true"});
        job["spec"]["runPolicy"]["suspend"] = true.into();
    });
    seen.hear(event(2, "PodGroupRefused", "create: quota"));
    seen.hear(event(1, "QueueIgnored", "an older one"));
    seen.hear(event(3, "PodGroupCreated", "news is no reason"));
    check(
        held,
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE   WHY
        n           MPIJob train   coscheduling   train      Held    PodGroupRefused: create: quota
    "#]],
    );
    seen.hear(event(4, "WaitingForGang", "not all of 3 pods are there yet"));
    check(
        job(|_| ()),
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   train      Waiting   WaitingForGang: not all of 3 pods are there yet
    "#]],
    );
    seen.bound.insert(GROUP.to_owned(), true);
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
        n           MPIJob train   coscheduling   train      Conflict   -
    "#]],
    );
    let adopts = job(|job| job["metadata"]["annotations"] = json!({names::ADOPT_PODGROUP: GROUP}));
    check(
        adopts,
        &seen,
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE     WHY
        n           MPIJob train   coscheduling   train      Waiting   -
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
    let unmarked = |job: &mut Value| {
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = json!({});
    };
    check(
        job(unmarked),
        &around(),
        expect![[r#"
        NAMESPACE   JOB            SCHEDULER      PODGROUP   STATE    WHY
        n           MPIJob train   coscheduling   -          NoGang   -
    "#]],
    );
    let unasked = job(|job| {
        unmarked(job);
        job["spec"]["runPolicy"] = json!({});
    });
    check(unasked, &around(), expect![""]);
}
