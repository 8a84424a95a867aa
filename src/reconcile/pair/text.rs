//! The JSON of a pod, on either side -> the fields that are read of it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::local::Phase;

#[derive(Deserialize)]
pub(super) struct PodText {
    pub(super) metadata: Meta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) uid: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) finalizers: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) owner_references: Vec<OwnerText>,
    pub(super) deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct OwnerText {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    #[serde(default)]
    pub(super) controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) scheduling_gates: Vec<GateText>,
    pub(super) node_name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct GateText {
    pub(super) name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Status {
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) phase: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) conditions: Vec<ConditionText>,
}

#[derive(Deserialize)]
pub(super) struct ConditionText {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
}

/// No pod is begun so often: a larger number was written by somebody, and counts as none.
const MOST: u64 = u32::MAX as u64;

pub(super) fn number(annotations: &BTreeMap<String, String>, key: &str) -> u64 {
    annotations
        .get(key)
        .and_then(|text| text.parse().ok())
        .filter(|number| *number <= MOST)
        .unwrap_or(0)
}

pub(super) fn phase(text: &str) -> Phase {
    match text {
        "Succeeded" | "Failed" => Phase::Terminal,
        "Running" => Phase::Running,
        _ => Phase::Waiting,
    }
}

/// The API writes `null` for an empty list or map now and then.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
