//! Edits of a job: its hold ends, its templates get marks, it is left to somebody else.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Value, json};

use super::{Step, Why, patch};
use crate::gang::Marks;
use crate::names::{HELD, STAND_DOWN};
use crate::reconcile::gang::observed::Observed;
use crate::workload::jobs::FieldPath;

/// The hold ends, in one patch with what is missing on the templates.
pub(super) fn release(observed: &Observed<'_>, marks: Option<&Marks>) -> Step {
    let mut operations = marks.map_or_else(Vec::new, |marks| marks.patch(observed.object()).0);
    operations.extend(end_of_hold(observed));
    patch(observed, Why::Release, operations)
}

/// The templates get what is missing on them; none if nothing is.
pub(super) fn mark(observed: &Observed<'_>, marks: &Marks) -> Option<Step> {
    let operations = marks.patch(observed.object()).0;
    (!operations.is_empty()).then(|| patch(observed, Why::Mark, operations))
}

/// Somebody else manages its PodGroup: it is left alone from now on, and not held.
pub(super) fn stand_down(observed: &Observed<'_>, sentence: &str) -> Step {
    let mut operations = vec![annotate(observed.object(), STAND_DOWN, sentence)];
    if observed.is_held() {
        operations.extend(end_of_hold(observed));
    }
    patch(observed, Why::StandDown, operations)
}

/// Our claim goes from a job that somebody started himself.
pub(super) fn drop_claim(observed: &Observed<'_>) -> Step {
    patch(observed, Why::DropClaim, vec![without_claim()])
}

fn without_claim() -> PatchOperation {
    let held = FieldPath::default().key("metadata").key("annotations").key(HELD);
    PatchOperation::Remove(RemoveOperation { path: pointer(&held) })
}

fn end_of_hold(observed: &Observed<'_>) -> [PatchOperation; 2] {
    let suspend = observed
        .kind
        .suspend()
        .iter()
        .fold(FieldPath::default(), |path, key| path.key(key));
    [add(&suspend, json!(false)), without_claim()]
}

fn annotate(object: &Value, key: &str, value: &str) -> PatchOperation {
    let annotations = FieldPath::default().key("metadata").key("annotations");
    match object.pointer(annotations.pointer()) {
        Some(Value::Object(_)) => add(&annotations.key(key), json!(value)),
        Some(_) | None => add(&annotations, json!({key: value})),
    }
}

fn add(path: &FieldPath, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(path),
        value,
    })
}

fn pointer(path: &FieldPath) -> PointerBuf {
    PointerBuf::parse(path.pointer()).expect("a FieldPath escapes its keys")
}
