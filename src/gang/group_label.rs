//! The label by which Portcullis itself finds the pods of a group, whatever the gang scheduler; and parts of marks.

use serde_json::Value;

use super::marks::{Marks, PodMark};
use super::{Family, coscheduling, volcano};
use crate::names::{GANG_SCHEDULER, POD_GROUP};
use crate::workload::jobs::{Field, JobKind, PodSet, Pods};

/// The gang scheduler for which our marks tie the pods of a job to a group, and the group's name; none if the templates
/// have no marks of ours.
#[must_use]
pub fn marked<'j>(kind: &dyn JobKind, job: &'j Value) -> Option<(Family, &'j str)> {
    templates(kind, job).iter().find_map(|template| {
        let text = |keys: [&str; 3]| template.at(&keys).text().ok().flatten();
        let group = text(["metadata", "labels", POD_GROUP])?;
        let family = if text(["metadata", "labels", coscheduling::LABEL]) == Some(group) {
            Family::Coscheduling
        } else if text(["metadata", "annotations", volcano::GROUP_NAME]) == Some(group) {
            Family::Volcano
        } else if text(["metadata", "annotations", GANG_SCHEDULER]) == Some("native") {
            Family::Native
        } else {
            return None;
        };
        Some((family, group))
    })
}

fn templates<'j>(kind: &dyn JobKind, job: &'j Value) -> Vec<Field<'j>> {
    match kind.pod_sets(job) {
        Ok(Pods::Sets(sets)) => sets.into_iter().map(|PodSet { template, .. }| template).collect(),
        Ok(Pods::UnknownRole(_)) | Err(_) => Vec::new(),
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
