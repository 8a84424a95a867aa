//! Our API group, `portcullis.dev/v1alpha1`: cluster-scoped WorkerCluster and DispatchPolicy.

mod dispatch_policy;
mod worker_cluster;

pub use dispatch_policy::{
    ClusterUse, Colocate, DispatchPolicy, DispatchPolicySpec, DispatchPolicyStatus, Forward, Namespaces,
    Strategy,
};
pub use worker_cluster::{
    GangScheduler, JobCounts, PodCounts, SecretKeyRef, WorkerCluster, WorkerClusterSpec, WorkerClusterStatus,
    WorkerGang,
};
