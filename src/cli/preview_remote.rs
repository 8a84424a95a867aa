//! `portcullis preview remote`: a pod -> the copy that a worker would get.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::documents::{self, Format, Printout, UnreadableDocument};
use crate::pod::sanitize::{Change, CopyMarks, NamespaceOwner, UnreadablePod, sanitize};

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
    /// standard error (json).
    #[arg(long)]
    explain: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewRemoteError {
    #[error(transparent)]
    Document(#[from] UnreadableDocument),
    #[error("object {number} is a {kind}: expected a Pod; take one from `kubectl get pod NAME -o yaml`")]
    NoPod { number: usize, kind: String },
    #[error("object {number} cannot be copied")]
    Unreadable {
        number: usize,
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
        preview_remote(&documents::read(&self.filename)?, self.explain, self.output)
    }
}

/// The copies of all pods in `input`.
pub fn preview_remote(input: &str, explain: bool, output: Format) -> Result<Printout, PreviewRemoteError> {
    let mut copies = Vec::new();
    let mut reasons = Vec::new();
    for (index, pod) in documents::parse(input)?.into_iter().enumerate() {
        let number = index + 1;
        let pod = as_served(number, pod)?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let owner = NamespaceOwner {
            name: namespace,
            uid: PLACEHOLDER_UID,
        };
        let marks = CopyMarks {
            origin: PLACEHOLDER_UID,
            owner: Some(owner),
        };
        let copy =
            sanitize(&pod, &marks).map_err(|source| PreviewRemoteError::Unreadable { number, source })?;
        copies.push(copy.pod);
        reasons.push(if explain {
            lines(&copy.changes)
        } else {
            String::new()
        });
    }
    Ok(match output {
        Format::Yaml => {
            let documents = reasons.iter().zip(&copies).map(|(reasons, copy)| {
                let comments: String = reasons.lines().map(|line| format!("# {line}\n")).collect();
                comments + &documents::print(std::slice::from_ref(copy), Format::Yaml)
            });
            Printout {
                stdout: documents.collect::<Vec<_>>().join("---\n"),
                stderr: String::new(),
            }
        }
        Format::Json => Printout {
            stdout: documents::print(&copies, Format::Json),
            stderr: reasons.concat(),
        },
    })
}

/// A pod with the fields that an API server would have filled in.
fn as_served(number: usize, mut pod: Value) -> Result<Value, PreviewRemoteError> {
    match (pod["apiVersion"].as_str(), pod["kind"].as_str()) {
        (Some("v1"), Some("Pod")) => {}
        (_, kind) => {
            let kind = kind.unwrap_or("document without a kind").to_owned();
            return Err(PreviewRemoteError::NoPod { number, kind });
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
        let printed = preview_remote(MANIFEST, true, Format::Yaml).unwrap().stdout;
        let silent = preview_remote(MANIFEST, false, Format::Yaml).unwrap().stdout;
        assert_eq!(
            documents::parse(&printed).unwrap(),
            documents::parse(&silent).unwrap()
        );
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
            let printed = preview_remote(&two, true, format).unwrap().stdout;
            assert_eq!(documents::parse(&printed).unwrap().len(), 2);
        }
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        check(
            "{apiVersion: apps/v1, kind: Deployment}",
            false,
            Format::Yaml,
            expect!["object 1 is a Deployment: expected a Pod; take one from `kubectl get pod NAME -o yaml`"],
        );
        check(
            "{a: b}",
            false,
            Format::Yaml,
            expect![
                "object 1 is a document without a kind: expected a Pod; take one from `kubectl get pod NAME -o yaml`"
            ],
        );
        check(
            "{apiVersion: v1, kind: Pod}",
            false,
            Format::Yaml,
            expect!["object 1 cannot be copied: metadata: missing; expected an object"],
        );
        check(
            "{apiVersion: v1, kind: Pod, metadata: {}, spec: {}}",
            false,
            Format::Yaml,
            expect!["object 1 cannot be copied: metadata.name: missing; expected a non-empty string"],
        );
        check(
            "{apiVersion: v1, kind: Pod, metadata: {name: a}}",
            false,
            Format::Yaml,
            expect!["object 1 cannot be copied: spec: missing; expected an object"],
        );
        check(
            "[",
            false,
            Format::Yaml,
            expect![[r#"
                parse YAML or JSON: error: line 1 column 1: unclosed bracket '['
                 --> <input>:1:1
                  |
                1 | [
                  | ^ unclosed bracket '['"#]],
        );
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(input: &str, explain: bool, output: Format, expect: Expect) {
        expect.assert_eq(&match preview_remote(input, explain, output) {
            Ok(Printout { stdout, stderr }) if stderr.is_empty() => stdout,
            Ok(Printout { stdout, stderr }) => format!("{stdout}on standard error:\n{stderr}"),
            Err(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        });
    }
}
