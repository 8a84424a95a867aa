//! Everything once more while nothing of ours runs: the promise is the API server's to keep.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt;

use super::ground::Site;
use super::{
    changes, committed, crds, creation, exceptions, job_changes, jobs, leaving, limits, namespaces, preview,
    rollouts, templates,
};
use crate::rig::{Case, Rig};

/// As many checks at a time.
const AT_A_TIME: usize = 6;

pub fn cases() -> Vec<Case> {
    vec![Case {
        name: "guard::down::every_check_holds_while_portcullis_is_stopped",
        alone: true,
        limit: Duration::from_secs(400),
        run: |rig| Box::pin(every_check_holds_while_portcullis_is_stopped(rig)),
    }]
}

async fn every_check_holds_while_portcullis_is_stopped(rig: Arc<Rig>) -> Result<()> {
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let checks = [
        creation::checks(),
        exceptions::checks(),
        changes::checks(),
        committed::checks(),
        templates::checks(),
        rollouts::checks(),
        namespaces::checks(),
        leaving::checks(),
        crds::checks(),
        jobs::checks(),
        job_changes::checks(),
        preview::checks(),
        limits::checks(),
    ];
    let runs = checks.into_iter().flatten().map(|(name, check)| {
        let site = Site::alone(rig.clone());
        async move { check(site).await.err().map(|error| format!("{name}: {error:?}")) }
    });
    let failed: Vec<String> = futures::stream::iter(runs)
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |failure| failure)
        .collect()
        .await;
    portcullis.start().await?;
    ensure!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    Ok(())
}
