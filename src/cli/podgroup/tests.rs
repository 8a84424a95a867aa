//! One file of jobs -> what is printed.

mod marks;
mod remarks;

use clap::Parser;
use expect_test::{Expect, expect};

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: PodgroupArgs,
}

const JOB: &str = "
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  runPolicy:
    schedulingPolicy: {queue: research, minAvailable: 3}
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1500m, memory: 2Gi}}}]}}
";

#[test]
fn a_job_becomes_a_list_of_objects() {
    check(
        &["--scheduler", "coscheduling"],
        JOB,
        expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: scheduling.x-k8s.io/v1alpha1
          kind: PodGroup
          metadata:
            annotations:
              portcullis.dev/queue: research
            labels:
              app.kubernetes.io/managed-by: portcullis
              portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
            name: pi
            namespace: default
            ownerReferences:
            - apiVersion: kubeflow.org/v2beta1
              blockOwnerDeletion: true
              controller: true
              kind: MPIJob
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
          spec:
            minMember: 3
            minResources:
              cpu: "4"
              memory: 5Gi
        kind: List
        on standard error:
        QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: coscheduling has no queues; it is kept in an annotation of the PodGroup
    "#]],
    );
    check(
        &["--scheduler", "volcano"],
        JOB,
        expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: scheduling.volcano.sh/v1beta1
          kind: PodGroup
          metadata:
            labels:
              app.kubernetes.io/managed-by: portcullis
              portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
            name: pi
            namespace: default
            ownerReferences:
            - apiVersion: kubeflow.org/v2beta1
              blockOwnerDeletion: true
              controller: true
              kind: MPIJob
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
          spec:
            minMember: 3
            minResources:
              count/pods: "3"
              cpu: "4"
              memory: 5Gi
              pods: "3"
              requests.cpu: "4"
              requests.memory: 5Gi
            queue: research
        kind: List
        on standard error:
    "#]],
    );
    check(
        &["--scheduler", "native"],
        JOB,
        expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: scheduling.k8s.io/v1beta1
          kind: Workload
          metadata:
            labels:
              app.kubernetes.io/managed-by: portcullis
              portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
            name: pi
            namespace: default
            ownerReferences:
            - apiVersion: kubeflow.org/v2beta1
              blockOwnerDeletion: true
              controller: true
              kind: MPIJob
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
          spec:
            controllerRef:
              apiGroup: kubeflow.org
              kind: MPIJob
              name: pi
            podGroupTemplates:
            - disruptionMode:
                all: {}
              name: gang
              schedulingPolicy:
                gang:
                  minCount: 3
        - apiVersion: scheduling.k8s.io/v1beta1
          kind: PodGroup
          metadata:
            labels:
              app.kubernetes.io/managed-by: portcullis
              portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
            name: pi-13ff8658
            namespace: default
            ownerReferences:
            - apiVersion: kubeflow.org/v2beta1
              blockOwnerDeletion: true
              controller: true
              kind: MPIJob
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
            - apiVersion: scheduling.k8s.io/v1beta1
              kind: Workload
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
          spec:
            disruptionMode:
              all: {}
            schedulingPolicy:
              gang:
                minCount: 3
            workloadRef:
              templateName: gang
              workloadName: pi
        kind: List
        on standard error:
        QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: native has no queues
    "#]],
    );
    check(
        &["--scheduler", "native", "--kubernetes", "v1.35.4", "-o", "json"],
        JOB,
        expect![[r#"
            {
              "apiVersion": "v1",
              "items": [
                {
                  "apiVersion": "scheduling.k8s.io/v1alpha1",
                  "kind": "Workload",
                  "metadata": {
                    "labels": {
                      "app.kubernetes.io/managed-by": "portcullis",
                      "portcullis.dev/job-uid": "00000000-0000-0000-0000-000000000000"
                    },
                    "name": "pi",
                    "namespace": "default",
                    "ownerReferences": [
                      {
                        "apiVersion": "kubeflow.org/v2beta1",
                        "blockOwnerDeletion": true,
                        "controller": true,
                        "kind": "MPIJob",
                        "name": "pi",
                        "uid": "00000000-0000-0000-0000-000000000000"
                      }
                    ]
                  },
                  "spec": {
                    "controllerRef": {
                      "apiGroup": "kubeflow.org",
                      "kind": "MPIJob",
                      "name": "pi"
                    },
                    "podGroups": [
                      {
                        "name": "gang",
                        "policy": {
                          "gang": {
                            "minCount": 3
                          }
                        }
                      }
                    ]
                  }
                }
              ],
              "kind": "List"
            }
            on standard error:
            QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: native has no queues
        "#]],
    );
}

#[test]
fn facts_of_the_cluster_come_from_options() {
    let bare = JOB
        .replace("{cpu: 1, memory: 1Gi}", "{}")
        .replace("queue: research", "priorityClass: high");
    let bare = bare.replace("spec: {containers", "spec: {runtimeClassName: kata, containers");
    let ranges = "
{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: other}, spec: {limits: [{type: Container, defaultRequest: {cpu: 64}}]}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: b}, spec: {limits: [{type: Container, default: {cpu: 2}}]}}
";
    let classes = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 100m}}}";
    let args = parsed(&["--scheduler", "volcano", "--priority-class", "high=1000"]);
    let found = args
        .translate(&[source(&bare)], &[source(ranges)], &[source(classes)])
        .unwrap();
    expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: scheduling.volcano.sh/v1beta1
          kind: PodGroup
          metadata:
            labels:
              app.kubernetes.io/managed-by: portcullis
              portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
            name: pi
            namespace: default
            ownerReferences:
            - apiVersion: kubeflow.org/v2beta1
              blockOwnerDeletion: true
              controller: true
              kind: MPIJob
              name: pi
              uid: 00000000-0000-0000-0000-000000000000
          spec:
            minMember: 3
            minResources:
              count/pods: "3"
              cpu: 5300m
              limits.cpu: 6300m
              memory: 4Gi
              pods: "3"
              requests.cpu: 5300m
              requests.memory: 4Gi
            priorityClassName: high
        kind: List
        on standard error:
    "#]]
    .assert_eq(&shown(&found));
    let swapped = args
        .translate(&[source(&bare)], &[source(classes)], &[])
        .unwrap_err();
    expect!["jobs.yaml, document 1 is a RuntimeClass, expected a LimitRange"].assert_eq(&swapped.to_string());
}

#[test]
fn a_name_that_only_a_cluster_can_make_is_a_placeholder() {
    let args = parsed(&["--scheduler", "coscheduling"]);
    let found = args
        .translate(
            &[source(&JOB.replace("{name: pi}", "{generateName: pi-}"))],
            &[],
            &[],
        )
        .unwrap();
    assert!(
        found.printout.stdout.contains("name: pi-xxxxx\n"),
        "{}",
        found.printout.stdout
    );
}

#[test]
fn options_are_checked() {
    let wrong = |args: &[&str]| Cli::try_parse_from(["podgroup", "-f", "-"].iter().chain(args)).is_err();
    assert!(wrong(&[]));
    assert!(wrong(&["--scheduler", "auto"]));
    assert!(wrong(&["--scheduler", "native", "--kubernetes", "2.0"]));
    assert!(wrong(&["--scheduler", "native", "--priority-class", "high"]));
    assert!(wrong(&["--scheduler", "native", "-o", "table"]));
    assert!(!wrong(&[
        "--scheduler",
        "native",
        "--priority-class",
        "low=-5",
        "--global-default-priority",
        "-1"
    ]));
}

#[test]
fn the_list_is_there_though_it_is_empty_and_is_read_back() {
    for format in ["yaml", "json"] {
        let args = parsed(&["--scheduler", "volcano", "-o", format]);
        let found = args.translate(&[source(JOB)], &[], &[]).unwrap().printout.stdout;
        let objects = documents::parse(&[source(&found)]).unwrap();
        assert_eq!(objects.len(), 1, "{format}");
        assert_eq!(
            found,
            args.translate(&[source(JOB)], &[], &[]).unwrap().printout.stdout
        );
    }
}

fn parsed(args: &[&str]) -> PodgroupArgs {
    Cli::parse_from(["podgroup", "-f", "-"].iter().chain(args)).args
}

fn source(text: &str) -> Source {
    Source {
        name: "jobs.yaml".to_owned(),
        text: text.to_owned(),
    }
}

fn shown(Translation { printout, refusals }: &Translation) -> String {
    let refusals = refusals
        .as_ref()
        .map_or(String::new(), |refusals| format!("refused:\n{refusals}\n"));
    format!(
        "{}on standard error:\n{}{refusals}",
        printout.stdout, printout.stderr
    )
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)]
fn check(args: &[&str], jobs: &str, expect: Expect) {
    expect.assert_eq(&match parsed(args).translate(&[source(jobs)], &[], &[]) {
        Ok(translation) => shown(&translation),
        Err(error) => error.to_string(),
    });
}
