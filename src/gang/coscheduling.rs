//! A gang -> the PodGroup of kubernetes-sigs/scheduler-plugins (`scheduling.x-k8s.io/v1alpha1`).

use serde_json::{Map, Value, json};

use super::facts::GangSettings;
use super::pod_group::{MinResources, PodGroup, metadata};
use crate::names;

/// The label of pods that names their PodGroup.
pub const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// The PodGroup. It has no queue and no priority: the queue is kept in an annotation, the pods have the priority.
///
/// The plugin itself adds `pods` to minResources, and skips its check of the cluster's capacity if they are absent.
#[must_use]
pub fn pod_group(group: &PodGroup, settings: &GangSettings) -> Value {
    let mut metadata = metadata(group, &group.name, settings);
    if let Some(queue) = &group.queue {
        metadata.insert("annotations".to_owned(), json!({names::QUEUE: queue}));
    }
    let mut spec = Map::from_iter([("minMember".to_owned(), json!(group.min_member))]);
    let resources = group.min_resources.plain();
    if !resources.is_empty() || matches!(group.min_resources, MinResources::Given(_)) {
        spec.insert("minResources".to_owned(), json!(resources));
    }
    if let Some(seconds) = group.timeout_seconds {
        spec.insert("scheduleTimeoutSeconds".to_owned(), json!(seconds));
    }
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec})
}
