//! Jobs, whose pods must start together -> sets of pods, sizes and states, as the gang needs them (pure).
//!
//! A kind is one file and one line of [`JOB_KINDS`]. A file says where the kind keeps things, and the rules of its
//! operator for numbers that are left out; what becomes of it is the matter of [`crate::gang`].

use serde_json::Value;

use super::Resource;

mod batch_job;
mod field;
mod jax_job;
mod job_set;
mod kubeflow;
mod mpi_job;
mod mpi_job_v1;
mod paddle_job;
mod pytorch_job;
mod tf_job;
mod xgboost_job;

pub use batch_job::BatchJob;
pub use field::{Field, FieldPath, InvalidField};
pub use jax_job::JaxJob;
pub use job_set::JobSet;
pub use mpi_job::MpiJob;
pub use mpi_job_v1::MpiJobV1;
pub use paddle_job::PaddleJob;
pub use pytorch_job::PyTorchJob;
pub use tf_job::TfJob;
pub use xgboost_job::XgBoostJob;

/// Every kind of job that can be a gang; the only place that names them all.
pub static JOB_KINDS: &[&dyn JobKind] = &[
    &MpiJob,
    &MpiJobV1,
    &TfJob,
    &PyTorchJob,
    &XgBoostJob,
    &PaddleJob,
    &JaxJob,
    &BatchJob,
    &JobSet,
];

/// A kind of job whose pods can be a gang.
pub trait JobKind: Sync {
    /// Its names in the API.
    fn resource(&self) -> Resource;

    /// Its pods, in the canonical order: what coordinates comes first, then the workers.
    ///
    /// # Errors
    /// If a field that counts holds something else than it should.
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField>;

    /// Where Kubeflow's `schedulingPolicy` is; none for kinds without one, which opt in by annotation.
    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Where `managedBy` is, and the value that names the kind's own operator.
    fn managed_by(&self) -> ManagedBy;

    /// Where `suspend` is.
    fn suspend(&self) -> &'static [&'static str];

    /// Whether it may be suspended for a moment when it is created, and runs afterwards as if it had not been.
    fn can_be_held(&self, _job: &Value) -> bool {
        true
    }

    /// Whether it has ended for good.
    fn is_finished(&self, job: &Value) -> bool;

    /// Whether it cannot run with fewer pods than it names, so that a smaller gang deserves a warning.
    fn is_rigid(&self) -> bool {
        false
    }

    /// Whether its operator makes the launcher while the job is suspended, and later takes only labels and annotations
    /// of a changed template over to it.
    fn makes_launcher_early(&self) -> bool {
        false
    }

    /// Whether only labels, annotations and the like of its templates can change while it is suspended, and no scheduler's
    /// name.
    fn has_fixed_templates(&self) -> bool {
        false
    }

    /// Where the job itself describes a group to the scheduler, if users can do that in this kind.
    fn own_group(&self) -> Option<&'static [&'static str]> {
        None
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

/// The pods of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Pods<'j> {
    /// Sets of equal pods; those without pods are there too.
    Sets(Vec<PodSet<'j>>),
    /// The job names a role that its operator does not know and will refuse.
    UnknownRole {
        /// Where.
        path: FieldPath,
        /// Those that it knows.
        roles: Vec<&'static str>,
    },
}

/// Equal pods of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSet<'j> {
    /// The role in the spelling of its kind, such as `Launcher`.
    pub role: String,
    /// How many.
    pub count: u32,
    /// When they exist, beside the others.
    pub presence: Presence,
    /// How many are enough to start with, for roles that may grow later; none if all are needed.
    pub at_least: Option<u32>,
    /// The pod template.
    pub template: Field<'j>,
}

/// When the pods of a set exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// From the start, together with the others: they count.
    Together,
    /// Only once the others run, and beside them: they need room, but a gang that waits for them waits for ever.
    Later,
    /// They end before the others start, and are no part of the gang.
    Before,
}

/// The kind with these names, if it is one of ours.
#[must_use]
pub fn job_kind(api_version: &str, kind: &str) -> Option<&'static dyn JobKind> {
    JOB_KINDS
        .iter()
        .copied()
        .find(|known| known.resource().kind == kind && known.resource().api_version() == api_version)
}

/// The kind of this manifest, if it is one of ours.
#[must_use]
pub fn job_kind_of(job: &Value) -> Option<&'static dyn JobKind> {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    job_kind(text("apiVersion"), text("kind"))
}

/// Whether the status has one of these conditions, with status True.
fn has_condition(job: &Value, types: &[&str]) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        types.contains(&text("type")) && text("status") == "True"
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_is_found_by_its_example_and_counts_its_pods() {
        for kind in JOB_KINDS {
            let example: Value = serde_saphyr::from_str(kind.example()).unwrap();
            let found = job_kind_of(&example).map(JobKind::resource);
            assert_eq!(found, Some(kind.resource()));
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
            assert!(!kind.is_finished(&example));
        }
    }

    #[test]
    fn no_two_kinds_share_a_name() {
        let names: HashSet<Resource> = JOB_KINDS.iter().map(|kind| kind.resource()).collect();
        assert_eq!(names.len(), JOB_KINDS.len());
        assert!(job_kind("kubeflow.org/v1beta2", "TFJob").is_none());
    }

    #[test]
    fn what_is_no_object_is_an_error_or_nothing_in_every_kind() {
        for job in [
            serde_json::json!(null),
            serde_json::json!([]),
            serde_json::json!({"spec": 5}),
            serde_json::json!({"spec": {}}),
        ] {
            for kind in JOB_KINDS {
                let _ = kind.pod_sets(&job);
                assert!(!kind.is_finished(&job));
            }
        }
    }
}
