//! A remote pod that cannot be seen any more -> what the local pod says instead.

use serde_json::{Value, json};

use super::conditions::{self, Said};
use super::containers::{self, list};
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
    for (statuses, _) in containers::LISTS {
        let ended: Vec<Value> = list(&local["status"][statuses])
            .map(|status| end(status, reason, message))
            .collect();
        patch.set_list(statuses, ended);
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
    if !status.is_object() || !status["state"]["terminated"].is_null() {
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing::{NOW, applied, check, local, mirrored, running};
    use super::*;

    fn shown_running() -> Value {
        let pod = local(json!({"spec": {"initContainers": [{"name": "init"}]}}));
        let patch = mirrored(&pod, &running()).unwrap();
        let mut pod = applied(&pod, &patch);
        pod["status"]["initContainerStatuses"] = json!([{"name": "init", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]);
        pod
    }

    fn unreachable() -> Dispatched {
        Dispatched {
            status: false,
            reason: "WorkerUnreachable".into(),
            message: "worker-a does not answer".into(),
        }
    }

    #[test]
    fn a_pod_on_a_lost_worker_is_running_but_not_ready() {
        let pod = shown_running();
        let patch = worker_lost(&pod, &unreachable(), NOW);
        let lost = applied(&pod, patch.as_ref().unwrap());
        check(
            &pod,
            patch,
            expect![[r#"
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodReadyToStartContainers"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"Initialized"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"ContainersReady"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"worker-a does not answer","reason":"WorkerUnreachable","status":"False","type":"Ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"worker-a does not answer","reason":"WorkerUnreachable","status":"False","type":"portcullis.dev/Dispatched"}
        "#]],
        );
        assert_eq!(worker_lost(&lost, &unreachable(), "later"), None);
        let back = applied(&lost, &mirrored(&lost, &running()).unwrap());
        assert_eq!(
            conditions::find(&back["status"]["conditions"], "Ready").unwrap()["status"],
            "True"
        );
    }

    #[test]
    fn a_new_reason_of_the_loss_is_shown() {
        let pod = shown_running();
        let lost = applied(&pod, &worker_lost(&pod, &unreachable(), NOW).unwrap());
        let longer = Dispatched {
            message: "worker-a does not answer for 5 minutes".into(),
            ..unreachable()
        };
        check(
            &lost,
            worker_lost(&lost, &longer, "later"),
            expect![[r#"
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodReadyToStartContainers"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"Initialized"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"ContainersReady"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"worker-a does not answer for 5 minutes","reason":"WorkerUnreachable","status":"False","type":"Ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"worker-a does not answer for 5 minutes","reason":"WorkerUnreachable","status":"False","type":"portcullis.dev/Dispatched"}
        "#]],
        );
    }

    #[test]
    fn a_pod_that_was_not_ready_keeps_its_own_reason() {
        let pod = local(json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": NOW},
        ]}}));
        check(
            &pod,
            worker_lost(&pod, &unreachable(), NOW),
            expect![[r#"
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","reason":"ContainersNotReady","status":"False","type":"Ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"worker-a does not answer","reason":"WorkerUnreachable","status":"False","type":"portcullis.dev/Dispatched"}
        "#]],
        );
    }

    #[test]
    fn a_terminating_pod_on_a_lost_worker_gets_the_reason_only() {
        let pod = applied(&shown_running(), &json!({"metadata": {"deletionTimestamp": NOW}}));
        let patch = worker_lost(&pod, &unreachable(), NOW).unwrap();
        let conditions = patch["status"]["conditions"].clone();
        assert_eq!(conditions::find(&conditions, "Ready").unwrap()["status"], "True");
    }

    #[test]
    fn a_deleted_remote_pod_leaves_no_container_running() {
        check_failed(
            &shown_running(),
            expect![[r#"
            conditions:
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"PodReadyToStartContainers"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","status":"True","type":"Initialized"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","reason":"PodFailed","status":"False","type":"ContainersReady"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","reason":"PodFailed","status":"False","type":"Ready"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemotePodDeleted","status":"False","type":"portcullis.dev/Dispatched"}
            containerStatuses:
            - {"containerID":"containerd://1","image":"app:1","imageID":"sha256:1","lastState":{},"name":"app","ready":false,"restartCount":0,"started":false,"state":{"terminated":{"containerID":"containerd://1","exitCode":137,"finishedAt":null,"message":"gone from worker-a","reason":"RemotePodDeleted","startedAt":"2026-11-30T09:58:30Z"}}}
            message: "gone from worker-a"
            phase: "Failed"
            reason: "RemotePodDeleted"
        "#]],
        );
    }

    #[test]
    fn a_pod_that_never_started_just_fails() {
        check_failed(
            &local(json!({})),
            expect![[r#"
            conditions:
            - {"lastProbeTime":null,"lastTransitionTime":"2026-11-30T09:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}
            - {"lastTransitionTime":"2026-11-30T10:00:00Z","message":"gone from worker-a","reason":"RemotePodDeleted","status":"False","type":"portcullis.dev/Dispatched"}
            message: "gone from worker-a"
            phase: "Failed"
            reason: "RemotePodDeleted"
        "#]],
        );
    }

    #[track_caller]
    fn check_failed(pod: &Value, expect: Expect) {
        let gone = Dispatched {
            status: false,
            reason: "RemotePodDeleted".into(),
            message: "gone from worker-a".into(),
        };
        let patch = failed(pod, "RemotePodDeleted", "gone from worker-a", &gone, NOW);
        assert_eq!(mirrored(&applied(pod, &patch), &running()), None, "it is final");
        check(pod, Some(patch), expect);
    }
}
