//! Local pods for the tests of this folder, and how a copy is shown.
#![allow(clippy::needless_pass_by_value)] // an Expect is the literal of its test

use expect_test::Expect;
use serde_json::{Value, json};

use super::{Change, CopyMarks, NamespaceOwner, RemoteCopy, What, sanitize};
use crate::names;

pub(super) const MARKS: CopyMarks<'static> = CopyMarks {
    origin: "manager-uid",
    owner: Some(NamespaceOwner {
        name: "shop",
        uid: "worker-namespace-uid",
    }),
};

/// The smallest gated pod, with these fields besides.
pub(super) fn local(metadata: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "local-uid"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    json_patch::merge(&mut pod, &json!({"metadata": metadata, "spec": spec}));
    pod
}

/// Shows what became of these fields of the metadata, without our marks, and why.
#[track_caller]
pub(super) fn check_metadata(metadata: Value, marks: &CopyMarks<'_>, expect: Expect) {
    let copy = sanitize(&local(metadata, json!({})), marks).unwrap();
    let mut shown = copy.pod["metadata"].clone();
    for (kind, key) in [
        ("labels", names::ORIGIN),
        ("annotations", names::LOCAL_UID),
        ("annotations", names::LOCAL_NAME),
        ("annotations", names::LOCAL_ATTEMPT),
        ("annotations", names::SOURCE),
    ] {
        shown[kind]
            .as_object_mut()
            .unwrap()
            .remove(key)
            .expect("the mark is on every copy");
    }
    expect.assert_eq(&format!(
        "{}{}",
        fields(&shown, &["name", "namespace", "ownerReferences"]),
        reasons(&copy)
    ));
}

/// Shows what became of these fields of the spec, and why.
#[track_caller]
pub(super) fn check_spec(spec: Value, expect: Expect) {
    check_pod(&local(json!({}), spec), expect);
}

/// Shows the spec of the copy, but for gate and unchanged container.
#[track_caller]
pub(super) fn check_pod(pod: &Value, expect: Expect) {
    let copy = sanitize(pod, &MARKS).unwrap();
    let spec = &copy.pod["spec"];
    assert_eq!(spec["schedulingGates"], json!([{"name": names::UNCOMMITTED}]));
    let same = if spec["containers"] == json!([{"name": "app", "image": "app:1"}]) {
        "containers"
    } else {
        ""
    };
    expect.assert_eq(&format!(
        "{}{}",
        fields(spec, &["schedulingGates", same]),
        reasons(&copy)
    ));
}

/// `field: value`, one a line.
fn fields(object: &Value, but: &[&str]) -> String {
    let fields = object
        .as_object()
        .unwrap()
        .iter()
        .filter(|(field, _)| !but.contains(&field.as_str()));
    fields
        .filter(|(_, value)| **value != json!({}))
        .map(|(field, value)| format!("{field}: {value}\n"))
        .collect()
}

/// Asserts that these fields of the spec reach the worker untouched.
#[track_caller]
pub(super) fn assert_kept(spec: Value) {
    let pod = local(json!({}), spec);
    let copy = sanitize(&pod, &MARKS).unwrap();
    let mut spec = copy.pod["spec"].clone();
    let gates = spec.as_object_mut().unwrap().remove("schedulingGates");
    assert_eq!(gates, Some(json!([{"name": names::UNCOMMITTED}])));
    assert_eq!((&spec, reasons(&copy).as_str()), (&pod["spec"], ""));
}

/// What was dropped or rewritten; that every pod loses its UID goes without saying.
fn reasons(copy: &RemoteCopy) -> String {
    let told = |change: &&Change| change.what != What::Added && change.path != "metadata.uid";
    lines(copy.changes.iter().filter(told))
}

pub(super) fn lines<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    let line = |Change { path, what, reason }: &Change| format!("{what} {path}: {reason}\n");
    changes.into_iter().map(line).collect()
}

/// A pod of a StatefulSet as a manager's API server gives it, with as much as one pod can have.
pub(super) fn everything() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "generateName": "web-",
            "namespace": "shop",
            "uid": "local-uid",
            "resourceVersion": "4711",
            "generation": 2,
            "creationTimestamp": "2026-11-30T09:00:00Z",
            "labels": {
                "app": "web",
                "apps.kubernetes.io/pod-index": "0",
                "controller-revision-hash": "web-6d5f",
                "kueue.x-k8s.io/queue-name": "team",
                "portcullis.dev/gated": "true",
                "statefulset.kubernetes.io/pod-name": "web-0",
            },
            "annotations": {
                "kubectl.kubernetes.io/default-container": "app",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "portcullis.dev/root": "apps/StatefulSet/web",
                "portcullis.dev/submitted": r#"{"nodeSelector":{"disk":"ssd"},"tolerations":[]}"#,
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
            "finalizers": ["example.com/keep"],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update"}],
        },
        "spec": {
            "schedulingGates": [{"name": "portcullis.dev/multikueue"}, {"name": "kueue.x-k8s.io/admission"}],
            "hostname": "web-0",
            "subdomain": "web",
            "serviceAccount": "web",
            "serviceAccountName": "web",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "nodeSelector": {"disk": "ssd", "pool": "m-only"},
            "tolerations": [{"key": "m-only", "operator": "Exists"}],
            "containers": [{
                "name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m"}},
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "kube-api-access-7xk2p", "readOnly": true,
                     "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                ],
            }],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
                token_volume("kube-api-access-7xk2p"),
            ],
            "tomorrow": {"unknown": [1, 2.5, null]},
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    })
}

/// What the ServiceAccount admission of an API server adds to a pod.
pub(super) fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{
            "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]}})
}
