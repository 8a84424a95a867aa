//! Jobs that nobody would write, and laws over fields that nobody knows.

use proptest::prelude::*;

use super::super::laws::unknown_fields;
use super::*;

#[test]
fn keys_of_the_reconciler_are_refused_on_a_new_job_and_in_its_template() {
    for (kind, example) in kinds() {
        let forged = json!({"portcullis.dev/cluster": "a", "portcullis.dev/attempt": "1"});
        let reply = ask_job(
            kind,
            &with(example.clone(), "/metadata/annotations", forged),
            &MANAGER,
        );
        assert_eq!(
            (reply.answer.decision, reply.answer.reason),
            ("denied", "reserved-key")
        );
        assert!(
            reply
                .message()
                .contains("portcullis.dev/cluster, portcullis.dev/attempt"),
            "{}",
            reply.message()
        );
        let held = with(
            example,
            "/metadata/finalizers",
            json!(["portcullis.dev/remote-copy"]),
        );
        assert!(
            ask_job(kind, &held, &MANAGER)
                .message()
                .contains("portcullis.dev/remote-copy")
        );
    }
    let (kind, job) = kinds()
        .find(|(kind, _)| kind.resource().group == "batch")
        .unwrap();
    let forged = json!({"portcullis.dev/remote-uid": "a/b"});
    let reply = ask_job(
        kind,
        &with(job, "/spec/template/metadata/annotations", forged),
        &MANAGER,
    );
    assert!(
        reply
            .message()
            .starts_with("spec.template.metadata: only portcullis"),
        "{}",
        reply.message()
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_its_field() {
    for (kind, example) in kinds() {
        let dotted = kind.managed_by().path.join(".");
        for (object, field) in [
            (with(example.clone(), "/spec", json!("x")), "spec: "),
            (with(example.clone(), &field(kind), json!(5)), dotted.as_str()),
            (with(example.clone(), &field(kind), json!({})), dotted.as_str()),
            (
                with(example.clone(), "/metadata/labels", json!([1])),
                "metadata.labels",
            ),
            (
                with(example.clone(), "/metadata/ownerReferences", json!({})),
                "metadata.ownerReferences",
            ),
        ] {
            let reply = ask_job(kind, &object, &MANAGER);
            assert_eq!(
                (reply.answer.decision, reply.answer.reason),
                ("denied", "unreadable"),
                "{object}"
            );
            let message = reply.message();
            assert!(
                message.contains(field) && message.contains("run the job on a worker"),
                "{message}"
            );
        }
        for object in [
            json!(null),
            json!({}),
            json!({"metadata": null, "spec": null}),
            json!([]),
            json!("x"),
        ] {
            let _ = ask_job(kind, &object, &MANAGER);
        }
    }
}

/// P16: numbers are not even looked at.
#[test]
fn numbers_that_no_type_holds_pass_by() {
    for (kind, example) in kinds() {
        for number in ["1e999", "-0.0", "18446744073709551616"] {
            let object = with(example.clone(), "/spec/fromTheFuture", json!("the number"));
            let body = review_of(kind, "CREATE", &object).to_string();
            let reply = answer_to(&body.replace("\"the number\"", number), kind, &MANAGER);
            assert_eq!(reply.answer.reason, "managed", "{number}");
        }
    }
}

/// Without what admission wrote.
fn without_our_marks(kind: &dyn JobKind, mut object: Value) -> Value {
    let (last, parents) = kind.managed_by().path.split_last().unwrap();
    let parent = parents.iter().fold(&mut object, |place, key| &mut place[*key]);
    parent.as_object_mut().unwrap().remove(*last);
    if let Some(annotations) = object["metadata"].get_mut("annotations") {
        let annotations = annotations.as_object_mut().unwrap();
        annotations.remove(DISPATCHED_BY);
        if annotations.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        }
    }
    object
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// P16, P18, R32.
    #[test]
    fn unknown_fields_survive_and_its_own_output_stays(unknown in unknown_fields()) {
        for (kind, mut object) in kinds() {
            if kind.managed_by().path.len() > 2 {
                at(&mut object, "/spec/runPolicy")["x-own"] = json!(1);
            }
            for (level, (key, value)) in ["", "/metadata", "/spec"].iter().zip(&unknown) {
                let level = object.pointer_mut(level).and_then(Value::as_object_mut).unwrap();
                level.insert(key.clone(), value.clone());
            }
            let stored = ask_job(kind, &object, &MANAGER).applied_to(&object);
            is_ours(kind, &stored);
            let again = ask_job(kind, &stored, &MANAGER);
            prop_assert_eq!(again.patch(), Vec::<Value>::new());
            prop_assert_eq!(without_our_marks(kind, stored), object);
        }
    }
}
