//! Whose hand stops and starts a job: its user's, Kueue's, ours.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::jobs::{mpi, with};
use crate::rig::{Case, Rig, SOON};
use crate::steps::suspend;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_that_its_user_suspended_is_never_started),
        case!(a_held_job_that_its_user_starts_is_not_suspended_again),
        case!(a_hold_that_its_user_takes_over_is_his),
        case!(a_job_of_kueue_is_neither_held_nor_released),
        case!(a_native_job_that_its_user_suspended_is_a_gang_when_he_starts_it),
        case!(a_job_without_a_policy_is_left_alone),
        case!(a_job_that_is_managed_elsewhere_is_left_alone),
        case!(a_launcher_that_waits_for_its_workers_does_not_lock_coscheduling),
        case!(a_launcher_that_waits_for_its_workers_does_not_lock_a_native_gang),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";

async fn a_job_that_its_user_suspended_is_never_started(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("user", "coscheduling").await?;
    rig.create(&with(mpi("user", "job", 2, "1"), &suspend(true)))
        .await?;
    rig.await_condition("user", "mpijob/job", "Suspended").await?;
    rig.others_go_on("user").await?;
    let hold = rig.hold("user", "mpijob/job").await?;
    ensure!(hold == "true ", "{hold}");
    ensure!(
        !rig.exists("user", &format!("{GROUP}/job")).await?,
        "a group while suspended"
    );
    rig.merge("user", "mpijob/job", &suspend(false)).await?;
    rig.await_running("user", "job", 3).await?;
    let hold = rig.hold("user", "mpijob/job").await?;
    ensure!(hold == "false ", "{hold}");
    rig.await_value("user", &format!("{GROUP}/job"), "{.spec.minMember}", "3")
        .await
}

async fn a_held_job_that_its_user_starts_is_not_suspended_again(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("start", "coscheduling").await?;
    rig.create(&json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "start"}, "spec": {"minMember": 3},
    }))
    .await?;
    rig.create(&mpi("start", "job", 2, "1")).await?;
    rig.await_event("start", "job", "PodGroupConflict").await?;
    rig.must_be_held("start", "mpijob/job").await?;
    rig.merge("start", "mpijob/job", &suspend(false)).await?;
    let hold = rig.hold("start", "mpijob/job").await?;
    ensure!(hold == "false ", "the claim stays: {hold}");
    rig.delete("start", &format!("{GROUP}/job")).await?;
    rig.await_running("start", "job", 3).await?;
    wait_for("a group of ours", SOON, async || {
        let owner = rig
            .get(
                "start",
                &format!("{GROUP}/job"),
                "{.metadata.ownerReferences[0].name}",
            )
            .await?;
        (owner == "job").then_some(Some(())).context(owner)
    })
    .await?;
    let writes = rig.our_writes("start")?;
    ensure!(
        !writes.iter().any(|write| write.contains("mpijobs")),
        "{writes:?}"
    );
    Ok(())
}

async fn a_hold_that_its_user_takes_over_is_his(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("mine", "coscheduling").await?;
    rig.create(&json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "mine"}, "spec": {"minMember": 3},
    }))
    .await?;
    rig.create(&mpi("mine", "job", 2, "1")).await?;
    rig.await_event("mine", "job", "PodGroupConflict").await?;
    rig.kubectl(&["annotate", "mpijob/job", "-n=mine", "portcullis.dev/held-"])
        .await?;
    rig.delete("mine", &format!("{GROUP}/job")).await?;
    rig.others_go_on("mine").await?;
    let hold = rig.hold("mine", "mpijob/job").await?;
    ensure!(hold == "true ", "{hold}");
    rig.merge("mine", "mpijob/job", &suspend(false)).await?;
    rig.await_running("mine", "job", 3).await
}

async fn a_job_of_kueue_is_neither_held_nor_released(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("kueue", "coscheduling").await?;
    let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}});
    for down in [false, true] {
        if down {
            rig.portcullis.lock().await.kill9();
        }
        let name = format!("free{}", u8::from(down));
        rig.create(&with(mpi("kueue", &name, 1, "1"), &label)).await?;
        let hold = rig.hold("kueue", &format!("mpijob/{name}")).await?;
        ensure!(!hold.contains("true"), "{name}: {hold}");
    }
    rig.portcullis.lock().await.start().await?;
    rig.await_running("kueue", "free0", 2).await?;
    // As Kueue's own webhook leaves it.
    let held = with(mpi("kueue", "queued", 1, "1"), &label);
    rig.create(&with(held, &suspend(true))).await?;
    rig.others_go_on("kueue").await?;
    let hold = rig.hold("kueue", "mpijob/queued").await?;
    ensure!(hold == "true ", "{hold}");
    rig.merge("kueue", "mpijob/queued", &suspend(false)).await?;
    rig.await_running("kueue", "queued", 2).await?;
    rig.await_value("kueue", &format!("{GROUP}/queued"), "{.spec.minMember}", "2")
        .await
}

async fn a_native_job_that_its_user_suspended_is_a_gang_when_he_starts_it(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nuser", "native").await?;
    rig.create(&with(mpi("nuser", "job", 2, "1"), &suspend(true)))
        .await?;
    let mark = r"{.spec.mpiReplicaSpecs.Worker.template.metadata.annotations.portcullis\.dev/gang-scheduler}";
    rig.await_value("nuser", "mpijob/job", mark, "native").await?;
    let hold = rig.hold("nuser", "mpijob/job").await?;
    ensure!(hold == "true ", "{hold}");
    rig.merge("nuser", "mpijob/job", &suspend(false)).await?;
    rig.await_running("nuser", "job", 3).await?;
    let groups = rig
        .of_pods("nuser", "", "{.spec.schedulingGroup.podGroupName}")
        .await?;
    ensure!(
        groups
            .iter()
            .all(|group| !group.is_empty() && *group == groups[0]),
        "{groups:?}"
    );
    Ok(())
}

async fn a_job_without_a_policy_is_left_alone(rig: Arc<Rig>) -> Result<()> {
    let plain = json!({"spec": {"runPolicy": {"schedulingPolicy": Value::Null}}});
    for (namespace, back_end) in [("lco", "coscheduling"), ("lna", "native")] {
        rig.ganged(namespace, back_end).await?;
        rig.create(&with(mpi(namespace, "plain", 1, "1"), &plain)).await?;
        rig.await_running(namespace, "plain", 2).await?;
        let path =
            r"{.metadata.labels.portcullis\.dev/pod-group}{.spec.schedulingGroup}{.spec.schedulerName}";
        let said = rig.of_pods(namespace, "", path).await?;
        ensure!(said == ["default-scheduler"; 2], "{said:?}");
        let writes = rig.our_writes(namespace)?;
        ensure!(writes.is_empty(), "{writes:?}");
    }
    Ok(())
}

async fn a_job_that_is_managed_elsewhere_is_left_alone(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("else", "coscheduling").await?;
    let elsewhere = json!({"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}});
    let opted_out = json!({"metadata": {"annotations": {"portcullis.dev/gang-scheduling": "false"}}});
    for down in [false, true] {
        if down {
            rig.portcullis.lock().await.kill9();
        }
        for (name, patch) in [("away", &elsewhere), ("away-out", &opted_out)] {
            let name = format!("{name}{}", u8::from(down));
            rig.create(&with(mpi("else", &name, 1, "1"), patch)).await?;
            let hold = rig.hold("else", &format!("mpijob/{name}")).await?;
            ensure!(!hold.contains("true"), "{name}: {hold}");
        }
    }
    rig.portcullis.lock().await.start().await?;
    rig.others_go_on("else").await?;
    let writes = rig.our_writes("else")?;
    ensure!(!writes.iter().any(|write| write.contains("away")), "{writes:?}");
    Ok(())
}

fn waits(namespace: &str) -> Value {
    with(
        mpi(namespace, "job", 3, "1"),
        &json!({"spec": {"launcherCreationPolicy": "WaitForWorkersReady"}}),
    )
}

async fn a_launcher_that_waits_for_its_workers_does_not_lock_coscheduling(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("wco", "coscheduling").await?;
    rig.create(&waits("wco")).await?;
    let hold = rig.hold("wco", "mpijob/job").await?;
    ensure!(!hold.contains("true"), "{hold}");
    rig.await_running("wco", "job", 4).await?;
    let size = "{.spec.minMember} {.spec.minResources.cpu}";
    rig.await_value("wco", &format!("{GROUP}/job"), size, "3 4")
        .await?;
    let writes = rig.our_writes("wco")?;
    ensure!(
        writes == ["patch podgroups.scheduling.x-k8s.io job"],
        "{writes:?}"
    );
    Ok(())
}

async fn a_launcher_that_waits_for_its_workers_does_not_lock_a_native_gang(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("wna", "native").await?;
    rig.create(&waits("wna")).await?;
    rig.await_running("wna", "job", 4).await?;
    let groups = rig
        .of_pods("wna", "", "{.spec.schedulingGroup.podGroupName}")
        .await?;
    ensure!(
        groups
            .iter()
            .all(|group| !group.is_empty() && *group == groups[0]),
        "{groups:?}"
    );
    let group = format!("podgroups.scheduling.k8s.io/{}", groups[0]);
    rig.await_value("wna", &group, "{.spec.schedulingPolicy.gang.minCount}", "3")
        .await
}
