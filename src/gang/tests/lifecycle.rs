//! What of a job's life the pure part decides: who acts, whose an object is, when its time is over.

use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::*;

fn mpi() -> Case {
    job("MPIJob", "L1 W2")
}

fn condition(case: Case, condition: &str) -> Case {
    case.with(
        "/status/conditions",
        json!([{"type": condition, "status": "True"}]),
    )
}

fn completed(case: Case) -> Case {
    case.with("/status/completionTime", json!("2026-01-01T00:00:00Z"))
}

#[test]
fn every_row_of_who_acts() {
    let managed = |by: &str| mpi().with("/spec/runPolicy/managedBy", json!(by));
    check(vec![
        (
            "V116",
            managed("kueue.x-k8s.io/multikueue"),
            "alone: ManagedElsewhere",
        ),
        ("V116 local", managed("kubeflow.org/mpi-operator"), "3 of 3 |"),
        (
            "V116 local to another operator",
            managed("kubeflow.org/training-operator"),
            "alone: ManagedElsewhere",
        ),
        (
            "V117",
            mpi().with("/metadata/annotations/portcullis.dev~1stand-down", json!("")),
            "alone: OperatorManagesPodGroup",
        ),
        (
            "V122",
            mpi().with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            "alone: Deleting",
        ),
        (
            "V108",
            completed(condition(mpi(), "Succeeded")),
            "alone: Finished",
        ),
        ("V109", condition(mpi(), "Failed"), "3 of 3 |"),
        (
            "V109 training operator",
            condition(job("TFJob", "W1"), "Failed"),
            "alone: Finished",
        ),
        (
            "the finished are not refused any more",
            completed(condition(mpi().min(-1), "Failed")),
            "alone: Finished",
        ),
        (
            "opted out",
            mpi().with(
                "/metadata/annotations/portcullis.dev~1gang-scheduling",
                json!("false"),
            ),
            "alone: NotOptedIn",
        ),
        (
            "opted in by annotation",
            mpi().with("/spec/runPolicy", json!({})).with(
                "/metadata/annotations/portcullis.dev~1gang-scheduling",
                json!("true"),
            ),
            "3 of 3 |",
        ),
    ]);
}

#[test]
fn every_row_of_whose_an_object_is() {
    let torch = job("PyTorchJob", "M1 W1");
    let reference = torch.gang().pod_group.job;
    let ours = torch.objects().remove(0);
    let other_kind = job("TFJob", "W1")
        .with("/metadata/uid", json!("other"))
        .objects()
        .remove(0);
    let earlier = torch
        .clone()
        .with("/metadata/uid", json!("earlier"))
        .objects()
        .remove(0);
    let without = |pointer: &str| {
        let mut object = ours.clone();
        *object.pointer_mut(pointer).unwrap() = Value::Null;
        object
    };
    let mut deleted = ours.clone();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for (id, object, expected) in [
        ("V101", without("/metadata/ownerReferences"), Standing::Foreign),
        ("V103", deleted, Standing::Terminating),
        ("V104", other_kind, Standing::Foreign),
        ("V117", without("/metadata/labels"), Standing::Operators),
        ("an earlier job", earlier, Standing::Stale),
        ("ours", ours.clone(), Standing::Ours),
    ] {
        assert_eq!(standing(&object, &reference), expected, "{id}");
    }
}

#[test]
fn every_row_of_ends() {
    let suspended = mpi().with("/spec/runPolicy/suspend", json!(true));
    let succeeded = completed(condition(mpi(), "Succeeded"));
    let idle = DeleteOnFinish::WhenIdle;
    for (id, case, living, on_finish, expected) in [
        ("V105", suspended.clone(), 0, idle, true),
        ("V105 with pods", suspended, 1, idle, false),
        ("V106", mpi(), 0, idle, false),
        ("V108", succeeded.clone(), 0, idle, true),
        ("V108 with pods", succeeded.clone(), 2, idle, false),
        ("V108 always", succeeded.clone(), 2, DeleteOnFinish::Always, true),
        ("V108 never", succeeded, 0, DeleteOnFinish::Never, false),
        ("V109", condition(mpi(), "Failed"), 0, idle, false),
        ("V115", mpi(), 2, idle, false),
    ] {
        let subject = case.subject();
        assert_eq!(
            is_over(subject.kind, subject.job, living, on_finish),
            expected,
            "{id}"
        );
    }
}

/// V78, V87, V106, V114, V115, V120: the object follows the spec, and nothing else.
#[test]
fn the_object_follows_the_spec() {
    let spec = |case: Case| case.objects()[0]["spec"].clone();
    assert_eq!(spec(job("MPIJob", "L1 W5")), json!({"minMember": 6}), "V114");
    assert_eq!(
        spec(job("MPIJob", "L1 W5").on(BackEnd::Volcano))["minMember"],
        6,
        "V114"
    );
    assert_eq!(
        spec(mpi().with("/status/replicaStatuses", json!({"Worker": {"failed": 1}}))),
        spec(mpi()),
        "V115"
    );
    assert_eq!(
        spec(mpi().with("/spec/runPolicy/suspend", json!(false))),
        spec(mpi()),
        "V106"
    );
    let impossible = job("MPIJob", "L1{1,1Gi} W1{1,1Gi}").policy("minResources", json!({"cpu": "100000"}));
    assert_eq!(spec(impossible)["minResources"], json!({"cpu": "100000"}), "V120");
    assert_eq!(
        spec(job("MPIJob", "L1{1,1Gi} W1{1,1Gi}"))["minResources"],
        json!({"cpu": "2", "memory": "2Gi"}),
        "V120"
    );
}

/// kubeflow/mpi-operator#615: what a hold would change is not held.
#[test]
fn a_job_that_waits_for_its_workers_is_not_held() {
    let can_be_held = |case: &Case| case.subject().kind.can_be_held(&case.job);
    assert!(can_be_held(&mpi()));
    assert!(!can_be_held(&mpi().wait_for_workers()));
}
