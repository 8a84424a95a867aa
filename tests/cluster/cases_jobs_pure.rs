//! What the pure rules of jobs give, asked of real API servers: every status is one that they take (R58, R59), and a copy
//! is made, opened and followed as the patches say.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http::Method;
use json_patch::Patch;
use portcullis::job::forward::{self, Allowed};
use portcullis::job::mirror::{Dispatched, failed, mirror};
use portcullis::job::sanitize::{CopyMarks, sanitize};
use portcullis::workload::jobs::{BatchJob, JobKind as _, REMOTE_JOB_DELETED};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::calls::{call, path};
use crate::rig::{Case, Rig};
use crate::sides::{At, text};

pub fn cases() -> Vec<Case> {
    vec![
        case!(every_mirrored_status_of_a_job_is_taken),
        case!(a_lost_job_fails_in_one_write),
        case!(a_copy_of_a_job_is_held_opened_and_followed),
    ]
}

const START: &str = "2026-11-30T09:00:00Z";
const AGAIN: &str = "2026-11-30T10:00:00Z";
const END: &str = "2026-11-30T11:00:00Z";

fn open() -> Dispatched {
    Dispatched {
        status: true,
        reason: "Open".to_owned(),
        message: "on worker-a".to_owned(),
    }
}

/// A Job that nobody here runs.
fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "managedBy": "example.com/somebody", "completions": 4, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}},
        },
    });
    json_patch::merge(&mut job["spec"], spec);
    job
}

fn said(kind: &str, status: &str, since: &str) -> Value {
    json!({"type": kind, "status": status, "lastProbeTime": since, "lastTransitionTime": since})
}

/// Local suspend, remote suspend, remote status.
type Look = (bool, bool, Value);

/// Lives of a Job as workers of several versions tell them, each with its spec.
fn lives() -> Vec<(&'static str, Value, Vec<Look>)> {
    let running =
        json!({"startTime": START, "active": 2, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}});
    let stopped = json!({"failed": 1, "conditions": [said("Suspended", "True", START)]});
    let again = json!({"startTime": AGAIN, "active": 2, "ready": 2, "failed": 1, "succeeded": 2,
        "conditions": [said("Suspended", "False", AGAIN)]});
    let decided = json!({"startTime": AGAIN, "active": 1, "failed": 1, "succeeded": 4, "terminating": 1,
        "conditions": [said("Suspended", "False", AGAIN), said("SuccessCriteriaMet", "True", END)]});
    let complete = json!({"startTime": AGAIN, "completionTime": END, "failed": 1, "succeeded": 4, "ready": 0,
        "terminating": 0, "uncountedTerminatedPods": {},
        "conditions": [said("SuccessCriteriaMet", "True", END), said("Complete", "True", END)]});
    let old_complete = json!({"startTime": START, "completionTime": END, "succeeded": 4, "ready": 0,
        "uncountedTerminatedPods": {"succeeded": ["u"]}, "conditions": [said("Complete", "True", END)]});
    let old_failed = json!({"startTime": START, "failed": 7, "conditions": [said("Failed", "True", END)]});
    let indexed = json!({"completionMode": "Indexed", "parallelism": 4, "backoffLimitPerIndex": 1});
    let indexes = json!({"startTime": START, "active": 1, "succeeded": 2, "completedIndexes": "0,1", "failed": 2,
        "failedIndexes": "3"});
    let indexes_failed = json!({"startTime": START, "succeeded": 3, "completedIndexes": "0-2", "failed": 2,
        "failedIndexes": "3", "conditions": [said("FailureTarget", "True", END), said("Failed", "True", END)]});
    vec![
        (
            "to-the-end",
            json!({}),
            vec![
                (
                    false,
                    true,
                    json!({"conditions": [said("Suspended", "True", START)]}),
                ),
                (false, false, running.clone()),
                (true, false, running.clone()),
                (true, true, stopped),
                (false, false, again),
                (false, false, decided),
                (false, false, complete.clone()),
            ],
        ),
        ("at-once", json!({}), vec![(false, false, complete.clone())]),
        (
            "while-suspended",
            json!({"suspend": true}),
            vec![(true, false, complete)],
        ),
        (
            "started-again-unseen",
            json!({}),
            vec![
                (false, false, running.clone()),
                (
                    false,
                    false,
                    json!({"startTime": AGAIN, "active": 1, "conditions": [said("Suspended", "False", AGAIN)]}),
                ),
            ],
        ),
        (
            "of-an-old-worker",
            json!({}),
            vec![(false, false, running.clone()), (false, false, old_complete)],
        ),
        (
            "failed-on-an-old-worker",
            json!({}),
            vec![(false, false, running), (false, false, old_failed)],
        ),
        (
            "never-started",
            json!({"suspend": true, "activeDeadlineSeconds": 1}),
            vec![(true, true, json!({"conditions": [said("Failed", "True", END)]}))],
        ),
        (
            "by-index",
            indexed,
            vec![(false, false, indexes), (false, false, indexes_failed)],
        ),
    ]
}

/// R58, R59, and that what was taken needs no second write.
async fn every_mirrored_status_of_a_job_is_taken(rig: Arc<Rig>) -> Result<()> {
    let ns = "r59";
    rig.world.manager.create_namespace(ns, &[]).await?;
    for (name, spec, looks) in lives() {
        let object = format!("job/{name}");
        rig.create(At::Manager, ns, job(name, &spec)).await?;
        for (step, (suspended, remote_suspended, status)) in looks.into_iter().enumerate() {
            let what = format!("{name}, step {step}");
            rig.patch(At::Manager, ns, &object, json!({"spec": {"suspend": suspended}}))
                .await?;
            let remote = json!({
                "metadata": {"uid": "remote", "generation": 1}, "spec": {"suspend": remote_suspended}, "status": status,
            });
            let local = rig.seen(At::Manager, ns, &object).await?;
            let patch = mirror(&BatchJob, &local, &remote, &open(), "worker-a", AGAIN);
            let is_held = suspended && !remote_suspended && !BatchJob.is_finished(&remote);
            ensure!(is_held || patch.is_some(), "{what}: nothing to write");
            if let Some(patch) = patch {
                let status = format!("{object}/status");
                rig.patch(At::Manager, ns, &status, patch.clone())
                    .await
                    .with_context(|| format!("{what}: {patch}"))?;
            }
            let local = rig.seen(At::Manager, ns, &object).await?;
            let second = mirror(&BatchJob, &local, &remote, &open(), "worker-a", END);
            ensure!(second.is_none(), "{what} is written again: {second:?}");
        }
    }
    Ok(())
}

/// RemoteJobDeleted: FailureTarget and Failed in one write, whatever the Job showed before.
async fn a_lost_job_fails_in_one_write(rig: Arc<Rig>) -> Result<()> {
    let ns = "lost-jobs";
    rig.world.manager.create_namespace(ns, &[]).await?;
    let lost = Dispatched {
        status: false,
        reason: REMOTE_JOB_DELETED.to_owned(),
        message: "gone from worker-a".to_owned(),
    };
    let running = json!({"startTime": START, "active": 2, "ready": 2, "terminating": 1, "failed": 1});
    let succeeding =
        json!({"startTime": START, "active": 1, "conditions": [said("SuccessCriteriaMet", "True", AGAIN)]});
    for (name, suspended, before, end) in [
        ("running", false, running.clone(), "Failed"),
        ("suspended", true, json!({}), "Failed"),
        ("running-suspended", true, running, "Failed"),
        ("succeeding", false, succeeding, "Complete"),
    ] {
        let object = format!("job/{name}");
        rig.create(At::Manager, ns, job(name, &json!({"suspend": suspended})))
            .await?;
        rig.patch(
            At::Manager,
            ns,
            &format!("{object}/status"),
            json!({"status": before}),
        )
        .await?;
        let local = rig.seen(At::Manager, ns, &object).await?;
        let patch = failed(
            &BatchJob,
            &local,
            REMOTE_JOB_DELETED,
            "gone from worker-a",
            &lost,
            END,
        );
        rig.patch(At::Manager, ns, &format!("{object}/status"), patch.clone())
            .await
            .with_context(|| format!("{name}: {patch}"))?;
        let local = rig.seen(At::Manager, ns, &object).await?;
        ensure!(BatchJob.is_finished(&local), "{name}: {}", local["status"]);
        let conditions = local["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        ensure!(
            conditions
                .iter()
                .any(|condition| condition["type"] == end && condition["reason"] == REMOTE_JOB_DELETED)
        );
    }
    Ok(())
}

/// R13, R56, and the three steps: a Job as the manager stores it gives a copy that a worker takes and does not run; once
/// opened it runs, once only; a suspend reaches it, but never a copy that is uncommitted again.
async fn a_copy_of_a_job_is_held_opened_and_followed(rig: Arc<Rig>) -> Result<()> {
    let ns = "job-copies";
    for at in [At::Manager, At::A] {
        rig.cluster(at).create_namespace(ns, &[]).await?;
    }
    let local = rig
        .create(
            At::Manager,
            ns,
            job("solve", &json!({"ttlSecondsAfterFinished": 1})),
        )
        .await?;
    let marks = CopyMarks {
        origin: "manager",
        owner: None,
    };
    let copy = sanitize(&BatchJob, &local, &marks)?;
    let held = rig.create(At::A, ns, copy.object).await?;
    ensure!(forward::is_held(&BatchJob, &held));
    ensure!(held["spec"]["managedBy"].is_null() && held["spec"]["ttlSecondsAfterFinished"].is_null());
    let held = rig
        .until(
            At::A,
            ns,
            "job/solve",
            "seen by its controller, and without a pod",
            |job| job["status"]["conditions"][0]["type"] == "Suspended",
        )
        .await?;
    ensure!(rig.list(At::A, ns, "pods").await?.is_empty());
    ensure!(forward::forward(&BatchJob, &local, &held, Allowed::default()).is_none());

    let opening = forward::open(&BatchJob, &local, &held).context("it is not open yet")?;
    apply(&rig, ns, &opening).await?;
    ensure!(apply(&rig, ns, &opening).await.is_err(), "it was opened twice");
    let opened = rig
        .until(At::A, ns, "job/solve", "to run", |job| {
            job["status"]["active"] == 2
        })
        .await?;
    ensure!(text(&opened, "/metadata/uid") == text(&held, "/metadata/uid"));

    let mut suspended = local.clone();
    suspended["spec"]["suspend"] = true.into();
    let stop =
        forward::forward(&BatchJob, &suspended, &opened, Allowed::default()).context("it is to stop")?;
    apply(&rig, ns, &stop).await?;
    let stopped = rig
        .until(At::A, ns, "job/solve", "to stop", |job| {
            job["status"]["startTime"].is_null()
        })
        .await?;
    let start =
        forward::forward(&BatchJob, &local, &stopped, Allowed::default()).context("it is to start")?;
    let uncommitted = json!({"metadata": {"annotations": {"portcullis.dev/uncommitted": "true"}}});
    rig.patch(At::A, ns, "job/solve", uncommitted).await?;
    ensure!(
        apply(&rig, ns, &start).await.is_err(),
        "an uncommitted copy was started"
    );
    rig.patch(
        At::A,
        ns,
        "job/solve",
        json!({"metadata": {"annotations": {"portcullis.dev/uncommitted": null}}}),
    )
    .await?;
    apply(&rig, ns, &start).await?;
    rig.until(At::A, ns, "job/solve", "to run again", |job| {
        job["status"]["active"] == 2
    })
    .await?;
    Ok(())
}

async fn apply(rig: &Rig, namespace: &str, patch: &Patch) -> Result<Value> {
    let body = Some(("application/json-patch+json", serde_json::to_value(patch)?));
    call(
        rig.cluster(At::A),
        Method::PATCH,
        &path("job/solve", namespace),
        body,
    )
    .await
}
