//! DispatchPolicy: where the pods of the namespaces that name it may run, and how they are treated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which worker clusters take the pods of a namespace, and in which order.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portcullis.dev",
    version = "v1alpha1",
    kind = "DispatchPolicy",
    plural = "dispatchpolicies",
    shortname = "dp",
    category = "portcullis",
    status = "DispatchPolicyStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct DispatchPolicySpec {
    /// Names of WorkerClusters, tried in this order.
    pub clusters: Vec<String>,
    /// How candidates are ordered.
    #[serde(default)]
    pub strategy: Strategy,
    /// Whether the pods of one workload share a cluster.
    #[serde(default)]
    pub colocate: Colocate,
    /// A remote pod that was never scheduled for so long is taken back and the next cluster tried, such as `5m`;
    /// absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable_after: Option<String>,
    /// Namespaces on workers.
    #[serde(default)]
    pub namespaces: Namespaces,
    /// True: podIP and hostIP of the remote pod are shown on the local one.
    #[serde(default, rename = "mirrorPodIPs")]
    pub mirror_pod_ips: bool,
    /// A finished remote pod is removed after so long, such as `1h`; absent: with its local pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_finished: Option<String>,
}

/// How the clusters of a policy are ordered for a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// In the order of the policy's list.
    #[default]
    Ordered,
}

/// Whether the pods of one workload share a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Colocate {
    /// The first commit of a workload fixes the cluster for its other pods.
    #[default]
    Owner,
    /// Each pod is placed by itself.
    None,
}

/// How namespaces on workers come to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Namespaces {
    /// True: create a missing namespace on the worker (needs the cluster-wide worker role).
    #[serde(default)]
    pub create: bool,
}

/// Whether the policy can be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DispatchPolicyStatus {
    /// `Ready`: at least one cluster is usable.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Each cluster of the spec, and why it cannot be used.
    #[serde(default)]
    pub clusters: Vec<ClusterUse>,
}

/// One cluster of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterUse {
    /// Name of the WorkerCluster.
    pub name: String,
    /// Whether new pods may be placed there now.
    pub usable: bool,
    /// Why not, in CamelCase; `Usable` if it is.
    pub reason: String,
}
