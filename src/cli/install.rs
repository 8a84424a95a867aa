//! The Deployment and Service that run portcullis in the manager cluster.

use serde_json::{Value, json};

use crate::names::PORTCULLIS;

/// Service and Deployment; the account and roles are those of `rbac-manager`.
pub(super) fn objects(namespace: &str) -> Vec<Value> {
    let labels = json!({"app.kubernetes.io/name": PORTCULLIS});
    let metadata = json!({"name": PORTCULLIS, "namespace": namespace, "labels": labels});
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "selector": labels,
            "ports": [{"name": "webhook", "port": 443, "targetPort": "webhook"}],
        },
    });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            // Without leader election two processes must not overlap for long.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(namespace)},
        },
    });
    vec![service, deployment]
}

fn pod_spec(namespace: &str) -> Value {
    json!({
        "serviceAccountName": PORTCULLIS,
        // Above the drain timeout, or the kubelet ends the process while it still answers.
        "terminationGracePeriodSeconds": 120,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": PORTCULLIS,
            "image": format!("portcullis:{}", env!("CARGO_PKG_VERSION")),
            "args": [
                "serve",
                format!("--namespace={namespace}"),
                format!("--webhook-service={namespace}/{PORTCULLIS}"),
            ],
            "ports": [
                {"name": "webhook", "containerPort": 9443},
                {"name": "metrics", "containerPort": 8080},
            ],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 2},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "failureThreshold": 5},
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    })
}
