//! Phase of the remote pod, with its reason and message -> the local pod's.

use serde_json::Value;

use super::patch::StatusPatch;

/// The phase with its reason and message, and since when.
pub(super) fn mirror(patch: &mut StatusPatch<'_>, remote: &Value) {
    if !is_step_back(patch.local(), remote) {
        for field in ["phase", "reason", "message"] {
            patch.set(field, remote[field].clone());
        }
    }
    if !remote["startTime"].is_null() {
        patch.set("startTime", remote["startTime"].clone());
    }
}

/// From Running to Pending, or to nothing: an old view of a remote pod, never a fact.
fn is_step_back(local: &Value, remote_status: &Value) -> bool {
    match remote_status["phase"].as_str() {
        None => true,
        Some("Pending") => matches!(local["status"]["phase"].as_str(), Some("Running" | "Unknown")),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::testing::{check_mirror, local, mirrored, remote};
    use super::*;

    #[test]
    fn the_phase_is_mirrored() {
        for phase in ["Running", "Succeeded", "Failed", "Unknown"] {
            let patch = mirrored(&local(json!({})), &remote(json!({"status": {"phase": phase}}))).unwrap();
            assert_eq!(patch["status"]["phase"], phase);
        }
    }

    #[test]
    fn a_running_pod_does_not_go_back_to_pending() {
        let patch =
            |remote: Value| mirrored(&local(json!({"status": {"phase": "Running"}})), &remote).unwrap();
        assert_eq!(patch(remote(json!({})))["status"].get("phase"), None);
        assert_eq!(
            patch(remote(json!({"status": {"phase": null}})))["status"].get("phase"),
            None
        );
    }

    #[test]
    fn reason_and_message_come_and_go_with_the_remote_pods() {
        let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}});
        check_mirror(
            &local(json!({})),
            &remote(evicted),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            message: "The node was low on memory"
            phase: "Failed"
            reason: "Evicted"
        "#]],
        );
        let told = local(json!({"status": {"reason": "Waiting", "message": "for something"}}));
        check_mirror(
            &told,
            &remote(json!({})),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"on worker-a","reason":"Open","status":"True","type":"portcullis.dev/Dispatched"}
            message: null
            reason: null
        "#]],
        );
    }
}
