//! What cannot be read is refused with its path, what was found and what is allowed, and nothing panics.

use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::*;
use crate::workload::jobs::GANG_KINDS;

fn mpi() -> Case {
    job("MPIJob", "L1{1,1Gi} W2{1,1Gi}")
}

#[test]
fn bad_fields_are_refused_with_their_paths() {
    let requests = "/template/spec/containers/0/resources/requests/cpu";
    let at = |value: &str| mpi().role("Worker", requests, json!(value));
    let container = "refused: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests.cpu";
    check(vec![
        (
            "negative",
            mpi().min(-5),
            "refused: spec.runPolicy.schedulingPolicy.minAvailable",
        ),
        (
            "a text",
            mpi().policy("minAvailable", json!("2")),
            "refused: spec.runPolicy.schedulingPolicy.minAvailable",
        ),
        (
            "half",
            mpi().policy("minAvailable", json!(1.5)),
            "refused: spec.runPolicy.schedulingPolicy.minAvailable",
        ),
        (
            "timeout",
            mpi().policy("scheduleTimeoutSeconds", json!(-1)),
            "refused: spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        ),
        (
            "timeout",
            mpi().policy("scheduleTimeoutSeconds", json!("60")),
            "refused: spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        ),
        (
            "queue",
            mpi().policy("queue", json!(5)),
            "refused: spec.runPolicy.schedulingPolicy.queue",
        ),
        (
            "class",
            mpi().policy("priorityClass", json!({})),
            "refused: spec.runPolicy.schedulingPolicy.priorityClass",
        ),
        (
            "resources",
            mpi().policy("minResources", json!("1")),
            "refused: spec.runPolicy.schedulingPolicy.minResources",
        ),
        (
            "resources",
            mpi().policy("minResources", json!({"cpu": "1.5.0Gi"})),
            "refused: spec.runPolicy.schedulingPolicy.minResources.cpu",
        ),
        (
            "resources",
            mpi().policy("minResources", json!({"cpu": "-1"})),
            "refused: spec.runPolicy.schedulingPolicy.minResources.cpu",
        ),
        (
            "resources",
            mpi().policy("minResources", json!({"a.b/gpu": true})),
            "refused: spec.runPolicy.schedulingPolicy.minResources[a.b/gpu]",
        ),
        (
            "policy",
            mpi().with("/spec/runPolicy/schedulingPolicy", json!("x")),
            "refused: spec.runPolicy.schedulingPolicy",
        ),
        ("malformed", at("1.5.0Gi"), container),
        ("negative", at("-1"), container),
        ("too large", at("1e999"), container),
        (
            "malformed, though resources are given",
            at("two").policy("minResources", json!({"cpu": 1})),
            container,
        ),
        (
            "unknown role",
            job("MPIJob", "L1 Helper2"),
            "alone: UnknownReplicaType",
        ),
        (
            "a role twice",
            job("MPIJob", "L1 worker1 Worker1"),
            "refused: spec.mpiReplicaSpecs.worker",
        ),
        (
            "replicas",
            mpi().role("Worker", "/replicas", json!(-1)),
            "refused: spec.mpiReplicaSpecs.Worker.replicas",
        ),
        (
            "replicas",
            mpi().role("Worker", "/replicas", json!("2")),
            "refused: spec.mpiReplicaSpecs.Worker.replicas",
        ),
        (
            "replicas",
            mpi().role("Worker", "/replicas", json!(2_147_483_648u64)),
            "refused: spec.mpiReplicaSpecs.Worker.replicas",
        ),
        (
            "no template",
            mpi().role("Worker", "/template", json!(null)),
            "refused: spec.mpiReplicaSpecs.Worker.template",
        ),
        (
            "labels",
            mpi().role("Worker", "/template/metadata", json!({"labels": []})),
            "refused: spec.mpiReplicaSpecs.Worker.template.metadata.labels",
        ),
        (
            "elastic",
            job("PyTorchJob", "M1 W1").with("/spec/elasticPolicy/minReplicas", json!(-2)),
            "refused: spec.elasticPolicy.minReplicas",
        ),
        (
            "no name",
            mpi().with("/metadata", json!({})),
            "refused: metadata.name",
        ),
    ]);
    let error = mpi().min(0).decide().unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.runPolicy.schedulingPolicy.minAvailable: found 0, expected a number from 1 to 3, which are all pods of the job; left out, all must start together"
    );
    let error = mpi()
        .role("Worker", requests, json!("1.5.0Gi"))
        .decide()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("requests.cpu: found \"1.5.0Gi\", expected an amount such as 500m, 1.5Gi or 1e3")
    );
}

/// Any part of any kind's example in place of any other value: an answer, never a panic.
#[test]
fn no_misplaced_value_makes_the_translation_panic() {
    let odd = [
        json!(null),
        json!(5),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([{}]),
        json!(true),
    ];
    let facts = ClusterFacts::default();
    for kind in GANG_KINDS {
        let mut example: Value = serde_saphyr::from_str(kind.example()).unwrap();
        example["metadata"]["namespace"] = json!("team");
        let mut pointers = Vec::new();
        collect(&example, String::new(), &mut pointers);
        assert!(pointers.len() > 10);
        for pointer in &pointers {
            for value in &odd {
                let mut job = example.clone();
                *job.pointer_mut(pointer).unwrap() = value.clone();
                let native = BackEnd::Native(NativeVersion::V1beta1);
                for (back_end, moment) in [
                    (BackEnd::Coscheduling, Moment::Stored),
                    (BackEnd::Volcano, Moment::Admission),
                    (native, Moment::Admission),
                ] {
                    let subject = Subject {
                        kind: *kind,
                        job: &job,
                        back_end,
                        moment,
                        seed: "",
                        late_pods_exist: true,
                    };
                    if let Ok(Decision::Gang(gang)) = gang(&subject, &facts) {
                        gang.marks.apply(&job).unwrap();
                        let _ = back_end.objects(&gang.pod_group, 0, None, &facts.settings);
                    }
                }
            }
        }
    }
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| collect(value, format!("{at}/{}", key.replace('/', "~1")), pointers)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(place, value)| collect(value, format!("{at}/{place}"), pointers)),
        _ => {}
    }
    pointers.push(at);
}
