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

/// A batch Job that asks for a gang by annotation: its indexed pods run together.
pub fn batch(namespace: &str, name: &str, pods: u32, cpu: &str) -> Value {
    let mut template = template("main", cpu);
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"portcullis.dev/gang-scheduling": "true"}},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed",
            "template": template,
        },
    })
}

/// A JobSet of two jobs of so many pods each that asks for a gang by annotation.
pub fn job_set(namespace: &str, name: &str, pods: u32, cpu: &str) -> Value {
    let spec = batch(namespace, name, pods, cpu)["spec"].clone();
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"portcullis.dev/gang-scheduling": "true"}},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": spec}}]},
    })
}

/// The object with a merge patch on it.
pub fn with(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

pub(crate) fn template(container: &str, cpu: &str) -> Value {
    json!({"spec": {"containers": [
        {"name": container, "image": "main", "resources": {"requests": {"cpu": cpu}}},
    ]}})
}
