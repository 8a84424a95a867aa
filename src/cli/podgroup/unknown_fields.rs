//! A job's policies -> fields that no job has. API servers drop them without a word of what they were to do.

use serde_json::Value;

use crate::gang::Policy;
use crate::words::nearest;
use crate::workload::jobs::{Field, GangKind};

/// The fields of a `runPolicy`, the same in all kinds of Kubeflow.
const RUN_POLICY: &[&str] = &[
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
    "schedulingPolicy",
    "suspend",
    "managedBy",
];

/// A sentence for each of them.
pub(super) fn unknown_fields(kind: &dyn GangKind, job: &Value) -> Vec<String> {
    let Some(path) = kind.scheduling_policy() else {
        return Vec::new();
    };
    let policy = Field::root(job).at(path);
    let run_policy = Field::root(job).at(&path[..path.len() - 1]);
    [(run_policy, RUN_POLICY), (policy, Policy::FIELDS)]
        .into_iter()
        .flat_map(|(object, known)| of(&object, known))
        .collect()
}

fn of(object: &Field<'_>, known: &[&'static str]) -> Vec<String> {
    let members = object.members().unwrap_or_default(); // what is no object is told elsewhere
    members
        .into_iter()
        .filter(|(key, _)| !known.contains(key))
        .map(|(key, field)| {
            let hint = match nearest(key, known.iter().copied()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("there are {}", known.join(", ")),
            };
            format!("{}: no such field; {hint}", field.path())
        })
        .collect()
}
