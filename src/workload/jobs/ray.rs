//! What the kinds of KubeRay share.

use super::{Dispatch, ManagedBy, Written};

/// Who runs them.
pub(super) const OPERATOR: ManagedBy = ManagedBy {
    path: &["spec", "managedBy"],
    local: "ray.io/kuberay-operator",
};

/// All pods of a RayCluster carry its name.
pub(super) const CLUSTER_LABEL: &str = "ray.io/cluster";

/// How they are dispatched. The schema takes Kueue's value and the local one, and no change. The TTL of a RayJob removes
/// its RayCluster and not the job, so it travels with the copy.
pub(super) const DISPATCH: Dispatch = Dispatch {
    written: Written::Kueues,
    takes_condition: true,
    ttl: None,
};
