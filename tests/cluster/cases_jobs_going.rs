//! Copies of jobs whose worker holds or changes them in ways of its own: the manager's job says so.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::cases_jobs_bad_input::{job, says};
use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, dispatched, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_copy_that_a_finalizer_holds_is_said_to_go_and_by_whom_it_is_held),
        case!(a_copy_that_its_worker_does_not_let_go_is_told_as_it_is),
    ]
}

async fn a_copy_that_a_finalizer_holds_is_said_to_go_and_by_whom_it_is_held(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-going", "job/one");
    rig.on_a(ns).await?;
    let local = rig.create(At::Manager, ns, job("one")).await?;
    rig.running_there(ns, 1).await?;
    rig.until(At::Manager, ns, object, "Running is told", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await?;
    let copy = rig.seen(At::A, ns, object).await?;
    rig.patch(
        At::A,
        ns,
        object,
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await?;
    rig.delete(At::A, ns, object).await?;
    let held = "its copy is being deleted there, and follows no edits any more; it stays there until these finalizers are taken off: example.com/hold";
    rig.until(
        At::Manager,
        ns,
        object,
        "it is told",
        says("RemoteTerminating", held),
    )
    .await?;
    rig.until_event(ns, "one", "RemoteTerminating", held).await?;
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": true}}))
        .await?;
    rig.delete(At::Manager, ns, object).await?;
    let held = "being deleted there; it stays there until these finalizers are taken off: example.com/hold";
    let told = says("Terminating", held);
    let seen = rig
        .until(At::Manager, ns, object, "what holds it is told", told)
        .await?;
    ensure!(
        uid(&seen) == uid(&local) && seen["spec"]["suspend"] == true,
        "{seen}"
    );
    let there = rig.seen(At::A, ns, object).await?;
    ensure!(
        uid(&there) == uid(&copy) && there["spec"]["suspend"] == false,
        "{there}"
    );
    rig.patch(At::A, ns, object, json!({"metadata": {"finalizers": null}}))
        .await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await
}

async fn a_copy_that_its_worker_does_not_let_go_is_told_as_it_is(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-not-let-go", "job/one");
    rig.on_a(ns).await?;
    let mut held = job("one");
    held["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let local = rig.create(At::Manager, ns, held).await?;
    rig.running_there(ns, 1).await?;
    let rule = json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["DELETE"]});
    rig.refuse(At::A, ns, rule, ("false", "jobs stay here")).await?;
    let tried = ["delete", "-n", ns, object, "--dry-run=server"];
    wait_for("the policy counts", PATIENCE, async || {
        let tried = rig.cluster(At::A).kubectl(&tried).await;
        let is_refused = tried.is_err_and(|error| format!("{error:#}").contains("jobs stay here"));
        anyhow::Ok(is_refused.then_some(()))
    })
    .await?;
    rig.delete(At::Manager, ns, object).await?;
    rig.until_event(ns, "one", "DeleteRefused", "jobs stay here")
        .await?;
    let told = says("Terminating", "being deleted there");
    rig.until(At::Manager, ns, object, "it is told", told).await?;
    let policy = format!("validatingadmissionpolicybinding/{ns}");
    rig.cluster(At::A).kubectl(&["delete", &policy]).await?;
    // Then only the finalizer of its user is left.
    let gone =
        "its copy on worker-a is gone; it stays here until these finalizers are taken off: example.com/mine";
    rig.until(At::Manager, ns, object, "it is told", says("Terminating", gone))
        .await?;
    rig.patch(At::Manager, ns, object, json!({"metadata": {"finalizers": null}}))
        .await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await
}
