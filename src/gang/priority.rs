//! Policy and templates -> the PriorityClass of the gang, and the priority of each role.

use super::facts::ClusterFacts;
use super::notice::{Notice, Reason};
use super::policy::Policy;
use super::{BackEnd, Moment, Subject};
use crate::workload::jobs::{Field, InvalidField, PodSet};

/// The priorities of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Priorities<'j> {
    /// The class of the group: the policy's, or that of the first template with one.
    pub(super) class: Option<&'j str>,
    /// The class that templates without one get.
    pub(super) given: Option<&'j str>,
    /// The priority of the pods of each set; that of an unknown class counts as 0.
    pub(super) of_sets: Vec<i32>,
}

/// The priorities of these sets.
///
/// # Errors
/// If a class is unknown and that is refused, or if a native gang would have pods of different priorities.
pub(super) fn priorities<'j>(
    subject: &Subject<'_>,
    policy: &Policy<'j>,
    sets: &[PodSet<'j>],
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<Priorities<'j>, InvalidField> {
    let fields: Vec<Field<'j>> = sets
        .iter()
        .map(|set| set.template.at(&["spec", "priorityClassName"]))
        .collect();
    let own = fields
        .iter()
        .map(|field| Ok(field.text()?.filter(|class| !class.is_empty())))
        .collect::<Result<Vec<Option<&'j str>>, InvalidField>>()?;
    let class = policy
        .priority_class
        .or_else(|| own.iter().flatten().next().copied());
    let given = match (facts.settings.propagate_priority, subject.back_end) {
        (false, _) => None,
        // The scheduler wants all pods of a native group to have the group's priority (seen on 1.37.2).
        (true, BackEnd::Native(_)) => class,
        (true, BackEnd::Coscheduling | BackEnd::Volcano) => policy.priority_class,
    };
    let policy_field = policy.field.get("priorityClass");
    let named =
        std::iter::once((&policy_field, policy.priority_class)).chain(fields.iter().zip(own.iter().copied()));
    unknown(named, subject.moment, facts, notices)?;
    let classes: Vec<Option<&str>> = own.iter().map(|own| own.or(given)).collect();
    mixed(subject, &classes, policy, &fields, facts, notices)?;
    let value = |class: &Option<&str>| facts.priority_classes.value(*class).unwrap_or(0);
    Ok(Priorities {
        class,
        given,
        of_sets: classes.iter().map(value).collect(),
    })
}

/// Says which classes do not exist, each once.
fn unknown<'a>(
    named: impl Iterator<Item = (&'a Field<'a>, Option<&'a str>)>,
    moment: Moment,
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    let mut told = Vec::new();
    for (field, class) in named {
        let Some(class) = class.filter(|class| facts.priority_classes.value(Some(class)).is_none()) else {
            continue;
        };
        if told.contains(&class) {
            continue;
        }
        told.push(class);
        match (facts.settings.strict_priority_class, moment) {
            (true, Moment::Admission) => {
                return Err(field.invalid(format!(
                    "found {class:?}, but there is no PriorityClass of this name"
                )));
            }
            (true, Moment::Stored) | (false, _) => notices.push(Notice::new(
                Reason::UnknownPriorityClass,
                format!(
                    "{} is {class:?}, but there is no PriorityClass of this name; it counts as 0",
                    field.path()
                ),
            )),
        }
    }
    Ok(())
}

/// Says that pods differ in priority, or that the policy names another class than a template.
fn mixed(
    subject: &Subject<'_>,
    classes: &[Option<&str>],
    policy: &Policy<'_>,
    fields: &[Field<'_>],
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    let first = policy.priority_class.or(classes.first().copied().flatten());
    let differs = |class: &Option<&str>| {
        let is_overruled = policy.priority_class.is_some() && class.is_some() && *class != first;
        let (ours, others) = (
            facts.priority_classes.value(first),
            facts.priority_classes.value(*class),
        );
        is_overruled || ours != others || (ours.is_none() && *class != first)
    };
    let Some(place) = classes.iter().position(differs) else {
        return Ok(());
    };
    let words = |class: Option<&str>| {
        class.map_or("no PriorityClass".to_owned(), |class| {
            format!("PriorityClass {class:?}")
        })
    };
    let (one, other) = (words(first), words(classes[place]));
    match (subject.back_end, subject.moment) {
        (BackEnd::Native(_), Moment::Admission) => Err(fields[place].invalid(format!(
            "found {other} beside {one}, expected one for all pods: a native gang of different priorities is never scheduled"
        ))),
        (BackEnd::Native(_), Moment::Stored) | (BackEnd::Coscheduling | BackEnd::Volcano, _) => {
            notices.push(Notice::new(
                Reason::MixedPriorities,
                format!("{} is {other}, beside {one}: pods of one gang should have one priority, for others may come between them", fields[place].path()),
            ));
            Ok(())
        }
    }
}
