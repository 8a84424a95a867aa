//! Statuses of jobs that the manager does not take as they are: refused, or not kept whole. Writes are counted in its audit log.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::cases_jobs_bad_input::{ever_rarer, job, says};
use crate::objects::definition_of;
use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, condition, dispatched, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_status_that_the_manager_refuses_is_told_and_tried_ever_more_rarely),
        case!(a_status_that_the_managers_schema_refuses_or_drops_is_not_written_again),
    ]
}

/// 422 and 403 are the same here: a policy refuses each status of a Job that runs.
async fn a_status_that_the_manager_refuses_is_told_and_tried_ever_more_rarely(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-status-refused";
    rig.on_a(ns).await?;
    let rule = json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs/status"]});
    let holds = "!has(object.status.active) || object.status.active == 0";
    rig.refuse(At::Manager, ns, rule, (holds, "no active jobs here"))
        .await?;
    let mut probe = job("probe");
    probe["spec"]["managedBy"] = json!("example.com/x");
    rig.create(At::Manager, ns, probe).await?;
    wait_for("the policy to count", PATIENCE, async || {
        let patch = r#"{"status": {"active": 1}}"#;
        let args = [
            "patch",
            "-n",
            ns,
            "job/probe",
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
            "--dry-run=server",
        ];
        anyhow::Ok(
            rig.cluster(At::Manager)
                .kubectl(&args)
                .await
                .is_err()
                .then_some(()),
        )
    })
    .await?;
    let local = rig.create(At::Manager, ns, job("one")).await?;
    rig.running_there(ns, 1).await?;
    rig.until(
        At::Manager,
        ns,
        "job/one",
        "the refusal",
        says("WriteRefused", "no active jobs here"),
    )
    .await?;
    let path = format!("/namespaces/{ns}/jobs/one/status");
    rig.until(At::A, ns, "job/one", "ready", |job| job["status"]["ready"] == 1)
        .await?;
    let since = rig.requests(At::Manager, "patch", &path)?.len();
    ensure!(since <= 8, "{since} writes until it was told");
    for number in 0..10 {
        let touch = json!({"metadata": {"annotations": {"example.com/touch": number.to_string()}}});
        rig.patch(At::A, ns, "job/one", touch).await?;
    }
    // The first of them may be of the last change there.
    let all = rig.until_requests(At::Manager, "patch", &path, since + 5).await?;
    ever_rarer(&all[since + 1..]).context("tries of the status")?;
    let name = "validatingadmissionpolicybinding";
    rig.cluster(At::Manager).kubectl(&["delete", name, ns]).await?;
    rig.until(At::Manager, ns, "job/one", "active, as it is", |job| {
        job["status"]["active"] == 1 && dispatched(job)["reason"] == "Running"
    })
    .await?;
    ensure!(
        rig.ran(ns)?
            .get(&uid(&local))
            .is_some_and(|copies| copies.len() == 1)
    );
    ensure!(rig.copies(At::A, ns)? == ["one"], "one copy");
    Ok(())
}

/// The manager has an older CRD than the worker: it lacks a field, and takes fewer words in another.
async fn a_status_that_the_managers_schema_refuses_or_drops_is_not_written_again(
    rig: Arc<Rig>,
) -> Result<()> {
    let (ns, object) = ("jobs-status-schema", "solver/one");
    let name = "customresourcedefinition/solvers.batch.example.com";
    rig.on_a(ns).await?;
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"managedBy": {"type": "string"}, "suspend": {"type": "boolean"}});
    let newer = definition_of(["batch.example.com", "v1", "Solver"], spec);
    let mut older = newer.clone();
    let status = json!({"type": "object", "properties": {
        "phase": {"type": "string", "enum": ["Running"]},
        "conditions": {"type": "array", "items": anything},
    }});
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    for (at, definition) in [(At::A, &newer), (At::Manager, &older)] {
        rig.create(at, "", definition.clone()).await?;
        rig.until(at, "", name, "established", |definition| {
            condition(definition, "Established")["status"] == "True"
        })
        .await?;
    }
    let job = json!({
        "apiVersion": "batch.example.com/v1", "kind": "Solver", "metadata": {"name": "one"}, "spec": {},
    });
    let local = rig.create(At::Manager, ns, job).await?;
    let remote = rig
        .until(At::A, ns, object, "opened", |job| job["spec"]["suspend"] == false)
        .await?;
    let there = format!("{object}/status");
    let says_there = async |status: Value| rig.patch(At::A, ns, &there, json!({ "status": status })).await;
    let touched = async || -> Result<()> {
        for number in 0..5 {
            let touch = json!({"metadata": {"annotations": {"example.com/touch": number.to_string()}}});
            let seen = rig.patch(At::A, ns, object, touch).await?;
            ensure!(uid(&seen) == uid(&remote));
        }
        Ok(())
    };
    let path = format!("/namespaces/{ns}/solvers/one/status");
    let writes = || rig.requests(At::Manager, "patch", &path).map(|times| times.len());
    // Dropped: written once.
    says_there(json!({"phase": "Running", "replicas": 3})).await?;
    rig.until(At::Manager, ns, object, "what the manager knows", |job| {
        job["status"]["phase"] == "Running"
    })
    .await?;
    let settled = wait_for("no more writes", PATIENCE, async || {
        let before = writes()?;
        touched().await?;
        // A change that the manager keeps comes through after all that was before it.
        let mark = before.to_string();
        says_there(json!({"conditions": [{"type": "Ready", "status": "True", "reason": mark}]})).await?;
        rig.until(At::Manager, ns, object, "the mark", |job| {
            condition(job, "Ready")["reason"] == mark
        })
        .await?;
        let after = writes()?;
        // One for the mark, and one that finds out what is not kept beside it.
        anyhow::Ok((after <= before + 2).then_some(after))
    })
    .await?;
    touched().await?;
    let event = json!({"metadata": {"labels": {"touch": "last"}}});
    rig.patch(At::Manager, ns, object, event).await?;
    tokio::time::sleep(Duration::from_secs(3)).await; // nothing is to happen: there is no state to wait for
    ensure!(writes()? <= settled + 1, "{} writes after {settled}", writes()?);
    let steady = writes()?;
    touched().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(
        writes()? == steady,
        "a steady job is written to: {} after {steady}",
        writes()?
    );
    // Refused: told, ever more rarely, and over when the worker says something else.
    says_there(json!({"phase": "Odd"})).await?;
    rig.until(
        At::Manager,
        ns,
        object,
        "the refusal",
        says("WriteRefused", "phase"),
    )
    .await?;
    let since = writes()?;
    let all = rig.until_requests(At::Manager, "patch", &path, since + 4).await?;
    ever_rarer(&all[since..]).context("tries of the status")?;
    says_there(json!({"phase": "Running"})).await?;
    rig.until(At::Manager, ns, object, "over", |job| {
        dispatched(job)["reason"] != "WriteRefused" && dispatched(job)["status"] == "True"
    })
    .await?;
    // A newer CRD on the manager keeps what was dropped, though nothing happens to the job.
    let versions = json!({"spec": {"versions": newer["spec"]["versions"]}});
    rig.patch(At::Manager, "", name, versions).await?;
    rig.until(At::Manager, ns, object, "all of the status", |job| {
        job["status"]["replicas"] == 3
    })
    .await?;
    ensure!(
        uid(&rig.seen(At::A, ns, object).await?) == uid(&remote),
        "it is the same copy"
    );
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    for at in [At::Manager, At::A] {
        rig.delete(at, "", name).await?;
    }
    Ok(())
}
