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

/// The smallest Job.
pub fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}},
    })
}

/// A job of each kind that has an operator in the test bed, by plural, with two pods or more.
pub fn jobs(name: &str) -> [(&'static str, Value); 4] {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container()]}});
    let role = json!({"replicas": 1, "template": {"spec": {"containers": [
        {"name": "pytorch", "image": "app:1"},
    ]}}});
    let object = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let job = json!({"parallelism": 2, "template": template});
    let replicated = json!([{"name": "workers", "replicas": 2, "template": {"spec": job}}]);
    let mpi = json!({"mpiReplicaSpecs": {"Launcher": role, "Worker": role}});
    let torch = json!({"pytorchReplicaSpecs": {"Master": role, "Worker": role}});
    [
        ("jobs", object("batch/v1", "Job", job)),
        (
            "jobsets",
            object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": replicated}),
            ),
        ),
        ("mpijobs", object("kubeflow.org/v2beta1", "MPIJob", mpi)),
        ("pytorchjobs", object("kubeflow.org/v1", "PyTorchJob", torch)),
    ]
}

/// Who runs a job, as it says.
pub fn managed_by(job: &Value) -> &str {
    let spec = &job["spec"];
    let place = match spec["runPolicy"].is_object() {
        true => &spec["runPolicy"]["managedBy"],
        false => &spec["managedBy"],
    };
    place.as_str().unwrap_or_default()
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
