//! Edits of a job that was handed to a worker (R88): what follows it there, and what is refused here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use portcullis::workload::jobs::{JOB_KINDS, JobKind};
use portcullis_testbed::{Crds, case, wait_for};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cases_jobs_bad_input::{job, says};
use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, US, annotation, dispatched, uid};

pub fn cases() -> Vec<Case> {
    let every_kind = case!(alone the_spec_of_a_committed_job_of_every_kind_stays);
    vec![
        case!(listed_labels_and_annotations_follow_a_job_to_its_worker),
        case!(what_a_worker_undoes_is_put_back_ever_more_rarely_and_told),
        Case {
            limit: Duration::from_secs(300), // fourteen kinds, by kubectl
            ..every_kind
        },
    ]
}

fn of(job: &Value, map: &str, key: &str) -> Value {
    job["metadata"][map][key].clone()
}

async fn listed_labels_and_annotations_follow_a_job_to_its_worker(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-edits", "job/one");
    let forward = json!({"labels": ["team"], "annotations": ["example.com/*"]});
    let spec = json!({"clusters": ["worker-a"], "namespaces": {"create": true}, "forward": forward});
    rig.opted_in_to(ns, spec).await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "one", "labels": {"team": "a", "other": "x"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}},
    });
    rig.create(At::Manager, ns, job).await?;
    rig.running_there(ns, 1).await?;
    rig.until(At::Manager, ns, object, "Running is told", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await?;
    // What somebody on the worker wrote, and no policy lists, stays as it is.
    let theirs = json!({"metadata": {"labels": {"worker": "w"}, "annotations": {"example.org/note": "w"}}});
    rig.patch(At::A, ns, object, theirs).await?;
    let edits = [
        (
            json!({"labels": {"team": "b", "other": "y"}}),
            ("labels", "team", json!("b")),
        ),
        (
            json!({"annotations": {"example.com/note": "n"}}),
            ("annotations", "example.com/note", json!("n")),
        ),
        (
            json!({"annotations": {"example.com/note": null}}),
            ("annotations", "example.com/note", Value::Null),
        ),
        (json!({"labels": {"team": null}}), ("labels", "team", Value::Null)),
    ];
    let count = edits.len();
    for (metadata, (map, key, value)) in edits {
        rig.patch(At::Manager, ns, object, json!({ "metadata": metadata }))
            .await?;
        rig.until(At::A, ns, object, "to follow", |job| of(job, map, key) == value)
            .await?;
    }
    let copy = rig.seen(At::A, ns, object).await?;
    ensure!(
        of(&copy, "labels", "other") == "x" && of(&copy, "labels", "worker") == "w",
        "{copy}"
    );
    ensure!(annotation(&copy, "example.org/note") == "w", "{copy}");
    let local = rig.seen(At::Manager, ns, object).await?;
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    // One write to open it, one for each edit.
    let writes = rig.writes(At::A, ns)?.into_iter();
    let ours: Vec<_> = writes
        .filter(|write| write.user == US && write.resource == "jobs" && write.verb == "patch")
        .collect();
    ensure!(ours.len() == 1 + count, "{} patches: {ours:?}", ours.len());
    Ok(())
}

/// Something on the worker suspends the copy whenever it is not.
async fn what_a_worker_undoes_is_put_back_ever_more_rarely_and_told(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-undone", "job/one");
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one")).await?;
    rig.running_there(ns, 1).await?;
    rig.until(At::Manager, ns, object, "Running is told", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await?;
    let path = format!("/namespaces/{ns}/jobs/one");
    let forwards = || rig.requests(At::A, "patch", &path).map(|times| times.len());
    let opened = forwards()?;
    let shown = format!("{path}/status");
    let statuses = || {
        rig.requests(At::Manager, "patch", &shown)
            .map(|times| times.len())
    };
    let running = statuses()?;
    let ends = CancellationToken::new();
    let fighter = tokio::spawn({
        let (rig, ends) = (rig.clone(), ends.clone());
        async move {
            while !ends.is_cancelled() {
                if rig.seen(At::A, ns, object).await?["spec"]["suspend"] == false {
                    rig.patch(At::A, ns, object, json!({"spec": {"suspend": true}}))
                        .await?;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        }
    });
    let words = "worker-a: something there keeps changing spec.suspend of its copy";
    let began = Instant::now();
    rig.until(
        At::Manager,
        ns,
        object,
        "it is told",
        says("ForwardUndone", words),
    )
    .await?;
    rig.until_event(ns, "one", "ForwardUndone", words).await?;
    tokio::time::sleep(Duration::from_secs(16).saturating_sub(began.elapsed())).await;
    let (puts, writes) = (forwards()? - opened, statuses()? - running);
    ensure!((3..=6).contains(&puts), "{puts} forwards");
    ensure!(writes <= 8 * puts, "{writes} statuses for {puts} forwards");
    let seen = rig.seen(At::Manager, ns, object).await?;
    ensure!(says("ForwardUndone", words)(&seen), "{}", dispatched(&seen));
    // The next is due half a minute after the first. What the user changes follows at once.
    let edited = Instant::now();
    rig.patch(At::Manager, ns, object, json!({"spec": {"parallelism": 2}}))
        .await?;
    rig.until(At::A, ns, object, "to follow", |job| {
        job["spec"]["parallelism"] == 2
    })
    .await?;
    ensure!(
        edited.elapsed() < Duration::from_secs(10),
        "{:?}",
        edited.elapsed()
    );
    // So does a suspend that finds the copy suspended, and the resume after it.
    for _ in 0..4 {
        let before = forwards()?;
        wait_for("another put back", PATIENCE, async || {
            anyhow::Ok((forwards()? > before).then_some(()))
        })
        .await?;
    }
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": true}}))
        .await?;
    rig.until(At::Manager, ns, object, "the suspend is seen", |job| {
        dispatched(job)["reason"] == "Suspended"
    })
    .await?;
    let (resumed, before) = (Instant::now(), forwards()?);
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": false}}))
        .await?;
    rig.until_requests(At::A, "patch", &path, before + 1).await?;
    ensure!(
        resumed.elapsed() < Duration::from_secs(10),
        "{:?}",
        resumed.elapsed()
    );
    ends.cancel();
    fighter.await??;
    rig.until(At::A, ns, object, "its value", |job| {
        job["spec"]["suspend"] == false
    })
    .await?;
    rig.running_there(ns, 1).await?; // its completions are 1
    rig.until(At::Manager, ns, object, "Running is told again", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await
    .map(drop)
}

/// Fields that the CRDs have, and that would not reach the worker.
fn edit(kind: &dyn JobKind) -> Value {
    match kind.resource().plural {
        "jobs" => json!({"backoffLimit": 1}),
        "jobsets" => json!({"failurePolicy": {"maxRestarts": 3}}),
        "trainjobs" => json!({"labels": {"a": "b"}}),
        "rayjobs" => json!({"entrypoint": "another"}),
        "rayclusters" => json!({"rayVersion": "9.9"}),
        "appwrappers" => json!({"components": []}),
        _ => json!({"runPolicy": {"backoffLimit": 5}}),
    }
}

fn at(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |value, key| json!({*key: value}))
}

async fn the_spec_of_a_committed_job_of_every_kind_stays(rig: Arc<Rig>) -> Result<()> {
    let ns = "every-kind";
    let manager = rig.cluster(At::Manager);
    let definitions = [
        Crds::JobSet,
        Crds::MpiOperator,
        Crds::TrainingOperator,
        Crds::Trainer,
        Crds::KubeRay,
        Crds::AppWrapper,
    ];
    for crds in definitions {
        manager.install_crds(crds).await?;
    }
    // The CRD of the first is that of v2beta1; those of the others have no `managedBy`.
    let by_pods = [
        "mpijobs.kubeflow.org/v1",
        "rayservices.ray.io/v1",
        "sparkapplications.sparkoperator.k8s.io/v1beta2",
    ];
    let whole = |kind: &&&dyn JobKind| {
        let names = kind.resource();
        !by_pods.contains(&format!("{}.{}", names.plural, names.api_version()).as_str())
    };
    manager
        .create_namespace(ns, &[("portcullis.dev/dispatch", "nowhere")])
        .await?;
    rig.await_gate(ns).await?;
    let mut tried = 0;
    for kind in JOB_KINDS.iter().filter(whole) {
        let stays = stays(&rig, ns, *kind).await;
        stays.with_context(|| kind.resource().kind.to_owned())?;
        tried += 1;
    }
    ensure!(tried == JOB_KINDS.len() - by_pods.len());
    Ok(())
}

async fn stays(rig: &Rig, ns: &str, kind: &dyn JobKind) -> Result<()> {
    let manager = rig.cluster(At::Manager);
    let names = kind.resource();
    let mut job: Value = serde_saphyr::from_str(kind.example())?;
    job["metadata"] = json!({"name": "one"});
    let resource = format!("{}.{}.{}", names.plural, names.version, names.group);
    // The survey of kinds hears of a CRD a moment later.
    let made = wait_for("it to be left to us", Duration::from_secs(60), async || {
        let text = job.to_string();
        let args = ["create", "-n", ns, "-o", "json", "-f", "-"];
        let made: Value = serde_json::from_str(&manager.kubectl_with("admin", &args, &text).await?)?;
        let managed_by = kind
            .managed_by()
            .path
            .iter()
            .fold(&made, |place, key| &place[*key]);
        if managed_by
            .as_str()
            .is_some_and(|value| value.contains("/multikueue"))
        {
            return Ok(Some(made));
        }
        manager.kubectl(&["delete", "-n", ns, &resource, "one"]).await?;
        Err(anyhow::anyhow!("managedBy is {managed_by}"))
    })
    .await?;
    let patch = async |patch: Value, who: &str| {
        let patch = patch.to_string();
        manager
            .kubectl(&[
                "patch",
                "-n",
                ns,
                &resource,
                "one",
                "--type=merge",
                "-p",
                &patch,
                who,
            ])
            .await
    };
    let commit = json!({"metadata": {
        "finalizers": ["portcullis.dev/remote-copy"],
        "annotations": {
            "portcullis.dev/cluster": "worker-x", "portcullis.dev/cluster-uid": "2f1c",
            "portcullis.dev/remote-uid": format!("{}/77", uid(&made)),
        },
    }});
    patch(commit, &format!("--as={US}")).await.context("commit")?;
    match patch(json!({"spec": edit(kind)}), "--output=name").await {
        Err(error) if format!("{error:#}").contains("was handed to the worker cluster worker-x") => {}
        other => bail!("an edit of the spec: {other:?}"),
    }
    for suspend in [true, false] {
        patch(at(kind.suspend(), suspend.into()), "--output=name")
            .await
            .context("suspend")?;
    }
    for path in kind
        .forwarded()
        .iter()
        .filter(|path| path.last() == Some(&"parallelism"))
    {
        patch(at(path, json!(2)), "--output=name")
            .await
            .context("parallelism")?;
    }
    if let Some(path) = kind.kept_here() {
        patch(at(path, json!(60)), "--output=name")
            .await
            .context("the TTL")?;
    }
    let free = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}});
    patch(free, "--output=name").await.context("metadata")?;
    manager
        .kubectl(&["delete", "-n", ns, &resource, "one", "--wait=false"])
        .await?;
    patch(json!({"metadata": {"finalizers": null}}), "--output=name")
        .await
        .context("release")?;
    Ok(())
}
