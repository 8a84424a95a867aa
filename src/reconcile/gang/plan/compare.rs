//! A group object that stands there, and one that is wanted -> whether our fields of it differ.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::gang::native;
use crate::names::PORTCULLIS;
use crate::quantity::Quantity;
use crate::words::few;

/// A field may have any number of managers.
const NAMES_SHOWN: usize = 3;

/// Fields of the spec that are ours, also where we want none: what is gone from the job goes from the group.
const OWN: [&str; 4] = [
    "minMember",
    "minResources",
    "scheduleTimeoutSeconds",
    "priorityClassName",
];

/// Whether something of ours is missing or has another value. What others put there does not count.
pub(super) fn differs(live: &Value, wanted: &Value) -> bool {
    !differences(live, wanted).is_empty()
}

/// Which fields of the spec, and which maps of the metadata, are missing or have another value; what is to go counts too.
fn differences(live: &Value, wanted: &Value) -> Vec<String> {
    let (live_spec, wanted_spec) = (&live["spec"], &wanted["spec"]);
    let given = wanted_spec.as_object().into_iter().flatten();
    let given = given.filter(|(key, value)| !is_within(value, &live_spec[*key], *key == "minResources"));
    let left = OWN.iter().filter(|key| {
        wanted_spec.get(key).is_none() && live_spec.get(key).is_some_and(|value| !value.is_null())
    });
    let maps = ["labels", "annotations"]
        .into_iter()
        .filter(|map| !is_within(&wanted["metadata"][map], &live["metadata"][map], false));
    let spec = given.map(|(key, _)| key.as_str()).chain(left.copied());
    spec.map(|key| format!("spec.{key}"))
        .chain(maps.map(|map| format!("metadata.{map}")))
        .collect()
}

/// The fields of ours that differ, of groups of all schedulers.
pub(in crate::reconcile::gang) fn changes(live: &Value, wanted: &Value) -> Vec<String> {
    let is_native = wanted["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with("scheduling.k8s.io/"));
    match (is_native, size_differs(live, wanted)) {
        (true, true) => vec!["minCount".to_owned()],
        (true, false) => Vec::new(),
        (false, _) => differences(live, wanted),
    }
}

/// Whether the native group's size differs: nothing else of it can be changed.
pub(super) fn size_differs(live: &Value, wanted: &Value) -> bool {
    native::min_count(live) != native::min_count(wanted)
}

/// Who keeps these fields of an object from being as we want them, by its `managedFields`: a sentence.
pub(in crate::reconcile::gang) fn whose(fields: &[String], managed: &Value) -> String {
    let fields = fields.join(", ");
    let owns = |entry: &Value| {
        let owned = |path: &str| {
            let pointer: String = path.split('.').map(|key| format!("/f:{key}")).collect();
            entry["fieldsV1"].pointer(&pointer).is_some()
        };
        fields.split(", ").any(|field| match field {
            "minCount" => owned("spec.schedulingPolicy") || owned("spec.podGroupTemplates"),
            field => owned(field),
        })
    };
    let managers = managed.as_array().into_iter().flatten();
    let managers = managers.filter(|entry| owns(entry));
    let names: BTreeSet<&str> = managers
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|name| *name != PORTCULLIS)
        .collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    match names[..] {
        [] => format!("somebody writes {fields} of its PodGroup too"),
        _ => format!("{fields} of its PodGroup belongs to {}", few(&names, NAMES_SHOWN)),
    }
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
        assert_eq!(changes(&answer(Value::Null), &applied), [""; 0]);
        assert_eq!(
            changes(&answer(json!(0)), &applied),
            ["spec.scheduleTimeoutSeconds"]
        );
        let size = |size: u32| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "priority": size},
            })
        };
        assert_eq!(changes(&size(3), &size(3)), [""; 0]);
        assert_eq!(changes(&size(2), &size(3)), ["minCount"]);
    }

    #[test]
    fn whoever_wrote_a_field_is_named() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let managed = json!([
            entry("portcullis", json!({"f:spec": {"f:minMember": {}}})),
            entry("kubectl-edit", json!({"f:spec": {"f:minMember": {}}})),
            entry("scheduler", json!({"f:status": {"f:phase": {}}})),
            entry("kubectl-edit", json!({"f:spec": {"f:minMember": {}}})),
        ]);
        let whose = |field: &str| whose(&[field.to_owned()], &managed);
        assert_eq!(
            whose("spec.minMember"),
            "spec.minMember of its PodGroup belongs to kubectl-edit"
        );
        assert_eq!(whose("minCount"), "somebody writes minCount of its PodGroup too");
        let crowd: Vec<Value> = (0..700)
            .map(|number| entry(&format!("m{number:03}"), json!({"f:spec": {"f:queue": {}}})))
            .collect();
        assert_eq!(
            super::whose(&["spec.queue".to_owned()], &json!(crowd)),
            "spec.queue of its PodGroup belongs to m000, m001, m002 and 697 more"
        );
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
