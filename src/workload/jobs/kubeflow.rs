//! What the jobs of Kubeflow share: replicas by role, `runPolicy`, and conditions.

use serde_json::{Map, Value};

use super::conditions::{self, Said};
use super::{
    Dispatch, Failure, Field, InvalidField, ManagedBy, PodLabels, PodSet, Pods, Presence, Written, dispatch,
    has_condition,
};

/// Where every one of them keeps its policy.
pub(super) const SCHEDULING_POLICY: &[&str] = &["spec", "runPolicy", "schedulingPolicy"];
/// Where every one of them is suspended.
pub(super) const SUSPEND: &[&str] = &["spec", "runPolicy", "suspend"];
/// Who runs the jobs of the training operator (its API's `KubeflowJobsController`).
pub(super) const TRAINING_OPERATOR: ManagedBy = ManagedBy {
    path: &["spec", "runPolicy", "managedBy"],
    local: "kubeflow.org/training-operator",
};

/// How they are dispatched. Their webhook takes Kueue's value and refuses ours; it does not notice a changed one.
pub(super) const DISPATCH: Dispatch = Dispatch {
    written: Written::Kueues,
    takes_condition: true,
    ttl: Some(&["spec", "runPolicy", "ttlSecondsAfterFinished"]),
};

/// Their pods carry the name of the job and that of the controller which runs the kind.
pub(super) const fn pod_labels(controller: &'static str) -> PodLabels {
    PodLabels::Name(
        "training.kubeflow.org/job-name",
        Some(("training.kubeflow.org/operator-name", controller)),
    )
}

/// A role of a kind, and how many pods it has if `replicas` is left out.
pub(super) type Role = (&'static str, u32);

/// The pods of `spec.<map>`, in the order of `roles`. Role keys are matched without regard to case, as the training
/// operator does.
pub(super) fn replicas<'j>(
    job: &'j Value,
    map: &'static str,
    roles: &[Role],
) -> Result<Pods<'j>, InvalidField> {
    let mut sets: Vec<Option<PodSet<'j>>> = roles.iter().map(|_| None).collect();
    for (key, spec) in Field::root(job).get("spec").get(map).members()? {
        let place = roles.iter().position(|(role, _)| role.eq_ignore_ascii_case(key));
        let Some(((role, by_default), place)) = place.map(|place| (roles[place], place)) else {
            return Ok(Pods::UnknownRole {
                path: spec.path().clone(),
                roles: roles.iter().map(|(role, _)| *role).collect(),
            });
        };
        if sets[place].is_some() {
            return Err(spec.invalid(format!(
                "the role {role} is there twice, in two spellings; keep one"
            )));
        }
        spec.object()?;
        sets[place] = Some(PodSet {
            role: role.to_owned(),
            count: spec
                .get("replicas")
                .count()?
                .unwrap_or(if spec.is_present() { by_default } else { 0 }),
            presence: Presence::Together,
            at_least: None,
            template: spec.get("template"),
        });
    }
    Ok(Pods::Sets(sets.into_iter().flatten().collect()))
}

/// As [`replicas`], where workers may be fewer than named by `spec.elasticPolicy.minReplicas`, which counts workers.
pub(super) fn elastic<'j>(
    job: &'j Value,
    map: &'static str,
    roles: &[Role],
) -> Result<Pods<'j>, InvalidField> {
    let at_least = Field::root(job)
        .at(&["spec", "elasticPolicy", "minReplicas"])
        .count()?;
    let mut pods = replicas(job, map, roles)?;
    if let Pods::Sets(sets) = &mut pods {
        for set in sets.iter_mut().filter(|set| set.role == "Worker") {
            set.at_least = at_least.map(|at_least| at_least.min(set.count));
        }
    }
    Ok(pods)
}

/// It succeeded or failed.
pub(super) fn is_finished(job: &Value) -> bool {
    has_condition(job, &["Succeeded", "Failed"])
}

/// It failed, now; a time of completion makes it final in both operators.
pub(super) fn fail(status: &mut Map<String, Value>, failure: &Failure<'_>) {
    if status.get("completionTime").is_none_or(Value::is_null) {
        status.insert("completionTime".to_owned(), failure.now.into());
    }
    let roles = status.get_mut("replicaStatuses").and_then(Value::as_object_mut);
    for role in roles.into_iter().flat_map(Map::values_mut) {
        dispatch::none_of(role, &["active"]);
    }
    let conditions = conditions::list(status, "conditions");
    if conditions::find(conditions, "Running").is_some() {
        conditions::set(conditions, &Said::of("Running", false, failure), failure.now);
    }
    conditions::set(conditions, &Said::of("Failed", true, failure), failure.now);
}
