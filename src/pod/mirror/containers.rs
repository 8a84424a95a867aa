//! Container statuses of the remote pod -> those of the local pod's own containers.

use serde_json::{Map, Value};

use super::patch::StatusPatch;

/// A list of statuses, and the list of the local spec that says which containers are the local pod's own: what a
/// worker's webhook injected is not shown (R25, R26).
const LISTS: [(&str, &str); 3] = [
    ("initContainerStatuses", "initContainers"),
    ("containerStatuses", "containers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// What is mirrored of a container status. Left out, each for its reason: `resources`, `allocatedResources` (the local
/// pod is not resized), `allocatedResourcesStatus` (must fit the local pod's claims), `user`, `stopSignal`,
/// `volumeMounts` (a manager without the feature drops them, and each pass would write them again).
const FIELDS: [&str; 9] = [
    "name",
    "state",
    "lastState",
    "ready",
    "restartCount",
    "image",
    "imageID",
    "containerID",
    "started",
];

pub(super) fn mirror(patch: &mut StatusPatch<'_>, local: &Value, remote: &Value) {
    for (statuses, containers) in LISTS {
        let own: Vec<&str> = list(&local["spec"][containers])
            .filter_map(|own| own["name"].as_str())
            .collect();
        let mirrored: Vec<Value> = list(&remote["status"][statuses])
            .filter(|status| status["name"].as_str().is_some_and(|name| own.contains(&name)))
            .map(|status| status_of(status, &local["status"][statuses]))
            .collect();
        patch.set(
            statuses,
            if mirrored.is_empty() {
                Value::Null
            } else {
                Value::Array(mirrored)
            },
        );
    }
}

/// One container's status. Its restart count never goes down (R53).
fn status_of(remote: &Value, local_statuses: &Value) -> Value {
    let mut status: Map<String, Value> = FIELDS
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), remote.get(field)?.clone())))
        .collect();
    let before = list(local_statuses).find(|local| local["name"] == remote["name"]);
    if let Some(before) = before.and_then(|local| local["restartCount"].as_i64())
        && remote["restartCount"].as_i64().is_none_or(|count| count < before)
    {
        status.insert("restartCount".to_owned(), before.into());
    }
    Value::Object(status)
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
