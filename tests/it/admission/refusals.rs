//! What is refused, each with field and way out, and what never is.

use super::*;

/// R72: what only the reconciler writes is refused, by name.
#[test]
fn keys_of_the_reconciler_are_refused_with_their_names() {
    let mut object = pod();
    object["metadata"]["annotations"] = json!({
        "portcullis.dev/cluster": "worker-a", "portcullis.dev/remote-uid": "a/b", "mine": "x",
    });
    object["metadata"]["finalizers"] = json!(["portcullis.dev/remote-copy"]);
    let reply = ask(
        &review("pods", "CREATE", &object, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert!(!reply.allowed());
    assert_eq!(
        reply.message(),
        "metadata: only portcullis itself writes portcullis.dev/cluster, portcullis.dev/remote-uid, \
         portcullis.dev/remote-copy: remove it from metadata, for a dispatched pod is not created again from its own \
         manifest"
    );
    for key in ["cluster", "cluster-uid", "remote-uid", "remote-node", "attempt"] {
        let mut object = pod();
        *at(
            &mut object,
            &format!("/metadata/annotations/portcullis.dev~1{key}"),
        ) = json!("x");
        let reply = ask(
            &review("pods", "CREATE", &object, &Value::Null),
            &Namespaces::AllowExempt,
        );
        assert!(!reply.allowed() && reply.message().contains(key), "{key}");
    }
}

#[test]
fn a_label_of_ours_with_another_value_is_refused() {
    let mut object = pod();
    *at(&mut object, "/metadata/labels/portcullis.dev~1gated") = json!("false");
    let reply = ask(
        &review("pods", "CREATE", &object, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!(
        reply.message(),
        "metadata.labels: portcullis.dev/gated is \"false\", and can only be \"true\"; leave it out, Portcullis sets it"
    );
}

#[test]
fn an_object_that_the_reconciler_could_not_read_is_refused_with_the_field() {
    for (pointer, value, field) in [
        ("/spec", json!([]), "spec: invalid type: sequence"),
        ("/spec", Value::Null, "spec: missing, expected an object"),
        (
            "/spec/schedulingGates",
            json!({"name": "a"}),
            "spec.schedulingGates: invalid type: map",
        ),
        (
            "/spec/schedulingGates",
            json!([{}]),
            "spec.schedulingGates[0]: missing field `name`",
        ),
        (
            "/metadata/labels/app",
            json!(1),
            "metadata.labels.app: invalid type: integer `1`, expected a string",
        ),
        ("/metadata", json!("x"), "metadata: invalid type: string"),
        (
            "/metadata/finalizers",
            json!("x"),
            "metadata.finalizers: invalid type: string",
        ),
    ] {
        let mut object = pod();
        *at(&mut object, pointer) = value;
        let reply = ask(
            &review("pods", "CREATE", &object, &Value::Null),
            &Namespaces::OptedIn,
        );
        assert!(
            !reply.allowed() && reply.message().starts_with(field),
            "{field}: {}",
            reply.message()
        );
        assert_eq!(reply.body["response"]["status"]["code"], 422);
    }
    let reply = ask(
        &review("pods", "CREATE", &Value::Null, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert!(reply.message().starts_with("object: missing"));
}

#[test]
fn keys_of_the_reconciler_are_refused_on_the_object_and_in_its_template() {
    for (pointer, path) in [
        ("/metadata/annotations/portcullis.dev~1cluster", "metadata: "),
        (
            "/spec/template/metadata/annotations/portcullis.dev~1cluster",
            "spec.template.metadata: ",
        ),
    ] {
        let mut object = workload("Deployment", "web");
        *at(&mut object, pointer) = json!("x");
        let reply = ask(
            &review("deployments", "CREATE", &object, &Value::Null),
            &Namespaces::OptedIn,
        );
        assert!(
            !reply.allowed() && reply.message().starts_with(path),
            "{}",
            reply.message()
        );
    }
}

#[test]
fn a_template_that_cannot_be_read_is_refused_with_the_field() {
    for (pointer, value, field) in [
        ("/spec", Value::Null, "spec: missing, expected an object"),
        (
            "/spec",
            json!([]),
            "spec: invalid type: sequence, expected an object",
        ),
        (
            "/spec/template",
            Value::Null,
            "spec.template: missing, expected an object",
        ),
        (
            "/spec/template",
            json!(1),
            "spec.template: invalid type: integer `1`",
        ),
        (
            "/spec/template/spec",
            Value::Null,
            "spec.template.spec: missing, expected an object",
        ),
        (
            "/spec/template/metadata/labels",
            json!([]),
            "spec.template.metadata.labels: invalid type: sequence",
        ),
        (
            "/spec/template/spec/schedulingGates",
            json!(["x"]),
            "spec.template.spec.schedulingGates[0]: invalid type",
        ),
        (
            "/metadata/ownerReferences",
            json!({}),
            "metadata.ownerReferences: invalid type: map",
        ),
    ] {
        let mut object = workload("Deployment", "web");
        *at(&mut object, pointer) = value;
        let reply = ask(
            &review("deployments", "CREATE", &object, &Value::Null),
            &Namespaces::OptedIn,
        );
        assert!(
            !reply.allowed() && reply.message().starts_with(field),
            "{field}: {}",
            reply.message()
        );
    }
}

/// What is stored may be older than our rules; only what an update brings in is refused.
#[test]
fn what_is_stored_already_can_stay() {
    for (pointer, value) in [
        (
            "/spec/template/metadata/annotations/portcullis.dev~1cluster",
            json!("x"),
        ),
        (
            "/spec/template/metadata/labels/portcullis.dev~1gated",
            json!("odd"),
        ),
        ("/spec/template/metadata/labels/number", json!(5)),
        ("/spec/template/spec", Value::Null),
    ] {
        let mut old = workload("Deployment", "web");
        *at(&mut old, pointer) = value;
        let mut scaled = old.clone();
        scaled["spec"]["replicas"] = json!(0);
        let reply = ask(
            &review("deployments", "UPDATE", &scaled, &old),
            &Namespaces::OptedIn,
        );
        assert!(
            reply.allowed() && reply.patch().is_empty(),
            "{pointer}: {}",
            reply.body
        );
        let brought = ask(
            &review("deployments", "UPDATE", &old, &workload("Deployment", "web")),
            &Namespaces::OptedIn,
        );
        assert!(!brought.allowed(), "{pointer}");
    }
}

/// P14: finalizers of a dying object can always be taken off, whatever it looks like.
#[test]
fn an_object_that_is_being_deleted_is_neither_edited_nor_refused() {
    let mut new = workload("Deployment", "web");
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    new["spec"]["template"]["metadata"]["labels"]["portcullis.dev/gated"] = json!("odd");
    new["spec"]["template"]["metadata"]["annotations"] = json!({"portcullis.dev/cluster": "x"});
    let mut old = new.clone();
    old["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let reply = ask(&review("deployments", "UPDATE", &new, &old), &Namespaces::OptedIn);
    assert!(reply.allowed());
    assert_eq!((reply.patch(), reply.answer.reason), (vec![], "terminating"));
    new["spec"] = json!("broken");
    assert!(ask(&review("deployments", "UPDATE", &new, &old), &Namespaces::OptedIn).allowed());
}
