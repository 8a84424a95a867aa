//! Words of a view -> the objects that they stand for: pods, or jobs of group batch.

use serde_json::{Value, json};

use super::super::super::local::Subject;
use crate::names;
use crate::workload::jobs::{JobKind, Written};
use crate::{job, pod};

/// The manager's object.
pub(super) fn local(subject: Subject, words: &str) -> Option<Value> {
    let has = |word: &str| words.split(' ').any(|found| found == word);
    if words == "-" {
        return None;
    }
    let of_the_object = words.split("committed").next().unwrap_or_default();
    let uid = after(of_the_object, "of").unwrap_or("L1");
    let mut object = match subject {
        Subject::Pod => local_pod(&has),
        Subject::Job(kind) => local_job(kind, &has),
    };
    if let Some(seconds) = after(words, "expires") {
        object["spec"]["ttlSecondsAfterFinished"] = seconds.parse::<i64>().unwrap().into();
    }
    let metadata = json!({"name": "p", "namespace": "n", "uid": uid, "resourceVersion": "50"});
    json_patch::merge(&mut object, &json!({ "metadata": metadata }));
    if let Some(attempt) = after(words, "attempt") {
        object["metadata"]["annotations"][names::ATTEMPT] = attempt.into();
    }
    if let Some((worker, remote)) = after(words, "committed").and_then(|commit| commit.split_once('/')) {
        let of = words
            .split("committed")
            .nth(1)
            .and_then(|rest| after(rest, "of"))
            .unwrap_or(uid);
        commit(&mut object, worker, remote, of);
    }
    if has("no-finalizer") {
        object["metadata"]["finalizers"] = json!([]);
    }
    if has("held-here") {
        object["metadata"]["finalizers"] = json!(["example.com/before", "orphan"]);
    }
    if has("dispatched") {
        object["status"]["conditions"] =
            json!([{"type": names::DISPATCHED, "status": "True", "reason": "WaitingOnWorker"}]);
    }
    if has("ended") {
        object["status"] = ended(subject);
    }
    if has("lost") {
        let ours = json!({"type": names::DISPATCHED, "status": "False", "reason": "RemoteRolledBack"});
        match object["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(ours),
            None => object["status"]["conditions"] = json!([ours]),
        }
    }
    if has("terminating") {
        object["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z".into();
    }
    Some(object)
}

fn local_pod(has: &dyn Fn(&str) -> bool) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {names::GATED: names::TRUE}, "annotations": {}},
        "spec": {
            "containers": [{"name": "main", "image": "app:1"}],
            "schedulingGates": [{"name": names::GATE}],
        },
        "status": {"phase": "Pending"},
    });
    if has("scheduled-before") {
        pod["metadata"]["annotations"][names::REMOTE_NODE] = "node-1".into();
    }
    if has("other-gate") {
        pod["spec"]["schedulingGates"] = json!([{"name": names::GATE}, {"name": "example.com/other"}]);
    }
    if has("ungated") {
        pod["spec"]["schedulingGates"] = json!([]);
    }
    pod
}

fn local_job(kind: &dyn JobKind, has: &dyn Fn(&str) -> bool) -> Value {
    let names_of_kind = kind.resource();
    let mut job = json!({
        "apiVersion": names_of_kind.api_version(), "kind": names_of_kind.kind,
        "metadata": {"annotations": {}},
        "spec": {
            "managedBy": names::GATE,
            "suspend": has("other-gate"),
            "parallelism": 4, "completions": 4, "completionMode": "Indexed",
            "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}},
        },
        "status": {},
    });
    if kind.dispatch().written == Written::Kueues {
        job["spec"]["managedBy"] = names::KUEUES_MANAGER.into();
        job["metadata"]["annotations"][names::DISPATCHED_BY] = names::GATE.into();
    }
    if has("ungated") {
        job["spec"]["managedBy"] = Value::Null;
    }
    job
}

/// A worker's object, made from this local one.
pub(super) fn remote(subject: Subject, words: &str, local: Option<&Value>) -> Value {
    let has = |word: &str| words.split(' ').any(|found| found == word);
    let source = |local: &Value| match subject {
        Subject::Pod => pod::sanitize::source(local).unwrap(),
        Subject::Job(kind) => job::sanitize::source(kind, local).unwrap(),
    };
    let mut object = json!({
        "metadata": {
            "name": "p", "namespace": "n", "resourceVersion": "70",
            "uid": after(words, "R"),
            "labels": {names::ORIGIN: "origin"},
            "annotations": {
                names::LOCAL_UID: after(words, "of").unwrap_or("L1"),
                names::LOCAL_ATTEMPT: after(words, "attempt").unwrap_or("0"),
                names::SOURCE: local.map(source).unwrap_or_default(),
            },
        },
    });
    if has("nobody") {
        object["metadata"]["annotations"] = json!({});
    }
    if has("unlabelled") {
        object["metadata"]["labels"] = json!({});
    }
    if has("stale") {
        object["metadata"]["annotations"][names::SOURCE] = "older".into();
    }
    if has("terminating") {
        object["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z".into();
    }
    if has("kept") {
        object["metadata"]["finalizers"] = json!(["foregroundDeletion", "example.com/hold"]);
    }
    match subject {
        Subject::Pod => remote_pod(&mut object, &has),
        Subject::Job(_) => remote_job(&mut object, &has),
    }
    if has("ended") {
        object["status"] = ended(subject);
    }
    object
}

fn remote_pod(pod: &mut Value, has: &dyn Fn(&str) -> bool) {
    pod["spec"] = json!({"containers": [{"name": "main", "image": "app:1"}]});
    pod["status"] = json!({"phase": "Pending"});
    if has("gated") {
        pod["spec"]["schedulingGates"] = json!([{"name": names::UNCOMMITTED}]);
    }
    if has("node") {
        pod["spec"]["nodeName"] = "node-1".into();
        pod["status"]["phase"] = "Running".into();
    }
}

fn remote_job(job: &mut Value, has: &dyn Fn(&str) -> bool) {
    job["spec"] = json!({
        "suspend": has("suspended") || (has("gated") && !has("loose")),
        "parallelism": 4, "completions": 4, "completionMode": "Indexed",
    });
    job["status"] = json!({});
    if has("gated") {
        job["metadata"]["annotations"][names::UNCOMMITTED] = names::TRUE.into();
    }
    if has("node") {
        job["status"] = json!({"startTime": "2026-01-02T02:00:00Z", "active": 1});
    }
}

/// Makes a local object say that it is committed.
pub(super) fn commit(object: &mut Value, worker: &str, remote: &str, of: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    annotations[names::CLUSTER] = worker.into();
    annotations[names::CLUSTER_UID] = format!("{worker}-uid").into();
    annotations[names::REMOTE_UID] = format!("{of}/{remote}").into();
    object["metadata"]["finalizers"] = json!(["example.com/before", names::REMOTE_COPY]);
}

/// The end, at 02:04:05, one hour before the clock of these tests.
fn ended(subject: Subject) -> Value {
    let at = "2026-01-02T02:04:05Z";
    match subject {
        Subject::Pod => json!({"phase": "Succeeded", "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": at}}},
        ]}),
        Subject::Job(_) => json!({
            "startTime": "2026-01-02T02:00:00Z", "completionTime": at, "succeeded": 4, "active": 0,
            "conditions": [
                {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": at},
                {"type": "Complete", "status": "True", "lastTransitionTime": at},
                {"type": "Completed", "status": "True", "lastTransitionTime": at},
            ],
        }),
    }
}

/// The word that follows `word`.
pub(super) fn after<'a>(words: &'a str, word: &str) -> Option<&'a str> {
    let mut words = words.split_whitespace();
    words.find(|found| *found == word)?;
    words.next()
}
