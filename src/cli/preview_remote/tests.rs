//! Pods as users write them, and what is printed.

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
            # dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for it, no Kueue on the worker does
            # dropped metadata.uid: the worker gives the copy its own
            # dropped spec.priority: follows from the worker's PriorityClass
            # added spec.schedulingGates[portcullis.dev/uncommitted]: holds the copy until the local pod has recorded it
            # added metadata.labels[portcullis.dev/origin]: names the manager
            # added metadata.annotations[portcullis.dev/local-uid]: names the local object
            # added metadata.annotations[portcullis.dev/local-name]: names the local object
            # added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local object
            # added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local object
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
        preview_remote(source(MANIFEST), JobKinds::BUILT_IN, explain, Format::Yaml)
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
            dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for it, no Kueue on the worker does
            dropped metadata.uid: the worker gives the copy its own
            dropped spec.priority: follows from the worker's PriorityClass
            added spec.schedulingGates[portcullis.dev/uncommitted]: holds the copy until the local pod has recorded it
            added metadata.labels[portcullis.dev/origin]: names the manager
            added metadata.annotations[portcullis.dev/local-uid]: names the local object
            added metadata.annotations[portcullis.dev/local-name]: names the local object
            added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local object
            added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local object
            added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
        "#]],
    );
}

#[test]
fn every_pod_of_the_input_is_copied() {
    let two = format!("{MANIFEST}---{MANIFEST}");
    for format in [Format::Yaml, Format::Json] {
        let printed = preview_remote(source(&two), JobKinds::BUILT_IN, true, format)
            .unwrap()
            .stdout;
        assert_eq!(documents::parse(&[source(&printed)]).unwrap().len(), 2);
    }
}

#[test]
fn what_is_not_dispatched_is_refused() {
    check(
        "{apiVersion: apps/v1, kind: Deployment}",
        false,
        Format::Yaml,
        expect![
            "pods.yaml, document 1: found a Deployment of apps/v1, expected a Pod of v1 or one of the jobs MPIJob, TFJob, PyTorchJob, XGBoostJob, PaddleJob, Job, JobSet, TrainJob, RayJob, RayCluster, RayService, AppWrapper, SparkApplication; take one from `kubectl get KIND NAME -o yaml`"
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
fn what_an_api_server_would_not_read_is_refused_with_its_place_and_path() {
    check(
        "kind: Pod\nmetadata: {name: a}\n",
        false,
        Format::Yaml,
        expect!["pods.yaml, document 1: apiVersion: missing; expected a string such as v1 or apps/v1"],
    );
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: 7}}",
        false,
        Format::Yaml,
        expect!["pods.yaml, document 1: spec.containers: found integer `7`, expected a list"],
    );
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: 5}}",
        false,
        Format::Yaml,
        expect!["pods.yaml, document 1: spec.restartPolicy: found integer `5`, expected a string"],
    );
    check(
        "{apiVersion: apps/v1, kind: Pod}",
        false,
        Format::Yaml,
        expect![
            "pods.yaml, document 1: found a Pod of apps/v1, expected a Pod of v1 or one of the jobs MPIJob, TFJob, PyTorchJob, XGBoostJob, PaddleJob, Job, JobSet, TrainJob, RayJob, RayCluster, RayService, AppWrapper, SparkApplication; take one from `kubectl get KIND NAME -o yaml`"
        ],
    );
}

#[test]
fn a_field_that_no_pod_has_is_warned_about_in_every_form() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {contaners: []}}";
    for output in [Format::Yaml, Format::Json, Format::Table] {
        let printed = preview_remote(source(text), JobKinds::BUILT_IN, false, output).unwrap();
        assert_eq!(
            printed.stderr,
            "Warning: pods.yaml, document 1: spec.contaners: no pod of Kubernetes 1.37 has this field, so it does nothing; correct its name or its place, or remove it\n"
        );
    }
}

#[test]
fn a_table_lists_what_is_changed() {
    let printed = preview_remote(source(MANIFEST), JobKinds::BUILT_IN, false, Format::Table).unwrap();
    let first: Vec<&str> = printed.stdout.lines().take(2).collect();
    expect![[r#"
        KIND   NAME                CHANGE    FIELD                                                REASON
        Pod    default/web-xxxxx   dropped   metadata.generateName                                the copy has the name that the manager made"#]]
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
    expect.assert_eq(
        &match preview_remote(source(input), JobKinds::BUILT_IN, explain, output) {
            Ok(Printout { stdout, stderr }) if stderr.is_empty() => stdout,
            Ok(Printout { stdout, stderr }) => format!("{stdout}on standard error:\n{stderr}"),
            Err(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        },
    );
}

/// Jobs of every kind, as users write them: the copy is suspended whatever they say.
#[test]
fn a_job_is_copied_whole() {
    check(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: solve}, spec: {managedBy: portcullis.dev/multikueue, \
         ttlSecondsAfterFinished: 60, template: {spec: {restartPolicy: Never}}}}",
        true,
        Format::Yaml,
        expect![[r##"
            # dropped metadata.uid: the worker gives the copy its own
            # dropped spec.managedBy: the worker's own operator runs the copy
            # dropped spec.ttlSecondsAfterFinished: the copy stays until its end is told here
            # rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
            # added metadata.labels[portcullis.dev/origin]: names the manager
            # added metadata.annotations[portcullis.dev/local-uid]: names the local object
            # added metadata.annotations[portcullis.dev/local-name]: names the local object
            # added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local object
            # added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local object
            # added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
            # added metadata.annotations[portcullis.dev/uncommitted]: says that the local job has not recorded it
            apiVersion: batch/v1
            kind: Job
            metadata:
              annotations:
                portcullis.dev/local-attempt: "0"
                portcullis.dev/local-name: default/solve
                portcullis.dev/local-uid: 00000000-0000-0000-0000-000000000000
                portcullis.dev/source: 7b68e90fecbf7199e1c3caceea2ea01d4a7bec7bdbea837eef97708b2b14a84b
                portcullis.dev/uncommitted: "true"
              labels:
                portcullis.dev/origin: 00000000-0000-0000-0000-000000000000
              name: solve
              namespace: default
              ownerReferences:
              - apiVersion: v1
                controller: true
                kind: Namespace
                name: default
                uid: 00000000-0000-0000-0000-000000000000
            spec:
              suspend: true
              template:
                spec:
                  restartPolicy: Never
        "##]],
    );
    for kind in JobKinds::BUILT_IN.iter() {
        let printed = preview_remote(source(kind.example()), JobKinds::BUILT_IN, true, Format::Json).unwrap();
        let copy: Value = serde_json::from_str(&printed.stdout).unwrap();
        assert!(job::is_suspended(kind, &copy), "{}", kind.resource().kind);
        assert!(printed.stderr.contains("rewritten spec."), "{}", printed.stderr);
    }
}

#[test]
fn a_job_of_somebody_else_is_warned_about() {
    let job = "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {managedBy: example.com/x}}";
    let printed = preview_remote(source(job), JobKinds::BUILT_IN, false, Format::Table).unwrap();
    expect![[r#"
        Warning: pods.yaml, document 1: spec.managedBy is "example.com/x", so the job is somebody else's and never copied
    "#]].assert_eq(&printed.stderr);
}
