//! A suspended job: the group is made before a hold ends, and goes while its user does not let it run.

use std::time::Instant;

use super::groups::{Next, Wanted, group_name, group_steps, living, over, say, step, waiting};
use super::marking::Edits;
use super::{Plan, patches};
use crate::gang::{BackEnd, Marks, Notice, Reason};
use crate::names::POD_GROUP;
use crate::reconcile::gang::execute::Step;
use crate::reconcile::gang::observed::Observed;

pub(super) fn plan(observed: &Observed<'_>, wanted: &Wanted, marks: Marks, now: Instant) -> Plan {
    if observed.copy.is_some() {
        return copy(observed, wanted);
    }
    let edits = match (Edits::marking(observed, marks), observed.is_held()) {
        (Ok(edits), _) => edits,
        (Err(notice), true) => {
            return Plan {
                steps: vec![patches::release(observed, Vec::new())],
                ..say(notice)
            };
        }
        (Err(notice), false) => {
            return Plan {
                steps: over(observed),
                ..say(notice)
            };
        }
    };
    if observed.is_held() {
        return held(observed, wanted, || {
            let next = edits.before_the_last(observed, now);
            next.unwrap_or_else(|| patches::release(observed, edits.all.clone()))
        });
    }
    // By somebody else: what we made goes once its pods are gone, and the templates get their marks before he resumes the
    // job, for he does not wait for us.
    let mut steps = over(observed);
    if steps.is_empty() && living(observed) == 0 {
        let next = edits.before_the_last(observed, now);
        steps.extend(next.or_else(|| patches::templates(observed, edits.all)));
    }
    Plan {
        steps,
        ..Plan::default()
    }
}

/// A copy has had its marks since it was made.
fn copy(observed: &Observed<'_>, wanted: &Wanted) -> Plan {
    match observed.is_held() {
        true => held(observed, wanted, || patches::release(observed, Vec::new())),
        false => Plan {
            steps: over(observed),
            ..Plan::default()
        },
    }
}

/// The group is made, and then comes what ends the hold.
fn held(observed: &Observed<'_>, wanted: &Wanted, ending: impl FnOnce() -> Step) -> Plan {
    let next = group_steps(observed, wanted);
    let is_ready = match &next {
        Next::Plan(plan) => matches!(plan.steps.first(), Some(Step::Create { .. })),
        Next::Standing => true,
    };
    match (next, is_ready.then(|| old_pods(observed, wanted)).flatten()) {
        (_, Some(plan)) => plan,
        (Next::Plan(plan), None) => *plan,
        (Next::Standing, None) => step(ending()),
    }
}

/// Its scheduler counts the pods on nodes by the name of their group, those that end too. A held job has none yet, so these are
/// of an earlier start or job, and would stand in for pods of this one. A native group has a name of its own for each start.
fn old_pods(observed: &Observed<'_>, wanted: &Wanted) -> Option<Plan> {
    if matches!(wanted.back_end, BackEnd::Native(_)) || wanted.gang.pod_group.is_adopted {
        return None;
    }
    if !observed.knows_pods {
        return Some(Plan::default()); // their list tells
    }
    let name = group_name(wanted);
    let bound = observed.groups.bound(&observed.key.namespace, &name.into());
    let sentence = format!(
        "pods of an earlier start or job are still on nodes and would count for PodGroup {name}; if they stay, delete the pods with the label {POD_GROUP}={name}"
    );
    (bound > 0).then(|| waiting(Notice::new(Reason::WaitingForOldGroup, sentence)))
}
