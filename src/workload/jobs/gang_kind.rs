//! Kinds of jobs whose pods can be a gang.

use serde_json::Value;

use super::{
    BatchJob, Field, FieldPath, InvalidField, JaxJob, JobKind, JobSet, MpiJob, MpiJobV1, PaddleJob,
    PyTorchJob, TfJob, XgBoostJob,
};

/// Those of [`super::JOB_KINDS`] that can be a gang.
pub static GANG_KINDS: &[&dyn GangKind] = &[
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

/// A kind of job whose pods can be a gang: sets of pods, sizes and states, as the gang needs them.
pub trait GangKind: JobKind {
    /// Its pods, in the canonical order: what coordinates comes first, then the workers.
    ///
    /// # Errors
    /// If a field that counts holds something else than it should.
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField>;

    /// Where Kubeflow's `schedulingPolicy` is; none for kinds without one, which opt in by annotation.
    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Whether it may be suspended for a moment when it is created, and runs afterwards as if it had not been.
    fn can_be_held(&self, _job: &Value) -> bool {
        true
    }

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

/// The kind with these names, if it can be a gang.
#[must_use]
pub fn gang_kind(api_version: &str, kind: &str) -> Option<&'static dyn GangKind> {
    GANG_KINDS
        .iter()
        .copied()
        .find(|known| known.resource().kind == kind && known.resource().api_version() == api_version)
}

/// The kind of this manifest, if it can be a gang.
#[must_use]
pub fn gang_kind_of(job: &Value) -> Option<&'static dyn GangKind> {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    gang_kind(text("apiVersion"), text("kind"))
}
