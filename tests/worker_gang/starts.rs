//! How a gang starts on a worker, and how it ends.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{At, Case, GROUP, Rig, US};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_mpi_job_has_its_group_before_its_first_pod_and_both_end_together),
        case!(with_a_node_missing_no_pod_is_bound),
        case!(the_group_follows_the_job_and_goes_when_its_user_suspends_it),
        case!(a_launcher_that_was_to_wait_is_told_to_start_early),
    ]
}

/// An MPIJob with a launcher and so many workers, each with so much CPU, and a schedulingPolicy.
pub fn mpi(name: &str, workers: u32, cpu: &str) -> Value {
    let template = json!({"spec": {"containers": [
        {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}},
    ]}});
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "schedulingPolicy": {}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template},
                "Worker": {"replicas": workers, "template": template},
            },
        },
    })
}

pub fn of(job: &str) -> String {
    format!("training.kubeflow.org/job-name={job}")
}

async fn an_mpi_job_has_its_group_before_its_first_pod_and_both_end_together(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("whole", "a").await?;
    rig.create("whole", &mpi("train", 4, "1")).await?;
    rig.await_running("whole", &of("train"), 5).await?;
    let (group, copy) = (format!("{GROUP}/train"), "mpijob/train");
    let found = rig
        .get(
            At::A,
            "whole",
            &group,
            "{.spec.minMember} {.spec.minResources.cpu} {.metadata.ownerReferences[0].uid}",
        )
        .await?;
    let uid = rig.get(At::A, "whole", copy, "{.metadata.uid}").await?;
    ensure!(found == format!("5 5 {uid}"), "{found}");
    let scheduler = "{.spec.mpiReplicaSpecs.Worker.template.spec.schedulerName}";
    ensure!(rig.get(At::A, "whole", copy, scheduler).await? == "coscheduling");
    ensure!(
        rig.get(At::Manager, "whole", copy, scheduler).await?.is_empty(),
        "the manager's object has no marks"
    );
    let label = r"{.spec.mpiReplicaSpecs.Worker.template.metadata.labels}";
    ensure!(rig.get(At::Manager, "whole", copy, label).await?.is_empty());
    let said = rig.await_event("whole", "train", "PodGroupCreated").await?;
    ensure!(said == "worker-a: made PodGroup train", "{said}");
    let groups = rig.made(At::A, "whole", "podgroups")?;
    let pods = rig.made(At::A, "whole", "pods")?;
    let (first_group, first_pod) = (groups.first().context("a group")?, pods.first().context("a pod")?);
    ensure!(
        first_group.0 < first_pod.0,
        "{first_group:?} came after {first_pod:?}"
    );
    rig.no_pod_here("whole")?;
    let ledger = rig.cluster(At::A).ledger()?;
    let writes = ledger
        .writes_by(US)
        .into_iter()
        .filter(|write| write.namespace == "whole");
    let writes: Vec<String> = writes
        .map(|write| format!("{} {}", write.verb, write.resource))
        .collect();
    ensure!(
        writes[..] == ["create mpijobs", "patch podgroups", "patch mpijobs"],
        "{writes:?}"
    );

    let end = [
        "annotate",
        "pods",
        "-n",
        "whole",
        "-l",
        &of("train"),
        "kwok.test/end=complete",
    ];
    rig.kubectl(At::A, &end).await?;
    let succeeded = "{.status.conditions[?(@.type=='Succeeded')].status}";
    rig.await_value(At::Manager, "whole", copy, succeeded, "True")
        .await?;
    rig.await_value(At::A, "whole", &group, "{.metadata.name}", "")
        .await?;
    rig.kubectl(At::Manager, &["delete", "-n", "whole", copy]).await?;
    rig.await_value(At::A, "whole", copy, "{.metadata.name}", "")
        .await
}

async fn with_a_node_missing_no_pod_is_bound(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("node", "a").await?;
    let a = rig.cluster(At::A);
    let missing = a.nodes().pop().context("a node")?;
    rig.empty(At::A).await?;
    rig.kubectl(At::A, &["cordon", &missing]).await?;
    rig.create("node", &mpi("large", 4, "10")).await?;
    rig.create("node", &mpi("small", 1, "1")).await?;
    rig.await_running("node", &of("small"), 2).await?;
    let large = rig.pods(At::A, "node", &of("large")).await?;
    ensure!(
        large.len() == 5 && large.iter().all(|(_, node)| node.is_empty()),
        "{large:?}"
    );
    rig.kubectl(At::A, &["uncordon", &missing]).await?;
    rig.await_running("node", &of("large"), 5).await
}

async fn the_group_follows_the_job_and_goes_when_its_user_suspends_it(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("follows", "a").await?;
    rig.create("follows", &mpi("train", 2, "1")).await?;
    rig.await_running("follows", &of("train"), 3).await?;
    let group = format!("{GROUP}/train");
    let suspend = async |value: bool| {
        let patch = json!({"spec": {"runPolicy": {"suspend": value}}}).to_string();
        let args = [
            "patch",
            "-n",
            "follows",
            "mpijob/train",
            "--type=merge",
            "-p",
            &patch,
        ];
        rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
    };
    suspend(true).await?;
    rig.await_value(At::A, "follows", &group, "{.metadata.name}", "")
        .await?;
    ensure!(rig.pods(At::A, "follows", &of("train")).await?.is_empty());
    suspend(false).await?;
    rig.await_running("follows", &of("train"), 3).await?;
    rig.await_value(At::A, "follows", &group, "{.spec.minMember}", "3")
        .await?;
    let delete = ["delete", "-n", "follows", "mpijob/train", "--wait=false"];
    rig.kubectl(At::Manager, &delete).await?;
    rig.await_value(At::A, "follows", &group, "{.metadata.name}", "")
        .await?;
    rig.no_pod_here("follows")
}

async fn a_launcher_that_was_to_wait_is_told_to_start_early(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("early", "a").await?;
    let mut job = mpi("train", 2, "1");
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady".into();
    rig.create("early", &job).await?;
    rig.await_event("early", "train", "LauncherStartsEarly").await?;
    rig.await_running("early", &of("train"), 3).await?;
    let group = format!("{GROUP}/train");
    rig.await_value(At::A, "early", &group, "{.spec.minMember}", "2")
        .await
}
