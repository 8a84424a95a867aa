//! What may become of a pod that is gated or exempt.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::checks;
use super::ground::{Site, has_gate, has_label, pod, refused, with};

checks![
    nobody_but_us_takes_the_gate_off,
    the_gate_stays_when_the_namespace_is_no_longer_ours,
    nobody_but_us_changes_the_labels,
    an_exempt_pod_stays_exempt,
    nobody_but_us_writes_keys_of_the_reconciler,
    a_subresource_is_no_way_around_the_guard,
    nobody_but_us_touches_the_finalizer_of_a_living_pod,
    an_account_of_our_name_in_another_namespace_is_nobody,
    a_gated_pod_cannot_be_bound,
    a_label_of_ours_in_match_label_keys_does_not_hold_the_gate,
];

/// The gate of a pod.
pub const NEVER: &str = "is never changed after its creation";

/// Takes all gates off.
pub fn drop_gates() -> Value {
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
    let ground = site.opted_in("no-longer-ours").await?;
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
