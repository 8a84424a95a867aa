//! Job in, job out (pure): whose a job is, the copy of it, its mirrored status, what follows an edit, and its end.
//!
//! One set of rules for all kinds; where a kind keeps things stands in [`crate::workload::jobs`].

use serde_json::Value;

use crate::names;
use crate::workload::jobs::{JobKind, Written, conditions};

mod difference;
pub mod forward;
pub mod mirror;
pub mod owners;
pub mod pods;
pub mod sanitize;

/// Whose a job is, by its `managedBy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<'j> {
    /// We dispatch it.
    Ours,
    /// Nobody's, or the operator's of this cluster: it runs here.
    Local,
    /// Another dispatcher's, and none of our business (R57).
    Foreign(&'j str),
}

/// Whose this job is. Kueue's name counts as ours only where the kind takes no other of the two, and with our annotation,
/// so that a real MultiKueue is never disturbed.
#[must_use]
pub fn claim<'j>(kind: &dyn JobKind, job: &'j Value) -> Claim<'j> {
    let managed_by = kind.managed_by();
    let by_us = || {
        let annotations = job.pointer("/metadata/annotations");
        let said = annotations.and_then(|annotations| annotations.get(names::DISPATCHED_BY));
        kind.dispatch().written == Written::Kueues && said.is_some_and(|said| said == names::GATE)
    };
    match at(job, managed_by.path).and_then(Value::as_str) {
        None | Some("") => Claim::Local,
        Some(names::GATE) => Claim::Ours,
        Some(names::KUEUES_MANAGER) if by_us() => Claim::Ours,
        Some(operator) if operator == managed_by.local => Claim::Local,
        Some(other) => Claim::Foreign(other),
    }
}

/// Whether its suspend field says true.
#[must_use]
pub fn is_suspended(kind: &dyn JobKind, job: &Value) -> bool {
    at(job, kind.suspend()) == Some(&Value::Bool(true))
}

/// Whether a remote job waits for its commit.
#[must_use]
pub fn is_uncommitted(remote: &Value) -> bool {
    let annotations = remote.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(names::UNCOMMITTED).is_some())
}

/// Whether the local job says that its copy was open: by our condition, else by any status, since nothing of a copy is
/// shown before.
#[must_use]
pub fn seen_open(kind: &dyn JobKind, local: &Value) -> bool {
    if !kind.dispatch().takes_condition {
        let status = local.get("status").and_then(Value::as_object);
        return status.is_some_and(|status| !status.is_empty());
    }
    conditions::is_true(conditions::of(local, kind.conditions()), names::DISPATCHED)
}

/// When a finished job ended, in seconds since the epoch; none if it runs, or does not tell.
#[must_use]
pub fn finished_at(kind: &dyn JobKind, job: &Value) -> Option<i64> {
    if !kind.is_finished(job) {
        return None;
    }
    let time: jiff::Timestamp = kind.finished_at(job)?.parse().ok()?;
    Some(time.as_second())
}

/// When we delete a finished job, in seconds since the epoch: its TTL is over, and its operator would not. None for a job
/// without a TTL, and for kinds whose controller does it.
#[must_use]
pub fn due_at(kind: &dyn JobKind, local: &Value) -> Option<i64> {
    let ttl = at(local, kind.dispatch().ttl?)?
        .as_i64()
        .filter(|ttl| *ttl >= 0)?;
    finished_at(kind, local)?.checked_add(ttl)
}

/// The value at the end of these keys; null is as good as none.
fn at<'j>(job: &'j Value, keys: &[&str]) -> Option<&'j Value> {
    let value = keys.iter().try_fold(job, |place, key| place.get(*key))?;
    Some(value).filter(|value| !value.is_null())
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
