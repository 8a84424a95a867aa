//! The whole vocabulary of writes, and of the reads that prove something.
//!
//! A step carries its preconditions; `execute` sends them in the same call (`docs/protocol.md`, rules 0-17).

use std::sync::Arc;

use serde_json::Value;

use super::pair::local::{Committed, Gate, PairKey};

/// An object on a worker, named so that a namesake can never be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTarget {
    /// Name of the WorkerCluster.
    pub worker: Arc<str>,
    /// Where it is.
    pub key: PairKey,
    /// The UID it must have.
    pub uid: Arc<str>,
}

/// An object on the manager, as it was seen when the step was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTarget {
    /// Where it is.
    pub key: PairKey,
    /// The UID it must have.
    pub uid: Arc<str>,
    /// The resourceVersion it must still have.
    pub resource_version: Arc<str>,
}

/// Why the copy of a pod is deleted that somebody else ended on the manager (rule 13b).
pub const ENDED_HERE: &str = "its local pod was ended";

/// Why the copy of a pod is deleted that was deleted on the manager (rule 13).
pub const DELETED_HERE: &str = "local pod deleted";

/// One API call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Rule 2: create the remote object with the gate `uncommitted`. Precondition: the name is free, by the API.
    Prepare {
        worker: Arc<str>,
        local: LocalTarget,
        copy: Box<Value>,
        create_namespace: bool,
    },
    /// Rule 3: one patch of annotations and finalizer. Precondition: the local object's UID and resourceVersion.
    Commit {
        local: LocalTarget,
        finalizers: Vec<String>,
        cluster_uid: Arc<str>,
        remote: RemoteTarget,
    },
    /// Rule 3c: attempt + 1, so that no ready copy can be committed any more. Precondition: the local object's UID and
    /// resourceVersion.
    GiveUp { local: LocalTarget, attempt: u64 },
    /// Rule 7: let it run, by a JSON patch. Precondition: the remote UID, and the gate `uncommitted` at its place.
    Open {
        committed: Committed,
        remote: RemoteTarget,
        gate: Gate,
        patch: Box<Value>,
    },
    /// What the user changed of the local object since is changed in its opened copy too, by a JSON patch. Precondition:
    /// the remote UID, and that it is opened.
    Forward {
        remote: RemoteTarget,
        resource_version: Arc<str>,
        patch: Box<Value>,
        /// All that the copy follows in, as the local object says it.
        wanted: Arc<Value>,
    },
    /// Somebody changed our marks on the committed copy: they are put back. Precondition the remote UID.
    Remark {
        remote: RemoteTarget,
        origin: Arc<str>,
        local: LocalTarget,
        attempt: u64,
    },
    /// Rules 1, 5, 12, 13, 15: precondition the remote UID.
    /// With `unchanged` also this resourceVersion of it.
    Delete {
        remote: RemoteTarget,
        why: &'static str,
        unchanged: Option<Arc<str>>,
    },
    /// Rule 8: precondition the remote UID and the resourceVersion that was seen without a node.
    TakeBack {
        remote: RemoteTarget,
        resource_version: Arc<str>,
        reason: String,
    },
    /// Rule 9: clear commit and finalizer, attempt + 1. Precondition: the local object's UID and resourceVersion.
    ClearCommit {
        local: LocalTarget,
        finalizers: Vec<String>,
        attempt: u64,
    },
    /// Rule 10 and the mirror: a merge patch of the status that carries UID and resourceVersion.
    Mirror { local: LocalTarget, patch: Box<Value> },
    /// Rule 11: status Failed. The remote object is proven gone; precondition UID and resourceVersion.
    Fail {
        local: LocalTarget,
        patch: Box<Value>,
        reason: &'static str,
        /// As the condition says it.
        message: String,
    },
    /// Rule 14: our finalizer off. The remote object is proven gone; precondition the UID and the finalizer's place.
    ReleaseFinalizer {
        local: LocalTarget,
        index: usize,
        same_version: bool,
    },
    /// The local object ended and its time is over: it is deleted, as its own operator would have done. Precondition its
    /// UID and resourceVersion.
    Expire { local: LocalTarget },
    /// Rule P: a quorum read on the worker. Answers whether this remote UID is gone for ever.
    ProveRemoteGone {
        remote: RemoteTarget,
        cluster_uid: Arc<str>,
    },
    /// A pod that claims our marks stands in the way: whether its namespace takes our pods at all (R71).
    AskConsent { worker: Arc<str>, key: PairKey },
    /// What the pods of an opened job on its worker wait for. Nothing of it is written there.
    AskPods {
        remote: RemoteTarget,
        /// The labels that they carry; none: they are found by their owners.
        selector: Option<String>,
        /// The status of the copy as it was seen, as a hash.
        status: u64,
    },
    /// Rule P: a quorum read on the manager. Answers whether this local UID is gone for ever.
    ProveLocalGone { key: PairKey, uid: Arc<str> },
    /// The view of the local object is old: read it again.
    LookAtLocal { key: PairKey },
    /// Why it waits, by an Event alone: its status has no place for our condition. No call on the pair.
    Tell {
        local: LocalTarget,
        reason: String,
        message: String,
    },
}

impl Step {
    /// A fixed name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::GiveUp { .. } => "give-up",
            Self::Open { .. } => "open",
            Self::Forward { .. } => "forward",
            Self::Expire { .. } => "expire",
            Self::Remark { .. } => "remark",
            Self::Delete { .. } => "delete",
            Self::TakeBack { .. } => "take-back",
            Self::ClearCommit { .. } => "clear-commit",
            Self::Mirror { .. } => "mirror",
            Self::Fail { .. } => "fail",
            Self::ReleaseFinalizer { .. } => "release-finalizer",
            Self::ProveRemoteGone { .. } => "prove-remote-gone",
            Self::AskConsent { .. } => "ask-consent",
            Self::AskPods { .. } => "ask-pods",
            Self::ProveLocalGone { .. } => "prove-local-gone",
            Self::LookAtLocal { .. } => "look-at-local",
            Self::Tell { .. } => "tell",
        }
    }

    /// The pair it is about.
    pub fn key(&self) -> &PairKey {
        match self {
            Self::Prepare { local, .. }
            | Self::Commit { local, .. }
            | Self::GiveUp { local, .. }
            | Self::ClearCommit { local, .. }
            | Self::Mirror { local, .. }
            | Self::Fail { local, .. }
            | Self::ReleaseFinalizer { local, .. }
            | Self::Tell { local, .. }
            | Self::Expire { local } => &local.key,
            Self::Open { remote, .. }
            | Self::Forward { remote, .. }
            | Self::Remark { remote, .. }
            | Self::Delete { remote, .. }
            | Self::TakeBack { remote, .. }
            | Self::AskPods { remote, .. }
            | Self::ProveRemoteGone { remote, .. } => &remote.key,
            Self::AskConsent { key, .. } | Self::ProveLocalGone { key, .. } | Self::LookAtLocal { key } => {
                key
            }
        }
    }
}
