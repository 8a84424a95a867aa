//! What differs from kind to kind: how an object is copied, opened, shown and ended (pure). The rules are in [`super::plan`].

use serde_json::{Value, json};

use super::key::Subject;
use super::local::{Committed, LocalObject};
use super::remote::{Gate, RemoteObject};
use crate::names;
use crate::pod::mirror::{self, Dispatched, MirrorOptions};
use crate::pod::sanitize::{self, CopyMarks, UnreadableLocal};

/// What is stored, as JSON.
pub(super) fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("a stored object is JSON: RawObject::parse read it")
}

/// The copy to create on a worker, kept from running, with our marks.
pub(super) fn copy(local: &LocalObject, marks: &CopyMarks<'_>) -> Result<Value, UnreadableLocal> {
    match local.key.subject {
        Subject::Pod => Ok(sanitize::sanitize(&json(&local.json), marks)?.pod),
    }
}

/// Hash of what a copy made now would be made from.
pub(super) fn source(local: &LocalObject) -> Result<String, UnreadableLocal> {
    match local.key.subject {
        Subject::Pod => sanitize::source(&json(&local.json)),
    }
}

/// The JSON patch that lets the committed copy run. Its first operation tests the UID.
pub(super) fn open(committed: &Committed, gate: Gate) -> Value {
    match gate {
        Gate::Scheduling(place) => {
            let place = format!("/spec/schedulingGates/{place}");
            json!([
                {"op": "test", "path": "/metadata/uid", "value": &**committed.remote_uid()},
                {"op": "test", "path": &place, "value": {"name": names::UNCOMMITTED}},
                {"op": "remove", "path": &place},
            ])
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
    }
}

/// The patch that says one thing more.
pub(super) fn said(local: &LocalObject, dispatched: &Dispatched, now: &str) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => mirror::condition_patch(&json(&local.json), dispatched, now),
    }
}

/// The patch for an object whose worker does not answer.
pub(super) fn worker_lost(local: &LocalObject, dispatched: &Dispatched, now: &str) -> Option<Value> {
    match local.key.subject {
        Subject::Pod => mirror::worker_lost(&json(&local.json), dispatched, now),
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
    }
}

/// The reason of a local object whose copy was deleted on its worker.
pub(super) fn deleted_reason(subject: Subject) -> &'static str {
    match subject {
        Subject::Pod => "RemotePodDeleted",
    }
}

/// What the remote object says it waits for.
pub(super) fn waiting_reason(remote: &RemoteObject) -> Option<String> {
    match remote.key.subject {
        Subject::Pod => mirror::waiting_reason(&json(&remote.json)),
    }
}

/// When the remote object ended, in seconds since the epoch.
pub(super) fn finished_at(remote: &RemoteObject) -> Option<i64> {
    match remote.key.subject {
        Subject::Pod => mirror::finished_at(&json(&remote.json)),
    }
}

/// Whether one that its worker never schedules is taken back.
pub(super) fn can_be_taken_back(subject: Subject) -> bool {
    match subject {
        Subject::Pod => true,
    }
}
