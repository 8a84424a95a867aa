//! The gang of a whole job, between its commit and its opening (decision 0064).

use std::time::Duration;

use super::super::local::{LocalObject, Subject};
use super::super::manner;
use super::super::observed::{GangSeen, GangsThere, Now, Observed, WorkerSeen};
use super::{Plan, say, tell, waiting};
use crate::gang::Reason;

/// Whoever makes the group tells; this is for what was missed.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// As long as it is not known what a copy is born with, nobody knows whether the one that is there is still what it would be.
pub(super) fn before_copy(observed: &Observed, worker: &WorkerSeen) -> Option<Plan> {
    let is_unknown = observed.asks_for_gang && matches!(worker.gangs, GangsThere::NotKnown);
    is_unknown.then(|| Plan::wait(Duration::from_secs(1)))
}

/// What comes before the copy is opened; none if nothing does.
pub(super) fn before_open(
    observed: &Observed,
    local: &LocalObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Option<Plan> {
    match &worker.gang {
        GangSeen::Stands => None,
        GangSeen::NotAsked => without(observed, local, worker),
        GangSeen::Awaited(words) => {
            let said = words.as_ref().and_then(|words| {
                let message = format!("{}: {words}", worker.name);
                say(
                    observed,
                    local,
                    &waiting(Reason::WaitingForPodGroup.name(), message),
                    now,
                )
            });
            Some(Plan {
                steps: said.into_iter().collect(),
                look_again: Some(LOOK_AGAIN),
                ..Plan::default()
            })
        }
    }
}

/// A job that asks for a gang runs without one: why is told once.
fn without(observed: &Observed, local: &LocalObject, worker: &WorkerSeen) -> Option<Plan> {
    let Subject::Job(kind) = local.key.subject else {
        return None;
    };
    if !observed.asks_for_gang {
        return None;
    }
    let (reason, sentence) = match &worker.gangs {
        GangsThere::None => (
            Reason::GangUnsupported,
            "its WorkerCluster names no gang scheduler, so the job runs there without a PodGroup; set spec.gang of the WorkerCluster"
                .to_owned(),
        ),
        GangsThere::NotKnown | GangsThere::NotServed => return None,
        GangsThere::Made(maker) => {
            let notice = manner::alone(kind, local, maker).filter(|notice| notice.reason.is_warning())?;
            (notice.reason, notice.sentence)
        }
    };
    let said = waiting(reason.name(), format!("{}: {sentence}", worker.name));
    tell(observed, local, &said).map(Plan::step)
}
