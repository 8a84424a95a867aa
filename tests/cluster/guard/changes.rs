//! What may become of a pod that is gated or exempt.

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, PATIENCE, Site, container, gate, has_gate, has_label, pod, refused, with};

checks![
    nobody_but_us_takes_the_gate_off,
    the_gate_stays_when_the_namespace_is_no_longer_ours,
    nobody_but_us_changes_the_labels,
    an_exempt_pod_stays_exempt,
    nobody_but_us_writes_keys_of_the_reconciler,
    a_subresource_is_no_way_around_the_guard,
    nobody_but_us_touches_the_finalizer_of_a_living_pod,
    an_account_of_our_name_in_another_namespace_is_nobody,
    we_commit_mirror_and_take_the_gate_off,
    other_gates_fall_and_the_scheduling_fields_of_an_uncommitted_pod_change,
    the_spec_of_a_committed_pod_stays,
    other_gates_of_a_committed_pod_fall,
    a_status_write_by_others_passes,
    a_terminating_pod_is_failed_by_pod_gc,
    a_gated_pod_cannot_be_bound,
    labels_and_annotations_of_others_change_freely,
    a_label_of_ours_in_match_label_keys_does_not_hold_the_gate,
];

const NEVER: &str = "is never changed after its creation";

fn drop_gates() -> Value {
    json!([{"op": "remove", "path": "/spec/schedulingGates"}])
}

fn label(key: &str, value: Value) -> Value {
    json!({"metadata": {"labels": {format!("portcullis.dev/{key}"): value}}})
}

fn annotate(key: &str, value: Value) -> Value {
    json!({"metadata": {"annotations": {format!("portcullis.dev/{key}"): value}}})
}

async fn nobody_but_us_takes_the_gate_off(site: Site) -> Result<()> {
    let ground = site.opted_in("gate-off").await?;
    let made = ground.gated_pod("one").await?;
    ground.grant_pods("operator").await?;
    for actor in [ground.alice(), ground.admin(), ground.user("operator")] {
        refused(actor.patch("pods", "one", "", &drop_gates()).await, NEVER)?;
        let merge = json!({"spec": {"schedulingGates": null}});
        refused(actor.patch("pods", "one", "", &merge).await, NEVER)?;
        let mut whole = made.clone();
        whole["spec"]
            .as_object_mut()
            .expect("an object")
            .remove("schedulingGates");
        whole["metadata"]
            .as_object_mut()
            .expect("an object")
            .remove("resourceVersion");
        refused(actor.replace("pods", "one", "", &whole).await, NEVER)?;
    }
    ensure!(
        has_gate(&ground.admin().get("pods", "one").await?),
        "the gate is still there"
    );
    Ok(())
}

async fn the_gate_stays_when_the_namespace_is_no_longer_ours(site: Site) -> Result<()> {
    let ground = site.opted_in("opted-out").await?;
    ground.gated_pod("one").await?;
    ground.opt_out().await?;
    for actor in [ground.alice(), ground.admin()] {
        refused(actor.patch("pods", "one", "", &drop_gates()).await, NEVER)?;
        refused(
            actor.patch("pods", "one", "", &label("gated", Value::Null)).await,
            "are never changed",
        )?;
        refused(
            actor
                .patch("pods", "one", "", &annotate("cluster", json!("a")))
                .await,
            "portcullis.dev/cluster",
        )?;
    }
    ground.alice().delete("pods", "one").await?;
    Ok(())
}

async fn nobody_but_us_changes_the_labels(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("labels").await?;
    ground.gated_pod("one").await?;
    for actor in [ground.alice(), ground.admin()] {
        for patch in [
            label("gated", Value::Null),
            label("gated", json!("false")),
            label("exempt", json!("true")),
            json!({"metadata": {"labels": null}}),
        ] {
            refused(
                actor.patch("pods", "one", "", &patch).await,
                "are never changed after its creation",
            )?;
        }
    }
    Ok(())
}

async fn an_exempt_pod_stays_exempt(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("stays-exempt").await?;
    let manifest = with(
        pod("one"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    ground.alice().create("pods", &manifest).await?;
    for patch in [
        label("exempt", Value::Null),
        label("exempt", json!("no")),
        label("gated", json!("true")),
    ] {
        refused(
            ground.alice().patch("pods", "one", "", &patch).await,
            "are never changed after its creation",
        )?;
    }
    ground
        .alice()
        .patch("pods", "one", "", &json!({"metadata": {"labels": {"team": "a"}}}))
        .await?;
    Ok(())
}

async fn nobody_but_us_writes_keys_of_the_reconciler(site: Site) -> Result<()> {
    let ground = site.opted_in("keys").await?;
    ground.gated_pod("fresh").await?;
    ground.committed_pod("committed", &pod("committed")).await?;
    for actor in [ground.alice(), ground.admin()] {
        for key in ["cluster", "cluster-uid", "remote-uid", "remote-node", "attempt"] {
            let patch = annotate(key, json!("other"));
            for name in ["fresh", "committed"] {
                refused(
                    actor.patch("pods", name, "", &patch).await,
                    &format!("portcullis.dev/{key}"),
                )?;
            }
        }
        let erase = annotate("remote-uid", Value::Null);
        refused(
            actor.patch("pods", "committed", "", &erase).await,
            "portcullis.dev/remote-uid",
        )?;
        let erase_all = json!({"metadata": {"annotations": null}});
        refused(
            actor.patch("pods", "committed", "", &erase_all).await,
            "portcullis.dev/cluster-uid",
        )?;
    }
    Ok(())
}

async fn a_subresource_is_no_way_around_the_guard(site: Site) -> Result<()> {
    let ground = site.opted_in("subresources").await?;
    ground.gated_pod("one").await?;
    ground.committed_pod("two", &pod("two")).await?;
    ground.grant_pods("operator").await?;
    for actor in [ground.user("operator"), ground.admin()] {
        for (patch, sentence) in [
            (label("gated", Value::Null), "are never changed"),
            (label("exempt", json!("true")), "are never changed"),
            (annotate("cluster", json!("x")), "portcullis.dev/cluster"),
            (
                json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy"]}}),
                "the finalizer",
            ),
        ] {
            refused(actor.patch("pods", "one", "status", &patch).await, sentence)?;
        }
        refused(
            actor
                .patch("pods", "two", "status", &annotate("remote-uid", Value::Null))
                .await,
            "remote-uid",
        )?;
        refused(
            actor
                .patch(
                    "pods",
                    "two",
                    "status",
                    &json!({"metadata": {"finalizers": null}}),
                )
                .await,
            "the finalizer",
        )?;
        // These two drop what is not theirs before admission sees it: nothing may come of it.
        for subresource in ["resize", "ephemeralcontainers"] {
            for patch in [
                label("gated", Value::Null),
                annotate("cluster", json!("x")),
                drop_gates(),
            ] {
                let _ = actor.patch("pods", "one", subresource, &patch).await;
            }
        }
        let after = ground.admin().get("pods", "one").await?;
        ensure!(has_gate(&after) && has_label(&after), "{after}");
        ensure!(
            after["metadata"]["annotations"]
                .get("portcullis.dev/cluster")
                .is_none(),
            "{after}"
        );
    }
    Ok(())
}

async fn nobody_but_us_touches_the_finalizer_of_a_living_pod(site: Site) -> Result<()> {
    let ground = site.opted_in("finalizer").await?;
    ground.gated_pod("fresh").await?;
    ground.committed_pod("committed", &pod("committed")).await?;
    for actor in [ground.alice(), ground.admin()] {
        let add = json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy"]}});
        refused(
            actor.patch("pods", "fresh", "", &add).await,
            "delete the pod, then anyone may remove it",
        )?;
        let remove = json!({"metadata": {"finalizers": null}});
        refused(
            actor.patch("pods", "committed", "", &remove).await,
            "delete the pod, then anyone may remove it",
        )?;
        let other = json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy", "example.com/other"]}});
        actor.patch("pods", "committed", "", &other).await?;
        let only_ours = json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy"]}});
        actor.patch("pods", "committed", "", &only_ours).await?;
    }
    Ok(())
}

async fn an_account_of_our_name_in_another_namespace_is_nobody(site: Site) -> Result<()> {
    let ground = site.opted_in("namesake").await?;
    ground.gated_pod("one").await?;
    for namesake in [
        "system:serviceaccount:default:portcullis",
        "portcullis",
        "system:serviceaccount:portcullis-system:x",
    ] {
        ground.grant_pods(namesake).await?;
        refused(
            ground
                .user(namesake)
                .patch("pods", "one", "", &drop_gates())
                .await,
            NEVER,
        )?;
    }
    Ok(())
}

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

/// R01: with the gate on it the API server itself refuses.
async fn a_gated_pod_cannot_be_bound(site: Site) -> Result<()> {
    let ground = site.opted_in("binding").await?;
    ground.gated_pod("one").await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"},
        "target": {"kind": "Node", "name": "manager-0"},
    });
    let answer = ground.admin().create("pods/one/binding", &binding).await;
    ensure!(matches!(&answer, Err(kube::Error::Api(_))), "{answer:?}");
    let after = ground.admin().get("pods", "one").await?;
    ensure!(
        after["spec"].get("nodeName").is_none() && has_gate(&after),
        "{after}"
    );
    Ok(())
}

async fn labels_and_annotations_of_others_change_freely(site: Site) -> Result<()> {
    let ground = site.opted_in("free").await?;
    ground.committed_pod("one", &pod("one")).await?;
    let patch = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b", "portcullis.dev/root": "x"}}});
    ground.alice().patch("pods", "one", "", &patch).await?;
    Ok(())
}

/// P22: our label is set at creation, so it may be consumed, and later updates are still valid.
async fn a_label_of_ours_in_match_label_keys_does_not_hold_the_gate(site: Site) -> Result<()> {
    let ground = site.opted_in("match-label-keys").await?;
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["portcullis.dev/gated"],
    }]);
    let manifest = with(pod("one"), "/spec/topologySpreadConstraints", spread);
    let made = ground
        .alice()
        .create("pods", &with(manifest, "/metadata/labels", json!({"app": "x"})))
        .await?;
    ensure!(has_label(&made), "{made}");
    ground.ours().patch("pods", "one", "", &drop_gates()).await?;
    Ok(())
}
