//! API servers of this release on which native groups do not work, each a cluster of its own.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::KubeVersion;

use crate::case;
use crate::rig::{Case, Rig, batch, pod};

pub fn cases() -> Vec<Case> {
    vec![
        case!(with_the_gate_off_a_job_starts_without_a_group_and_says_so),
        // A 1.36 API server waits for that API itself (PodGroupProtection), and is never ready.
        case!(the_gate_without_the_api_is_told).only(KubeVersion::V1_35),
    ]
}

/// The API cannot be had without the gate before 1.37, whatever is asked for.
async fn with_the_gate_off_a_job_starts_without_a_group_and_says_so(rig: Arc<Rig>) -> Result<()> {
    let api = format!(
        "--runtime-config=scheduling.k8s.io/{}=true",
        rig.version.native_api()
    );
    let off = Rig::start_with(rig.version, 0, |options| {
        options.api_server_args.push(api.clone());
    })
    .await?;
    off.manager()
        .create_namespace("asks", &[("portcullis.dev/gang", "native")])
        .await?;
    off.create("asks", &batch("job", 2, "1")).await?;
    let why = off.await_event("asks", "GangSchedulerNotServed").await?;
    ensure!(why.contains("native"), "{why}");
    off.await_pods("asks", "{.status.phase}", &["Running"; 2]).await?;
    let status = off.status().await?;
    ensure!(!status.contains("schedules no pod"), "{status}");
    Ok(())
}

/// A scheduler with the gate then schedules no pod at all.
async fn the_gate_without_the_api_is_told(rig: Arc<Rig>) -> Result<()> {
    let half = Rig::start_with(rig.version, 0, |options| {
        let gates = rig.version.native_gates().iter();
        options.feature_gates.extend(gates.map(ToString::to_string));
    })
    .await?;
    half.manager()
        .create_namespace("asks", &[("portcullis.dev/gang", "native")])
        .await?;
    half.create("default", &pod("waits")).await?;
    let event = half.await_event("default", "PodGroupsNotServed").await?;
    let option = format!("scheduling.k8s.io/{}=true", rig.version.native_api());
    ensure!(event.contains(&option), "{event}");
    let status = half.status().await?;
    ensure!(status.contains("schedules no pod at all"), "{status}");
    let condition = half
        .get("default", "pod/waits", "{.status.conditions}{.spec.nodeName}")
        .await?;
    ensure!(condition.is_empty(), "{condition}");
    Ok(())
}
