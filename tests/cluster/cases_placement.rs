//! Which cluster: taking back, colocation, cordon, keepFinished, opt-out.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{Ledger, Part, case, ledger::bound_more_than_once};
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{
    At, annotation, condition, dispatched, ensure_refused, plain, play, pod, running, set, text, uid,
};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pod_that_is_never_scheduled_is_taken_back_and_runs_elsewhere),
        case!(alone a_pod_is_taken_back_from_a_scheduler_that_says_nothing),
        case!(a_pod_that_can_run_nowhere_else_is_not_taken_back),
        case!(pods_of_one_workload_share_a_cluster_and_wait_for_it),
        case!(without_colocation_each_pod_goes_where_it_can),
        case!(a_finished_copy_is_removed_after_keep_finished),
        case!(an_opted_out_namespace_keeps_what_runs_and_places_nothing_new),
        case!(a_deleted_policy_keeps_what_runs_and_places_nothing_new),
        case!(alone a_cordoned_worker_keeps_its_pods_and_gets_no_new_ones),
    ]
}

/// What follows is the scheduler's reason; on a busy machine it may have none yet when the time is over.
const TAKEN_BACK: &str = "worker-a did not schedule it: ";

/// Rules 8 and 9.
async fn a_pod_that_is_never_scheduled_is_taken_back_and_runs_elsewhere(rig: Arc<Rig>) -> Result<()> {
    let ns = "taken-back";
    rig.patch(
        At::B,
        "",
        "node/worker-b-0",
        json!({"metadata": {"labels": {"case": ns}}}),
    )
    .await?;
    let spec = json!({"clusters": ["worker-a", "worker-b"], "unschedulableAfter": "2s", "namespaces": {"create": true}});
    rig.opted_in_to(ns, spec).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"nodeSelector": {"case": ns}})),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(
        annotation(&local, "portcullis.dev/cluster") == "worker-b",
        "{local}"
    );
    // The second attempt, or a later one: on a busy machine worker-b's scheduler may take its two seconds as well.
    let attempt = annotation(&local, "portcullis.dev/attempt");
    ensure!(attempt.parse::<u32>()? % 2 == 1, "attempt {attempt}");
    let remote = rig.seen(At::B, ns, "pod/one").await?;
    ensure!(
        annotation(&remote, "portcullis.dev/local-attempt") == attempt,
        "{remote}"
    );
    ensure!(rig.find(At::A, ns, "pod/one").await?.is_none());
    rig.until_event(ns, "one", "TakenBack", TAKEN_BACK).await?;
    let ledger = |at| Ok::<_, anyhow::Error>(rig.cluster(at).ledger()?.of_namespace(ns));
    let ledgers: [Ledger; 2] = [ledger(At::A)?, ledger(At::B)?];
    let twice = bound_more_than_once(&ledgers);
    ensure!(twice.is_empty(), "{twice:?}");
    Ok(())
}

/// Rule 8 counts the time without a node, whatever the reason is.
async fn a_pod_is_taken_back_from_a_scheduler_that_says_nothing(rig: Arc<Rig>) -> Result<()> {
    let ns = "taken-back-silently";
    let spec = json!({"clusters": ["worker-a", "worker-b"], "unschedulableAfter": "1s", "namespaces": {"create": true}});
    rig.opted_in_to(ns, spec).await?;
    rig.cluster(At::A).stop(Part::Scheduler).await;
    let outcome = async {
        rig.create(At::Manager, ns, plain("one")).await?;
        let local = rig.until_ready(ns, "one").await?;
        ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
        let words = format!("{TAKEN_BACK}its scheduler gave no reason");
        rig.until_event(ns, "one", "TakenBack", &words).await
    }
    .await;
    rig.cluster(At::A).resume(Part::Scheduler).await?;
    outcome.map(drop)
}

/// Taking back would only lose the place in the queue.
async fn a_pod_that_can_run_nowhere_else_is_not_taken_back(rig: Arc<Rig>) -> Result<()> {
    let ns = "not-taken-back";
    let spec = json!({"clusters": ["worker-a"], "unschedulableAfter": "1s", "namespaces": {"create": true}});
    rig.opted_in_to(ns, spec).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"nodeSelector": {"case": ns}})),
    )
    .await?;
    rig.until_dispatched(ns, "one", "WaitingOnWorker", "Unschedulable")
        .await?;
    // The later event: another pod that is taken back after the same time.
    let other = "not-taken-back-other";
    let spec = json!({"clusters": ["worker-a", "worker-b"], "unschedulableAfter": "2s", "namespaces": {"create": true}});
    rig.opted_in_to(other, spec).await?;
    rig.create(
        At::Manager,
        other,
        pod("one", json!({}), json!({"nodeSelector": {"case": ns}})),
    )
    .await?;
    rig.until_event(other, "one", "TakenBack", TAKEN_BACK).await?;
    ensure!(rig.created(At::A, ns)? == ["one"], "one copy, never a second");
    rig.patch(
        At::A,
        "",
        "node/worker-a-1",
        json!({"metadata": {"labels": {"case": ns}}}),
    )
    .await?;
    rig.until_ready(ns, "one").await.map(drop)
}

/// A quota of two pods on worker-a.
async fn crowded(rig: &Rig, ns: &str, colocate: &str) -> Result<()> {
    rig.consenting(At::A, ns).await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}});
    rig.create(At::A, ns, quota).await?;
    rig.until(At::A, ns, "resourcequota/two", "counted", |quota| {
        !quota["status"]["hard"].is_null()
    })
    .await?;
    let spec =
        json!({"clusters": ["worker-a", "worker-b"], "colocate": colocate, "namespaces": {"create": true}});
    rig.opted_in_to(ns, spec).await?;
    rig.create(At::Manager, ns, set("Deployment", 4, json!({})))
        .await
        .map(drop)
}

/// R39.
async fn pods_of_one_workload_share_a_cluster_and_wait_for_it(rig: Arc<Rig>) -> Result<()> {
    let ns = "together";
    crowded(&rig, ns, "Owner").await?;
    let waits = |pod: &Value| dispatched(pod)["reason"] == "WaitingForColocation";
    let pods = rig
        .until_list(At::Manager, ns, "pods", "two run, two wait", |pods| {
            pods.iter().filter(|pod| running(pod)).count() == 2
                && pods.iter().filter(|pod| waits(pod)).count() == 2
        })
        .await?;
    let message = pods
        .iter()
        .find(|pod| waits(pod))
        .map(|pod| dispatched(pod)["message"].to_string())
        .unwrap_or_default();
    ensure!(
        message.contains("worker-a") && message.contains("exceeded quota"),
        "{message}"
    );
    ensure!(rig.created(At::B, ns)?.is_empty(), "none went to worker-b");
    rig.delete(At::A, ns, "resourcequota/two").await?;
    rig.patch(
        At::Manager,
        ns,
        "deployment/web",
        json!({"spec": {"replicas": 6, "template": {"metadata": {"labels": {"round": "2"}}}}}),
    )
    .await?;
    rig.until(At::Manager, ns, "deployment/web", "rolled out", |web| {
        web["status"]["readyReplicas"] == 6
            && web["status"]["updatedReplicas"] == 6
            && web["status"]["replicas"] == 6
    })
    .await?;
    ensure!(rig.created(At::B, ns)?.is_empty(), "none went to worker-b");
    Ok(())
}

async fn without_colocation_each_pod_goes_where_it_can(rig: Arc<Rig>) -> Result<()> {
    let ns = "apart";
    crowded(&rig, ns, "None").await?;
    rig.until(At::Manager, ns, "deployment/web", "4 ready", |web| {
        web["status"]["readyReplicas"] == 4
    })
    .await?;
    ensure!(rig.list(At::A, ns, "pods").await?.len() == 2 && rig.list(At::B, ns, "pods").await?.len() == 2);
    Ok(())
}

async fn a_finished_copy_is_removed_after_keep_finished(rig: Arc<Rig>) -> Result<()> {
    for (ns, keep) in [("kept", None), ("not-kept", Some("2s"))] {
        let mut spec = json!({"clusters": ["worker-a"], "namespaces": {"create": true}});
        if let Some(keep) = keep {
            spec["keepFinished"] = keep.into();
        }
        rig.opted_in_to(ns, spec).await?;
        rig.create(
            At::Manager,
            ns,
            pod("one", json!({}), json!({"restartPolicy": "Never"})),
        )
        .await?;
        rig.until_ready(ns, "one").await?;
        let remote = rig.seen(At::A, ns, "pod/one").await?;
        rig.patch(At::A, ns, "pod/one", play("end", "complete")).await?;
        let succeeded = |pod: &Value| text(pod, "/status/phase") == "Succeeded";
        rig.until(At::Manager, ns, "pod/one", "Succeeded", succeeded)
            .await?;
        if keep.is_some() {
            rig.until_gone(At::A, ns, "pod/one", &uid(&remote)).await?;
            ensure!(
                succeeded(&rig.seen(At::Manager, ns, "pod/one").await?),
                "the local pod stays as it is"
            );
            ensure!(
                uid(&rig.seen(At::A, "kept", "pod/one").await?) != uid(&remote),
                "the other is kept"
            );
        }
        let local = rig.seen(At::Manager, ns, "pod/one").await?;
        if keep.is_some() {
            rig.delete(At::Manager, ns, "pod/one").await?;
            rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await?;
        }
    }
    let (local, remote) = (
        rig.seen(At::Manager, "kept", "pod/one").await?,
        rig.seen(At::A, "kept", "pod/one").await?,
    );
    rig.delete(At::Manager, "kept", "pod/one").await?;
    rig.until_gone(At::Manager, "kept", "pod/one", &uid(&local))
        .await?;
    ensure!(
        rig.find(At::A, "kept", "pod/one").await?.is_none(),
        "{} outlived its pod",
        uid(&remote)
    );
    Ok(())
}

/// What is committed goes on: opened, mirrored, failed, deleted. A gate never falls.
async fn goes_on(rig: &Rig, ns: &str, reason: &str, words: &str) -> Result<()> {
    rig.create(
        At::Manager,
        ns,
        pod(
            "waits",
            json!({}),
            json!({"schedulingGates": [{"name": "portcullis.dev/multikueue"}]}),
        ),
    )
    .await?;
    let gated = rig.seen(At::Manager, ns, "pod/waits").await?;
    if gated["metadata"]["labels"]["portcullis.dev/gated"] == "true" {
        rig.until_dispatched(ns, "waits", reason, words).await?;
    }
    ensure!(rig.find(At::A, ns, "pod/waits").await?.is_none());
    rig.patch(At::A, ns, "pod/runs", play("unready", "true")).await?;
    rig.until(At::Manager, ns, "pod/runs", "mirrored", |pod| {
        condition(pod, "Ready")["status"] == "False"
    })
    .await?;
    ensure_refused(
        rig.patch(
            At::Manager,
            ns,
            "pod/runs",
            json!({"spec": {"schedulingGates": []}}),
        )
        .await,
        "gate",
    )?;
    let failing = rig.seen(At::Manager, ns, "pod/fails").await?;
    rig.delete(At::A, ns, "pod/fails").await?;
    rig.until(At::Manager, ns, "pod/fails", "Failed", |pod| {
        text(pod, "/status/reason") == "RemotePodDeleted"
    })
    .await?;
    for (name, local) in [
        ("runs", rig.seen(At::Manager, ns, "pod/runs").await?),
        ("fails", failing),
    ] {
        rig.delete(At::Manager, ns, &format!("pod/{name}")).await?;
        rig.until_gone(At::Manager, ns, &format!("pod/{name}"), &uid(&local))
            .await?;
    }
    ensure!(rig.list(At::A, ns, "pods").await?.is_empty());
    Ok(())
}

async fn an_opted_out_namespace_keeps_what_runs_and_places_nothing_new(rig: Arc<Rig>) -> Result<()> {
    let ns = "keeps-out";
    rig.opted_in(ns).await?;
    for name in ["runs", "fails"] {
        rig.create(At::Manager, ns, plain(name)).await?;
        rig.until_ready(ns, name).await?;
    }
    let waiting = pod(
        "before",
        json!({}),
        json!({"schedulingGates": [{"name": "example.com/wait"}]}),
    );
    rig.create(At::Manager, ns, waiting).await?;
    rig.until_dispatched(ns, "before", "WaitingForGates", "").await?;
    rig.patch(
        At::Manager,
        "",
        "namespace/keeps-out",
        json!({"metadata": {"labels": {"portcullis.dev/dispatch": null}}}),
    )
    .await?;
    rig.until_dispatched(ns, "before", "NamespaceNotOptedIn", "label the namespace")
        .await?;
    goes_on(&rig, ns, "NamespaceNotOptedIn", "label the namespace").await?;
    rig.patch(
        At::Manager,
        "",
        "namespace/keeps-out",
        json!({"metadata": {"labels": {"portcullis.dev/dispatch": "default"}}}),
    )
    .await?;
    rig.patch(
        At::Manager,
        ns,
        "pod/before",
        json!({"spec": {"schedulingGates": [{"name": "portcullis.dev/multikueue"}]}}),
    )
    .await?;
    rig.until_ready(ns, "before").await.map(drop)
}

async fn a_deleted_policy_keeps_what_runs_and_places_nothing_new(rig: Arc<Rig>) -> Result<()> {
    let ns = "policy-gone";
    let spec = json!({"clusters": ["worker-a"], "namespaces": {"create": true}});
    rig.opted_in_to(ns, spec.clone()).await?;
    for name in ["runs", "fails"] {
        rig.create(At::Manager, ns, plain(name)).await?;
        rig.until_ready(ns, name).await?;
    }
    rig.delete(At::Manager, "", "dispatchpolicy/policy-gone").await?;
    goes_on(&rig, ns, "PolicyNotFound", "\"policy-gone\"").await?;
    rig.until_list(At::Manager, "default", "events", "the namespace's", |events| {
        events.iter().any(|event| {
            text(event, "/involvedObject/name") == ns && text(event, "/reason") == "PolicyNotFound"
        })
    })
    .await?;
    rig.policy(ns, spec).await?;
    rig.until_ready(ns, "waits").await.map(drop)
}

async fn a_cordoned_worker_keeps_its_pods_and_gets_no_new_ones(rig: Arc<Rig>) -> Result<()> {
    let ns = "cordon";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("stays")).await?;
    let stays = rig.until_ready(ns, "stays").await?;
    // Here, since it is no Warning: beside other cases it may be one too many.
    rig.until_one_is_told(ns, "worker-a").await?;
    rig.patch(
        At::Manager,
        "",
        "workercluster/worker-a",
        json!({"spec": {"cordoned": true}}),
    )
    .await?;
    rig.until(At::Manager, "", "workercluster/worker-a", "Cordoned", |cluster| {
        condition(cluster, "Ready")["reason"] == "Cordoned"
    })
    .await?;
    rig.until(At::Manager, "", "dispatchpolicy/default", "Degraded", |policy| {
        condition(policy, "Ready")["reason"] == "Degraded"
            && policy["status"]["clusters"][0]["reason"] == "Cordoned"
    })
    .await?;
    rig.create(At::Manager, ns, plain("new")).await?;
    ensure!(annotation(&rig.until_ready(ns, "new").await?, "portcullis.dev/cluster") == "worker-b");
    ensure!(uid(&rig.until_ready(ns, "stays").await?) == uid(&stays));
    rig.delete(At::Manager, ns, "pod/stays").await?;
    rig.until_gone(At::Manager, ns, "pod/stays", &uid(&stays)).await?;
    rig.patch(
        At::Manager,
        "",
        "workercluster/worker-a",
        json!({"spec": {"cordoned": false}}),
    )
    .await?;
    rig.until(At::Manager, "", "workercluster/worker-a", "Ready", |cluster| {
        condition(cluster, "Ready")["reason"] == "Ready"
    })
    .await
    .map(drop)
}
