//! What the pods of a whole job wait for on their worker, and what it costs to know: our lists are counted in its audit log.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::cases_jobs_bad_input::says;
use crate::objects::definition_of;
use crate::rig::{Case, Rig};
use crate::sides::{At, US, condition, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_says_what_its_pods_wait_for_until_they_run),
        case!(a_job_that_runs_or_ends_soon_is_never_asked_about),
        case!(pods_of_a_configured_kind_are_found_by_their_owners),
    ]
}

const RESTS: &str = "waits-rests";

/// `selects`: only nodes with this label.
fn job(name: &str, selects: Option<&str>) -> Value {
    let selector = selects.map(|label| json!({ label: "yes" }));
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"parallelism": 3, "completions": 3, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}], "nodeSelector": selector,
        }}},
    })
}

async fn label(rig: &Rig, label: &str) -> Result<()> {
    let patch = json!({"metadata": {"labels": {label: "yes"}}});
    rig.patch(At::A, "", "node/worker-a-1", patch).await.map(drop)
}

fn asked(rig: &Rig, ns: &str) -> Result<usize> {
    let times = rig.requests(At::A, "list", &format!("/namespaces/{ns}/pods"))?;
    Ok(times.len())
}

fn statuses(rig: &Rig, ns: &str) -> Result<usize> {
    let writes = rig.writes(At::Manager, ns)?;
    let ours =
        |verb: &str, resource: &str, user: &str| (verb, resource, user) == ("patch", "jobs/status", US);
    Ok(writes
        .iter()
        .filter(|write| ours(&write.verb, &write.resource, &write.user))
        .count())
}

async fn a_job_says_what_its_pods_wait_for_until_they_run(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("waits", "job/one");
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one", Some(ns))).await?;
    let words = "on worker-a: 3 pods wait: Unschedulable: 0/";
    rig.until(
        At::Manager,
        ns,
        object,
        "its pods wait",
        says("WaitingOnWorker", words),
    )
    .await?;
    rig.until_event(ns, "one", "WaitingOnWorker", words).await?;
    let written = statuses(&rig, ns)?;
    ensure!(asked(&rig, ns)? > 0, "lists of pods are in the audit log");
    // The later event: the first one waits on, and is asked about again.
    let later = "waits-later";
    rig.on_a(later).await?;
    rig.create(At::Manager, later, job("two", Some(later))).await?;
    rig.until(
        At::Manager,
        later,
        "job/two",
        "its pods wait",
        says("WaitingOnWorker", words),
    )
    .await?;
    ensure!(
        statuses(&rig, ns)? == written,
        "what waits as before is not written again"
    );
    label(&rig, ns).await?;
    rig.running_there(ns, 3).await?;
    rig.until(At::Manager, ns, object, "it runs", says("Running", "on worker-a"))
        .await?;
    rig.until_equal(ns, object).await?;
    rig.delete(At::Manager, ns, object).await?;
    rig.delete(At::Manager, later, "job/two").await.map(drop)
}

async fn a_job_that_runs_or_ends_soon_is_never_asked_about(rig: Arc<Rig>) -> Result<()> {
    rig.on_a(RESTS).await?;
    rig.create(At::Manager, RESTS, job("ends", None)).await?;
    rig.running_there(RESTS, 3).await?;
    rig.end_all(RESTS, "complete").await?;
    rig.until(At::Manager, RESTS, "job/ends", "Complete", |job| {
        condition(job, "Complete")["status"] == "True"
    })
    .await?;
    rig.create(At::Manager, RESTS, job("runs", None)).await?;
    rig.running_there(RESTS, 3).await?;
    rig.until(At::Manager, RESTS, "job/runs", "three ready", |job| {
        job["status"]["ready"] == 3
    })
    .await?;
    let written = statuses(&rig, RESTS)?;
    // The later event: one that was made after them, and is asked about.
    let later = "waits-rests-later";
    rig.on_a(later).await?;
    rig.create(At::Manager, later, job("one", Some(later))).await?;
    rig.until(
        At::Manager,
        later,
        "job/one",
        "its pods wait",
        says("WaitingOnWorker", "3 pods wait"),
    )
    .await?;
    ensure!(asked(&rig, RESTS)? == 0, "nobody asked for its pods");
    ensure!(statuses(&rig, RESTS)? == written, "nothing changed");
    rig.delete(At::Manager, RESTS, "job/runs").await?;
    rig.delete(At::Manager, later, "job/one").await.map(drop)
}

/// Nobody told us a label of such a kind: its operator made a Job, and that made pods.
async fn pods_of_a_configured_kind_are_found_by_their_owners(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("waits-owners", "sorter/one");
    let name = "customresourcedefinition/sorters.batch.example.com";
    rig.on_a(ns).await?;
    let spec = json!({"managedBy": {"type": "string"}, "suspend": {"type": "boolean"}});
    for at in [At::A, At::Manager] {
        let definition = definition_of(["batch.example.com", "v1", "Sorter"], spec.clone());
        rig.create(at, "", definition).await?;
        rig.until(at, "", name, "established", |definition| {
            condition(definition, "Established")["status"] == "True"
        })
        .await?;
    }
    let sorter = json!({"apiVersion": "batch.example.com/v1", "kind": "Sorter", "metadata": {"name": "one"}, "spec": {}});
    rig.create(At::Manager, ns, sorter).await?;
    let remote = rig
        .until(At::A, ns, object, "opened", |job| job["spec"]["suspend"] == false)
        .await?;
    let mut made = job("made", Some(ns));
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch.example.com/v1", "kind": "Sorter", "name": "one", "uid": uid(&remote),
    }]);
    rig.create(At::A, ns, made).await?;
    rig.create(At::A, ns, job("stranger", Some(ns))).await?;
    rig.until_list(At::A, ns, "pods", "six", |pods| pods.len() == 6)
        .await?;
    let counts = json!({"status": {"active": 3}});
    rig.patch(At::A, ns, &format!("{object}/status"), counts).await?;
    rig.until(
        At::Manager,
        ns,
        object,
        "its pods wait, and not those of a stranger",
        says("WaitingOnWorker", "on worker-a: 3 pods wait: Unschedulable: 0/"),
    )
    .await?;
    label(&rig, ns).await?;
    rig.running_there(ns, 6).await?;
    let counts = json!({"status": {"active": 3, "ready": 3}});
    rig.patch(At::A, ns, &format!("{object}/status"), counts).await?;
    rig.until(At::Manager, ns, object, "it runs", says("Running", "on worker-a"))
        .await?;
    rig.delete(At::Manager, ns, object).await.map(drop)
}
