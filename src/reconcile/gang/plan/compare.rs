//! A group object that stands there, and one that is wanted -> whether our fields of it differ.

use serde_json::Value;

use crate::quantity::Quantity;

/// Fields of the spec that are ours, also where we want none: what is gone from the job goes from the group.
const OWN: [&str; 4] = [
    "minMember",
    "minResources",
    "scheduleTimeoutSeconds",
    "priorityClassName",
];

/// Whether something of ours is missing or has another value. What others put there does not count.
pub(super) fn differs(live: &Value, wanted: &Value) -> bool {
    let (live_spec, wanted_spec) = (&live["spec"], &wanted["spec"]);
    let given = wanted_spec.as_object().into_iter().flatten();
    let differs = given
        .clone()
        .any(|(key, value)| !is_within(value, &live_spec[key], key == "minResources"));
    let left = OWN.iter().any(|key| {
        wanted_spec.get(key).is_none() && live_spec.get(key).is_some_and(|value| !value.is_null())
    });
    let metadata = ["labels", "annotations"]
        .iter()
        .any(|map| !is_within(&wanted["metadata"][map], &live["metadata"][map], false));
    differs || left || metadata
}

/// Whether the native group's size differs: nothing else of it can be changed.
pub(super) fn size_differs(live: &Value, wanted: &Value) -> bool {
    let size = |object: &Value| object.pointer("/spec/schedulingPolicy/gang/minCount").cloned();
    size(live) != size(wanted)
}

/// Every field of `wanted` is in `live` with an equal value. Amounts are compared as numbers, and `whole`: no other keys.
fn is_within(wanted: &Value, live: &Value, amounts: bool) -> bool {
    match (wanted, live) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(live)) => {
            (!amounts || wanted.len() == live.len())
                && wanted
                    .iter()
                    .all(|(key, value)| live.get(key).is_some_and(|live| is_within(value, live, amounts)))
        }
        (wanted, live) if amounts => match (amount(wanted), amount(live)) {
            (Some(wanted), Some(live)) => wanted == live,
            (Some(_), None) | (None, Some(_) | None) => wanted == live,
        },
        (wanted, live) => wanted == live,
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_equal_as_numbers() {
        let live = json!({"spec": {"minMember": 3, "minResources": {"cpu": "1", "memory": "1Gi"}}});
        let same = json!({"spec": {"minMember": 3, "minResources": {"cpu": "1000m", "memory": "1024Mi"}}});
        assert!(!differs(&live, &same));
        let less = json!({"spec": {"minMember": 3, "minResources": {"cpu": "1"}}});
        assert!(differs(&live, &less));
    }

    #[test]
    fn what_the_job_lost_is_lost_and_what_others_wrote_stays() {
        let live = json!({"spec": {"minMember": 3, "queue": "theirs", "priorityClassName": "high"}, "status": {"phase": "Running"}});
        assert!(differs(&live, &json!({"spec": {"minMember": 3}})));
        assert!(!differs(
            &live,
            &json!({"spec": {"minMember": 3, "priorityClassName": "high"}})
        ));
        assert!(differs(
            &live,
            &json!({"spec": {"minMember": 2, "priorityClassName": "high"}})
        ));
    }
}
