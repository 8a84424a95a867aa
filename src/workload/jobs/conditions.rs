//! The conditions of a status: found, and set by type.

use serde_json::{Map, Value, json};

use super::Failure;

/// What a condition says, without its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said<'a> {
    /// Its type.
    pub kind: &'a str,
    /// True or False.
    pub status: bool,
    /// One word in CamelCase.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
}

impl<'a> Said<'a> {
    /// This type and status, for the reason of a failure.
    #[must_use]
    pub fn of(kind: &'a str, status: bool, failure: &Failure<'a>) -> Self {
        Self {
            kind,
            status,
            reason: failure.reason,
            message: failure.message,
        }
    }
}

/// The list in this field of a status, made if it is not there.
pub fn list<'s>(status: &'s mut Map<String, Value>, field: &str) -> &'s mut Vec<Value> {
    let place = status.entry(field).or_insert_with(|| json!([]));
    if !place.is_array() {
        *place = json!([]);
    }
    place.as_array_mut().expect("it was just made a list")
}

/// The list at the end of this path, which starts with `status`; made if it is not there. None where something else is in
/// the way.
pub fn make<'s>(status: &'s mut Map<String, Value>, path: &[&str]) -> Option<&'s mut Vec<Value>> {
    let (last, parents) = path.get(1..)?.split_last()?;
    let mut place = status;
    for key in parents {
        place = place.entry(*key).or_insert_with(|| json!({})).as_object_mut()?;
    }
    Some(list(place, last))
}

/// The list at the end of this path of an object; empty where there is none.
#[must_use]
pub fn of<'j>(object: &'j Value, path: &[&str]) -> &'j [Value] {
    let list = path.iter().try_fold(object, |place, key| place.get(*key));
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The condition of this type.
#[must_use]
pub fn find<'c>(conditions: &'c [Value], kind: &str) -> Option<&'c Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of this type says True.
#[must_use]
pub fn is_true(conditions: &[Value], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets the condition. One that says the same stays to the letter, and one whose status stays keeps its time. A new one
/// comes last, where `kubectl get` of many kinds looks for the state.
pub fn set(conditions: &mut Vec<Value>, said: &Said<'_>, now: &str) {
    put(conditions, said, now, Place::Last);
}

/// As [`set`], but a new one comes first, where it is nobody's state.
pub fn set_first(conditions: &mut Vec<Value>, said: &Said<'_>, now: &str) {
    put(conditions, said, now, Place::First);
}

enum Place {
    First,
    Last,
}

fn put(conditions: &mut Vec<Value>, said: &Said<'_>, now: &str, place: Place) {
    let status = if said.status { "True" } else { "False" };
    let index = conditions.iter().position(|before| before["type"] == said.kind);
    let mut since = json!(now);
    if let Some(before) = index.map(|index| &conditions[index]) {
        let text = |field: &str| before[field].as_str().unwrap_or_default();
        if text("status") == status {
            if (text("reason"), text("message")) == (said.reason, said.message) {
                return;
            }
            if !before["lastTransitionTime"].is_null() {
                since = before["lastTransitionTime"].clone();
            }
        }
    }
    let condition = json!({
        "type": said.kind, "status": status, "reason": said.reason, "message": said.message, "lastTransitionTime": since,
    });
    match (index, place) {
        (Some(index), _) => conditions[index] = condition,
        (None, Place::First) => conditions.insert(0, condition),
        (None, Place::Last) => conditions.push(condition),
    }
}
