//! Jobs of every kind for the tests of this folder.

use serde_json::{Value, json};

use super::mirror::{Dispatched, mirror};
use crate::names;
use crate::pod::sanitize::{CopyMarks, NamespaceOwner};
use crate::workload::jobs::{JOB_KINDS, JobKind, Written};

pub(super) const BEFORE: &str = "2026-11-30T09:00:00Z";
pub(super) const NOW: &str = "2026-11-30T10:00:00Z";

pub(super) const MARKS: CopyMarks<'static> = CopyMarks {
    origin: "manager-uid",
    owner: Some(NamespaceOwner {
        name: "lab",
        uid: "worker-namespace-uid",
    }),
};

/// The kind of this name.
pub(super) fn kind(name: &str) -> &'static dyn JobKind {
    let found = JOB_KINDS
        .iter()
        .copied()
        .find(|kind| kind.resource().kind == name);
    found.expect("a kind that is built in")
}

/// The example of a kind as the manager's API server has it after admission, committed to worker-a, with these fields
/// besides.
#[allow(clippy::needless_pass_by_value)] // so that a test writes json!(…)
pub(super) fn local(kind: &dyn JobKind, more: Value) -> Value {
    let mut job: Value = serde_saphyr::from_str(kind.example()).unwrap();
    let mut annotations = json!({
        "portcullis.dev/cluster": "worker-a",
        "portcullis.dev/remote-uid": "local-uid/remote-uid",
    });
    let written = kind.dispatch().written;
    if written == Written::Kueues {
        annotations[names::DISPATCHED_BY] = names::GATE.into();
    }
    json_patch::merge(
        &mut job,
        &json!({"metadata": {
            "namespace": "lab", "uid": "local-uid", "resourceVersion": "7", "generation": 3, "annotations": annotations,
        }}),
    );
    set(&mut job, kind.managed_by().path, written.value().into());
    json_patch::merge(&mut job, &more);
    job
}

/// Its open remote job, with these fields besides.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn remote(kind: &dyn JobKind, more: Value) -> Value {
    let mut job: Value = serde_saphyr::from_str(kind.example()).unwrap();
    json_patch::merge(
        &mut job,
        &json!({"metadata": {
            "namespace": "lab", "uid": "remote-uid", "resourceVersion": "90", "generation": 9,
            "annotations": {"portcullis.dev/local-uid": "local-uid"},
        }}),
    );
    set(&mut job, kind.suspend(), false.into());
    json_patch::merge(&mut job, &more);
    job
}

/// Sets a field, with its parents.
pub(super) fn set(job: &mut Value, path: &[&str], value: Value) {
    let mut place = job;
    for key in path {
        place = &mut place[*key];
    }
    *place = value;
}

pub(super) fn dispatched() -> Dispatched {
    Dispatched {
        status: true,
        reason: "Open".into(),
        message: "on worker-a".into(),
    }
}

pub(super) fn mirrored(kind: &dyn JobKind, local: &Value, remote: &Value) -> Option<Value> {
    mirror(kind, local, remote, &dispatched(), "worker-a", NOW)
}

/// The local job after the patch, as the API server would store it.
pub(super) fn applied(local: &Value, patch: &Value) -> Value {
    let mut after = local.clone();
    json_patch::merge(&mut after, patch);
    after
}
