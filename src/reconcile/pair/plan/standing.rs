//! Copies that stand in the way: one of this object that it has not recorded, one of an earlier object of its name.

use super::super::local::{LocalObject, Phase, RemoteObject, Subject};
use super::super::observed::{Now, Observed, WorkerSeen};
use super::{Plan, going, placing, say, waiting};
use crate::reconcile::step::Step;

/// Rules 4 and 6: mostly the view is old, so it is read again first. If the pod stands as it was seen, somebody made the copy
/// or restored one of the two clusters; the condition carries the version, so it is only ever written to a pod that
/// really has not recorded it.
pub(super) fn unrecorded(
    observed: &Observed,
    local: &LocalObject,
    worker: &WorkerSeen,
    remote: &RemoteObject,
    what: &str,
    now: &Now,
) -> Plan {
    let look = Step::LookAtLocal {
        key: local.key.clone(),
    };
    let message = format!(
        "{}: a copy of this {} {what}; a backup was restored, or somebody made it. If it is not wanted, remove it with: kubectl --context {} delete {} -n {} {}",
        worker.name,
        remote.key.subject.noun(),
        worker.name,
        remote.key.subject.argument(),
        remote.key.namespace,
        remote.key.name
    );
    Plan {
        steps: [look]
            .into_iter()
            .chain(say(observed, local, &waiting("UnrecordedCopy", message), now))
            .collect(),
        ..Plan::default()
    }
}

/// Rule 17: the copy of an earlier pod of this name still stands there. No worker gets a second one.
pub(super) fn name_is_held(observed: &Observed, local: &LocalObject, now: &Now) -> Option<Plan> {
    let (worker, holder) = observed
        .workers
        .iter()
        .filter_map(|worker| Some((worker, worker.remote.as_deref()?)))
        .find(|(worker, remote)| {
            !remote.local_uid.is_empty()
                && remote.local_uid != local.uid
                && worker.accepts != Some(false) // a stranger's: we never made a pod there
                && (remote.gate.is_none() || remote.terminating)
        })?;
    if worker.accepts.is_none() {
        return Some(Plan::step(placing::ask(worker, local)));
    }
    let proven = observed.memory.local_gone.contains(&holder.local_uid);
    let noun = holder.key.subject.noun();
    let verb = match holder.suspended || holder.phase == Phase::Terminal {
        true => "stands",
        false => "runs",
    };
    let message = match (holder.terminating, proven) {
        (true, _) => waiting(
            match holder.key.subject {
                Subject::Pod => "PreviousPodTerminating",
                Subject::Job(_) => "PreviousJobTerminating",
            },
            format!(
                "{}: the copy of an earlier {noun} of this name is terminating{}",
                worker.name,
                going::held(holder)
            ),
        ),
        (false, true) => waiting(
            "OrphanHoldsName",
            format!(
                "{}: the copy of an earlier {noun} of this name still {verb} there and its {noun} is gone from here; remove it with: kubectl --context {} delete {} -n {} {}",
                worker.name,
                worker.name,
                holder.key.subject.argument(),
                holder.key.namespace,
                holder.key.name
            ),
        ),
        (false, false) => return Some(Plan::default()), // orphan.rs asks whether its local pod is gone
    };
    let steps = say(observed, local, &message, now).into_iter().collect();
    Some(Plan {
        steps,
        ..Plan::default()
    })
}
