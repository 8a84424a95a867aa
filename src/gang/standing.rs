//! A PodGroup that is there -> whose it is, and whether its time is over.

use serde_json::Value;

use super::pod_group::JobRef;
use crate::names::JOB_UID;
use crate::workload::jobs::{Field, GangKind};

/// Whose a PodGroup or Workload is, as seen from a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// We made it for this job.
    Ours,
    /// The job controls it, but we did not make it: its operator did.
    Operators,
    /// It is being deleted: as good as gone, once it is.
    Terminating,
    /// It belongs to an earlier job of this name, with which it will go.
    Stale,
    /// It is somebody else's.
    Foreign,
}

/// Whose this object is.
#[must_use]
pub fn standing(object: &Value, job: &JobRef) -> Standing {
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
    {
        return Standing::Terminating;
    }
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let controller = owners
        .into_iter()
        .flatten()
        .find(|owner| owner["controller"] == true);
    let label = object
        .pointer("/metadata/labels")
        .map(|labels| text(labels, JOB_UID))
        .unwrap_or_default();
    match controller {
        Some(owner) if text(owner, "uid") == job.uid && label == job.uid => Standing::Ours,
        Some(owner) if text(owner, "uid") == job.uid => Standing::Operators,
        Some(owner) if text(owner, "kind") == job.kind && text(owner, "name") == job.name => Standing::Stale,
        Some(_) | None => Standing::Foreign,
    }
}

/// When the PodGroup of a finished job is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeleteOnFinish {
    /// At once.
    Always,
    /// When no pod of the job is left that has not ended.
    #[default]
    WhenIdle,
    /// With the job.
    Never,
}

/// Whether a job needs its PodGroup no longer: it is suspended or finished, and `living` (pods that have not ended) is 0.
#[must_use]
pub fn is_over(kind: &dyn GangKind, job: &Value, living: u32, on_finish: DeleteOnFinish) -> bool {
    let is_suspended = Field::root(job).at(kind.suspend()).boolean() == Ok(Some(true));
    match (kind.is_finished(job), on_finish) {
        (true, DeleteOnFinish::Always) => true,
        (true, DeleteOnFinish::Never) => false,
        (true, DeleteOnFinish::WhenIdle) => living == 0,
        (false, _) => is_suspended && living == 0,
    }
}
