//! An object of the manager's API -> what the protocol needs to know of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::job;
use super::text::{OwnerText, PodText, number, phase};
use crate::names;

pub use super::key::{PairKey, Subject};
pub use super::remote::{Gate, RemoteObject};

/// An object of the manager that is dispatched, as seen.
#[derive(Clone, Debug)]
pub struct LocalObject {
    /// Where it is.
    pub key: PairKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion as seen.
    pub resource_version: Arc<str>,
    /// How often a commit of it was cleared (annotation `attempt`).
    pub attempt: u64,
    /// What its annotations say of a remote object.
    pub commit: Commit,
    /// Whether it is held for us: a pod by our gate, a job by its `managedBy`. What is not is none of ours.
    pub held: bool,
    /// A job that somebody suspended: uncommitted it waits (R87), and its copy is suspended too. Never a pod.
    pub suspended: bool,
    /// Gates of others: it waits for them (R87).
    pub other_gates: Vec<String>,
    /// Deletion was asked for.
    pub terminating: bool,
    /// status.phase.
    pub phase: Phase,
    /// Place of our finalizer in the list.
    pub finalizer: Option<usize>,
    /// All finalizers, ours too.
    pub finalizers: Vec<String>,
    /// Whether `Dispatched` says True: this pod's remote object was seen open.
    pub seen_open: bool,
    /// Whether its remote object was seen on a node.
    pub seen_scheduled: bool,
    /// UID of its controller, if it has one.
    pub controller: Option<Controller>,
    /// The annotation `root`, a hint.
    pub root_hint: Option<Arc<str>>,
    /// The whole object as JSON.
    pub json: Arc<str>,
}

/// The controller owner reference of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Such as `ReplicaSet`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Arc<str>,
}

/// An object's phase as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pending, Unknown, or not set.
    Waiting,
    /// Running.
    Running,
    /// Succeeded or Failed: final (R05).
    Terminal,
}

/// What a local object's annotations say of its remote object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Nothing.
    None,
    /// A commit that names another local UID: an object restored under a new one. It counts as none.
    Void,
    /// Committed.
    Committed(Committed),
}

/// The commit of a local object: the only remote object that may ever be opened for it.
/// Only reading a local object makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    cluster: Arc<str>,
    cluster_uid: Arc<str>,
    remote_uid: Arc<str>,
}

impl Committed {
    /// Name of the WorkerCluster.
    pub fn cluster(&self) -> &Arc<str> {
        &self.cluster
    }
    /// UID of its kube-system namespace at the commit.
    pub fn cluster_uid(&self) -> &Arc<str> {
        &self.cluster_uid
    }
    /// UID of the remote object.
    pub fn remote_uid(&self) -> &Arc<str> {
        &self.remote_uid
    }
}

/// An object that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read object")]
pub struct Unreadable(#[from] serde_json::Error);

impl LocalObject {
    /// Reads an object of the manager.
    ///
    /// # Errors
    /// If it is no such object: no name, no UID, or a field of another type.
    pub fn parse(subject: Subject, json: Arc<str>) -> Result<Self, Unreadable> {
        match subject {
            Subject::Pod => Self::pod(json),
            Subject::Job(kind) => job::local(kind, json),
        }
    }

    fn pod(json: Arc<str>) -> Result<Self, Unreadable> {
        let PodText {
            metadata,
            spec,
            status,
        } = serde_json::from_str(&json)?;
        let uid: Arc<str> = metadata.uid.into();
        let commit = commit_of(&metadata.annotations, &uid);
        let finalizers = metadata.finalizers;
        let (ours, other_gates): (Vec<_>, Vec<_>) = spec
            .scheduling_gates
            .into_iter()
            .map(|gate| gate.name)
            .partition(|name| name == names::GATE);
        Ok(Self {
            key: PairKey {
                subject: Subject::Pod,
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
            resource_version: metadata.resource_version.into(),
            attempt: number(&metadata.annotations, names::ATTEMPT),
            seen_open: status
                .conditions
                .iter()
                .any(|condition| condition.kind == names::DISPATCHED && condition.status == "True"),
            seen_scheduled: metadata.annotations.contains_key(names::REMOTE_NODE),
            root_hint: metadata
                .annotations
                .get(names::ROOT)
                .map(|root| root.as_str().into()),
            commit,
            held: !ours.is_empty(),
            other_gates,
            suspended: false,
            terminating: metadata.deletion_timestamp.is_some(),
            phase: phase(&status.phase),
            finalizer: finalizers.iter().position(|name| name == names::REMOTE_COPY),
            finalizers,
            controller: controller(metadata.owner_references),
            uid,
            json,
        })
    }

    /// Whether it is dispatched, or something of us is left on it. The watch of pods delivers no others.
    pub fn concerns_us(&self) -> bool {
        match self.key.subject {
            Subject::Pod => true,
            Subject::Job(_) => self.held || self.finalizer.is_some(),
        }
    }

    /// Neither terminating nor finished.
    pub fn active(&self) -> bool {
        !self.terminating && self.phase != Phase::Terminal
    }

    /// The commit, if there is a valid one.
    pub fn committed(&self) -> Option<&Committed> {
        match &self.commit {
            Commit::Committed(committed) => Some(committed),
            Commit::None | Commit::Void => None,
        }
    }
}

pub(super) fn commit_of(annotations: &BTreeMap<String, String>, uid: &str) -> Commit {
    let text = |key: &str| annotations.get(key).map(String::as_str).unwrap_or_default();
    match (
        text(names::REMOTE_UID).split_once('/'),
        text(names::CLUSTER),
        text(names::CLUSTER_UID),
    ) {
        (None, "", "") => Commit::None,
        (Some((local, remote)), cluster, cluster_uid)
            if local == uid && !remote.is_empty() && !cluster.is_empty() && !cluster_uid.is_empty() =>
        {
            Commit::Committed(Committed {
                cluster: cluster.into(),
                cluster_uid: cluster_uid.into(),
                remote_uid: remote.into(),
            })
        }
        (None | Some(_), _, _) => Commit::Void,
    }
}

fn controller(owners: Vec<OwnerText>) -> Option<Controller> {
    owners
        .into_iter()
        .find(|owner| owner.controller)
        .map(|owner| Controller {
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn a_commit_names_the_pods_own_uid() {
        check(
            "u/r",
            expect![[r#"Committed(Committed { cluster: "a", cluster_uid: "cu", remote_uid: "r" })"#]],
        );
    }

    #[test]
    fn a_commit_of_another_uid_is_void() {
        check("other/r", expect!["Void"]);
    }

    #[test]
    fn half_a_commit_is_void() {
        check("u", expect!["Void"]);
        check("u/", expect!["Void"]);
    }

    #[track_caller]
    fn check(remote_uid: &str, expect: Expect) {
        let pod = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u","resourceVersion":"1","ownerReferences":null,
            "annotations":{{"portcullis.dev/cluster":"a","portcullis.dev/cluster-uid":"cu","portcullis.dev/remote-uid":"{remote_uid}"}}}}}}"#
        );
        expect.assert_eq(&format!(
            "{:?}",
            LocalObject::parse(Subject::Pod, pod.into()).unwrap().commit
        ));
    }
}
