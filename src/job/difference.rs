//! A status as it is, and as it should be -> the merge patch that makes the one the other.

use serde_json::{Map, Value};

use crate::pod::mirror::patch::{is_empty, same_but_for};

/// The merge patch; none if they say the same. What only `is` has goes, but for values that say nothing: an API server
/// may have filled them in.
pub(super) fn difference(is: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for (key, wanted) in wanted {
        match (is.get(key), wanted) {
            (Some(Value::Object(is)), Value::Object(wanted)) => {
                if let Some(below) = difference(is, wanted) {
                    patch.insert(key.clone(), Value::Object(below));
                }
            }
            (Some(is), wanted) if same_but_for(says_nothing, is, wanted) => {}
            (None, wanted) if is_empty(wanted) => {}
            (_, wanted) => _ = patch.insert(key.clone(), wanted.clone()),
        }
    }
    for (key, is) in is {
        if !wanted.contains_key(key) && !says_nothing(is) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    Some(patch).filter(|patch| !patch.is_empty())
}

/// As good as absent: also false and 0.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Bool(holds) => !holds,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(map) => map.values().all(says_nothing),
        Value::Null | Value::String(_) | Value::Array(_) => is_empty(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(is: Value, wanted: Value, expected: Option<Value>) {
        let (mut is, wanted) = (is, wanted);
        let patch = difference(is.as_object().unwrap(), wanted.as_object().unwrap()).map(Value::Object);
        assert_eq!(patch, expected);
        if let Some(patch) = patch {
            json_patch::merge(&mut is, &patch);
            assert_eq!(
                difference(is.as_object().unwrap(), wanted.as_object().unwrap()),
                None
            );
        }
    }

    #[test]
    fn only_what_differs_is_in_the_patch() {
        check(json!({}), json!({}), None);
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "c": 3}),
            Some(json!({"b": null, "c": 3})),
        );
        let is = json!({"roles": {"Worker": {"active": 2}, "Gone": {"active": 1}}});
        let wanted = json!({"roles": {"Worker": {"succeeded": 2}}});
        let patch = json!({"roles": {"Worker": {"active": null, "succeeded": 2}, "Gone": null}});
        check(is, wanted, Some(patch));
        check(
            json!({"l": [1]}),
            json!({"l": [1, 2]}),
            Some(json!({"l": [1, 2]})),
        );
        check(json!({"a": {"b": 1}}), json!({"a": 5}), Some(json!({"a": 5})));
    }

    #[test]
    fn what_says_nothing_is_written_once_and_not_taken_away() {
        check(json!({"failed": 0, "no": false, "list": []}), json!({}), None);
        check(
            json!({}),
            json!({"a": null, "b": "", "c": [], "d": {"e": {}}}),
            None,
        );
        check(json!({}), json!({"ready": 0}), Some(json!({"ready": 0})));
        check(
            json!({"l": [{"a": 1, "zero": 0}]}),
            json!({"l": [{"a": 1}]}),
            None,
        );
        check(json!({"active": 3}), json!({}), Some(json!({"active": null})));
    }
}
