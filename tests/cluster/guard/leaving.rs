//! Deletion is never held up by us, and leaving is safe (A11).

use anyhow::Result;
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, PATIENCE, Site, pod, refused, with, workload};

checks![
    deletes_always_pass,
    anyone_removes_finalizers_from_a_terminating_pod,
    finalizers_of_a_terminating_pod_go_through_status_too,
    a_terminating_workload_loses_its_finalizers,
    an_opted_in_namespace_can_be_deleted,
];

async fn gone(ground: &Ground, resource: &str, name: &str) -> Result<()> {
    wait_for(
        &format!("{resource}/{name} to be gone"),
        PATIENCE,
        async || match ground.admin().get(resource, name).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(())),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        },
    )
    .await
}

async fn deletes_always_pass(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("deletes").await?;
    ground.gated_pod("gated").await?;
    let exempt = with(
        pod("exempt"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    ground.alice().create("pods", &exempt).await?;
    ground
        .alice()
        .create("deployments", &workload("Deployment", "web"))
        .await?;
    for (resource, name) in [("pods", "gated"), ("pods", "exempt"), ("deployments", "web")] {
        ground.alice().delete(resource, name).await?;
        gone(&ground, resource, name).await?;
    }
    Ok(())
}

async fn anyone_removes_finalizers_from_a_terminating_pod(site: Site) -> Result<()> {
    let ground = site.opted_in("release").await?;
    let both = json!({"metadata": {"finalizers": ["example.com/other", "portcullis.dev/remote-copy"]}});
    for (name, last) in [
        ("by-merge", json!({"metadata": {"finalizers": null}})),
        (
            "by-index",
            json!([
                {"op": "test", "path": "/metadata/finalizers/0", "value": "portcullis.dev/remote-copy"},
                {"op": "remove", "path": "/metadata/finalizers/0"},
            ]),
        ),
    ] {
        ground.committed_pod(name, &pod(name)).await?;
        ground.ours().patch("pods", name, "", &both).await?;
        ground.alice().delete("pods", name).await?;
        let only_ours = json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy"]}});
        ground.alice().patch("pods", name, "", &only_ours).await?;
        ground.alice().patch("pods", name, "", &last).await?;
        gone(&ground, "pods", name).await?;
    }
    // Also without the label on the namespace, and with everything else of ours still guarded.
    ground.committed_pod("later", &pod("later")).await?;
    ground.opt_out().await?;
    ground.alice().delete("pods", "later").await?;
    let erase = json!({"metadata": {"annotations": null}});
    refused(
        ground.alice().patch("pods", "later", "", &erase).await,
        "portcullis.dev/remote-uid",
    )?;
    ground
        .alice()
        .patch("pods", "later", "", &json!({"metadata": {"finalizers": null}}))
        .await?;
    gone(&ground, "pods", "later").await
}

async fn finalizers_of_a_terminating_pod_go_through_status_too(site: Site) -> Result<()> {
    let ground = site.opted_in("release-status").await?;
    ground.committed_pod("one", &pod("one")).await?;
    ground.alice().delete("pods", "one").await?;
    ground.grant_pods("operator").await?;
    let release = json!({"metadata": {"finalizers": null}});
    ground
        .user("operator")
        .patch("pods", "one", "status", &release)
        .await?;
    gone(&ground, "pods", "one").await
}

async fn a_terminating_workload_loses_its_finalizers(site: Site) -> Result<()> {
    let ground = site.opted_in("release-workload").await?;
    let held = with(
        workload("Deployment", "web"),
        "/metadata/finalizers",
        json!(["example.com/other"]),
    );
    ground.alice().create("deployments", &held).await?;
    ground.alice().delete("deployments", "web").await?;
    // Its template is never touched again, and never a reason to refuse.
    let bare = json!([{"op": "remove", "path": "/spec/template/spec/schedulingGates"}]);
    ground.alice().patch("deployments", "web", "", &bare).await?;
    ground
        .alice()
        .patch(
            "deployments",
            "web",
            "",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    gone(&ground, "deployments", "web").await
}

async fn an_opted_in_namespace_can_be_deleted(site: Site) -> Result<()> {
    let ground = site.opted_in("teardown").await?;
    ground
        .alice()
        .create("deployments", &workload("Deployment", "web"))
        .await?;
    ground
        .alice()
        .create("statefulsets", &workload("StatefulSet", "db"))
        .await?;
    ground.gated_pod("gated").await?;
    ground.committed_pod("committed", &pod("committed")).await?;
    ground.admin().delete("namespaces", &ground.namespace).await?;
    ground
        .await_object(
            "the committed pod to be terminating",
            "pods",
            "committed",
            |pod| {
                pod["metadata"]
                    .get("deletionTimestamp")
                    .is_some_and(Value::is_string)
            },
        )
        .await?;
    ground
        .admin()
        .patch(
            "pods",
            "committed",
            "",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    gone(&ground, "namespaces", &ground.namespace).await
}
