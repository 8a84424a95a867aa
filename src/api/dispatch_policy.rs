//! DispatchPolicy: where the pods of the namespaces that name it may run, and how they are treated.

#![allow(unreachable_pub, reason = "KubeSchema repeats each struct inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which worker clusters take the pods of a namespace, and in which order.
///
/// A namespace opts in by the label `portcullis.dev/dispatch: <name of the policy>`; setting it needs the verb
/// `use` on the policy. The name is a label value, so it has at most 63 characters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "portcullis.dev",
    version = "v1alpha1",
    kind = "DispatchPolicy",
    plural = "dispatchpolicies",
    shortname = "dp",
    category = "portcullis",
    status = "DispatchPolicyStatus",
    doc = "Which worker clusters take the pods of the namespaces that name this policy by the label portcullis.dev/dispatch.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name is the value of the label portcullis.dev/dispatch: at most 63 characters"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Clusters", type_ = "string", json_path = ".spec.clusters"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#)
)]
#[serde(rename_all = "camelCase")]
pub struct DispatchPolicySpec {
    /// Names of WorkerClusters, tried in this order.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63)))]
    #[x_kube(
        validation = Rule::new("self.all(one, self.exists_one(other, other == one))")
            .message("each cluster may be named once"),
        merge_strategy = ListMerge::Atomic
    )]
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
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(
            "self.matches('^([0-9]{1,6}(h|m|s|ms))+$') && duration(self) >= duration('1s')"
        )
        .message("write a number and a unit of h, m, s or ms, at least 1s in all, such as 5m or 1h30m")
    )]
    pub unschedulable_after: Option<String>,
    /// Namespaces on workers.
    #[serde(default)]
    pub namespaces: Namespaces,
    /// True: podIP and hostIP of the remote pod are shown on the local one.
    #[serde(default, rename = "mirrorPodIPs")]
    pub mirror_pod_ips: bool,
    /// A finished remote pod is removed after so long, such as `1h`; absent: with its local pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(
            "self.matches('^([0-9]{1,6}(h|m|s|ms))+$') && duration(self) >= duration('0s')"
        )
        .message("write a number and a unit of h, m, s or ms, such as 1h or 0s")
    )]
    pub keep_finished: Option<String>,
    /// What of a dispatched job's metadata follows later changes to its copy, beside the fields that always do; absent:
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
}

/// Keys of metadata that are on the copy of a job what they are on the job, also when they change later: keys, or beginnings
/// of keys such as `example.com/*`. A listed key that the job lacks is removed from the copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct Forward {
    /// Keys of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    #[x_kube(
        validation = Rule::new(FORWARDED).message(FORWARDED_SAYS),
        merge_strategy = ListMerge::Atomic
    )]
    pub labels: Vec<String>,
    /// Keys of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    #[x_kube(
        validation = Rule::new(FORWARDED).message(FORWARDED_SAYS),
        merge_strategy = ListMerge::Atomic
    )]
    pub annotations: Vec<String>,
}

/// Keys as Kubernetes takes them, or a domain with the beginning of a name; none that a copy never carries.
const FORWARDED: &str = r"self.all(key, key.matches('^(([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9][-A-Za-z0-9_.]*)?[*])$') && !key.matches('^(portcullis[.]dev|([-a-z0-9.]+[.])?kueue[.]x-k8s[.]io)/'))";
const FORWARDED_SAYS: &str = "write keys such as team or example.com/team, or a domain and the beginning of a name such as example.com/* or example.com/team-*; those of portcullis.dev and kueue.x-k8s.io are never forwarded";

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct DispatchPolicyStatus {
    /// `Ready`: at least one cluster is usable.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
    /// Each cluster of the spec, and why it cannot be used.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
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
