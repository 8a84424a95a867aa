//! A gang -> the PodGroup of Volcano (`scheduling.volcano.sh/v1beta1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::facts::GangSettings;
use super::notice::{Notice, Reason};
use super::pod_group::{MinResources, PodGroup, metadata};
use crate::workload::jobs::{Field, InvalidField};

/// The annotation of pods that names their PodGroup. It must be there when a pod is created: otherwise Volcano makes
/// a group of its own for it (volcano-sh/volcano#4784).
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// The annotation of pods that names their role. Without it, Volcano takes all pods of a group for equal
/// (ray-project/kuberay#1752).
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
/// The annotation of jobs that names their queue, where the policy does not.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";

/// Annotations of jobs that do not go on the PodGroup: what they say stands in fields of it.
const NOT_COPIED: [&str; 3] = [
    QUEUE_NAME,
    "scheduling.volcano.sh/group-min-member",
    "scheduling.volcano.sh/group-min-resources",
];

/// The PodGroup. Its queue is only there if somebody named one, so that the namespace's own, or another controller's
/// choice, is left alone (kubeflow/training-operator#1967, #2079).
#[must_use]
pub fn pod_group(group: &PodGroup, settings: &GangSettings) -> Value {
    let mut metadata = metadata(group, &group.name, settings);
    let annotations: BTreeMap<&String, &String> = group
        .job_annotations
        .iter()
        .filter(|(key, _)| is_copied(key))
        .collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let mut spec = Map::from_iter([("minMember".to_owned(), json!(group.min_member))]);
    let resources = match settings.volcano_quota_keys {
        true => group.min_resources.with_quota_keys(),
        false => group.min_resources.plain(),
    };
    if !resources.is_empty() || matches!(group.min_resources, MinResources::Given(_)) {
        spec.insert("minResources".to_owned(), json!(resources));
    }
    let annotated = group
        .job_annotations
        .get(QUEUE_NAME)
        .filter(|queue| !queue.is_empty());
    let queue = group
        .queue
        .as_ref()
        .or(annotated)
        .or(settings.volcano_default_queue.as_ref());
    if let Some(queue) = queue {
        spec.insert("queue".to_owned(), json!(queue));
    }
    if let Some(class) = &group.priority_class {
        spec.insert("priorityClassName".to_owned(), json!(class));
    }
    if let Some(minimums) = settings
        .volcano_task_minimums
        .then(|| task_minimums(group))
        .flatten()
    {
        spec.insert("minTaskMember".to_owned(), json!(minimums));
    }
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec})
}

/// How many of each role must be there, for a group that is only a part of its job: all but the workers, and workers for
/// the rest. None if that does not come out even, for Volcano then ignores it.
fn task_minimums(group: &PodGroup) -> Option<BTreeMap<&str, u32>> {
    let counting = || group.roles.iter().filter(|role| role.counts && role.count > 0);
    let sum = |workers: bool| -> u32 {
        counting()
            .filter(|role| role.is_worker == workers)
            .map(|role| role.count)
            .sum()
    };
    let workers = group.min_member.checked_sub(sum(false))?;
    if workers >= sum(true) {
        return None; // all pods, or a job without workers
    }
    let minimum = |role: &super::pod_group::Role| if role.is_worker { workers } else { role.count };
    Some(
        counting()
            .map(|role| (role.name.as_str(), minimum(role)))
            .collect(),
    )
}

fn is_copied(key: &str) -> bool {
    let is_volcanos = key.starts_with("volcano.sh/") || key.starts_with("scheduling.volcano.sh/");
    is_volcanos && !NOT_COPIED.contains(&key)
}

/// Checks the queue's name, wherever it is given.
///
/// # Errors
/// If no queue can have it.
pub(super) fn check_queue(
    policy: &Field<'_>,
    annotation: &Field<'_>,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    for field in [policy, annotation] {
        let Some(queue) = field.text()? else { continue };
        if queue.is_empty() {
            notices.push(Notice::new(
                Reason::EmptyQueue,
                format!("an empty name of a queue counts as none: {}", field.path()),
            ));
        } else if !is_name(queue) {
            return Err(field.invalid(format!(
                "found {queue:?}, expected the name of a Queue: at most 253 lower case letters, digits, hyphens and dots"
            )));
        }
    }
    Ok(())
}

/// A DNS subdomain (RFC 1123).
pub(super) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(allowed) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
