//! Ends: R05, R06, R07, R11, R18, R19, R21, R34.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::rig::{Case, Rig};
use crate::sides::{
    At, PATIENCE, US, annotation, dispatched, plain, play, pod, running, set, terminating, text, uid,
};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_copy_deleted_on_the_worker_fails_the_pod_and_its_controller_replaces_it),
        case!(a_job_counts_a_terminating_pod_as_failed_though_its_copy_succeeds),
        case!(alone a_finished_pod_is_final_whatever_happens_to_its_copy),
        case!(alone a_copy_that_ended_and_went_while_we_were_away_is_never_made_again),
        case!(alone a_slow_worker_and_a_lost_answer_fail_nothing),
        case!(alone a_pod_replaced_between_look_and_delete_survives),
        case!(alone a_deletion_reaches_the_worker_within_two_seconds),
        case!(alone a_deletion_while_the_worker_is_away_and_we_restart_is_not_forgotten),
        case!(alone a_terminating_pod_waits_for_its_worker_until_a_person_takes_the_finalizer_off),
    ]
}

/// R07a. The first promise of truth: gone is Failed, never Running for ever.
async fn a_copy_deleted_on_the_worker_fails_the_pod_and_its_controller_replaces_it(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "r07";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("Deployment", 2, json!({})))
        .await?;
    let two = |pods: &[serde_json::Value]| pods.iter().filter(|pod| running(pod)).count() == 2;
    let pods = rig.until_list(At::Manager, ns, "pods", "two run", two).await?;
    let name = text(&pods[0], "/metadata/name").to_owned();
    rig.delete(At::A, ns, &format!("pod/{name}")).await?;
    let failed = rig
        .until(At::Manager, ns, &format!("pod/{name}"), "Failed", |pod| {
            text(pod, "/status/phase") == "Failed"
        })
        .await?;
    ensure!(
        text(&failed, "/status/reason") == "RemotePodDeleted",
        "{}",
        failed["status"]
    );
    ensure!(dispatched(&failed)["reason"] == "RemotePodDeleted");
    rig.until_list(At::Manager, ns, "pods", "two run again", two)
        .await?;
    ensure!(
        rig.created(At::A, ns)?
            .iter()
            .filter(|created| **created == name)
            .count()
            == 1,
        "never a second copy"
    );
    rig.until_event(ns, &name, "RemotePodDeleted", "").await?;
    Ok(())
}

/// R21, `docs/decisions/0050-terminating-pods-of-jobs.md`: PodGC writes Failed on a terminating pod without a node
/// within 20 s, and the Job believes it.
async fn a_job_counts_a_terminating_pod_as_failed_though_its_copy_succeeds(rig: Arc<Rig>) -> Result<()> {
    let ns = "r21";
    // From before the opt-in, so it is dispatched by its pods and not whole.
    rig.world.manager.create_namespace(ns, &[]).await?;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": {
        "backoffLimit": 3, "suspend": true, "podReplacementPolicy": "Failed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}},
    }});
    rig.create(At::Manager, ns, job).await?;
    rig.opt_in(ns).await?;
    rig.patch(At::Manager, ns, "job/once", json!({"spec": {"suspend": false}}))
        .await?;
    let pods = rig
        .until_list(At::Manager, ns, "pods", "one runs", |pods| {
            pods.len() == 1 && running(&pods[0])
        })
        .await?;
    let (name, first) = (text(&pods[0], "/metadata/name").to_owned(), uid(&pods[0]));
    let object = format!("pod/{name}");
    rig.patch(At::A, ns, &object, play("terminate-after", "45s"))
        .await?;
    rig.delete(At::Manager, ns, &object).await?;
    rig.until(At::A, ns, &object, "terminating", terminating).await?;
    let mut statuses = rig.seen(At::A, ns, &object).await?["status"]["containerStatuses"].clone();
    statuses[0]["ready"] = false.into();
    statuses[0]["state"] = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    rig.until(At::Manager, ns, &object, "Failed by PodGC", |pod| {
        text(pod, "/status/phase") == "Failed"
    })
    .await?;
    let end = json!({"status": {"phase": "Succeeded", "containerStatuses": statuses}});
    rig.patch(At::A, ns, &format!("{object}/status"), end).await?;
    let local = rig
        .until(At::Manager, ns, &object, "shows exit code 0", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        })
        .await?;
    ensure!(
        text(&local, "/status/phase") == "Failed",
        "the phase is {}",
        text(&local, "/status/phase")
    );
    let job = rig
        .until(At::Manager, ns, "job/once", "counts one failure", |job| {
            job["status"]["failed"] == 1
        })
        .await?;
    ensure!(job["status"]["succeeded"].is_null(), "{}", job["status"]);
    rig.until_gone(At::Manager, ns, &object, &first).await?;
    let pods = rig
        .until_list(At::Manager, ns, "pods", "its replacement runs", |pods| {
            pods.len() == 1 && running(&pods[0])
        })
        .await?;
    rig.patch(
        At::A,
        ns,
        &format!("pod/{}", text(&pods[0], "/metadata/name")),
        play("end", "complete"),
    )
    .await?;
    rig.until(At::Manager, ns, "job/once", "succeeded", |job| {
        job["status"]["succeeded"] == 1
    })
    .await?;
    Ok(())
}

/// R05.
async fn a_finished_pod_is_final_whatever_happens_to_its_copy(rig: Arc<Rig>) -> Result<()> {
    let ns = "r05";
    rig.on_a(ns).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"restartPolicy": "Never"})),
    )
    .await?;
    rig.until_ready(ns, "one").await?;
    rig.patch(At::A, ns, "pod/one", play("end", "complete")).await?;
    let ended = rig
        .until(At::Manager, ns, "pod/one", "Succeeded", |pod| {
            text(pod, "/status/phase") == "Succeeded"
        })
        .await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    rig.delete(At::A, ns, "pod/one").await?;
    rig.until_gone(At::A, ns, "pod/one", &uid(&remote)).await?;
    rig.restart().await?;
    rig.create(At::Manager, ns, plain("later")).await?;
    rig.until_ready(ns, "later").await?;
    let after = rig.seen(At::Manager, ns, "pod/one").await?;
    ensure!(
        after["metadata"]["resourceVersion"] == ended["metadata"]["resourceVersion"],
        "it was written to: {after}"
    );
    ensure!(rig.created(At::A, ns)? == ["one", "later"]);
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&after)).await
}

/// R06. `cut` only loses the link, `stopped` misses the events themselves.
async fn a_copy_that_ended_and_went_while_we_were_away_is_never_made_again(rig: Arc<Rig>) -> Result<()> {
    let ns = "r06";
    rig.on_a(ns).await?;
    let proxy = &rig.world.workers[0].proxy;
    for name in ["cut", "stopped"] {
        let object = format!("pod/{name}");
        rig.create(
            At::Manager,
            ns,
            pod(name, json!({}), json!({"restartPolicy": "Never"})),
        )
        .await?;
        rig.until_ready(ns, name).await?;
        let mut portcullis = rig.portcullis.lock().await;
        if name == "cut" {
            proxy.cut();
        } else {
            portcullis.kill9();
        }
        rig.patch(At::A, ns, &object, play("end", "complete")).await?;
        let remote = rig
            .until(At::A, ns, &object, "Succeeded", |pod| {
                text(pod, "/status/phase") == "Succeeded"
            })
            .await?;
        rig.delete(At::A, ns, &object).await?;
        rig.until_gone(At::A, ns, &object, &uid(&remote)).await?;
        if name == "cut" {
            proxy.pass();
        } else {
            portcullis.start().await?;
        }
        drop(portcullis);
        let ended = rig
            .until(At::Manager, ns, &object, "ended", |pod| {
                ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
            })
            .await?;
        let reason = text(&ended, "/status/reason");
        ensure!(
            text(&ended, "/status/phase") == "Succeeded" || reason == "RemotePodDeleted",
            "{}",
            ended["status"]
        );
    }
    rig.await_workers().await?;
    rig.create(At::Manager, ns, plain("later")).await?;
    rig.until_ready(ns, "later").await?;
    ensure!(rig.created(At::A, ns)? == ["cut", "stopped", "later"]);
    Ok(())
}

/// R07b: the create's answer is lost, the worker's watch lags.
async fn a_slow_worker_and_a_lost_answer_fail_nothing(rig: Arc<Rig>) -> Result<()> {
    let ns = "r07b";
    rig.on_a(ns).await?;
    let proxy = &rig.world.workers[0].proxy;
    rig.create(At::Manager, ns, plain("first")).await?;
    rig.until_ready(ns, "first").await?;
    proxy.slow(Duration::from_millis(500));
    rig.create(At::Manager, ns, plain("slow")).await?;
    rig.until_ready(ns, "slow").await?;
    proxy.lose_answers(1);
    rig.create(At::Manager, ns, plain("lost")).await?;
    rig.until_ready(ns, "lost").await?;
    proxy.pass();
    let failed = rig
        .writes(At::Manager, ns)?
        .iter()
        .any(|write| write.pod.as_ref().is_some_and(|pod| pod.phase == "Failed"));
    ensure!(!failed, "a pod was Failed for a moment");
    ensure!(rig.created(At::A, ns)? == ["first", "slow", "lost"]);
    Ok(())
}

/// R11, second half: the copy is replaced by a stranger while we look away.
async fn a_pod_replaced_between_look_and_delete_survives(rig: Arc<Rig>) -> Result<()> {
    let ns = "r11b";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigstop();
    rig.kill(At::A, ns, "pod/one").await?;
    let marks = json!({"labels": {"portcullis.dev/origin": rig.origin().await?}, "annotations": {"portcullis.dev/local-uid": "another"}});
    let stranger = rig.create(At::A, ns, pod("one", marks, json!({}))).await?;
    rig.delete(At::Manager, ns, "pod/one").await?;
    portcullis.sigcont();
    drop(portcullis);
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    let after = rig.seen(At::A, ns, "pod/one").await?;
    ensure!(
        uid(&after) == uid(&stranger) && !terminating(&after),
        "the stranger was touched"
    );
    rig.kill(At::A, ns, "pod/one").await
}

/// R18, by the clocks of the audit logs.
async fn a_deletion_reaches_the_worker_within_two_seconds(rig: Arc<Rig>) -> Result<()> {
    let ns = "r18";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    let deleted = |at: At| -> Result<_> {
        let writes = rig.writes(at, ns)?;
        let delete = writes
            .iter()
            .find(|write| write.verb == "delete" && write.resource == "pods");
        Ok(delete.context("no delete in the audit log")?.time)
    };
    let lag = deleted(At::A)?.duration_since(deleted(At::Manager)?);
    ensure!(lag.as_millis() < 2000, "it took {lag:?}");
    Ok(())
}

/// R19, R47.
async fn a_deletion_while_the_worker_is_away_and_we_restart_is_not_forgotten(rig: Arc<Rig>) -> Result<()> {
    let ns = "r19";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.create(At::Manager, ns, plain("stays")).await?;
    let local = rig.until_ready(ns, "one").await?;
    rig.until_ready(ns, "stays").await?;
    let proxy = &rig.world.workers[0].proxy;
    proxy.cut();
    rig.delete(At::Manager, ns, "pod/one").await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.kill9();
    portcullis.start().await?;
    drop(portcullis);
    rig.until_dispatched(ns, "one", "WorkerUnreachable", "worker-a")
        .await?;
    let stays = rig
        .until_dispatched(ns, "stays", "WorkerUnreachable", "worker-a")
        .await?;
    ensure!(
        running(&stays) && crate::sides::condition(&stays, "Ready")["status"] == "False",
        "{}",
        stays["status"]
    );
    ensure!(
        running(&rig.seen(At::A, ns, "pod/one").await?),
        "nobody told the worker yet"
    );
    proxy.pass();
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    ensure!(rig.find(At::A, ns, "pod/one").await?.is_none());
    rig.until_ready(ns, "stays").await?;
    rig.await_workers().await
}

/// R34, second half, and rule 17: what the person left behind holds the name.
async fn a_terminating_pod_waits_for_its_worker_until_a_person_takes_the_finalizer_off(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "r34b";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    let proxy = &rig.world.workers[0].proxy;
    proxy.cut();
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until_dispatched(ns, "one", "WorkerUnreachable", "worker-a")
        .await?;
    rig.until(
        At::Manager,
        ns,
        "pod/one",
        "still there when PodGC comes",
        |pod| text(pod, "/status/phase") == "Failed",
    )
    .await?;
    rig.patch(
        At::Manager,
        ns,
        "pod/one",
        json!({"metadata": {"finalizers": null}}),
    )
    .await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    proxy.pass();
    rig.await_workers().await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let waits = rig
        .until_dispatched(
            ns,
            "one",
            "OrphanHoldsName",
            "kubectl --context worker-a delete pod -n r34b one",
        )
        .await?;
    let orphan = rig.seen(At::A, ns, "pod/one").await?;
    ensure!(
        annotation(&orphan, "portcullis.dev/local-uid") == uid(&local) && running(&orphan),
        "listed, never deleted by guess"
    );
    ensure!(
        rig.find(At::B, ns, "pod/one").await?.is_none(),
        "and no second copy of the name anywhere"
    );
    let (_, metrics) = rig.portcullis.lock().await.get("/metrics").await?;
    ensure!(
        metrics
            .lines()
            .any(|line| line.contains("orphans{resource=\"pods\"} 1")),
        "the metric counts it: {metrics}"
    );
    rig.delete(At::A, ns, "pod/one").await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(uid(&local) == uid(&waits));
    let ours = rig
        .writes(At::A, ns)?
        .into_iter()
        .filter(|write| write.user == US && write.verb == "delete")
        .count();
    ensure!(ours == 0, "we deleted {ours}");
    wait_for("no orphan is counted any more", PATIENCE, async || {
        let (_, metrics) = rig.portcullis.lock().await.get("/metrics").await?;
        Ok::<_, anyhow::Error>(
            metrics
                .lines()
                .any(|line| line.contains("orphans{resource=\"pods\"} 0"))
                .then_some(()),
        )
    })
    .await
}
