//! WorkerCluster: a cluster that runs pods for us, reached by a kubeconfig in a Secret.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster that runs pods for this one.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portcullis.dev",
    version = "v1alpha1",
    kind = "WorkerCluster",
    plural = "workerclusters",
    shortname = "wc",
    category = "portcullis",
    status = "WorkerClusterStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct WorkerClusterSpec {
    /// The Secret, in the namespace of portcullis, that holds the kubeconfig.
    pub kubeconfig_secret_ref: SecretKeyRef,
    /// True: no new placements here; running work stays.
    #[serde(default)]
    pub cordoned: bool,
}

/// One key of a Secret in the namespace of portcullis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    pub name: String,
    /// Key in its data.
    #[serde(default = "kubeconfig_key")]
    pub key: String,
}

fn kubeconfig_key() -> String {
    "kubeconfig".to_owned()
}

/// What portcullis sees of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerClusterStatus {
    /// `Ready` (the summary), `Connected`, `CredentialsValid`, `Permitted`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The API server's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// UID of its kube-system namespace: its identity.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Pods that are committed to it, and those of them that run.
    #[serde(default)]
    pub pods: PodCounts,
    /// Namespaces on it that portcullis created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created_namespaces: Vec<String>,
}

/// Pods of a worker cluster, counted from the manager's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodCounts {
    /// Local pods that are committed to the cluster and not finished.
    pub committed: i64,
    /// Those whose phase is Running.
    pub running: i64,
}
