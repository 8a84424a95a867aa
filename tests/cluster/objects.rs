//! Objects as JSON: made, and read.

use serde_json::{Value, json};

/// A field by JSON pointer; empty if it is not there or no text.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub fn uid(object: &Value) -> String {
    text(object, "/metadata/uid").to_owned()
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// A condition by type; null if there is none.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

pub fn dispatched(pod: &Value) -> &Value {
    condition(pod, "portcullis.dev/Dispatched")
}

pub fn terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

pub fn running(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running"
}

/// What a failed wait shows of it.
pub fn summary(object: &Value) -> String {
    let status = &object["status"];
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            format!(
                "{}={}/{} {}",
                condition["type"], condition["status"], condition["reason"], condition["message"]
            )
        })
        .collect();
    format!(
        "{} {} {}{} [{}]",
        text(object, "/metadata/name"),
        text(object, "/status/phase"),
        object["metadata"]["annotations"]["portcullis.dev/cluster"],
        if terminating(object) { " terminating" } else { "" },
        conditions.join(", ")
    )
}

/// A pod with one container; `spec` is merged into its spec, `metadata` into its metadata.
pub fn pod(name: &str, metadata: Value, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    });
    json_patch::merge(&mut pod, &json!({"metadata": metadata, "spec": spec}));
    pod
}

/// A pod without anything.
pub fn plain(name: &str) -> Value {
    pod(name, json!({}), json!({}))
}

/// A Deployment or StatefulSet `web`; `template` is merged into its pod template.
pub fn set(kind: &str, replicas: u32, template: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}},
        },
    });
    json_patch::merge(&mut set, &json!({"spec": {"template": template}}));
    if kind == "StatefulSet" {
        set["spec"]["serviceName"] = "web".into();
    }
    set
}

/// Tells KWOK what to do with a remote pod.
pub fn play(directive: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {format!("kwok.test/{directive}"): value}}})
}

/// A made-up definition of a kind, with these fields in its spec; its status takes anything.
pub fn definition_of([group, version, kind]: [&str; 3], fields: Value) -> Value {
    let singular = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{singular}s.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}, // asked for in groups of k8s.io
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}
