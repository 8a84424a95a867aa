use expect_test::{Expect, expect};

use super::super::testing::{self, MARKS, kind, local};
use super::*;
use crate::workload::jobs::JOB_KINDS;

fn lines(changes: &[Change]) -> String {
    let line = |Change { path, what, reason }: &Change| format!("{what} {path}: {reason}\n");
    changes.iter().map(line).collect()
}

/// A Job as a manager's API server gives it, of a CronJob and with Kueue's traces.
fn everything() -> Value {
    local(
        kind("Job"),
        json!({
            "metadata": {
                "generateName": "solve-", "creationTimestamp": "2026-11-30T09:00:00Z", "managedFields": [{}],
                "labels": {
                    "app": "solve", "kueue.x-k8s.io/queue-name": "team", "controller-uid": "local-uid",
                    "batch.kubernetes.io/controller-uid": "local-uid", "job-name": "solve",
                    "batch.kubernetes.io/job-name": "solve",
                },
                "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-30T09:00:00Z"},
                "ownerReferences": [{"kind": "CronJob", "name": "solve", "uid": "u", "controller": true}],
                "finalizers": [names::REMOTE_COPY],
            },
            "spec": {
                "manualSelector": false, "suspend": false, "ttlSecondsAfterFinished": 60,
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "local-uid"}},
                "tomorrow": {"unknown": [1, 2.5]},
                "template": {"metadata": {"labels": {
                    "mine": "kept", "controller-uid": "local-uid", "batch.kubernetes.io/controller-uid": "local-uid",
                    "job-name": "solve", "batch.kubernetes.io/job-name": "solve",
                }}},
            },
            "status": {"active": 1},
        }),
    )
}

#[test]
fn a_job_with_everything_gives_this_copy() {
    let copy = sanitize(kind("Job"), &everything(), &MARKS).unwrap();
    expect![[r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "annotations": {
              "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-30T09:00:00Z",
              "portcullis.dev/local-attempt": "0",
              "portcullis.dev/local-name": "lab/solve",
              "portcullis.dev/local-uid": "local-uid",
              "portcullis.dev/source": "39fb465dd62c8d2918d80c5d718f9b12e705a091e36679af83e4e2c0643d5b81",
              "portcullis.dev/uncommitted": "true"
            },
            "labels": {
              "app": "solve",
              "portcullis.dev/origin": "manager-uid"
            },
            "name": "solve",
            "namespace": "lab",
            "ownerReferences": [
              {
                "apiVersion": "v1",
                "controller": true,
                "kind": "Namespace",
                "name": "lab",
                "uid": "worker-namespace-uid"
              }
            ]
          },
          "spec": {
            "completionMode": "Indexed",
            "completions": 4,
            "manualSelector": false,
            "parallelism": 4,
            "suspend": true,
            "template": {
              "metadata": {
                "labels": {
                  "mine": "kept"
                }
              },
              "spec": {
                "containers": [
                  {
                    "image": "registry.k8s.io/pause:3.10",
                    "name": "main",
                    "resources": {
                      "requests": {
                        "cpu": 1,
                        "memory": "1Gi"
                      }
                    }
                  }
                ],
                "restartPolicy": "Never"
              }
            },
            "tomorrow": {
              "unknown": [
                1,
                2.5
              ]
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&copy.object).unwrap());
}

/// R13, R56, R65: nothing of the manager's controllers, selectors and clean-ups reaches the worker.
#[test]
fn the_copy_of_a_job_with_everything_differs_in_this() {
    let copy = sanitize(kind("Job"), &everything(), &MARKS).unwrap();
    expect![[r#"
        dropped metadata.annotations[portcullis.dev/cluster]: Portcullis' own, on the manager only
        dropped metadata.annotations[portcullis.dev/gang-scheduling]: Portcullis' own, on the manager only
        dropped metadata.annotations[portcullis.dev/remote-uid]: Portcullis' own, on the manager only
        dropped metadata.creationTimestamp: the worker writes its own
        dropped metadata.finalizers: nobody on the worker would ever remove them
        dropped metadata.generateName: the copy has the name that the manager made
        dropped metadata.generation: counts on the manager only
        dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for it, no Kueue on the worker does
        dropped metadata.managedFields: the worker writes its own
        dropped metadata.ownerReferences: the owner does not exist on the worker, whose garbage collector would delete the copy
        dropped metadata.resourceVersion: counts on the manager only
        dropped metadata.uid: the worker gives the copy its own
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.selector: made from the UID of the local Job; the worker makes its own
        dropped spec.ttlSecondsAfterFinished: the copy stays until its end is told here
        dropped metadata.labels[controller-uid]: made from the UID of the local Job; the worker makes its own
        dropped metadata.labels[job-name]: made from the UID of the local Job; the worker makes its own
        dropped metadata.labels[batch.kubernetes.io/controller-uid]: made from the UID of the local Job; the worker makes its own
        dropped metadata.labels[batch.kubernetes.io/job-name]: made from the UID of the local Job; the worker makes its own
        dropped spec.template.metadata.labels[controller-uid]: made from the UID of the local Job; the worker makes its own
        dropped spec.template.metadata.labels[job-name]: made from the UID of the local Job; the worker makes its own
        dropped spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: made from the UID of the local Job; the worker makes its own
        dropped spec.template.metadata.labels[batch.kubernetes.io/job-name]: made from the UID of the local Job; the worker makes its own
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        added metadata.labels[portcullis.dev/origin]: names the manager
        added metadata.annotations[portcullis.dev/local-uid]: names the local object
        added metadata.annotations[portcullis.dev/local-name]: names the local object
        added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local object
        added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local object
        added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
        added metadata.annotations[portcullis.dev/uncommitted]: says that the local job has not recorded it
    "#]].assert_eq(&lines(&copy.changes));
}

/// The user's own selector is his business on the worker too.
#[test]
fn a_manual_selector_is_kept_with_its_labels() {
    let mut job = everything();
    job["spec"]["manualSelector"] = true.into();
    let copy = sanitize(kind("Job"), &job, &MARKS).unwrap().object;
    assert_eq!(copy["spec"]["selector"], job["spec"]["selector"]);
    assert_eq!(copy["spec"]["manualSelector"], true);
    let labels = |job: &Value| job["spec"]["template"]["metadata"]["labels"].clone();
    assert_eq!(labels(&copy), labels(&job));
}

/// What the copy of each kind lacks or has more than the local job, but for metadata, which is the same in all.
#[test]
fn every_kind_is_copied_suspended_and_without_managed_by() {
    let shown = JOB_KINDS.iter().map(|kind| {
        let mut job = local(*kind, json!({}));
        for path in [
            &["spec", "ttlSecondsAfterFinished"][..],
            &["spec", "timeToLiveSeconds"],
        ] {
            testing::set(&mut job, path, 60.into());
        }
        if kind.suspend().contains(&"runPolicy") {
            testing::set(
                &mut job,
                &["spec", "runPolicy", "ttlSecondsAfterFinished"],
                60.into(),
            );
        }
        job["spec"]["runtimePatches"] = json!([{"manager": "kueue.x-k8s.io/manager"}, {"manager": "mine"}]);
        job["metadata"]["annotations"]["kueue.x-k8s.io/trainjob-override-idx"] = "1".into();
        job["spec"]["podTemplateOverrides"] =
            json!([{"targetJobs": [{"name": "mine"}]}, {"targetJobs": [{"name": "node"}]}]);
        if job["spec"]["components"].is_array() {
            job["spec"]["components"][0]["podSetInfos"] = json!([{"nodeSelector": {"pool": "m"}}]);
        }
        let RemoteCopy { object, changes, .. } = sanitize(*kind, &job, &MARKS).unwrap();
        assert!(super::super::forward::is_held(*kind, &object));
        assert!(super::super::is_uncommitted(&object));
        assert_eq!(super::super::claim(*kind, &object), super::super::Claim::Local);
        assert_eq!(object["metadata"]["labels"][names::ORIGIN], MARKS.origin);
        let of_spec: Vec<Change> = changes
            .into_iter()
            .filter(|change| change.path.starts_with("spec"))
            .collect();
        format!("{}\n{}", kind.resource().kind, lines(&of_spec))
    });
    expect![[r#"
        MPIJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        MPIJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        TFJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        PyTorchJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        XGBoostJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        PaddleJob
        dropped spec.runPolicy.managedBy: the worker's own operator runs the copy
        dropped spec.runPolicy.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.runPolicy.suspend: holds the copy until the local job has recorded it; then it follows the local job
        Job
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.ttlSecondsAfterFinished: the copy stays until its end is told here
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        JobSet
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.ttlSecondsAfterFinished: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        TrainJob
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.runtimePatches[0]: the manager's Kueue names nodes of the manager
        dropped spec.podTemplateOverrides[1]: the manager's Kueue names nodes of the manager
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        RayJob
        dropped spec.managedBy: the worker's own operator runs the copy
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        rewritten spec.shutdownAfterJobFinishes: without it the worker's operator refuses the suspended copy; then it follows the local job
        RayCluster
        dropped spec.managedBy: the worker's own operator runs the copy
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        RayService
        dropped spec.managedBy: the worker's own operator runs the copy
        rewritten spec.rayClusterConfig.suspend: holds the copy until the local job has recorded it; then it follows the local job
        AppWrapper
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.components[0].podSetInfos: the manager's Kueue names nodes of the manager
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
        SparkApplication
        dropped spec.managedBy: the worker's own operator runs the copy
        dropped spec.timeToLiveSeconds: the copy stays until its end is told here; then the local job keeps it
        rewritten spec.suspend: holds the copy until the local job has recorded it; then it follows the local job
    "#]].assert_eq(&shown.collect::<String>());
}

/// Laws of every kind: the hash is that of the copy, says nothing of marks, commit, status or the user's suspend, and does
/// with the rest; a copy of a copy is the same copy; unknown fields survive.
#[test]
fn the_hash_is_about_what_the_worker_gets() {
    for kind in JOB_KINDS {
        let name = kind.resource().kind;
        let mut job = local(*kind, json!({"spec": {"tomorrow": {"unknown": [1, 2.5]}}}));
        let copy = sanitize(*kind, &job, &MARKS).unwrap();
        assert_eq!(source(*kind, &job).as_ref(), Ok(&copy.source), "{name}");
        assert_eq!(
            copy.object["metadata"]["annotations"][names::SOURCE],
            copy.source.as_str()
        );
        assert_eq!(copy.object["spec"]["tomorrow"], job["spec"]["tomorrow"], "{name}");
        let mut again = copy.object.clone();
        again["metadata"]["uid"] = "remote-uid".into();
        assert_eq!(source(*kind, &again).as_ref(), Ok(&copy.source), "{name}");
        for suspended in [true, false] {
            testing::set(&mut job, kind.suspend(), suspended.into());
            job["status"] = json!({"active": 1});
            job["metadata"]["finalizers"] = json!([names::REMOTE_COPY]);
            assert_eq!(source(*kind, &job).as_ref(), Ok(&copy.source), "{name}");
        }
        job["spec"]["tomorrow"] = "other".into();
        assert_ne!(source(*kind, &job).as_ref(), Ok(&copy.source), "{name}");
    }
}

#[test]
fn the_hash_changes_with_this_version_only_on_purpose() {
    expect!["39fb465dd62c8d2918d80c5d718f9b12e705a091e36679af83e4e2c0643d5b81"]
        .assert_eq(&source(kind("Job"), &everything()).unwrap());
}

#[test]
fn an_unreadable_job_is_named_by_its_field() {
    let check = |name: &str, more: Value, expect: Expect| {
        let error = sanitize(kind(name), &local(kind(name), more), &MARKS).unwrap_err();
        expect.assert_eq(&format!("{}: {error}", error.name()));
    };
    check(
        "Job",
        json!({"spec": null}),
        expect!["FieldMissing: spec: missing; expected an object"],
    );
    check(
        "MPIJob",
        json!({"spec": {"runPolicy": [1]}}),
        expect!["FieldUnreadable: spec.runPolicy: found [1], expected an object"],
    );
    check(
        "RayService",
        json!({"spec": {"rayClusterConfig": "x"}}),
        expect![[r#"FieldUnreadable: spec.rayClusterConfig: found "x", expected an object"#]],
    );
    check(
        "Job",
        json!({"metadata": {"uid": null}}),
        expect!["FieldMissing: metadata.uid: missing; expected a non-empty string"],
    );
}
