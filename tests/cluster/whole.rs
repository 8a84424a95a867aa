//! A job of any kind as a user sees it, from its creation to its end; what its operator would write into a status is
//! written by hand, on the worker.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use portcullis::workload::jobs::{Failure, JobKind, REMOTE_JOB_DELETED};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::rig::Rig;
use crate::sides::{At, KIND_IS_NEW, US, annotation, dispatched, uid};

const KUEUES: &str = "kueue.x-k8s.io/multikueue";
const OURS: &str = "portcullis.dev/multikueue";
/// When operators say that things happened.
pub const T: &str = "2026-11-30T10:00:00Z";

/// A kind whose objects go whole, and what its operator says while one runs and when it has ended.
pub struct Whole {
    pub kind: &'static dyn JobKind,
    pub runs: Value,
    /// None for what serves until it is deleted.
    pub ended: Option<Value>,
}

/// Conditions with these types, statuses and reasons.
pub fn conditions(told: &[(&str, &str, &str)]) -> Value {
    let told = told.iter().map(|(kind, status, reason)| {
        json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": T})
    });
    told.collect()
}

/// The names of the kind in these tests: `rayjob`.
fn short(kind: &dyn JobKind) -> String {
    kind.resource().kind.to_lowercase()
}

/// A namespace where alice may make the kind.
async fn ground(rig: &Rig, kind: &dyn JobKind) -> Result<String> {
    let ns = format!("real-{}", short(kind));
    ground_of(rig, kind, &ns).await?;
    Ok(ns)
}

/// As [`ground`], with this name.
pub async fn ground_of(rig: &Rig, kind: &dyn JobKind, ns: &str) -> Result<()> {
    ground_for(rig, &[kind.resource().group], ns).await
}

/// A namespace where alice may edit, and make all kinds of these API groups.
pub async fn ground_for(rig: &Rig, groups: &[&str], ns: &str) -> Result<()> {
    rig.on_a(ns).await?;
    let manager = rig.cluster(At::Manager);
    manager.grant_edit("alice", ns).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "jobs", "namespace": ns},
        "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jobs", "namespace": ns},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    manager.apply(&role.to_string()).await?;
    manager.apply(&binding.to_string()).await?;
    Ok(())
}

/// The manifest of the documentation, under another name.
pub fn manifest(kind: &dyn JobKind, name: &str) -> Result<Value> {
    let mut job: Value = serde_saphyr::from_str(kind.example())?;
    job["metadata"]["name"] = name.into();
    Ok(job)
}

/// As alice; answers what she is warned of.
pub async fn create(rig: &Rig, ns: &str, job: &Value) -> Result<String> {
    let args = ["create", "-n", ns, "-f", "-"];
    wait_for("alice to be let in", Duration::from_secs(30), async || {
        let manager = rig.cluster(At::Manager);
        match manager.kubectl_output("alice", &args, &job.to_string()).await {
            // The authorizer hears of a new role a moment later, and policies of a new kind.
            Err(error)
                if ["Forbidden", KIND_IS_NEW]
                    .iter()
                    .any(|words| format!("{error:#}").contains(words)) =>
            {
                Err(error)
            }
            made => Ok(Some(made)),
        }
    })
    .await?
    .map(|(_, warnings)| warnings)
}

/// As alice.
pub async fn edit(rig: &Rig, ns: &str, object: &str, patch: &Value) -> Result<String> {
    let patch = patch.to_string();
    let args = ["patch", "-n", ns, object, "--type=merge", "-p", &patch];
    rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
}

/// A merge patch that puts a value at the end of these keys.
pub fn at(keys: &[&str], value: Value) -> Value {
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
pub fn ensure_marked(kind: &dyn JobKind, job: &Value) -> Result<()> {
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
pub async fn goes(rig: &Rig, ns: &str, object: &str, (local, remote): (&Value, &Value)) -> Result<()> {
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
pub async fn goes_by_pods(rig: &Rig, kind: &dyn JobKind) -> Result<()> {
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
