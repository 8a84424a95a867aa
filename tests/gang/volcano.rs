//! Volcano's objects. Its scheduler is not here, so pods wait; and its API comes while we run.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::{Crds, case};
use serde_json::{Value, json};

use crate::jobs::{mpi, with};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![case!(volcano_is_missed_and_used_once_it_is_there)]
}

const GROUP: &str = "podgroups.scheduling.volcano.sh";

/// The definitions stay on the cluster, so this is one test: before and after.
async fn volcano_is_missed_and_used_once_it_is_there(rig: Arc<Rig>) -> Result<()> {
    let labels = [("portcullis.dev/gang", "volcano")];
    rig.namespace("vol", &labels).await?;
    rig.create(&mpi("vol", "early", 1, "1")).await?;
    let said = rig.await_event("vol", "early", "GangSchedulerNotServed").await?;
    ensure!(said.contains("volcano"), "{said}");
    rig.await_running("vol", "early", 2).await?; // not held, or until the timeout
    let log = std::fs::read_to_string(rig.portcullis.lock().await.log())?;
    let errors: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("volcano") && (line.contains("ERROR") || line.contains("\"error\"")))
        .collect();
    ensure!(errors.is_empty(), "{errors:#?}");

    rig.cluster().install_crds(Crds::Volcano).await?;
    rig.kubectl(&["delete", "priorityclass", "gang-urgent", "--ignore-not-found"])
        .await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "gang-urgent"}, "value": 1000,
    });
    rig.create(&class).await?;
    let job = with(
        mpi("vol", "job", 2, "1"),
        &json!({"spec": {"runPolicy": {"schedulingPolicy": {"queue": "research", "priorityClass": "gang-urgent"}}}}),
    );
    rig.would_be_held(&job).await?;
    rig.create(&job).await?;
    rig.await_pods("vol", "job", 3).await?;
    let group: Value = serde_json::from_str(
        &rig.kubectl(&["get", &format!("{GROUP}/job"), "-n=vol", "-o=json"])
            .await?,
    )?;
    let spec = &group["spec"];
    let expected = json!({
        "minMember": 3, "queue": "research", "priorityClassName": "gang-urgent",
        "minResources": {"cpu": "3", "requests.cpu": "3", "pods": "3", "count/pods": "3"},
    });
    ensure!(*spec == expected, "{spec}");
    let path = r"{.metadata.annotations.scheduling\.k8s\.io/group-name} {.metadata.annotations.volcano\.sh/task-spec} {.spec.schedulerName} {.spec.priorityClassName}";
    let mut pods = rig.of_pods("vol", &crate::steps::of("job"), path).await?;
    pods.sort();
    let expected = ["launcher", "worker", "worker"].map(|role| format!("job {role} volcano gang-urgent"));
    ensure!(pods == expected, "{pods:?}");
    rig.must_be_unbound("vol", "job").await?;
    let nameless = json!({"spec": {"runPolicy": {"schedulingPolicy": {"queue": ""}}}});
    rig.create(&with(mpi("vol", "nameless", 1, "1"), &nameless))
        .await?;
    rig.await_event("vol", "nameless", "EmptyQueue").await?;
    rig.await_pods("vol", "nameless", 2).await
}
