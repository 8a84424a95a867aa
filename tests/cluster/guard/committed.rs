//! What may become of a pod that is committed to a worker, or that others hold back, too.

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::changes::{NEVER, drop_gates};
use super::checks;
use super::ground::{Ground, PATIENCE, Site, container, gate, has_gate, pod, refused, with};

checks![
    we_commit_mirror_and_take_the_gate_off,
    other_gates_fall_and_the_scheduling_fields_of_an_uncommitted_pod_change,
    the_spec_of_a_committed_pod_stays,
    other_gates_of_a_committed_pod_fall,
    a_status_write_by_others_passes,
    a_terminating_pod_is_failed_by_pod_gc,
    labels_and_annotations_of_others_change_freely,
];

async fn we_commit_mirror_and_take_the_gate_off(site: Site) -> Result<()> {
    let ground = site.opted_in("ours").await?;
    let made = ground.committed_pod("one", &pod("one")).await?;
    ensure!(
        made["metadata"]["finalizers"] == json!(["portcullis.dev/remote-copy"]),
        "{made}"
    );
    ground
        .ours()
        .patch("pods", "one", "status", &json!({"status": {"phase": "Running"}}))
        .await?;
    let cleared = json!({"metadata": {
        "finalizers": null,
        "annotations": {
            "portcullis.dev/cluster": null, "portcullis.dev/cluster-uid": null, "portcullis.dev/remote-uid": null,
            "portcullis.dev/attempt": "1",
        },
    }});
    let cleared = ground.ours().patch("pods", "one", "", &cleared).await?;
    ensure!(cleared["metadata"].get("finalizers").is_none(), "{cleared}");
    let freed = ground.ours().patch("pods", "one", "", &drop_gates()).await?;
    ensure!(!has_gate(&freed), "leaving is possible");
    Ok(())
}

/// A pod that something like Kueue holds back, too.
fn held(name: &str) -> Value {
    let manifest = with(
        pod(name),
        "/spec/schedulingGates",
        json!([{"name": "kueue.x-k8s.io/admission"}]),
    );
    with(
        manifest,
        "/metadata/labels",
        json!({"kueue.x-k8s.io/queue-name": "q"}),
    )
}

async fn other_gates_fall_and_the_scheduling_fields_of_an_uncommitted_pod_change(site: Site) -> Result<()> {
    let ground = site.opted_in("kueue").await?;
    let kueue = "system:serviceaccount:kueue-system:kueue-controller-manager";
    ground.grant_pods(kueue).await?;
    let made = ground.alice().create("pods", &held("one")).await?;
    ensure!(has_gate(&made), "{made}");
    let admitted = json!({
        "metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}},
        "spec": {
            "schedulingGates": [gate()],
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "pool", "operator": "Exists"}],
        },
    });
    let admitted = ground.user(kueue).patch("pods", "one", "", &admitted).await?;
    ensure!(
        admitted["spec"]["schedulingGates"] == json!([gate()]),
        "{admitted}"
    );
    let both = json!({"spec": {"schedulingGates": null}});
    refused(ground.user(kueue).patch("pods", "one", "", &both).await, NEVER)
}

async fn the_spec_of_a_committed_pod_stays(site: Site) -> Result<()> {
    let ground = site.opted_in("committed-spec").await?;
    let resources = json!({"requests": {"cpu": "100m"}});
    let manifest = with(
        pod("one"),
        "/spec/containers",
        json!([with(container(), "/resources", resources)]),
    );
    ground.committed_pod("one", &manifest).await?;
    ground.grant_pods("operator").await?;
    let frozen = "handed to the worker cluster worker-x, so its spec can no longer be changed here";
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "app:2"}]);
    let cpu =
        json!([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "200m"}]);
    let debug = json!({"spec": {"ephemeralContainers": [
        {"name": "debug", "image": "busybox", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"},
    ]}});
    for actor in [ground.user("operator"), ground.admin()] {
        refused(actor.patch("pods", "one", "", &image).await, frozen)?;
        refused(
            actor
                .patch("pods", "one", "", &json!({"spec": {"activeDeadlineSeconds": 5}}))
                .await,
            frozen,
        )?;
        refused(
            actor
                .patch("pods", "one", "", &json!({"spec": {"nodeSelector": {"a": "b"}}}))
                .await,
            frozen,
        )?;
        refused(actor.patch("pods", "one", "resize", &cpu).await, frozen)?;
        refused(
            actor.patch("pods", "one", "ephemeralcontainers", &debug).await,
            frozen,
        )?;
    }
    ground
        .alice()
        .create("pods", &with(manifest, "/metadata/name", json!("two")))
        .await?;
    ground.alice().patch("pods", "two", "", &image).await?;
    Ok(())
}

async fn other_gates_of_a_committed_pod_fall(site: Site) -> Result<()> {
    let ground = site.opted_in("committed-gates").await?;
    ground.committed_pod("one", &held("one")).await?;
    let patch = json!({"spec": {"schedulingGates": [gate()]}});
    let after = ground.alice().patch("pods", "one", "", &patch).await?;
    ensure!(after["spec"]["schedulingGates"] == json!([gate()]), "{after}");
    Ok(())
}

async fn a_status_write_by_others_passes(site: Site) -> Result<()> {
    let ground = site.opted_in("status-by-others").await?;
    ground.committed_pod("one", &pod("one")).await?;
    ground.grant_pods("operator").await?;
    let condition = json!({"status": {"conditions": [{"type": "example.com/Seen", "status": "True"}]}});
    let after = ground
        .user("operator")
        .patch("pods", "one", "status", &condition)
        .await?;
    let conditions = after["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        conditions.iter().any(|one| one["type"] == "example.com/Seen"),
        "{after}"
    );
    Ok(())
}

/// Verified by hand in design.md section 5: PodGC's writes pass, and so does the finalizer's removal by a user.
async fn a_terminating_pod_is_failed_by_pod_gc(site: Site) -> Result<()> {
    let ground = site.opted_in("pod-gc").await?;
    ground.committed_pod("one", &pod("one")).await?;
    ground.alice().delete("pods", "one").await?;
    ground
        .await_object("PodGC's verdict", "pods", "one", |pod| {
            pod["status"]["phase"] == "Failed"
        })
        .await?;
    refused(
        ground.alice().patch("pods", "one", "", &drop_gates()).await,
        NEVER,
    )?;
    ground
        .alice()
        .patch("pods", "one", "", &json!({"metadata": {"finalizers": null}}))
        .await?;
    gone(&ground, "one").await
}

async fn gone(ground: &Ground, name: &str) -> Result<()> {
    wait_for("the pod to be gone", PATIENCE, async || {
        match ground.admin().get("pods", name).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(())),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
}

async fn labels_and_annotations_of_others_change_freely(site: Site) -> Result<()> {
    let ground = site.opted_in("free").await?;
    ground.committed_pod("one", &pod("one")).await?;
    let patch = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b", "portcullis.dev/root": "x"}}});
    ground.alice().patch("pods", "one", "", &patch).await?;
    Ok(())
}
