//! `portcullis preview status`: a local object and its remote one -> the patch that the local one's status would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Format, Printout, Source, UnreadableDocument};
use super::schema::{self, WrongType};
use super::subject::{self, KindArgs, Subject};
use crate::config::ConfigError;
use crate::job;
use crate::names;
use crate::pod::mirror::{Dispatched, MirrorOptions, mirror};
use crate::workload::PodPath;
use crate::workload::jobs::{JobKinds, conditions};

/// Show the merge patch that the status of a local pod, or of a local job, would get from its remote one. No cluster is
/// needed.
#[derive(Debug, clap::Args)]
pub struct PreviewStatus {
    /// The pod or job on the manager, in YAML or JSON; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    local: PathBuf,
    /// The one on the worker.
    #[arg(long, value_name = "FILE")]
    remote: PathBuf,
    /// As with `mirrorPodIPs: true` in the DispatchPolicy; for pods.
    #[arg(long)]
    mirror_pod_ips: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    #[command(flatten)]
    kinds: KindArgs,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewStatusError {
    #[error("configuration")]
    Config(#[from] ConfigError),
    #[error("{side} object")]
    Document {
        side: Side,
        #[source]
        source: UnreadableDocument,
    },
    #[error(
        "{side} object: found {found}, expected {expected}, as `kubectl get KIND NAME -o yaml` prints it"
    )]
    OtherKind {
        side: Side,
        found: String,
        expected: String,
    },
    #[error("the two are no pair: the local one is {local}, the remote one {remote}")]
    TwoKinds { local: String, remote: String },
    #[error("{side} pod")]
    Type {
        side: Side,
        #[source]
        source: WrongType,
    },
    #[error("{side} object: {path} is missing, so nothing proves that the two belong together")]
    Unidentified { side: Side, path: String },
    #[error("the two are no pair: {claimant} names {claimed}, but the {other} object is {actual}")]
    NoPair {
        claimant: &'static str,
        claimed: String,
        other: Side,
        actual: String,
    },
}

/// Of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Local,
    Remote,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Remote => "remote",
        })
    }
}

impl PreviewStatus {
    /// `now` is RFC 3339: the time of conditions that change.
    pub fn run(&self, now: &str) -> Result<Printout, PreviewStatusError> {
        let read = |side, path| {
            documents::read(path).map_err(|source| PreviewStatusError::Document { side, source })
        };
        let (local, remote) = (read(Side::Local, &self.local)?, read(Side::Remote, &self.remote)?);
        preview_status(
            local,
            remote,
            self.kinds.read()?,
            self.mirror_pod_ips,
            self.output,
            now,
        )
    }
}

/// The patch for the objects in these two files.
pub fn preview_status(
    local: Source,
    remote: Source,
    kinds: JobKinds,
    pod_ips: bool,
    output: Format,
    now: &str,
) -> Result<Printout, PreviewStatusError> {
    let mut warnings = String::new();
    let mut one = |side, text| one_object(side, text, kinds, &mut warnings);
    let ((local, subject), (remote, _)) = (one(Side::Local, local)?, one(Side::Remote, remote)?);
    refuse_strangers(&local, &remote)?;
    let cluster = annotation(&local, names::CLUSTER).unwrap_or("WORKER").to_owned();
    let patch = match subject {
        Subject::Pod => {
            let dispatched = dispatched(&local, &["status", "conditions"], || on_node(&remote, &cluster));
            let options = MirrorOptions { pod_ips, cluster };
            mirror(&local, &remote, &dispatched, &options, now)
        }
        Subject::Job(kind) => {
            let dispatched = dispatched(&local, kind.conditions(), || on_worker(&remote, &cluster));
            job::mirror::mirror(kind, &local, &remote, &dispatched, &cluster, now)
        }
    };
    let stderr = if patch.is_some() {
        ""
    } else {
        "nothing to write: the patch is empty\n"
    };
    let patch = patch.unwrap_or_else(|| json!({}));
    Ok(Printout {
        stdout: documents::print(std::slice::from_ref(&patch), output, || table(&patch)),
        stderr: warnings + stderr,
    })
}

fn one_object(
    side: Side,
    text: Source,
    kinds: JobKinds,
    warnings: &mut String,
) -> Result<(Value, Subject), PreviewStatusError> {
    let mut objects =
        documents::parse(&[text]).map_err(|source| PreviewStatusError::Document { side, source })?;
    let found = match (objects.pop().map(|document| document.object), objects.len()) {
        (Some(object), 0) => match Subject::of(&object, kinds) {
            Some(subject) => {
                if let Subject::Pod = subject {
                    let unknown = schema::unknown_fields(&object, PodPath::ITSELF);
                    for warning in unknown.map_err(|source| PreviewStatusError::Type { side, source })? {
                        warnings.push_str(&format!("Warning: {side} pod: {warning}\n"));
                    }
                }
                return Ok((object, subject));
            }
            None => subject::found(&object),
        },
        (_, others) => format!("{} objects", others + 1),
    };
    Err(PreviewStatusError::OtherKind {
        side,
        found,
        expected: subject::expected(kinds),
    })
}

/// A line for each value that would be written.
fn table(patch: &Value) -> String {
    let mut rows = Vec::new();
    leaves(String::new(), patch, &mut rows);
    super::table::table(["FIELD", "VALUE"], &rows)
}

fn leaves(path: String, value: &Value, rows: &mut Vec<[String; 2]>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = match (path.is_empty(), key.contains(['.', '/'])) {
                    (true, _) => key.clone(),
                    (false, true) => format!("{path}[{key}]"),
                    (false, false) => format!("{path}.{key}"),
                };
                leaves(path, value, rows);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                leaves(format!("{path}[{index}]"), value, rows);
            }
        }
        Value::String(text) => rows.push([path, text.clone()]),
        other => rows.push([path, other.to_string()]),
    }
}

/// Refuses objects that are of two kinds, or whose UIDs do not name each other (R12).
fn refuse_strangers(local: &Value, remote: &Value) -> Result<(), PreviewStatusError> {
    let (kind, other) = (subject::found(local), subject::found(remote));
    if kind != other {
        return Err(PreviewStatusError::TwoKinds {
            local: kind,
            remote: other,
        });
    }
    let local_uid = uid(Side::Local, local)?;
    let remote_uid = uid(Side::Remote, remote)?;
    let named = annotation(remote, names::LOCAL_UID).ok_or_else(|| PreviewStatusError::Unidentified {
        side: Side::Remote,
        path: format!("metadata.annotations[{}]", names::LOCAL_UID),
    })?;
    if named != local_uid {
        return Err(PreviewStatusError::NoPair {
            claimant: "the remote object's annotation local-uid",
            claimed: named.to_owned(),
            other: Side::Local,
            actual: local_uid.to_owned(),
        });
    }
    let committed = format!("{local_uid}/{remote_uid}");
    match annotation(local, names::REMOTE_UID) {
        Some(named) if named != committed => Err(PreviewStatusError::NoPair {
            claimant: "the local object's annotation remote-uid",
            claimed: named.to_owned(),
            other: Side::Remote,
            actual: committed,
        }),
        Some(_) | None => Ok(()),
    }
}

fn uid(side: Side, pod: &Value) -> Result<&str, PreviewStatusError> {
    let uid = pod["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
    uid.ok_or_else(|| PreviewStatusError::Unidentified {
        side,
        path: "metadata.uid".to_owned(),
    })
}

fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// What the local object says of itself now, else this; the reconciler, which knows more, may say something else.
fn dispatched(local: &Value, path: &[&str], otherwise: impl FnOnce() -> Dispatched) -> Dispatched {
    match conditions::find(conditions::of(local, path), names::DISPATCHED) {
        Some(condition) => Dispatched {
            status: condition["status"] == "True",
            reason: condition["reason"].as_str().unwrap_or_default().to_owned(),
            message: condition["message"].as_str().unwrap_or_default().to_owned(),
        },
        None => otherwise(),
    }
}

fn on_node(remote: &Value, cluster: &str) -> Dispatched {
    let (reason, message) = match remote["spec"]["nodeName"].as_str() {
        Some(node) => ("Scheduled", format!("on {cluster}, node {node}")),
        None => ("WaitingOnWorker", format!("on {cluster}")),
    };
    Dispatched {
        status: true,
        reason: reason.to_owned(),
        message,
    }
}

fn on_worker(remote: &Value, cluster: &str) -> Dispatched {
    let is_open = !job::is_uncommitted(remote);
    let reason = if is_open { "Open" } else { "Opening" };
    Dispatched {
        status: is_open,
        reason: reason.to_owned(),
        message: format!("on {cluster}"),
    }
}

#[cfg(test)]
mod tests;
