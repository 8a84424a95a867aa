//! Other kinds than MPIJob.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case;
use crate::rig::{At, Case, GROUP, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pytorch_job_is_a_gang_on_its_worker),
        case!(a_batch_job_is_a_gang_on_its_worker_if_it_asks),
    ]
}

fn template(container: &str) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": container, "image": "main", "resources": {"requests": {"cpu": "1"}}},
    ]}})
}

async fn a_pytorch_job_is_a_gang_on_its_worker(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("torch", "a").await?;
    let job = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template("pytorch")},
                "Worker": {"replicas": 3, "template": template("pytorch")},
            },
        },
    });
    rig.create("torch", &job).await?;
    rig.await_running("torch", "training.kubeflow.org/job-name=train", 4)
        .await?;
    let group = format!("{GROUP}/train");
    rig.await_value(At::A, "torch", &group, "{.spec.minMember}", "4")
        .await?;
    rig.no_pod_here("torch")
}

async fn a_batch_job_is_a_gang_on_its_worker_if_it_asks(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("batch", "a").await?;
    let job = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template("main"),
            },
        })
    };
    rig.create(
        "batch",
        &job("asks", json!({"portcullis.dev/gang-scheduling": "true"})),
    )
    .await?;
    rig.create("batch", &job("plain", json!({}))).await?;
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
