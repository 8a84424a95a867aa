//! A remote pod that cannot be seen any more -> what the local pod says instead.

use serde_json::{Value, json};

use super::conditions::{self, Said};
use super::containers::list;
use super::patch::StatusPatch;
use super::{Dispatched, is_final, is_terminating};

/// The worker does not answer: a pod that was ready is not ready, with our reason. The phase stays, for the pod may
/// well run (R47). Nothing but our condition for a pod that was not ready, or is being deleted.
pub fn worker_lost(local: &Value, dispatched: &Dispatched, now: &str) -> Option<Value> {
    if is_final(local) {
        return None;
    }
    let Dispatched {
        status: _,
        reason,
        message,
    } = dispatched;
    let ready = conditions::find(&local["status"]["conditions"], "Ready");
    let was_ready =
        ready.is_some_and(|ready| ready["status"] == "True" || ready["reason"] == reason.as_str());
    let not_ready = Said {
        kind: "Ready",
        status: "False",
        reason,
        message,
    };
    let said: &[Said<'_>] = if was_ready && !is_terminating(local) {
        &[not_ready]
    } else {
        &[]
    };
    let mut patch = StatusPatch::of(local);
    patch.set("conditions", conditions::with(local, said, dispatched, now));
    patch.into_body()
}

/// The committed remote pod is proven gone, or came back from the dead: the local pod has failed.
///
/// As the kubelet does for containers that it cannot find any more, those that had not ended are shown as ended with
/// exit code 137 at an unknown time; with our reason, which `kubectl get` then shows as the status of the pod.
pub fn failed(local: &Value, reason: &str, message: &str, dispatched: &Dispatched, now: &str) -> Value {
    let mut patch = StatusPatch::of(local);
    for (field, value) in [("phase", "Failed"), ("reason", reason), ("message", message)] {
        patch.set(field, value.into());
    }
    for statuses in [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ] {
        let ended: Vec<Value> = list(&local["status"][statuses])
            .map(|status| end(status, reason, message))
            .collect();
        patch.set(
            statuses,
            if ended.is_empty() {
                Value::Null
            } else {
                Value::Array(ended)
            },
        );
    }
    let present = |kind: &&str| conditions::find(&local["status"]["conditions"], kind).is_some();
    let said: Vec<Said<'_>> = ["Ready", "ContainersReady"]
        .into_iter()
        .filter(present)
        .map(|kind| Said {
            kind,
            status: "False",
            reason: "PodFailed",
            message: "",
        })
        .collect();
    patch.set("conditions", conditions::with(local, &said, dispatched, now));
    patch.into_body().unwrap_or_else(|| json!({}))
}

fn end(status: &Value, reason: &str, message: &str) -> Value {
    let mut ended = status.clone();
    if !status["state"]["terminated"].is_null() {
        return ended;
    }
    ended["ready"] = false.into();
    ended["started"] = false.into();
    ended["state"] = json!({"terminated": {
        "exitCode": 137,
        "reason": reason,
        "message": message,
        "startedAt": status["state"]["running"]["startedAt"],
        "finishedAt": null,
        "containerID": status["containerID"],
    }});
    ended
}
