//! The metadata of a copy: name, namespace, labels and annotations of the local pod, minus what is only true on the
//! manager, plus our marks.

use serde_json::{Map, Value};

use super::change::Log;
use super::{CopyMarks, LocalPod, NamespaceOwner, UnreadablePod, object};
use crate::names;

/// Fields of ObjectMeta that are not copied, each with its reason. Every other field but the four copied ones is
/// dropped too: whoever invents one has not told us what it means on another cluster.
const DROPPED: &[(&str, &str)] = &[
    ("generateName", "the copy has the name that the manager made"),
    ("uid", "the worker gives the copy its own"),
    ("resourceVersion", "counts on the manager only"),
    ("generation", "counts on the manager only"),
    ("creationTimestamp", "the worker writes its own"),
    ("deletionTimestamp", "the copy is not being deleted"),
    ("deletionGracePeriodSeconds", "the copy is not being deleted"),
    ("managedFields", "the worker writes its own"),
    ("selfLink", "names an address on the manager"),
    (
        "ownerReferences",
        "the owner does not exist on the worker, whose garbage collector would delete the copy",
    ),
    ("finalizers", "nobody on the worker would ever remove them"),
];

/// Keys of labels and annotations that are not copied.
const DROPPED_KEYS: &[(Key, &str)] = &[
    (
        Key::Prefix(names::PREFIX),
        "Portcullis' own, on the local pod only",
    ),
    (
        Key::Domain("kueue.x-k8s.io"),
        "the manager's Kueue accounts for this pod, no Kueue on the worker does",
    ),
    (
        Key::Exact("kubectl.kubernetes.io/last-applied-configuration"),
        "large, and nobody applied the copy",
    ),
    (
        Key::Exact("kubernetes.io/limit-ranger"),
        "tells what the manager's LimitRange did",
    ),
    (
        Key::Exact("autoscaling.x-k8s.io/consume-provisioning-request"),
        "names an object of the manager",
    ),
    (
        Key::Exact("autoscaling.x-k8s.io/provisioning-class-name"),
        "names an object of the manager",
    ),
    (
        Key::Exact("cluster-autoscaler.kubernetes.io/consume-provisioning-request"),
        "names an object of the manager",
    ),
    (
        Key::Exact("cluster-autoscaler.kubernetes.io/provisioning-class-name"),
        "names an object of the manager",
    ),
    (
        Key::Exact("vpaUpdates"),
        "tells what the manager's autoscaler did",
    ),
    (
        Key::Exact("vpaObservedContainers"),
        "tells what the manager's autoscaler did",
    ),
    (
        Key::Exact("kubernetes.io/config.mirror"),
        "the copy is no static pod",
    ),
    (
        Key::Exact("kubernetes.io/config.hash"),
        "the copy is no static pod",
    ),
    (
        Key::Exact("kubernetes.io/config.seen"),
        "the copy is no static pod",
    ),
    (
        Key::Exact("kubernetes.io/config.source"),
        "the copy is no static pod",
    ),
    (
        Key::Exact("k8s.v1.cni.cncf.io/network-status"),
        "the state of a network the copy is not on",
    ),
    (
        Key::Exact("k8s.v1.cni.cncf.io/networks-status"),
        "the state of a network the copy is not on",
    ),
    (
        Key::Exact("k8s.ovn.org/pod-networks"),
        "the state of a network the copy is not on",
    ),
    (
        Key::Exact("cni.projectcalico.org/containerID"),
        "the state of a network the copy is not on",
    ),
    (
        Key::Exact("cni.projectcalico.org/podIP"),
        "the state of a network the copy is not on",
    ),
    (
        Key::Exact("cni.projectcalico.org/podIPs"),
        "the state of a network the copy is not on",
    ),
];

enum Key {
    Exact(&'static str),
    Prefix(&'static str),
    /// This DNS domain and all below it, as the part before the slash.
    Domain(&'static str),
}

impl Key {
    fn covers(&self, key: &str) -> bool {
        match self {
            Self::Exact(exact) => key == *exact,
            Self::Prefix(prefix) => key.starts_with(prefix),
            Self::Domain(domain) => key.split_once('/').is_some_and(|(prefix, _)| {
                prefix
                    .strip_suffix(domain)
                    .is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
            }),
        }
    }
}

/// Labels by which a controller selects its pods. They stay only where the copy has a controller, so that nobody else
/// can adopt it (R65). Index labels (`apps.kubernetes.io/pod-index`, `batch.kubernetes.io/job-completion-index`,
/// `statefulset.kubernetes.io/pod-name`) and job names select nothing by themselves and are read by the containers
/// and by Services: they always stay.
const ADOPTABLE_LABELS: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
];

/// Name, namespace, labels and annotations, without our marks.
pub(super) fn copy(local: &LocalPod<'_>, log: &mut Log) -> Result<Map<String, Value>, UnreadablePod> {
    let mut copy = Map::new();
    for (field, value) in local.metadata {
        match field.as_str() {
            "name" | "namespace" => _ = copy.insert(field.clone(), value.clone()),
            "labels" => keep_keys(&mut copy, "labels", "metadata.labels", value, log)?,
            "annotations" => keep_keys(&mut copy, "annotations", "metadata.annotations", value, log)?,
            other => log.dropped(format_args!("metadata.{other}"), reason_to_drop(other)),
        }
    }
    Ok(copy)
}

fn reason_to_drop(field: &str) -> &'static str {
    let known = DROPPED.iter().find(|(name, _)| *name == field);
    known.map_or("not known to mean anything on another cluster", |(_, reason)| {
        reason
    })
}

fn keep_keys(
    copy: &mut Map<String, Value>,
    field: &str,
    path: &'static str,
    value: &Value,
    log: &mut Log,
) -> Result<(), UnreadablePod> {
    if value.is_null() {
        return Ok(());
    }
    let mut kept = Map::new();
    for (key, value) in object(Some(value), path)? {
        match DROPPED_KEYS.iter().find(|(dropped, _)| dropped.covers(key)) {
            Some((_, reason)) => log.dropped(format_args!("{path}[{key}]"), reason),
            None => _ = kept.insert(key.clone(), value.clone()),
        }
    }
    if !kept.is_empty() {
        copy.insert(field.to_owned(), Value::Object(kept));
    }
    Ok(())
}

/// Writes our marks and the owner; without an owner it takes off the labels by which others would adopt the copy.
pub(super) fn mark(
    pod: &mut Value,
    local: &LocalPod<'_>,
    marks: &CopyMarks<'_>,
    source: &str,
    log: &mut Log,
) -> Result<(), UnreadablePod> {
    let attempt = local.attempt()?.to_string();
    let name = format!("{}/{}", local.namespace, local.name);
    let labels = &mut pod["metadata"]["labels"];
    if marks.owner.is_none() {
        drop_adoptable(labels, log);
    }
    labels[names::ORIGIN] = marks.origin.into();
    log.added(
        format_args!("metadata.labels[{}]", names::ORIGIN),
        "names the manager",
    );

    let annotations = &mut pod["metadata"]["annotations"];
    for (key, value, reason) in [
        (names::LOCAL_UID, local.uid, "names the local pod"),
        (names::LOCAL_NAME, name.as_str(), "names the local pod"),
        (
            names::LOCAL_ATTEMPT,
            attempt.as_str(),
            "counts the placements of the local pod",
        ),
        (
            names::SOURCE,
            source,
            "tells whether the copy still fits the local pod",
        ),
    ] {
        annotations[key] = value.into();
        log.added(format_args!("metadata.annotations[{key}]"), reason);
    }
    if let Some(NamespaceOwner { name, uid }) = marks.owner {
        super::set_owner(pod, &NamespaceOwner { name, uid });
        log.added(
            format_args!("metadata.ownerReferences"),
            "the namespace is its controller, so that no controller on the worker adopts the copy",
        );
    }
    Ok(())
}

fn drop_adoptable(labels: &mut Value, log: &mut Log) {
    let Some(labels) = labels.as_object_mut() else {
        return;
    };
    for label in ADOPTABLE_LABELS {
        if labels.remove(label).is_some() {
            let reason = "a controller on the worker that selects by it would adopt the copy";
            log.dropped(format_args!("metadata.labels[{label}]"), reason);
        }
    }
}
