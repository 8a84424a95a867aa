//! What differs from kind to kind: how an object is copied, opened, shown and ended (pure). The rules are in [`super::plan`].

use std::time::Duration;

use serde_json::{Value, json};

use super::key::Subject;
use super::local::{LocalObject, Phase};
use super::remote::{Gate, RemoteObject};
use crate::gang::Notice;
use crate::gang::birth::Maker;
use crate::job::forward::Allowed;
use crate::job::{self, forward};
use crate::names;
use crate::pod::mirror::{self, Dispatched, MirrorOptions};
use crate::pod::sanitize::{self, CopyMarks, UnreadableLocal};
use crate::workload::jobs::{JobKind, LOST, REMOTE_JOB_DELETED};

/// What is stored, as JSON.
pub(super) fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("a stored object is JSON: RawObject::parse read it")
}

/// The copy to create on a worker, kept from running, with our marks.
pub(super) fn copy(
    local: &LocalObject,
    marks: &CopyMarks<'_>,
    gangs: Option<&Maker>,
) -> Result<Value, UnreadableLocal> {
    match local.key.subject {
        Subject::Pod => Ok(sanitize::sanitize(&json(&local.json), marks)?.pod),
        Subject::Job(kind) => Ok(job::sanitize::sanitize_for(kind, &json(&local.json), marks, gangs)?.object),
    }
}

/// Hash of what a copy made now would be made from.
pub(super) fn source(local: &LocalObject, gangs: Option<&Maker>) -> Result<String, UnreadableLocal> {
    match local.key.subject {
        Subject::Pod => sanitize::source(&json(&local.json)),
        Subject::Job(kind) => job::sanitize::source_for(kind, &json(&local.json), gangs),
    }
}

/// Why the copy of the job is no gang on a worker with this gang scheduler; none if it is one.
pub(super) fn alone(kind: &dyn JobKind, local: &LocalObject, gangs: &Maker) -> Option<Notice> {
    // What cannot be read was said before the commit.
    job::sanitize::alone(kind, &json(&local.json), gangs).unwrap_or_default()
}

/// The JSON patch that lets the committed copy run, unless the user says that it should not. Its first operation tests
/// the UID.
pub(super) fn open(local: &LocalObject, remote: &RemoteObject) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => {
            let Some(Gate::Scheduling(place)) = remote.gate else {
                return None;
            };
            let place = format!("/spec/schedulingGates/{place}");
            Some(json!([
                {"op": "test", "path": "/metadata/uid", "value": &*remote.uid},
                {"op": "test", "path": &place, "value": {"name": names::UNCOMMITTED}},
                {"op": "remove", "path": &place},
            ]))
        }
        Subject::Job(kind) => {
            let patch = forward::open(kind, &json(&local.json), &json(&remote.json))?;
            Some(json!(patch))
        }
    }
}

/// The patch of the local status that shows the remote one.
pub(super) fn mirrored(
    local: &LocalObject,
    remote: &RemoteObject,
    dispatched: &Dispatched,
    options: &MirrorOptions,
    now: &str,
) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => mirror::mirror(&json(&local.json), &json(&remote.json), dispatched, options, now),
        Subject::Job(kind) => {
            let (local, remote) = (json(&local.json), json(&remote.json));
            job::mirror::mirror(kind, &local, &remote, dispatched, &options.cluster, now)
        }
    }
}

/// Whether its status has a place for our condition.
pub(super) fn takes_condition(subject: Subject) -> bool {
    match subject {
        Subject::Pod => true,
        Subject::Job(kind) => kind.dispatch().takes_condition,
    }
}

/// The patch that says one thing more.
pub(super) fn said(local: &LocalObject, dispatched: &Dispatched, now: &str) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => mirror::condition_patch(&json(&local.json), dispatched, now),
        Subject::Job(kind) => job::mirror::condition_patch(kind, &json(&local.json), dispatched, now),
    }
}

/// The patch for an object whose worker does not answer.
pub(super) fn worker_lost(local: &LocalObject, dispatched: &Dispatched, now: &str) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => mirror::worker_lost(&json(&local.json), dispatched, now),
        Subject::Job(kind) => job::mirror::condition_patch(kind, &json(&local.json), dispatched, now),
    }
}

/// The patch that ends the local object, as its copy is gone.
pub(super) fn failed(
    local: &LocalObject,
    reason: &str,
    message: &str,
    dispatched: &Dispatched,
    now: &str,
) -> Value {
    match local.key.subject {
        Subject::Pod => mirror::failed(&json(&local.json), reason, message, dispatched, now),
        Subject::Job(kind) => job::mirror::failed(kind, &json(&local.json), reason, message, dispatched, now),
    }
}

/// Whether it is we who ended the local object, as its copy was lost.
pub(super) fn is_failed_by_us(local: &LocalObject) -> bool {
    is_lost(&json(&local.json)["status"])
}

/// Kinds put the reason in different places.
fn is_lost(status: &Value) -> bool {
    match status {
        Value::Object(map) => {
            let reason = map.get("reason").and_then(Value::as_str).unwrap_or_default();
            LOST.contains(&reason) || map.values().any(is_lost)
        }
        Value::Array(list) => list.iter().any(is_lost),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The reason of a local object whose copy was deleted on its worker.
pub(super) fn deleted_reason(subject: Subject) -> &'static str {
    match subject {
        Subject::Pod => "RemotePodDeleted",
        Subject::Job(_) => REMOTE_JOB_DELETED,
    }
}

/// What the remote object says it waits for.
pub(super) fn waiting_reason(remote: &RemoteObject) -> Option<String> {
    match remote.key.subject {
        Subject::Pod => mirror::waiting_reason(&json(&remote.json)),
        Subject::Job(_) => None,
    }
}

/// The labels by which the pods of a copy are found on its worker; none: they are found by their owners.
pub(super) fn pod_selector(remote: &RemoteObject) -> Option<String> {
    match remote.key.subject {
        Subject::Pod => None,
        Subject::Job(kind) => kind.pod_labels()?.selector(&json(&remote.json)),
    }
}

/// When the remote object ended, in seconds since the epoch.
pub(super) fn finished_at(remote: &RemoteObject) -> Option<i64> {
    match remote.key.subject {
        Subject::Pod => mirror::finished_at(&json(&remote.json)),
        Subject::Job(kind) => job::finished_at(kind, &json(&remote.json)),
    }
}

/// Whether one that its worker never schedules is taken back.
pub(super) fn can_be_taken_back(subject: Subject) -> bool {
    match subject {
        Subject::Pod => true,
        // Its status does not say whether some pod of it has a node.
        Subject::Job(_) => false,
    }
}

/// For so long after its opening a copy may get going before it is mirrored.
pub(super) fn settling(subject: Subject) -> Duration {
    match subject {
        Subject::Pod => Duration::from_millis(500), // a node, and the start
        // Its operator makes pods first, and of many jobs one after the other.
        Subject::Job(_) => Duration::from_secs(2),
    }
}

/// In one word, what a copy that was opened is at.
pub(super) fn stage(remote: &RemoteObject) -> &'static str {
    match (remote.key.subject, remote.phase) {
        (Subject::Pod, _) if remote.node.is_some() => "Scheduled",
        (Subject::Job(_), Phase::Terminal) => "Finished",
        (Subject::Job(_), Phase::Waiting | Phase::Running) if remote.suspended => "Suspended",
        (Subject::Job(_), Phase::Running) => "Running",
        (Subject::Pod | Subject::Job(_), _) => "WaitingOnWorker",
    }
}

/// The JSON patch that takes over what the user changed of the local object since; none if nothing differs.
pub(super) fn forward(local: &LocalObject, remote: &RemoteObject, allowed: Allowed<'_>) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => None, // the guard refuses all changes of a committed pod
        Subject::Job(kind) => {
            let (local, remote) = (json(&local.json), json(&remote.json));
            let patch = forward::forward(kind, &local, &remote, allowed)?;
            Some(json!(patch))
        }
    }
}

/// All that the opened copy follows in, as the local object says it.
pub(super) fn wanted(local: &LocalObject, allowed: Allowed<'_>) -> Value {
    match local.key.subject {
        Subject::Pod => Value::Null,
        Subject::Job(kind) => forward::wanted(kind, &json(&local.json), allowed),
    }
}

/// When we delete the ended local object, in seconds since the epoch, as its own operator would have.
pub(super) fn due_at(local: &LocalObject) -> Option<i64> {
    match local.key.subject {
        Subject::Pod => None,
        Subject::Job(kind) => job::due_at(kind, &json(&local.json)),
    }
}
