//! A remote pod's status -> the merge patch that makes the local pod tell the truth.
//!
//! Every function gives the body of a merge patch for the local pod's `status` subresource, with the UID and the
//! resourceVersion of the local pod as preconditions, and `None` when there is nothing to write (R49). A local pod
//! that has ended is final (R05): only while it is being deleted are container states still written, because
//! kube-controller-manager writes phase Failed on a terminating pod without a node long before the remote one ends.

mod conditions;
mod containers;
mod ending;
mod finished;
mod patch;
mod waiting;

use serde_json::Value;

use crate::names;
use patch::StatusPatch;

pub use ending::{failed, worker_lost};
pub use finished::finished_at;
pub use waiting::waiting_reason;

/// How much of the remote pod is shown, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorOptions {
    /// Whether the worker's addresses of pod and node are shown. A mirrored address without a node makes the manager's
    /// EndpointSlice controller fail in a loop, so the default is not to (R28).
    pub pod_ips: bool,
    /// The WorkerCluster that the remote pod is on. A local pod committed to another one gets nothing from it.
    pub cluster: String,
}

/// Our own condition, [`names::DISPATCHED`]: where the pod is, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    pub status: bool,
    /// One word in CamelCase.
    pub reason: String,
    pub message: String,
}

/// Status fields that follow the remote pod as they are, null when they disappear there.
const MIRRORED: [&str; 3] = ["phase", "message", "reason"];

/// The status of `remote` and its node, for `local`. `now` is RFC 3339, for conditions whose status changes.
///
/// A remote pod that is not the committed one gives nothing (R12).
pub fn mirror(
    local: &Value,
    remote: &Value,
    dispatched: &Dispatched,
    options: &MirrorOptions,
    now: &str,
) -> Option<Value> {
    if is_final(local) || !are_paired(local, remote, &options.cluster) {
        return None;
    }
    let mut patch = StatusPatch::of(local);
    containers::mirror(&mut patch, local, remote);
    if let Some(node) = remote["spec"]["nodeName"].as_str() {
        patch.annotate(names::REMOTE_NODE, node);
    }
    if is_terminating(local) {
        let conditions = conditions::own(local, dispatched, now);
        patch.set("conditions", conditions);
        return patch.into_body();
    }
    let status = &remote["status"];
    if !is_step_back(local, status) {
        for field in MIRRORED {
            patch.set(field, status[field].clone());
        }
    }
    if !status["startTime"].is_null() {
        patch.set("startTime", status["startTime"].clone());
    }
    for field in ["podIP", "podIPs", "hostIP", "hostIPs"] {
        patch.set(
            field,
            if options.pod_ips {
                status[field].clone()
            } else {
                Value::Null
            },
        );
    }
    patch.set("conditions", conditions::mirror(local, remote, dispatched, now));
    patch.into_body()
}

/// Only our condition: nothing is known of a remote pod, or nothing more than before.
pub fn condition_patch(local: &Value, dispatched: &Dispatched, now: &str) -> Option<Value> {
    if is_final(local) {
        return None;
    }
    let mut patch = StatusPatch::of(local);
    patch.set("conditions", conditions::own(local, dispatched, now));
    patch.into_body()
}

/// A pod that has ended and is not being deleted: nothing is ever written to it again.
fn is_final(local: &Value) -> bool {
    has_ended(&local["status"]) && !is_terminating(local)
}

fn has_ended(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// From Running to Pending, or to nothing: an old view of a remote pod, never a fact.
fn is_step_back(local: &Value, remote_status: &Value) -> bool {
    match remote_status["phase"].as_str() {
        None => true,
        Some("Pending") => matches!(local["status"]["phase"].as_str(), Some("Running" | "Unknown")),
        Some(_) => false,
    }
}

/// Whether what the local pod says of its commit, if anything, names this remote pod on this cluster.
fn are_paired(local: &Value, remote: &Value, cluster: &str) -> bool {
    let annotation = |key: &str| local["metadata"]["annotations"][key].as_str();
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let committed = annotation(names::REMOTE_UID);
    annotation(names::CLUSTER).is_none_or(|committed| committed == cluster)
        && committed.is_none_or(|committed| committed == format!("{}/{}", uid(local), uid(remote)))
}
