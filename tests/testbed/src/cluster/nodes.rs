//! Nodes that KWOK plays: made, and waited for.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::wait::wait_for;

use super::Cluster;
use super::bring_up::PATIENCE;

/// CPUs of a node that never is full.
pub(super) const ROOMY: &str = "32";

impl Cluster {
    /// One more node, with so many CPUs (a quantity) and more of everything else than a test uses. Waits until it
    /// takes pods. Its kubelet has no user, see [`super::ClusterOptions::users`].
    ///
    /// # Errors
    /// There is one of this name, or it did not become Ready.
    pub async fn add_node(&self, name: &str, cpu: &str) -> Result<()> {
        self.make_node(name, cpu).await?;
        self.await_node(name).await
    }

    pub(super) async fn make_node(&self, name: &str, cpu: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.admin_client().await?);
        let room = json!({"cpu": cpu, "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"});
        let node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            }},
            "status": {"allocatable": room, "capacity": room},
        }))?;
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("create node {name}"))?;
        Ok(())
    }

    pub(super) async fn await_node(&self, name: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.admin_client().await?);
        wait_for(&format!("node {name} to be Ready"), PATIENCE, async || {
            Ok::<_, kube::Error>(nodes.get_opt(name).await?.filter(takes_pods))
        })
        .await?;
        Ok(())
    }
}

/// Ready, and the taint of a new node is gone.
fn takes_pods(node: &Node) -> bool {
    let ready = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = ready
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .count();
    ready && taints == 0
}
