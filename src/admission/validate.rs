//! An object, its namespace's labels and who sends it -> refused by the guard, or not; and the guard's sentences.
//!
//! The API server keeps the guard by the policies of [`super::policies`]; this is the same, at CREATE, for
//! `portcullis preview admission`. Both say the same sentences: they stand here and nowhere else.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::{ALLOW_EXEMPT, DISPATCH, EXEMPT, GATE, GATED, RECONCILER_KEYS, REMOTE_COPY, TRUE};
use crate::workload::jobs::JobKinds;
use crate::workload::{Treatment, by_kind};

mod jobs;

pub(crate) use jobs::{
    DISPATCHED_BY_CHANGED, JOB_EXEMPT_CHANGED, JOB_FINALIZER_CHANGED, JOB_KEYS, JOB_KEYS_CHANGED,
    JOB_SPEC_CHANGED, MANAGED_BY_CHANGED,
};

/// A pod that names its node.
pub(crate) const NODE_NAME: &str = "pods of this namespace run on worker clusters; remove spec.nodeName";
/// A pod without the gate, or with the gate and without the label.
pub(crate) const UNGATED: &str = "pods of this namespace run on worker clusters: they need the scheduling gate \
    portcullis.dev/multikueue and the label portcullis.dev/gated=true, which admission adds; if something took them \
    away again, correct that, or set both, or label the pod portcullis.dev/exempt=true where the namespace allows it";
/// A DaemonSet.
pub(crate) const DAEMON_SET: &str = "a DaemonSet puts its pods on the nodes of this cluster, but pods of this \
    namespace run on worker clusters; create it in another namespace, or label it portcullis.dev/exempt=true where \
    the namespace allows it";
/// Keys that only the reconciler writes, in a pod; `{}` are the keys.
pub(crate) const KEYS: &str = "only portcullis itself writes {}: remove it from metadata, for a dispatched pod is \
    not created again from its own manifest";
/// Keys that only the reconciler writes, in a workload or its pod template; `{}` are the keys.
pub(crate) const TEMPLATE_KEYS: &str = "only portcullis itself writes {}: remove it from \
    metadata and from spec.template.metadata";

/// The gate of a pod that exists.
pub(crate) const GATE_CHANGED: &str = "the scheduling gate portcullis.dev/multikueue of a pod is never changed after \
    its creation, since the pod runs on a worker cluster; to run it on this cluster, delete it and create it with the \
    label portcullis.dev/exempt=true where the namespace allows it";
/// The labels of a pod that exists.
pub(crate) const LABEL_CHANGED: &str = "the labels portcullis.dev/gated and portcullis.dev/exempt of a pod are never \
    changed after its creation; delete the pod and create it as it should be";
/// Keys that only the reconciler writes, changed on a pod; `{}` are the keys.
pub(crate) const KEYS_CHANGED: &str = "only portcullis itself changes {}: leave it as it is; to end the remote copy, \
    delete this pod";
/// The finalizer of a pod that is not being deleted.
pub(crate) const FINALIZER_CHANGED: &str = "only portcullis itself adds or removes the finalizer \
    portcullis.dev/remote-copy of a pod that is not being deleted; delete the pod, then anyone may remove it";
/// The spec of a committed pod; `{}` is the cluster.
pub(crate) const SPEC_CHANGED: &str = "this pod was handed to the worker cluster {}, so its spec can no longer be \
    changed here; delete it and create it anew, or change the template of its owner";

/// A namespace that no label of ours may be set on; `{}` is its name.
pub(crate) const PROTECTED: &str = "the namespace {} keeps its pods on this cluster: its labels portcullis.dev/dispatch, \
    portcullis.dev/gang and portcullis.dev/allow-exempt can only be removed; label another namespace";
/// The opt-in without the right; `{}` are the policies. (A messageExpression cannot ask the authorizer which of them.)
pub(crate) const MAY_NOT_DISPATCH: &str = "changing the label portcullis.dev/dispatch needs the verb use on \
    dispatchpolicies.portcullis.dev {}, the old and the new value; ask an administrator for a ClusterRole with it";
/// `allow-exempt` without the right; `{}` are the policies.
pub(crate) const MAY_NOT_EXEMPT: &str = "changing the label portcullis.dev/allow-exempt needs the verb use on \
    dispatchpolicies.portcullis.dev {}, which the namespace names; ask an administrator for a ClusterRole with it";
/// `gang` without the right.
pub(crate) const MAY_NOT_GANG: &str = "changing the label portcullis.dev/gang needs the verb use on \
    dispatchpolicies.portcullis.dev without resourceNames; ask an administrator for such a ClusterRole";

/// The user's mistake: which field, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Denial {
    /// The field, such as `spec.nodeName`.
    pub path: String,
    /// What is wrong and the way out.
    pub message: String,
}

/// The guard's answer to the creation of `object` by `user` in a namespace with these labels.
///
/// The object must be as admission leaves it, that is with our gate and labels already on it.
///
/// # Errors
/// The first refusal, in the order in which the API server gives them.
pub fn guard(
    object: &Value,
    namespace_labels: &BTreeMap<String, String>,
    user: &str,
    kinds: JobKinds,
) -> Result<(), Denial> {
    if !namespace_labels.contains_key(DISPATCH) {
        return Ok(());
    }
    let allows_exempt = namespace_labels
        .get(ALLOW_EXEMPT)
        .is_some_and(|value| value == TRUE);
    let kind = by_kind(text(object, "/apiVersion"), text(object, "/kind"));
    match kind.map(|kind| kind.treatment()) {
        Some(Treatment::GatePod) if made_for_this_cluster(object, user) => Ok(()),
        Some(Treatment::GatePod) => guard_pod(object, allows_exempt),
        Some(Treatment::Refuse) => guard_daemon_set(object, allows_exempt),
        Some(Treatment::GateTemplate) if has_controller(object) => Ok(()),
        Some(Treatment::GateTemplate) => {
            refuse_keys(object, "metadata", TEMPLATE_KEYS)?;
            refuse_keys(
                &object["spec"]["template"],
                "spec.template.metadata",
                TEMPLATE_KEYS,
            )
        }
        None if kinds.of(object).is_some() => jobs::guard_job(object),
        None => Ok(()),
    }
}

/// A pod of the node it is bound to, told by who makes it: a static pod's mirror, or a DaemonSet's.
fn made_for_this_cluster(pod: &Value, user: &str) -> bool {
    let mirror = user.starts_with("system:node:")
        && pod
            .pointer("/metadata/annotations/kubernetes.io~1config.mirror")
            .is_some();
    let by_daemon_set = matches!(
        user,
        "system:serviceaccount:kube-system:daemon-set-controller" | "system:kube-controller-manager"
    ) && owners(pod)
        .any(|owner| is_controller(owner) && text(owner, "/kind") == "DaemonSet");
    mirror || by_daemon_set
}

fn guard_pod(pod: &Value, allows_exempt: bool) -> Result<(), Denial> {
    let label = pod["metadata"]["labels"].get(GATED);
    let gated = pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE));
    let exempt = allows_exempt && !gated && label.is_none() && pod["metadata"]["labels"][EXEMPT] == TRUE;
    let bound = !text(pod, "/spec/nodeName").is_empty();
    if bound && !exempt {
        return Err(denial("spec.nodeName", NODE_NAME));
    }
    let marked = gated && label.is_some_and(|value| value == TRUE);
    if !exempt && !marked {
        return Err(denial("spec.schedulingGates", UNGATED));
    }
    refuse_keys(pod, "metadata", KEYS)
}

fn guard_daemon_set(object: &Value, allows_exempt: bool) -> Result<(), Denial> {
    let labelled = |object: &Value| object["metadata"]["labels"][EXEMPT] == TRUE;
    if allows_exempt && (labelled(object) || labelled(&object["spec"]["template"])) {
        return Ok(());
    }
    Err(denial("kind", DAEMON_SET))
}

fn refuse_keys(holder: &Value, path: &str, sentence: &str) -> Result<(), Denial> {
    let metadata = &holder["metadata"];
    let keys = RECONCILER_KEYS
        .into_iter()
        .filter(|key| metadata["annotations"].get(key).is_some());
    let finalizer = metadata["finalizers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == REMOTE_COPY));
    let found: Vec<&str> = keys.chain(finalizer.then_some(REMOTE_COPY)).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(denial(path, &sentence.replace("{}", &found.join(", "))))
}

fn has_controller(object: &Value) -> bool {
    owners(object).any(is_controller)
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

fn is_controller(owner: &Value) -> bool {
    owner["controller"] == true
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn denial(path: &str, message: &str) -> Denial {
    Denial {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "json!(…) is handed over where it is made"
)]
mod tests;
