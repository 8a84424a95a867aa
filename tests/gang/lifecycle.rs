//! A PodGroup from the first change of its job to the end.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::jobs::{mpi, pytorch, with};
use crate::rig::{Case, Rig, SOON};
use crate::steps::{of, suspend};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_group_follows_its_job_and_fields_of_others_stay),
        case!(a_group_grows_with_a_pytorch_job_and_not_with_an_elastic_one),
        case!(a_suspended_job_loses_its_group_once_no_pod_lives_and_has_one_again),
        case!(a_finished_job_loses_its_group),
        case!(a_finished_job_keeps_its_group_while_pods_live),
        case!(a_deleted_job_takes_its_group_along),
        case!(a_group_that_somebody_deleted_is_made_again),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";

fn policy(policy: Value) -> Value {
    json!({"spec": {"runPolicy": {"schedulingPolicy": policy}}})
}

async fn a_group_follows_its_job_and_fields_of_others_stay(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("follow", "coscheduling").await?;
    rig.create(&mpi("follow", "job", 2, "1")).await?;
    rig.await_running("follow", "job", 3).await?;
    let group = format!("{GROUP}/job");
    let uid = rig.get("follow", &group, "{.metadata.uid}").await?;
    rig.kubectl(&["annotate", &group, "-n=follow", "other/note=theirs"])
        .await?;
    rig.kubectl(&["label", &group, "-n=follow", "other=theirs"])
        .await?;
    let changes = [
        (json!({"minAvailable": 2, "scheduleTimeoutSeconds": 77}), "2 77"),
        (json!({"scheduleTimeoutSeconds": 78}), "2 78"),
        (
            json!({"minAvailable": null, "scheduleTimeoutSeconds": null}),
            "3 ",
        ),
        (json!({"minResources": {"cpu": "7"}}), "3 "),
    ];
    for (change, expect) in changes {
        rig.merge("follow", "mpijob/job", &policy(change)).await?;
        let path = "{.spec.minMember} {.spec.scheduleTimeoutSeconds}";
        rig.await_value("follow", &group, path, expect).await?;
    }
    rig.await_value("follow", &group, "{.spec.minResources.cpu}", "7")
        .await?;
    let path = r"{.metadata.annotations.other/note} {.metadata.labels.other} {.metadata.uid}";
    let kept = rig.get("follow", &group, path).await?;
    ensure!(kept == format!("theirs theirs {uid}"), "{kept}");
    rig.await_running("follow", "job", 3).await
}

async fn a_group_grows_with_a_pytorch_job_and_not_with_an_elastic_one(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("grow", "coscheduling").await?;
    let elastic = json!({"spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 5}}});
    rig.create(&pytorch("grow", "rigid", 2, "1")).await?;
    rig.create(&with(pytorch("grow", "elastic", 2, "1"), &elastic))
        .await?;
    for (name, before, after) in [("rigid", "3 3", "4 4"), ("elastic", "2 2", "2 2")] {
        let (group, size) = (
            format!("{GROUP}/{name}"),
            "{.spec.minMember} {.spec.minResources.cpu}",
        );
        rig.await_running("grow", name, 3).await?;
        rig.await_value("grow", &group, size, before).await?;
        let grown = json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}});
        rig.merge("grow", &format!("pytorchjob/{name}"), &grown).await?;
        rig.await_running("grow", name, 4).await?;
        rig.await_value("grow", &group, size, after).await?;
    }
    let writes = rig.our_writes("grow")?;
    let of_elastic = writes
        .iter()
        .filter(|write| write.contains("podgroups") && write.ends_with("elastic"));
    ensure!(of_elastic.count() == 1, "{writes:?}");
    Ok(())
}

async fn a_suspended_job_loses_its_group_once_no_pod_lives_and_has_one_again(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("susp", "coscheduling").await?;
    let slow = json!({"metadata": {"annotations": {"kwok.test/terminate-after": "4s"}}});
    let slow = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"template": slow}}}});
    rig.create(&with(mpi("susp", "job", 2, "1"), &slow)).await?;
    rig.await_running("susp", "job", 3).await?;
    let group = format!("{GROUP}/job");
    let first = rig.get("susp", &group, "{.metadata.uid}").await?;
    rig.merge("susp", "mpijob/job", &suspend(true)).await?;
    wait_for("the group to go", SOON, async || {
        if rig.exists("susp", &group).await? {
            bail!("it is there");
        }
        Ok(Some(()))
    })
    .await?;
    let left = rig.pods("susp", "job").await?;
    ensure!(left.is_empty(), "the group went before {left:?}");
    rig.merge("susp", "mpijob/job", &suspend(false)).await?;
    rig.await_running("susp", "job", 3).await?;
    let second = rig.get("susp", &group, "{.metadata.uid}").await?;
    ensure!(first != second && !second.is_empty(), "{first} {second}");
    let hold = rig.hold("susp", "mpijob/job").await?;
    ensure!(
        hold == "false ",
        "a job that its user started is not held: {hold}"
    );
    Ok(())
}

async fn a_finished_job_loses_its_group(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("fin", "coscheduling").await?;
    rig.create(&mpi("fin", "job", 2, "1")).await?;
    rig.await_running("fin", "job", 3).await?;
    let launcher = format!("{},training.kubeflow.org/job-role=launcher", of("job"));
    rig.end_pods("fin", &launcher).await?;
    rig.await_condition("fin", "mpijob/job", "Succeeded").await?;
    rig.await_gone("fin", &format!("{GROUP}/job")).await
}

async fn a_finished_job_keeps_its_group_while_pods_live(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("keep", "coscheduling").await?;
    let none = json!({"spec": {"runPolicy": {"cleanPodPolicy": "None"}}});
    rig.create(&with(mpi("keep", "job", 2, "1"), &none)).await?;
    rig.await_running("keep", "job", 3).await?;
    let role = |role: &str| format!("{},training.kubeflow.org/job-role={role}", of("job"));
    rig.end_pods("keep", &role("launcher")).await?;
    rig.await_condition("keep", "mpijob/job", "Succeeded").await?;
    rig.others_go_on("keep").await?;
    ensure!(
        rig.exists("keep", &format!("{GROUP}/job")).await?,
        "gone while workers run"
    );
    rig.end_pods("keep", &role("worker")).await?;
    rig.await_gone("keep", &format!("{GROUP}/job")).await
}

async fn a_deleted_job_takes_its_group_along(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("del", "coscheduling").await?;
    rig.create(&mpi("del", "job", 2, "1")).await?;
    rig.await_running("del", "job", 3).await?;
    let finalizers = rig.get("del", "mpijob/job", "{.metadata.finalizers}").await?;
    ensure!(finalizers.is_empty(), "{finalizers}");
    rig.delete("del", "mpijob/job").await?;
    rig.await_gone("del", &format!("{GROUP}/job")).await?;
    let writes = rig.our_writes("del")?;
    ensure!(
        writes.iter().all(|write| !write.starts_with("delete")),
        "{writes:?}"
    );
    Ok(())
}

async fn a_group_that_somebody_deleted_is_made_again(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("gone", "coscheduling").await?;
    rig.create(&mpi("gone", "job", 2, "1")).await?;
    rig.await_running("gone", "job", 3).await?;
    let (group, state) = (format!("{GROUP}/job"), "{.metadata.uid}");
    let first = rig.get("gone", &group, state).await?;
    rig.delete("gone", &group).await?;
    wait_for("another group", SOON, async || {
        let second = rig.get("gone", &group, state).await?;
        ensure!(!second.is_empty() && second != first, "{second}");
        Ok(Some(()))
    })
    .await?;
    wait_for("an Event of each making", SOON, async || {
        let said = rig.await_event("gone", "job", "PodGroupCreated").await?;
        ensure!(said == "made PodGroup job made PodGroup job", "{said}");
        Ok(Some(()))
    })
    .await?;
    rig.await_running("gone", "job", 3).await
}
