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
    // The API server makes no pod with a class that does not exist, and no native group; Volcano takes any.
    let classes = &facts.priority_classes;
    let usable = policy.priority_class.filter(|class| classes.may_exist(class));
    let first = own.iter().flatten().next().copied();
    let (class, given) = match subject.back_end {
        // The scheduler wants all pods of a native group to have the group's priority (seen on 1.37.2).
        BackEnd::Native(_) => (usable.or(first), usable.or(first)),
        BackEnd::Coscheduling | BackEnd::Volcano => (policy.priority_class.or(first), usable),
    };
    let given = given.filter(|_| facts.settings.propagate_priority);
    let of_policy = policy.field.get("priorityClass");
    let outcome = match usable {
        Some(_) => "no pod is made with it",
        None => "pods do not get it",
    };
    let named = fields.iter().zip(own.iter().copied());
    let named = named.map(|(field, class)| (field, class, "no pod is made with it"));
    let named = named.chain([(&of_policy, policy.priority_class, outcome)]);
    unknown(named, subject.moment, facts, notices)?;
    let classes: Vec<Option<&str>> = own.iter().map(|own| own.or(given)).collect();
    mixed(subject, &classes, usable, &fields, facts, notices)?;
    let value = |class: &Option<&str>| facts.priority_classes.value(*class).unwrap_or(0);
    Ok(Priorities {
        class,
        given,
        of_sets: classes.iter().map(value).collect(),
    })
}

/// Says which classes do not exist, each once, and what comes of it. While no class is known, that is all that can be said.
fn unknown<'a>(
    named: impl Iterator<Item = (&'a Field<'a>, Option<&'a str>, &'static str)>,
    moment: Moment,
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    let known = &facts.priority_classes;
    let is_strict = facts.settings.strict_priority_class && moment == Moment::Admission;
    let mut told = Vec::new();
    for (field, class, outcome) in named {
        let Some(class) = class.filter(|class| known.value(Some(class)).is_none() && !told.contains(class))
        else {
            continue;
        };
        told.push(class);
        let may_exist = known.may_exist(class);
        if is_strict && !may_exist {
            return Err(field.invalid(format!(
                "found {class:?}, but there is no PriorityClass of this name"
            )));
        }
        notices.push(Notice::new(
            Reason::UnknownPriorityClass,
            match may_exist {
                true => format!(
                    "it is not known whether {class:?} exists; if not, {outcome}: {}",
                    field.path()
                ),
                false => format!("there is no {class:?}, so {outcome}: {}", field.path()),
            },
        ));
    }
    Ok(())
}

/// Says that pods differ in priority, or that the policy names another class than a template.
fn mixed(
    subject: &Subject<'_>,
    classes: &[Option<&str>],
    of_policy: Option<&str>,
    fields: &[Field<'_>],
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<(), InvalidField> {
    let first = of_policy.or(classes.first().copied().flatten());
    let differs = |class: &Option<&str>| {
        let is_overruled = of_policy.is_some() && class.is_some() && *class != first;
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
                format!("{other} beside {one}: {}; others may come between pods of the gang", fields[place].path()),
            ));
            Ok(())
        }
    }
}
