//! A local pod -> its remote copy: what a worker gets, why it differs, and the hash that says whether it still fits.
//!
//! Raw JSON in and out: a field of the spec that this program does not know reaches the worker as it is (R32).
//! Metadata goes the other way round: only what is listed in [`metadata`] is copied (R13).

mod change;
mod injected;
mod label_keys;
mod metadata;
mod spec;
mod submitted;
mod token;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use change::Log;
pub use change::{Change, What};

use crate::names;

/// Part of every `source` hash. Grows whenever the same local pod would give another copy than before, so that a
/// remote pod which an older version prepared is made anew instead of being committed (protocol rule 3b).
const VERSION: &str = "1";

/// What a copy says of its origin, beyond what the local pod itself says.
#[derive(Debug, Clone, Copy)]
pub struct CopyMarks<'a> {
    /// UID of the manager's kube-system namespace.
    pub origin: &'a str,
    /// The worker's namespace. With it as controller no ReplicaSet, StatefulSet or Job of the worker takes the copy for
    /// its own (R65), and the labels that local controllers wrote can stay.
    pub owner: Option<NamespaceOwner<'a>>,
}

/// A worker's Namespace object as the controller of the remote pods in it. A namespaced object may have a
/// cluster-scoped owner; the garbage collector keeps the pod as long as that very namespace lives.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceOwner<'a> {
    pub name: &'a str,
    pub uid: &'a str,
}

/// The pod to create on the worker, with the gate `uncommitted` and all our marks.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCopy {
    pub pod: Value,
    /// Hash of the copy without our marks, and of the sanitiser's version; also an annotation of `pod`.
    pub source: String,
    /// Every difference between the local pod and the copy.
    pub changes: Vec<Change>,
}

/// The local pod cannot be read: a sentence with the path of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadablePod {
    #[error("{path}: missing; expected {expected}")]
    Missing {
        path: &'static str,
        expected: &'static str,
    },
    #[error("{path}: found {found}, expected {expected}")]
    Wrong {
        path: &'static str,
        found: String,
        expected: &'static str,
    },
}

impl UnreadablePod {
    /// Fixed name for metrics and Events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "FieldMissing",
            Self::Wrong { .. } => "FieldUnreadable",
        }
    }
}

/// The copy of `local` for a worker. `local` is the whole pod as the manager's API server gives it; its UID, name,
/// namespace and attempt are taken from it.
pub fn sanitize(local: &Value, marks: &CopyMarks<'_>) -> Result<RemoteCopy, UnreadablePod> {
    let mut log = Log::on();
    let local = LocalPod::read(local)?;
    let mut pod = copy(&local, &mut log)?;
    let source = hash(&pod);
    metadata::mark(&mut pod, &local, marks, &source, &mut log)?;
    Ok(RemoteCopy {
        pod,
        source,
        changes: log.into_changes(),
    })
}

/// The `source` that [`sanitize`] would give, without marks and without reasons: for the comparison before a commit.
pub fn source(local: &Value) -> Result<String, UnreadablePod> {
    copy(&LocalPod::read(local)?, &mut Log::off()).map(|copy| hash(&copy))
}

/// Makes the worker's Namespace the controller of a copy that was sanitised with an owner; its UID may have been
/// unknown then.
pub fn set_owner(pod: &mut Value, owner: &NamespaceOwner<'_>) {
    let NamespaceOwner { name, uid } = owner;
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid, "controller": true}]);
}

/// The parts of a local pod that the copy is made of.
struct LocalPod<'a> {
    metadata: &'a Map<String, Value>,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    spec: &'a Map<String, Value>,
}

impl<'a> LocalPod<'a> {
    fn read(pod: &'a Value) -> Result<Self, UnreadablePod> {
        let metadata = object(pod.get("metadata"), "metadata")?;
        Ok(Self {
            metadata,
            name: text(metadata.get("name"), "metadata.name")?,
            namespace: text(metadata.get("namespace"), "metadata.namespace")?,
            uid: text(metadata.get("uid"), "metadata.uid")?,
            spec: object(pod.get("spec"), "spec")?,
        })
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.get("annotations")?.get(key)?.as_str()
    }

    /// How often a commit of this pod was cleared. Absent is 0.
    fn attempt(&self) -> Result<u64, UnreadablePod> {
        self.annotation(names::ATTEMPT).map_or(Ok(0), |attempt| {
            attempt.parse().map_err(|_| UnreadablePod::Wrong {
                path: "metadata.annotations[portcullis.dev/attempt]",
                found: format!("{attempt:?}"),
                expected: "a number, 0 or more",
            })
        })
    }
}

/// The copy without our marks: what the hash is about.
fn copy(local: &LocalPod<'_>, log: &mut Log) -> Result<Value, UnreadablePod> {
    let mut metadata = metadata::copy(local, log)?;
    let mut spec = spec::copy(local, log);
    injected::strip(&mut metadata, &mut spec, log);
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// SHA-256 in hex. serde_json keeps the keys of an object sorted, so the order of the input does not matter.
fn hash(copy: &Value) -> String {
    let mut digest = Sha256::new_with_prefix(VERSION);
    serde_json::to_writer(&mut digest, copy)
        .expect("a Value always serialises, and a digest takes every byte");
    format!("{:x}", digest.finalize())
}

fn object<'a>(value: Option<&'a Value>, path: &'static str) -> Result<&'a Map<String, Value>, UnreadablePod> {
    let expected = "an object";
    match value {
        Some(Value::Object(map)) => Ok(map),
        None | Some(Value::Null) => Err(UnreadablePod::Missing { path, expected }),
        Some(other) => Err(UnreadablePod::Wrong {
            path,
            found: other.to_string(),
            expected,
        }),
    }
}

fn text<'a>(value: Option<&'a Value>, path: &'static str) -> Result<&'a str, UnreadablePod> {
    let expected = "a non-empty string";
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null) => Err(UnreadablePod::Missing { path, expected }),
        Some(other) => Err(UnreadablePod::Wrong {
            path,
            found: other.to_string(),
            expected,
        }),
    }
}
