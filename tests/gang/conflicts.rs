//! The group's name is taken: by a stranger, by an earlier job of this name.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::jobs::{batch, mpi, pytorch, with};
use crate::rig::{Case, Rig, SOON};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_strangers_group_is_left_alone_and_its_job_waits_until_it_goes),
        case!(a_group_of_an_earlier_job_is_waited_for),
        case!(a_job_made_anew_has_a_group_of_its_own),
        case!(a_job_made_anew_waits_for_the_pods_of_the_old_one),
        case!(of_two_jobs_of_one_name_the_second_waits),
        case!(a_job_that_adopts_a_group_waits_for_it),
        case!(whoever_edits_a_group_by_hand_is_named),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";

async fn a_strangers_group_is_left_alone_and_its_job_waits_until_it_goes(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("taken", "coscheduling").await?;
    rig.create(&json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "taken"}, "spec": {"minMember": 1},
    }))
    .await?;
    let (group, state) = (
        format!("{GROUP}/job"),
        "{.metadata.resourceVersion} {.spec.minMember}",
    );
    let before = rig.get("taken", &group, state).await?;
    rig.create(&mpi("taken", "job", 2, "1")).await?;
    let said = rig.await_event("taken", "job", "PodGroupConflict").await?;
    ensure!(said.contains("PodGroup job belongs to nobody"), "{said}");
    rig.others_go_on("taken").await?;
    rig.must_be_held("taken", "mpijob/job").await?;
    let after = rig.get("taken", &group, state).await?;
    ensure!(before == after, "{before} {after}");
    let status = rig.status("taken").await?;
    ensure!(
        says(&status, "job", &["Conflict", "PodGroupConflict:"]),
        "{status}"
    );
    rig.delete("taken", &group).await?;
    rig.await_running("taken", "job", 3).await?;
    let status = rig.status("taken").await?;
    ensure!(says(&status, "job", &["Running", "-"]), "{status}");
    rig.await_value("taken", &group, "{.spec.minMember}", "3").await
}

async fn a_group_of_an_earlier_job_is_waited_for(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("stale", "coscheduling").await?;
    // The finalizer stands for whatever keeps the collection of garbage busy.
    let earlier = "00000000-0000-0000-0000-00000000dead";
    rig.create(&json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {
            "name": "job", "namespace": "stale", "finalizers": ["test.portcullis.dev/keep"],
            "labels": {"app.kubernetes.io/managed-by": "portcullis", "portcullis.dev/job-uid": earlier},
            "ownerReferences": [{
                "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "job", "uid": earlier,
                "controller": true,
            }],
        },
        "spec": {"minMember": 9},
    }))
    .await?;
    let group = format!("{GROUP}/job");
    let old = rig.get("stale", &group, "{.metadata.uid}").await?;
    rig.create(&mpi("stale", "job", 2, "1")).await?;
    rig.others_go_on("stale").await?;
    rig.must_be_held("stale", "mpijob/job").await?;
    let still = rig
        .get("stale", &group, "{.metadata.uid} {.spec.minMember}")
        .await?;
    ensure!(still == format!("{old} 9"), "{still}");
    rig.merge("stale", &group, &json!({"metadata": {"finalizers": null}}))
        .await?;
    if rig
        .get("stale", &group, "{.metadata.uid}")
        .await
        .is_ok_and(|uid| uid == old)
    {
        rig.kubectl(&["delete", &group, "-n=stale", "--ignore-not-found"])
            .await?;
    }
    rig.await_running("stale", "job", 3).await?;
    let new = rig
        .get("stale", &group, "{.metadata.uid} {.spec.minMember}")
        .await?;
    ensure!(!new.contains(&old) && new.ends_with(" 3"), "{new}");
    Ok(())
}

async fn a_job_made_anew_has_a_group_of_its_own(rig: Arc<Rig>) -> Result<()> {
    for (namespace, back_end, groups) in [
        ("anew", "coscheduling", GROUP),
        ("nanew", "native", "podgroups.scheduling.k8s.io"),
    ] {
        rig.ganged(namespace, back_end).await?;
        for _ in 0..3 {
            rig.create(&mpi(namespace, "job", 2, "1")).await?;
            let uid = rig.get(namespace, "mpijob/job", "{.metadata.uid}").await?;
            // Only then pods that run are its own: those of the job before may not have been collected yet.
            wait_for("a group of its own", SOON, async || {
                let path = "-o=jsonpath={.items[*].metadata.ownerReferences[0].uid}";
                let owners = rig.kubectl(&["get", groups, "-n", namespace, path]).await?;
                let is_its_own = owners.contains(&uid).then_some(Some(()));
                is_its_own.with_context(|| format!("{owners}, not {uid}"))
            })
            .await?;
            rig.await_running(namespace, "job", 3).await?;
            rig.kubectl(&["delete", "mpijob/job", "-n", namespace, "--wait=true"])
                .await?;
        }
    }
    Ok(())
}

async fn of_two_jobs_of_one_name_the_second_waits(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("same", "coscheduling").await?;
    rig.create(&mpi("same", "job", 1, "1")).await?;
    rig.await_running("same", "job", 2).await?;
    let group = format!("{GROUP}/job");
    let before = rig.get("same", &group, "{.metadata.resourceVersion}").await?;
    rig.create(&pytorch("same", "job", 2, "1")).await?;
    rig.await_event("same", "job", "PodGroupConflict").await?;
    rig.must_be_held("same", "pytorchjob/job").await?;
    let after = rig.get("same", &group, "{.metadata.resourceVersion}").await?;
    ensure!(before == after, "{before} {after}");
    rig.delete("same", "mpijob/job").await?;
    rig.await_running("same", "job", 3).await?;
    rig.await_value(
        "same",
        &group,
        "{.spec.minMember} {.metadata.ownerReferences[0].kind}",
        "3 PyTorchJob",
    )
    .await
}

async fn a_job_that_adopts_a_group_waits_for_it(rig: Arc<Rig>) -> Result<()> {
    let adopt = json!({"metadata": {"annotations": {"portcullis.dev/adopt-podgroup": "theirs"}}});
    let coscheduling = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "theirs"}, "spec": {"minMember": 3},
    });
    let native = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "theirs"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    });
    for (namespace, back_end, group) in [
        ("adopt", "coscheduling", coscheduling),
        ("nadopt", "native", native),
    ] {
        rig.ganged(namespace, back_end).await?;
        rig.create(&with(mpi(namespace, "job", 2, "1"), &adopt)).await?;
        let said = rig.await_event(namespace, "job", "WaitingForPodGroup").await?;
        ensure!(said.contains("theirs, which does not exist"), "{said}");
        rig.others_go_on(namespace).await?;
        rig.must_be_held(namespace, "mpijob/job").await?;
        let status = rig.status(namespace).await?;
        ensure!(
            status.contains("Held") && status.contains("WaitingForPodGroup"),
            "{status}"
        );
        let mut group = group;
        group["metadata"]["namespace"] = namespace.into();
        rig.create(&group).await?;
        rig.await_running(namespace, "job", 3).await?;
        let status = rig.status(namespace).await?;
        ensure!(
            status.contains("Running")
                && !status.contains("WaitingForPodGroup")
                && !status.contains("opted in"),
            "{status}"
        );
    }
    Ok(())
}

/// `kubectl edit` of a field that follows the job, one that the job sets and one that it does not.
async fn whoever_edits_a_group_by_hand_is_named(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("edit", "coscheduling").await?;
    for (name, spec) in [
        ("one", json!({"minMember": 2})),
        ("two", json!({"scheduleTimeoutSeconds": 5})),
    ] {
        rig.create(&mpi("edit", name, 2, "1")).await?;
        rig.await_running("edit", name, 3).await?;
        edit_as_jane(&rig, name, &json!({"spec": spec})).await?;
        let said = rig.await_event("edit", name, "OperatorManagesPodGroup").await?;
        let field = spec.as_object().and_then(|spec| spec.keys().next());
        let field = field.expect("one field");
        ensure!(
            said.contains(&format!("spec.{field} of its PodGroup belongs to jane")),
            "{said}"
        );
        let status = rig.status("edit").await?;
        ensure!(
            status.contains("StoodDown") && status.contains("jane"),
            "{status}"
        );
    }
    // Undone, nothing is said any more; and what runs is listed though no gangs are asked for any more.
    let undone = json!({"metadata": {"annotations": {"portcullis.dev/stand-down": null}}});
    edit_as_jane(&rig, "one", &json!({"spec": {"minMember": 3}})).await?;
    rig.merge("edit", "mpijob/one", &undone).await?;
    let status = rig.status("edit").await?;
    ensure!(says(&status, "one", &["Running", "-"]), "{status}");
    rig.kubectl(&["label", "namespace", "edit", "portcullis.dev/gang-"])
        .await?;
    for args in [&["-n", "edit"][..], &[]] {
        let status = super::rig::status(&rig.world, args).await?;
        let left = ["Running", "its"];
        ensure!(says(&status, "one", &left), "{status}");
    }
    Ok(())
}

/// Whether the line of this MPIJob has this state and first word of why.
fn says(status: &str, job: &str, end: &[&str]) -> bool {
    let mut lines = status
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.any(|words| words.get(1..3) == Some(&["MPIJob", job]) && words.get(5..7) == Some(end))
}

/// Its scheduler counts them by the name of the group, so some of the new pods would start with them.
async fn a_job_made_anew_waits_for_the_pods_of_the_old_one(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("oldpods", "coscheduling").await?;
    let slow = json!({"metadata": {"annotations": {"kwok.test/terminate-after": "20s"}}});
    let slow = json!({"spec": {"template": slow}});
    rig.create(&with(batch("oldpods", "job", 2, "1"), &slow)).await?;
    let pods = "batch.kubernetes.io/job-name=job";
    rig.await_selected("oldpods", pods, 2).await?;
    rig.delete("oldpods", "job/job").await?;
    rig.await_gone("oldpods", "job/job").await?;
    rig.create(&batch("oldpods", "job", 3, "1")).await?;
    // Maybe the old group was still going first.
    wait_for("the old pods to be told", SOON, async || {
        let said = rig.await_event("oldpods", "job", "WaitingForOldGroup").await?;
        let is_told = said.contains("would count for PodGroup job");
        is_told.then_some(Some(())).context(said)
    })
    .await?;
    let left = rig
        .of_pods("oldpods", pods, "{.metadata.deletionTimestamp}")
        .await?;
    ensure!(left.len() == 2 && !left.contains(&String::new()), "{left:?}");
    let hold = r"{.spec.suspend} {.metadata.annotations.portcullis\.dev/held}";
    let held = rig.get("oldpods", "job/job", hold).await?;
    ensure!(held == "true true", "{held}");
    let status = rig.status("oldpods").await?;
    ensure!(status.contains("WaitingForOldGroup"), "{status}");
    rig.await_selected("oldpods", pods, 3).await
}

/// Somebody edits the PodGroup of a job.
async fn edit_as_jane(rig: &Rig, job: &str, patch: &Value) -> Result<()> {
    let (group, patch) = (format!("{GROUP}/{job}"), patch.to_string());
    let args = [
        "patch",
        &group,
        "-n=edit",
        "--type=merge",
        "--field-manager=jane",
        "-p",
        &patch,
    ];
    rig.kubectl(&args).await.map(drop)
}
