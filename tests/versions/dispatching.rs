//! Pods of a manager of this release run on a worker of this release.

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::case;
use crate::rig::{Case, Rig, pod};

pub fn cases() -> Vec<Case> {
    vec![case!(a_pod_runs_on_the_worker_and_the_manager_shows_it)]
}

async fn a_pod_runs_on_the_worker_and_the_manager_shows_it(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("sent").await?;
    rig.create("sent", &pod("away")).await?;
    rig.await_value("sent", "pod/away", "{.status.phase}", "Running")
        .await?;
    let node = rig.get("sent", "pod/away", "{.spec.nodeName}").await?;
    ensure!(node.is_empty(), "it was bound on the manager: {node}");
    let worker = &rig.world.workers[0].cluster;
    let running = ["get", "pods", "-n=sent", "-o=jsonpath={.items[*].status.phase}"];
    ensure!(worker.kubectl(&running).await? == "Running");
    rig.kubectl(&["delete", "pod", "away", "-n=sent"]).await?;
    let left = worker.kubectl(&["get", "pods", "-n=sent", "-o=name"]).await?;
    ensure!(left.is_empty(), "{left}");
    Ok(())
}
