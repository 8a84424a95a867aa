//! Killed between the PodGroup and the opening.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{case, wait_for};

use crate::rig::{At, Case, GROUP, Rig, SOON, US};
use crate::starts::{mpi, of};
use crate::workers::Refusal;

pub fn cases() -> Vec<Case> {
    vec![case!(
        killed_between_group_and_opening_there_is_one_copy_that_is_opened_once
    )]
}

async fn killed_between_group_and_opening_there_is_one_copy_that_is_opened_once(rig: Arc<Rig>) -> Result<()> {
    let refusal = Refusal::of_opening("no-opening", "killed");
    refusal.begin(&rig).await?;
    rig.opted_in("killed", "a").await?;
    let group = format!("{GROUP}/train");
    let refused = async || {
        wait_for("an opening to be refused", SOON, async || {
            let log = std::fs::read_to_string(rig.cluster(At::A).folder().join("audit.log"))?;
            let mut lines = log.lines().filter(|line| line.contains("/killed/mpijobs/train?"));
            let is_refused = lines.any(|line| line.contains(refusal.message));
            Ok::<_, anyhow::Error>(is_refused.then_some(()))
        })
        .await
    };
    rig.create("killed", &mpi("train", 2, "1")).await?;
    rig.await_value(At::A, "killed", &group, "{.spec.minMember}", "3")
        .await?;
    refused().await?;
    rig.portcullis.lock().await.kill9();
    let uid = rig
        .get(At::A, "killed", "mpijob/train", "{.metadata.uid}")
        .await?;
    ensure!(
        rig.pods(At::A, "killed", &of("train")).await?.is_empty(),
        "pods before the opening"
    );
    refusal.end(&rig).await?;
    rig.portcullis.lock().await.start().await?;
    rig.await_running("killed", &of("train"), 3).await?;
    ensure!(
        rig.get(At::A, "killed", "mpijob/train", "{.metadata.uid}")
            .await?
            == uid
    );
    let owner = rig
        .get(At::A, "killed", &group, "{.metadata.ownerReferences[0].uid}")
        .await?;
    ensure!(owner == uid, "{owner}");
    let copies = rig.made(At::A, "killed", "mpijobs")?;
    ensure!(copies.len() == 1, "{copies:?}");
    let opened = openings(&rig, "killed")?;
    ensure!(opened == 1, "it was opened {opened} times");
    rig.no_pod_here("killed")
}

/// Writes of ours to copies that stand there: of one that nobody changes, only its opening.
fn openings(rig: &Rig, namespace: &str) -> Result<usize> {
    let ledger = rig.cluster(At::A).ledger()?;
    let writes = ledger
        .writes_by(US)
        .into_iter()
        .filter(|write| write.namespace == namespace && write.resource == "mpijobs" && write.verb == "patch");
    Ok(writes.count())
}
