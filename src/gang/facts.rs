//! What a job's gang depends on beside the job: classes and defaults of the cluster, and the configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::Value;

use super::Family;
use super::requests::{Resources, fill, resource_list};
use crate::workload::jobs::{Field, InvalidField};

/// What is known of the cluster that the job runs on. All of it may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterFacts {
    /// The PriorityClasses.
    pub priority_classes: PriorityClasses,
    /// `overhead.podFixed` by the name of the RuntimeClass.
    pub runtime_overheads: BTreeMap<String, Resources>,
    /// What the LimitRanges of the job's namespace give to containers; empty if they are not looked at.
    pub container_defaults: ContainerDefaults,
    /// The configuration.
    pub settings: GangSettings,
}

/// Values by name; the two of the system are always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriorityClasses {
    /// Of every class.
    pub values: BTreeMap<String, i32>,
    /// The value of the class with `globalDefault`, which pods without a class get.
    pub global_default: Option<i32>,
}

impl<'c> FromIterator<&'c PriorityClass> for PriorityClasses {
    fn from_iter<I: IntoIterator<Item = &'c PriorityClass>>(classes: I) -> Self {
        let mut all = Self::default();
        for class in classes {
            let value = class.value.unwrap_or(0);
            if class.global_default == Some(true) {
                all.global_default.get_or_insert(value);
            }
            all.values
                .insert(class.metadata.name.clone().unwrap_or_default(), value);
        }
        all
    }
}

impl PriorityClasses {
    /// The value of pods with this class, or with none; an unknown class has none.
    #[must_use]
    pub fn value(&self, class: Option<&str>) -> Option<i32> {
        match class {
            None => Some(self.global_default.unwrap_or(0)),
            Some("system-cluster-critical") => Some(2_000_000_000),
            Some("system-node-critical") => Some(2_000_001_000),
            Some(class) => self.values.get(class).copied(),
        }
    }

    /// Whether there is a class of this name, or none is known at all: every cluster has those of the system.
    #[must_use]
    pub fn may_exist(&self, class: &str) -> bool {
        self.values.is_empty() || self.value(Some(class)).is_some()
    }
}

/// What a container gets that does not say it itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerDefaults {
    /// Requests.
    pub requests: Resources,
    /// Limits.
    pub limits: Resources,
}

impl ContainerDefaults {
    /// What these LimitRanges of one namespace give together; where two differ, the first counts.
    ///
    /// A LimitRange is read as the API server stores it: the default limit is `max` unless given, the default request
    /// is that limit, or `min` (`SetDefaults_LimitRangeItem` of Kubernetes).
    ///
    /// # Errors
    /// If an amount is none.
    pub fn of<'v>(limit_ranges: impl IntoIterator<Item = &'v Value>) -> Result<Self, InvalidField> {
        let mut all = Self::default();
        for limit_range in limit_ranges {
            for item in Field::root(limit_range).at(&["spec", "limits"]).items()? {
                if item.get("type").text()? != Some("Container") {
                    continue;
                }
                let mut limits = resource_list(&item.get("default"))?;
                fill(&mut limits, &resource_list(&item.get("max"))?);
                let mut requests = resource_list(&item.get("defaultRequest"))?;
                fill(&mut requests, &limits);
                fill(&mut requests, &resource_list(&item.get("min"))?);
                fill(&mut all.limits, &limits);
                fill(&mut all.requests, &requests);
            }
        }
        Ok(all)
    }
}

/// `overhead.podFixed` of a RuntimeClass.
///
/// # Errors
/// If an amount is none.
pub fn runtime_overhead(runtime_class: &Value) -> Result<Resources, InvalidField> {
    resource_list(&Field::root(runtime_class).at(&["overhead", "podFixed"]))
}

/// How gangs are made: fields of the configuration file, each with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangSettings {
    /// Every Kubeflow job is a gang, with a schedulingPolicy or without, as with the operators' own flags. Default: no.
    pub gang_all: bool,
    /// A policy's priorityClass is written to templates without one. Default: yes.
    pub propagate_priority: bool,
    /// A job that names an unknown PriorityClass is refused rather than warned about. Default: no.
    pub strict_priority_class: bool,
    /// What is enough of an elastic job. Default: [`ElasticMin::Policy`].
    pub elastic_min: ElasticMin,
    /// A launcher that comes after the workers counts once it exists. Default: no.
    pub raise_for_launcher: bool,
    /// Volcano's minResources get the keys that resource quotas compare. Default: yes.
    pub volcano_quota_keys: bool,
    /// Volcano's groups of a part of a job say how many pods of each role. Default: no.
    pub volcano_task_minimums: bool,
    /// Volcano's queue of jobs that name none. Default: none, so that Volcano chooses.
    pub volcano_default_queue: Option<String>,
    /// What a PodGroup is called. Default: [`NameStyle::Job`].
    pub name_style: NameStyle,
    /// `spec.schedulerName` of pods for coscheduling: the profile with the plugin. Default: `scheduler-plugins-scheduler`.
    pub coscheduling_scheduler: String,
    /// `spec.schedulerName` of pods for Volcano. Default: `volcano`.
    pub volcano_scheduler: String,
    /// PodGroups keep a job that is deleted in the foreground until they are gone; needs the right to update the
    /// job's `finalizers` where OwnerReferencesPermissionEnforcement is on. Default: yes.
    pub block_owner_deletion: bool,
}

impl GangSettings {
    /// The scheduler that pods of a gang name; none: they keep theirs.
    #[must_use]
    pub fn scheduler(&self, family: Family) -> Option<&str> {
        match family {
            Family::Coscheduling => Some(&self.coscheduling_scheduler),
            Family::Volcano => Some(&self.volcano_scheduler),
            Family::Native => None,
        }
    }
}

impl Default for GangSettings {
    fn default() -> Self {
        Self {
            gang_all: false,
            propagate_priority: true,
            strict_priority_class: false,
            elastic_min: ElasticMin::default(),
            raise_for_launcher: false,
            volcano_quota_keys: true,
            volcano_task_minimums: false,
            volcano_default_queue: None,
            name_style: NameStyle::default(),
            coscheduling_scheduler: "scheduler-plugins-scheduler".to_owned(),
            volcano_scheduler: "volcano".to_owned(),
            block_owner_deletion: true,
        }
    }
}

/// What is enough of a job with an `elasticPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ElasticMin {
    /// The other roles and `minReplicas` workers.
    #[default]
    Policy,
    /// All pods, as the training operator has it.
    Upstream,
}

/// What a PodGroup is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// As the job.
    #[default]
    Job,
    /// As the job and its kind: two kinds may have a job of one name.
    Kind,
}
