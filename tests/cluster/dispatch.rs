//! The first promise in its plainest form: pods, Deployments and StatefulSets run on workers and show it here.

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::case;
use crate::rig::{Case, Rig, pod};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pod_runs_on_a_worker_and_the_manager_shows_it),
        case!(a_deployment_and_a_stateful_set_become_ready),
        case!(a_pod_of_an_unlabelled_namespace_runs_on_the_manager),
    ]
}

async fn a_pod_runs_on_a_worker_and_the_manager_shows_it(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("plain").await?;
    let manager = &rig.world.manager;
    manager
        .kubectl_with("admin", &["create", "-n", "plain", "-f", "-"], &pod("one", ""))
        .await?;
    manager
        .kubectl(&[
            "wait",
            "-n",
            "plain",
            "--for=condition=Ready",
            "pod/one",
            "--timeout=60s",
        ])
        .await?;
    let line = manager
        .kubectl(&["get", "pods", "-n", "plain", "--no-headers"])
        .await?;
    ensure!(
        line.contains("1/1") && line.contains("Running"),
        "kubectl get pods printed {line:?}"
    );
    ensure!(
        rig.get("plain", "pod/one", "{.spec.nodeName}").await?.is_empty(),
        "it has no node on the manager"
    );
    let remote = rig.world.workers[0]
        .cluster
        .kubectl(&["get", "pods", "-n", "plain", "--no-headers"])
        .await?;
    ensure!(
        remote.contains("one") && remote.contains("Running"),
        "worker-a shows {remote:?}"
    );
    Ok(())
}

async fn a_deployment_and_a_stateful_set_become_ready(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("apps").await?;
    let manager = &rig.world.manager;
    let template =
        "template: {metadata: {labels: {app: x}}, spec: {containers: [{name: main, image: app:1}]}}";
    for (kind, replicas, more) in [("Deployment", 3, ""), ("StatefulSet", 2, "serviceName: web, ")] {
        let manifest = format!(
            "{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: web-{}}}, spec: {{replicas: {replicas}, {more}selector: {{matchLabels: {{app: x}}}}, {template}}}}}",
            kind.to_lowercase()
        )
        .replace("app: x", &format!("app: {kind}"));
        manager
            .kubectl_with("admin", &["create", "-n", "apps", "-f", "-"], &manifest)
            .await?;
    }
    rig.await_field(
        "apps",
        "deployment/web-deployment",
        "{.status.readyReplicas}",
        "3",
    )
    .await?;
    rig.await_field(
        "apps",
        "statefulset/web-statefulset",
        "{.status.readyReplicas}",
        "2",
    )
    .await?;
    let sets = manager
        .kubectl(&["get", "rs", "-n", "apps", "--no-headers"])
        .await?;
    ensure!(
        sets.lines().count() == 1,
        "one ReplicaSet for one revision, found {sets}"
    );
    Ok(())
}

async fn a_pod_of_an_unlabelled_namespace_runs_on_the_manager(rig: Arc<Rig>) -> Result<()> {
    let manager = &rig.world.manager;
    manager.create_namespace("control", &[]).await?;
    manager
        .kubectl_with("admin", &["create", "-n", "control", "-f", "-"], &pod("one", ""))
        .await?;
    manager
        .kubectl(&[
            "wait",
            "-n",
            "control",
            "--for=condition=Ready",
            "pod/one",
            "--timeout=60s",
        ])
        .await?;
    ensure!(
        !rig.get("control", "pod/one", "{.spec.nodeName}")
            .await?
            .is_empty(),
        "it has a node of the manager"
    );
    Ok(())
}
