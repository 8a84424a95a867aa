//! A committed object that has ended: how long its copy and itself are kept (rules 13 and 13b).

use std::time::Duration;

use super::super::local::{LocalObject, Phase, RemoteObject};
use super::super::manner;
use super::super::observed::{Now, Observed, PolicySeen, WorkerSeen};
use super::{Plan, local_target, target};
use crate::reconcile::step::{ENDED_HERE, Step};

/// An ended job whose time is over goes; its copy goes with it.
pub(super) fn expiry(local: &LocalObject, now: &Now) -> Option<Plan> {
    let left = manner::due_at(local)? - now.epoch_seconds;
    Some(match u64::try_from(left) {
        Ok(left) if left > 0 => Plan::wait(Duration::from_secs(left)),
        Ok(_) | Err(_) => Plan::step(Step::Expire {
            local: local_target(local),
        }),
    })
}

/// A finished pod keeps its copy (logs!), at most `keepFinished`.
pub(super) fn finished(
    observed: &Observed,
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    if remote.phase != Phase::Terminal && !remote.terminating {
        // Somebody ended it here, or we did as its copy was rolled back. Whoever reads its phase must not find it running
        // elsewhere; its end may be news that this view does not have yet, hence the version.
        return Plan::step(Step::Delete {
            remote: target(worker, remote),
            why: match manner::is_failed_by_us(local) {
                true => "its local pod has failed",
                false => ENDED_HERE,
            },
            unchanged: Some(remote.resource_version.clone()),
        });
    }
    let PolicySeen::Policy(rules) = &observed.policy else {
        return Plan::default();
    };
    let (Some(keep), false) = (rules.keep_finished, remote.terminating) else {
        return Plan::default();
    };
    let Some(ended) = manner::finished_at(remote) else {
        return Plan::default();
    };
    let age = Duration::from_secs(u64::try_from(now.epoch_seconds - ended).unwrap_or(0));
    if age >= keep {
        Plan::step(Step::Delete {
            remote: target(worker, remote),
            why: "keepFinished is over",
            unchanged: None,
        })
    } else {
        Plan::wait(keep - age + Duration::from_secs(1))
    }
}
