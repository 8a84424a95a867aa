//! Gangs of the Coscheduling plugin.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::json;

use crate::jobs::{mpi, pytorch, with};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_that_fits_starts_as_a_whole),
        case!(with_a_node_missing_no_pod_is_bound_and_a_small_job_runs),
        case!(the_same_with_a_pytorch_job),
        case!(a_job_made_while_portcullis_is_down_is_held_and_starts_as_a_gang),
        case!(a_job_that_comes_with_its_namespace_is_a_gang),
        case!(a_job_with_a_class_that_does_not_exist_runs_without_it),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";

async fn a_job_that_fits_starts_as_a_whole(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("fits", "coscheduling").await?;
    rig.create(&mpi("fits", "whole", 4, "1")).await?;
    rig.await_running("fits", "whole", 5).await?;
    let group = rig
        .get(
            "fits",
            &format!("{GROUP}/whole"),
            "{.spec.minMember} {.spec.minResources.cpu}",
        )
        .await?;
    ensure!(group == "5 5", "{group}");
    let held = rig
        .get(
            "fits",
            "mpijob/whole",
            r"{.metadata.annotations.portcullis\.dev/held}{.spec.runPolicy.suspend}",
        )
        .await?;
    ensure!(held == "false", "{held}");
    rig.await_event("fits", "whole", "PodGroupCreated").await?;
    rig.await_event("fits", "whole", "Released").await?;
    Ok(())
}

async fn with_a_node_missing_no_pod_is_bound_and_a_small_job_runs(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("node", "coscheduling").await?;
    rig.empty_nodes().await?;
    let missing = rig.cluster().nodes().pop().expect("a node");
    rig.kubectl(&["cordon", &missing]).await?;
    rig.create(&mpi("node", "large", 4, "10")).await?;
    rig.await_pods("node", "large", 5).await?;
    rig.create(&mpi("node", "small", 1, "1")).await?;
    rig.await_running("node", "small", 2).await?;
    rig.must_be_unbound("node", "large").await?;
    rig.kubectl(&["uncordon", &missing]).await?;
    rig.await_running("node", "large", 5).await
}

async fn the_same_with_a_pytorch_job(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("torch", "coscheduling").await?;
    rig.empty_nodes().await?;
    let missing = rig.cluster().nodes().pop().expect("a node");
    rig.kubectl(&["cordon", &missing]).await?;
    rig.create(&pytorch("torch", "large", 4, "10")).await?;
    rig.await_pods("torch", "large", 5).await?;
    rig.create(&pytorch("torch", "small", 1, "1")).await?;
    rig.await_running("torch", "small", 2).await?;
    rig.must_be_unbound("torch", "large").await?;
    rig.kubectl(&["uncordon", &missing]).await?;
    rig.await_running("torch", "large", 5).await
}

async fn a_job_made_while_portcullis_is_down_is_held_and_starts_as_a_gang(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("down", "coscheduling").await?;
    rig.portcullis.lock().await.kill9();
    rig.create(&mpi("down", "meanwhile", 2, "1")).await?;
    rig.await_value(
        "down",
        "mpijob/meanwhile",
        "{.status.conditions[?(@.type=='Suspended')].status}",
        "True",
    )
    .await?;
    ensure!(
        rig.pods("down", "meanwhile").await?.is_empty(),
        "pods before the PodGroup"
    );
    rig.portcullis.lock().await.start().await?;
    rig.await_running("down", "meanwhile", 3).await?;
    let schedulers = rig
        .kubectl(&[
            "get",
            "pods",
            "-n=down",
            "-l=training.kubeflow.org/job-name=meanwhile",
            "-o=jsonpath={.items[*].spec.schedulerName}",
        ])
        .await?;
    ensure!(
        schedulers == "coscheduling coscheduling coscheduling",
        "{schedulers}"
    );
    let labels = rig
        .kubectl(&[
            "get",
            "pods",
            "-n=down",
            "-l=scheduling.x-k8s.io/pod-group=meanwhile",
            "-o=name",
        ])
        .await?;
    ensure!(labels.lines().count() == 3, "{labels}");
    Ok(())
}

/// Our watch of namespaces may be behind that of jobs then.
async fn a_job_that_comes_with_its_namespace_is_a_gang(rig: Arc<Rig>) -> Result<()> {
    for round in 0..6 {
        let back_end = ["coscheduling", "native"][round % 2];
        let name = format!("with{round}");
        let labels = json!({"gang.test": "true", "portcullis.dev/gang": back_end});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let items = json!([namespace, mpi(&name, "a", 1, "1"), mpi(&name, "b", 1, "1")]);
        rig.create(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
            .await?;
        for job in ["a", "b"] {
            rig.await_running(&name, job, 2).await?;
            let path =
                r"{.metadata.labels.scheduling\.x-k8s\.io/pod-group}{.spec.schedulingGroup.podGroupName}";
            let groups = rig.of_pods(&name, &crate::steps::of(job), path).await?;
            ensure!(
                groups.iter().all(|group| group.starts_with(job)),
                "{back_end}: {groups:?}"
            );
        }
    }
    Ok(())
}

async fn a_job_with_a_class_that_does_not_exist_runs_without_it(rig: Arc<Rig>) -> Result<()> {
    let class = json!({"spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "typo"}}}});
    for (namespace, back_end) in [("typo", "coscheduling"), ("ntypo", "native")] {
        rig.ganged(namespace, back_end).await?;
        rig.create(&with(mpi(namespace, "job", 2, "1"), &class)).await?;
        let said = rig.await_event(namespace, "job", "UnknownPriorityClass").await?;
        ensure!(said.contains("pods do not get it"), "{said}");
        rig.await_running(namespace, "job", 3).await?;
    }
    Ok(())
}
