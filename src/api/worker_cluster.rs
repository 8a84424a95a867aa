//! WorkerCluster: a cluster that runs pods for us, reached by a kubeconfig in a Secret.

#![allow(unreachable_pub, reason = "KubeSchema repeats each struct inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster that runs pods for this one.
///
/// While pods are committed to it, it carries the finalizer `portcullis.dev/work-remains`: deleting it waits for them.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "portcullis.dev",
    version = "v1alpha1",
    kind = "WorkerCluster",
    plural = "workerclusters",
    shortname = "wc",
    category = "portcullis",
    status = "WorkerClusterStatus",
    doc = "A cluster that runs pods for this one, reached by a kubeconfig in a Secret.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name is written into labels and annotations: at most 63 characters"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Cordoned", type_ = "boolean", json_path = ".spec.cordoned"),
    printcolumn(name = "Committed", type_ = "integer", json_path = ".status.pods.committed"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.pods.running"),
    printcolumn(name = "Jobs", type_ = "integer", json_path = ".status.jobs.committed"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#)
)]
#[serde(rename_all = "camelCase")]
pub struct WorkerClusterSpec {
    /// The Secret, in the namespace of portcullis, that holds the kubeconfig.
    pub kubeconfig_secret_ref: SecretKeyRef,
    /// True: no new placements here; running work stays.
    #[serde(default)]
    pub cordoned: bool,
    /// Its gang scheduler: whole jobs with a `schedulingPolicy` have a PodGroup there before their first pod. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<WorkerGang>,
}

/// The gang scheduler of a worker cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerGang {
    /// Whose PodGroups are made there.
    pub scheduler: GangScheduler,
    /// `spec.schedulerName` of the pods of a gang there. Default: that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub scheduler_name: Option<String>,
}

/// A gang scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GangScheduler {
    /// The plugin Coscheduling of scheduler-plugins.
    Coscheduling,
    /// Volcano.
    Volcano,
    /// Kubernetes itself, from 1.36 on. Only Jobs of batch/v1.
    Native,
    /// None: jobs run without a PodGroup.
    None,
}

/// One key of a Secret in the namespace of portcullis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Key in its data.
    #[serde(default = "kubeconfig_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

fn kubeconfig_key() -> String {
    "kubeconfig".to_owned()
}

/// What portcullis sees of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerClusterStatus {
    /// `Ready` (the summary), `Connected`, `CredentialsValid`, `Permitted`.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
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
    /// Whole jobs that are committed to it, and those of them that run.
    #[serde(default)]
    pub jobs: JobCounts,
    /// Namespaces on it that portcullis created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub created_namespaces: Vec<String>,
}

/// Whole jobs of a worker cluster, counted from the manager's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobCounts {
    /// Local jobs that are committed to the cluster and not finished.
    pub committed: i64,
    /// Those of which some pod is there or was.
    pub running: i64,
}

/// Pods of a worker cluster, counted from the manager's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodCounts {
    /// Local pods that are committed to the cluster and not finished.
    pub committed: i64,
    /// Those whose phase is Running.
    pub running: i64,
}
