//! The metadata of a copy: name, namespace, labels and annotations of the local pod or job, minus what is only true on the
//! manager.

use serde_json::{Map, Value};

use super::change::Log;
use super::local::{LocalObject, UnreadableLocal, object};
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

/// Keys of labels and annotations that are not copied, each group with its reason.
const DROPPED_KEYS: &[(&[Key], &str)] = &[
    (&[Prefix(names::PREFIX)], "Portcullis' own, on the manager only"),
    (
        &[Domain("kueue.x-k8s.io")],
        "the manager's Kueue accounts for it, no Kueue on the worker does",
    ),
    (
        &[Exact("kubectl.kubernetes.io/last-applied-configuration")],
        "large, and nobody applied the copy",
    ),
    (
        &[Exact("kubernetes.io/limit-ranger")],
        "tells what the manager's LimitRange did",
    ),
    (
        &[Exact("vpaUpdates"), Exact("vpaObservedContainers")],
        "tells what the manager's autoscaler did",
    ),
    (
        &[
            Exact("autoscaling.x-k8s.io/consume-provisioning-request"),
            Exact("autoscaling.x-k8s.io/provisioning-class-name"),
            Exact("cluster-autoscaler.kubernetes.io/consume-provisioning-request"),
            Exact("cluster-autoscaler.kubernetes.io/provisioning-class-name"),
        ],
        "names an object of the manager",
    ),
    (&[Prefix("kubernetes.io/config.")], "the copy is no static pod"),
    (
        &[
            Exact("cni.projectcalico.org/containerID"),
            Exact("cni.projectcalico.org/podIP"),
            Exact("cni.projectcalico.org/podIPs"),
            Exact("k8s.ovn.org/pod-networks"),
            Exact("k8s.v1.cni.cncf.io/network-status"),
            Exact("k8s.v1.cni.cncf.io/networks-status"),
        ],
        "the state of a network the copy is not on",
    ),
];

use Key::{Domain, Exact, Prefix};

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

/// Name, namespace, labels and annotations, without our marks.
pub(crate) fn copy(local: &LocalObject<'_>, log: &mut Log) -> Result<Map<String, Value>, UnreadableLocal> {
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

/// Why a label or annotation with this key is not copied; none if it is.
fn dropped(key: &str) -> Option<&'static str> {
    let covers = |(keys, _): &&(&[Key], &'static str)| keys.iter().any(|dropped| dropped.covers(key));
    DROPPED_KEYS.iter().find(covers).map(|(_, reason)| *reason)
}

/// Whether a copy carries labels and annotations with this key.
pub(crate) fn is_copied(key: &str) -> bool {
    dropped(key).is_none()
}

fn keep_keys(
    copy: &mut Map<String, Value>,
    field: &str,
    path: &'static str,
    value: &Value,
    log: &mut Log,
) -> Result<(), UnreadableLocal> {
    if value.is_null() {
        return Ok(());
    }
    let mut kept = Map::new();
    for (key, value) in object(Some(value), path)? {
        match dropped(key) {
            Some(reason) => log.dropped(format_args!("{path}[{key}]"), reason),
            None => _ = kept.insert(key.clone(), value.clone()),
        }
    }
    if !kept.is_empty() {
        copy.insert(field.to_owned(), Value::Object(kept));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::sanitize;
    use super::super::testing::{self, MARKS, check_metadata};
    use super::*;

    #[test]
    fn name_and_namespace_are_kept() {
        let copy = sanitize(
            &testing::local(json!({"generateName": "web-"}), json!({})),
            &MARKS,
        )
        .unwrap();
        assert_eq!(copy.pod["metadata"]["name"], "web-0");
        assert_eq!(copy.pod["metadata"]["namespace"], "shop");
    }

    #[test]
    fn what_the_server_writes_is_dropped() {
        let metadata = json!({
            "generateName": "web-", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-11-30T09:00:00Z",
            "deletionTimestamp": "2026-11-30T09:00:00Z", "deletionGracePeriodSeconds": 0, "managedFields": [{}],
            "selfLink": "/api", "clusterName": "m",
        });
        check_metadata(
            metadata,
            &MARKS,
            expect![[r#"
                dropped metadata.clusterName: not known to mean anything on another cluster
                dropped metadata.creationTimestamp: the worker writes its own
                dropped metadata.deletionGracePeriodSeconds: the copy is not being deleted
                dropped metadata.deletionTimestamp: the copy is not being deleted
                dropped metadata.generateName: the copy has the name that the manager made
                dropped metadata.generation: counts on the manager only
                dropped metadata.managedFields: the worker writes its own
                dropped metadata.resourceVersion: counts on the manager only
                dropped metadata.selfLink: names an address on the manager
            "#]],
        );
    }

    #[test]
    fn finalizers_are_dropped() {
        let finalizers = json!([
            "batch.kubernetes.io/job-tracking",
            "kueue.x-k8s.io/managed",
            names::REMOTE_COPY
        ]);
        check_metadata(
            json!({"finalizers": finalizers}),
            &MARKS,
            expect![[r#"
                dropped metadata.finalizers: nobody on the worker would ever remove them
            "#]],
        );
    }

    #[test]
    fn kueues_keys_are_dropped() {
        let metadata = json!({
            "labels": {
                "kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/podset": "main",
                "kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/prebuilt-workload-name": "w",
                "notkueue.x-k8s.io/mine": "kept",
            },
            "annotations": {
                "kueue.x-k8s.io/pod-group-total-count": "2", "kueue.x-k8s.io/pod-suspending-parent": "job",
                "kueue.x-k8s.io/role-hash": "h", "provreq.kueue.x-k8s.io/x": "y",
            },
        });
        check_metadata(
            metadata,
            &MARKS,
            expect![[r#"
                labels: {"notkueue.x-k8s.io/mine":"kept"}
                dropped metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.annotations[kueue.x-k8s.io/pod-suspending-parent]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.annotations[kueue.x-k8s.io/role-hash]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.annotations[provreq.kueue.x-k8s.io/x]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.labels[kueue.x-k8s.io/managed]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.labels[kueue.x-k8s.io/pod-group-name]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.labels[kueue.x-k8s.io/podset]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]: the manager's Kueue accounts for it, no Kueue on the worker does
                dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for it, no Kueue on the worker does
            "#]],
        );
    }

    #[test]
    fn annotations_that_are_only_true_on_the_manager_are_dropped() {
        let metadata = json!({"annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request",
            "cni.projectcalico.org/podIP": "10.0.0.1/32",
            "k8s.v1.cni.cncf.io/network-status": "[]",
            "k8s.v1.cni.cncf.io/networks": "[{\"name\":\"fast\"}]",
            "cluster-autoscaler.kubernetes.io/consume-provisioning-request": "pr",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "kubernetes.io/config.mirror": "x",
            "kubectl.kubernetes.io/restartedAt": "2026-11-30T09:00:00Z",
            "vpaUpdates": "x",
        }});
        check_metadata(
            metadata,
            &MARKS,
            expect![[r#"
                annotations: {"cluster-autoscaler.kubernetes.io/safe-to-evict":"false","k8s.v1.cni.cncf.io/networks":"[{\"name\":\"fast\"}]","kubectl.kubernetes.io/restartedAt":"2026-11-30T09:00:00Z"}
                dropped metadata.annotations[cluster-autoscaler.kubernetes.io/consume-provisioning-request]: names an object of the manager
                dropped metadata.annotations[cni.projectcalico.org/podIP]: the state of a network the copy is not on
                dropped metadata.annotations[k8s.v1.cni.cncf.io/network-status]: the state of a network the copy is not on
                dropped metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: large, and nobody applied the copy
                dropped metadata.annotations[kubernetes.io/config.mirror]: the copy is no static pod
                dropped metadata.annotations[kubernetes.io/limit-ranger]: tells what the manager's LimitRange did
                dropped metadata.annotations[vpaUpdates]: tells what the manager's autoscaler did
            "#]],
        );
    }

    #[test]
    fn null_labels_are_no_labels() {
        let mut pod = testing::local(json!({}), json!({}));
        pod["metadata"]["labels"] = Value::Null;
        assert_eq!(
            sanitize(&pod, &MARKS).unwrap().source,
            super::super::source(&testing::local(json!({}), json!({}))).unwrap()
        );
    }
}
