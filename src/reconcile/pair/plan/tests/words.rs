//! A plan -> lines of text, with the preconditions that its steps carry in brackets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::super::local::Gate;
use super::super::Plan;
use crate::names;
use crate::reconcile::step::{RemoteTarget, Step};

/// The plan in words; in brackets the preconditions that the step carries.
pub(super) fn lines(plan: &Plan) -> String {
    let Plan {
        steps,
        look_again,
        orphans,
    } = plan;
    let mut lines: Vec<String> = steps.iter().map(words).collect();
    lines.extend(orphans.iter().map(|orphan| format!("orphan {}", place(orphan))));
    lines.extend(look_again.map(|time| format!("again in {time:?}")));
    if lines.is_empty() {
        "nothing".to_owned()
    } else {
        lines.join("\n")
    }
}

/// The words of a plan of pods, as a plan of jobs says them.
pub(super) fn of_jobs(lines: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("WaitingForGates", "Suspended"),
        ("RemotePodDeleted", "RemoteJobDeleted"),
        ("PreviousPodTerminating", "PreviousJobTerminating"),
        ("Scheduled phase=Running", "Running"),
        ("Scheduled phase=Succeeded", "Finished"),
        (" phase=Succeeded", ""),
        ("\nagain in 300s", ""), // `unschedulableAfter` is of pods
    ];
    WORDS
        .iter()
        .fold(lines.to_owned(), |lines, (pod, job)| lines.replace(pod, job))
}

fn place(remote: &RemoteTarget) -> String {
    format!("{} on {}", remote.uid, remote.worker)
}

fn words(step: &Step) -> String {
    match step {
        Step::Prepare { worker, .. } => format!("prepare on {worker}"),
        Step::Commit { local, remote, .. } => format!(
            "commit {} {}",
            place(remote),
            seen(&local.uid, &local.resource_version)
        ),
        Step::GiveUp { local, attempt } => format!(
            "give the attempt up, attempt {attempt} {}",
            seen(&local.uid, &local.resource_version)
        ),
        Step::Open {
            committed,
            remote,
            gate,
            patch,
        } => {
            assert_eq!(committed.remote_uid(), &remote.uid, "opens the committed one");
            let gate = match gate {
                Gate::Scheduling(place) => format!("/spec/schedulingGates/{place}"),
                Gate::Suspended | Gate::Loose => {
                    "/metadata/annotations/portcullis.dev~1uncommitted".to_owned()
                }
            };
            let tests = |path: &str| {
                let operations = patch.as_array().unwrap().iter();
                operations
                    .clone()
                    .any(|operation| operation["op"] == "test" && operation["path"] == path)
            };
            assert_eq!(patch[0]["value"], *remote.uid, "the UID is tested first");
            assert!(tests("/metadata/uid") && tests(&gate));
            format!("open {} [uid gate]", place(remote))
        }
        Step::Forward { remote, patch, .. } => {
            assert_eq!(patch[0]["value"], *remote.uid, "the UID is tested first");
            format!("forward to {} [uid opened]", place(remote))
        }
        Step::Expire { local } => format!("expire {}", seen(&local.uid, &local.resource_version)),
        Step::AskConsent { worker, .. } => format!("ask {worker} whether the namespace consents"),
        Step::AskPods { remote, selector, .. } => {
            let selector = selector.as_deref().unwrap_or("nothing");
            format!("ask about the pods of {} by {selector}", place(remote))
        }
        Step::Remark { remote, attempt, .. } => format!("mark {} [uid] attempt {attempt}", place(remote)),
        Step::Delete {
            remote,
            why,
            unchanged,
        } => {
            let version = match unchanged.as_deref() {
                Some(version) => {
                    assert_eq!(version, "70", "the version that was seen");
                    " rv"
                }
                None => "",
            };
            format!("delete {} [uid{version}]: {why}", place(remote))
        }
        Step::TakeBack {
            remote,
            resource_version,
            ..
        } => {
            assert_eq!(
                &**resource_version, "70",
                "the version that was seen without a node"
            );
            format!("take back {} [uid rv]", place(remote))
        }
        Step::ClearCommit {
            local,
            finalizers,
            attempt,
        } => {
            assert_eq!(
                finalizers.len(),
                2,
                "all finalizers as seen; ours is left out in the call"
            );
            format!(
                "clear the commit, attempt {attempt} {}",
                seen(&local.uid, &local.resource_version)
            )
        }
        Step::Mirror { patch, .. } => mirrored(patch),
        Step::Fail { patch, reason, .. } => {
            let text = |pointer: &str| patch.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let conditions = patch["status"]["conditions"].as_array().unwrap();
            let failed = conditions.iter().any(|condition| condition["type"] == "Failed");
            assert!(text("/status/phase") == "Failed" || failed, "{patch}");
            format!(
                "fail {reason} {}",
                seen(text("/metadata/uid"), text("/metadata/resourceVersion"))
            )
        }
        Step::ReleaseFinalizer {
            local,
            index,
            same_version,
        } => {
            assert_eq!((&*local.uid, *index), ("L1", 1), "its own place");
            format!(
                "release the finalizer [L uid place{}]",
                if *same_version { " rv" } else { "" }
            )
        }
        Step::ProveRemoteGone { remote, cluster_uid } => {
            assert_eq!(
                **cluster_uid,
                format!("{}-uid", remote.worker),
                "asks the cluster of the commit"
            );
            format!("ask {} whether {} is gone", remote.worker, remote.uid)
        }
        Step::ProveLocalGone { uid, .. } => format!("ask the manager whether {uid} is gone"),
        Step::LookAtLocal { .. } => "look at L".to_owned(),
        Step::Tell { reason, .. } => format!("tell {reason}"),
    }
}

/// A status patch by its phase and our condition; every one carries UID and resourceVersion.
fn mirrored(patch: &Value) -> String {
    assert_eq!(
        (
            patch["metadata"]["uid"].is_string(),
            &patch["metadata"]["resourceVersion"]
        ),
        (true, &json!("50"))
    );
    let conditions = patch["status"]["conditions"].as_array();
    let ours = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == names::DISPATCHED);
    let said = ours.map(|condition| {
        format!(
            "Dispatched={} {}",
            condition["status"].as_str().unwrap(),
            condition["reason"].as_str().unwrap()
        )
    });
    let phase = patch["status"]["phase"]
        .as_str()
        .map(|phase| format!("phase={phase}"));
    let fields: BTreeSet<&str> = patch["status"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(field, _)| field.as_str())
        .collect();
    let verb = if fields == BTreeSet::from(["conditions"]) && patch["metadata"]["annotations"].is_null() {
        "say"
    } else {
        "mirror"
    };
    [Some(verb.to_owned()), said, phase]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

fn seen(uid: &str, resource_version: &str) -> &'static str {
    assert_eq!(resource_version, "50", "the version that was seen");
    assert!(uid.starts_with('L'), "the local UID");
    "[L uid rv]"
}
