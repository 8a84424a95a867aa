//! Two jobs that each fit alone but not together: never do both start in part.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::jobs::{mpi, with};
use crate::rig::{Case, Rig, SOON};

pub fn cases() -> Vec<Case> {
    vec![
        case!(two_jobs_of_coscheduling_never_both_start_in_part),
        case!(two_native_jobs_never_both_start_in_part),
    ]
}

async fn two_jobs_of_coscheduling_never_both_start_in_part(rig: Arc<Rig>) -> Result<()> {
    rounds(&rig, "coscheduling", "pairs", 20).await
}

async fn two_native_jobs_never_both_start_in_part(rig: Arc<Rig>) -> Result<()> {
    rounds(&rig, "native", "npairs", 6).await
}

/// A node has room for one pod, so the two nodes have room for one job of two pods.
async fn rounds(rig: &Rig, back_end: &str, namespace: &str, rounds: u32) -> Result<()> {
    rig.ganged(namespace, back_end).await?;
    rig.empty_nodes().await?;
    let short = json!({"spec": {"runPolicy": {"schedulingPolicy": {"scheduleTimeoutSeconds": 2}}}});
    for round in 0..rounds {
        let names = ["a", "b"].map(|name| format!("{name}{round}"));
        for name in &names {
            rig.create(&with(mpi(namespace, name, 1, "20"), &short)).await?;
        }
        wait_for("one of two jobs to run", SOON, async || {
            let bound = bound(rig, namespace).await?;
            let whole = names.iter().any(|name| bound.get(name) == Some(&(2, 2)));
            whole.then_some(Some(())).with_context(|| format!("{bound:?}"))
        })
        .await
        .with_context(|| format!("round {round}"))?;
        let bound = bound(rig, namespace).await?;
        let some: Vec<_> = bound.values().filter(|(bound, _)| *bound > 0).collect();
        ensure!(some == [&(2, 2)], "round {round}: {bound:?}");
        // The one that waits first: it would rightly start in the room of the other.
        let (runs, waits): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| bound.get(*name) == Some(&(2, 2)));
        for name in waits.into_iter().chain(runs) {
            rig.delete(namespace, &format!("mpijob/{name}")).await?;
            wait_for(&format!("{name} to go"), SOON, async || {
                let pods = rig.of_pods(namespace, "", "{.metadata.name}").await?;
                let left = pods.iter().any(|pod| pod.starts_with(&format!("{name}-")));
                (!left).then_some(Some(())).with_context(|| format!("{pods:?}"))
            })
            .await?;
        }
    }
    never_both(rig, namespace)
}

/// By job: pods with a node, and all.
async fn bound(rig: &Rig, namespace: &str) -> Result<BTreeMap<String, (u32, u32)>> {
    let path = r"{.metadata.labels.training\.kubeflow\.org/job-name},{.spec.nodeName}";
    let mut found: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for line in rig.of_pods(namespace, "", path).await? {
        let (job, node) = line.split_once(',').context("two fields")?;
        let counts = found.entry(job.to_owned()).or_default();
        counts.0 += u32::from(!node.is_empty());
        counts.1 += 1;
    }
    Ok(found)
}

/// By the audit log, at every moment: of the two jobs of a round only one ever got nodes.
fn never_both(rig: &Rig, namespace: &str) -> Result<()> {
    let ledger = rig.cluster().ledger()?;
    let mut rounds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for binding in ledger.bindings() {
        if binding.namespace == namespace {
            let (job, _) = binding.name.split_once('-').context("<job>-<role>")?;
            rounds
                .entry(job[1..].to_owned())
                .or_default()
                .push(job.to_owned());
        }
    }
    for (round, jobs) in rounds {
        ensure!(jobs.len() == 2 && jobs[0] == jobs[1], "round {round}: {jobs:?}");
    }
    Ok(())
}
