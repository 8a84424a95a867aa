//! What is seen of a job -> the next writes (pure): the PodGroup is made before the hold ends, follows the job, and goes
//! when its time is over. At rest the plan is empty.

pub(super) mod compare;
mod groups;
mod marking;
mod natives;
mod patches;
mod suspended;

use std::time::{Duration, Instant};

use super::execute::{Step, Why};
use super::observed::Observed;
use super::scope::Stage;
use crate::gang::hold;
use crate::gang::{self, Choice, Decision, Moment, Notice, Reason, Subject, choose, marked};
use crate::workload::jobs::InvalidField;

/// What to do now, what to say, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order; a failure ends the turn.
    pub steps: Vec<Step>,
    /// Remarks on the job.
    pub notices: Vec<Notice>,
    /// Look again after this time even if nothing changes.
    pub look_again: Option<Duration>,
    /// Something else stands in the way that ends by itself or by a person: a hold goes on whatever its age.
    pub keeps_hold: bool,
    /// A copy that is held needs to wait no longer: whoever committed it opens it.
    pub may_open: bool,
}

/// Plans one job.
pub fn plan(observed: &Observed<'_>, now: Instant) -> Plan {
    match observed.copy {
        None => of_job(observed, now),
        Some(Stage::Uncommitted) => Plan::default(), // it may be given up
        Some(Stage::Committed | Stage::Opened) => of_copy(observed, now),
    }
}

/// A copy is opened by its pair, and has had its marks since it was made; all else is as with any job.
fn of_copy(observed: &Observed<'_>, now: Instant) -> Plan {
    let mut plan = of_job(observed, now);
    plan.may_open = plan.steps.iter().any(|step| {
        matches!(
            step,
            Step::PatchJob {
                why: Why::Release,
                ..
            }
        )
    });
    plan.steps.retain(|step| match step {
        Step::PatchJob { why, .. } => *why == Why::StandDown,
        Step::Launcher { .. } => false,
        Step::Create { .. } | Step::Update { .. } | Step::Look { .. } | Step::Delete { .. } => true,
    });
    for notice in &mut plan.notices {
        if notice.reason == Reason::OperatorManagesPodGroup {
            notice.sentence.push_str(", on the copy there");
        }
    }
    if !observed.kind.can_be_held(observed.object()) && observed.is_held() {
        plan.notices.push(Notice::new(
            Reason::LauncherStartsEarly,
            "the copy is made suspended, so its operator makes the launcher at once, which starts with the workers and does not wait for them; leave launcherCreationPolicy out",
        ));
    }
    plan
}

fn of_job(observed: &Observed<'_>, now: Instant) -> Plan {
    let mut plan = match wanted(observed) {
        Wanted::Leave => Plan::default(),
        Wanted::Alone(notice) => alone(observed, notice, now),
        Wanted::Another => marking::unmark(observed, false, now),
        Wanted::Wait(notice) => Plan {
            notices: vec![notice],
            ..Plan::default()
        },
        Wanted::Gang(wanted) => groups::plan(observed, &wanted, now),
    };
    let is_going = observed.job.terminating();
    if plan.steps.is_empty() && !is_going && !observed.is_suspended() && hold::is_claimed(observed.object()) {
        plan.steps.push(patches::drop_claim(observed));
    }
    match left_of_hold(observed, now) {
        Some(Duration::ZERO) if !plan.keeps_hold && leads_nowhere(observed, &plan) => {
            plan.steps = vec![patches::release(observed, Vec::new())];
            plan.notices.push(Notice::new(
                Reason::HoldTimedOut,
                "the PodGroup could not be made in time, and the job starts without waiting for it; see the earlier events of this job",
            ));
        }
        Some(left) if !plan.keeps_hold && left > Duration::ZERO => {
            plan.look_again = Some(plan.look_again.map_or(left, |delay| delay.min(left)));
        }
        Some(_) | None => {}
    }
    plan
}

/// Nothing is to be done that could end the hold, or it was tried and failed.
fn leads_nowhere(observed: &Observed<'_>, plan: &Plan) -> bool {
    match plan.steps.first() {
        None => true,
        Some(_) => observed.memory.refused.is_some(),
    }
}

/// What the job should have.
enum Wanted {
    /// Not our business.
    Leave,
    /// No PodGroup of ours; a hold ends.
    Alone(Option<Notice>),
    /// A PodGroup, but for another gang scheduler than that of its marks, which go first.
    Another,
    /// It cannot be said yet; a hold goes on until its timeout.
    Wait(Notice),
    /// A PodGroup.
    Gang(Box<groups::Wanted>),
}

fn wanted(observed: &Observed<'_>) -> Wanted {
    let Some(label) = &observed.label else {
        return Wanted::Alone(None);
    };
    let invalid =
        |error: InvalidField| Wanted::Alone(Some(Notice::new(Reason::InvalidJob, error.to_string())));
    let settings = &observed.facts.settings;
    let marked = marked(observed.kind, observed.object()).and_then(|(family, _)| family);
    let can_change = marking::can_be_unmarked(observed);
    // What runs stays with the gang scheduler that started it.
    let label = match marked {
        Some(family) if !can_change => family.to_string(),
        Some(_) | None => label.to_string(),
    };
    let choice = match choose(
        observed.kind,
        observed.object(),
        &label,
        observed.served,
        settings,
    ) {
        Ok(choice) => choice,
        Err(error) => return invalid(error),
    };
    let back_end = match choice {
        Choice::Use(back_end) => back_end,
        // The policy in the API server holds a job of the namespace whoever is to run it.
        Choice::Alone(notice) if notice.reason == Reason::ManagedElsewhere && observed.is_held() => {
            return Wanted::Alone(None);
        }
        Choice::Alone(notice) => return no_gang(notice),
        Choice::NotServed(family) => {
            let sentence = format!(
                "{family} is asked for, but this cluster does not serve its PodGroups, or pods cannot be in them; install or switch it on"
            );
            return Wanted::Wait(Notice::new(Reason::GangSchedulerNotServed, sentence));
        }
    };
    if can_change && marked != Some(back_end.family()) {
        return Wanted::Another;
    }
    let subject = Subject {
        kind: observed.kind,
        job: observed.object(),
        back_end,
        moment: Moment::Stored,
        seed: "",
        late_pods_exist: false,
    };
    match gang::gang(&subject, &observed.facts) {
        Err(error) => invalid(error),
        Ok(Decision::Alone(notice)) => no_gang(notice),
        Ok(Decision::Gang(_)) if observed.dispatched => Wanted::Alone(Some(Notice::new(
            Reason::GangUnsupported,
            "pods of this namespace run on worker clusters, where a PodGroup of this cluster holds nothing; they start one by one",
        ))),
        Ok(Decision::Gang(mut gang)) => {
            natives::keep_name(observed, back_end, &mut gang.pod_group);
            let attempt = natives::attempt(observed, back_end, &gang.pod_group);
            Wanted::Gang(Box::new(groups::Wanted {
                back_end,
                attempt,
                gang: gang.of_attempt(back_end, attempt),
            }))
        }
    }
}

fn no_gang(notice: Notice) -> Wanted {
    match notice.reason {
        Reason::Deleting | Reason::ManagedElsewhere => Wanted::Leave,
        Reason::Finished | Reason::NotOptedIn | Reason::PartOfAnotherJob => Wanted::Alone(None),
        _ => Wanted::Alone(Some(notice)),
    }
}

/// No PodGroup: a hold ends, and what we made goes when nothing needs it any more. If no gang is asked for, that is the
/// marks too: pods would wait for a group that nobody makes.
fn alone(observed: &Observed<'_>, notice: Option<Notice>, now: Instant) -> Plan {
    let reason = notice.as_ref().map(|notice| notice.reason);
    let steps = match (observed.is_held(), reason) {
        (held, None | Some(Reason::GangUnsupported)) if marking::can_be_unmarked(observed) => {
            marking::unmark(observed, held, now).steps
        }
        (true, _) => vec![patches::release(observed, Vec::new())],
        (false, Some(Reason::NoPods)) => groups::of_no_pods(observed),
        (false, Some(Reason::OperatorManagesPodGroup)) => Vec::new(), // nor is it taken from whoever manages it
        (false, _) => groups::over(observed),
    };
    Plan {
        steps,
        notices: notice.into_iter().collect(),
        ..Plan::default()
    }
}

/// How long the hold may still last; none if it is not held.
fn left_of_hold(observed: &Observed<'_>, now: Instant) -> Option<Duration> {
    if !observed.is_held() {
        return None;
    }
    let since = observed.memory.held_since.unwrap_or(now);
    Some(
        observed
            .hold_timeout
            .saturating_sub(now.saturating_duration_since(since)),
    )
}

fn patch(observed: &Observed<'_>, why: Why, operations: Vec<json_patch::PatchOperation>) -> Step {
    Step::PatchJob {
        key: observed.key.clone(),
        seen: Box::new((
            observed.job.uid.to_string(),
            observed.job.resource_version.to_string(),
        )),
        why,
        operations: json_patch::Patch(operations),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_holds;
