//! Remote pods of other local UIDs under this key (rules 1 and 16).

use super::super::local::Committed;
use super::super::observed::{Observed, WorkerSeen};
use super::{Plan, target};
use crate::reconcile::step::Step;

/// Which of them go. A gated copy whose local object is proven gone is deleted; an open one is listed, never deleted by guess.
pub(super) fn plan(observed: &Observed) -> Plan {
    let living = observed.local.as_ref().map(|local| &local.uid);
    let committed = observed
        .local
        .as_ref()
        .and_then(|local| local.committed())
        .map(Committed::remote_uid);
    let mut plan = Plan::default();
    let ours = |worker: &&WorkerSeen| worker.synced && worker.accepts != Some(false);
    for worker in observed.workers.iter().filter(ours) {
        let Some(remote) = worker.remote.as_deref() else {
            continue;
        };
        if committed == Some(&remote.uid) {
            continue; // whatever it says of itself
        }
        if Some(&remote.local_uid) == living || remote.local_uid.is_empty() {
            continue; // a pod that names no local pod is not ours (rule 16)
        }
        let gone = observed.memory.local_gone.contains(&remote.local_uid);
        match (remote.gate.is_some(), remote.terminating, gone) {
            (true, true, _) => {}
            (true, false, true) => plan.steps.push(Step::Delete {
                remote: target(worker, remote),
                why: "its local pod is gone",
                unchanged: None,
            }),
            (true | false, _, false) => plan.steps.push(Step::ProveLocalGone {
                key: observed.key.clone(),
                uid: remote.local_uid.clone(),
            }),
            (false, _, true) => plan.orphans.push(target(worker, remote)),
        }
    }
    plan
}
