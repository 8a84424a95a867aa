//! What dispatch needs to know of a kind, and what kinds share for it.

use serde_json::{Map, Value};

use super::{conditions, has_condition_at};
use crate::names;

/// How a job of a kind runs on a worker as one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// What admission writes into `managedBy`.
    pub written: Written,
    /// Whether a condition of any type has a place in its status, so that ours can stand there.
    pub takes_condition: bool,
    /// Where `ttlSecondsAfterFinished` is that we keep on the manager, since the kind's operator returns early on a
    /// foreign `managedBy`. None where there is no such field, or where the kind's controller keeps it all the same.
    pub ttl: Option<&'static [&'static str]>,
}

/// What admission writes into `managedBy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Our own name.
    Ours,
    /// Kueue's, the only one that schema or webhook of the kind let pass; the annotation `dispatched-by` says that it is us.
    Kueues,
}

impl Written {
    /// The text.
    #[must_use]
    pub const fn value(self) -> &'static str {
        match self {
            Self::Ours => names::GATE,
            Self::Kueues => names::KUEUES_MANAGER,
        }
    }
}

/// Why a job failed whose copy is no longer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// One word in CamelCase, one of [`LOST`].
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
    /// RFC 3339.
    pub now: &'a str,
}

/// The committed copy is proven gone.
pub const REMOTE_JOB_DELETED: &str = "RemoteJobDeleted";
/// The committed copy stands there uncommitted again: its cluster was restored.
pub const REMOTE_ROLLED_BACK: &str = "RemoteRolledBack";
/// Why a job ends here without its copy having ended.
pub const LOST: [&str; 2] = [REMOTE_JOB_DELETED, REMOTE_ROLLED_BACK];

/// Types of conditions that say True when a job has ended, over all kinds.
const ENDINGS: [&str; 5] = ["Complete", "Completed", "Succeeded", "Finished", "Failed"];

/// When a job ended: its time of completion, else the time of the condition that says so.
pub(super) fn finished_at(job: &Value) -> Option<&str> {
    let completed = job.pointer("/status/completionTime").and_then(Value::as_str);
    let told = || {
        has_condition_at(job, &["status", "conditions"], &ENDINGS)?
            .get("lastTransitionTime")?
            .as_str()
    };
    completed.or_else(told)
}

/// Since when it is we who say that the job's copy is lost: the end of kinds that have no end of their own.
pub(super) fn lost_since(job: &Value) -> Option<&str> {
    let ours = conditions::find(conditions::of(job, &["status", "conditions"]), names::DISPATCHED)?;
    let is_lost = LOST.iter().any(|reason| ours["reason"] == *reason) && ours["status"] == "False";
    is_lost.then(|| ours["lastTransitionTime"].as_str())?
}

/// None of these counters counts anything any more.
pub(super) fn none_of(counters: &mut Value, keys: &[&str]) {
    if let Some(counters) = counters.as_object_mut() {
        none_of_map(counters, keys);
    }
}

/// As [`none_of`].
pub(super) fn none_of_map(counters: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        if let Some(count) = counters.get_mut(*key) {
            *count = 0.into();
        }
    }
}

/// As [`none_of`], in each item of a list.
pub(super) fn none_of_each(status: &mut Map<String, Value>, list: &str, keys: &[&str]) {
    let items = status.get_mut(list).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        none_of(item, keys);
    }
}

/// Takes the field at the end of these keys away, and tells it if it was there.
pub(crate) fn remove(
    object: &mut Value,
    keys: &[&str],
    reason: &'static str,
    dropped: &mut dyn FnMut(String, &'static str),
) {
    let Some((last, parents)) = keys.split_last() else {
        return;
    };
    let parent = parents
        .iter()
        .try_fold(object, |place, key| place.get_mut(*key))
        .and_then(Value::as_object_mut);
    if parent.is_some_and(|parent| parent.remove(*last).is_some()) {
        dropped(keys.join("."), reason);
    }
}
