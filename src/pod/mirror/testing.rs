//! A pair of pods for the tests of this folder, and how a patch is shown.
#![allow(clippy::needless_pass_by_value)] // an Expect is the literal of its test

use expect_test::Expect;
use serde_json::{Value, json};

use super::{Dispatched, MirrorOptions, mirror};

pub(super) const BEFORE: &str = "2026-11-30T09:00:00Z";
pub(super) const NOW: &str = "2026-11-30T10:00:00Z";

pub(super) fn dispatched() -> Dispatched {
    Dispatched {
        status: true,
        reason: "Open".into(),
        message: "on worker-a".into(),
    }
}

pub(super) fn options() -> MirrorOptions {
    MirrorOptions {
        pod_ips: false,
        cluster: "worker-a".into(),
    }
}

/// A gated pod as the manager's API server makes it, committed to worker-a, with these fields besides.
pub(super) fn local(more: Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "local-uid", "resourceVersion": "7",
            "annotations": {
                "portcullis.dev/cluster": "worker-a",
                "portcullis.dev/remote-uid": "local-uid/remote-uid",
            },
        },
        "spec": {"containers": [{"name": "app"}]},
        "status": {
            "phase": "Pending",
            "qosClass": "BestEffort",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": BEFORE,
            }],
        },
    });
    json_patch::merge(&mut pod, &more);
    pod
}

/// Its committed remote pod, not scheduled yet, with these fields besides.
pub(super) fn remote(more: Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "remote-uid",
            "annotations": {"portcullis.dev/local-uid": "local-uid"},
        },
        "spec": {"containers": [{"name": "app"}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    json_patch::merge(&mut pod, &more);
    pod
}

/// The remote pod, running and ready, as a kubelet reports it.
pub(super) fn running() -> Value {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": 1,
            "lastProbeTime": null, "lastTransitionTime": "2026-11-30T09:59:00Z",
        })
    };
    let kinds = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let conditions = kinds.map(condition);
    remote(json!({
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "observedGeneration": 1,
            "startTime": "2026-11-30T09:58:00Z",
            "hostIP": "10.1.0.1", "hostIPs": [{"ip": "10.1.0.1"}],
            "podIP": "10.2.0.1", "podIPs": [{"ip": "10.2.0.1"}],
            "conditions": conditions,
            "containerStatuses": [{
                "name": "app", "image": "app:1", "imageID": "sha256:1", "containerID": "containerd://1",
                "ready": true, "started": true, "restartCount": 0, "lastState": {},
                "state": {"running": {"startedAt": "2026-11-30T09:58:30Z"}},
                "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}},
                "user": {"linux": {"uid": 0}},
            }],
        },
    }))
}

pub(super) fn mirrored(local: &Value, remote: &Value) -> Option<Value> {
    mirror(local, remote, &dispatched(), &options(), NOW)
}

/// The local pod after the patch, as the API server would store it.
pub(super) fn applied(local: &Value, patch: &Value) -> Value {
    let mut after = local.clone();
    json_patch::merge(&mut after, patch);
    after
}

/// Shows the patch: `field: value`, one a line, lists one element a line; its preconditions go without saying.
#[track_caller]
pub(super) fn check(local: &Value, patch: Option<Value>, expect: Expect) {
    let Some(patch) = patch else {
        return expect.assert_eq("nothing");
    };
    for precondition in ["uid", "resourceVersion"] {
        assert_eq!(patch["metadata"][precondition], local["metadata"][precondition]);
    }
    let mut lines = String::new();
    if let Some(annotations) = patch["metadata"].get("annotations") {
        lines += &format!("annotations: {annotations}\n");
    }
    for (field, value) in patch["status"].as_object().into_iter().flatten() {
        match value {
            Value::Array(elements) => {
                lines += &format!("{field}:\n");
                lines.extend(elements.iter().map(|element| format!("- {element}\n")));
            }
            value => lines += &format!("{field}: {value}\n"),
        }
    }
    expect.assert_eq(&lines);
}

/// Shows what the local pod gets from the remote one, and asserts that the second pass finds nothing to do.
#[track_caller]
pub(super) fn check_mirror(local: &Value, remote: &Value, expect: Expect) {
    let patch = mirrored(local, remote);
    if let Some(patch) = &patch {
        assert_eq!(
            mirrored(&applied(local, patch), remote),
            None,
            "the second pass writes again"
        );
    }
    check(local, patch, expect);
}
