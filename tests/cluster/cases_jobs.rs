//! Whole jobs: batch Jobs that run on a worker as one object (R57, R61, R62, R87).

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::jobs::Role;
use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, condition, dispatched, terminating, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_runs_on_a_worker_only_and_ends_here_as_it_ended_there),
        case!(a_job_that_fails_there_fails_here),
        case!(a_job_suspended_in_the_middle_stops_there_and_goes_on),
        case!(a_job_created_suspended_waits_until_it_is_resumed),
        case!(a_job_deleted_on_its_worker_fails_and_is_never_made_again),
        case!(a_deleted_job_takes_its_copy_and_its_pods_with_it),
        case!(a_job_of_another_dispatcher_is_left_alone),
        case!(alone a_job_runs_once_though_we_are_killed_at_each_step),
    ]
}

/// A Job as users write it: admission leaves it to us. `spec` is merged into its spec.
fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "parallelism": 3, "completions": 3, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}},
        },
    });
    json_patch::merge(&mut job, &json!({ "spec": spec }));
    job
}

fn is(job: &Value, kind: &str) -> bool {
    condition(job, kind)["status"] == "True"
}

fn active(count: u64) -> impl Fn(&Value) -> bool {
    move |job| job["status"]["active"].as_u64().unwrap_or(0) == count
}

async fn a_job_runs_on_a_worker_only_and_ends_here_as_it_ended_there(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-run";
    rig.on_a(ns).await?;
    for (name, mode) in [("indexed", "Indexed"), ("counted", "NonIndexed")] {
        let object = format!("job/{name}");
        rig.create(At::Manager, ns, job(name, json!({"completionMode": mode})))
            .await?;
        rig.running_there(ns, 3).await?;
        let local = rig
            .until(At::Manager, ns, &object, "three active", active(3))
            .await?;
        ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-a");
        rig.until_equal(ns, &object).await?;
        let remote = rig.seen(At::A, ns, &object).await?;
        ensure!(remote["spec"]["managedBy"].is_null() && remote["spec"]["suspend"] == false);
        ensure!(annotation(&remote, "portcullis.dev/uncommitted").is_empty());
        rig.end_all(ns, "complete").await?;
        let ended = rig
            .until(At::Manager, ns, &object, "Complete", |job| is(job, "Complete"))
            .await?;
        ensure!(ended["status"]["succeeded"] == 3, "{}", ended["status"]);
        ensure!(dispatched(&ended)["status"] == "True", "{}", ended["status"]);
        rig.until_equal(ns, &object).await?;
        rig.delete(At::Manager, ns, &object).await?;
        rig.until_gone(At::Manager, ns, &object, &uid(&local)).await?;
        rig.until_gone(At::A, ns, &object, &uid(&remote)).await?;
        rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
            .await?;
    }
    rig.no_pod_here(ns).await?;
    ensure!(rig.copies(At::B, ns)?.is_empty());
    ensure!(rig.copies(At::A, ns)? == ["indexed", "counted"]);
    Ok(())
}

async fn a_job_that_fails_there_fails_here(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-fail";
    rig.on_a(ns).await?;
    rig.create(
        At::Manager,
        ns,
        job(
            "one",
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 0}),
        ),
    )
    .await?;
    rig.running_there(ns, 1).await?;
    rig.end_all(ns, "fail").await?;
    let failed = rig
        .until(At::Manager, ns, "job/one", "Failed", |job| is(job, "Failed"))
        .await?;
    ensure!(
        condition(&failed, "Failed")["reason"] == "BackoffLimitExceeded",
        "{}",
        failed["status"]
    );
    rig.create(
        At::Manager,
        ns,
        job(
            "late",
            json!({"parallelism": 1, "completions": 1, "activeDeadlineSeconds": 3}),
        ),
    )
    .await?;
    let late = rig
        .until(At::Manager, ns, "job/late", "Failed", |job| is(job, "Failed"))
        .await?;
    ensure!(
        condition(&late, "Failed")["reason"] == "DeadlineExceeded",
        "{}",
        late["status"]
    );
    rig.no_pod_here(ns).await
}

async fn a_job_suspended_in_the_middle_stops_there_and_goes_on(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-suspend";
    rig.on_a(ns).await?;
    let first = rig.create(At::Manager, ns, job("one", json!({}))).await?;
    rig.until(At::Manager, ns, "job/one", "three active", active(3))
        .await?;
    for round in 0..2 {
        let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
        rig.patch(At::Manager, ns, "job/one", suspend(true)).await?;
        rig.until(At::A, ns, "job/one", "suspended", |job| is(job, "Suspended"))
            .await?;
        rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
            .await?;
        let stopped = rig
            .until(At::Manager, ns, "job/one", "suspended here", |job| {
                is(job, "Suspended") && active(0)(job)
            })
            .await?;
        ensure!(stopped["status"]["startTime"].is_null(), "{}", stopped["status"]);
        ensure!(
            dispatched(&stopped)["reason"] == "Suspended",
            "{}",
            stopped["status"]
        );
        rig.patch(At::Manager, ns, "job/one", suspend(false)).await?;
        rig.running_there(ns, 3)
            .await
            .with_context(|| format!("round {round}"))?;
        rig.until(At::Manager, ns, "job/one", "three active again", |job| {
            active(3)(job) && !is(job, "Suspended")
        })
        .await?;
        rig.until_equal(ns, "job/one").await?;
    }
    rig.end_all(ns, "complete").await?;
    rig.until(At::Manager, ns, "job/one", "Complete", |job| is(job, "Complete"))
        .await?;
    ensure!(rig.copies(At::A, ns)? == ["one"], "one copy in all");
    ensure!(
        rig.ran(ns)?
            .get(&uid(&first))
            .is_some_and(|copies| copies.len() == 1)
    );
    rig.no_pod_here(ns).await
}

async fn a_job_created_suspended_waits_until_it_is_resumed(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-wait";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one", json!({"suspend": true})))
        .await?;
    let waiting = rig
        .until(At::Manager, ns, "job/one", "says why it waits", |job| {
            dispatched(job)["reason"] == "Suspended"
        })
        .await?;
    ensure!(annotation(&waiting, "portcullis.dev/remote-uid").is_empty());
    ensure!(rig.copies(At::A, ns)?.is_empty(), "nothing is prepared for it");
    rig.patch(At::Manager, ns, "job/one", json!({"spec": {"suspend": false}}))
        .await?;
    rig.running_there(ns, 3).await?;
    rig.until(At::Manager, ns, "job/one", "three active", active(3))
        .await?;
    Ok(())
}

async fn a_job_deleted_on_its_worker_fails_and_is_never_made_again(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-lost";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one", json!({}))).await?;
    rig.until(At::Manager, ns, "job/one", "three active", active(3))
        .await?;
    rig.delete(At::A, ns, "job/one").await?;
    let failed = rig
        .until(At::Manager, ns, "job/one", "Failed", |job| is(job, "Failed"))
        .await?;
    for kind in ["FailureTarget", "Failed"] {
        ensure!(
            condition(&failed, kind)["reason"] == "RemoteJobDeleted",
            "{}",
            failed["status"]
        );
    }
    ensure!(active(0)(&failed), "{}", failed["status"]);
    rig.until_event(ns, "one", "RemoteJobDeleted", "").await?;
    // Time for a second copy, if there ever were one.
    rig.create(At::Manager, ns, job("two", json!({}))).await?;
    rig.until(At::Manager, ns, "job/two", "three active", active(3))
        .await?;
    ensure!(
        rig.copies(At::A, ns)? == ["one", "two"],
        "{:?}",
        rig.copies(At::A, ns)?
    );
    Ok(())
}

/// Also one whose deletion leaves its pods behind where it ran here (R62): there they go.
async fn a_deleted_job_takes_its_copy_and_its_pods_with_it(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-delete";
    rig.on_a(ns).await?;
    for (name, policy) in [("one", "Background"), ("two", "Orphan"), ("three", "Foreground")] {
        let object = format!("job/{name}");
        let local = rig.create(At::Manager, ns, job(name, json!({}))).await?;
        rig.running_there(ns, 3).await?;
        let remote = rig.seen(At::A, ns, &object).await?;
        rig.cluster(At::Manager)
            .kubectl(&[
                "delete",
                "-n",
                ns,
                "job",
                name,
                "--wait=false",
                &format!("--cascade={}", policy.to_lowercase()),
            ])
            .await?;
        rig.until_gone(At::A, ns, &object, &uid(&remote)).await?;
        rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
            .await?;
        rig.until_gone(At::Manager, ns, &object, &uid(&local)).await?;
    }
    rig.no_pod_here(ns).await
}

/// R57.
async fn a_job_of_another_dispatcher_is_left_alone(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-foreign";
    rig.on_a(ns).await?;
    let foreign = json!({"managedBy": "kueue.x-k8s.io/multikueue"});
    rig.create(At::Manager, ns, job("theirs", foreign)).await?;
    rig.create(At::Manager, ns, job("ours", json!({}))).await?;
    rig.until(At::Manager, ns, "job/ours", "three active", active(3))
        .await?;
    let theirs = rig.seen(At::Manager, ns, "job/theirs").await?;
    ensure!(theirs["status"] == json!({}), "{}", theirs["status"]);
    ensure!(rig.copies(At::A, ns)? == ["ours"]);
    Ok(())
}

/// Each step is held back by taking the right to it away; then we are killed, and killed again once it is there.
async fn a_job_runs_once_though_we_are_killed_at_each_step(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-killed";
    rig.on_a(ns).await?;
    for (name, at) in [("before-commit", At::Manager), ("before-open", At::A)] {
        let object = format!("job/{name}");
        let role = Role::of(&rig, at).await?;
        role.without_patch(&rig).await?;
        let local = rig.create(At::Manager, ns, job(name, json!({}))).await?;
        let prepared = rig
            .until(At::A, ns, &object, "prepared", |job| {
                job["spec"]["suspend"] == true
            })
            .await?;
        if at == At::A {
            rig.until(At::Manager, ns, &object, "committed", |job| {
                annotation(job, "portcullis.dev/remote-uid").ends_with(&uid(&prepared))
            })
            .await?;
        }
        rig.restart().await?;
        let still = rig.seen(At::A, ns, &object).await?;
        ensure!(
            uid(&still) == uid(&prepared) && still["spec"]["suspend"] == true,
            "{}",
            still["spec"]
        );
        role.restore(&rig).await?;
        rig.running_there(ns, 3).await?;
        rig.restart().await?;
        rig.until(At::Manager, ns, &object, "three active", active(3))
            .await?;
        let copies = BTreeSet::from([uid(&prepared)]);
        ensure!(
            rig.ran(ns)?.get(&uid(&local)) == Some(&copies),
            "{:?}",
            rig.ran(ns)?
        );
        rig.delete(At::Manager, ns, &object).await?;
        rig.until_gone(At::Manager, ns, &object, &uid(&local)).await?;
        rig.until_list(At::A, ns, "pods", "none", <[Value]>::is_empty)
            .await?;
    }
    // Killed while many are under way, at whatever step each of them is.
    for number in 0..12 {
        rig.create(
            At::Manager,
            ns,
            job(
                &format!("many-{number}"),
                json!({"parallelism": 1, "completions": 1}),
            ),
        )
        .await?;
        if number % 4 == 3 {
            rig.restart().await?;
        }
    }
    let jobs = rig
        .until_list(At::Manager, ns, "jobs", "all run", |jobs| {
            jobs.len() == 12 && jobs.iter().all(active(1))
        })
        .await?;
    let ran = rig.ran(ns)?;
    for job in &jobs {
        let copies = ran.get(&uid(job)).map_or(0, BTreeSet::len);
        ensure!(copies == 1, "{} ran {copies} times", text(job, "/metadata/name"));
        ensure!(!terminating(job));
    }
    rig.no_pod_here(ns).await
}
