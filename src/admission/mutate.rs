//! What admission puts on pods when they are created, and what it refuses to read past; [`template`] has the templates,
//! [`job`] the jobs that are dispatched whole.

use serde_json::value::RawValue;

use crate::admission::decide::{Decision, Denial, Edit, Reason, Rule, Warning};
use crate::admission::facts::{AllowExempt, Facts};
use crate::admission::validate;
use crate::names;
use crate::pod::edit::Edits;
use crate::pod::read::{Metadata, PodView};
use crate::workload::PodPath;

pub mod job;
pub mod template;

/// Users whose mirror pods are shown as they are: kubelets.
pub const NODES: &str = "system:node:";
/// Who creates the pods of DaemonSets; the second if the controller manager runs all controllers as itself.
pub const DAEMON_SET_CONTROLLERS: [&str; 2] = [
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:kube-controller-manager",
];
/// The annotation by which a kubelet shows a static pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the labels by which Kueue takes a pod.
pub const KUEUE: &str = "kueue.x-k8s.io/";
/// What the API server allows all annotations of an object together to weigh, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// A pod that is being created gets gate and label, and if Kueue will edit it, a snapshot of what it asked for.
///
/// # Errors
/// If the pod carries what only we write.
pub fn gate(pod: &PodView<'_>, user: &str, facts: &Facts) -> Result<Decision, Denial> {
    if let Some(reason) = exempt_by_identity(pod, user) {
        return Ok(Decision::Leave(reason, Vec::new()));
    }
    reserved_keys(pod.metadata.as_ref(), None, "metadata", validate::KEYS)?;
    gated_value(pod, None, PodPath::ITSELF)?;
    if pod.node_name().is_some() {
        return Ok(Decision::Leave(Reason::NodeName, Vec::new()));
    }
    let (exempt, mut warnings) = exempt(pod.metadata.as_ref(), facts, PodPath::ITSELF);
    // A pod with both gate and exempt counts as gated.
    if exempt && pod.gate_index(names::GATE).is_none() && pod.label(names::GATED).is_none() {
        return Ok(Decision::Leave(Reason::Exempt, warnings));
    }
    let mut edits = Edits::of(pod, PodPath::ITSELF);
    edits.set_label(names::GATED, names::TRUE);
    edits.add_gate(names::GATE);
    if is_kueues(pod) && pod.annotation(names::SUBMITTED).is_none() {
        match snapshot(pod) {
            Some(submitted) => edits.set_annotation(names::SUBMITTED, &submitted),
            None => warnings.push(Warning::new(
                "metadata.annotations: no room for the snapshot of nodeSelector and tolerations; Kueue's edits stay",
            )),
        }
    }
    Ok(edited(Reason::Gated, Reason::Complete, &edits, warnings))
}

/// Pods that belong to this cluster's nodes, known by who creates them and never by what they say of themselves alone.
fn exempt_by_identity(pod: &PodView<'_>, user: &str) -> Option<Reason> {
    let owner_kind = || pod.metadata.as_ref()?.controller()?.kind.as_deref();
    if DAEMON_SET_CONTROLLERS.contains(&user) && owner_kind() == Some("DaemonSet") {
        Some(Reason::DaemonSetPod)
    } else if user.starts_with(NODES) && pod.annotation(MIRROR).is_some() {
        Some(Reason::MirrorPod)
    } else {
        None
    }
}

/// Whether the exempt label stands there and counts; a warning if it stands there in vain.
fn exempt(metadata: Option<&Metadata<'_>>, facts: &Facts, at: PodPath) -> (bool, Vec<Warning>) {
    let labels = || at.field("metadata.labels");
    let label = metadata.and_then(|metadata| metadata.labels.as_ref()?.get(names::EXEMPT));
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let sentence = match (label, &facts.allow_exempt) {
        (Some(names::TRUE), AllowExempt::Yes) => return (true, Vec::new()),
        (Some(names::TRUE), AllowExempt::No) => format!(
            "{}: this namespace does not allow {}; it runs on a worker",
            labels(),
            names::EXEMPT
        ),
        (Some(names::TRUE), AllowExempt::Meaningless(found)) => {
            meaningless("namespace metadata.labels", names::ALLOW_EXEMPT, found)
        }
        (Some(names::FALSE), _) => return (false, Vec::new()),
        (Some(found), _) => meaningless(&labels(), names::EXEMPT, found),
        (None, _) if annotations.and_then(|all| all.get(names::EXEMPT)).is_none() => {
            return (false, Vec::new());
        }
        (None, _) => format!(
            "{}: {} counts as a label only; it runs on a worker",
            at.field("metadata.annotations"),
            names::EXEMPT
        ),
    };
    (false, vec![Warning::new(&sentence)])
}

/// The sentence for a value that is not one of those that mean something; as much of it as leaves room for the rest.
fn meaningless(labels: &str, key: &str, found: &str) -> String {
    const SHOWN: usize = 16;
    let mut found: String = found.to_owned();
    if let Some((end, _)) = found.char_indices().nth(SHOWN) {
        found.truncate(end);
        found.push('…');
    }
    format!("{labels}[{key}]: found {found:?}, allowed is \"true\"; it runs on a worker")
}

fn edited(edited: Reason, complete: Reason, edits: &Edits<'_>, warnings: Vec<Warning>) -> Decision {
    if edits.is_empty() {
        return Decision::Leave(complete, warnings);
    }
    let edit = Edit {
        patch: edits.patch(),
        touched: edits.touched(),
        at: Some(edits.at()),
    };
    Decision::Edit(edited, edit, warnings)
}

/// Refuses keys that only the reconciler writes, unless the stored object has them already.
fn reserved_keys(
    metadata: Option<&Metadata<'_>>,
    old: Option<&Metadata<'_>>,
    path: &str,
    sentence: &str,
) -> Result<(), Denial> {
    let keys = |metadata: &Metadata<'_>| -> Vec<&'static str> {
        let has = |key: &str| {
            metadata
                .annotations
                .as_ref()
                .is_some_and(|map| map.get(key).is_some())
        };
        let held = |key: &str| {
            metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| **finalizer == *key)
        };
        let mut keys: Vec<_> = names::RECONCILER_KEYS
            .into_iter()
            .filter(|key| has(key))
            .collect();
        keys.extend(Some(names::REMOTE_COPY).filter(|key| held(key)));
        keys
    };
    let stored = old.map(keys).unwrap_or_default();
    let mut found = metadata.map(keys).unwrap_or_default();
    found.retain(|key| !stored.contains(key));
    if found.is_empty() {
        return Ok(());
    }
    Err(Denial {
        rule: Rule::ReservedKey,
        sentence: format!("{path}: {}", sentence.replace("{}", &found.join(", "))),
    })
}

/// Refuses a value of our label that we would never write, unless it is the stored one.
fn gated_value(pod: &PodView<'_>, old: Option<&PodView<'_>>, at: PodPath) -> Result<(), Denial> {
    let stored = old.and_then(|old| old.label(names::GATED));
    match pod.label(names::GATED) {
        None | Some(names::TRUE) => Ok(()),
        value if value == stored => Ok(()),
        Some(value) => Err(Denial {
            rule: Rule::GatedValue,
            sentence: format!(
                "{}: {} is {value:?}, and can only be \"true\"; leave it out, Portcullis sets it",
                at.field("metadata.labels"),
                names::GATED
            ),
        }),
    }
}

fn is_kueues(pod: &PodView<'_>) -> bool {
    pod.labels()
        .is_some_and(|labels| labels.iter().any(|(key, _)| key.starts_with(KUEUE)))
}

/// nodeSelector and tolerations as submitted, or nothing if the annotation would not fit.
fn snapshot(pod: &PodView<'_>) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let node_selector = spec.node_selector.map_or("{}", RawValue::get);
    let tolerations = spec.tolerations.map_or("[]", RawValue::get);
    let present = pod
        .annotations()
        .into_iter()
        .flat_map(|map| map.iter())
        .map(|(key, value)| key.len() + value.len());
    let submitted = format!(r#"{{"nodeSelector":{node_selector},"tolerations":{tolerations}}}"#);
    let weight = present.sum::<usize>() + names::SUBMITTED.len() + submitted.len();
    Some(submitted).filter(|_| weight <= ANNOTATIONS_LIMIT)
}
