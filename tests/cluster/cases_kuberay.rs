//! RayJob and RayCluster with KubeRay on the manager and on worker-a.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis::workload::jobs::{JobKind, RayCluster, RayJob};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, play, text};
use crate::whole::{create, edit, goes, ground_of, manifest};

pub fn cases() -> Vec<Case> {
    vec![case!(alone jobs_of_ray_run_on_a_worker_only)]
}

async fn jobs_of_ray_run_on_a_worker_only(rig: Arc<Rig>) -> Result<()> {
    let (manager, worker) = tokio::join!(
        rig.cluster(At::Manager).start_kuberay(),
        rig.cluster(At::A).start_kuberay()
    );
    manager.and(worker)?;
    let (cluster, job, lasting) = tokio::join!(a_cluster(&rig), a_job(&rig), a_job_whose_cluster_stays(&rig));
    let results = [
        ("cluster", cluster),
        ("job", job),
        ("job whose cluster stays", lasting),
    ];
    let failures = results
        .into_iter()
        .filter_map(|(what, result)| Some(format!("a {what}: {:#}", result.err()?)));
    let failures: Vec<String> = failures.collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

async fn begun(rig: &Rig, ns: &str, kind: &dyn JobKind, spec: Value) -> Result<()> {
    ground_of(rig, kind, ns).await?;
    let mut object = manifest(kind, "one")?;
    json_patch::merge(&mut object, &json!({ "spec": spec }));
    create(rig, ns, &object).await.map(drop)
}

fn suspend(suspend: bool) -> Value {
    json!({"spec": {"suspend": suspend}})
}

fn says(field: &'static str, value: &'static str) -> impl Fn(&Value) -> bool {
    move |object| object["status"][field] == value
}

async fn ends(rig: &Rig, ns: &str, object: &str) -> Result<()> {
    let local = rig.seen(At::Manager, ns, object).await?;
    let remote = rig.seen(At::A, ns, object).await?;
    goes(rig, ns, object, (&local, &remote)).await?;
    rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
        .await?;
    rig.no_pod_here(ns).await
}

async fn a_cluster(rig: &Rig) -> Result<()> {
    let (ns, object) = ("ray-cluster", "raycluster/one");
    begun(rig, ns, &RayCluster, json!({})).await?;
    for round in 0..2 {
        rig.running_there(ns, 3)
            .await
            .with_context(|| format!("round {round}"))?;
        rig.until(At::Manager, ns, object, "ready", says("state", "ready"))
            .await?;
        rig.until_equal(ns, object).await?;
        if round == 0 {
            edit(rig, ns, object, &suspend(true)).await?;
            rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
                .await?;
            rig.until(At::Manager, ns, object, "suspended", says("state", "suspended"))
                .await?;
            edit(rig, ns, object, &suspend(false)).await?;
        }
    }
    ends(rig, ns, object).await
}

/// Head, two workers and the submitter; nothing there answers as Ray, so it can only fail.
async fn a_job(rig: &Rig) -> Result<()> {
    let (ns, object) = ("ray-job", "rayjob/one");
    let spec = json!({"shutdownAfterJobFinishes": true, "submitterConfig": {"backoffLimit": 0}});
    begun(rig, ns, &RayJob, spec).await?;
    let state = |state| says("jobDeploymentStatus", state);
    rig.running_there(ns, 4).await?;
    rig.until(At::Manager, ns, object, "Running", state("Running"))
        .await?;
    edit(rig, ns, object, &suspend(true)).await?;
    rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
        .await?;
    rig.until(At::Manager, ns, object, "Suspended", state("Suspended"))
        .await?;
    edit(rig, ns, object, &suspend(false)).await?;
    let pods = rig.running_there(ns, 4).await?;
    let submitter = pods
        .iter()
        .find(|pod| !pod["metadata"]["labels"]["job-name"].is_null())
        .context("a submitter")?;
    let submitter = format!("pod/{}", text(submitter, "/metadata/name"));
    rig.patch(At::A, ns, &submitter, play("end", "fail")).await?;
    let failed = rig
        .until(At::Manager, ns, object, "Failed", state("Failed"))
        .await?;
    ensure!(
        failed["status"]["reason"] == "SubmissionFailed",
        "{}",
        failed["status"]
    );
    rig.until_equal(ns, object).await?;
    ends(rig, ns, object).await
}

/// KubeRay refuses a suspended RayJob whose cluster is to stay, and never looks at it again: its copy must not be one.
async fn a_job_whose_cluster_stays(rig: &Rig) -> Result<()> {
    let (ns, object) = ("ray-lasting", "rayjob/one");
    begun(rig, ns, &RayJob, json!({})).await?;
    rig.running_there(ns, 4).await?;
    rig.until(
        At::Manager,
        ns,
        object,
        "Running",
        says("jobDeploymentStatus", "Running"),
    )
    .await?;
    let remote = rig.seen(At::A, ns, object).await?;
    ensure!(
        remote["spec"]["shutdownAfterJobFinishes"] != true,
        "its cluster would not stay: {}",
        remote["spec"]
    );
    ends(rig, ns, object).await
}
