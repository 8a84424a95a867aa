//! An object of a worker's API -> what the protocol needs to know of it.

use std::sync::Arc;

use serde::Deserialize;

use super::job;
use super::key::{PairKey, Subject};
use super::local::{Phase, Unreadable};
use super::text::{Meta, PodText, number, phase};
use crate::names;

/// An object of ours on a worker (it carries our origin label), as seen.
#[derive(Clone, Debug)]
pub struct RemoteObject {
    /// Where it is.
    pub key: PairKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion as seen.
    pub resource_version: Arc<str>,
    /// Value of its origin label; whoever changes it takes the object out of our watch.
    pub origin: Arc<str>,
    /// UID of its local object; empty if the annotation is missing: then it is not ours.
    pub local_uid: Arc<str>,
    /// The local object's attempt at prepare.
    pub attempt: u64,
    /// What keeps it from running until its local object has recorded it; none: opened.
    pub gate: Option<Gate>,
    /// A job that is suspended. Never a pod.
    pub suspended: bool,
    /// Hash of what it was made from.
    pub source: String,
    /// Deletion was asked for.
    pub terminating: bool,
    /// All finalizers; we put none on it.
    pub finalizers: Vec<String>,
    /// status.phase.
    pub phase: Phase,
    /// spec.nodeName.
    pub node: Option<Arc<str>>,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Of a job that runs: a hash of its status, if that does not say that all its pods are ready. Never of a pod.
    pub untold: Option<u64>,
    /// The whole object as JSON.
    pub json: Arc<str>,
}

/// What keeps a remote object from running until its local object has recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The scheduling gate `uncommitted` of a pod, at this place of the list.
    Scheduling(usize),
    /// A job carries the annotation `uncommitted`, and is suspended.
    Suspended,
    /// A job carries that annotation and is not suspended: its worker dropped the field, or somebody there resumed it. Or
    /// something there wrote `managedBy` into it, so that nobody there runs it.
    Loose,
}

impl RemoteObject {
    /// Reads an object of a worker.
    ///
    /// # Errors
    /// If it is no such object: no name, no UID, or a field of another type.
    pub fn parse(subject: Subject, json: Arc<str>) -> Result<Self, Unreadable> {
        match subject {
            Subject::Pod => Self::pod(json),
            Subject::Job(kind) => job::remote(kind, json),
        }
    }

    fn pod(json: Arc<str>) -> Result<Self, Unreadable> {
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
            key: PairKey {
                subject: Subject::Pod,
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            gate: spec
                .scheduling_gates
                .iter()
                .position(|gate| gate.name == names::UNCOMMITTED)
                .map(Gate::Scheduling),
            suspended: false,
            terminating: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers,
            phase: phase(&status.phase),
            node: spec.node_name.filter(|name| !name.is_empty()).map(Into::into),
            ready: status
                .conditions
                .iter()
                .any(|condition| condition.kind == "Ready" && condition.status == "True"),
            untold: None,
            json,
        })
    }

    /// Whether the object carries the origin label of this manager and names a local object.
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
        assert!(RemoteObject::is_ours(&pod("here", named.clone()), "here"));
        assert!(!RemoteObject::is_ours(&pod("elsewhere", named), "here"));
        assert!(!RemoteObject::is_ours(&pod("here", json!({})), "here"));
        assert!(
            !RemoteObject::is_ours(&pod("here", json!({names::LOCAL_UID: ""})), "here"),
            "it names nobody"
        );
    }
}
