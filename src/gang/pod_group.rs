//! A gang as no scheduler in particular spells it, and what the objects of all of them share.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::facts::GangSettings;
use super::requests::{Resources, add, fill};
use crate::names;

/// A group of pods that start together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroup {
    /// The job that it is for.
    pub job: JobRef,
    /// Its name with coscheduling and Volcano; native names are [`super::native::Names`].
    pub name: String,
    /// The native group that the templates themselves name, if they do: those of a copy, which was born with it.
    pub born_in: Option<String>,
    /// It is somebody else's and only its name is used: nothing of it is written.
    pub is_adopted: bool,
    /// How many pods must be there at once, from 1 on.
    pub min_member: u32,
    /// How many pods the job has.
    pub total: u32,
    /// What the first pods need.
    pub min_resources: MinResources,
    /// The PriorityClass.
    pub priority_class: Option<String>,
    /// The queue that the job's policy names.
    pub queue: Option<String>,
    /// Seconds that pods may wait for each other.
    pub timeout_seconds: Option<u32>,
    /// The roles, in canonical order.
    pub roles: Vec<Role>,
    /// The job's own annotations.
    pub job_annotations: BTreeMap<String, String>,
}

/// A role of the gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// As in `volcano.sh/task-spec`: in lower case.
    pub name: String,
    /// Its pods.
    pub count: u32,
    /// Whether it is a worker, of which some may be missing in a part of the job.
    pub is_worker: bool,
    /// Whether it counts to `minMember`.
    pub counts: bool,
}

/// The job of a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// As in manifests.
    pub api_version: String,
    /// As in manifests.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; empty at admission, when it has none.
    pub uid: String,
}

/// Resources of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinResources {
    /// As the user wrote them.
    Given(BTreeMap<String, String>),
    /// What the first pods request.
    Computed {
        /// Requests.
        requests: Resources,
        /// Limits, for quotas.
        limits: Resources,
        /// How many pods these are.
        pods: u32,
    },
}

impl MinResources {
    /// As in `spec.minResources`: amounts in canonical form, or as they were written.
    #[must_use]
    pub fn plain(&self) -> BTreeMap<String, String> {
        match self {
            Self::Given(given) => given.clone(),
            Self::Computed { requests, .. } => printed(requests),
        }
    }

    /// As [`Self::plain`], and what Volcano's plugin `resourcequota` compares with quotas, key by key: `requests.cpu`
    /// and the like, `limits.cpu` and the like, `pods` and `count/pods` (volcano-sh/volcano#1387). What users wrote
    /// stays as it is.
    #[must_use]
    pub fn with_quota_keys(&self) -> BTreeMap<String, String> {
        match self {
            Self::Given(given) => given.clone(),
            Self::Computed {
                requests,
                limits,
                pods,
            } => {
                let prefixed = |prefix: &str, resources: &Resources| -> Resources {
                    resources
                        .iter()
                        .map(|(key, amount)| (format!("{prefix}.{key}"), *amount))
                        .collect()
                };
                let count = crate::quantity::Quantity::whole(u64::from(*pods));
                let mut all = requests.clone();
                add(&mut all, &prefixed("requests", requests));
                let mut limits = limits.clone();
                limits.retain(|key, _| matches!(key.as_str(), "cpu" | "memory" | "ephemeral-storage"));
                add(&mut all, &prefixed("limits", &limits));
                fill(
                    &mut all,
                    &Resources::from([("pods".to_owned(), count), ("count/pods".to_owned(), count)]),
                );
                printed(&all)
            }
        }
    }
}

fn printed(resources: &Resources) -> BTreeMap<String, String> {
    resources
        .iter()
        .map(|(key, amount)| (key.clone(), amount.to_string()))
        .collect()
}

/// Metadata of an object of ours: names the job in a label, and as its controller.
pub(super) fn metadata(group: &PodGroup, name: &str, settings: &GangSettings) -> Map<String, Value> {
    let JobRef {
        api_version,
        kind,
        namespace,
        name: job,
        uid,
    } = &group.job;
    let owner = json!({
        "apiVersion": api_version, "kind": kind, "name": job, "uid": uid,
        "controller": true, "blockOwnerDeletion": settings.block_owner_deletion,
    });
    let labels = json!({names::MANAGED_BY_LABEL: names::PORTCULLIS, names::JOB_UID: uid});
    let fields = [
        ("name", json!(name)),
        ("namespace", json!(namespace)),
        ("labels", labels),
        ("ownerReferences", json!([owner])),
    ];
    fields
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}
