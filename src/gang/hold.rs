//! A job that we hold until its PodGroup exists: `suspend`, and the annotation that says it was us. Admission holds, the
//! reconciler releases; both edit with what is here (pure).

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Value, json};

use super::marked;
use crate::names::HELD;
use crate::workload::jobs::{FieldPath, GangKind};

/// The label by which Kueue takes a job: it starts and stops it itself.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Whether its suspend field is true.
#[must_use]
pub fn is_suspended(kind: &dyn GangKind, job: &Value) -> bool {
    let suspend = job.pointer(path(kind.suspend()).pointer());
    suspend.and_then(Value::as_bool).unwrap_or(false)
}

/// Whether it has the annotation that claims its suspend for us.
#[must_use]
pub fn is_claimed(job: &Value) -> bool {
    let annotations = job.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(HELD).is_some())
}

/// Whether it is held, or suspended with marks of ours: where no gang is asked for any more, they are to go.
#[must_use]
pub fn is_left(kind: &dyn GangKind, job: &Value) -> bool {
    is_claimed(job) || (is_suspended(kind, job) && !kind.is_finished(job) && marked(kind, job).is_some())
}

/// The hold ends: it is not suspended, and nothing of it is claimed.
#[must_use]
pub fn end(kind: &dyn GangKind) -> [PatchOperation; 2] {
    [add(&path(kind.suspend()), json!(false)), drop_claim()]
}

/// The claim goes.
#[must_use]
pub fn drop_claim() -> PatchOperation {
    remove(&path(&["metadata", "annotations", HELD]))
}

/// An annotation of the job, whose annotations are added whole if there are none.
#[must_use]
pub fn annotate(job: &Value, key: &str, value: &str) -> PatchOperation {
    let annotations = path(&["metadata", "annotations"]);
    match job.pointer(annotations.pointer()) {
        Some(Value::Object(_)) => add(&annotations.key(key), json!(value)),
        Some(_) | None => add(&annotations, json!({key: value})),
    }
}

/// Sets the field at `path`.
#[must_use]
pub fn add(path: &FieldPath, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(path),
        value,
    })
}

/// Takes away the field at `path`, which is there.
#[must_use]
pub fn remove(path: &FieldPath) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: pointer(path) })
}

/// The path made of these keys.
#[must_use]
pub fn path(keys: &[&str]) -> FieldPath {
    keys.iter().fold(FieldPath::default(), |path, key| path.key(key))
}

fn pointer(path: &FieldPath) -> PointerBuf {
    PointerBuf::parse(path.pointer()).expect("a FieldPath escapes its keys")
}
