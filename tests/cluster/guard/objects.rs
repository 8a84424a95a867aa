//! The objects that the checks create, and what is seen of our marks on them.

use serde_json::{Value, json};

/// A pod or template carries our gate.
pub fn has_gate(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| gates.contains(&gate()))
}

/// A pod or template carries our label.
pub fn has_label(pod: &Value) -> bool {
    pod["metadata"]["labels"]["portcullis.dev/gated"] == "true"
}

/// Our gate.
pub fn gate() -> Value {
    json!({"name": "portcullis.dev/multikueue"})
}

/// The smallest pod.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container()]},
    })
}

/// The smallest container.
pub fn container() -> Value {
    json!({"name": "main", "image": "app:1"})
}

/// A Deployment, StatefulSet, ReplicaSet or DaemonSet.
pub fn workload(kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
        },
    });
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(2);
    }
    object
}

/// `value` with another value at a JSON pointer; missing parents are made.
pub fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let mut at = &mut value;
    for token in pointer.split('/').skip(1) {
        at = &mut at[token.replace("~1", "/").as_str()];
    }
    *at = new;
    value
}

/// A pod that its maker wants here.
pub fn exempt(name: &str) -> Value {
    with(
        pod(name),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    )
}
