//! Pairs, and the patch that is printed.

use std::error::Error as _;

use expect_test::{Expect, expect};

use super::*;

const LOCAL: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: l
  resourceVersion: '7'
  annotations: {portcullis.dev/cluster: worker-a, portcullis.dev/remote-uid: l/r}
spec: {containers: [{name: app}]}
status: {phase: Pending}
";
const REMOTE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, uid: r, annotations: {portcullis.dev/local-uid: l}}
spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], conditions: [{type: PodScheduled, status: 'True'}]}
";

#[test]
fn the_patch_is_shown() {
    check(
        LOCAL,
        REMOTE,
        expect![[r#"
            metadata:
              annotations:
                portcullis.dev/remote-node: node-1
              resourceVersion: "7"
              uid: l
            status:
              conditions:
              - lastTransitionTime: "2026-11-30T10:00:00Z"
                status: "True"
                type: PodScheduled
              - lastTransitionTime: "2026-11-30T10:00:00Z"
                message: on worker-a, node node-1
                reason: Scheduled
                status: "True"
                type: portcullis.dev/Dispatched
              phase: Running
        "#]],
    );
}

#[test]
fn addresses_are_shown_on_request() {
    let printed = preview_status(
        source(LOCAL),
        source(REMOTE),
        JobKinds::BUILT_IN,
        true,
        Format::Json,
        "now",
    )
    .unwrap()
    .stdout;
    assert_eq!(
        serde_json::from_str::<Value>(&printed).unwrap()["status"]["podIP"],
        "10.0.0.1"
    );
}

#[test]
fn a_table_has_a_line_for_each_value() {
    let printed = preview_status(
        source(LOCAL),
        source(REMOTE),
        JobKinds::BUILT_IN,
        false,
        Format::Table,
        "now",
    )
    .unwrap();
    expect![[r#"
        FIELD                                              VALUE
        metadata.annotations[portcullis.dev/remote-node]   node-1
        metadata.resourceVersion                           7
        metadata.uid                                       l
        status.conditions[0].lastTransitionTime            now
        status.conditions[0].status                        True
        status.conditions[0].type                          PodScheduled
        status.conditions[1].lastTransitionTime            now
        status.conditions[1].message                       on worker-a, node node-1
        status.conditions[1].reason                        Scheduled
        status.conditions[1].status                        True
        status.conditions[1].type                          portcullis.dev/Dispatched
        status.phase                                       Running
    "#]]
    .assert_eq(&printed.stdout);
}

#[test]
fn a_pod_not_committed_yet_is_shown_too() {
    let uncommitted = LOCAL.replace("portcullis.dev/remote-uid: l/r", "a: b");
    assert!(
        preview_status(
            source(&uncommitted),
            source(REMOTE),
            JobKinds::BUILT_IN,
            false,
            Format::Json,
            "now"
        )
        .is_ok()
    );
}

#[test]
fn nothing_to_write_is_said() {
    check(
        &LOCAL.replace("Pending", "Succeeded"),
        REMOTE,
        expect![[r#"
                {}
                nothing to write: the patch is empty
            "#]],
    );
}

#[test]
fn strangers_are_refused() {
    check(
        &LOCAL.replace("uid: l\n", "uid: x\n"),
        REMOTE,
        expect![
            "the two are no pair: the remote object's annotation local-uid names l, but the local object is x"
        ],
    );
    check(
        LOCAL,
        &REMOTE.replace("uid: r,", "uid: x,"),
        expect![
            "the two are no pair: the local object's annotation remote-uid names l/r, but the remote object is l/x"
        ],
    );
    check(
        LOCAL,
        &REMOTE.replace("portcullis.dev/local-uid: l", "a: b"),
        expect![
            "remote object: metadata.annotations[portcullis.dev/local-uid] is missing, so nothing proves that the two belong together"
        ],
    );
    check(
        &LOCAL.replace("  uid: l\n", ""),
        REMOTE,
        expect!["local object: metadata.uid is missing, so nothing proves that the two belong together"],
    );
}

#[test]
fn what_no_pod_has_is_warned_about_and_a_wrong_type_refused() {
    let typo = REMOTE.replace("podIP:", "podIp:");
    let printed = preview_status(
        source(LOCAL),
        source(&typo),
        JobKinds::BUILT_IN,
        false,
        Format::Json,
        "now",
    )
    .unwrap();
    expect![[r#"
        Warning: remote pod: status.podIp: no pod of Kubernetes 1.37 has this field, so it does nothing; correct its name or its place, or remove it
    "#]].assert_eq(&printed.stderr);
    check(
        &LOCAL.replace("phase: Pending", "phase: 5"),
        REMOTE,
        expect!["local pod: status.phase: found integer `5`, expected a string"],
    );
}

#[test]
fn what_is_not_dispatched_is_refused() {
    check(
        "{apiVersion: apps/v1, kind: Deployment}",
        REMOTE,
        expect![
            "local object: found a Deployment of apps/v1, expected a Pod of v1 or one of the jobs MPIJob, TFJob, PyTorchJob, XGBoostJob, PaddleJob, Job, JobSet, TrainJob, RayJob, RayCluster, RayService, AppWrapper, SparkApplication, as `kubectl get KIND NAME -o yaml` prints it"
        ],
    );
    check(
        LOCAL,
        &format!("{REMOTE}---{REMOTE}"),
        expect![
            "remote object: found 2 objects, expected a Pod of v1 or one of the jobs MPIJob, TFJob, PyTorchJob, XGBoostJob, PaddleJob, Job, JobSet, TrainJob, RayJob, RayCluster, RayService, AppWrapper, SparkApplication, as `kubectl get KIND NAME -o yaml` prints it"
        ],
    );
    check("", REMOTE, expect!["local object: no object found in pod.yaml"]);
    check(
        LOCAL,
        "a: [",
        expect!["remote object: pod.yaml is neither YAML nor JSON: unclosed bracket '[' at line 1, column 4"],
    );
}

fn source(text: &str) -> Source {
    Source {
        name: "pod.yaml".to_owned(),
        text: text.to_owned(),
    }
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)]
fn check(local: &str, remote: &str, expect: Expect) {
    expect.assert_eq(&match preview_status(
        source(local),
        source(remote),
        JobKinds::BUILT_IN,
        false,
        Format::Yaml,
        "2026-11-30T10:00:00Z",
    ) {
        Ok(Printout { stdout, stderr }) => stdout + &stderr,
        Err(error) => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    });
}

const LOCAL_JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: solve
  uid: l
  resourceVersion: '7'
  annotations: {portcullis.dev/cluster: worker-a, portcullis.dev/remote-uid: l/r}
spec: {suspend: false}
";
const REMOTE_JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: solve, uid: r, annotations: {portcullis.dev/local-uid: l}}
spec: {suspend: false}
status: {startTime: '2026-11-30T09:00:00Z', active: 2, uncountedTerminatedPods: {}}
";

#[test]
fn the_patch_of_a_job_is_shown() {
    check(
        LOCAL_JOB,
        REMOTE_JOB,
        expect![[r#"
        metadata:
          resourceVersion: "7"
          uid: l
        status:
          active: 2
          conditions:
          - lastTransitionTime: "2026-11-30T10:00:00Z"
            message: on worker-a
            reason: Open
            status: "True"
            type: portcullis.dev/Dispatched
          startTime: "2026-11-30T09:00:00Z"
    "#]],
    );
    // Kinds whose status has no conditions get none.
    let ray = |job: &str| {
        job.replace("batch/v1", "ray.io/v1")
            .replace("kind: Job", "kind: RayJob")
    };
    check(
        &ray(LOCAL_JOB),
        &ray(REMOTE_JOB),
        expect![[r#"
        metadata:
          resourceVersion: "7"
          uid: l
        status:
          active: 2
          startTime: "2026-11-30T09:00:00Z"
    "#]],
    );
    check(
        LOCAL_JOB,
        &ray(REMOTE_JOB),
        expect![
            "the two are no pair: the local one is a Job of batch/v1, the remote one a RayJob of ray.io/v1"
        ],
    );
}
