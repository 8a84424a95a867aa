//! `portcullis preview remote`: a pod -> the copy that a worker would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Document, Format, Printout, Source, UnreadableDocument};
use super::schema::{self, WrongType};
use crate::pod::sanitize::{Change, CopyMarks, NamespaceOwner, RemoteCopy, UnreadablePod, sanitize};
use crate::workload::PodPath;

/// Show the copy of a pod that a worker would get. No cluster is needed.
///
/// A manifest that no API server has seen gets a name, the namespace `default` and a UID; those, the UID of the manager
/// and the UID of the worker's namespace are placeholders in the output.
#[derive(Debug, clap::Args)]
pub struct PreviewRemote {
    /// Pods in YAML or JSON; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// List every field that is dropped, rewritten or added, and why: as comments before the pod (yaml), or on
    /// standard error (json). A table is nothing but this list.
    #[arg(long)]
    explain: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewRemoteError {
    #[error(transparent)]
    Document(#[from] UnreadableDocument),
    #[error("{place}: found {found}, expected a Pod of v1; take one from `kubectl get pod NAME -o yaml`")]
    NoPod { place: String, found: String },
    #[error("{place}")]
    Type {
        place: String,
        #[source]
        source: WrongType,
    },
    #[error("{place} cannot be copied")]
    Unreadable {
        place: String,
        #[source]
        source: UnreadablePod,
    },
}

/// Stands for a UID that only a cluster can give.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Ends a name that only an API server can make from `generateName`.
const PLACEHOLDER_SUFFIX: &str = "xxxxx";

impl PreviewRemote {
    pub fn run(&self) -> Result<Printout, PreviewRemoteError> {
        preview_remote(documents::read(&self.filename)?, self.explain, self.output)
    }
}

/// The copies of all pods in `input`.
pub fn preview_remote(input: Source, explain: bool, output: Format) -> Result<Printout, PreviewRemoteError> {
    let mut copies = Vec::new();
    let mut changes = Vec::new();
    let mut warnings = String::new();
    for document in documents::parse(&[input])? {
        let place = document.place.clone();
        let copy = copy_of(document, &mut |warning| {
            warnings.push_str(&format!("Warning: {place}: {warning}\n"));
        })?;
        copies.push(copy.pod);
        changes.push(copy.changes);
    }
    let reasons = changes
        .iter()
        .map(|changes| if explain { lines(changes) } else { String::new() });
    Ok(match output {
        Format::Yaml => {
            let documents = reasons.zip(&copies).map(|(reasons, copy)| {
                let comments: String = reasons.lines().map(|line| format!("# {line}\n")).collect();
                comments + &documents::yaml(copy)
            });
            Printout {
                stdout: documents.collect::<Vec<_>>().join("---\n"),
                stderr: warnings,
            }
        }
        Format::Json => Printout {
            stdout: documents::print(&copies, Format::Json, String::new),
            stderr: warnings + &reasons.collect::<String>(),
        },
        Format::Table => Printout {
            stdout: table(&copies, &changes),
            stderr: warnings,
        },
    })
}

fn copy_of(
    Document { place, object }: Document,
    warn: &mut impl FnMut(String),
) -> Result<RemoteCopy, PreviewRemoteError> {
    let pod = as_served(&place, object)?;
    match schema::unknown_fields(&pod, PodPath::ITSELF) {
        Ok(warnings) => warnings.into_iter().for_each(warn),
        Err(source) => return Err(PreviewRemoteError::Type { place, source }),
    }
    let owner = NamespaceOwner {
        name: pod["metadata"]["namespace"].as_str().unwrap_or_default(),
        uid: PLACEHOLDER_UID,
    };
    let marks = CopyMarks {
        origin: PLACEHOLDER_UID,
        owner: Some(owner),
    };
    sanitize(&pod, &marks).map_err(|source| PreviewRemoteError::Unreadable { place, source })
}

/// A pod with the fields that an API server would have filled in.
fn as_served(place: &str, mut pod: Value) -> Result<Value, PreviewRemoteError> {
    match (pod["apiVersion"].as_str(), pod["kind"].as_str()) {
        (Some("v1"), Some("Pod")) => {}
        (api_version, kind) => {
            return Err(PreviewRemoteError::NoPod {
                place: place.to_owned(),
                found: format!(
                    "a {} of {}",
                    kind.unwrap_or_default(),
                    api_version.unwrap_or_default()
                ),
            });
        }
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        let generated = metadata.get("generateName").and_then(Value::as_str);
        let name = generated.map(|prefix| json!(format!("{prefix}{PLACEHOLDER_SUFFIX}")));
        for (field, value) in [
            ("name", name),
            ("namespace", Some(json!("default"))),
            ("uid", Some(json!(PLACEHOLDER_UID))),
        ] {
            if let (None, Some(value)) = (metadata.get(field), value) {
                metadata.insert(field.to_owned(), value);
            }
        }
    }
    Ok(pod)
}

fn lines(changes: &[Change]) -> String {
    changes
        .iter()
        .map(|Change { path, what, reason }| format!("{what} {path}: {reason}\n"))
        .collect()
}

fn table(copies: &[Value], changes: &[Vec<Change>]) -> String {
    let mut rows = Vec::new();
    for (copy, changes) in copies.iter().zip(changes) {
        let of = |key: &str| copy["metadata"][key].as_str().unwrap_or_default();
        let pod = format!("{}/{}", of("namespace"), of("name"));
        for Change { path, what, reason } in changes {
            rows.push([pod.clone(), what.to_string(), path.clone(), (*reason).to_owned()]);
        }
    }
    super::table::table(["POD", "CHANGE", "FIELD", "REASON"], &rows)
}

#[cfg(test)]
mod tests;
