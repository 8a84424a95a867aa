//! A policy -> what of it a gang scheduler has no words for.

use super::facts::GangSettings;
use super::notice::{Notice, Reason};
use super::policy::Policy;
use super::{Family, Subject, volcano};
use crate::workload::jobs::{Field, InvalidField};

/// Says what is lost; and that a queue has a name, where there are queues.
///
/// # Errors
/// If no queue can have the name.
pub(super) fn say(
    subject: &Subject<'_>,
    policy: &Policy<'_>,
    settings: &GangSettings,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    let family = subject.back_end.family();
    let lost: &[(Reason, &str, bool, &str)] = match family {
        Family::Volcano => &[(
            Reason::TimeoutIgnored,
            "scheduleTimeoutSeconds",
            policy.timeout_seconds.is_some(),
            "timeout of a group; pods wait until they fit",
        )],
        Family::Coscheduling => &[
            (
                Reason::QueueIgnored,
                "queue",
                policy.queue.is_some(),
                "queues; it is kept in an annotation of the PodGroup",
            ),
            (
                Reason::PriorityClassIgnored,
                "priorityClass",
                policy.priority_class.is_some() && !settings.propagate_priority,
                "priority of a group; set priorityClassName in the templates",
            ),
        ],
        Family::Native => &[
            (Reason::QueueIgnored, "queue", policy.queue.is_some(), "queues"),
            (
                Reason::TimeoutIgnored,
                "scheduleTimeoutSeconds",
                policy.timeout_seconds.is_some(),
                "timeout that can be set",
            ),
            (
                Reason::MinResourcesIgnored,
                "minResources",
                policy.min_resources.is_some(),
                "minimum of resources",
            ),
        ],
    };
    for (reason, key, _, words) in lost.iter().filter(|(_, _, is_lost, _)| *is_lost) {
        let field = policy.field.get(key);
        notices.push(Notice::new(
            *reason,
            format!("{}: {family} has no {words}", field.path()),
        ));
    }
    match family {
        Family::Volcano => {
            let annotation = Field::root(subject.job).at(&["metadata", "annotations", volcano::QUEUE_NAME]);
            volcano::check_queue(&policy.field.get("queue"), &annotation, notices)
        }
        Family::Coscheduling | Family::Native => Ok(()),
    }
}
