//! Whole jobs of real operators, made by a normal user. The operators run on the manager and on worker-a: those of the
//! manager leave the jobs alone.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{Cluster, case};
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, condition, dispatched, text, uid};
use crate::whole::{create, ground_for};

pub fn cases() -> Vec<Case> {
    let cases = vec![
        case!(alone a_job_of_a_cron_job_runs_on_a_worker_only),
        case!(alone a_job_set_runs_on_a_worker_only_and_goes_when_it_is_due),
        case!(alone an_mpi_job_runs_on_a_worker_only_and_goes_when_it_is_due),
        case!(alone an_mpi_job_says_what_its_pods_wait_for),
        case!(alone a_pytorch_job_runs_on_a_worker_only),
        case!(alone the_other_jobs_of_the_training_operator_run_on_a_worker),
        case!(alone jobs_made_while_we_are_down_run_nowhere_until_we_are_back),
    ];
    let with_time = |case| Case {
        limit: Duration::from_secs(400), // the first one starts six operators
        ..case
    };
    cases.into_iter().map(with_time).collect()
}

/// Value of `managedBy` in kinds whose webhook takes no other.
const KUEUES: &str = "kueue.x-k8s.io/multikueue";
const OURS: &str = "portcullis.dev/multikueue";

async fn operators(rig: &Rig) -> Result<()> {
    let start = async || {
        for at in [At::Manager, At::A] {
            start_on(rig.cluster(at))
                .await
                .with_context(|| format!("operators at {at:?}"))?;
        }
        anyhow::Ok(())
    };
    rig.operators.get_or_try_init(start).await.map(drop)
}

async fn start_on(cluster: &Cluster) -> Result<()> {
    cluster.start_jobset().await?;
    cluster.start_mpi_operator(&[]).await?;
    cluster.start_training_operator(&[]).await
}

/// A namespace where alice may edit, jobs of operators too.
async fn ground(rig: &Rig, ns: &str) -> Result<()> {
    operators(rig).await?;
    ground_for(rig, &["jobset.x-k8s.io", "kubeflow.org"], ns).await
}

fn template(container: &str) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": container, "image": "app:1"}]}})
}

fn job_set(name: &str) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"ttlSecondsAfterFinished": 15, "replicatedJobs": [{
            "name": "a", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template("main")}},
        }]},
    })
}

fn mpi_job(name: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 15},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template("main")},
                "Worker": {"replicas": 2, "template": template("main")},
            },
        },
    })
}

fn pytorch_job(name: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template("pytorch")},
            "Worker": {"replicas": 2, "template": template("pytorch")},
        }},
    })
}

fn path_of_managed_by(object: &str) -> &'static str {
    match object.starts_with("job") {
        true => "/spec/managedBy",
        false => "/spec/runPolicy/managedBy",
    }
}

/// It runs there with so many pods, shows here what it shows there, and has ended here as there.
async fn runs_there(rig: &Rig, ns: &str, object: &str, pods: usize, done: &str) -> Result<(Value, Value)> {
    let running = rig.running_there(ns, pods).await?;
    rig.until_equal(ns, object).await?;
    let mut names: Vec<&str> = running.iter().map(|pod| text(pod, "/metadata/name")).collect();
    names.sort_unstable();
    ensure!(
        rig.listed_pods(ns, object).await? == names,
        "portcullis status lists others"
    );
    let (local, remote) = (
        rig.seen(At::Manager, ns, object).await?,
        rig.seen(At::A, ns, object).await?,
    );
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-a");
    ensure!(dispatched(&local)["status"] == "True", "{}", local["status"]);
    let manager = text(&remote, path_of_managed_by(object));
    ensure!(![OURS, KUEUES].contains(&manager), "{}", remote["spec"]);
    rig.end_all(ns, "complete").await?;
    let ended = rig
        .until(At::Manager, ns, object, done, |job| {
            condition(job, done)["status"] == "True"
        })
        .await?;
    ensure!(dispatched(&ended)["status"] == "True", "{}", ended["status"]);
    let there = rig.seen(At::A, ns, object).await?;
    ensure!(
        condition(&ended, done) == condition(&there, done),
        "here {}, there {}",
        ended["status"],
        there["status"]
    );
    Ok((local, remote))
}

async fn gone(rig: &Rig, ns: &str, object: &str, (local, remote): (Value, Value)) -> Result<()> {
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    rig.until_gone(At::A, ns, object, &uid(&remote)).await?;
    rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
        .await?;
    rig.no_pod_here(ns).await?;
    ensure!(rig.created(At::B, ns)?.is_empty());
    Ok(())
}

async fn a_job_set_runs_on_a_worker_only_and_goes_when_it_is_due(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("whole-jobset", "jobset/one");
    ground(&rig, ns).await?;
    create(&rig, ns, &job_set("one")).await?;
    let made = rig.seen(At::Manager, ns, object).await?;
    ensure!(text(&made, "/spec/managedBy") == OURS, "{}", made["spec"]);
    let both = runs_there(&rig, ns, object, 4, "Completed").await?;
    gone(&rig, ns, object, both).await
}

async fn an_mpi_job_runs_on_a_worker_only_and_goes_when_it_is_due(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("whole-mpi", "mpijob/one");
    ground(&rig, ns).await?;
    create(&rig, ns, &mpi_job("one")).await?;
    let made = rig.seen(At::Manager, ns, object).await?;
    ensure!(
        text(&made, "/spec/runPolicy/managedBy") == OURS,
        "{}",
        made["spec"]
    );
    let both = runs_there(&rig, ns, object, 3, "Succeeded").await?;
    gone(&rig, ns, object, both).await
}

/// Launcher and workers are found by the labels of the real operator.
async fn an_mpi_job_says_what_its_pods_wait_for(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("whole-mpi-waits", "mpijob/one");
    ground(&rig, ns).await?;
    let mut job = mpi_job("one");
    for role in ["Launcher", "Worker"] {
        job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["nodeSelector"] = json!({ ns: "yes" });
    }
    create(&rig, ns, &job).await?;
    rig.until(At::Manager, ns, object, "its pods wait", |job| {
        dispatched(job)["reason"] == "WaitingOnWorker"
            && text(dispatched(job), "/message").starts_with("on worker-a: 3 pods wait: Unschedulable: 0/")
    })
    .await?;
    rig.patch(
        At::A,
        "",
        "node/worker-a-1",
        json!({"metadata": {"labels": {ns: "yes"}}}),
    )
    .await?;
    rig.running_there(ns, 3).await?;
    rig.until(At::Manager, ns, object, "it runs", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await?;
    rig.delete(At::Manager, ns, object).await.map(drop)
}

async fn a_pytorch_job_runs_on_a_worker_only(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("whole-pytorch", "pytorchjob/one");
    ground(&rig, ns).await?;
    create(&rig, ns, &pytorch_job("one")).await?;
    let made = rig.seen(At::Manager, ns, object).await?;
    ensure!(
        text(&made, "/spec/runPolicy/managedBy") == KUEUES,
        "{}",
        made["spec"]
    );
    ensure!(
        annotation(&made, "portcullis.dev/dispatched-by") == OURS,
        "{}",
        made["metadata"]
    );
    let both = runs_there(&rig, ns, object, 3, "Succeeded").await?;
    let args = ["delete", "-n", ns, object, "--wait=false"];
    rig.cluster(At::Manager).kubectl_with("alice", &args, "").await?;
    gone(&rig, ns, object, both).await
}

/// With their webhooks, which take no other value than Kueue's. Side by side, each in a namespace of its own; a JAXJob beside
/// them is left to the pod gate.
async fn the_other_jobs_of_the_training_operator_run_on_a_worker(rig: Arc<Rig>) -> Result<()> {
    let one = async |kind: &str, map: &str, container: &str, roles: Value| -> Result<()> {
        let ns = format!("whole-{}", kind.to_lowercase());
        let object = format!("{}/one", kind.to_lowercase());
        let replicas = roles
            .as_object()
            .context("roles")?
            .iter()
            .map(|(role, replicas)| {
                (
                    role.clone(),
                    json!({"replicas": replicas, "restartPolicy": "Never", "template": template(container)}),
                )
            });
        let job = json!({
            "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "one"},
            "spec": {map: replicas.collect::<Value>()},
        });
        ground(&rig, &ns).await?;
        create(&rig, &ns, &job).await?;
        let made = rig.seen(At::Manager, &ns, &object).await?;
        ensure!(
            text(&made, "/spec/runPolicy/managedBy") == KUEUES,
            "{}",
            made["spec"]
        );
        ensure!(
            annotation(&made, "portcullis.dev/dispatched-by") == OURS,
            "{}",
            made["metadata"]
        );
        let both = runs_there(&rig, &ns, &object, 3, "Succeeded").await?;
        let args = ["delete", "-n", &ns, &object, "--wait=false"];
        rig.cluster(At::Manager).kubectl_with("alice", &args, "").await?;
        gone(&rig, &ns, &object, both).await
    };
    let (tensorflow, xgboost, paddle, jax) = tokio::join!(
        one(
            "TFJob",
            "tfReplicaSpecs",
            "tensorflow",
            json!({"Chief": 1, "Worker": 2})
        ),
        one(
            "XGBoostJob",
            "xgbReplicaSpecs",
            "xgboost",
            json!({"Master": 1, "Worker": 2})
        ),
        one(
            "PaddleJob",
            "paddleReplicaSpecs",
            "paddle",
            json!({"Master": 1, "Worker": 2})
        ),
        a_jax_job_goes_by_pods(&rig),
    );
    tensorflow.context("TFJob")?;
    xgboost.context("XGBoostJob")?;
    paddle.context("PaddleJob")?;
    jax.context("JAXJob")
}

/// Its operator ignores `managedBy`.
async fn a_jax_job_goes_by_pods(rig: &Rig) -> Result<()> {
    let (ns, object) = ("whole-jaxjob", "jaxjob/one");
    ground(rig, ns).await?;
    let job = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "JAXJob", "metadata": {"name": "one"},
        "spec": {"jaxReplicaSpecs": {"Worker": {"replicas": 3, "restartPolicy": "Never", "template": template("jax")}}},
    });
    create(rig, ns, &job).await?;
    let made = rig.seen(At::Manager, ns, object).await?;
    ensure!(
        made["spec"]["runPolicy"]["managedBy"].is_null(),
        "{}",
        made["spec"]
    );
    ensure!(
        annotation(&made, "portcullis.dev/dispatched-by").is_empty(),
        "{}",
        made["metadata"]
    );
    rig.running_there(ns, 3).await?;
    rig.end_all(ns, "complete").await?;
    rig.until(At::Manager, ns, object, "Succeeded", |job| {
        condition(job, "Succeeded")["status"] == "True"
    })
    .await?;
    ensure!(rig.find(At::A, ns, object).await?.is_none(), "it has a copy");
    Ok(())
}

async fn a_job_of_a_cron_job_runs_on_a_worker_only(rig: Arc<Rig>) -> Result<()> {
    let ns = "whole-cron";
    ground(&rig, ns).await?;
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"parallelism": 2, "completions": 2, "template": template("main")}},
        },
    });
    create(&rig, ns, &cron).await?;
    let jobs = rig
        .until_list(At::Manager, ns, "jobs", "one is made", |jobs| !jobs.is_empty())
        .await?;
    let object = format!("job/{}", text(&jobs[0], "/metadata/name"));
    ensure!(text(&jobs[0], "/spec/managedBy") == OURS, "{}", jobs[0]["spec"]);
    let suspend = json!({"spec": {"suspend": true}});
    rig.patch(At::Manager, ns, "cronjob/tick", suspend).await?;
    let both = runs_there(&rig, ns, &object, 2, "Complete").await?;
    // It takes its jobs with it.
    let args = ["delete", "-n", ns, "cronjob/tick", "--wait=false"];
    rig.cluster(At::Manager).kubectl_with("alice", &args, "").await?;
    gone(&rig, ns, &object, both).await
}

async fn jobs_made_while_we_are_down_run_nowhere_until_we_are_back(rig: Arc<Rig>) -> Result<()> {
    let ns = "whole-down";
    ground(&rig, ns).await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let batch = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": {"template": template("main")},
    });
    for job in [batch, job_set("one"), mpi_job("two"), pytorch_job("three")] {
        create(&rig, ns, &job).await?;
    }
    let objects = ["job/one", "jobset/one", "mpijob/two", "pytorchjob/three"];
    for object in objects {
        let job = rig.seen(At::Manager, ns, object).await?;
        ensure!(
            [OURS, KUEUES].contains(&text(&job, path_of_managed_by(object))),
            "{object}: {}",
            job["spec"]
        );
    }
    portcullis.start().await?;
    drop(portcullis);
    rig.await_workers().await?;
    rig.running_there(ns, 1 + 4 + 3 + 3).await?;
    rig.end_all(ns, "complete").await?;
    for (object, done) in objects
        .iter()
        .zip(["Complete", "Completed", "Succeeded", "Succeeded"])
    {
        rig.until(At::Manager, ns, object, done, |job| {
            condition(job, done)["status"] == "True"
        })
        .await?;
    }
    rig.no_pod_here(ns).await
}
