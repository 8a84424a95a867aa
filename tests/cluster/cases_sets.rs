//! Deployments and StatefulSets: R12, R27, R34, R36, R37, R38, R74.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, annotation, dispatched, play, running, set, terminating, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_stateful_set_pod_keeps_its_name_until_its_copy_is_gone),
        case!(a_full_worker_makes_three_pods_wait_not_hundreds),
        case!(a_stateful_set_scaled_down_and_up_at_once_converges),
        case!(a_stateful_set_starts_in_order_and_is_updated_one_at_a_time),
        case!(a_stateful_set_replaces_a_copy_that_was_deleted),
        case!(a_stateful_set_replaces_an_evicted_copy_once),
        case!(a_template_changed_while_its_pods_wait_is_used),
    ]
}

/// All replicas are of the newest template.
fn updated(count: u32) -> impl Fn(&Value) -> bool {
    move |set| {
        let status = &set["status"];
        ready(count)(set)
            && status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedReplicas"] == count
            && status["currentRevision"] == status["updateRevision"]
    }
}

fn ready(count: u32) -> impl Fn(&Value) -> bool {
    move |set| set["status"]["readyReplicas"].as_u64().unwrap_or(0) == u64::from(count)
}

/// R12.
async fn a_stateful_set_pod_keeps_its_name_until_its_copy_is_gone(rig: Arc<Rig>) -> Result<()> {
    let ns = "r12";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("StatefulSet", 1, json!({})))
        .await?;
    let first = rig.until_ready(ns, "web-0").await?;
    rig.patch(At::A, ns, "pod/web-0", play("terminate-after", "8s"))
        .await?;
    let copy = rig.seen(At::A, ns, "pod/web-0").await?;
    rig.delete(At::Manager, ns, "pod/web-0").await?;
    rig.until(At::A, ns, "pod/web-0", "terminating", terminating)
        .await?;
    wait_for("the old copy to end", PATIENCE, async || {
        let Some(now) = rig.find(At::A, ns, "pod/web-0").await? else {
            return Ok(Some(()));
        };
        if uid(&now) != uid(&copy) {
            return Ok(Some(()));
        }
        let local = rig.seen(At::Manager, ns, "pod/web-0").await?;
        // Between the two looks the copy may just have gone.
        let still = rig
            .find(At::A, ns, "pod/web-0")
            .await?
            .is_some_and(|now| uid(&now) == uid(&copy));
        ensure!(
            !still || uid(&local) == uid(&first) && terminating(&local),
            "a new pod while the old copy ends"
        );
        Ok::<_, anyhow::Error>(None)
    })
    .await?;
    let second = rig
        .until(At::Manager, ns, "pod/web-0", "another one runs", |pod| {
            running(pod) && uid(pod) != uid(&first)
        })
        .await?;
    let new = rig.seen(At::A, ns, "pod/web-0").await?;
    ensure!(annotation(&new, "portcullis.dev/local-uid") == uid(&second));
    ensure!(rig.created(At::A, ns)? == ["web-0", "web-0"] && rig.created(At::B, ns)?.is_empty());
    Ok(())
}

/// R27. The bound: a pod that is not Failed is not replaced, and after each worker's third refusal none has been.
async fn a_full_worker_makes_three_pods_wait_not_hundreds(rig: Arc<Rig>) -> Result<()> {
    let ns = "r27";
    for at in [At::A, At::B] {
        rig.consenting(at, ns).await?;
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
        rig.create(at, ns, quota).await?;
        rig.until(at, ns, "resourcequota/none", "counted", |quota| {
            !quota["status"]["hard"].is_null()
        })
        .await?;
    }
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("Deployment", 3, json!({})))
        .await?;
    wait_for(
        "three refusals of each worker for each pod",
        PATIENCE,
        async || {
            let tries = (rig.tries(At::A, ns)?, rig.tries(At::B, ns)?);
            if tries.0 >= 9 && tries.1 >= 9 {
                Ok(Some(()))
            } else {
                Err(anyhow::anyhow!("they are {tries:?}"))
            }
        },
    )
    .await?;
    ensure!(
        rig.created(At::Manager, ns)?.len() == 3,
        "{} local pods were made",
        rig.created(At::Manager, ns)?.len()
    );
    let pods = rig.list(At::Manager, ns, "pods").await?;
    for pod in &pods {
        let message = dispatched(pod)["message"].as_str().unwrap_or_default();
        ensure!(text(pod, "/status/phase") == "Pending", "{}", pod["status"]);
        ensure!(
            message.contains("worker-a: ")
                && message.contains("worker-b: ")
                && message.contains("exceeded quota"),
            "{message}"
        );
    }
    for at in [At::A, At::B] {
        rig.delete(at, ns, "resourcequota/none").await?;
    }
    rig.until(At::Manager, ns, "deployment/web", "ready", ready(3))
        .await?;
    ensure!(rig.created(At::Manager, ns)?.len() == 3, "the same three");
    Ok(())
}

/// R34, first half.
async fn a_stateful_set_scaled_down_and_up_at_once_converges(rig: Arc<Rig>) -> Result<()> {
    let ns = "r34";
    rig.opted_in(ns).await?;
    rig.create(
        At::Manager,
        ns,
        set(
            "StatefulSet",
            3,
            json!({"metadata": {"annotations": {"kwok.test/terminate-after": "2s"}}}),
        ),
    )
    .await?;
    rig.until(At::Manager, ns, "statefulset/web", "ready", ready(3))
        .await?;
    for replicas in [0, 3, 0, 3] {
        rig.patch(
            At::Manager,
            ns,
            "statefulset/web",
            json!({"spec": {"replicas": replicas}}),
        )
        .await?;
    }
    rig.until(At::Manager, ns, "statefulset/web", "back to 3", |set| {
        ready(3)(set) && set["status"]["observedGeneration"] == set["metadata"]["generation"]
    })
    .await?;
    rig.patch(
        At::Manager,
        ns,
        "statefulset/web",
        json!({"spec": {"replicas": 0}}),
    )
    .await?;
    rig.until_list(At::Manager, ns, "pods", "none", <[Value]>::is_empty)
        .await?;
    ensure!(
        rig.list(At::A, ns, "pods").await?.is_empty(),
        "a copy without its pod"
    );
    Ok(())
}

/// R36.
async fn a_stateful_set_starts_in_order_and_is_updated_one_at_a_time(rig: Arc<Rig>) -> Result<()> {
    let ns = "r36";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("StatefulSet", 3, json!({})))
        .await?;
    rig.until(At::Manager, ns, "statefulset/web", "ready", ready(3))
        .await?;
    let update =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}});
    rig.patch(At::Manager, ns, "statefulset/web", update).await?;
    rig.until(At::Manager, ns, "statefulset/web", "updated", updated(3))
        .await?;
    let order = ["web-0", "web-1", "web-2", "web-2", "web-1", "web-0"];
    ensure!(rig.created(At::A, ns)? == order, "{:?}", rig.created(At::A, ns)?);
    let copies = rig.list(At::A, ns, "pods").await?;
    ensure!(
        copies
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "app:2")
    );
    Ok(())
}

/// R37.
async fn a_stateful_set_replaces_a_copy_that_was_deleted(rig: Arc<Rig>) -> Result<()> {
    let ns = "r37";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("StatefulSet", 2, json!({})))
        .await?;
    rig.until(At::Manager, ns, "statefulset/web", "ready", ready(2))
        .await?;
    let before = rig.seen(At::Manager, ns, "pod/web-1").await?;
    let other = rig.seen(At::Manager, ns, "pod/web-0").await?;
    rig.delete(At::A, ns, "pod/web-1").await?;
    rig.until(At::Manager, ns, "pod/web-1", "another one runs", |pod| {
        running(pod) && uid(pod) != uid(&before)
    })
    .await?;
    rig.until(At::Manager, ns, "statefulset/web", "ready", ready(2))
        .await?;
    ensure!(uid(&rig.seen(At::Manager, ns, "pod/web-0").await?) == uid(&other));
    ensure!(
        rig.created(At::A, ns)? == ["web-0", "web-1", "web-1"],
        "{:?}",
        rig.created(At::A, ns)?
    );
    Ok(())
}

/// R38.
async fn a_stateful_set_replaces_an_evicted_copy_once(rig: Arc<Rig>) -> Result<()> {
    let ns = "r38";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("StatefulSet", 1, json!({})))
        .await?;
    let before = rig.until_ready(ns, "web-0").await?;
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}});
    rig.patch(At::A, ns, "pod/web-0/status", evicted).await?;
    rig.until(At::Manager, ns, "pod/web-0", "another one runs", |pod| {
        running(pod) && uid(pod) != uid(&before)
    })
    .await?;
    rig.patch(
        At::Manager,
        ns,
        "statefulset/web",
        json!({"spec": {"replicas": 2}}),
    )
    .await?;
    rig.until(At::Manager, ns, "statefulset/web", "ready", ready(2))
        .await?;
    ensure!(
        rig.created(At::Manager, ns)? == ["web-0", "web-0", "web-1"],
        "{:?}",
        rig.created(At::Manager, ns)?
    );
    let failed = rig.writes(At::Manager, ns)?.iter().any(|write| {
        write
            .pod
            .as_ref()
            .is_some_and(|pod| pod.uid == uid(&before) && pod.phase == "Failed")
    });
    ensure!(failed, "its pod was Failed here");
    Ok(())
}

/// R74. They wait for a worker namespace that does not consent yet.
async fn a_template_changed_while_its_pods_wait_is_used(rig: Arc<Rig>) -> Result<()> {
    let ns = "r74";
    rig.cluster(At::A).create_namespace(ns, &[]).await?;
    rig.opted_in_to(ns, json!({"clusters": ["worker-a"]})).await?;
    rig.create(At::Manager, ns, set("StatefulSet", 2, json!({})))
        .await?;
    rig.until_dispatched(ns, "web-0", "NoClusterTakesIt", "NamespaceNotConsenting")
        .await?;
    let update =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}});
    rig.patch(At::Manager, ns, "statefulset/web", update).await?;
    rig.consent(At::A, ns).await?;
    rig.until(At::Manager, ns, "statefulset/web", "updated", updated(2))
        .await?;
    let copies = rig.list(At::A, ns, "pods").await?;
    ensure!(
        copies
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "app:2")
    );
    Ok(())
}
