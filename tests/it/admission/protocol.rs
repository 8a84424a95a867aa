//! The protocol of admission reviews, point by point; ids are those of the requirements.

use super::*;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use proptest::prelude::*;

struct Panics;

impl NamespaceFacts for Panics {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        panic!("injected by a test")
    }
}

fn create_pod() -> Value {
    review("pods", "CREATE", &pod(), &Value::Null)
}

/// A review for every way an answer can come about.
fn every_outcome() -> Vec<(&'static str, Value)> {
    let denied = with(
        create_pod(),
        "/request/object/metadata/labels/portcullis.dev~1gated",
        json!("no"),
    );
    vec![
        ("patched", create_pod()),
        ("allowed", review("pods", "UPDATE", &pod(), &pod())),
        ("denied", denied),
        ("allowed", review("widgets", "CREATE", &json!({}), &Value::Null)),
    ]
}

/// P1
#[test]
fn answers_in_the_version_and_kind_of_the_question() {
    for (_, request) in every_outcome() {
        let reply = ask(&request, &Namespaces::OptedIn);
        assert_eq!(reply.answer.status, 200);
        assert_eq!(
            (&reply.body["apiVersion"], &reply.body["kind"]),
            (&request["apiVersion"], &request["kind"])
        );
    }
}

/// P1
#[test]
fn refuses_other_versions_and_kinds_with_400() {
    for (pointer, value) in [
        ("/apiVersion", json!("admission.k8s.io/v1beta1")),
        ("/apiVersion", json!("v1")),
        ("/apiVersion", Value::Null),
        ("/kind", json!("ConversionReview")),
    ] {
        let reply = ask(&with(create_pod(), pointer, value), &Namespaces::OptedIn);
        assert_eq!(
            (reply.answer.status, reply.answer.reason),
            (400, "unknown-version")
        );
        assert_eq!(
            (&reply.body["kind"], &reply.body["code"]),
            (&json!("Status"), &json!(400))
        );
    }
}

proptest! {
    /// P2
    #[test]
    fn echoes_any_uid_on_every_path(uid in r#"[\PC"\\/<>&\u{1F980}\u{0}-\u{1F}]{1,64}"#, long in 0..1024_usize) {
        let uid = format!("{uid}{}", "x".repeat(long));
        for (_, request) in every_outcome() {
            let reply = ask(&with(request, "/request/uid", json!(uid)), &Namespaces::OptedIn);
            prop_assert_eq!(&reply.body["response"]["uid"], &json!(uid));
            prop_assert_eq!(&reply.answer.uid, &uid);
        }
    }
}

/// P2: escapes that Go writes are read, not echoed as text.
#[test]
fn a_uid_with_escapes_is_the_same_uid() {
    let body = create_pod().to_string().replace(UID, r"\u003cuid\u003e\u00e9");
    assert_eq!(
        ask_bytes(body.as_bytes(), &Namespaces::OptedIn).body["response"]["uid"],
        "<uid>é"
    );
}

/// P2, P7, L14: a panic of ours is a 500 with the UID, so that failurePolicy decides.
#[test]
fn a_fault_of_ours_is_a_500_that_carries_the_uid() {
    let reply = ask_bytes(create_pod().to_string().as_bytes(), &Panics);
    assert_eq!(
        (reply.answer.status, reply.answer.decision, reply.answer.reason),
        (500, "error", "fault")
    );
    assert_eq!(reply.body["response"]["uid"], UID);
    assert_eq!(reply.body["response"]["allowed"], false);
    assert_eq!(reply.body["response"]["status"]["code"], 500);
}

/// P3
#[test]
fn a_body_without_a_uid_is_a_400_and_never_a_review() {
    let whole = as_go_writes(&create_pod());
    let mut bodies: Vec<Vec<u8>> = (0..whole.len())
        .step_by(7)
        .map(|end| whole.as_bytes()[..end].to_vec())
        .collect();
    for value in [Value::Null, json!(""), json!(5), json!({}), json!(["u"])] {
        bodies.push(with(create_pod(), "/request/uid", value).to_string().into_bytes());
    }
    for value in [Value::Null, json!([]), json!("x"), json!({})] {
        bodies.push(with(create_pod(), "/request", value).to_string().into_bytes());
    }
    bodies.extend(
        ["", "[]", "null", "5", "\"x\"", "{}", "{]", "\u{feff}{}"].map(|text| text.as_bytes().to_vec()),
    );
    bodies.push(format!("{whole} x").into_bytes());
    bodies.push(whole.replace(UID, r"\ud800").into_bytes());
    bodies.push(vec![0xff, 0xfe]);
    let (before, after) = whole.split_once(UID).unwrap();
    bodies.push([before.as_bytes(), &[0xff], after.as_bytes()].concat());
    for body in bodies {
        let reply = ask_bytes(&body, &Namespaces::OptedIn);
        assert_eq!(reply.answer.status, 400, "{}", String::from_utf8_lossy(&body));
        assert_eq!(
            (&reply.body["kind"], reply.body.get("response")),
            (&json!("Status"), None)
        );
    }
}

/// P5
#[test]
fn the_patch_is_base64_of_a_json_patch_and_not_an_array_of_numbers() {
    let reply = ask(&create_pod(), &Namespaces::OptedIn);
    let text = reply.body["response"]["patch"].as_str().unwrap();
    assert_eq!(reply.body["response"]["patchType"], "JSONPatch");
    assert_eq!(text.len() % 4, 0, "padded, as Go's decoder wants it");
    let bytes = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).unwrap();
    let operations: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(operations.len(), 2);
    let as_numbers = serde_json::to_string(&bytes).unwrap();
    assert!(as_numbers.len() > 2 * text.len());
}

/// P6
#[test]
fn without_a_change_there_is_neither_patch_nor_patch_type() {
    let stored = created("pods", &pod());
    let reply = ask(
        &review("pods", "CREATE", &stored, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert!(
        reply.body["response"].get("patch").is_none() && reply.body["response"].get("patchType").is_none()
    );
}

/// P7
#[test]
fn a_refusal_is_a_200_with_code_field_and_remedy() {
    for (pointer, value, code, words) in [
        (
            "/metadata/labels/portcullis.dev~1gated",
            json!("no"),
            403,
            ["metadata.labels", "leave it out"],
        ),
        (
            "/metadata/annotations/portcullis.dev~1cluster",
            json!("a"),
            403,
            ["portcullis.dev/cluster", "remove"],
        ),
        (
            "/spec/schedulingGates",
            json!("x"),
            422,
            ["spec.schedulingGates", "expected a sequence"],
        ),
    ] {
        let request = with(create_pod(), &format!("/request/object{pointer}"), value);
        let reply = ask(&request, &Namespaces::OptedIn);
        assert_eq!(
            (reply.answer.status, reply.answer.decision, reply.allowed()),
            (200, "denied", false)
        );
        assert_eq!(reply.body["response"]["status"]["code"], code);
        assert!(
            words.iter().all(|word| reply.message().contains(word)),
            "{}",
            reply.message()
        );
        assert_eq!(reply.answer.detail, reply.message());
    }
}

/// P13
#[test]
fn delete_and_connect_are_never_patched_and_need_no_object() {
    let options = |kind: &str| json!({"kind": kind, "apiVersion": "v1", "stdin": true, "command": ["sh"]});
    let mut requests = vec![
        review("pods", "DELETE", &Value::Null, &pod()),
        review(
            "deployments",
            "DELETE",
            &Value::Null,
            &workload("Deployment", "web"),
        ),
    ];
    for (subresource, kind) in [
        ("exec", "PodExecOptions"),
        ("attach", "PodAttachOptions"),
        ("portforward", "PodPortForwardOptions"),
        ("proxy", "PodProxyOptions"),
    ] {
        let request = review("pods", "CONNECT", &options(kind), &Value::Null);
        requests.push(with(request, "/request/subResource", json!(subresource)));
    }
    for request in requests {
        let reply = ask(&request, &Namespaces::OptedIn);
        assert_eq!((reply.allowed(), reply.patch()), (true, vec![]), "{request}");
    }
}

/// P15: one row each; a body of another kind is never read as a pod.
#[test]
fn every_subresource_has_its_row_and_unknown_ones_are_allowed_and_counted() {
    let binding =
        json!({"kind": "Binding", "metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "one"}});
    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 5}});
    for (plural, subresource, operation, object, reason) in [
        ("pods", "status", "UPDATE", &pod(), "subresource"),
        ("pods", "binding", "CREATE", &binding, "subresource"),
        ("pods", "eviction", "CREATE", &eviction, "subresource"),
        ("pods", "ephemeralcontainers", "UPDATE", &pod(), "subresource"),
        ("pods", "resize", "UPDATE", &pod(), "subresource"),
        ("pods", "fromthefuture", "UPDATE", &json!({"spec": []}), "unknown"),
        ("pods", "", "TRANSMUTE", &pod(), "unknown"),
        ("deployments", "scale", "UPDATE", &scale, "subresource"),
        (
            "deployments",
            "status",
            "UPDATE",
            &workload("Deployment", "web"),
            "subresource",
        ),
        ("statefulsets", "scale", "UPDATE", &scale, "subresource"),
        (
            "daemonsets",
            "",
            "CREATE",
            &workload("DaemonSet", "agent"),
            "not-mutated",
        ),
        ("widgets", "", "CREATE", &json!({"spec": 5}), "unknown"),
    ] {
        let request = with(
            review(plural, operation, object, &Value::Null),
            "/request/subResource",
            json!(subresource),
        );
        let reply = ask(&request, &Namespaces::OptedIn);
        assert_eq!(
            (reply.allowed(), reply.patch()),
            (true, vec![]),
            "{plural}/{subresource}"
        );
        assert_eq!(reply.answer.reason, reason, "{plural}/{subresource} {operation}");
    }
}

/// P20
#[test]
fn a_dry_run_gets_the_same_answer() {
    for (_, request) in every_outcome() {
        let real = admit(request.to_string().as_bytes(), &Namespaces::OptedIn);
        for dry_run in [json!(true), Value::Null, json!("odd")] {
            let request = with(request.clone(), "/request/dryRun", dry_run);
            for _ in 0..2 {
                assert_eq!(admit(request.to_string().as_bytes(), &Namespaces::OptedIn), real);
            }
        }
    }
}

/// P23
#[test]
fn the_kind_that_is_sent_decides_and_not_the_one_that_was_asked_for() {
    let object = workload("Deployment", "web");
    let request = review("deployments", "CREATE", &object, &Value::Null);
    let request = with(request, "/request/requestKind/group", json!("extensions"));
    let request = with(
        request,
        "/request/requestResource",
        json!({"group": "x", "version": "v0", "resource": "y"}),
    );
    assert_eq!(ask(&request, &Namespaces::OptedIn).answer.reason, "marked");
    let other = with(request, "/request/resource/version", json!("v1beta2"));
    assert_eq!(ask(&other, &Namespaces::OptedIn).answer.reason, "unknown");
}

/// P24: every field that the protocol does not need may be missing, null or joined by others.
#[test]
fn optional_fields_may_be_missing_null_or_more_than_expected() {
    fn pointers(value: &Value, here: &str, found: &mut Vec<String>) {
        let Some(object) = value.as_object() else { return };
        for (key, value) in object {
            let pointer = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
            pointers(value, &pointer, found);
            found.push(pointer);
        }
    }
    let needed = ["/kind", "/apiVersion", "/request", "/request/uid"];
    for (_, request) in every_outcome() {
        let mut found = Vec::new();
        pointers(&request, "", &mut found);
        for pointer in found.iter().filter(|pointer| !needed.contains(&pointer.as_str())) {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let mut missing = request.clone();
            let parent = missing.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.remove(&key.replace("~1", "/"));
            parent.insert("x-from-the-future".to_owned(), json!([{"a": null}]));
            for request in [missing, with(request.clone(), pointer, Value::Null)] {
                let reply = ask(&request, &Namespaces::OptedIn);
                assert_eq!(reply.answer.status, 200, "{pointer}");
                assert_eq!(reply.body["response"]["uid"], UID);
            }
        }
    }
}

/// O8
#[test]
fn audit_annotations_are_few_and_have_no_slash() {
    for (decision, request) in every_outcome() {
        let reply = ask(&request, &Namespaces::OptedIn);
        let annotations = reply.body["response"]["auditAnnotations"]
            .as_object()
            .unwrap()
            .clone();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["decision", "reason"]);
        assert_eq!(annotations["decision"], decision);
        assert_eq!(annotations["reason"], reply.answer.reason);
        assert!(
            annotations
                .values()
                .all(|value| value.as_str().unwrap().len() < 32)
        );
    }
}

/// Labels of metrics come from lists of ours, whatever the caller sends.
#[test]
fn metric_labels_are_bounded() {
    let request = review("pods", "\u{1F980}", &pod(), &Value::Null);
    let reply = ask(
        &with(request, "/request/resource/resource", json!("x".repeat(500))),
        &Namespaces::OptedIn,
    );
    assert_eq!(
        (reply.answer.resource, reply.answer.operation),
        ("other", "unknown")
    );
}
