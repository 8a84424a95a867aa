//! One line of an audit log -> a write that took effect, or nothing.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{GATE, LOCAL_UID, PodState, Write};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    stage_timestamp: Timestamp,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: u16,
}

/// # Errors
/// The line is no audit event.
pub(super) fn read(line: &str) -> Result<Option<Write>> {
    let event: Event = serde_json::from_str(line)?;
    let code = event.response_status.as_ref().map(|status| status.code);
    let effective = event.stage == "ResponseComplete"
        && matches!(code, Some(200..=202))
        && !event.request_uri.contains("dryRun=")
        && matches!(
            event.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        );
    let (true, Some(object)) = (effective, event.object_ref) else {
        return Ok(None);
    };
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        subresource => format!("{}/{subresource}", object.resource),
    };
    let pod = match event.response_object.as_ref().filter(|answer| is_pod(answer)) {
        Some(answer) => Some(pod_state(answer)?),
        None => None,
    };
    let binding = event
        .request_object
        .as_ref()
        .filter(|_| resource == "pods/binding")
        .map(binding);
    // A create with generateName has no name in its reference.
    let name_in_answer = event
        .response_object
        .as_ref()
        .map_or("", |answer| text(answer, "/metadata/name"));
    let name = if object.name.is_empty() {
        name_in_answer.to_owned()
    } else {
        object.name
    };
    Ok(Some(Write {
        time: event.stage_timestamp,
        user: event.impersonated_user.unwrap_or(event.user).username,
        user_agent: event.user_agent,
        verb: event.verb,
        group: object.api_group,
        resource,
        namespace: object.namespace,
        name,
        pod,
        binding,
    }))
}

fn is_pod(answer: &Value) -> bool {
    text(answer, "/kind") == "Pod" && text(answer, "/apiVersion") == "v1"
}

fn pod_state(pod: &Value) -> Result<PodState> {
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    let gated = gates
        .into_iter()
        .flatten()
        .any(|gate| text(gate, "/name") == GATE);
    let annotations = pod.pointer("/metadata/annotations");
    Ok(PodState {
        uid: text(pod, "/metadata/uid").to_owned(),
        // The answer to a delete that took the pod away at once carries none: nothing of it comes later.
        resource_version: match text(pod, "/metadata/resourceVersion") {
            "" => u64::MAX,
            version => version.parse().context("resourceVersion of a pod")?,
        },
        gated,
        local_uid: annotations
            .and_then(|all| all.get(LOCAL_UID))
            .and_then(Value::as_str)
            .map(str::to_owned),
        deleting: pod.pointer("/metadata/deletionTimestamp").is_some(),
        phase: text(pod, "/status/phase").to_owned(),
    })
}

fn binding(request: &Value) -> (String, String) {
    (
        text(request, "/metadata/uid").to_owned(),
        text(request, "/target/name").to_owned(),
    )
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}
