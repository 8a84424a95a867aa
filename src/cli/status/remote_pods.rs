//! A pod of a whole job on its worker, as people are told (pure).

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;

/// A pod of a whole job, on its worker.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RemotePodLine {
    /// The WorkerCluster.
    pub cluster: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub pod: String,
    /// Its phase, or `Terminating`.
    pub phase: String,
    /// The worker's node.
    pub node: Option<String>,
    /// Of all its containers.
    pub restarts: u32,
    /// Shows its logs; the context's name is that of the WorkerCluster.
    pub command: String,
}

/// The line of a pod.
pub(super) fn line(cluster: &str, pod: &Pod) -> RemotePodLine {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status
        .init_container_statuses
        .into_iter()
        .chain(status.container_statuses);
    let restarts = containers
        .flatten()
        .filter_map(|container| u32::try_from(container.restart_count).ok());
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    RemotePodLine {
        command: format!("kubectl --context {cluster} --namespace {namespace} logs {name}"),
        phase: match (pod.metadata.deletion_timestamp.is_some(), status.phase) {
            (true, _) => "Terminating".to_owned(),
            (false, phase) => phase.unwrap_or_default(),
        },
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        restarts: restarts.fold(0, u32::saturating_add),
        cluster: cluster.to_owned(),
        namespace,
        pod: name,
    }
}

impl RemotePodLine {
    /// Names of the columns.
    pub(super) const COLUMNS: [&str; 6] = ["POD", "PHASE", "CLUSTER", "NODE", "RESTARTS", "LOGS"];

    /// Its cells.
    pub(super) fn cells(&self) -> [String; 6] {
        [
            self.pod.clone(),
            self.phase.clone(),
            self.cluster.clone(),
            self.node.clone().unwrap_or_else(|| "-".to_owned()),
            self.restarts.to_string(),
            self.command.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(object: Value) -> Pod {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_says_where_it_is_and_how_to_read_its_logs() {
        let running = pod(json!({
            "metadata": {"namespace": "shop", "name": "train-0"}, "spec": {"containers": [], "nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "a", "restartCount": 2, "image": "", "imageID": "", "ready": true}],
                "initContainerStatuses": [{"name": "b", "restartCount": 1, "image": "", "imageID": "", "ready": true}],
            },
        }));
        assert_eq!(
            line("worker-a", &running).cells().join(" | "),
            "train-0 | Running | worker-a | node-1 | 3 | kubectl --context worker-a --namespace shop logs train-0"
        );
        let leaving = pod(json!({"metadata": {"name": "p", "deletionTimestamp": "2026-11-30T10:00:00Z"}}));
        assert_eq!(line("w", &leaving).phase, "Terminating");
    }
}
