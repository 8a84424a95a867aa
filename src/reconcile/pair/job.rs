//! A job of either API -> what the protocol needs to know of it (pure).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::key::{PairKey, Subject};
use super::local::{LocalObject, Phase, Unreadable, commit_of};
use super::remote::{Gate, RemoteObject};
use super::text::{Meta, number};
use crate::job::forward::is_held;
use crate::job::{Claim, claim, is_suspended, is_uncommitted, seen_open};
use crate::names;
use crate::workload::jobs::JobKind;

/// A job of the manager.
pub(super) fn local(kind: &'static dyn JobKind, json: Arc<str>) -> Result<LocalObject, Unreadable> {
    let job: Value = serde_json::from_str(&json)?;
    let metadata = meta(&job)?;
    let uid: Arc<str> = metadata.uid.into();
    let finalizers = metadata.finalizers;
    Ok(LocalObject {
        key: PairKey {
            subject: Subject::Job(kind),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        },
        resource_version: metadata.resource_version.into(),
        attempt: number(&metadata.annotations, names::ATTEMPT),
        commit: commit_of(&metadata.annotations, &uid),
        held: matches!(claim(kind, &job), Claim::Ours),
        other_gates: Vec::new(),
        suspended: is_suspended(kind, &job),
        terminating: metadata.deletion_timestamp.is_some(),
        phase: phase(kind, &job),
        finalizer: finalizers.iter().position(|name| name == names::REMOTE_COPY),
        finalizers,
        seen_open: seen_open(kind, &job),
        seen_scheduled: false,
        // A job is a workload of its own: what makes several of them spreads them as it likes.
        controller: None,
        root_hint: None,
        uid,
        json,
    })
}

/// A job of a worker.
pub(super) fn remote(kind: &'static dyn JobKind, json: Arc<str>) -> Result<RemoteObject, Unreadable> {
    let job: Value = serde_json::from_str(&json)?;
    let metadata = meta(&job)?;
    let text = |key: &str| metadata.annotations.get(key).cloned().unwrap_or_default();
    let phase = phase(kind, &job);
    let suspended = is_suspended(kind, &job);
    let runs = phase != Phase::Terminal && !suspended && metadata.deletion_timestamp.is_none();
    let untold = runs && !kind.says_all_ready(&job["status"]);
    Ok(RemoteObject {
        untold: untold.then(|| hash(&job["status"])),
        origin: metadata
            .labels
            .get(names::ORIGIN)
            .cloned()
            .unwrap_or_default()
            .into(),
        local_uid: text(names::LOCAL_UID).into(),
        attempt: number(&metadata.annotations, names::LOCAL_ATTEMPT),
        source: text(names::SOURCE),
        key: PairKey {
            subject: Subject::Job(kind),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        },
        uid: metadata.uid.into(),
        resource_version: metadata.resource_version.into(),
        gate: match (
            is_uncommitted(&job),
            is_held(kind, &job) && is_of_its_worker(kind, &job),
        ) {
            (true, true) => Some(Gate::Suspended),
            (true, false) => Some(Gate::Loose),
            (false, _) => None,
        },
        terminating: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers,
        node: None,
        // Nobody waits for a job that is suspended, or whose pods run.
        ready: suspended || phase != Phase::Waiting,
        suspended,
        phase,
        json,
    })
}

/// Whether the operator of its worker runs it: nothing there wrote `managedBy` into it again (R56).
fn is_of_its_worker(kind: &dyn JobKind, job: &Value) -> bool {
    matches!(claim(kind, job), Claim::Local)
}

fn meta(job: &Value) -> Result<Meta, serde_json::Error> {
    Meta::deserialize(job.get("metadata").unwrap_or(&Value::Null))
}

fn phase(kind: &dyn JobKind, job: &Value) -> Phase {
    match (kind.is_finished(job), is_under_way(&job["status"])) {
        (true, _) => Phase::Terminal,
        (false, true) => Phase::Running,
        (false, false) => Phase::Waiting,
    }
}

/// Two statuses with the same are taken for the same.
fn hash(status: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    status.hash(&mut hasher);
    hasher.finish()
}

/// Pods that a Job's controller has seen end, and not yet added to a counter.
const UNCOUNTED: &str = "uncountedTerminatedPods";

fn has_some(lists: &Value) -> bool {
    let lists = lists.as_object().into_iter().flat_map(|lists| lists.values());
    lists.filter_map(Value::as_array).any(|list| !list.is_empty())
}

/// Whether some pod of the job is there or was: kinds count them in many places, but all call them so. Only the pace of
/// what is shown depends on it.
fn is_under_way(status: &Value) -> bool {
    const COUNTERS: [&str; 4] = ["active", "ready", "succeeded", "failed"];
    match status {
        Value::Object(map) => map.iter().any(|(key, value)| {
            (COUNTERS.contains(&key.as_str()) && value.as_u64().unwrap_or_default() > 0)
                || (key == UNCOUNTED && has_some(value))
                || is_under_way(value)
        }),
        Value::Array(list) => list.iter().any(is_under_way),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::jobs::{BatchJob, JobSet};

    #[test]
    fn a_job_runs_as_soon_as_some_pod_of_it_is_there() {
        let of = |kind: &'static dyn JobKind, status: Value| phase(kind, &json!({"status": status}));
        assert_eq!(of(&BatchJob, json!({})), Phase::Waiting);
        assert_eq!(
            of(&BatchJob, json!({"active": 0, "startTime": "x"})),
            Phase::Waiting
        );
        assert_eq!(of(&BatchJob, json!({"active": 1})), Phase::Running);
        let replicas =
            json!({"replicatedJobsStatus": [{"name": "a", "active": 0}, {"name": "b", "active": 2}]});
        assert_eq!(of(&JobSet, replicas), Phase::Running);
        // Between its end and its being counted a pod is in no counter.
        let ending = |pods: Value| json!({"active": 0, "uncountedTerminatedPods": {"succeeded": pods}});
        assert_eq!(of(&BatchJob, ending(json!(["uid"]))), Phase::Running);
        assert_eq!(of(&BatchJob, ending(json!([]))), Phase::Waiting);
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(of(&BatchJob, complete), Phase::Terminal);
    }

    #[test]
    fn only_a_job_that_names_us_is_held_for_us() {
        let held = |spec: Value, annotations: Value| {
            let job = json!({
                "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "7", "annotations": annotations},
                "spec": spec,
            });
            local(&BatchJob, job.to_string().into()).unwrap().held
        };
        assert!(held(json!({"managedBy": names::GATE}), json!({})));
        assert!(!held(json!({}), json!({})));
        assert!(!held(
            json!({"managedBy": "kubernetes.io/job-controller"}),
            json!({})
        ));
        assert!(
            !held(json!({"managedBy": "kueue.x-k8s.io/multikueue"}), json!({})),
            "Kueue's own"
        );
    }

    #[test]
    fn a_copy_is_gated_by_the_annotation_and_held_by_suspend() {
        let gate = |annotations: Value, suspend: Value| {
            let job = json!({
                "metadata": {"name": "j", "namespace": "n", "uid": "u", "annotations": annotations},
                "spec": {"suspend": suspend},
            });
            remote(&BatchJob, job.to_string().into()).unwrap().gate
        };
        let uncommitted = json!({names::UNCOMMITTED: names::TRUE});
        assert_eq!(gate(uncommitted.clone(), json!(true)), Some(Gate::Suspended));
        assert_eq!(gate(uncommitted.clone(), json!(false)), Some(Gate::Loose));
        assert_eq!(gate(uncommitted, json!(null)), Some(Gate::Loose));
        let remarked = json!({
            "metadata": {
                "name": "j", "namespace": "n", "uid": "u", "annotations": {names::UNCOMMITTED: names::TRUE},
            },
            "spec": {"suspend": true, "managedBy": names::GATE},
        });
        let remarked = remote(&BatchJob, remarked.to_string().into()).unwrap();
        assert_eq!(remarked.gate, Some(Gate::Loose), "nobody there would run it");
        assert_eq!(
            gate(json!({}), json!(true)),
            None,
            "opened, and suspended by its user"
        );
    }
}
