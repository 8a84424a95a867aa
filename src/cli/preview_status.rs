//! `portcullis preview status`: a local pod and its remote pod -> the patch that the local pod's status would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Format, Printout, Source, UnreadableDocument};
use super::schema::{self, WrongType};
use crate::names;
use crate::pod::mirror::{Dispatched, MirrorOptions, mirror};
use crate::workload::PodPath;

/// Show the merge patch that the status of a local pod would get from its remote pod. No cluster is needed.
#[derive(Debug, clap::Args)]
pub struct PreviewStatus {
    /// The pod on the manager, in YAML or JSON; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    local: PathBuf,
    /// The pod on the worker.
    #[arg(long, value_name = "FILE")]
    remote: PathBuf,
    /// As with `mirrorPodIPs: true` in the DispatchPolicy.
    #[arg(long)]
    mirror_pod_ips: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewStatusError {
    #[error("{side} pod")]
    Document {
        side: Side,
        #[source]
        source: UnreadableDocument,
    },
    #[error("{side} pod: found {found}, expected one Pod as `kubectl get pod NAME -o yaml` prints it")]
    NoPod { side: Side, found: String },
    #[error("{side} pod")]
    Type {
        side: Side,
        #[source]
        source: WrongType,
    },
    #[error("{side} pod: {path} is missing, so nothing proves that the two belong together")]
    Unidentified { side: Side, path: String },
    #[error("the two are no pair: {claimant} names {claimed}, but the {other} pod is {actual}")]
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
        preview_status(local, remote, self.mirror_pod_ips, self.output, now)
    }
}

/// The patch for the pods in these two files.
pub fn preview_status(
    local: Source,
    remote: Source,
    pod_ips: bool,
    output: Format,
    now: &str,
) -> Result<Printout, PreviewStatusError> {
    let mut warnings = String::new();
    let mut pod = |side, text| one_pod(side, text, &mut warnings);
    let (local, remote) = (pod(Side::Local, local)?, pod(Side::Remote, remote)?);
    refuse_strangers(&local, &remote)?;
    let cluster = annotation(&local, names::CLUSTER).unwrap_or("WORKER").to_owned();
    let dispatched = dispatched(&local, &remote, &cluster);
    let patch = mirror(
        &local,
        &remote,
        &dispatched,
        &MirrorOptions { pod_ips, cluster },
        now,
    );
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

fn one_pod(side: Side, text: Source, warnings: &mut String) -> Result<Value, PreviewStatusError> {
    let mut objects =
        documents::parse(&[text]).map_err(|source| PreviewStatusError::Document { side, source })?;
    match (objects.pop().map(|document| document.object), objects.len()) {
        (Some(pod), 0) if pod["kind"] == "Pod" && pod["apiVersion"] == "v1" => {
            let unknown = schema::unknown_fields(&pod, PodPath::ITSELF);
            for warning in unknown.map_err(|source| PreviewStatusError::Type { side, source })? {
                warnings.push_str(&format!("Warning: {side} pod: {warning}\n"));
            }
            Ok(pod)
        }
        (Some(other), 0) => {
            let text = |key: &str| other[key].as_str().unwrap_or_default().to_owned();
            Err(PreviewStatusError::NoPod {
                side,
                found: format!("a {} of {}", text("kind"), text("apiVersion")),
            })
        }
        (_, others) => Err(PreviewStatusError::NoPod {
            side,
            found: format!("{} objects", others + 1),
        }),
    }
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

/// Refuses pods whose UIDs do not name each other (R12).
fn refuse_strangers(local: &Value, remote: &Value) -> Result<(), PreviewStatusError> {
    let local_uid = uid(Side::Local, local)?;
    let remote_uid = uid(Side::Remote, remote)?;
    let named = annotation(remote, names::LOCAL_UID).ok_or_else(|| PreviewStatusError::Unidentified {
        side: Side::Remote,
        path: format!("metadata.annotations[{}]", names::LOCAL_UID),
    })?;
    if named != local_uid {
        return Err(PreviewStatusError::NoPair {
            claimant: "the remote pod's annotation local-uid",
            claimed: named.to_owned(),
            other: Side::Local,
            actual: local_uid.to_owned(),
        });
    }
    let committed = format!("{local_uid}/{remote_uid}");
    match annotation(local, names::REMOTE_UID) {
        Some(named) if named != committed => Err(PreviewStatusError::NoPair {
            claimant: "the local pod's annotation remote-uid",
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

/// What the local pod says of itself now; the reconciler, which knows more, may say something else.
fn dispatched(local: &Value, remote: &Value, cluster: &str) -> Dispatched {
    let conditions = local["status"]["conditions"].as_array().into_iter().flatten();
    match conditions
        .into_iter()
        .find(|condition| condition["type"] == names::DISPATCHED)
    {
        Some(condition) => Dispatched {
            status: condition["status"] == "True",
            reason: condition["reason"].as_str().unwrap_or_default().to_owned(),
            message: condition["message"].as_str().unwrap_or_default().to_owned(),
        },
        None => {
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
    }
}

#[cfg(test)]
mod tests;
