//! The label by which Portcullis itself finds the pods of a group, whatever the gang scheduler; and parts of marks.

use json_patch::PatchOperation;
use serde_json::Value;

use super::hold::remove;
use super::marks::{Marks, PodMark};
use super::{Family, GangSettings, coscheduling, opt_in, volcano};
use crate::names::{GANG_SCHEDULER, POD_GROUP};
use crate::workload::jobs::{Field, GangKind, PodSet, Pods};

/// The group that our marks name on the templates of a job, and its gang scheduler, unless that part is gone already; none
/// if they have no marks of ours, or belong to another job, such as that of a launcher.
#[must_use]
pub fn marked<'j>(kind: &dyn GangKind, job: &'j Value) -> Option<(Option<Family>, &'j str)> {
    if !matches!(opt_in::owner(&Field::root(job).get("metadata")), Ok(None)) {
        return None;
    }
    templates(kind, job).iter().find_map(|template| {
        let text = |keys: [&str; 3]| template.at(&keys).text().ok().flatten();
        let group = text(["metadata", "labels", POD_GROUP])?;
        let family = if text(["metadata", "labels", coscheduling::LABEL]) == Some(group) {
            Some(Family::Coscheduling)
        } else if text(["metadata", "annotations", volcano::GROUP_NAME]) == Some(group) {
            Some(Family::Volcano)
        } else if text(["metadata", "annotations", GANG_SCHEDULER]) == Some("native") {
            Some(Family::Native)
        } else {
            None
        };
        Some((family, group))
    })
}

/// The scheduler that templates with our marks name.
pub(super) fn marked_scheduler<'j>(kind: &dyn GangKind, job: &'j Value) -> Option<&'j str> {
    let ours = templates(kind, job)
        .into_iter()
        .find(|template| template.at(&["metadata", "labels", POD_GROUP]).is_present())?;
    ours.at(&["spec", "schedulerName"]).text().ok().flatten()
}

/// The native group that one of these templates names in its spec, if our marks name it too: no webhook and no policy writes
/// it there, so it is that of a copy.
#[must_use]
pub fn born_in<'j>(sets: &[PodSet<'j>]) -> Option<&'j str> {
    sets.iter().find_map(|PodSet { template, .. }| {
        let text = |keys: &[&str]| template.at(keys).text().ok().flatten();
        let group = text(&["spec", "schedulingGroup", "podGroupName"])?;
        let is_ours = text(&["metadata", "annotations", GANG_SCHEDULER]) == Some("native")
            && text(&["metadata", "labels", POD_GROUP]) == Some(group);
        is_ours.then_some(group)
    })
}

/// Edits that take our marks off the templates: the group and the name of its scheduler, which nobody can tell from one
/// that the user wrote; and apart from them our own label. A class stays: it is the policy's.
#[must_use]
pub fn unmarked(
    kind: &dyn GangKind,
    job: &Value,
    settings: &GangSettings,
) -> (Vec<PatchOperation>, Vec<PatchOperation>) {
    let Some((family, group)) = marked(kind, job) else {
        return (Vec::new(), Vec::new());
    };
    let (scheduler, keys): (Option<&str>, &[[&str; 3]]) = match family {
        None => (None, &[]),
        Some(Family::Coscheduling) => (
            Some(&settings.coscheduling_scheduler),
            &[["metadata", "labels", coscheduling::LABEL]],
        ),
        Some(Family::Volcano) => (
            Some(&settings.volcano_scheduler),
            &[
                ["metadata", "annotations", volcano::GROUP_NAME],
                ["metadata", "annotations", volcano::TASK_SPEC],
            ],
        ),
        Some(Family::Native) => (None, &[["metadata", "annotations", GANG_SCHEDULER]]),
    };
    let scheduler = scheduler.filter(|_| !kind.has_fixed_templates());
    let (mut marks, mut labels) = (Vec::new(), Vec::new());
    for template in templates(kind, job) {
        let label = template.at(&["metadata", "labels", POD_GROUP]);
        if label.text() != Ok(Some(group)) {
            continue;
        }
        let keys = keys.iter().map(|keys| template.at(keys));
        marks.extend(keys.filter(Field::is_present).map(|field| remove(field.path())));
        let name = template.at(&["spec", "schedulerName"]);
        if scheduler.is_some() && name.text() == Ok(scheduler) {
            marks.push(remove(name.path()));
        }
        labels.push(remove(label.path()));
    }
    (marks, labels)
}

fn templates<'j>(kind: &dyn GangKind, job: &'j Value) -> Vec<Field<'j>> {
    match kind.pod_sets(job) {
        Ok(Pods::Sets(sets)) => sets.into_iter().map(|PodSet { template, .. }| template).collect(),
        Ok(Pods::UnknownRole { .. }) | Err(_) => Vec::new(),
    }
}

impl Marks {
    /// With the label that names the PodGroup. With a native group also the annotation by which a policy in the API
    /// server puts pods into it: no template of a job keeps the field itself.
    #[must_use]
    pub fn with_pod_group(mut self, name: String) -> Self {
        for template in &mut self.templates {
            template.labels.push((POD_GROUP, name.clone()));
            if self.pods.is_some() {
                template.annotations.push((GANG_SCHEDULER, "native".to_owned()));
            }
        }
        self
    }

    /// The name of the group that pods carry: the PodGroup's, or with Kubernetes 1.35 the Workload's.
    #[must_use]
    pub fn group_name<'m>(&'m self, pod_group: &'m str) -> &'m str {
        match &self.pods {
            None => pod_group,
            Some(PodMark::SchedulingGroup { pod_group }) => pod_group,
            Some(PodMark::WorkloadRef { workload, .. }) => workload,
        }
    }

    /// Only what stands in the templates' spec.
    #[must_use]
    pub fn only_spec(mut self) -> Self {
        for template in &mut self.templates {
            template.labels.clear();
            template.annotations.clear();
        }
        self
    }

    /// Only what stands in the templates' metadata: what ties a pod to its group.
    #[must_use]
    pub fn only_metadata(mut self) -> Self {
        for template in &mut self.templates {
            template.scheduler_name = None;
            template.priority_class_name = None;
        }
        self
    }
}
