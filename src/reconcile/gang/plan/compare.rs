//! A group object that stands there, and one that is wanted -> whether our fields of it differ.

use serde_json::Value;

use crate::gang::native;
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

/// Whether this answer to an update is as we wanted it. Where a field that we want gone is still there, somebody else owns
/// it: an apply without force removes only what nobody else wrote.
pub(in crate::reconcile::gang) fn took_effect(answer: &Value, applied: &Value) -> bool {
    let is_native = applied["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with("scheduling.k8s.io/"));
    match is_native {
        true => !size_differs(answer, applied),
        false => !differs(answer, applied),
    }
}

/// Whether the native group's size differs: nothing else of it can be changed.
pub(super) fn size_differs(live: &Value, wanted: &Value) -> bool {
    native::min_count(live) != native::min_count(wanted)
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
    fn a_field_that_stays_after_an_update_is_somebody_elses() {
        let applied = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 3}});
        let answer = |timeout: Value| json!({"spec": {"minMember": 3, "scheduleTimeoutSeconds": timeout}});
        assert!(took_effect(&answer(Value::Null), &applied));
        assert!(!took_effect(&answer(json!(0)), &applied));
        let size = |size: u32| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "priority": size},
            })
        };
        assert!(took_effect(&size(3), &size(3)));
        assert!(!took_effect(&size(2), &size(3)));
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
