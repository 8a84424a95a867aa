//! Every kind of the training operator: its group, and the marks on its pods.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::jobs::template;
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(every_kind_of_the_training_operator_is_a_gang_of_coscheduling),
        case!(every_kind_of_the_training_operator_is_a_native_gang),
    ]
}

/// Kind, map of replicas, name of the container, roles, pods.
const KINDS: [(&str, &str, &str, &[&str], u32); 4] = [
    (
        "TFJob",
        "tfReplicaSpecs",
        "tensorflow",
        &["Chief", "PS", "Worker"],
        5,
    ),
    (
        "XGBoostJob",
        "xgbReplicaSpecs",
        "xgboost",
        &["Master", "Worker"],
        3,
    ),
    (
        "PaddleJob",
        "paddleReplicaSpecs",
        "paddle",
        &["Master", "Worker"],
        3,
    ),
    ("JAXJob", "jaxReplicaSpecs", "jax", &["Worker"], 2),
];

fn job(namespace: &str, (kind, map, container, roles, _): (&str, &str, &str, &[&str], u32)) -> Value {
    let single = ["Chief", "Master"];
    let replicas = |role: &str| if single.contains(&role) { 1 } else { 2 };
    let roles: serde_json::Map<String, Value> = roles
        .iter()
        .map(|role| {
            let spec = json!({"replicas": replicas(role), "template": template(container, "1")});
            ((*role).to_owned(), spec)
        })
        .collect();
    let pods: u32 = roles.keys().map(|role| replicas(role)).sum();
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": kind,
        "metadata": {"name": kind.to_ascii_lowercase(), "namespace": namespace},
        "spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": pods}}, map: roles},
    })
}

async fn every_kind_of_the_training_operator_is_a_gang_of_coscheduling(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("kco", "coscheduling").await?;
    for row in KINDS {
        rig.create(&job("kco", row)).await?;
    }
    for (kind, _, _, _, pods) in KINDS {
        let name = kind.to_ascii_lowercase();
        rig.await_running("kco", &name, pods as usize).await?;
        let group = format!("podgroups.scheduling.x-k8s.io/{name}");
        let size = "{.spec.minMember} {.spec.minResources.cpu}";
        rig.await_value("kco", &group, size, &format!("{pods} {pods}"))
            .await?;
        let path = r"{.metadata.labels.scheduling\.x-k8s\.io/pod-group} {.spec.schedulerName}";
        let said = rig.of_pods("kco", &crate::steps::of(&name), path).await?;
        ensure!(
            said.iter().all(|said| *said == format!("{name} coscheduling")),
            "{said:?}"
        );
    }
    Ok(())
}

async fn every_kind_of_the_training_operator_is_a_native_gang(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("kna", "native").await?;
    for row in KINDS {
        rig.create(&job("kna", row)).await?;
    }
    for (kind, _, _, _, pods) in KINDS {
        let name = kind.to_ascii_lowercase();
        rig.await_running("kna", &name, pods as usize).await?;
        let said = rig
            .of_pods(
                "kna",
                &crate::steps::of(&name),
                "{.spec.schedulingGroup.podGroupName}",
            )
            .await?;
        ensure!(
            said.iter().all(|group| !group.is_empty() && *group == said[0]),
            "{said:?}"
        );
        let group = format!("podgroups.scheduling.k8s.io/{}", said[0]);
        rig.await_value(
            "kna",
            &group,
            "{.spec.schedulingPolicy.gang.minCount}",
            &pods.to_string(),
        )
        .await?;
    }
    Ok(())
}
