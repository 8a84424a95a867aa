//! The spec of a copy: the local pod's, field by field.

use serde_json::{Map, Value, json};

use super::change::Log;
use super::{LocalPod, label_keys, submitted, token};
use crate::names;

/// What happens to a field of the spec on its way to the worker, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Keep(&'static str),
    Drop(&'static str),
    /// One of the functions called in [`copy`] looks into it.
    Rewrite(&'static str),
}

use Action::{Drop, Keep, Rewrite};

/// Every field of PodSpec in Kubernetes 1.37 (a test compares). A field that is not here is kept (R32).
const FIELDS: &[(&str, Action)] = &[
    (
        "activeDeadlineSeconds",
        Keep("counts from the start on the worker"),
    ),
    ("affinity", Rewrite("the worker merges matchLabelKeys itself")),
    ("automountServiceAccountToken", Keep("the user's value")),
    ("containers", Rewrite("the worker mounts its own token")),
    ("dnsConfig", Keep("the user's value")),
    ("dnsPolicy", Keep("the user's value")),
    (
        "enableServiceLinks",
        Keep("the environment shows the worker's Services"),
    ),
    ("ephemeralContainers", Drop("no pod can be created with them")),
    ("evictionResponders", Keep("the user's value")),
    ("hostAliases", Keep("the user's value")),
    ("hostIPC", Keep("the worker's pod security decides")),
    ("hostNetwork", Keep("the worker's pod security decides")),
    ("hostPID", Keep("the worker's pod security decides")),
    ("hostUsers", Keep("the user's value")),
    ("hostname", Keep("the user's value")),
    ("hostnameOverride", Keep("the user's value")),
    (
        "imagePullSecrets",
        Keep("names may be missing on the worker: the kubelet goes on without"),
    ),
    ("initContainers", Rewrite("the worker mounts its own token")),
    ("nodeName", Drop("names a node of the manager")),
    ("nodeSelector", Rewrite("without what the manager's Kueue added")),
    ("os", Keep("the user's value")),
    ("overhead", Drop("the worker's RuntimeClass writes its own")),
    (
        "preemptionPolicy",
        Drop("follows from the worker's PriorityClass"),
    ),
    ("priority", Drop("follows from the worker's PriorityClass")),
    ("priorityClassName", Keep("the class must exist on the worker")),
    (
        "readinessGates",
        Keep("a controller on the worker sets their conditions"),
    ),
    (
        "resourceClaims",
        Keep("claims and templates must exist on the worker"),
    ),
    ("resources", Keep("the user's value")),
    ("restartPolicy", Keep("the user's value")),
    ("runtimeClassName", Keep("the class must exist on the worker")),
    ("schedulerName", Keep("the scheduler must run on the worker")),
    ("schedulingGates", Rewrite("the copy has exactly one, ours")),
    ("schedulingGroup", Drop("names a group of the manager")),
    ("securityContext", Keep("the user's value")),
    ("serviceAccount", Keep("the account must exist on the worker")),
    ("serviceAccountName", Keep("the account must exist on the worker")),
    ("setHostnameAsFQDN", Keep("the user's value")),
    ("shareProcessNamespace", Keep("the user's value")),
    ("subdomain", Keep("the headless Service must exist on the worker")),
    ("terminationGracePeriodSeconds", Keep("the user's value")),
    ("tolerations", Rewrite("without what the manager's Kueue added")),
    (
        "topologySpreadConstraints",
        Rewrite("the worker merges matchLabelKeys itself"),
    ),
    ("volumes", Rewrite("the worker mounts its own token")),
];

/// The lists of containers in a spec. Ephemeral ones are not copied.
pub(super) const CONTAINER_LISTS: [&str; 2] = ["initContainers", "containers"];

/// The local spec, sanitised.
pub(super) fn copy(local: &LocalPod<'_>, log: &mut Log) -> Map<String, Value> {
    let mut spec = Map::new();
    for (field, value) in local.spec {
        match action(field) {
            Some(Drop(reason)) => log.dropped(format_args!("spec.{field}"), reason),
            Some(Keep(_) | Rewrite(_)) | None => _ = spec.insert(field.clone(), value.clone()),
        }
    }
    submitted::subtract(&mut spec, local.annotation(names::SUBMITTED), log);
    label_keys::unmerge(&mut spec, local.metadata.get("labels"), log);
    token::drop_mounted(&mut spec, log);
    gate(&mut spec, log);
    spec
}

fn action(field: &str) -> Option<Action> {
    FIELDS
        .binary_search_by(|(name, _)| (*name).cmp(field))
        .ok()
        .map(|found| FIELDS[found].1)
}

/// Exactly one gate, `uncommitted`. Nobody on the worker would lift a copied one (R16).
fn gate(spec: &mut Map<String, Value>, log: &mut Log) {
    let ours = json!([{"name": names::UNCOMMITTED}]);
    if let Some(theirs) = spec.insert("schedulingGates".to_owned(), ours) {
        for gate in theirs.as_array().into_iter().flatten() {
            let name = gate["name"].as_str().unwrap_or_default();
            log.dropped(
                format_args!("spec.schedulingGates[{name}]"),
                "nobody on the worker would lift it",
            );
        }
    }
    let reason = "holds the copy until the local pod has recorded it";
    log.added(
        format_args!("spec.schedulingGates[{}]", names::UNCOMMITTED),
        reason,
    );
}
