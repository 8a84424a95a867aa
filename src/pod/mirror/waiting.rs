//! A remote pod that does not run yet -> why, in the worker's own words.

use serde_json::Value;

use super::conditions::find;
use super::containers::list;

/// Reasons that say only that things take their course.
const ON_ITS_WAY: [&str; 3] = ["SchedulingGated", "ContainerCreating", "PodInitializing"];

/// Why the remote pod waits, as `Reason: message`: not scheduled, or a container that cannot start (an image, a
/// missing ConfigMap or Secret). `None` if nothing is wrong.
pub fn waiting_reason(remote: &Value) -> Option<String> {
    unscheduled(remote).or_else(|| {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(|statuses| list(&remote["status"][statuses]))
            .find_map(|status| {
                let words = words(&status["state"]["waiting"])?;
                Some(format!(
                    "container {}: {words}",
                    status["name"].as_str().unwrap_or_default()
                ))
            })
    })
}

fn unscheduled(remote: &Value) -> Option<String> {
    let condition = find(&remote["status"]["conditions"], "PodScheduled")?;
    if condition["status"] == "False" {
        words(condition)
    } else {
        None
    }
}

/// `Reason: message` of a condition or a waiting state.
fn words(said: &Value) -> Option<String> {
    let reason = said["reason"]
        .as_str()
        .filter(|reason| !ON_ITS_WAY.contains(reason))?;
    match said["message"].as_str() {
        Some(message) if !message.is_empty() => Some(format!("{reason}: {message}")),
        _ => Some(reason.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::testing::{remote, running};
    use super::*;

    #[test]
    fn the_scheduler_says_why_a_pod_has_no_node() {
        let message = "0/2 nodes are available: persistentvolumeclaim \"data-web-0\" not found.";
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        check(
            json!({"conditions": [condition]}),
            expect![[
                r#"Unschedulable: 0/2 nodes are available: persistentvolumeclaim "data-web-0" not found."#
            ]],
        );
    }

    #[test]
    fn the_kubelet_says_why_a_container_does_not_start() {
        let waiting =
            |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        check(
            json!({"containerStatuses": [
                {"name": "first", "state": {"running": {}}},
                {"name": "app", "state": waiting("CreateContainerConfigError", "configmap \"web\" not found")},
            ]}),
            expect![[r#"container app: CreateContainerConfigError: configmap "web" not found"#]],
        );
        check(
            json!({
                "initContainerStatuses": [{"name": "init", "state": waiting("ImagePullBackOff", "")}],
                "containerStatuses": [{"name": "app", "state": waiting("PodInitializing", "")}],
            }),
            expect!["container init: ImagePullBackOff"],
        );
    }

    #[test]
    fn a_pod_on_its_way_waits_for_nothing() {
        assert_eq!(waiting_reason(&running()), None);
        let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
        check(json!({"conditions": [gated]}), expect!["nothing"]);
        let creating = json!({"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}});
        check(json!({"containerStatuses": [creating]}), expect!["nothing"]);
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(status: Value, expect: Expect) {
        expect.assert_eq(
            &waiting_reason(&remote(json!({"status": status}))).unwrap_or_else(|| "nothing".to_owned()),
        );
    }
}
