//! Jobs: where each kind keeps what dispatch and gangs need (pure).
//!
//! A kind is one file and one line of [`JOB_KINDS`]; one that can be a gang has a line of [`GANG_KINDS`] too. A file says
//! where the kind keeps things, and the rules of its operator for what is left out; what becomes of a job is the matter of
//! [`crate::job`], what becomes of its gang that of [`crate::gang`].

use serde_json::{Map, Value};

use super::Resource;

mod app_wrapper;
mod batch_job;
mod batch_status;
pub mod conditions;
mod configured;
mod dispatch;
mod field;
mod gang_kind;
mod jax_job;
mod job_set;
mod kubeflow;
mod mpi_job;
mod mpi_job_v1;
mod paddle_job;
mod pod_labels;
mod pytorch_job;
mod ray;
mod ray_cluster;
mod ray_job;
mod ray_service;
mod registry;
mod spark_application;
mod tf_job;
mod train_job;
mod xgboost_job;

pub use app_wrapper::AppWrapper;
pub use batch_job::BatchJob;
pub use configured::ConfiguredKind;
pub(crate) use dispatch::remove;
pub use dispatch::{Dispatch, Failure, LOST, REMOTE_JOB_DELETED, REMOTE_ROLLED_BACK, Written};
pub use field::{Field, FieldPath, InvalidField};
pub use gang_kind::{GANG_KINDS, GangKind, PodSet, Pods, Presence, gang_kind, gang_kind_of};
pub use jax_job::JaxJob;
pub use job_set::JobSet;
pub use mpi_job::MpiJob;
pub use mpi_job_v1::MpiJobV1;
pub use paddle_job::PaddleJob;
pub use pod_labels::PodLabels;
pub use pytorch_job::PyTorchJob;
pub use ray_cluster::RayCluster;
pub use ray_job::RayJob;
pub use ray_service::RayService;
pub use registry::JobKinds;
pub use spark_application::SparkApplication;
pub use tf_job::TfJob;
pub use train_job::TrainJob;
pub use xgboost_job::XgBoostJob;

/// Every kind of job that is dispatched whole; those of the configuration come on top ([`JobKinds`]).
pub static JOB_KINDS: &[&dyn JobKind] = &[
    &MpiJob,
    &MpiJobV1,
    &TfJob,
    &PyTorchJob,
    &XgBoostJob,
    &PaddleJob,
    &BatchJob,
    &JobSet,
    &TrainJob,
    &RayJob,
    &RayCluster,
    &RayService,
    &AppWrapper,
    &SparkApplication,
];

/// A kind of job that runs on a worker as one object.
pub trait JobKind: Sync {
    /// Its names in the API.
    fn resource(&self) -> Resource;

    /// Where `managedBy` is, and the value that names the kind's own operator.
    fn managed_by(&self) -> ManagedBy;

    /// Where `suspend` is.
    fn suspend(&self) -> &'static [&'static str];

    /// A flag of the spec without which its operator refuses an object that is suspended. A copy has it while it is suspended,
    /// and else what the local job says.
    fn flag_of_suspended(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Whether it has ended for good.
    fn is_finished(&self, job: &Value) -> bool;

    /// How it is dispatched.
    fn dispatch(&self) -> Dispatch;

    /// When it ended, as its status says; only asked of a finished job.
    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        dispatch::finished_at(job)
    }

    /// Where its conditions are.
    fn conditions(&self) -> &'static [&'static str] {
        &["status", "conditions"]
    }

    /// Changes a worker's status so that the manager's API server takes it, after the one that the local job has.
    fn make_acceptable(&self, _status: &mut Map<String, Value>, _local: &Value) {}

    /// Makes this status say, in the kind's own terms, that the job has failed and that nothing of it runs.
    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>);

    /// Takes off a copy what is only true on the manager, beyond what is common to all kinds. `metadata` is that of the local
    /// job; `dropped` is told the path and the reason of each.
    fn clean(
        &self,
        _copy: &mut Value,
        _metadata: &Map<String, Value>,
        _dropped: &mut dyn FnMut(String, &'static str),
    ) {
    }

    /// Fields of the spec that may change while the job runs on a worker, and then change there too; beside `suspend`.
    fn forwarded(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// A field of the spec that only means something on the manager, and so may change there at any time: the TTL, whoever
    /// keeps it.
    fn kept_here(&self) -> Option<&'static [&'static str]> {
        self.dispatch().ttl
    }

    /// By which labels its pods are found on a worker; none: by their owners.
    fn pod_labels(&self) -> Option<PodLabels> {
        None
    }

    /// Whether its status says that every pod of it that has not ended is ready, so that none waits.
    fn says_all_ready(&self, _status: &Value) -> bool {
        false
    }

    /// A manifest as users write it.
    fn example(&self) -> &'static str;
}

/// Where a job says who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManagedBy {
    /// The field.
    pub path: &'static [&'static str],
    /// The value that is as good as none: the operator of this cluster.
    pub local: &'static str,
}

/// Whether the status has one of these conditions, with status True.
fn has_condition(job: &Value, types: &[&str]) -> bool {
    has_condition_at(job, &["status", "conditions"], types).is_some()
}

/// The first of these conditions that says True.
fn has_condition_at<'j>(job: &'j Value, path: &[&str], types: &[&str]) -> Option<&'j Value> {
    conditions::of(job, path).iter().find(|condition| {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        types.contains(&text("type")) && text("status") == "True"
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;
    use crate::names;

    fn example(kind: &dyn JobKind) -> Value {
        serde_saphyr::from_str(kind.example()).unwrap()
    }

    #[test]
    fn every_kind_is_found_by_its_example() {
        for kind in JOB_KINDS {
            let example = example(*kind);
            let found = JobKinds::BUILT_IN.of(&example).map(JobKind::resource);
            assert_eq!(found, Some(kind.resource()));
            assert!(!kind.is_finished(&example));
        }
    }

    #[test]
    fn every_gang_is_a_job_and_counts_its_pods() {
        for kind in GANG_KINDS {
            let example = example(*kind);
            let found = gang_kind_of(&example).map(|found| found.resource());
            assert_eq!(found, Some(kind.resource()));
            // The operator of a JAXJob ignores managedBy, so its pods are dispatched one by one.
            let whole = JOB_KINDS.iter().any(|job| job.resource() == kind.resource());
            assert_eq!(whole, kind.resource().kind != "JAXJob");
            let Ok(Pods::Sets(sets)) = kind.pod_sets(&example) else {
                panic!("{}: the example has no pods", kind.resource().kind);
            };
            assert!(
                sets.iter().map(|set| set.count).sum::<u32>() > 1,
                "{}",
                kind.resource().kind
            );
            for set in sets {
                let there = example.pointer(set.template.path().pointer());
                assert_eq!(there, set.template.value(), "{}", set.role);
                assert!(there.is_some_and(|template| template["spec"]["containers"].is_array()));
            }
        }
    }

    #[test]
    fn no_two_kinds_share_a_name() {
        let names: HashSet<Resource> = JOB_KINDS.iter().map(|kind| kind.resource()).collect();
        assert_eq!(names.len(), JOB_KINDS.len());
        assert!(
            JobKinds::BUILT_IN
                .named("kubeflow.org/v1beta2", "TFJob")
                .is_none()
        );
        assert!(gang_kind("ray.io/v1", "RayJob").is_none());
    }

    #[test]
    fn what_is_no_object_is_an_error_or_nothing_in_every_kind() {
        for job in [json!(null), json!([]), json!({"spec": 5}), json!({"spec": {}})] {
            for kind in JOB_KINDS {
                assert!(!kind.is_finished(&job));
                assert_eq!(kind.finished_at(&job), None);
                kind.clean(&mut job.clone(), &Map::new(), &mut |path, _| {
                    panic!("dropped {path}")
                });
            }
            for kind in GANG_KINDS {
                let _ = kind.pod_sets(&job);
            }
        }
    }

    /// One that failed has ended, at a time that its status tells, and a second failure changes nothing.
    #[test]
    fn a_failed_job_of_every_kind_has_ended() {
        for kind in JOB_KINDS {
            let name = kind.resource().kind;
            let mut job = example(*kind);
            let ours = json!([{"type": names::DISPATCHED, "status": "False", "reason": REMOTE_JOB_DELETED,
                "message": "gone", "lastTransitionTime": "2026-11-30T10:00:00Z"}]);
            job["status"] = match kind.dispatch().takes_condition {
                true => json!({"conditions": ours}),
                false => json!({}),
            };
            let failure = Failure {
                reason: REMOTE_JOB_DELETED,
                message: "gone",
                now: "2026-11-30T10:00:00Z",
            };
            kind.fail(job["status"].as_object_mut().unwrap(), &failure);
            assert!(kind.is_finished(&job), "{name}: {job}");
            assert_eq!(kind.finished_at(&job), Some("2026-11-30T10:00:00Z"), "{name}");
            let again = job.clone();
            let later = Failure {
                now: "later",
                ..failure
            };
            kind.fail(job["status"].as_object_mut().unwrap(), &later);
            assert_eq!(job, again, "{name}");
        }
    }

    #[test]
    fn the_table_of_kinds() {
        let lines = JOB_KINDS.iter().map(|kind| {
            let (names, managed_by, dispatch) = (kind.resource(), kind.managed_by(), kind.dispatch());
            format!(
                "{}.{} {}={:?} (local {}) {} {}ttl {}\n",
                names.plural,
                names.api_version(),
                managed_by.path.join("."),
                dispatch.written,
                managed_by.local,
                kind.suspend().join("."),
                match dispatch.takes_condition {
                    true => "condition ",
                    false => "",
                },
                dispatch.ttl.map_or_else(|| "-".to_owned(), |path| path.join(".")),
            )
        });
        expect_test::expect![[r#"
            mpijobs.kubeflow.org/v2beta1 spec.runPolicy.managedBy=Ours (local kubeflow.org/mpi-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            mpijobs.kubeflow.org/v1 spec.runPolicy.managedBy=Kueues (local kubeflow.org/training-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            tfjobs.kubeflow.org/v1 spec.runPolicy.managedBy=Kueues (local kubeflow.org/training-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            pytorchjobs.kubeflow.org/v1 spec.runPolicy.managedBy=Kueues (local kubeflow.org/training-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            xgboostjobs.kubeflow.org/v1 spec.runPolicy.managedBy=Kueues (local kubeflow.org/training-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            paddlejobs.kubeflow.org/v1 spec.runPolicy.managedBy=Kueues (local kubeflow.org/training-operator) spec.runPolicy.suspend condition ttl spec.runPolicy.ttlSecondsAfterFinished
            jobs.batch/v1 spec.managedBy=Ours (local kubernetes.io/job-controller) spec.suspend condition ttl -
            jobsets.jobset.x-k8s.io/v1alpha2 spec.managedBy=Ours (local jobset.sigs.k8s.io/jobset-controller) spec.suspend condition ttl spec.ttlSecondsAfterFinished
            trainjobs.trainer.kubeflow.org/v1alpha1 spec.managedBy=Kueues (local trainer.kubeflow.org/trainjob-controller) spec.suspend condition ttl -
            rayjobs.ray.io/v1 spec.managedBy=Kueues (local ray.io/kuberay-operator) spec.suspend ttl -
            rayclusters.ray.io/v1 spec.managedBy=Kueues (local ray.io/kuberay-operator) spec.suspend condition ttl -
            rayservices.ray.io/v1 spec.managedBy=Kueues (local ray.io/kuberay-operator) spec.rayClusterConfig.suspend condition ttl -
            appwrappers.workload.codeflare.dev/v1beta2 spec.managedBy=Ours (local workload.codeflare.dev/appwrapper-controller) spec.suspend condition ttl -
            sparkapplications.sparkoperator.k8s.io/v1beta2 spec.managedBy=Kueues (local sparkoperator.k8s.io/spark-operator) spec.suspend ttl spec.timeToLiveSeconds
        "#]].assert_eq(&lines.collect::<String>());
    }
}
