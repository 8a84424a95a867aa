//! Gangs of Kubernetes itself.

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::case;
use crate::jobs::mpi;
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_that_fits_starts_as_a_whole),
        case!(with_a_node_missing_no_pod_is_bound_and_the_job_says_why),
        case!(a_resumed_job_has_a_group_again),
    ]
}

async fn a_job_that_fits_starts_as_a_whole(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nfits", "native").await?;
    rig.create(&mpi("nfits", "whole", 4, "1")).await?;
    rig.await_running("nfits", "whole", 5).await?;
    let groups = rig
        .kubectl(&[
            "get",
            "pods",
            "-n=nfits",
            "-o=jsonpath={.items[*].spec.schedulingGroup.podGroupName}",
        ])
        .await?;
    let names: std::collections::BTreeSet<&str> = groups.split(' ').collect();
    ensure!(groups.split(' ').count() == 5 && names.len() == 1, "{groups}");
    let name = names.first().expect("one name");
    let size = rig
        .get(
            "nfits",
            &format!("podgroups.scheduling.k8s.io/{name}"),
            "{.spec.schedulingPolicy.gang.minCount}",
        )
        .await?;
    ensure!(size == "5", "{size}");
    Ok(())
}

async fn with_a_node_missing_no_pod_is_bound_and_the_job_says_why(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nnode", "native").await?;
    let missing = rig.cluster().nodes().pop().expect("a node");
    rig.kubectl(&["cordon", &missing]).await?;
    rig.create(&mpi("nnode", "large", 4, "10")).await?;
    rig.await_pods("nnode", "large", 5).await?;
    let why = rig.await_event("nnode", "large", "WaitingForGang").await?;
    ensure!(why.contains("minCount") || why.contains("of 5 pods"), "{why}");
    rig.must_be_unbound("nnode", "large").await?;
    rig.kubectl(&["uncordon", &missing]).await?;
    rig.await_running("nnode", "large", 5).await
}

async fn a_resumed_job_has_a_group_again(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nagain", "native").await?;
    rig.create(&mpi("nagain", "again", 2, "1")).await?;
    rig.await_running("nagain", "again", 3).await?;
    let suspend = |value: bool| format!(r#"{{"spec":{{"runPolicy":{{"suspend":{value}}}}}}}"#);
    for _ in 0..2 {
        rig.kubectl(&[
            "patch",
            "mpijob",
            "again",
            "-n=nagain",
            "--type=merge",
            "-p",
            &suspend(true),
        ])
        .await?;
        rig.await_pods("nagain", "again", 0).await?;
        rig.kubectl(&[
            "patch",
            "mpijob",
            "again",
            "-n=nagain",
            "--type=merge",
            "-p",
            &suspend(false),
        ])
        .await?;
        rig.await_running("nagain", "again", 3).await?;
    }
    Ok(())
}
