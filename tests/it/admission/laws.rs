//! Laws that every kind keeps, over objects with unknown fields at every level.

use super::*;
use portcullis::workload::{Treatment, WORKLOAD_KINDS, WorkloadKind};
use proptest::prelude::*;

/// Any JSON value, with numbers that careless code would round.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z~/. ]{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Unknown fields for the object, its metadata, its spec, the pod's metadata and the pod's spec.
pub(super) fn unknown_fields() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::vec(("x-[a-z~/]{0,6}", any_json()), 5)
}

/// The kinds that admission edits, each with its example as an API server would send it.
fn edited_kinds() -> impl Iterator<Item = (&'static dyn WorkloadKind, Value)> {
    let edited = WORKLOAD_KINDS
        .iter()
        .filter(|kind| kind.treatment() != Treatment::Refuse);
    edited.map(|kind| (*kind, serde_saphyr::from_str(kind.example()).unwrap()))
}

fn pod_pointer(kind: &dyn WorkloadKind) -> String {
    kind.pod().keys().iter().map(|key| format!("/{key}")).collect()
}

fn sprinkle(kind: &dyn WorkloadKind, object: &mut Value, unknown: &[(String, Value)]) {
    let pod = pod_pointer(kind);
    let levels = [
        String::new(),
        "/metadata".to_owned(),
        "/spec".to_owned(),
        format!("{pod}/metadata"),
        format!("{pod}/spec"),
    ];
    for (level, (key, value)) in levels.iter().zip(unknown) {
        if let Some(object) = object.pointer_mut(level).and_then(Value::as_object_mut) {
            object.insert(key.clone(), value.clone());
        }
    }
}

/// The object without the three marks and what they stood in if nothing else stood there.
fn without_our_keys(kind: &dyn WorkloadKind, mut object: Value) -> Value {
    let pod = object
        .pointer_mut(&pod_pointer(kind))
        .expect("an example has its pod");
    for (map, key) in [
        ("labels", "portcullis.dev/gated"),
        ("annotations", "portcullis.dev/root"),
    ] {
        let metadata = pod["metadata"].as_object_mut().unwrap();
        let entries = metadata.get_mut(map).and_then(Value::as_object_mut);
        if entries.is_some_and(|entries| entries.remove(key).is_some() && entries.is_empty()) {
            metadata.remove(map);
        }
    }
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.remove("schedulingGates");
    object
}

proptest! {
    /// P16, R32
    #[test]
    fn unknown_fields_survive_and_nothing_else_changes(unknown in unknown_fields()) {
        for (kind, mut object) in edited_kinds() {
            sprinkle(kind, &mut object, &unknown);
            let stored = created(kind.resource().plural, &object);
            prop_assert_ne!(&stored, &object);
            prop_assert_eq!(without_our_keys(kind, stored), object);
        }
    }

    /// P18
    #[test]
    fn admission_of_its_own_output_is_empty(unknown in unknown_fields()) {
        for (kind, mut object) in edited_kinds() {
            sprinkle(kind, &mut object, &unknown);
            let stored = created(kind.resource().plural, &object);
            let again = ask(&review(kind.resource().plural, "CREATE", &stored, &Value::Null), &Namespaces::OptedIn);
            prop_assert_eq!(again.patch(), Vec::<Value>::new());
        }
    }

    /// R74: whatever is in the template, applying the manifest again gives the stored template.
    #[test]
    fn applying_the_same_manifest_again_gives_the_stored_object(unknown in unknown_fields()) {
        for (kind, mut object) in edited_kinds().filter(|(kind, _)| kind.treatment() == Treatment::GateTemplate) {
            sprinkle(kind, &mut object, &unknown);
            let plural = kind.resource().plural;
            let stored = created(plural, &object);
            prop_assert_eq!(updated(plural, &object, &stored), stored.clone());
            prop_assert_eq!(updated(plural, &object, &object), object);
        }
    }

    #[test]
    fn the_same_question_gets_the_same_answer(unknown in unknown_fields()) {
        for (kind, mut object) in edited_kinds() {
            sprinkle(kind, &mut object, &unknown);
            let body = review(kind.resource().plural, "CREATE", &object, &Value::Null).to_string();
            prop_assert_eq!(
                admit(body.as_bytes(), &Namespaces::OptedIn),
                admit(body.as_bytes(), &Namespaces::OptedIn)
            );
        }
    }
}

/// P16: numbers are not even looked at, so they cannot be rounded, and order and spelling do not matter.
#[test]
fn numbers_that_no_type_holds_pass_by() {
    let big = "1".repeat(1_000_000);
    for number in ["1e999", "-0.0", "18446744073709551616", "1.00", big.as_str()] {
        let body = as_go_writes(&review("pods", "CREATE", &pod(), &Value::Null));
        let body = body.replace(
            r#""restartPolicy":"Always""#,
            &format!(r#""fromTheFuture":{number}"#),
        );
        assert!(body.contains(number));
        let reply = ask_bytes(body.as_bytes(), &Namespaces::OptedIn);
        assert_eq!((reply.answer.decision, reply.patch().len()), ("patched", 2));
    }
}

/// P18: another webhook edits in between, and we are called again.
#[test]
fn a_second_call_after_another_webhook_finds_nothing_to_do() {
    for (kind, object) in edited_kinds() {
        let mut stored = created(kind.resource().plural, &object);
        let pod = stored
            .pointer_mut(&pod_pointer(kind))
            .expect("an example has its pod");
        pod["metadata"]["labels"]["sidecar"] = json!("yes");
        pod["spec"]["schedulingGates"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"name": "other"}));
        pod["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "sidecar"}));
        let again = ask(
            &review(kind.resource().plural, "CREATE", &stored, &Value::Null),
            &Namespaces::OptedIn,
        );
        assert_eq!(again.patch(), Vec::<Value>::new());
    }
}
