//! Cases of a third cluster: narrow rights, a registration that goes, a worker restored from a backup.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{Part, case};
use serde_json::json;

use crate::cases_jobs_bad_input::job;
use crate::rig::{CONFIGURATION, Case, Rig, printed};
use crate::sides::{At, annotation, condition, dispatched, plain, play, pod, running, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(alone a_worker_cluster_with_work_waits_to_be_deleted_and_says_for_what),
        case!(alone the_role_per_namespace_is_enough_and_a_missing_right_is_told),
        case!(alone a_worker_restored_to_before_the_opening_runs_nothing_twice),
        case!(alone a_kubeconfig_that_leads_to_another_cluster_proves_nothing),
    ]
}

fn only_c() -> serde_json::Value {
    json!({"clusters": ["worker-c"], "namespaces": {"create": true}})
}

/// Design section 3: the finalizer.
async fn a_worker_cluster_with_work_waits_to_be_deleted_and_says_for_what(rig: Arc<Rig>) -> Result<()> {
    let ns = "third-leaves";
    rig.third().await?;
    rig.register_third().await?;
    rig.opted_in_to(ns, only_c()).await?;
    rig.create(At::Manager, ns, plain("runs")).await?;
    rig.create(
        At::Manager,
        ns,
        pod("done", json!({}), json!({"restartPolicy": "Never"})),
    )
    .await?;
    for name in ["runs", "done"] {
        rig.until_ready(ns, name).await?;
    }
    rig.patch(At::C, ns, "pod/done", play("end", "complete")).await?;
    rig.until(At::Manager, ns, "pod/done", "Succeeded", |pod| {
        text(pod, "/status/phase") == "Succeeded"
    })
    .await?;
    let whole = rig.create(At::Manager, ns, job("whole")).await?;
    let cluster = rig
        .until(
            At::Manager,
            "",
            "workercluster/worker-c",
            "the finalizer, one pod, and one job",
            |cluster| {
                let status = &cluster["status"];
                cluster["metadata"]["finalizers"]
                    .to_string()
                    .contains("work-remains")
                    && status["pods"]["committed"] == 1
                    && status["jobs"] == json!({"committed": 1, "running": 1})
            },
        )
        .await?;
    rig.delete(At::Manager, ns, "job/whole").await?;
    rig.until_gone(At::Manager, ns, "job/whole", &uid(&whole)).await?;
    rig.delete(At::Manager, "", "workercluster/worker-c").await?;
    rig.until_cluster(
        "worker-c",
        "WorkRemains",
        "waits for 1 pods that are committed to it, and 1 pods that have finished; delete",
    )
    .await?;
    rig.create(At::Manager, ns, plain("late")).await?;
    rig.until_dispatched(ns, "late", "NoClusterTakesIt", "being deleted")
        .await?;
    ensure!(running(&rig.seen(At::C, ns, "pod/runs").await?));
    rig.delete(At::Manager, ns, "pod/late").await?;
    for name in ["runs", "done"] {
        let local = rig.seen(At::Manager, ns, &format!("pod/{name}")).await?;
        rig.delete(At::Manager, ns, &format!("pod/{name}")).await?;
        rig.until_gone(At::Manager, ns, &format!("pod/{name}"), &uid(&local))
            .await?;
    }
    rig.until_gone(At::Manager, "", "workercluster/worker-c", &uid(&cluster))
        .await?;
    rig.create(At::Manager, ns, plain("later")).await?;
    rig.until_dispatched(
        ns,
        "later",
        "NoClusterTakesIt",
        "there is no WorkerCluster \"worker-c\"",
    )
    .await?;
    rig.delete(At::Manager, ns, "pod/later").await?;
    ensure!(rig.list(At::C, ns, "pods").await?.is_empty());
    rig.unregister("worker-c").await
}

/// `portcullis manifests rbac-worker-namespaced`, step by step: each missing right is a sentence, and is found when it
/// is granted, without a restart.
async fn the_role_per_namespace_is_enough_and_a_missing_right_is_told(rig: Arc<Rig>) -> Result<()> {
    let ns = "third-narrow";
    let c = rig.third().await?;
    c.kubectl(&["delete", "clusterrolebinding", "portcullis-worker"])
        .await?;
    rig.register_third().await?;
    rig.until_cluster("worker-c", "NotPermitted", "kube-system")
        .await?;
    c.apply(&printed(&[
        "manifests",
        "--config",
        CONFIGURATION,
        "rbac-worker-namespaced",
        "--worker-namespace",
        "default",
    ])?)
    .await?;
    rig.until_cluster("worker-c", "Ready", "takes pods").await?;
    rig.opted_in_to(ns, json!({"clusters": ["worker-c"]})).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let command = "portcullis manifests rbac-worker-namespaced --worker-namespace third-narrow";
    rig.until_dispatched(ns, "one", "NoClusterTakesIt", command)
        .await?;
    rig.consenting(At::C, ns).await?;
    c.apply(&printed(&[
        "manifests",
        "--config",
        CONFIGURATION,
        "rbac-worker-namespaced",
        "--worker-namespace",
        ns,
    ])?)
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    // Everything else works as narrow as that: the end, a failure, the worker's words.
    rig.create(At::Manager, ns, plain("two")).await?;
    rig.until_ready(ns, "two").await?;
    rig.delete(At::C, ns, "pod/two").await?;
    rig.until(At::Manager, ns, "pod/two", "Failed", |pod| {
        text(pod, "/status/reason") == "RemotePodDeleted"
    })
    .await?;
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    rig.delete(At::Manager, ns, "pod/two").await?;
    rig.unregister("worker-c").await?;
    // The cluster-wide role with a verb missing.
    rig.third().await?;
    let role: serde_json::Value = serde_json::from_str(
        &c.kubectl(&["get", "clusterrole", "portcullis-worker", "-o", "json"])
            .await?,
    )?;
    let index = role["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .position(|rule| rule["resources"] == json!(["pods"]));
    let verbs = format!("/rules/{}/verbs", index.unwrap_or_default());
    let without = format!(
        "[{{\"op\":\"replace\",\"path\":\"{verbs}\",\"value\":[\"get\",\"list\",\"watch\",\"create\",\"patch\"]}}]"
    );
    c.kubectl(&[
        "patch",
        "clusterrole",
        "portcullis-worker",
        "--type=json",
        "-p",
        &without,
    ])
    .await?;
    rig.register_third().await?;
    rig.until_cluster("worker-c", "NotPermitted", "delete pods")
        .await?;
    rig.third().await?;
    rig.until_cluster("worker-c", "Ready", "takes pods").await?;
    rig.unregister("worker-c").await
}

/// `RemoteRolledBack`: the backup is of the moment between commit and open, which a missing right holds for us.
async fn a_worker_restored_to_before_the_opening_runs_nothing_twice(rig: Arc<Rig>) -> Result<()> {
    let ns = "third-restored";
    let c = rig.third().await?;
    rig.register_third().await?;
    rig.until_cluster("worker-c", "Ready", "takes pods").await?;
    rig.opted_in_to(ns, only_c()).await?;
    rig.create(At::Manager, ns, plain("first")).await?;
    rig.until_ready(ns, "first").await?;
    c.kubectl(&["delete", "clusterrolebinding", "portcullis-worker"])
        .await?;
    let rest = printed(&["manifests", "--config", CONFIGURATION, "rbac-worker"])?
        .replace("  - patch\n", "")
        .replace("portcullis-worker", "portcullis-no-patch");
    c.apply(&rest).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until(At::Manager, ns, "pod/one", "committed", |pod| {
        !annotation(pod, "portcullis.dev/remote-uid").is_empty()
    })
    .await?;
    let gated = rig.seen(At::C, ns, "pod/one").await?;
    ensure!(gated["spec"]["schedulingGates"][0]["name"] == "portcullis.dev/uncommitted");
    c.stop_all().await;
    let (data, backup) = (c.folder().join("etcd"), c.folder().join("etcd-backup"));
    copy(&data, &backup)?;
    c.resume_all().await?;
    rig.third().await?;
    let local = rig.until_ready(ns, "one").await?;
    rig.portcullis.lock().await.kill9();
    c.stop_all().await;
    std::fs::remove_dir_all(&data)?;
    copy(&backup, &data)?;
    c.resume_all().await?;
    let again = rig.seen(At::C, ns, "pod/one").await?;
    ensure!(
        uid(&again) == uid(&gated) && !again["spec"]["schedulingGates"].is_null(),
        "it stands there as before"
    );
    rig.third().await?;
    rig.portcullis.lock().await.start().await?;
    let failed = rig
        .until(At::Manager, ns, "pod/one", "Failed", |pod| {
            text(pod, "/status/phase") == "Failed"
        })
        .await?;
    ensure!(
        dispatched(&failed)["reason"] == "RemoteRolledBack" && uid(&failed) == uid(&local),
        "{}",
        failed["status"]
    );
    rig.until_gone(At::C, ns, "pod/one", &uid(&again)).await?; // nothing needs it any more
    let ledger = c.ledger()?;
    let openings = ledger
        .openings()
        .into_iter()
        .filter(|opening| opening.uid == uid(&gated));
    ensure!(
        openings.count() == 1,
        "it was opened before the restore, and never again"
    );
    rig.until_ready(ns, "first").await?;
    for name in ["one", "first"] {
        let local = rig.seen(At::Manager, ns, &format!("pod/{name}")).await?;
        rig.delete(At::Manager, ns, &format!("pod/{name}")).await?;
        rig.until_gone(At::Manager, ns, &format!("pod/{name}"), &uid(&local))
            .await?;
    }
    c.resume(Part::Kwok).await.ok();
    rig.unregister("worker-c").await
}

fn copy(from: &std::path::Path, to: &std::path::Path) -> Result<()> {
    let status = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}

/// Rule P: the cluster that answers must be the one that the commit names.
async fn a_kubeconfig_that_leads_to_another_cluster_proves_nothing(rig: Arc<Rig>) -> Result<()> {
    let ns = "third-swapped";
    rig.third().await?;
    rig.register_third().await?;
    rig.opted_in_to(ns, only_c()).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    let secret = rig
        .seen(At::Manager, "portcullis-system", "secret/worker-c")
        .await?;
    let other = rig
        .seen(At::Manager, "portcullis-system", "secret/worker-b")
        .await?;
    rig.patch(
        At::Manager,
        "portcullis-system",
        "secret/worker-c",
        json!({"data": other["data"]}),
    )
    .await?;
    let swapped = rig
        .until_dispatched(ns, "one", "WorkerUnreachable", "another cluster")
        .await?;
    ensure!(
        running(&swapped) && condition(&swapped, "Ready")["status"] == "False",
        "{}",
        swapped["status"]
    );
    rig.until_cluster("worker-c", "DuplicateCluster", "worker-b")
        .await?;
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until(At::Manager, ns, "pod/one", "waits for its own cluster", |pod| {
        text(pod, "/status/phase") == "Failed"
    })
    .await?;
    ensure!(running(&rig.seen(At::C, ns, "pod/one").await?));
    rig.patch(
        At::Manager,
        "portcullis-system",
        "secret/worker-c",
        json!({"data": secret["data"]}),
    )
    .await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    ensure!(rig.find(At::C, ns, "pod/one").await?.is_none());
    rig.unregister("worker-c").await
}
