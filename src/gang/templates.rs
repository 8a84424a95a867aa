//! The templates of a job -> whether they fit the gang scheduler, and the marks that they get.

use serde_json::Value;

use super::facts::{GangSettings, NameStyle};
use super::group_label::born_in;
use super::marks::{Marks, TemplateMarks};
use super::name::{generated_name, is_generated, pod_group_name};
use super::notice::{Notice, Reason};
use super::pod_group::{JobRef, PodGroup};
use super::{
    BackEnd, DEFAULT_SCHEDULER, Family, Moment, NativeVersion, Subject, coscheduling, native, volcano,
};
use crate::names::{ADOPT_PODGROUP, GANG_SCHEDULER};
use crate::words::nearest;
use crate::workload::jobs::{Field, FieldPath, GangKind, InvalidField, PodSet, Presence};

/// The sets whose pods are in the gang, all with a template.
///
/// # Errors
/// If there are pods without a template, or if a part of one that is edited is no object.
pub(super) fn of_gang(sets: Vec<PodSet<'_>>) -> Result<Vec<PodSet<'_>>, InvalidField> {
    let mut gang = Vec::with_capacity(sets.len());
    for set in sets.into_iter().filter(|set| set.presence != Presence::Before) {
        match (set.template.is_present(), set.count) {
            (true, _) => {
                let parts: [&[&str]; 5] = [
                    &[],
                    &["spec"],
                    &["metadata"],
                    &["metadata", "labels"],
                    &["metadata", "annotations"],
                ];
                for part in parts {
                    set.template.at(part).object()?;
                }
                gang.push(set);
            }
            (false, 0) => {}
            (false, _) => return Err(set.template.invalid("missing, expected a pod template")),
        }
    }
    Ok(gang)
}

/// What is said of a role that the job's operator does not know.
pub(super) fn unknown_role(kind: &dyn GangKind, path: &FieldPath, roles: &[&'static str]) -> Notice {
    let found = path.pointer().rsplit('/').next().unwrap_or_default();
    let hint = nearest(found, roles.iter().copied()).map(|role| format!(", did you mean {role}?"));
    let sentence = format!(
        "{path} is no role of a {kind}{hint} Its roles are {roles}; its operator will refuse the job",
        kind = kind.resource().kind,
        hint = hint.as_deref().unwrap_or("."),
        roles = roles.join(", "),
    );
    Notice::new(Reason::UnknownReplicaType, sentence)
}

/// The job by its names.
///
/// # Errors
/// If it has no name, and will get none.
pub(super) fn job_ref(subject: &Subject<'_>) -> Result<JobRef, InvalidField> {
    let metadata = Field::root(subject.job).get("metadata");
    let text = |field: Field<'_>| Ok(field.text()?.unwrap_or_default().to_owned());
    let name = text(metadata.get("name"))?;
    if name.is_empty() && !metadata.get("generateName").is_present() {
        return Err(metadata.get("name").invalid("missing, expected the job's name"));
    }
    let names = subject.kind.resource();
    Ok(JobRef {
        api_version: names.api_version(),
        kind: names.kind.to_owned(),
        namespace: text(metadata.get("namespace"))?,
        uid: text(metadata.get("uid"))?,
        name,
    })
}

/// The name of the group that the job adopts, if it does.
///
/// # Errors
/// If no group can have it, or no label can hold it.
pub(super) fn adopted(job: &Value) -> Result<Option<&str>, InvalidField> {
    let annotation = Field::root(job).at(&["metadata", "annotations", ADOPT_PODGROUP]);
    match annotation.text()? {
        None => Ok(None),
        Some(name) if volcano::is_name(name) && name.len() <= 63 => Ok(Some(name)),
        Some(name) => Err(annotation.invalid(format!(
            "found {name:?}, expected the name of a PodGroup: at most 63 lower case letters, digits, hyphens and dots"
        ))),
    }
}

/// The name of the job's group: that of the job, if it has one when the templates are marked. Otherwise one that is made
/// for it. Either is found again in the templates, also after the configuration has changed.
pub(super) fn group_name(
    subject: &Subject<'_>,
    sets: &[PodSet<'_>],
    job: &JobRef,
    settings: &GangSettings,
) -> Result<String, InvalidField> {
    let generate = Field::root(subject.job).at(&["metadata", "generateName"]);
    let prefix = generate.text()?.filter(|prefix| !prefix.is_empty());
    let styles = [NameStyle::Job, NameStyle::Kind].map(|style| pod_group_name(job, style));
    let is_ours = |name: &str| {
        let is_made = prefix.is_some_and(|prefix| is_generated(prefix, name));
        is_made || styles.iter().any(|style| style == name)
    };
    let mut marks = groups(sets)?.into_iter();
    let mark = marks.find(|(family, name, _)| *family == subject.back_end.family() && is_ours(name));
    Ok(match (mark, prefix) {
        (Some((_, name, _)), _) => name.to_owned(),
        (None, Some(prefix)) if job.name.is_empty() => generated_name(prefix, subject.seed),
        (None, _) => pod_group_name(job, settings.name_style),
    })
}

/// Why these templates belong to somebody else's gang or scheduler; none if they do not.
///
/// # Errors
/// If they belong to two gang schedulers.
pub(super) fn foreign(
    subject: &Subject<'_>,
    sets: &[PodSet<'_>],
    name: &str,
    settings: &GangSettings,
) -> Result<Option<Notice>, InvalidField> {
    let ours = subject.back_end.family();
    let groups = groups(sets)?;
    if let (Some((one, _, _)), Some((other, _, field))) = (
        groups.first(),
        groups.iter().find(|(family, ..)| *family != groups[0].0),
    ) {
        return Err(field.invalid(format!(
            "found a group of {other} beside one of {one}; a job has one gang scheduler"
        )));
    }
    for (family, found, field) in &groups {
        let is_chosen = Field::root(subject.job)
            .at(&["metadata", "annotations", GANG_SCHEDULER])
            .is_present();
        match (*family == ours, is_chosen) {
            (true, _) if ours != Family::Native && *found == name => {}
            (true, _) if ours == Family::Native && born_in(sets) == Some(found) => {}
            (false, true) => {
                return Err(field.invalid(format!("found a group of {family}, but {GANG_SCHEDULER} asks for {ours}; a job has one gang scheduler")));
            }
            (true, _) | (false, false) => {
                return Ok(Some(Notice::new(
                    Reason::UserManagedPodGroup,
                    format!(
                        "{} names the group {found:?}, which the user manages; to have it used for the whole job, name it in {ADOPT_PODGROUP}",
                        field.path()
                    ),
                )));
            }
        }
    }
    schedulers(subject, sets, settings)
}

/// The groups that templates name, with the fields that do.
fn groups<'j>(sets: &[PodSet<'j>]) -> Result<Vec<(Family, &'j str, Field<'j>)>, InvalidField> {
    let places = [
        (
            Family::Coscheduling,
            &["metadata", "labels", coscheduling::LABEL][..],
        ),
        (Family::Volcano, &["metadata", "annotations", volcano::GROUP_NAME]),
        (Family::Native, &["spec", "schedulingGroup", "podGroupName"]),
        (Family::Native, &["spec", "workloadRef", "name"]),
    ];
    let mut groups = Vec::new();
    for set in sets {
        for (family, place) in places {
            let field = set.template.at(place);
            if let Some(name) = field.text()?.filter(|name| !name.is_empty()) {
                groups.push((family, name, field));
            }
        }
    }
    Ok(groups)
}

/// Whether the templates name another scheduler than the gang's.
fn schedulers(
    subject: &Subject<'_>,
    sets: &[PodSet<'_>],
    settings: &GangSettings,
) -> Result<Option<Notice>, InvalidField> {
    let fields: Vec<Field<'_>> = sets
        .iter()
        .map(|set| set.template.at(&["spec", "schedulerName"]))
        .collect();
    let names = fields
        .iter()
        .map(|field| {
            Ok(field
                .text()?
                .filter(|name| !name.is_empty())
                .unwrap_or(DEFAULT_SCHEDULER))
        })
        .collect::<Result<Vec<&str>, InvalidField>>()?;
    let Some(wanted) = scheduler(subject.back_end, settings) else {
        let Some(place) = names.iter().position(|name| *name != names[0]) else {
            return Ok(None);
        };
        let problem = format!(
            "found {:?} beside {:?}, expected one scheduler for all pods of a native gang",
            names[place], names[0]
        );
        return match subject.moment {
            Moment::Admission => Err(fields[place].invalid(problem)),
            Moment::Stored => Ok(Some(Notice::new(
                Reason::SchedulerNameMismatch,
                format!("{}: {problem}", fields[place].path()),
            ))),
        };
    };
    let is_foreign = |name: &&str| **name != *wanted && **name != *DEFAULT_SCHEDULER;
    let is_fixed = subject.moment == Moment::Stored && subject.kind.has_fixed_templates();
    let advice = match is_fixed {
        true => format!("create the job anew with {wanted:?} or none, for it cannot be changed"),
        false => format!("name {wanted:?} or none"),
    };
    Ok(names.iter().position(is_foreign).map(|place| {
        Notice::new(
            Reason::SchedulerNameMismatch,
            format!(
                "{:?} serves no group of {}; {advice}: {}",
                names[place],
                subject.back_end.family(),
                fields[place].path()
            ),
        )
    }))
}

/// The scheduler that pods get; none if they keep theirs.
fn scheduler(back_end: BackEnd, settings: &GangSettings) -> Option<&str> {
    match back_end {
        BackEnd::Coscheduling => Some(&settings.coscheduling_scheduler),
        BackEnd::Volcano => Some(&settings.volcano_scheduler),
        BackEnd::Native(_) => None,
    }
}

/// The marks of all templates of the gang.
pub(super) fn marks(
    subject: &Subject<'_>,
    sets: &[PodSet<'_>],
    group: &PodGroup,
    class: Option<&str>,
    settings: &GangSettings,
) -> Marks {
    let of = |set: &PodSet<'_>| {
        let has_class = set
            .template
            .at(&["spec", "priorityClassName"])
            .text()
            .is_ok_and(|class| class.is_some_and(|class| !class.is_empty()));
        let (labels, annotations) = match subject.back_end {
            BackEnd::Coscheduling => (vec![(coscheduling::LABEL, group.name.clone())], Vec::new()),
            BackEnd::Volcano => {
                let role = (volcano::TASK_SPEC, set.role.to_ascii_lowercase());
                (Vec::new(), vec![(volcano::GROUP_NAME, group.name.clone()), role])
            }
            BackEnd::Native(_) => (Vec::new(), Vec::new()),
        };
        TemplateMarks {
            role: set.role.clone(),
            template: set.template.path().clone(),
            labels,
            annotations,
            scheduler_name: scheduler(subject.back_end, settings).map(str::to_owned),
            priority_class_name: class.filter(|_| !has_class).map(str::to_owned),
        }
    };
    Marks {
        templates: sets.iter().map(of).collect(),
        pods: pod_mark(subject.back_end, group, 0),
    }
}

/// What the pods themselves carry in this attempt.
pub(super) fn pod_mark(back_end: BackEnd, group: &PodGroup, attempt: u32) -> Option<super::PodMark> {
    let BackEnd::Native(version) = back_end else {
        return None;
    };
    let mut names = native::names(group, version, attempt);
    match (group.is_adopted, version) {
        (false, _) => {}
        (true, NativeVersion::V1alpha1) => names.workload.clone_from(&group.name),
        (true, _) => names.pod_group.clone_from(&group.name),
    }
    Some(native::pod_mark(names, version))
}
