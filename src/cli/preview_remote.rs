//! `portcullis preview remote`: a pod or a job -> the copy that a worker would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Document, Format, Printout, Source, UnreadableDocument};
use super::schema::{self, WrongType};
use super::subject::{self, KindArgs, Subject};
use crate::config::ConfigError;
use crate::job;
use crate::pod::sanitize::{self, Change, CopyMarks, NamespaceOwner, UnreadableLocal};
use crate::workload::PodPath;
use crate::workload::jobs::{JobKind, JobKinds};

/// Show the copy of a pod, or of a job of any kind that is dispatched whole, that a worker would get. No cluster is needed.
///
/// A manifest that no API server has seen gets a name, the namespace `default` and a UID; those, the UID of the manager
/// and the UID of the worker's namespace are placeholders in the output.
#[derive(Debug, clap::Args)]
pub struct PreviewRemote {
    /// Pods and jobs in YAML or JSON; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// List every field that is dropped, rewritten or added, and why: as comments before the object (yaml), or on
    /// standard error (json). A table is nothing but this list.
    #[arg(long)]
    explain: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    #[command(flatten)]
    kinds: KindArgs,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewRemoteError {
    #[error("configuration")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Document(#[from] UnreadableDocument),
    #[error("{place}: found {found}, expected {expected}; take one from `kubectl get KIND NAME -o yaml`")]
    OtherKind {
        place: String,
        found: String,
        expected: String,
    },
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
        source: UnreadableLocal,
    },
}

/// Stands for a UID that only a cluster can give.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Ends a name that only an API server can make from `generateName`.
const PLACEHOLDER_SUFFIX: &str = "xxxxx";

impl PreviewRemote {
    pub fn run(&self) -> Result<Printout, PreviewRemoteError> {
        let kinds = self.kinds.read()?;
        preview_remote(documents::read(&self.filename)?, kinds, self.explain, self.output)
    }
}

/// The copies of all pods and jobs in `input`.
pub fn preview_remote(
    input: Source,
    kinds: JobKinds,
    explain: bool,
    output: Format,
) -> Result<Printout, PreviewRemoteError> {
    let mut copies = Vec::new();
    let mut changes = Vec::new();
    let mut warnings = String::new();
    for document in documents::parse(&[input])? {
        let place = document.place.clone();
        let (copy, changed) = copy_of(document, kinds, &mut |warning| {
            warnings.push_str(&format!("Warning: {place}: {warning}\n"));
        })?;
        copies.push(copy);
        changes.push(changed);
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
    Document { place, mut object }: Document,
    kinds: JobKinds,
    warn: &mut impl FnMut(String),
) -> Result<(Value, Vec<Change>), PreviewRemoteError> {
    let Some(subject) = Subject::of(&object, kinds) else {
        return Err(PreviewRemoteError::OtherKind {
            place,
            found: subject::found(&object),
            expected: subject::expected(kinds),
        });
    };
    fill_in(&mut object);
    let owner = NamespaceOwner {
        name: object["metadata"]["namespace"].as_str().unwrap_or_default(),
        uid: PLACEHOLDER_UID,
    };
    let marks = CopyMarks {
        origin: PLACEHOLDER_UID,
        owner: Some(owner),
    };
    let copied = match subject {
        Subject::Pod => {
            match schema::unknown_fields(&object, PodPath::ITSELF) {
                Ok(warnings) => warnings.into_iter().for_each(&mut *warn),
                Err(source) => return Err(PreviewRemoteError::Type { place, source }),
            }
            sanitize::sanitize(&object, &marks).map(|copy| (copy.pod, copy.changes))
        }
        Subject::Job(kind) => {
            if let Some(warning) = foreign(kind, &object) {
                warn(warning);
            }
            job::sanitize::sanitize(kind, &object, &marks).map(|copy| (copy.object, copy.changes))
        }
    };
    copied.map_err(|source| PreviewRemoteError::Unreadable { place, source })
}

/// That somebody else dispatches this job.
fn foreign(kind: &dyn JobKind, job: &Value) -> Option<String> {
    match job::claim(kind, job) {
        job::Claim::Foreign(other) => Some(format!(
            "{} is {other:?}, so the job is somebody else's and never copied",
            kind.managed_by().path.join(".")
        )),
        job::Claim::Ours | job::Claim::Local => None,
    }
}

/// The fields that an API server would have filled in.
fn fill_in(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
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
        let name = format!("{}/{}", of("namespace"), of("name"));
        let kind = copy["kind"].as_str().unwrap_or_default().to_owned();
        for Change { path, what, reason } in changes {
            rows.push([
                kind.clone(),
                name.clone(),
                what.to_string(),
                path.clone(),
                (*reason).to_owned(),
            ]);
        }
    }
    super::table::table(["KIND", "NAME", "CHANGE", "FIELD", "REASON"], &rows)
}

#[cfg(test)]
mod tests;
