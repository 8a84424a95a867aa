use expect_test::expect;
use serde_json::json;

use super::testing::{self, NOW, applied, dispatched, kind, local, mirrored, remote};
use super::*;
use crate::workload::jobs::{JOB_KINDS, LOST};

/// Foreign values are left alone (R57); the operator's own name says as much as nothing.
#[test]
fn a_job_is_ours_by_its_managed_by() {
    let lines = ["Job", "MPIJob", "TFJob", "TrainJob"]
        .into_iter()
        .flat_map(|name| {
            let kind = kind(name);
            let by_us = json!({names::DISPATCHED_BY: names::GATE});
            let cases = [
                (json!(null), json!({})),
                (json!(""), json!({})),
                (json!(kind.managed_by().local), json!({})),
                (json!(names::GATE), json!({})),
                (json!(names::KUEUES_MANAGER), by_us.clone()),
                (json!(names::KUEUES_MANAGER), json!({})),
                (json!("example.com/x"), by_us),
            ];
            cases.map(|(value, annotations)| {
                let mut job = json!({"metadata": {"annotations": annotations}});
                testing::set(&mut job, kind.managed_by().path, value.clone());
                let said = if annotations == json!({}) { "" } else { " by us" };
                format!("{name} {value}{said}: {:?}\n", claim(kind, &job))
            })
        });
    expect![[r#"
        Job null: Local
        Job "": Local
        Job "kubernetes.io/job-controller": Local
        Job "portcullis.dev/multikueue": Ours
        Job "kueue.x-k8s.io/multikueue" by us: Foreign("kueue.x-k8s.io/multikueue")
        Job "kueue.x-k8s.io/multikueue": Foreign("kueue.x-k8s.io/multikueue")
        Job "example.com/x" by us: Foreign("example.com/x")
        MPIJob null: Local
        MPIJob "": Local
        MPIJob "kubeflow.org/mpi-operator": Local
        MPIJob "portcullis.dev/multikueue": Ours
        MPIJob "kueue.x-k8s.io/multikueue" by us: Foreign("kueue.x-k8s.io/multikueue")
        MPIJob "kueue.x-k8s.io/multikueue": Foreign("kueue.x-k8s.io/multikueue")
        MPIJob "example.com/x" by us: Foreign("example.com/x")
        TFJob null: Local
        TFJob "": Local
        TFJob "kubeflow.org/training-operator": Local
        TFJob "portcullis.dev/multikueue": Ours
        TFJob "kueue.x-k8s.io/multikueue" by us: Ours
        TFJob "kueue.x-k8s.io/multikueue": Foreign("kueue.x-k8s.io/multikueue")
        TFJob "example.com/x" by us: Foreign("example.com/x")
        TrainJob null: Local
        TrainJob "": Local
        TrainJob "trainer.kubeflow.org/trainjob-controller": Local
        TrainJob "portcullis.dev/multikueue": Ours
        TrainJob "kueue.x-k8s.io/multikueue" by us: Ours
        TrainJob "kueue.x-k8s.io/multikueue": Foreign("kueue.x-k8s.io/multikueue")
        TrainJob "example.com/x" by us: Foreign("example.com/x")
    "#]]
    .assert_eq(&lines.collect::<String>());
}

#[test]
fn a_time_to_live_is_kept_where_the_operator_would_not() {
    let lines = JOB_KINDS.iter().map(|kind| {
        let mut job = local(*kind, json!({}));
        let path = kind
            .dispatch()
            .ttl
            .unwrap_or(&["spec", "ttlSecondsAfterFinished"]);
        testing::set(&mut job, path, 60.into());
        assert_eq!(due_at(*kind, &job), None, "it runs");
        let lost = mirror::failed(*kind, &job, LOST[0], "gone", &lost(), NOW);
        let ended = applied(&job, &lost);
        let at = |seconds: i64| seconds - NOW.parse::<jiff::Timestamp>().unwrap().as_second();
        assert_eq!(finished_at(*kind, &ended).map(at), Some(0));
        let due = due_at(*kind, &ended).map(at);
        for never in [json!(null), json!(-1), json!("60")] {
            let mut ended = ended.clone();
            testing::set(&mut ended, path, never);
            assert_eq!(due_at(*kind, &ended), None);
        }
        format!("{}: {due:?}\n", kind.resource().kind)
    });
    expect![[r#"
        MPIJob: Some(60)
        MPIJob: Some(60)
        TFJob: Some(60)
        PyTorchJob: Some(60)
        XGBoostJob: Some(60)
        PaddleJob: Some(60)
        Job: None
        JobSet: Some(60)
        TrainJob: None
        RayJob: None
        RayCluster: None
        RayService: None
        AppWrapper: None
        SparkApplication: Some(60)
    "#]]
    .assert_eq(&lines.collect::<String>());
}

fn lost() -> mirror::Dispatched {
    mirror::Dispatched {
        status: false,
        reason: LOST[0].into(),
        message: "gone from worker-a".into(),
    }
}

/// Laws of every kind: what was written needs no second write, and what has ended needs none ever.
#[test]
fn the_status_of_every_kind_comes_to_rest() {
    for kind in JOB_KINDS {
        let name = kind.resource().kind;
        let before = local(*kind, json!({}));
        let running = remote(
            *kind,
            json!({"status": {"observedGeneration": 9, "tomorrow": {"unknown": [1, 2.5]}, "conditions": [
                {"type": "Running", "status": "True", "observedGeneration": 9, "lastTransitionTime": NOW},
            ]}}),
        );
        assert!(!seen_open(*kind, &before), "{name}");
        let after = applied(&before, &mirrored(*kind, &before, &running).unwrap());
        assert_eq!(mirrored(*kind, &after, &running), None, "{name}");
        assert_eq!(
            mirror::condition_patch(*kind, &after, &dispatched(), "later"),
            None,
            "{name}"
        );
        assert!(seen_open(*kind, &after), "{name}");
        assert_eq!(
            after["status"]["tomorrow"], running["status"]["tomorrow"],
            "{name}"
        );
        assert_eq!(after["status"]["observedGeneration"], 3, "{name}");
        let failed = mirror::failed(*kind, &after, LOST[0], "gone", &lost(), NOW);
        assert_eq!(
            failed["metadata"],
            json!({"uid": "local-uid", "resourceVersion": "7"})
        );
        let ended = applied(&after, &failed);
        assert!(kind.is_finished(&ended), "{name}: {ended}");
        assert_eq!(mirrored(*kind, &ended, &running), None, "{name}");
        assert_eq!(
            mirror::condition_patch(*kind, &ended, &dispatched(), NOW),
            None,
            "{name}"
        );
    }
}

/// What each kind says of itself when its copy is gone.
#[test]
fn every_kind_fails_in_its_own_terms() {
    let lines = JOB_KINDS.iter().map(|kind| {
        let status = json!({
            "active": 2, "ready": 1, "replicaStatuses": {"Worker": {"active": 2, "failed": 1}},
            "replicatedJobsStatus": [{"name": "workers", "active": 2, "ready": 2}],
            "jobsStatus": [{"name": "node", "active": 1}], "numServeEndpoints": 2, "serviceStatus": "Running",
            "conditions": [{"type": "Running", "status": "True", "lastTransitionTime": testing::BEFORE}],
        });
        let job = local(*kind, json!({"status": status}));
        let patch = mirror::failed(*kind, &job, LOST[0], "gone", &lost(), NOW);
        let fields = patch["status"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(field, value)| match value {
                Value::Array(items) => {
                    let items: String = items.iter().map(|item| format!("  - {item}\n")).collect();
                    format!("  {field}:\n{items}")
                }
                value => format!("  {field}: {value}\n"),
            });
        format!("{}\n{}", kind.resource().kind, fields.collect::<String>())
    });
    let once: std::collections::BTreeSet<String> = lines.collect();
    expect![[r#"
        AppWrapper
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"ResourcesDeployed"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"PodsReady"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Unhealthy"}
          phase: "Failed"
        Job
          active: 0
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"FailureTarget"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          ready: 0
          startTime: "2026-11-30T10:00:00Z"
        JobSet
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicatedJobsStatus:
          - {"active":0,"name":"workers","ready":0}
          terminalState: "Failed"
        MPIJob
          completionTime: "2026-11-30T10:00:00Z"
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicaStatuses: {"Worker":{"active":0}}
        PaddleJob
          completionTime: "2026-11-30T10:00:00Z"
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicaStatuses: {"Worker":{"active":0}}
        PyTorchJob
          completionTime: "2026-11-30T10:00:00Z"
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicaStatuses: {"Worker":{"active":0}}
        RayCluster
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"HeadPodReady"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"ReplicaFailure"}
          reason: "gone"
          state: "failed"
        RayJob
          endTime: "2026-11-30T10:00:00Z"
          jobDeploymentStatus: "Failed"
          jobStatus: "FAILED"
          message: "gone"
          reason: "RemoteJobDeleted"
        RayService
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Ready"}
          numServeEndpoints: 0
          serviceStatus: ""
        SparkApplication
          applicationState: {"errorMessage":"RemoteJobDeleted: gone","state":"FAILED"}
          terminationTime: "2026-11-30T10:00:00Z"
        TFJob
          completionTime: "2026-11-30T10:00:00Z"
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicaStatuses: {"Worker":{"active":0}}
        TrainJob
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          jobsStatus:
          - {"active":0,"name":"node"}
        XGBoostJob
          completionTime: "2026-11-30T10:00:00Z"
          conditions:
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemoteJobDeleted","status":"False","type":"portcullis.dev/Dispatched"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"False","type":"Running"}
          - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone","reason":"RemoteJobDeleted","status":"True","type":"Failed"}
          replicaStatuses: {"Worker":{"active":0}}
    "#]].assert_eq(&once.into_iter().collect::<String>());
}
