//! Kinds of jobs with their real definitions and without their operators: what these would write into a status is
//! written by hand, on the worker.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis::workload::jobs::{AppWrapper, RayCluster, RayJob, RayService, SparkApplication, TrainJob};
use portcullis_testbed::{Crds, case};
use serde_json::json;

use crate::rig::{Case, Rig};
use crate::sides::{At, uid};
use crate::whole::{T, Whole, conditions, ensure_marked, goes_by_pods, manifest, runs_whole};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_train_job_runs_on_a_worker),
        case!(the_kinds_of_kuberay_run_on_a_worker_once_it_serves_them),
        case!(a_spark_application_goes_by_pods),
    ]
}

fn train_job() -> Whole {
    let nodes = |ready: u32| json!([{"name": "node", "ready": ready, "active": ready, "succeeded": 2 - ready, "failed": 0, "suspended": 0}]);
    Whole {
        kind: &TrainJob,
        runs: json!({"jobsStatus": nodes(2), "conditions": conditions(&[("Suspended", "False", "Resumed")])}),
        ended: Some(json!({
            "jobsStatus": nodes(0),
            "conditions": conditions(&[("Suspended", "False", "Resumed"), ("Complete", "True", "JobsCompleted")]),
        })),
    }
}

fn ray_job() -> Whole {
    Whole {
        kind: &RayJob,
        runs: json!({
            "jobId": "train-x", "rayClusterName": "train-x", "jobStatus": "RUNNING", "startTime": T,
            "jobDeploymentStatus": "Running", "rayClusterStatus": ray_cluster().runs, "succeeded": 0, "failed": 0,
        }),
        ended: Some(json!({
            "jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "endTime": T, "succeeded": 1,
        })),
    }
}

fn ray_cluster() -> Whole {
    Whole {
        kind: &RayCluster,
        runs: json!({
            "state": "ready", "desiredWorkerReplicas": 2, "readyWorkerReplicas": 2, "availableWorkerReplicas": 2,
            "desiredCPU": "3", "desiredGPU": "0", "endpoints": {"dashboard": "8265"},
            "stateTransitionTimes": {"ready": T}, "lastUpdateTime": T,
            "head": {"podIP": "10.0.0.1", "serviceIP": "10.0.0.1"},
            "conditions": conditions(&[
                ("HeadPodReady", "True", "HeadPodRunningAndReady"),
                ("RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime"),
            ]),
        }),
        ended: None,
    }
}

pub fn app_wrapper() -> Whole {
    let deployed = [
        ("ResourcesDeployed", "True", "AppWrapperResourcesDeployed"),
        ("PodsReady", "True", "SufficientPodsReady"),
    ];
    let component =
        json!({"name": "main", "kind": "Pod", "apiVersion": "v1", "podSets": [{"path": "template"}]});
    Whole {
        kind: &AppWrapper,
        runs: json!({"phase": "Running", "conditions": conditions(&deployed), "componentStatus": [component]}),
        ended: Some(json!({"phase": "Succeeded", "conditions": conditions(&deployed)})),
    }
}

async fn a_train_job_runs_on_a_worker(rig: Arc<Rig>) -> Result<()> {
    for at in [At::A, At::Manager] {
        rig.cluster(at).install_crds(Crds::Trainer).await?;
    }
    runs_whole(&rig, &train_job()).await
}

async fn the_kinds_of_kuberay_run_on_a_worker_once_it_serves_them(rig: Arc<Rig>) -> Result<()> {
    rig.cluster(At::Manager).install_crds(Crds::KubeRay).await?;
    tells_by_events_why_it_waits(&rig).await?;
    rig.cluster(At::A).install_crds(Crds::KubeRay).await?;
    let (job, cluster) = (ray_job(), ray_cluster());
    let (job, cluster, service) = tokio::join!(
        runs_whole(&rig, &job),
        runs_whole(&rig, &cluster),
        goes_by_pods(&rig, &RayService)
    );
    job.and(cluster).and(service)
}

/// `RayJob` has no conditions.
async fn tells_by_events_why_it_waits(rig: &Rig) -> Result<()> {
    let (ns, object) = ("real-told", "rayjob/train");
    rig.on_a(ns).await?;
    let mut job = manifest(&RayJob, "train")?;
    job["spec"]["suspend"] = true.into();
    let local = rig.create(At::Manager, ns, job).await?;
    ensure_marked(&RayJob, &local)?;
    rig.until_event(ns, "train", "Suspended", "once it is resumed")
        .await?;
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": false}}))
        .await?;
    rig.until_event(ns, "train", "NoClusterTakesIt", "does not serve rayjobs.ray.io")
        .await?;
    let stored = rig.seen(At::Manager, ns, object).await?;
    ensure!(stored["status"].is_null(), "its status is not ours: {stored}");
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await
}

async fn a_spark_application_goes_by_pods(rig: Arc<Rig>) -> Result<()> {
    for at in [At::A, At::Manager] {
        rig.cluster(at).install_crds(Crds::SparkOperator).await?;
    }
    goes_by_pods(&rig, &SparkApplication).await
}
