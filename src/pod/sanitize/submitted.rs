//! The annotation `submitted` -> what Kueue added on the manager, taken off again.

use serde_json::{Map, Value};

use super::change::Log;
use super::list;
use crate::names;

const REASON: &str = "not submitted by the user: Kueue's flavours name nodes of the manager";

/// Removes from the spec every node selector and toleration that the snapshot does not have. The snapshot is a hint: it
/// can only take away, never add (R14).
pub(super) fn subtract(spec: &mut Map<String, Value>, snapshot: Option<&str>, log: &mut Log) {
    let Some(snapshot) = snapshot else { return };
    let Some((node_selector, tolerations)) = read(snapshot) else {
        let reason = "unreadable, so nodeSelector and tolerations are kept as they are now";
        log.dropped(format_args!("metadata.annotations[{}]", names::SUBMITTED), reason);
        return;
    };
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
    list::drop(
        spec,
        "tolerations",
        |toleration| !tolerations.contains(toleration),
        |index| {
            log.dropped(format_args!("spec.tolerations[{index}]"), REASON);
        },
    );
}

/// `{"nodeSelector": {…}, "tolerations": […]}`; either may be absent or null.
fn read(snapshot: &str) -> Option<(Map<String, Value>, Vec<Value>)> {
    let Value::Object(mut snapshot) = serde_json::from_str(snapshot).ok()? else {
        return None;
    };
    let node_selector = match snapshot.remove("nodeSelector") {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return None,
    };
    let tolerations = match snapshot.remove("tolerations") {
        Some(Value::Array(list)) => list,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return None,
    };
    Some((node_selector, tolerations))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::testing::{assert_kept, check_pod, local};
    use super::*;

    #[test]
    fn what_kueue_merged_in_is_taken_off() {
        check(
            r#"{"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}"#,
            json!({
                "nodeSelector": {"disk": "ssd", "pool": "m-only", "kubernetes.io/hostname": "m-node-1"},
                "tolerations": [{"key": "m-only", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}],
            }),
            expect![[r#"
                nodeSelector: {"disk":"ssd"}
                tolerations: [{"key":"gpu","operator":"Exists"}]
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
                dropped spec.nodeSelector[kubernetes.io/hostname]: not submitted by the user: Kueue's flavours name nodes of the manager
                dropped spec.nodeSelector[pool]: not submitted by the user: Kueue's flavours name nodes of the manager
                dropped spec.tolerations[0]: not submitted by the user: Kueue's flavours name nodes of the manager
            "#]],
        );
    }

    #[test]
    fn a_pod_submitted_without_any_has_none() {
        let merged = json!({"nodeSelector": {"pool": "m-only"}, "tolerations": [{"operator": "Exists"}]});
        check(
            "{}",
            merged.clone(),
            expect![[r#"
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
                dropped spec.nodeSelector[pool]: not submitted by the user: Kueue's flavours name nodes of the manager
                dropped spec.tolerations[0]: not submitted by the user: Kueue's flavours name nodes of the manager
            "#]],
        );
        check(
            r#"{"nodeSelector": null, "tolerations": null}"#,
            merged,
            expect![[r#"
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
                dropped spec.nodeSelector[pool]: not submitted by the user: Kueue's flavours name nodes of the manager
                dropped spec.tolerations[0]: not submitted by the user: Kueue's flavours name nodes of the manager
            "#]],
        );
    }

    #[test]
    fn a_snapshot_adds_nothing() {
        check(
            r#"{"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}"#,
            json!({}),
            expect![[r#"
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
            "#]],
        );
        check(
            r#"{"nodeSelector": {"a": "b"}}"#,
            json!({"nodeSelector": {"a": "changed"}}),
            expect![[r#"
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
                dropped spec.nodeSelector[a]: not submitted by the user: Kueue's flavours name nodes of the manager
            "#]],
        );
    }

    #[test]
    fn an_unreadable_snapshot_changes_nothing() {
        check(
            "nonsense",
            json!({"nodeSelector": {"a": "b"}}),
            expect![[r#"
                nodeSelector: {"a":"b"}
                dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
                dropped metadata.annotations[portcullis.dev/submitted]: unreadable, so nodeSelector and tolerations are kept as they are now
            "#]],
        );
        for snapshot in ["", "[]", "7", r#"{"nodeSelector": 7}"#, r#"{"tolerations": {}}"#] {
            let spec = json!({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]});
            let mut after = spec.as_object().unwrap().clone();
            subtract(&mut after, Some(snapshot), &mut Log::off());
            assert_eq!(Value::Object(after), spec, "{snapshot}");
        }
    }

    #[test]
    fn without_a_snapshot_all_is_the_users() {
        assert_kept(json!({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}));
    }

    #[track_caller]
    fn check(snapshot: &str, spec: Value, expect: Expect) {
        check_pod(
            &local(json!({"annotations": {names::SUBMITTED: snapshot}}), spec),
            expect,
        );
    }
}
