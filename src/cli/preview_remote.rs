//! `portcullis preview remote`: a pod -> the copy that a worker would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Document, Format, Printout, Source, UnreadableDocument};
use crate::pod::sanitize::{Change, CopyMarks, NamespaceOwner, RemoteCopy, UnreadablePod, sanitize};

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
    #[error("{place} is a {kind}: expected a Pod; take one from `kubectl get pod NAME -o yaml`")]
    NoPod { place: String, kind: String },
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
    for document in documents::parse(&[input])? {
        let copy = copy_of(document)?;
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
                stderr: String::new(),
            }
        }
        Format::Json => Printout {
            stdout: documents::print(&copies, Format::Json, String::new),
            stderr: reasons.collect(),
        },
        Format::Table => Printout {
            stdout: table(&copies, &changes),
            stderr: String::new(),
        },
    })
}

fn copy_of(Document { place, object }: Document) -> Result<RemoteCopy, PreviewRemoteError> {
    let pod = as_served(&place, object)?;
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
        (_, kind) => {
            return Err(PreviewRemoteError::NoPod {
                place: place.to_owned(),
                kind: kind.unwrap_or_default().to_owned(),
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
    documents::table(["POD", "CHANGE", "FIELD", "REASON"], &rows)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use expect_test::{Expect, expect};

    use super::*;

    const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {generateName: web-, labels: {app: web, kueue.x-k8s.io/queue-name: team}}
spec:
  priority: 0
  containers: [{name: app, image: 'app:1'}]
";

    #[test]
    fn a_manifest_gets_placeholders() {
        check(
            MANIFEST,
            false,
            Format::Yaml,
            expect![[r#"
            apiVersion: v1
            kind: Pod
            metadata:
              annotations:
                portcullis.dev/local-attempt: "0"
                portcullis.dev/local-name: default/web-xxxxx
                portcullis.dev/local-uid: 00000000-0000-0000-0000-000000000000
                portcullis.dev/source: 971b460dbeb3e50cb53995d58c7c3fddc683a165d02e710e7165bab367ce08ad
              labels:
                app: web
                portcullis.dev/origin: 00000000-0000-0000-0000-000000000000
              name: web-xxxxx
              namespace: default
              ownerReferences:
              - apiVersion: v1
                controller: true
                kind: Namespace
                name: default
                uid: 00000000-0000-0000-0000-000000000000
            spec:
              containers:
              - image: app:1
                name: app
              schedulingGates:
              - name: portcullis.dev/uncommitted
        "#]],
        );
    }

    #[test]
    fn reasons_are_comments_in_yaml() {
        check(
            MANIFEST,
            true,
            Format::Yaml,
            expect![[r##"
            # dropped metadata.generateName: the copy has the name that the manager made
            # dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for this pod, no Kueue on the worker does
            # dropped metadata.uid: the worker gives the copy its own
            # dropped spec.priority: follows from the worker's PriorityClass
            # added spec.schedulingGates[portcullis.dev/uncommitted]: holds the copy until the local pod has recorded it
            # added metadata.labels[portcullis.dev/origin]: names the manager
            # added metadata.annotations[portcullis.dev/local-uid]: names the local pod
            # added metadata.annotations[portcullis.dev/local-name]: names the local pod
            # added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local pod
            # added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local pod
            # added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
            apiVersion: v1
            kind: Pod
            metadata:
              annotations:
                portcullis.dev/local-attempt: "0"
                portcullis.dev/local-name: default/web-xxxxx
                portcullis.dev/local-uid: 00000000-0000-0000-0000-000000000000
                portcullis.dev/source: 971b460dbeb3e50cb53995d58c7c3fddc683a165d02e710e7165bab367ce08ad
              labels:
                app: web
                portcullis.dev/origin: 00000000-0000-0000-0000-000000000000
              name: web-xxxxx
              namespace: default
              ownerReferences:
              - apiVersion: v1
                controller: true
                kind: Namespace
                name: default
                uid: 00000000-0000-0000-0000-000000000000
            spec:
              containers:
              - image: app:1
                name: app
              schedulingGates:
              - name: portcullis.dev/uncommitted
        "##]],
        );
        let printed = |explain| {
            preview_remote(source(MANIFEST), explain, Format::Yaml)
                .unwrap()
                .stdout
        };
        let read = |explain| documents::parse(&[source(&printed(explain))]).unwrap();
        assert_eq!(read(true), read(false));
    }

    #[test]
    fn reasons_are_remarks_in_json() {
        check(
            MANIFEST,
            true,
            Format::Json,
            expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "Pod",
              "metadata": {
                "annotations": {
                  "portcullis.dev/local-attempt": "0",
                  "portcullis.dev/local-name": "default/web-xxxxx",
                  "portcullis.dev/local-uid": "00000000-0000-0000-0000-000000000000",
                  "portcullis.dev/source": "971b460dbeb3e50cb53995d58c7c3fddc683a165d02e710e7165bab367ce08ad"
                },
                "labels": {
                  "app": "web",
                  "portcullis.dev/origin": "00000000-0000-0000-0000-000000000000"
                },
                "name": "web-xxxxx",
                "namespace": "default",
                "ownerReferences": [
                  {
                    "apiVersion": "v1",
                    "controller": true,
                    "kind": "Namespace",
                    "name": "default",
                    "uid": "00000000-0000-0000-0000-000000000000"
                  }
                ]
              },
              "spec": {
                "containers": [
                  {
                    "image": "app:1",
                    "name": "app"
                  }
                ],
                "schedulingGates": [
                  {
                    "name": "portcullis.dev/uncommitted"
                  }
                ]
              }
            }
            on standard error:
            dropped metadata.generateName: the copy has the name that the manager made
            dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for this pod, no Kueue on the worker does
            dropped metadata.uid: the worker gives the copy its own
            dropped spec.priority: follows from the worker's PriorityClass
            added spec.schedulingGates[portcullis.dev/uncommitted]: holds the copy until the local pod has recorded it
            added metadata.labels[portcullis.dev/origin]: names the manager
            added metadata.annotations[portcullis.dev/local-uid]: names the local pod
            added metadata.annotations[portcullis.dev/local-name]: names the local pod
            added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local pod
            added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local pod
            added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
        "#]],
        );
    }

    #[test]
    fn every_pod_of_the_input_is_copied() {
        let two = format!("{MANIFEST}---{MANIFEST}");
        for format in [Format::Yaml, Format::Json] {
            let printed = preview_remote(source(&two), true, format).unwrap().stdout;
            assert_eq!(documents::parse(&[source(&printed)]).unwrap().len(), 2);
        }
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        check(
            "{apiVersion: apps/v1, kind: Deployment}",
            false,
            Format::Yaml,
            expect![
                "pods.yaml, document 1 is a Deployment: expected a Pod; take one from `kubectl get pod NAME -o yaml`"
            ],
        );
        check(
            "{apiVersion: v1, kind: Pod}",
            false,
            Format::Yaml,
            expect!["pods.yaml, document 1 cannot be copied: metadata: missing; expected an object"],
        );
        check(
            "{apiVersion: v1, kind: Pod, metadata: {}, spec: {}}",
            false,
            Format::Yaml,
            expect![
                "pods.yaml, document 1 cannot be copied: metadata.name: missing; expected a non-empty string"
            ],
        );
        check(
            "{apiVersion: v1, kind: Pod, metadata: {name: a}}",
            false,
            Format::Yaml,
            expect!["pods.yaml, document 1 cannot be copied: spec: missing; expected an object"],
        );
        check(
            "[",
            false,
            Format::Yaml,
            expect!["pods.yaml is neither YAML nor JSON: unclosed bracket '[' at line 1, column 1"],
        );
    }

    #[test]
    fn a_table_lists_what_is_changed() {
        let printed = preview_remote(source(MANIFEST), false, Format::Table).unwrap();
        let first: Vec<&str> = printed.stdout.lines().take(2).collect();
        expect![[r#"
            POD                 CHANGE    FIELD                                                REASON
            default/web-xxxxx   dropped   metadata.generateName                                the copy has the name that the manager made"#]]
        .assert_eq(&first.join("\n"));
    }

    fn source(text: &str) -> Source {
        Source {
            name: "pods.yaml".to_owned(),
            text: text.to_owned(),
        }
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(input: &str, explain: bool, output: Format, expect: Expect) {
        expect.assert_eq(&match preview_remote(source(input), explain, output) {
            Ok(Printout { stdout, stderr }) if stderr.is_empty() => stdout,
            Ok(Printout { stdout, stderr }) => format!("{stdout}on standard error:\n{stderr}"),
            Err(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        });
    }
}
