//! Many whole jobs at once that end on their workers within milliseconds: none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::future::try_join_all;
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, US, condition, summary, text, uid};

/// Users create so many at a time.
const LANES: usize = 16;
const JOBS: usize = 1000;
/// A minute or so on two idle cores; others may want them too.
const LIMIT: Duration = Duration::from_secs(600);

pub fn cases() -> Vec<Case> {
    vec![Case {
        limit: LIMIT + Duration::from_secs(60),
        ..case!(alone a_thousand_instant_jobs_end_complete_and_none_is_lost)
    }]
}

/// Its one pod ends as soon as it runs.
fn instant(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {
            "metadata": {"annotations": {"kwok.test/end": "complete"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
        }},
    })
}

fn is_complete(job: &Value) -> bool {
    condition(job, "Complete")["status"] == "True"
}

async fn a_thousand_instant_jobs_end_complete_and_none_is_lost(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-instant";
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    let began = Instant::now();
    let names: Vec<String> = (0..JOBS).map(|number| format!("instant-{number}")).collect();
    try_join_all(names.chunks(JOBS.div_ceil(LANES)).map(async |names| {
        for name in names {
            rig.create(At::Manager, ns, instant(name)).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    let created = began.elapsed();
    let jobs = wait_for("all jobs to be complete", LIMIT, async || {
        // A list of them all is work that the clusters share with what is tested.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let jobs = rig.list(At::Manager, ns, "jobs").await?;
        ensure!(jobs.len() == JOBS, "{} jobs are there", jobs.len());
        match jobs.iter().find(|job| !is_complete(job)) {
            None => Ok(Some(jobs)),
            Some(open) => {
                let done = jobs.iter().filter(|job| is_complete(job)).count();
                Err(anyhow!("{done} of {JOBS} are; not {}", summary(open)))
            }
        }
    })
    .await?;
    println!(
        "{JOBS} instant jobs: created in {created:.1?}, all complete after {:.1?}",
        began.elapsed()
    );
    for job in &jobs {
        ensure!(
            job["status"]["succeeded"] == 1 && job["status"]["active"].as_u64().unwrap_or(0) == 0,
            "{}: {}",
            text(job, "/metadata/name"),
            job["status"]
        );
    }
    once_each(&rig, ns, &jobs)?;
    few_writes(&rig, ns)?;
    rig.no_pod_here(ns).await
}

/// Each ran once, in one copy.
fn once_each(rig: &Rig, ns: &str, jobs: &[Value]) -> Result<()> {
    let ran = rig.ran(ns)?;
    let locals: BTreeSet<String> = jobs.iter().map(uid).collect();
    let known: BTreeSet<String> = ran.keys().cloned().collect();
    ensure!(known == locals, "copies of others ran, or some never did");
    let twice: Vec<_> = ran.iter().filter(|(_, copies)| copies.len() != 1).collect();
    ensure!(twice.is_empty(), "ran more than once: {twice:?}");
    let mut copies = rig.copies(At::A, ns)?;
    copies.extend(rig.copies(At::B, ns)?);
    ensure!(copies.len() == JOBS, "{} copies were made", copies.len());
    Ok(())
}

/// What we write for each: prepare, commit, open, and as little of its status as tells all of it.
fn few_writes(rig: &Rig, ns: &str) -> Result<()> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for at in [At::Manager, At::A, At::B] {
        let writes = rig.writes(at, ns)?;
        for write in writes.into_iter().filter(|write| write.user == US) {
            let side = if at == At::Manager { "here" } else { "there" };
            *counts
                .entry(format!("{} {} {side}", write.verb, write.resource))
                .or_default() += 1;
        }
    }
    println!("writes of ours: {counts:?}");
    let (status, rest): (Vec<_>, Vec<_>) = counts
        .iter()
        .filter(|(what, _)| what.contains(" jobs"))
        .partition(|(what, _)| what.contains("jobs/status"));
    let sum = |counts: Vec<(&String, &usize)>| counts.into_iter().map(|(_, count)| count).sum::<usize>();
    let (status, rest) = (sum(status), sum(rest));
    ensure!(
        rest <= 3 * JOBS + JOBS / 20,
        "{rest} writes of {JOBS} jobs, besides their status"
    );
    ensure!(status <= 4 * JOBS, "{status} writes of the status of {JOBS} jobs");
    Ok(())
}
