//! Kinds of jobs with their real definitions and without their operators: what these would write into a status is
//! written by hand, on the worker.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use portcullis::workload::jobs::{
    AppWrapper, Failure, JobKind, REMOTE_JOB_DELETED, RayCluster, RayJob, RayService, SparkApplication,
    TrainJob,
};
use portcullis_testbed::{Crds, wait_for};
use serde_json::{Value, json};

use crate::case;
use crate::rig::{Case, Rig};
use crate::sides::{At, US, annotation, dispatched, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_train_job_runs_on_a_worker),
        case!(the_kinds_of_kuberay_run_on_a_worker_once_it_serves_them),
        case!(a_spark_application_goes_by_pods),
    ]
}

const KUEUES: &str = "kueue.x-k8s.io/multikueue";
const OURS: &str = "portcullis.dev/multikueue";
const T: &str = "2026-11-30T10:00:00Z";

/// A kind whose objects go whole, and what its operator says while one runs and when it has ended.
pub struct Whole {
    kind: &'static dyn JobKind,
    runs: Value,
    /// None for what serves until it is deleted.
    ended: Option<Value>,
}

fn conditions(told: &[(&str, &str, &str)]) -> Value {
    let told = told.iter().map(|(kind, status, reason)| {
        json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": T})
    });
    told.collect()
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

/// The names of the kind in these tests: `rayjob`.
fn short(kind: &dyn JobKind) -> String {
    kind.resource().kind.to_lowercase()
}

/// A namespace where alice may make the kind.
async fn ground(rig: &Rig, kind: &dyn JobKind) -> Result<String> {
    let ns = format!("real-{}", short(kind));
    rig.on_a(&ns).await?;
    let manager = rig.cluster(At::Manager);
    manager.grant_edit("alice", &ns).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "jobs", "namespace": ns},
        "rules": [{"apiGroups": [kind.resource().group], "resources": ["*"], "verbs": ["*"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jobs", "namespace": ns},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    manager.apply(&role.to_string()).await?;
    manager.apply(&binding.to_string()).await?;
    Ok(ns)
}

/// The manifest of the documentation, under another name.
fn manifest(kind: &dyn JobKind, name: &str) -> Result<Value> {
    let mut job: Value = serde_saphyr::from_str(kind.example())?;
    job["metadata"]["name"] = name.into();
    Ok(job)
}

/// As alice; answers what she is warned of.
async fn create(rig: &Rig, ns: &str, job: &Value) -> Result<String> {
    let args = ["create", "-n", ns, "-f", "-"];
    wait_for("alice to be let in", Duration::from_secs(30), async || {
        let manager = rig.cluster(At::Manager);
        match manager.kubectl_output("alice", &args, &job.to_string()).await {
            // The authorizer hears of a new role a moment later.
            Err(error) if format!("{error:#}").contains("Forbidden") => Err(error),
            made => Ok(Some(made)),
        }
    })
    .await?
    .map(|(_, warnings)| warnings)
}

/// As alice.
async fn edit(rig: &Rig, ns: &str, object: &str, patch: &Value) -> Result<String> {
    let patch = patch.to_string();
    let args = ["patch", "-n", ns, object, "--type=merge", "-p", &patch];
    rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
}

/// A merge patch that puts a value at the end of these keys.
fn at(keys: &[&str], value: Value) -> Value {
    keys.iter().rev().fold(value, |value, key| json!({*key: value}))
}

fn field<'v>(object: &'v Value, keys: &[&str]) -> &'v Value {
    keys.iter().fold(object, |place, key| &place[*key])
}

/// As a user sees it, from the creation to the end, with its copy lost, and when somebody tries to take it back.
pub async fn runs_whole(rig: &Rig, whole: &Whole) -> Result<()> {
    let kind = whole.kind;
    let ns = ground(rig, kind).await?;
    // Side by side: what they share is the namespace.
    let (first, second, third) = tokio::join!(
        runs_and_ends(rig, &ns, whole),
        is_lost(rig, &ns, whole),
        cannot_be_taken_back(rig, &ns, kind)
    );
    first.with_context(|| format!("{ns}: it runs and ends"))?;
    second.with_context(|| format!("{ns}: its copy is lost"))?;
    third.with_context(|| format!("{ns}: managedBy stays"))?;
    let mut copies: Vec<String> = rig
        .writes(At::A, &ns)?
        .into_iter()
        .filter(|write| (write.verb.as_str(), write.resource.as_str()) == ("create", kind.resource().plural))
        .map(|write| format!("{} of {}", write.name, write.user))
        .collect();
    copies.sort();
    ensure!(
        copies == [format!("lost of {US}"), format!("main of {US}")],
        "{ns}: copies were made of {copies:?}"
    );
    rig.no_pod_here(&ns).await
}

/// Our value stands in it, as it must.
fn ensure_marked(kind: &dyn JobKind, job: &Value) -> Result<()> {
    let managed_by = field(job, kind.managed_by().path);
    match kind.dispatch().written.value() {
        OURS => ensure!(managed_by == OURS, "{}", job["spec"]),
        KUEUES => ensure!(
            managed_by == KUEUES && annotation(job, "portcullis.dev/dispatched-by") == OURS,
            "{job}"
        ),
        other => bail!("what is {other}?"),
    }
    Ok(())
}

/// Waits until it is open there. Opening is all that ever happened to its spec, so it was made suspended.
async fn opened(rig: &Rig, ns: &str, object: &str, kind: &dyn JobKind) -> Result<Value> {
    let remote = rig
        .until(At::A, ns, object, "open", |job| {
            *field(job, kind.suspend()) == false && annotation(job, "portcullis.dev/uncommitted").is_empty()
        })
        .await?;
    ensure!(
        remote["metadata"]["generation"] == 2,
        "its spec was changed by more than opening: {remote}"
    );
    let manager = field(&remote, kind.managed_by().path);
    ensure!(manager != OURS && manager != KUEUES, "{}", remote["spec"]);
    Ok(remote)
}

async fn says(rig: &Rig, ns: &str, object: &str, status: &Value) -> Result<()> {
    let status = json!({ "status": status });
    rig.patch(At::A, ns, &format!("{object}/status"), status)
        .await
        .map(drop)
}

async fn runs_and_ends(rig: &Rig, ns: &str, whole: &Whole) -> Result<()> {
    let kind = whole.kind;
    let object = format!("{}/main", short(kind));
    create(rig, ns, &manifest(kind, "main")?).await?;
    let local = rig.seen(At::Manager, ns, &object).await?;
    ensure_marked(kind, &local)?;
    let remote = opened(rig, ns, &object, kind).await?;
    says(rig, ns, &object, &whole.runs).await?;
    rig.until_equal(ns, &object).await?;
    let shown = rig.seen(At::Manager, ns, &object).await?;
    ensure!(
        !kind.is_finished(&shown) && shown["status"] != json!({}),
        "{shown}"
    );
    ensure!(
        dispatched(&shown).is_null() != kind.dispatch().takes_condition,
        "{}",
        shown["status"]
    );
    for suspend in [true, false] {
        edit(rig, ns, &object, &at(kind.suspend(), suspend.into())).await?;
        rig.until(At::A, ns, &object, &format!("suspend {suspend}"), |job| {
            *field(job, kind.suspend()) == suspend
        })
        .await?;
    }
    let Some(ended) = &whole.ended else {
        return goes(rig, ns, &object, (&local, &remote)).await;
    };
    says(rig, ns, &object, ended).await?;
    rig.until(At::Manager, ns, &object, "ended", |job| kind.is_finished(job))
        .await?;
    rig.until_equal(ns, &object).await?;
    let before = shown_times(rig, ns, kind)?;
    // What its copy says afterwards does not count, whatever wakes us.
    says(rig, ns, &object, &whole.runs).await?;
    let touch = json!({"metadata": {"annotations": {"example.com/touch": "1"}}});
    edit(rig, ns, &object, &touch).await?;
    goes(rig, ns, &object, (&local, &remote)).await?;
    let after = shown_times(rig, ns, kind)?;
    ensure!(
        before == after,
        "its status was written {before} times, then {after}"
    );
    Ok(())
}

/// How often we wrote the status of `main`.
fn shown_times(rig: &Rig, ns: &str, kind: &dyn JobKind) -> Result<usize> {
    let resource = format!("{}/status", kind.resource().plural);
    let writes = rig.writes(At::Manager, ns)?.into_iter();
    Ok(writes
        .filter(|write| write.name == "main" && write.user == US && write.resource == resource)
        .count())
}

/// Deleted by alice, and gone on both sides.
async fn goes(rig: &Rig, ns: &str, object: &str, (local, remote): (&Value, &Value)) -> Result<()> {
    let args = ["delete", "-n", ns, object, "--wait=false"];
    rig.cluster(At::Manager).kubectl_with("alice", &args, "").await?;
    rig.until_gone(At::Manager, ns, object, &uid(local)).await?;
    rig.until_gone(At::A, ns, object, &uid(remote)).await
}

/// One that names the operator of its cluster is as good as one that names nobody. The API server takes the failure.
async fn is_lost(rig: &Rig, ns: &str, whole: &Whole) -> Result<()> {
    let kind = whole.kind;
    let object = format!("{}/lost", short(kind));
    let mut job = manifest(kind, "lost")?;
    json_patch::merge(
        &mut job,
        &at(kind.managed_by().path, kind.managed_by().local.into()),
    );
    create(rig, ns, &job).await?;
    ensure_marked(kind, &rig.seen(At::Manager, ns, &object).await?)?;
    opened(rig, ns, &object, kind).await?;
    says(rig, ns, &object, &whole.runs).await?;
    rig.until_equal(ns, &object).await?;
    rig.delete(At::A, ns, &object).await?;
    let failed = rig
        .until(At::Manager, ns, &object, "failed", |job| kind.is_finished(job))
        .await?;
    ensure!(
        failed["status"].to_string().contains(REMOTE_JOB_DELETED),
        "{}",
        failed["status"]
    );
    ensure!(kind.finished_at(&failed).is_some(), "{}", failed["status"]);
    Ok(())
}

/// Neither another value nor none, though nothing is committed yet: the operator of this cluster would run it.
async fn cannot_be_taken_back(rig: &Rig, ns: &str, kind: &dyn JobKind) -> Result<()> {
    let object = format!("{}/waits", short(kind));
    let mut job = manifest(kind, "waits")?;
    json_patch::merge(&mut job, &at(kind.suspend(), true.into()));
    create(rig, ns, &job).await?;
    for value in [Value::Null, kind.managed_by().local.into()] {
        let answer = edit(rig, ns, &object, &at(kind.managed_by().path, value.clone())).await;
        let refused = answer.as_ref().map_err(|error| format!("{error:#}"));
        ensure!(
            refused.is_err_and(|words| words.to_lowercase().contains("managedby")),
            "{value} in managedBy: {answer:?}"
        );
    }
    ensure_marked(kind, &rig.seen(At::Manager, ns, &object).await?)
}

/// A kind whose definition lacks `managedBy` is left to the pod gate. Its status would take the end that we would write.
async fn goes_by_pods(rig: &Rig, kind: &dyn JobKind) -> Result<()> {
    let ns = ground(rig, kind).await?;
    let object = format!("{}/main", short(kind));
    let job = manifest(kind, "main")?;
    let dry = ["create", "-n", &ns, "--dry-run=server", "-f", "-"];
    wait_for(
        "the definition to be known",
        Duration::from_secs(60),
        async || {
            let manager = rig.cluster(At::Manager);
            let (_, warned) = manager.kubectl_output("alice", &dry, &job.to_string()).await?;
            anyhow::Ok(warned.contains("has no such field").then_some(()))
        },
    )
    .await?;
    let warned = create(rig, &ns, &job).await?;
    ensure!(warned.contains("its pods are dispatched one by one"), "{warned}");
    let local = rig.seen(At::Manager, &ns, &object).await?;
    ensure!(
        field(&local, kind.managed_by().path).is_null(),
        "{}",
        local["spec"]
    );
    let mut status = json!({});
    let failure = Failure {
        reason: REMOTE_JOB_DELETED,
        message: "gone",
        now: T,
    };
    kind.fail(status.as_object_mut().context("an object")?, &failure);
    if kind.dispatch().takes_condition {
        let ours = conditions(&[("portcullis.dev/Dispatched", "False", REMOTE_JOB_DELETED)]);
        let list = status["conditions"].as_array_mut().context("conditions")?;
        list.extend(ours.as_array().cloned().unwrap_or_default());
    }
    rig.patch(
        At::Manager,
        &ns,
        &format!("{object}/status"),
        json!({ "status": status.clone() }),
    )
    .await?;
    let failed = rig.seen(At::Manager, &ns, &object).await?;
    ensure!(kind.is_finished(&failed), "{}", failed["status"]);
    for (key, value) in status.as_object().into_iter().flatten() {
        ensure!(
            failed["status"][key] == *value,
            "{key} is {} now",
            failed["status"][key]
        );
    }
    ensure!(rig.writes(At::A, &ns)?.is_empty(), "{object} has a copy");
    Ok(())
}
