//! Crashes, partitions, two of us: R08, R43, R85.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::ledger::{bound_more_than_once, opened_more_than_once};
use portcullis_testbed::{Ledger, case, free_port, wait_for};
use serde_json::{Value, json};

use crate::rig::{BINARY, Case, Rig};
use crate::sides::{At, PATIENCE, US, annotation, plain, running, set, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(alone fifty_pods_survive_a_restart_with_a_worker_that_does_not_list),
        case!(alone with_one_worker_down_at_the_start_the_other_serves_within_seconds),
        case!(alone two_of_us_on_the_same_clusters_run_each_pod_once),
    ]
}

/// R08.
async fn fifty_pods_survive_a_restart_with_a_worker_that_does_not_list(rig: Arc<Rig>) -> Result<()> {
    let ns = "r08";
    rig.on_a(ns).await?;
    rig.opted_in_to(
        "r08b",
        json!({"clusters": ["worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.create(At::Manager, ns, set("Deployment", 50, json!({})))
        .await?;
    rig.until(At::Manager, ns, "deployment/web", "50 ready", |web| {
        web["status"]["readyReplicas"] == 50
    })
    .await?;
    let uids = |pods: Vec<Value>| {
        let mut uids: Vec<String> = pods.iter().map(uid).collect();
        uids.sort();
        uids
    };
    let before = (
        uids(rig.list(At::Manager, ns, "pods").await?),
        uids(rig.list(At::A, ns, "pods").await?),
    );
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.kill9();
    let from = jiff::Timestamp::now();
    rig.world.workers[0].proxy.pause();
    portcullis.start().await?;
    drop(portcullis);
    // The awaited event of the gap: the other worker serves.
    for number in 0..3 {
        rig.create(At::Manager, "r08b", plain(&format!("pod-{number}")))
            .await?;
        rig.until_ready("r08b", &format!("pod-{number}")).await?;
    }
    let ours = |at: At| -> Result<usize> {
        let writes = rig.cluster(at).ledger()?.since(from).writes;
        Ok(writes
            .iter()
            .filter(|write| write.namespace == ns && write.user == US && write.resource.starts_with("pods"))
            .count())
    };
    ensure!(
        (ours(At::Manager)?, ours(At::A)?) == (0, 0),
        "writes in the gap: {:?}",
        (ours(At::Manager)?, ours(At::A)?)
    );
    // Detection makes them unready, no more; then the worker answers again.
    rig.until_list(At::Manager, ns, "pods", "the worker is missed", |pods| {
        pods.iter()
            .all(|pod| crate::sides::dispatched(pod)["reason"] == "WorkerUnreachable")
    })
    .await?;
    rig.world.heal();
    rig.until(At::Manager, ns, "deployment/web", "50 ready", |web| {
        web["status"]["readyReplicas"] == 50
    })
    .await?;
    rig.await_workers().await?;
    let after = (
        uids(rig.list(At::Manager, ns, "pods").await?),
        uids(rig.list(At::A, ns, "pods").await?),
    );
    ensure!(before == after, "pods were replaced");
    ensure!(ours(At::A)? == 0, "{} writes on the worker", ours(At::A)?);
    rig.delete(At::Manager, ns, "deployment/web").await?;
    rig.until_list(At::Manager, ns, "pods", "none", <[Value]>::is_empty)
        .await
        .map(drop)
}

/// R85.
async fn with_one_worker_down_at_the_start_the_other_serves_within_seconds(rig: Arc<Rig>) -> Result<()> {
    let ns = "r85";
    rig.opted_in(ns).await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.kill9();
    rig.world.workers[0].proxy.cut();
    let connections = rig.world.workers[0].proxy.connections();
    portcullis.start().await?;
    drop(portcullis);
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
    let times = |at: At, verb: &str| -> Result<_> {
        let writes = rig.writes(at, ns)?;
        Ok(writes
            .into_iter()
            .find(|write| write.verb == verb && write.name == "one")
            .map(|write| write.time))
    };
    let (Some(created), Some(opened)) = (times(At::Manager, "create")?, times(At::B, "patch")?) else {
        anyhow::bail!("not in the audit logs")
    };
    let lag = opened.duration_since(created);
    ensure!(lag.as_secs() < 5, "it took {lag:?}");
    // Back-off: far fewer connections than a hot loop would make.
    let tries = rig.world.workers[0].proxy.connections() - connections;
    ensure!(tries < 40, "{tries} connections");
    rig.world.heal();
    rig.await_workers().await
}

/// R43: a second process by force, with the same identity and the same webhook address.
async fn two_of_us_on_the_same_clusters_run_each_pod_once(rig: Arc<Rig>) -> Result<()> {
    let ns = "r43";
    rig.on_a(ns).await?;
    let (webhook, metrics) = (free_port()?, free_port()?);
    let address = rig.portcullis.lock().await.webhook();
    let log = std::fs::File::create(rig.world.folder().join("portcullis-second.log"))?;
    let mut second =
        tokio::process::Command::new(std::env::var_os("PORTCULLIS_BINARY").unwrap_or_else(|| BINARY.into()))
            .arg("serve")
            .arg(format!("--kubeconfig={}", rig.kubeconfig.display()))
            .arg(format!("--webhook-url=https://{address}"))
            .arg(format!("--webhook-bind={}", webhook.address()))
            .arg(format!("--metrics-bind={}", metrics.address()))
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .kill_on_drop(true)
            .spawn()?;
    wait_for("the second to listen", Duration::from_secs(60), async || {
        ensure!(second.try_wait()?.is_none(), "it ended");
        let text = std::fs::read_to_string(rig.world.folder().join("portcullis-second.log"))?;
        Ok((text.matches("link changed").count() >= 2).then_some(()))
    })
    .await?;
    rig.create(At::Manager, ns, set("Deployment", 20, json!({})))
        .await?;
    let mut more = set("StatefulSet", 3, json!({"metadata": {"labels": {"app": "db"}}}));
    more["metadata"]["name"] = "db".into();
    more["spec"]["selector"]["matchLabels"]["app"] = "db".into();
    rig.create(At::Manager, ns, more).await?;
    rig.until(At::Manager, ns, "deployment/web", "20 ready", |web| {
        web["status"]["readyReplicas"] == 20
    })
    .await?;
    rig.until(At::Manager, ns, "statefulset/db", "3 ready", |db| {
        db["status"]["readyReplicas"] == 3
    })
    .await?;
    for pod in rig.list(At::Manager, ns, "pods").await?.iter().take(8) {
        rig.delete(At::Manager, ns, &format!("pod/{}", text(pod, "/metadata/name")))
            .await?;
    }
    rig.patch(
        At::Manager,
        ns,
        "deployment/web",
        json!({"spec": {"template": {"metadata": {"labels": {"round": "2"}}}}}),
    )
    .await?;
    rig.until(At::Manager, ns, "deployment/web", "rolled out", |web| {
        web["status"]["updatedReplicas"] == 20
            && web["status"]["readyReplicas"] == 20
            && web["status"]["replicas"] == 20
    })
    .await?;
    rig.until(At::Manager, ns, "statefulset/db", "3 ready", |db| {
        db["status"]["readyReplicas"] == 3
    })
    .await?;
    wait_for("as many copies as pods", PATIENCE, async || {
        let here = rig.list(At::Manager, ns, "pods").await?;
        let there = rig.list(At::A, ns, "pods").await?;
        if here.len() == 23 && there.len() == 23 && here.iter().all(running) {
            Ok(Some(()))
        } else {
            Err(anyhow::anyhow!("{} here, {} there", here.len(), there.len()))
        }
    })
    .await?;
    second.kill().await?;
    let ledgers: Vec<Ledger> = [At::A, At::B]
        .iter()
        .map(|at| rig.cluster(*at).ledger())
        .collect::<Result<_>>()?;
    let ledgers: Vec<Ledger> = ledgers
        .into_iter()
        .map(|ledger| ledger.of_namespace(ns))
        .collect();
    ensure!(
        opened_more_than_once(&ledgers).is_empty(),
        "{:?}",
        opened_more_than_once(&ledgers)
    );
    ensure!(bound_more_than_once(&ledgers).is_empty());
    rig.delete(At::Manager, ns, "deployment/web").await?;
    rig.delete(At::Manager, ns, "statefulset/db").await?;
    rig.until_list(At::Manager, ns, "pods", "none", <[Value]>::is_empty)
        .await
        .map(drop)
}
