//! Other kinds than MPIJob.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::rig::{At, Case, GROUP, Rig, SOON, printed};
use crate::starts::mpi;
use portcullis_testbed::case;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pytorch_job_is_a_gang_on_its_worker),
        case!(a_batch_job_is_a_gang_on_its_worker_if_it_asks),
        case!(a_job_set_is_a_gang_on_its_worker_if_it_asks),
        case!(a_batch_job_is_in_a_native_group_on_its_worker),
    ]
}

fn template(container: &str) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": container, "image": "main", "resources": {"requests": {"cpu": "1"}}},
    ]}})
}

fn batch(name: &str, pods: u32, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template("main"),
        },
    })
}

fn asking() -> Value {
    json!({"portcullis.dev/gang-scheduling": "true"})
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
    let spec = batch("", 2, json!({}))["spec"].clone();
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "train", "annotations": asking()},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": spec}}]},
    });
    rig.create("sets", &set).await?;
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

/// Its template keeps the group; those of other kinds do not, and such a job finds no worker.
async fn a_batch_job_is_in_a_native_group_on_its_worker(rig: Arc<Rig>) -> Result<()> {
    let role = printed(&["manifests", "rbac-worker", "--gang=native"]).await?;
    let role = role.replace("name: portcullis-worker", "name: portcullis-worker-native");
    rig.cluster(At::A).apply(&role).await?;
    rig.set_gang("worker-a", json!({"scheduler": "Native"})).await?;
    rig.opted_in("native", "a").await?;
    rig.create("native", &mpi("other", 1, "1")).await?;
    rig.await_said("native", "mpijob/other", "NoClusterTakesIt", "(GangUnsupported)")
        .await?;
    rig.empty(At::A).await?;
    let missing = rig.cluster(At::A).nodes().pop().context("a node")?;
    rig.kubectl(At::A, &["cordon", &missing]).await?;
    let mut large = batch("large", 4, asking());
    large["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "10".into();
    rig.create("native", &large).await?;
    let selector = "batch.kubernetes.io/job-name=large";
    wait_for("the pods of the Job", SOON, async || {
        let pods = rig.pods(At::A, "native", selector).await?;
        (pods.len() == 4)
            .then_some(Some(()))
            .with_context(|| format!("{pods:?}"))
    })
    .await?;
    let said = rig
        .await_event_of("native", "job/large", "WaitingForGang")
        .await?;
    ensure!(said.starts_with("worker-a: "), "{said}");
    let pods = rig.pods(At::A, "native", selector).await?;
    ensure!(pods.iter().all(|(_, node)| node.is_empty()), "{pods:?}");
    rig.kubectl(At::A, &["uncordon", &missing]).await?;
    rig.await_running("native", selector, 4).await?;
    let name = rig
        .get(
            At::A,
            "native",
            "job/large",
            "{.spec.template.spec.schedulingGroup.podGroupName}",
        )
        .await?;
    let path = "{.spec.schedulingPolicy.gang.minCount} {.metadata.ownerReferences[0].uid}";
    let uid = rig.get(At::A, "native", "job/large", "{.metadata.uid}").await?;
    let group = format!("podgroups.scheduling.k8s.io/{name}");
    let found = rig.get(At::A, "native", &group, path).await?;
    ensure!(found == format!("4 {uid}"), "{found}");

    let suspend = async |value: bool| {
        let patch = json!({"spec": {"suspend": value}}).to_string();
        let args = ["patch", "-n", "native", "job/large", "--type=merge", "-p", &patch];
        rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
    };
    suspend(true).await?;
    rig.await_value(At::A, "native", &group, "{.metadata.name}", "")
        .await?;
    suspend(false).await?;
    rig.await_running("native", selector, 4).await?;
    rig.await_value(At::A, "native", &group, path, &format!("4 {uid}"))
        .await?;
    rig.kubectl(
        At::Manager,
        &["delete", "-n", "native", "job/large", "--wait=false"],
    )
    .await?;
    rig.await_value(At::A, "native", &group, "{.metadata.name}", "")
        .await?;
    rig.no_pod_here("native")
}
