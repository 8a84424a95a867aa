//! The first promise in its plainest form: pods, Deployments and StatefulSets run on workers and show it here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::{case, wait_for};

use crate::rig::{Case, Rig, pod};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pod_runs_on_a_worker_and_the_manager_shows_it),
        case!(a_deployment_and_a_stateful_set_become_ready),
        case!(a_pod_of_an_unlabelled_namespace_runs_on_the_manager),
        case!(marks_that_somebody_on_the_worker_changes_are_put_back),
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

async fn marks_that_somebody_on_the_worker_changes_are_put_back(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("marks").await?;
    let (manager, worker) = (&rig.world.manager, &rig.world.workers[0].cluster);
    manager
        .kubectl_with("admin", &["create", "-n", "marks", "-f", "-"], &pod("one", ""))
        .await?;
    let ready = [
        "wait",
        "-n",
        "marks",
        "--for=condition=Ready",
        "pod/one",
        "--timeout=60s",
    ];
    manager.kubectl(&ready).await?;
    // Without the label the pod leaves our watch as if it were deleted; with a greater attempt it looks newer.
    let both = r#"{"metadata":{"labels":{"portcullis.dev/origin":null},"annotations":{"portcullis.dev/local-attempt":"99"}}}"#;
    worker
        .kubectl(&["patch", "-n", "marks", "pod/one", "--type=merge", "-p", both])
        .await?;
    let path = "jsonpath={.metadata.labels.portcullis\\.dev/origin} {.metadata.annotations.portcullis\\.dev/local-attempt}";
    let origin = rig
        .get("kube-system", "namespace/kube-system", "{.metadata.uid}")
        .await?;
    wait_for("the marks to be put back", Duration::from_secs(60), async || {
        let found = worker
            .kubectl(&["get", "-n", "marks", "pod/one", "-o", path])
            .await?;
        let there = found == format!("{origin} 0");
        if there {
            Ok(Some(()))
        } else {
            Err(anyhow::anyhow!("they are {found:?}"))
        }
    })
    .await?;
    let phase = rig.get("marks", "pod/one", "{.status.phase}").await?;
    ensure!(
        phase == "Running",
        "the pod is still shown as it is, not as {phase}"
    );
    manager
        .kubectl(&["delete", "-n", "marks", "pod/one", "--timeout=60s"])
        .await?;
    let left = worker
        .kubectl(&["get", "pods", "-n", "marks", "--no-headers"])
        .await?;
    ensure!(left.is_empty(), "its copy is gone too, found {left}");
    Ok(())
}
