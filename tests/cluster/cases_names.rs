//! Names and namespaces on workers: R09, R11, R69, R70, R71.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::json;

use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, condition, dispatched, plain, pod, terminating, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_foreign_pod_of_the_same_name_is_left_alone_and_another_worker_is_tried),
        case!(a_foreign_pod_with_our_label_is_left_alone),
        case!(a_refusal_of_the_workers_pod_security_is_told_in_its_words),
        case!(a_namespace_that_only_one_worker_has_decides_where_a_pod_goes),
        case!(a_namespace_is_used_only_with_the_consent_of_its_administrator),
        case!(a_worker_namespace_that_is_itself_dispatched_is_not_used),
    ]
}

/// R09.
async fn a_foreign_pod_of_the_same_name_is_left_alone_and_another_worker_is_tried(
    rig: Arc<Rig>,
) -> Result<()> {
    for (ns, clusters) in [
        ("r09", json!(["worker-a"])),
        ("r09b", json!(["worker-a", "worker-b"])),
    ] {
        rig.consenting(At::A, ns).await?;
        let foreign = rig
            .create(
                At::A,
                ns,
                pod("one", json!({}), json!({"nodeSelector": {"no": "such"}})),
            )
            .await?;
        rig.opted_in_to(ns, json!({"clusters": clusters, "namespaces": {"create": true}}))
            .await?;
        rig.create(At::Manager, ns, plain("one")).await?;
        let local = if ns == "r09" {
            let local = rig
                .until_dispatched(ns, "one", "NoClusterTakesIt", "not of this origin")
                .await?;
            ensure!(
                text(&local, "/status/phase") == "Pending"
                    && condition(&local, "PodScheduled")["reason"] == "SchedulingGated"
            );
            local
        } else {
            rig.until_ready(ns, "one").await?
        };
        ensure!(annotation(&local, "portcullis.dev/cluster") == if ns == "r09" { "" } else { "worker-b" });
        rig.until_event(ns, "one", "NameTaken", "worker-a: ").await?;
        let after = rig.seen(At::A, ns, "pod/one").await?;
        ensure!(uid(&after) == uid(&foreign) && !terminating(&after));
        if ns == "r09" {
            rig.kill(At::A, ns, "pod/one").await?;
            rig.until_ready(ns, "one").await?;
        }
    }
    Ok(())
}

/// R11, first half: the label that anyone can write proves nothing.
async fn a_foreign_pod_with_our_label_is_left_alone(rig: Arc<Rig>) -> Result<()> {
    let ns = "r11";
    rig.consenting(At::A, ns).await?;
    let origin = rig.origin().await?;
    let marks = |local: &str| {
        json!({
            "labels": {"portcullis.dev/origin": origin},
            "annotations": {"portcullis.dev/local-uid": local, "portcullis.dev/local-attempt": "0"},
        })
    };
    let foreign = rig
        .create(
            At::A,
            ns,
            pod("one", marks("11111111-1111-4111-8111-111111111111"), json!({})),
        )
        .await?;
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig
        .until_dispatched(ns, "one", "OrphanHoldsName", "worker-a")
        .await?;
    ensure!(
        rig.find(At::B, ns, "pod/one").await?.is_none(),
        "rule 17: nowhere else either"
    );
    rig.delete(At::Manager, ns, "pod/one").await?;
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
    // A label without the annotation names no local pod: not ours at all.
    let labelled = rig
        .create(
            At::A,
            ns,
            pod(
                "two",
                json!({"labels": {"portcullis.dev/origin": origin}}),
                json!({}),
            ),
        )
        .await?;
    rig.create(At::Manager, ns, plain("two")).await?;
    let local = rig.until_ready(ns, "two").await?;
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
    rig.delete(At::Manager, ns, "pod/two").await?;
    rig.until_gone(At::Manager, ns, "pod/two", &uid(&local)).await?;
    for (name, made) in [("one", foreign), ("two", labelled)] {
        let after = rig.seen(At::A, ns, &format!("pod/{name}")).await?;
        ensure!(
            uid(&after) == uid(&made) && !terminating(&after),
            "{name} was touched"
        );
        rig.kill(At::A, ns, &format!("pod/{name}")).await?;
    }
    Ok(())
}

/// R69.
async fn a_refusal_of_the_workers_pod_security_is_told_in_its_words(rig: Arc<Rig>) -> Result<()> {
    let ns = "r69";
    rig.consenting(At::A, ns).await?;
    let restricted = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    rig.patch(At::A, "", "namespace/r69", restricted).await?;
    rig.opted_in_to(ns, json!({"clusters": ["worker-a"]})).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let words = "violates PodSecurity \"restricted";
    rig.until_dispatched(ns, "one", "NoClusterTakesIt", words).await?;
    let event = rig.until_event(ns, "one", "Forbidden", words).await?;
    ensure!(text(&event, "/message").starts_with("worker-a: "));
    let tries = rig.tries(At::A, ns)?;
    ensure!(tries <= 2, "{tries} tries at once are a hot retry");
    Ok(())
}

/// R70.
async fn a_namespace_that_only_one_worker_has_decides_where_a_pod_goes(rig: Arc<Rig>) -> Result<()> {
    let ns = "r70";
    rig.opted_in_to(ns, json!({"clusters": ["worker-a", "worker-b"]}))
        .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig
        .until_dispatched(ns, "one", "NoClusterTakesIt", "NamespaceMissing")
        .await?;
    let message = dispatched(&local)["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("worker-a: ")
            && message.contains("worker-b: ")
            && message.contains("spec.namespaces.create"),
        "{message}"
    );
    rig.consenting(At::B, ns).await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
    ensure!(
        rig.find(At::A, "", "namespace/r70").await?.is_none(),
        "nothing is created where the policy does not say so"
    );
    Ok(())
}

/// R71.
async fn a_namespace_is_used_only_with_the_consent_of_its_administrator(rig: Arc<Rig>) -> Result<()> {
    let ns = "r71";
    rig.cluster(At::A).create_namespace(ns, &[]).await?;
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let command = format!(
        "kubectl annotate namespace r71 portcullis.dev/accepts={}/r71",
        rig.origin().await?
    );
    rig.until_dispatched(ns, "one", "NoClusterTakesIt", &command)
        .await?;
    rig.until_event(ns, "one", "NamespaceNotConsenting", &command)
        .await?;
    ensure!(rig.tries(At::A, ns)? == 0, "not even tried");
    rig.consent(At::A, ns).await?;
    rig.until_ready(ns, "one").await.map(drop)
}

/// Design section 5, what the remote pod carries.
async fn a_worker_namespace_that_is_itself_dispatched_is_not_used(rig: Arc<Rig>) -> Result<()> {
    let ns = "passed-on";
    rig.consenting(At::A, ns).await?;
    rig.patch(
        At::A,
        "",
        "namespace/passed-on",
        json!({"metadata": {"labels": {"portcullis.dev/dispatch": "x"}}}),
    )
    .await?;
    rig.opted_in_to(ns, json!({"clusters": ["worker-a"]})).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_dispatched(ns, "one", "NoClusterTakesIt", "NamespaceIsDispatched")
        .await
        .map(drop)
}
