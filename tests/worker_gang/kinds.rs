//! Other kinds than MPIJob.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{At, Case, GROUP, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pytorch_job_is_a_gang_on_its_worker),
        case!(a_batch_job_is_a_gang_on_its_worker_if_it_asks),
        case!(a_job_set_is_a_gang_on_its_worker_if_it_asks),
    ]
}

/// A pod template with one container of this name that asks for one CPU.
fn template(container: &str) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": container, "image": "main", "resources": {"requests": {"cpu": "1"}}},
    ]}})
}

/// A Job with so many pods at once.
pub fn batch(name: &str, pods: u32, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template("main"),
        },
    })
}

/// Asks for a gang.
pub fn asking() -> Value {
    json!({"portcullis.dev/gang-scheduling": "true"})
}

/// A PyTorchJob of four pods with a schedulingPolicy.
pub fn pytorch(name: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template("pytorch")},
                "Worker": {"replicas": 3, "template": template("pytorch")},
            },
        },
    })
}

/// A JobSet of four pods that asks for a gang.
pub fn job_set(name: &str) -> Value {
    let spec = batch("", 2, json!({}))["spec"].clone();
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "annotations": asking()},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": spec}}]},
    })
}

async fn a_pytorch_job_is_a_gang_on_its_worker(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("torch", "a").await?;
    rig.create("torch", &pytorch("train")).await?;
    rig.await_running("torch", "training.kubeflow.org/job-name=train", 4)
        .await?;
    let group = format!("{GROUP}/train");
    rig.await_value(At::A, "torch", &group, "{.spec.minMember}", "4")
        .await?;
    rig.no_pod_here("torch")
}

async fn a_batch_job_is_a_gang_on_its_worker_if_it_asks(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("batch", "a").await?;
    rig.create("batch", &batch("asks", 3, asking())).await?;
    rig.create("batch", &batch("plain", 3, json!({}))).await?;
    for name in ["asks", "plain"] {
        let selector = format!("batch.kubernetes.io/job-name={name}");
        rig.await_running("batch", &selector, 3).await?;
    }
    let path = "{.spec.minMember}";
    rig.await_value(At::A, "batch", &format!("{GROUP}/asks"), path, "3")
        .await?;
    ensure!(
        rig.get(At::A, "batch", &format!("{GROUP}/plain"), path)
            .await?
            .is_empty()
    );
    let owner = "{.metadata.ownerReferences[0].uid}";
    let uid = rig.get(At::A, "batch", "job/asks", "{.metadata.uid}").await?;
    ensure!(rig.get(At::A, "batch", &format!("{GROUP}/asks"), owner).await? == uid);
    let scheduler = "{.spec.template.spec.schedulerName}";
    ensure!(rig.get(At::A, "batch", "job/plain", scheduler).await? == "default-scheduler");
    rig.no_pod_here("batch")
}

async fn a_job_set_is_a_gang_on_its_worker_if_it_asks(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("sets", "a").await?;
    rig.create("sets", &job_set("train")).await?;
    rig.await_running("sets", "jobset.sigs.k8s.io/jobset-name=train", 4)
        .await?;
    let group = format!("{GROUP}/train");
    let path = "{.spec.minMember} {.metadata.ownerReferences[0].kind}";
    rig.await_value(At::A, "sets", &group, path, "4 JobSet").await?;
    let groups = rig.made(At::A, "sets", "podgroups")?;
    let pods = rig.made(At::A, "sets", "pods")?;
    ensure!(groups.first().map(|(place, _)| place) < pods.first().map(|(place, _)| place));
    rig.no_pod_here("sets")
}
