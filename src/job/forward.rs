//! An edited local job -> the JSON patch that its remote job gets.
//!
//! Every patch tests the UID of the remote job. One that may start it tests that it is committed, too.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Value, json};

use super::{at, is_suspended, is_uncommitted};
use crate::names;
use crate::pod::sanitize::metadata::is_copied;
use crate::words::few;
use crate::workload::jobs::{FieldPath, JobKind};

/// So many fields are named in a sentence.
const MOST_NAMED: usize = 5;

/// Keys of metadata that follow the local job after the commit: keys, or beginnings of keys that end in `*`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed<'a> {
    /// Labels.
    pub labels: &'a [String],
    /// Annotations.
    pub annotations: &'a [String],
}

/// Whether one of these names the key. What a copy never carries is not named by any.
fn is_listed(listed: &[String], key: &str) -> bool {
    is_copied(key)
        && listed.iter().any(|one| match one.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => one == key,
        })
}

/// Whether the answer to a create, or to a read, shows that the copy cannot run: a schema that lacks the field would have
/// dropped it.
#[must_use]
pub fn is_held(kind: &dyn JobKind, remote: &Value) -> bool {
    is_suspended(kind, remote)
}

/// The committed copy is opened: it is uncommitted no longer, and suspended only if the local job is. None for one that is
/// open.
#[must_use]
pub fn open(kind: &dyn JobKind, local: &Value, remote: &Value) -> Option<Patch> {
    if !is_uncommitted(remote) {
        return None;
    }
    let uncommitted = path(&["metadata", "annotations", names::UNCOMMITTED]);
    let mark = remote.pointer(uncommitted.pointer())?.clone();
    let mut operations = vec![
        test(
            &path(&["metadata", "uid"]),
            remote.pointer("/metadata/uid")?.clone(),
        ),
        test(&uncommitted, mark),
        PatchOperation::Remove(RemoveOperation {
            path: pointer(&uncommitted),
        }),
    ];
    set(
        &mut operations,
        remote,
        kind.suspend(),
        Some(&json!(is_suspended(kind, local))),
    );
    set_flag(&mut operations, kind, local, remote);
    Some(Patch(operations))
}

/// What an open copy lacks of its local job's edits. None if nothing, and for a copy that is not open or has ended.
#[must_use]
pub fn forward(kind: &dyn JobKind, local: &Value, remote: &Value, allowed: Allowed<'_>) -> Option<Patch> {
    if is_uncommitted(remote) || kind.is_finished(remote) {
        return None;
    }
    let mut edits = Vec::new();
    let suspended = is_suspended(kind, local);
    if suspended != is_suspended(kind, remote) {
        set(&mut edits, remote, kind.suspend(), Some(&json!(suspended)));
    }
    set_flag(&mut edits, kind, local, remote);
    for field in kind.forwarded() {
        if at(local, field) != at(remote, field) {
            set(&mut edits, remote, field, at(local, field));
        }
    }
    for (map, listed) in [("labels", allowed.labels), ("annotations", allowed.annotations)] {
        for key in keys_of(local, remote, map).filter(|key| is_listed(listed, key)) {
            let field = ["metadata", map, key];
            if at(local, &field) != at(remote, &field) {
                set(&mut edits, remote, &field, at(local, &field));
            }
        }
    }
    if edits.is_empty() {
        return None;
    }
    // The annotations as they were seen: without `uncommitted` among them.
    let annotations = path(&["metadata", "annotations"]);
    let mut operations = vec![test(
        &path(&["metadata", "uid"]),
        remote.pointer("/metadata/uid")?.clone(),
    )];
    operations.push(test(&annotations, remote.pointer(annotations.pointer())?.clone()));
    operations.extend(edits);
    Some(Patch(operations))
}

/// All that an open copy follows its local job in, as the local job says it: the same as long as nobody edits that.
#[must_use]
pub fn wanted(kind: &dyn JobKind, local: &Value, allowed: Allowed<'_>) -> Value {
    let flag = kind.flag_of_suspended().and_then(|flag| at(local, flag));
    let fields: Vec<Option<&Value>> = kind.forwarded().iter().map(|field| at(local, field)).collect();
    let listed = |map, listed: &[String]| -> BTreeMap<&str, Option<&Value>> {
        keys_of(local, &Value::Null, map)
            .filter(|key| is_listed(listed, key))
            .map(|key| (key, at(local, &["metadata", map, key])))
            .collect()
    };
    json!({
        "suspend": is_suspended(kind, local), "flag": flag, "fields": fields,
        "labels": listed("labels", allowed.labels), "annotations": listed("annotations", allowed.annotations),
        "listed": [allowed.labels, allowed.annotations],
    })
}

/// The fields that a patch of [`forward`] changes, in words.
#[must_use]
pub fn fields(patch: &Value) -> String {
    let operations = patch.as_array().into_iter().flatten();
    let edits = operations.filter(|operation| operation["op"] != "test");
    let paths = edits.filter_map(|edit| Some(in_words(edit["path"].as_str()?)));
    few(&paths.collect::<Vec<_>>(), MOST_NAMED)
}

/// The pointer as people write it.
fn in_words(pointer: &str) -> String {
    let keys: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    match &keys[..] {
        [metadata, map, key] if metadata == "metadata" => format!("metadata.{map}[{key}]"),
        keys => keys.join("."),
    }
}

/// The keys of labels or annotations of either job, in order, each once.
fn keys_of<'j>(local: &'j Value, remote: &'j Value, map: &str) -> impl Iterator<Item = &'j str> {
    let of = |job: &'j Value| at(job, &["metadata", map]).and_then(Value::as_object);
    let keys: BTreeSet<&str> = [of(local), of(remote)]
        .into_iter()
        .flatten()
        .flat_map(|map| map.keys().map(String::as_str))
        .collect();
    keys.into_iter()
}

/// The flag that a suspended copy needs, in the patch that suspends or resumes it: its operator sees both at once.
fn set_flag(operations: &mut Vec<PatchOperation>, kind: &dyn JobKind, local: &Value, remote: &Value) {
    let Some(flag) = kind.flag_of_suspended() else {
        return;
    };
    let wanted = match is_suspended(kind, local) {
        true => Some(&Value::Bool(true)),
        false => at(local, flag),
    };
    if at(remote, flag) != wanted {
        set(operations, remote, flag, wanted);
    }
}

/// Makes the remote job say `value` there; parents that are missing are added with it.
fn set(operations: &mut Vec<PatchOperation>, remote: &Value, keys: &[&str], value: Option<&Value>) {
    let depth = (0..keys.len())
        .take_while(|depth| at(remote, &keys[..*depth]).is_some_and(Value::is_object))
        .count();
    match value {
        Some(value) if depth > 0 => {
            let below = keys[depth..].iter().rev();
            let value = below.fold(value.clone(), |value, key| json!({*key: value}));
            operations.push(PatchOperation::Add(AddOperation {
                path: pointer(&path(&keys[..depth])),
                value,
            }));
        }
        None if at(remote, keys).is_some() => {
            operations.push(PatchOperation::Remove(RemoveOperation {
                path: pointer(&path(keys)),
            }));
        }
        Some(_) | None => {}
    }
}

fn test(path: &FieldPath, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: pointer(path),
        value,
    })
}

fn path(keys: &[&str]) -> FieldPath {
    keys.iter().fold(FieldPath::default(), |path, key| path.key(key))
}

fn pointer(path: &FieldPath) -> PointerBuf {
    PointerBuf::parse(path.pointer()).expect("a FieldPath escapes its keys")
}

#[cfg(test)]
mod tests;
