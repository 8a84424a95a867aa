//! A remote job's status -> the merge patch that makes the local job tell the truth.
//!
//! The status is mirrored whole, with our condition merged in where the kind takes it. Every function gives the body of a
//! merge patch for the local job's `status` subresource, with UID and resourceVersion of the local job as preconditions,
//! and `None` when there is nothing to write (R49). A local job that has ended is final (R05).

use serde_json::{Map, Value, json};

use super::difference::difference;
use super::{at, is_suspended, is_uncommitted};
use crate::names;
use crate::workload::jobs::conditions::{self, Said};
use crate::workload::jobs::{Failure, JobKind};

pub use crate::pod::mirror::Dispatched;

/// The status of `remote`, for `local`. `now` is RFC 3339, for our condition if its status changes.
///
/// A remote job that is not the committed one on `cluster` gives nothing (R12). Of one that is not open, or that still
/// runs while the local job is suspended, only our condition is told (R58): what it says is about to change, and a Job
/// that shows a start cannot be edited any more.
#[must_use]
pub fn mirror(
    kind: &dyn JobKind,
    local: &Value,
    remote: &Value,
    dispatched: &Dispatched,
    cluster: &str,
    now: &str,
) -> Option<Value> {
    if kind.is_finished(local) || !are_paired(local, remote, cluster) {
        return None;
    }
    let is_held = is_suspended(kind, local) && !is_suspended(kind, remote) && !kind.is_finished(remote);
    let mut status = match is_held || is_uncommitted(remote) {
        true => status_of(local),
        false => shown(kind, local, remote),
    };
    put_ours(kind, &mut status, local, dispatched, now);
    patch(local, &status)
}

/// Only our condition: nothing is known of a remote job, or nothing more than before.
#[must_use]
pub fn condition_patch(
    kind: &dyn JobKind,
    local: &Value,
    dispatched: &Dispatched,
    now: &str,
) -> Option<Value> {
    if kind.is_finished(local) {
        return None;
    }
    let mut status = status_of(local);
    put_ours(kind, &mut status, local, dispatched, now);
    patch(local, &status)
}

/// The committed remote job is proven gone, or came back from the dead: the local job has failed, in the terms of its
/// kind. `reason` is one of [`crate::workload::jobs::LOST`].
#[must_use]
pub fn failed(
    kind: &dyn JobKind,
    local: &Value,
    reason: &str,
    message: &str,
    dispatched: &Dispatched,
    now: &str,
) -> Value {
    let mut status = status_of(local);
    put_ours(kind, &mut status, local, dispatched, now);
    let failure = Failure { reason, message, now };
    kind.fail(&mut status, &failure);
    patch(local, &status).unwrap_or_else(|| json!({}))
}

fn status_of(job: &Value) -> Map<String, Value> {
    let status = job.get("status").and_then(Value::as_object);
    status.cloned().unwrap_or_default()
}

/// The remote status in the local job's terms.
fn shown(kind: &dyn JobKind, local: &Value, remote: &Value) -> Map<String, Value> {
    let mut status = status_of(remote);
    if let Some(observed) = status.remove("observedGeneration") {
        let before = || local.pointer("/status/observedGeneration").cloned();
        let generation = observed_here(&observed, local, remote).or_else(before);
        status.extend(generation.map(|generation| ("observedGeneration".to_owned(), generation)));
    }
    if let Some(list) = conditions_in(kind, &mut status) {
        list.retain(|condition| condition["type"] != names::DISPATCHED);
        for condition in list.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(observed) = condition.remove("observedGeneration")
                && let Some(generation) = observed_here(&observed, local, remote)
            {
                condition.insert("observedGeneration".to_owned(), generation);
            }
        }
    }
    kind.make_acceptable(&mut status, local);
    status
}

/// The generation of another cluster says nothing here, but that its newest was observed does; until then what was told
/// before stays.
fn observed_here(observed: &Value, local: &Value, remote: &Value) -> Option<Value> {
    let generation = |job: &Value| job.pointer("/metadata/generation").cloned();
    (generation(remote)? == *observed).then(|| generation(local))?
}

/// Our condition, first in the list: `kubectl get` of many kinds takes the last one for the state.
fn put_ours(
    kind: &dyn JobKind,
    status: &mut Map<String, Value>,
    local: &Value,
    dispatched: &Dispatched,
    now: &str,
) {
    if !kind.dispatch().takes_condition {
        return;
    }
    let Some(list) = conditions::make(status, kind.conditions()) else {
        return;
    };
    if conditions::find(list, names::DISPATCHED).is_none() {
        let before = at(local, kind.conditions()).and_then(Value::as_array);
        let ours = before.and_then(|before| conditions::find(before, names::DISPATCHED));
        list.splice(0..0, ours.cloned());
    }
    let said = Said {
        kind: names::DISPATCHED,
        status: dispatched.status,
        reason: &dispatched.reason,
        message: &dispatched.message,
    };
    conditions::set_first(list, &said, now);
}

fn conditions_in<'s>(kind: &dyn JobKind, status: &'s mut Map<String, Value>) -> Option<&'s mut Vec<Value>> {
    let (first, rest) = kind.conditions().get(1..)?.split_first()?;
    let place = status.get_mut(*first)?;
    let place = rest.iter().try_fold(place, |place, key| place.get_mut(*key))?;
    place.as_array_mut()
}

/// The body with its preconditions; `None` if nothing differs.
fn patch(local: &Value, status: &Map<String, Value>) -> Option<Value> {
    let difference = difference(&status_of(local), status)?;
    let mut metadata = Map::new();
    for precondition in ["uid", "resourceVersion"] {
        if let Some(value) = local["metadata"][precondition].as_str() {
            metadata.insert(precondition.to_owned(), value.into());
        }
    }
    Some(json!({"metadata": metadata, "status": difference}))
}

/// Whether what the local job says of its commit, if anything, names this remote job on this cluster.
fn are_paired(local: &Value, remote: &Value, cluster: &str) -> bool {
    let annotation = |key: &str| local["metadata"]["annotations"][key].as_str();
    let uid = |job: &Value| job["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let committed = annotation(names::REMOTE_UID);
    annotation(names::CLUSTER).is_none_or(|committed| committed == cluster)
        && committed.is_none_or(|committed| committed == format!("{}/{}", uid(local), uid(remote)))
}

#[cfg(test)]
mod tests;
