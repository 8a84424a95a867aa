//! An operator that makes PodGroups itself.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;

use crate::jobs::{mpi, pytorch};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_operator_with_its_own_gang_flag_is_left_to_it),
        case!(a_training_operator_with_its_own_gang_flag_starts_no_war),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";

async fn an_operator_with_its_own_gang_flag_is_left_to_it(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("flag", "coscheduling").await?;
    let flag = ["-gang-scheduling=coscheduling"];
    rig.cluster().start_mpi_operator(&flag).await?;
    let result = stands_down(&rig).await;
    rig.cluster().start_mpi_operator(&[]).await?;
    result?;
    rig.others_go_on("flag").await
}

async fn stands_down(rig: &Rig) -> Result<()> {
    rig.create(&mpi("flag", "job", 2, "1")).await?;
    rig.await_event("flag", "job", "OperatorManagesPodGroup").await?;
    rig.await_running("flag", "job", 3).await?;
    let path = r"{.metadata.annotations.portcullis\.dev/stand-down}";
    let reason = rig.get("flag", "mpijob/job", path).await?;
    ensure!(!reason.is_empty(), "no reason");
    let hold = rig.hold("flag", "mpijob/job").await?;
    ensure!(hold == "false ", "{hold}");
    rig.await_value("flag", &format!("{GROUP}/job"), "{.spec.minMember}", "3")
        .await?;
    let writes = rig.our_writes("flag")?;
    // Whatever the race with the operator brought: an end, and few writes until then.
    ensure!(writes.len() <= 8, "{} writes: {writes:#?}", writes.len());
    let owner = rig
        .get(
            "flag",
            &format!("{GROUP}/job"),
            "{.metadata.ownerReferences[*].name}",
        )
        .await?;
    ensure!(owner == "job", "{owner}");
    Ok(())
}

/// It writes the same as we do here, at every turn of its own: whoever has the last word, it is an end.
async fn a_training_operator_with_its_own_gang_flag_starts_no_war(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("tflag", "coscheduling").await?;
    let flag = ["--gang-scheduler-name=coscheduling"];
    rig.cluster().start_training_operator(&flag).await?;
    let result = comes_to_rest(&rig).await;
    rig.cluster().start_training_operator(&[]).await?;
    result
}

async fn comes_to_rest(rig: &Rig) -> Result<()> {
    rig.create(&pytorch("tflag", "job", 2, "1")).await?;
    rig.await_running("tflag", "job", 3).await?;
    rig.others_go_on("tflag").await?;
    let hold = rig
        .get("tflag", "pytorchjob/job", "{.spec.runPolicy.suspend}")
        .await?;
    ensure!(hold == "false", "{hold}");
    let mut writes = rig.our_writes("tflag")?;
    writes.retain(|write| write.ends_with(" job"));
    ensure!(writes.len() <= 8, "{} writes: {writes:#?}", writes.len());
    Ok(())
}
