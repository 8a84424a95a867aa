//! A pod template -> what one pod of it requests, by the formula of Kubernetes.
//!
//! The rules are those of `PodRequests` and `PodLimits` in k8s.io/component-helpers (KEP-753 for sidecars, KEP-2837
//! for pod-level resources), after the API server's own defaults: a request that is left out is the limit of that key.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use super::facts::{ClusterFacts, ContainerDefaults};
use crate::quantity::Quantity;
use crate::workload::jobs::{Field, InvalidField};

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// What one pod needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodNeeds {
    /// What the scheduler reserves.
    pub requests: Resources,
    /// What the pod may use at most, as quotas count it.
    pub limits: Resources,
    /// It claims devices, which have no amount.
    pub has_claims: bool,
}

/// What one pod of this template needs on a cluster with these facts.
///
/// # Errors
/// If an amount is none, or is negative.
pub fn pod_needs(template: &Field<'_>, facts: &ClusterFacts) -> Result<PodNeeds, InvalidField> {
    let spec = template.get("spec");
    spec.object()?;
    let containers = containers(&spec)?;
    let mut requests = aggregate(&containers, |container| {
        container.requests(&facts.container_defaults)
    });
    let mut limits = aggregate(&containers, |container| {
        container.limits(&facts.container_defaults)
    });
    let pod_level = pod_level(&spec, &containers, &requests, &limits)?;
    requests.extend(pod_level.requests);
    limits.extend(pod_level.limits);
    let overhead = overhead(&spec, facts)?;
    add(&mut requests, &overhead);
    for (key, amount) in overhead {
        if let Some(limit) = limits.get_mut(&key).filter(|limit| !limit.is_zero()) {
            *limit = limit.plus(amount);
        }
    }
    Ok(PodNeeds {
        requests,
        limits,
        has_claims: !spec.get("resourceClaims").items()?.is_empty(),
    })
}

/// The amounts of a map, as in `resources.requests`.
///
/// # Errors
/// If an amount is none, or is negative.
pub fn resource_list(field: &Field<'_>) -> Result<Resources, InvalidField> {
    let mut resources = Resources::new();
    for key in field.object()?.into_iter().flatten().map(|(key, _)| key) {
        let amount = field.get(key);
        if let Some(text) = amount_text(&amount)? {
            let read: Quantity = text.parse().map_err(|error| amount.invalid(format!("{error}")))?;
            if read.is_negative() {
                return Err(
                    amount.invalid(format!("found {text:?}, expected an amount that is not negative"))
                );
            }
            resources.insert(key.clone(), read);
        }
    }
    Ok(resources)
}

/// An amount as it was written: text, or a number.
pub(super) fn amount_text(amount: &Field<'_>) -> Result<Option<String>, InvalidField> {
    match amount.value() {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Err(amount.invalid("expected an amount such as 500m, 1.5Gi or 1e3"))
        }
    }
}

/// Adds to each resource; those that are missing are there then.
pub fn add(sum: &mut Resources, more: &Resources) {
    for (key, amount) in more {
        match sum.get_mut(key) {
            Some(there) => *there = there.plus(*amount),
            None => {
                sum.insert(key.clone(), *amount);
            }
        }
    }
}

/// Gives the resources that are missing.
pub(super) fn fill(resources: &mut Resources, defaults: &Resources) {
    for (key, amount) in defaults {
        if let Entry::Vacant(missing) = resources.entry(key.clone()) {
            missing.insert(*amount);
        }
    }
}

/// The larger of the two, for each resource.
fn maximum(largest: &mut Resources, other: &Resources) {
    for (key, amount) in other {
        match largest.get_mut(key) {
            Some(there) => *there = larger(*there, *amount),
            None => {
                largest.insert(key.clone(), *amount);
            }
        }
    }
}

/// The larger amount, the first of equals: they may differ in format.
fn larger(one: Quantity, other: Quantity) -> Quantity {
    if other > one { other } else { one }
}

/// What matters of a container.
struct Container {
    requests: Resources,
    limits: Resources,
    runs: Runs,
}

/// When a container runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// With all others.
    Always,
    /// From its turn among the init containers on.
    AsSidecar,
    /// Before the others, alone but for sidecars that started already.
    First,
}

impl Container {
    fn requests(&self, defaults: &ContainerDefaults) -> Resources {
        let mut requests = self.requests.clone();
        fill(&mut requests, &self.limits);
        fill(&mut requests, &defaults.requests);
        requests
    }

    fn limits(&self, defaults: &ContainerDefaults) -> Resources {
        let mut limits = self.limits.clone();
        fill(&mut limits, &defaults.limits);
        limits
    }
}

/// The containers, then the init containers in their order: of a sum of amounts in different formats, the first one's
/// is kept.
fn containers(spec: &Field<'_>) -> Result<Vec<Container>, InvalidField> {
    let mut containers = Vec::new();
    for (list, is_init) in [("containers", false), ("initContainers", true)] {
        for container in spec.get(list).items()? {
            let resources = container.get("resources");
            let is_sidecar = is_init && container.get("restartPolicy").text()? == Some("Always");
            containers.push(Container {
                requests: resource_list(&resources.get("requests"))?,
                limits: resource_list(&resources.get("limits"))?,
                runs: match (is_init, is_sidecar) {
                    (false, _) => Runs::Always,
                    (true, true) => Runs::AsSidecar,
                    (true, false) => Runs::First,
                },
            });
        }
    }
    Ok(containers)
}

/// The most that all containers take together at any time.
fn aggregate(containers: &[Container], amounts: impl Fn(&Container) -> Resources) -> Resources {
    let mut running = Resources::new();
    let mut sidecars = Resources::new();
    let mut peak = Resources::new();
    for container in containers {
        let own = amounts(container);
        match container.runs {
            Runs::Always => add(&mut running, &own),
            Runs::AsSidecar => {
                add(&mut running, &own);
                add(&mut sidecars, &own);
                maximum(&mut peak, &sidecars);
            }
            Runs::First => {
                let mut beside = own;
                add(&mut beside, &sidecars);
                maximum(&mut peak, &beside);
            }
        }
    }
    maximum(&mut running, &peak);
    running
}

/// Amounts for the pod as a whole, which replace those of its containers.
struct PodLevel {
    requests: Resources,
    limits: Resources,
}

/// `spec.resources` with the API server's defaults (`DefaultPodLevelResources` of Kubernetes 1.37): a limit of hugepages
/// is the containers'; a request of cpu or memory is the containers', any other the limit; a limit is that of the
/// containers, if all have one, but at least the request.
fn pod_level(
    spec: &Field<'_>,
    containers: &[Container],
    requested: &Resources,
    limited: &Resources,
) -> Result<PodLevel, InvalidField> {
    let resources = spec.get("resources");
    resources.object()?;
    let mut requests = resource_list(&resources.get("requests"))?;
    let mut limits = resource_list(&resources.get("limits"))?;
    if requests.is_empty() && limits.is_empty() {
        return Ok(PodLevel { requests, limits });
    }
    let only = |resources: &Resources, wanted: &dyn Fn(&str) -> bool| -> Resources {
        let wanted = resources.iter().filter(|(key, _)| wanted(key));
        wanted.map(|(key, amount)| (key.clone(), *amount)).collect()
    };
    let pages = only(limited, &|key| is_hugepages(key) && !requests.contains_key(key));
    fill(&mut limits, &pages);
    fill(
        &mut requests,
        &only(requested, &|key| matches!(key, "cpu" | "memory")),
    );
    fill(&mut requests, &limits);
    let of_all = |key: &str| {
        containers
            .iter()
            .all(|container| container.limits.contains_key(key))
    };
    let mut raised = only(limited, &|key| requests.contains_key(key) && of_all(key));
    for (key, limit) in &mut raised {
        *limit = larger(*limit, requests[key]);
    }
    fill(&mut limits, &raised);
    Ok(PodLevel {
        requests: only(&requests, &is_pod_level),
        limits: only(&limits, &is_pod_level),
    })
}

fn is_pod_level(key: &str) -> bool {
    matches!(key, "cpu" | "memory") || is_hugepages(key)
}

fn is_hugepages(key: &str) -> bool {
    key.starts_with("hugepages-")
}

/// The template's own, or that of its RuntimeClass.
fn overhead(spec: &Field<'_>, facts: &ClusterFacts) -> Result<Resources, InvalidField> {
    let own = spec.get("overhead");
    if own.is_present() {
        return resource_list(&own);
    }
    let class = spec.get("runtimeClassName").text()?;
    Ok(class
        .and_then(|class| facts.runtime_overheads.get(class))
        .cloned()
        .unwrap_or_default())
}
