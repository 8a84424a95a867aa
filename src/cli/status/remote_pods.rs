//! The pods of a namespace and who owns whom -> those of one job, as people are told (pure).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
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

/// API version and kind of an owner.
pub(super) type OwnerKind = (String, String);

/// Who owns whom in a namespace, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<String, Vec<OwnerReference>>);

impl Owners {
    /// An object and its owners.
    pub(super) fn add(&mut self, object: &impl ResourceExt) {
        if let Some(uid) = object.uid() {
            self.0.insert(uid, object.owner_references().to_vec());
        }
    }

    /// Kinds of owners that were not read. Of the core group only pods own pods, and they are all there.
    pub(super) fn unknown(&self, root: &str) -> BTreeSet<OwnerKind> {
        self.0
            .values()
            .flatten()
            .filter(|owner| {
                owner.uid != root && !self.0.contains_key(&owner.uid) && owner.api_version != "v1"
            })
            .map(|owner| (owner.api_version.clone(), owner.kind.clone()))
            .collect()
    }

    /// Whether the object is owned by this one, or by one that is.
    pub(super) fn is_below(&self, uid: &str, root: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![uid];
        while let Some(uid) = next.pop() {
            for owner in self.0.get(uid).into_iter().flatten() {
                if owner.uid == root {
                    return true;
                }
                if seen.insert(owner.uid.as_str()) {
                    next.push(&owner.uid);
                }
            }
        }
        false
    }
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

    fn owned(uid: &str, owners: &[(&str, &str, &str)]) -> Pod {
        let owner = |(version, kind, uid): &(&str, &str, &str)| json!({"apiVersion": version, "kind": kind, "name": "x", "uid": uid});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        pod(json!({"metadata": {"name": uid, "uid": uid, "ownerReferences": owners}}))
    }

    #[test]
    fn owners_are_followed_to_the_job() {
        let mut owners = Owners::default();
        owners.add(&owned("launcher-pod", &[("batch/v1", "Job", "launcher")]));
        owners.add(&owned(
            "worker-pod",
            &[("kubeflow.org/v2beta1", "MPIJob", "root")],
        ));
        owners.add(&owned("executor", &[("v1", "Pod", "driver")]));
        owners.add(&owned("driver", &[("kubeflow.org/v2beta1", "MPIJob", "root")]));
        owners.add(&owned("single", &[("v1", "Namespace", "shop")]));
        let kind = |version: &str, kind: &str| (version.to_owned(), kind.to_owned());
        assert_eq!(owners.unknown("root"), BTreeSet::from([kind("batch/v1", "Job")]));
        let below = |owners: &Owners| -> Vec<&'static str> {
            ["launcher-pod", "worker-pod", "executor", "single"]
                .into_iter()
                .filter(|pod| owners.is_below(pod, "root"))
                .collect()
        };
        assert_eq!(below(&owners), ["worker-pod", "executor"]);
        owners.add(&owned("launcher", &[("kubeflow.org/v2beta1", "MPIJob", "root")]));
        assert_eq!(owners.unknown("root"), BTreeSet::new());
        assert_eq!(below(&owners), ["launcher-pod", "worker-pod", "executor"]);
    }

    #[test]
    fn owners_in_a_circle_end() {
        let mut owners = Owners::default();
        owners.add(&owned("a", &[("v1", "Pod", "b")]));
        owners.add(&owned("b", &[("v1", "Pod", "a")]));
        assert!(!owners.is_below("a", "root"));
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
