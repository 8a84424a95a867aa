//! Tests of the end of a hold when writes fail.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Plan, plan};
use crate::gang::{ClusterFacts, DeleteOnFinish, Served};
use crate::names;
use crate::reconcile::gang::cluster::COSCHEDULING;
use crate::reconcile::gang::execute::{Step, Why};
use crate::reconcile::gang::observed::{Memory, Observed};
use crate::reconcile::gang::store::{JobKey, Seen, Store};
use crate::workload::jobs::gang_kind_of;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_group_that_is_refused_ends_the_hold_in_time() {
    let refused = Some("no groups today");
    assert!(matches!(at(0, None).steps[..], [Step::Create { .. }]));
    let early = at(45, refused);
    assert!(
        matches!(early.steps[..], [Step::Create { .. }]),
        "it is tried again"
    );
    assert_eq!(
        early.look_again,
        Some(Duration::from_secs(15)),
        "no pause outlasts the hold"
    );
    let late = at(60, refused);
    let released = matches!(
        late.steps[..],
        [Step::PatchJob {
            why: Why::Release,
            ..
        }]
    );
    assert!(released, "{late:?}");
    assert_eq!(late.notices[0].reason.name(), "HoldTimedOut");
}

#[test]
fn a_group_that_was_not_tried_yet_is_tried_whatever_the_hold_lasted() {
    assert!(matches!(at(600, None).steps[..], [Step::Create { .. }]));
}

/// The policy in the API server holds a job of a gang namespace whoever is to run it.
#[test]
fn a_hold_of_a_job_that_runs_elsewhere_ends_at_once() {
    let plan = plan_of("portcullis.dev/multikueue", 0, None);
    let released = matches!(
        plan.steps[..],
        [Step::PatchJob {
            why: Why::Release,
            ..
        }]
    );
    assert!(released, "{plan:?}");
    assert!(plan.notices.is_empty(), "{plan:?}");
}

/// The plan for a job that has been held for so many seconds.
fn at(seconds: u64, refused: Option<&str>) -> Plan {
    plan_of("kubeflow.org/mpi-operator", seconds, refused)
}

fn plan_of(managed_by: &str, seconds: u64, refused: Option<&str>) -> Plan {
    let job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {
            "name": "train", "namespace": "n", "uid": "j1", "resourceVersion": "5", "annotations": {names::HELD: "true"},
        },
        "spec": {
            "runPolicy": {"schedulingPolicy": {}, "suspend": true, "managedBy": managed_by},
            "mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": [{"name": "main"}]}}}},
        },
    });
    let kind = gang_kind_of(&job).unwrap();
    let began = Instant::now();
    let observed = Observed {
        key: JobKey {
            resource: kind.resource(),
            namespace: "n".into(),
            name: "train".into(),
        },
        kind,
        job: Seen::of(job).unwrap(),
        copy: None,
        label: Some("coscheduling".into()),
        dispatched: false,
        served: Served {
            coscheduling: true,
            ..Served::default()
        },
        facts: Arc::new(ClusterFacts::default()),
        hold_timeout: TIMEOUT,
        delete_on_finish: DeleteOnFinish::WhenIdle,
        knows: BTreeSet::from([(COSCHEDULING.group, COSCHEDULING.plural)]),
        knows_pods: true,
        groups: &Store::default(),
        memory: Memory {
            held_since: Some(began),
            refused: refused.map(str::to_owned),
            ..Memory::default()
        },
    };
    plan(&observed, began + Duration::from_secs(seconds))
}
