//! The annotation `submitted` -> what Kueue added on the manager, taken off again.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::change::Log;
use crate::names;

/// nodeSelector and tolerations as the user submitted them. A hint: it can only take away, never add (R14).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Submitted {
    #[serde(default)]
    node_selector: Option<Map<String, Value>>,
    #[serde(default)]
    tolerations: Option<Vec<Value>>,
}

const REASON: &str = "not submitted by the user: Kueue's flavours name nodes of the manager";

/// Removes from the spec every node selector and toleration beyond the snapshot.
pub(super) fn subtract(spec: &mut Map<String, Value>, snapshot: Option<&str>, log: &mut Log) {
    let Some(snapshot) = snapshot else { return };
    let Ok(submitted) = serde_json::from_str::<Submitted>(snapshot) else {
        let reason = "unreadable, so nodeSelector and tolerations are kept as they are now";
        log.dropped(format_args!("metadata.annotations[{}]", names::SUBMITTED), reason);
        return;
    };
    let node_selector = submitted.node_selector.unwrap_or_default();
    let tolerations = submitted.tolerations.unwrap_or_default();
    if let Some(Value::Object(now)) = spec.get_mut("nodeSelector") {
        now.retain(|key, value| {
            let kept = node_selector.get(key) == Some(value);
            if !kept {
                log.dropped(format_args!("spec.nodeSelector[{key}]"), REASON);
            }
            kept
        });
        if now.is_empty() {
            spec.remove("nodeSelector");
        }
    }
    if let Some(Value::Array(now)) = spec.get_mut("tolerations") {
        let mut index = 0;
        now.retain(|toleration| {
            let kept = tolerations.contains(toleration);
            if !kept {
                log.dropped(format_args!("spec.tolerations[{index}]"), REASON);
            }
            index += 1;
            kept
        });
        if now.is_empty() {
            spec.remove("tolerations");
        }
    }
}
