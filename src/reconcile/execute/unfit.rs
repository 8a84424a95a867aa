//! The answer to a create: whether the copy that was made is the copy that was sent, in all that the protocol reads (pure).

use serde_json::Value;

use crate::job::{Claim, claim};
use crate::names;
use crate::reconcile::pair::local::{Gate, RemoteObject, Subject};

/// Why a copy that its worker took is none, if so: what was sent, and what was made of it. One that is not suspended though
/// it was created so runs without anybody having recorded it: its worker does not know the field. One that names a manager
/// again would not be run by its worker's operator, or be handed on from there (R56).
pub(super) fn unfit(sent: &Value, made: &RemoteObject) -> Option<(&'static str, String)> {
    let Subject::Job(kind) = made.key.subject else {
        return changed(sent, made);
    };
    if made.gate != Some(Gate::Loose) {
        return changed(sent, made);
    }
    let job = serde_json::from_str(&made.json).unwrap_or_default();
    let manager = match claim(kind, &job) {
        Claim::Local => {
            let message = format!(
                "{} there do not keep suspend, so a copy would run before it is recorded; install a newer version of the kind there",
                made.key.subject.argument()
            );
            return Some(("SuspendNotSupported", message));
        }
        Claim::Ours => "Portcullis",
        Claim::Foreign(other) => other,
    };
    let message = format!(
        "something there writes managedBy of a copy, so that it would be run by {manager} and not by the operator there; namespaces that take copies are not opted in to any dispatcher on the worker"
    );
    Some(("ManagedByWritten", message))
}

/// A mark that was not kept. Such a copy cannot be committed, or is not found again, so nobody else goes on with it: it may be
/// deleted at once. Only what the protocol decides by is looked at: the rest is for people.
fn changed(sent: &Value, made: &RemoteObject) -> Option<(&'static str, String)> {
    let metadata = &sent["metadata"];
    let text = |map: &str, key: &str| metadata[map][key].as_str().unwrap_or_default();
    let annotation = |key: &str| text("annotations", key);
    let attempt = made.attempt.to_string();
    let marks = [
        (
            "labels",
            names::ORIGIN,
            text("labels", names::ORIGIN),
            &*made.origin,
        ),
        (
            "annotations",
            names::LOCAL_UID,
            annotation(names::LOCAL_UID),
            &*made.local_uid,
        ),
        (
            "annotations",
            names::SOURCE,
            annotation(names::SOURCE),
            made.source.as_str(),
        ),
        (
            "annotations",
            names::LOCAL_ATTEMPT,
            annotation(names::LOCAL_ATTEMPT),
            attempt.as_str(),
        ),
    ];
    let mut lost: Vec<String> = marks
        .into_iter()
        .filter(|(_, _, sent, made)| sent != made)
        .map(|(map, key, _, _)| format!("metadata.{map}[{key}]"))
        .collect();
    if made.gate.is_none() {
        lost.push(match made.key.subject {
            Subject::Pod => format!("spec.schedulingGates[{}]", names::UNCOMMITTED),
            Subject::Job(_) => format!("metadata.annotations[{}]", names::UNCOMMITTED),
        });
    }
    (!lost.is_empty()).then(|| {
        let message = format!(
            "something there (a mutating webhook or policy) changes or removes {} of a copy; exempt the objects that carry the label {} from it",
            lost.join(", "),
            names::ORIGIN
        );
        ("MarksNotKept", message)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::jobs::BatchJob;

    /// The copy as it is sent.
    fn sent(subject: Subject) -> Value {
        let mut copy = json!({
            "metadata": {
                "name": "one", "namespace": "n", "labels": {names::ORIGIN: "here"},
                "annotations": {names::LOCAL_UID: "L1", names::LOCAL_NAME: "n/one", names::LOCAL_ATTEMPT: "2", names::SOURCE: "abc"},
            },
            "spec": {},
        });
        match subject {
            Subject::Pod => copy["spec"]["schedulingGates"] = json!([{"name": names::UNCOMMITTED}]),
            Subject::Job(_) => {
                copy["metadata"]["annotations"][names::UNCOMMITTED] = names::TRUE.into();
                copy["spec"]["suspend"] = true.into();
            }
        }
        copy
    }

    /// What is said if the worker makes this of it.
    fn said(subject: Subject, change: impl Fn(&mut Value)) -> Option<(&'static str, String)> {
        let sent = sent(subject);
        let mut made = sent.clone();
        made["metadata"]["uid"] = "R1".into();
        made["metadata"]["resourceVersion"] = "7".into();
        change(&mut made);
        let made = RemoteObject::parse(subject, made.to_string().into()).unwrap();
        unfit(&sent, &made)
    }

    fn without(map: &'static str, key: &'static str) -> impl Fn(&mut Value) {
        move |made| {
            made["metadata"][map]
                .as_object_mut()
                .unwrap()
                .remove(key)
                .unwrap();
        }
    }

    #[test]
    fn every_mark_that_decides_is_missed() {
        for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
            assert_eq!(said(subject, |_| {}), None, "{subject:?}");
            for (map, key) in [
                ("labels", names::ORIGIN),
                ("annotations", names::LOCAL_UID),
                ("annotations", names::LOCAL_ATTEMPT),
                ("annotations", names::SOURCE),
            ] {
                let removed = said(subject, without(map, key)).unwrap();
                let replaced = said(subject, |made| made["metadata"][map][key] = "7".into()).unwrap();
                assert_eq!(removed, replaced, "{subject:?} {key}");
                assert_eq!(removed.0, "MarksNotKept");
                assert!(
                    removed.1.contains(&format!(" metadata.{map}[{key}] of a copy")),
                    "{}",
                    removed.1
                );
            }
        }
        let all = said(Subject::Pod, |made| made["metadata"]["annotations"] = Value::Null)
            .unwrap()
            .1;
        assert!(
            [names::LOCAL_UID, names::LOCAL_ATTEMPT, names::SOURCE]
                .iter()
                .all(|key| all.contains(key)),
            "{all}"
        );
    }

    #[test]
    fn a_copy_that_was_not_kept_from_running_is_missed() {
        let pod = said(Subject::Pod, |made| made["spec"]["schedulingGates"] = json!([]))
            .unwrap()
            .1;
        assert!(
            pod.contains("spec.schedulingGates[portcullis.dev/uncommitted]"),
            "{pod}"
        );
        let job = Subject::Job(&BatchJob);
        let open = said(job, without("annotations", names::UNCOMMITTED)).unwrap().1;
        assert!(
            open.contains("metadata.annotations[portcullis.dev/uncommitted]"),
            "{open}"
        );
        let runs = said(job, |made| made["spec"]["suspend"] = false.into()).unwrap();
        assert_eq!(runs.0, "SuspendNotSupported");
    }

    #[test]
    fn what_people_read_and_what_others_add_is_theirs() {
        for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
            assert_eq!(said(subject, without("annotations", names::LOCAL_NAME)), None);
            assert_eq!(
                said(subject, |made| made["metadata"]["labels"]["team"] = "a".into()),
                None
            );
        }
    }
}
