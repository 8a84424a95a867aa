//! What a pod says of itself.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

pub(super) fn phase(pod: &Pod) -> String {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.clone())
        .unwrap_or_default()
}

pub(super) fn condition(pod: &Pod, kind: &str) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(
        conditions
            .iter()
            .find(|condition| condition.type_ == kind)?
            .status
            .clone(),
    )
}

pub(super) fn message(pod: &Pod) -> String {
    let conditions = pod
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    let ours = conditions.filter(|condition| condition.type_ == "portcullis.dev/Dispatched");
    ours.map(|condition| {
        format!(
            "{}={} {}",
            condition.reason.as_deref().unwrap_or_default(),
            condition.status,
            condition.message.as_deref().unwrap_or_default()
        )
    })
    .collect()
}

pub(super) fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|container| container.image.clone())
        .collect()
}

pub(super) fn without_node(pod: &Pod) -> Value {
    let mut spec = serde_json::to_value(&pod.spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeName");
    }
    spec
}
