//! Gangs of Kubernetes itself.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::jobs::{batch, mpi, pytorch, with};
use crate::rig::{Case, Rig, SOON};
use crate::steps::{of, suspend};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_that_fits_starts_as_a_whole),
        case!(with_a_node_missing_no_pod_is_bound_and_the_job_says_why),
        case!(a_resumed_job_has_a_group_again),
        case!(pods_and_group_have_the_class_of_the_policy),
        case!(a_group_that_goes_is_not_used_again),
        case!(a_pod_that_is_replaced_after_others_ended_still_starts),
        case!(a_native_group_follows_the_size_of_its_job),
        case!(after_a_restart_a_suspended_job_loses_its_group),
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
    rig.empty_nodes().await?;
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

const GROUP: &str = "podgroups.scheduling.k8s.io";
const OF_GROUP: &str = "{.spec.schedulingGroup.podGroupName}";

async fn pods_and_group_have_the_class_of_the_policy(rig: Arc<Rig>) -> Result<()> {
    rig.kubectl(&["delete", "priorityclass", "gang-high", "--ignore-not-found"])
        .await?;
    rig.create(&json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "gang-high"}, "value": 1000,
    }))
    .await?;
    rig.ganged("nprio", "native").await?;
    let class = json!({"spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "gang-high"}}}});
    let job = with(mpi("nprio", "job", 2, "1"), &class);
    rig.would_be_held(&job).await?;
    rig.create(&job).await?;
    rig.await_running("nprio", "job", 3).await?;
    let pods = rig
        .of_pods("nprio", &of("job"), "{.spec.priorityClassName} {.spec.priority}")
        .await?;
    ensure!(pods == ["gang-high 1000"; 3], "{pods:?}");
    let path = "{.items[*].spec.priorityClassName} {.items[*].spec.priority}";
    let group = rig
        .kubectl(&["get", GROUP, "-n=nprio", &format!("-o=jsonpath={path}")])
        .await?;
    ensure!(group == "gang-high 1000", "{group}");
    Ok(())
}

/// It is still honoured while it goes, and its name is taken.
async fn a_group_that_goes_is_not_used_again(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("ngoes", "native").await?;
    rig.create(&mpi("ngoes", "job", 2, "1")).await?;
    rig.await_running("ngoes", "job", 3).await?;
    let name = |groups: &[String]| groups.first().cloned().unwrap_or_default();
    let first = name(&rig.of_pods("ngoes", &of("job"), OF_GROUP).await?);
    let group = format!("{GROUP}/{first}");
    let keep = json!({"metadata": {"finalizers": ["test.portcullis.dev/keep"]}});
    rig.merge("ngoes", &group, &keep).await?;
    rig.merge("ngoes", "mpijob/job", &suspend(true)).await?;
    rig.await_value("ngoes", &group, "{.metadata.deletionGracePeriodSeconds}", "0")
        .await?;
    // The templates name the next group before their user starts them.
    let label = r"{.spec.mpiReplicaSpecs.Worker.template.metadata.labels.portcullis\.dev/pod-group}";
    let next = rig.get("ngoes", "mpijob/job", label).await?;
    rig.merge("ngoes", "mpijob/job", &suspend(false)).await?;
    rig.await_running("ngoes", "job", 3).await?;
    let second = name(&rig.of_pods("ngoes", &of("job"), OF_GROUP).await?);
    ensure!(
        !second.is_empty() && second != first,
        "{first} {second}, announced {next}"
    );
    ensure!(
        rig.exists("ngoes", &group).await?,
        "the old one was to stay a while"
    );
    rig.merge("ngoes", &group, &json!({"metadata": {"finalizers": null}}))
        .await?;
    rig.await_gone("ngoes", &group).await?;
    rig.await_running("ngoes", "job", 3).await
}

/// Pods that succeeded do not count for the scheduler (kubernetes/kubernetes#142330).
async fn a_pod_that_is_replaced_after_others_ended_still_starts(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nrepl", "native").await?;
    rig.create(&batch("nrepl", "job", 3, "1")).await?;
    let pods = "batch.kubernetes.io/job-name=job";
    rig.await_selected("nrepl", pods, 3).await?;
    let index = |index: u32| format!("{pods},batch.kubernetes.io/job-completion-index={index}");
    rig.end_pods("nrepl", &index(0)).await?;
    rig.await_value("nrepl", "job/job", "{.status.succeeded}", "1")
        .await?;
    let failing = [
        "annotate",
        "pods",
        "-n=nrepl",
        "-l",
        &index(1),
        "kwok.test/end=fail",
    ];
    rig.kubectl(&failing).await?;
    rig.await_value("nrepl", "job/job", "{.status.failed}", "1")
        .await?;
    rig.await_value("nrepl", "job/job", "{.status.active} {.status.ready}", "2 2")
        .await
}

async fn a_native_group_follows_the_size_of_its_job(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nsize", "native").await?;
    rig.create(&pytorch("nsize", "job", 2, "1")).await?;
    rig.await_running("nsize", "job", 3).await?;
    let groups = rig.of_pods("nsize", &of("job"), OF_GROUP).await?;
    let group = format!("{GROUP}/{}", groups.first().cloned().unwrap_or_default());
    let size = "{.spec.schedulingPolicy.gang.minCount}";
    let of_template = "{.spec.podGroupTemplates[0].schedulingPolicy.gang.minCount}";
    let workers = |count: u32| json!({"pytorchReplicaSpecs": {"Worker": {"replicas": count}}});
    let minimum = |least: u32| json!({"runPolicy": {"schedulingPolicy": {"minAvailable": least}}});
    for (change, pods, expect) in [(workers(3), 4, "4"), (minimum(2), 4, "2"), (workers(4), 5, "2")] {
        rig.merge("nsize", "pytorchjob/job", &json!({"spec": change}))
            .await?;
        rig.await_value("nsize", &group, size, expect).await?;
        rig.await_value("nsize", "workloads.scheduling.k8s.io/job", of_template, expect)
            .await?;
        rig.await_running("nsize", "job", pods).await?;
    }
    Ok(())
}

/// A list of what is built in names neither version nor kind of its items.
async fn after_a_restart_a_suspended_job_loses_its_group(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("nback", "native").await?;
    rig.create(&batch("nback", "job", 3, "1")).await?;
    rig.await_selected("nback", "batch.kubernetes.io/job-name=job", 3)
        .await?;
    {
        let mut portcullis = rig.portcullis.lock().await;
        portcullis.kill9();
        portcullis.start().await?;
    }
    rig.merge("nback", "job/job", &json!({"spec": {"suspend": true}}))
        .await?;
    for kind in [GROUP, "workloads.scheduling.k8s.io"] {
        wait_for(&format!("{kind} to go"), SOON, async || {
            let left = rig.kubectl(&["get", kind, "-n=nback", "-o=name"]).await?;
            left.is_empty().then_some(Some(())).context(left)
        })
        .await?;
    }
    let said = rig.kubectl(&[
        "get",
        "events",
        "-n=nback",
        "-o=name",
        "--field-selector=reason=PodGroupRefused",
    ]);
    let said = said.await?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}
