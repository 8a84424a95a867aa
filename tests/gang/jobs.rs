//! Jobs as users write them.

use serde_json::{Value, json};

/// An MPIJob with a launcher and so many workers, each with so much CPU, and a schedulingPolicy.
pub fn mpi(namespace: &str, name: &str, workers: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "schedulingPolicy": {}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template("main", cpu)},
                "Worker": {"replicas": workers, "template": template("main", cpu)},
            },
        },
    })
}

/// A PyTorchJob with a master and so many workers.
pub fn pytorch(namespace: &str, name: &str, workers: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template("pytorch", cpu)},
                "Worker": {"replicas": workers, "template": template("pytorch", cpu)},
            },
        },
    })
}

fn template(container: &str, cpu: &str) -> Value {
    json!({"spec": {"containers": [
        {"name": container, "image": "main", "resources": {"requests": {"cpu": cpu}}},
    ]}})
}
