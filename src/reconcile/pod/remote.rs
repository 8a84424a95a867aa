//! A pod of a worker's API -> what the protocol needs to know of it.

use std::sync::Arc;

use serde::Deserialize;

use super::local::{Phase, PodKey, Unreadable};
use super::text::{Meta, PodText, number, phase};
use crate::names;

/// A pod of ours on a worker (it carries our origin label), as seen.
#[derive(Clone, Debug)]
pub struct RemotePod {
    /// Where it is.
    pub key: PodKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion as seen.
    pub resource_version: Arc<str>,
    /// Value of its origin label; whoever changes it takes the pod out of our watch.
    pub origin: Arc<str>,
    /// UID of its local pod; empty if the annotation is missing: then it is not ours.
    pub local_uid: Arc<str>,
    /// The local pod's attempt at prepare.
    pub attempt: u64,
    /// Place of the gate `uncommitted`; none: opened.
    pub gate: Option<usize>,
    /// Hash of what it was made from.
    pub source: String,
    /// Deletion was asked for.
    pub terminating: bool,
    /// status.phase.
    pub phase: Phase,
    /// spec.nodeName.
    pub node: Option<Arc<str>>,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// The whole object as JSON.
    pub json: Arc<str>,
}

impl RemotePod {
    /// Reads a pod of a worker.
    ///
    /// # Errors
    /// If it is no pod: no name, no UID, or a field of another type.
    pub fn parse(json: Arc<str>) -> Result<Self, Unreadable> {
        let PodText {
            metadata,
            spec,
            status,
        } = serde_json::from_str(&json)?;
        let text = |key: &str| metadata.annotations.get(key).cloned().unwrap_or_default();
        Ok(Self {
            origin: metadata
                .labels
                .get(names::ORIGIN)
                .cloned()
                .unwrap_or_default()
                .into(),
            local_uid: text(names::LOCAL_UID).into(),
            attempt: number(&metadata.annotations, names::LOCAL_ATTEMPT),
            source: text(names::SOURCE),
            key: PodKey {
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            gate: spec
                .scheduling_gates
                .iter()
                .position(|gate| gate.name == names::UNCOMMITTED),
            terminating: metadata.deletion_timestamp.is_some(),
            phase: phase(&status.phase),
            node: spec.node_name.filter(|name| !name.is_empty()).map(Into::into),
            ready: status
                .conditions
                .iter()
                .any(|condition| condition.kind == "Ready" && condition.status == "True"),
            json,
        })
    }

    /// Whether the pod carries the origin label of this manager and names a local pod.
    pub fn is_ours(json: &str, origin: &str) -> bool {
        #[derive(Deserialize)]
        struct Labelled {
            metadata: Meta,
        }
        serde_json::from_str::<Labelled>(json).is_ok_and(|Labelled { metadata }| {
            metadata
                .labels
                .get(names::ORIGIN)
                .is_some_and(|found| found == origin)
                && metadata
                    .annotations
                    .get(names::LOCAL_UID)
                    .is_some_and(|uid| !uid.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_ours_by_its_origin_and_the_local_pod_that_it_names() {
        let pod = |origin: &str, annotations: serde_json::Value| {
            json!({"metadata": {
                "name": "p", "namespace": "n", "uid": "u1", "resourceVersion": "7",
                "labels": {names::ORIGIN: origin}, "annotations": annotations,
            }})
            .to_string()
        };
        let named = json!({names::LOCAL_UID: "L1"});
        assert!(RemotePod::is_ours(&pod("here", named.clone()), "here"));
        assert!(!RemotePod::is_ours(&pod("elsewhere", named), "here"));
        assert!(!RemotePod::is_ours(&pod("here", json!({})), "here"));
        assert!(
            !RemotePod::is_ours(&pod("here", json!({names::LOCAL_UID: ""})), "here"),
            "it names nobody"
        );
    }
}
