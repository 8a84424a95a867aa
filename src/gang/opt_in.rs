//! A job -> whether it is a gang of ours at all, and if not, why.

use serde_json::Value;

use super::facts::GangSettings;
use super::notice::{Notice, Reason};
use crate::names::{GANG_SCHEDULING, STAND_DOWN, TRUE};
use crate::workload::jobs::{Field, GangKind, InvalidField, gang_kind};

/// Why the job has no gang of ours; none if it has one, as far as the job as a whole says.
///
/// # Errors
/// If a field that decides holds something else than it should.
pub(super) fn alone(
    kind: &dyn GangKind,
    job: &Value,
    settings: &GangSettings,
) -> Result<Option<Notice>, InvalidField> {
    let policy = kind.scheduling_policy();
    let has_policy = policy.is_some_and(|path| Field::root(job).at(path).is_present());
    let metadata = Field::root(job).get("metadata");
    if metadata.get("deletionTimestamp").is_present() {
        return Ok(Some(Notice::new(Reason::Deleting, "the job is being deleted")));
    }
    if kind.is_finished(job) {
        return Ok(Some(Notice::new(Reason::Finished, "the job has ended")));
    }
    if let Some(owner) = owner(&metadata)? {
        return Ok(Some(Notice::new(
            Reason::PartOfAnotherJob,
            format!("the job belongs to {owner}, whose gang it is part of"),
        )));
    }
    let managed_by = kind.managed_by();
    let manager = Field::root(job).at(managed_by.path);
    if let Some(name) = manager
        .text()?
        .filter(|name| !name.is_empty() && *name != managed_by.local)
    {
        return Ok(Some(Notice::new(
            Reason::ManagedElsewhere,
            format!(
                "{} is {name:?}, so the pods run elsewhere, and so does their gang",
                manager.path()
            ),
        )));
    }
    if !is_opted_in(kind, &metadata, has_policy, settings)? {
        return Ok(Some(Notice::new(Reason::NotOptedIn, not_opted_in(kind))));
    }
    let stand_down = metadata.at(&["annotations", STAND_DOWN]);
    if let Some(why) = stand_down.text()? {
        let why = if why.is_empty() {
            "somebody else manages the PodGroup"
        } else {
            why
        };
        return Ok(Some(Notice::new(
            Reason::OperatorManagesPodGroup,
            format!("{why} ({})", stand_down.path()),
        )));
    }
    if let Some(own) = kind
        .own_group()
        .map(|path| Field::root(job).at(path))
        .filter(Field::is_present)
    {
        return Ok(Some(Notice::new(
            Reason::UserManagedPodGroup,
            format!(
                "{} is there, by which the job's own controller makes a group",
                own.path()
            ),
        )));
    }
    Ok(None)
}

/// The job of one of our kinds that controls this one.
pub(super) fn owner(metadata: &Field<'_>) -> Result<Option<String>, InvalidField> {
    for owner in metadata.get("ownerReferences").items()? {
        let text = |key: &str| Ok(owner.get(key).text()?.unwrap_or_default());
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        if owner.get("controller").boolean()? == Some(true) && gang_kind(api_version, kind).is_some() {
            return Ok(Some(format!("{kind} {}", text("name")?)));
        }
    }
    Ok(None)
}

/// Whether anything asks for a gang.
pub(super) fn is_opted_in(
    kind: &dyn GangKind,
    metadata: &Field<'_>,
    has_policy: bool,
    settings: &GangSettings,
) -> Result<bool, InvalidField> {
    let annotation = metadata.at(&["annotations", GANG_SCHEDULING]);
    let is_kubeflows = kind.scheduling_policy().is_some();
    match annotation.text()? {
        Some(TRUE) => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(annotation.invalid(format!("found {other:?}, expected \"true\" or \"false\""))),
        None => Ok(has_policy || (is_kubeflows && settings.gang_all)),
    }
}

fn not_opted_in(kind: &dyn GangKind) -> String {
    let annotation = format!("annotation {GANG_SCHEDULING}: \"true\"");
    match kind.scheduling_policy() {
        Some(path) => format!("the job has no {} and no {annotation}", path.join(".")),
        None => format!("the job has no {annotation}"),
    }
}

/// The annotations of a job, as far as they are texts.
pub(super) fn annotations(job: &Value) -> std::collections::BTreeMap<String, String> {
    let annotations = job.pointer("/metadata/annotations").and_then(Value::as_object);
    let texts = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    annotations.into_iter().flatten().filter_map(texts).collect()
}
