//! A committed pod: open, mirror, take back, fail, delete, release (rules 7-14).

use super::super::local::{Committed, Gate, LocalObject, Phase, RemoteObject};
use super::super::manner;
use super::super::observed::{Memory, Now, Observed, WorkerSeen};
use super::ended::{expiry, finished};
use super::{Plan, is_news, local_target, mirror_pod_ips, say, target, tell, unkept, waiting};
use super::{gang, going, opened};
use crate::pod::mirror::{Dispatched, MirrorOptions};
use crate::reconcile::step::{DELETED_HERE, RemoteTarget, Step};

pub(super) fn plan(
    observed: &Observed,
    local: &LocalObject,
    committed: &Committed,
    copies: &[(&WorkerSeen, &RemoteObject)],
    now: &Now,
) -> Plan {
    let mut plan = chosen(observed, local, committed, now);
    let losers = copies // rule 12
        .iter()
        .filter(|(_, remote)| remote.uid != *committed.remote_uid() && !remote.terminating)
        .map(|(worker, remote)| Step::Delete {
            remote: target(worker, remote),
            why: "another copy is committed",
            unchanged: None,
        });
    plan.steps.splice(0..0, losers);
    plan
}

/// Somebody broke the glass and took the gate off: the pod runs on the manager now. Its copy goes, and then what we
/// hold of it.
pub(super) fn let_go(
    observed: &Observed,
    local: &LocalObject,
    committed: &Committed,
    copies: &[(&WorkerSeen, &RemoteObject)],
) -> Plan {
    let (Some(index), Some(worker)) = (
        local.finalizer,
        observed
            .workers
            .iter()
            .find(|worker| worker.name == *committed.cluster()),
    ) else {
        return Plan::default();
    };
    if !worker.synced || worker.lost.is_some() || worker.cluster_uid != *committed.cluster_uid() {
        return Plan::default();
    }
    match copies
        .iter()
        .find(|(_, remote)| remote.uid == *committed.remote_uid())
    {
        Some((_, remote)) if remote.terminating => Plan::default(),
        Some((worker, remote)) => Plan::step(Step::Delete {
            remote: target(worker, remote),
            why: "its gate was removed by force",
            unchanged: None,
        }),
        None if is_gone(observed, committed) => Plan::step(Step::ReleaseFinalizer {
            local: local_target(local),
            index,
            same_version: false,
        }),
        None => Plan::step(Step::ProveRemoteGone {
            remote: RemoteTarget {
                worker: worker.name.clone(),
                key: local.key.clone(),
                uid: committed.remote_uid().clone(),
            },
            cluster_uid: committed.cluster_uid().clone(),
        }),
    }
}

/// Rule P: a fact that this process has established.
fn is_gone(observed: &Observed, committed: &Committed) -> bool {
    let fact = (committed.cluster_uid().clone(), committed.remote_uid().clone());
    observed.memory.remote_gone.contains(&fact)
}

fn chosen(observed: &Observed, local: &LocalObject, committed: &Committed, now: &Now) -> Plan {
    let worker = observed
        .workers
        .iter()
        .find(|worker| worker.name == *committed.cluster());
    let worker = match worker {
        None => {
            return lost(
                observed,
                local,
                committed,
                "its WorkerCluster is not registered any more",
                now,
            );
        }
        Some(worker) => worker,
    };
    if let Some(why) = &worker.lost {
        return lost(observed, local, committed, why, now);
    }
    if !worker.synced {
        return Plan::default();
    }
    if worker.cluster_uid != *committed.cluster_uid() {
        return lost(
            observed,
            local,
            committed,
            &format!(
                "its kubeconfig leads to another cluster than the one that has the {}",
                local.key.subject.noun()
            ),
            now,
        );
    }
    let remote = worker
        .remote
        .as_deref()
        .filter(|remote| remote.uid == *committed.remote_uid());
    if let Some(remote) = remote.filter(|remote| !remote.terminating && !is_marked(observed, local, remote)) {
        return Plan::step(Step::Remark {
            remote: target(worker, remote),
            origin: observed.origin.clone(),
            local: local_target(local),
            attempt: local.attempt,
        });
    }
    let ended = local.phase == Phase::Terminal;
    let expiry = (ended && !local.terminating)
        .then(|| expiry(local, now))
        .flatten();
    if let Some(plan @ Plan { look_again: None, .. }) = expiry {
        return plan;
    }
    let plan = match (remote, local.terminating, ended) {
        (Some(remote), true, _) => terminating(observed, local, remote, worker, now),
        (Some(remote), false, true) => finished(observed, local, remote, worker, now),
        (Some(remote), false, false) => active(observed, local, committed, remote, worker, now),
        (None, terminating, terminal) => {
            let target = RemoteTarget {
                worker: worker.name.clone(),
                key: local.key.clone(),
                uid: committed.remote_uid().clone(),
            };
            absent(observed, local, committed, target, (terminating, terminal), now)
        }
    };
    plan.and_look_in(expiry.and_then(|plan| plan.look_again))
}

/// Whether the committed copy still carries the marks that prepare gave it.
fn is_marked(observed: &Observed, local: &LocalObject, remote: &RemoteObject) -> bool {
    remote.origin == observed.origin && remote.local_uid == local.uid && remote.attempt == local.attempt
}

fn active(
    observed: &Observed,
    local: &LocalObject,
    committed: &Committed,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    let Some(gate) = remote.gate else {
        return opened::plan(observed, local, remote, worker, now);
    };
    // One that is not suspended came from no backup: somebody on the worker put the annotation there.
    match (local.seen_open && gate != Gate::Loose, remote.terminating) {
        (false, false) => {
            if let Some(plan) = gang::before_open(observed, local, worker, now) {
                return plan;
            }
            let Some(patch) = manner::open(local, remote) else {
                return Plan::default();
            };
            let open = Step::Open {
                committed: committed.clone(),
                remote: target(worker, remote),
                gate,
                patch: Box::new(patch),
            };
            let refused = observed
                .memory
                .passing
                .as_ref()
                .and_then(|words| say(observed, local, &waiting("NotYet", words.as_str()), now));
            Plan::step(refused.unwrap_or(open)) // once said, the same turn goes on to open
        }
        // Another process may have opened it, and this view of it is older than that of the local object: it is asked live.
        (true, false) if !observed.memory.rolled_back.contains(&remote.uid) => {
            Plan::step(Step::ProveRemoteGone {
                remote: target(worker, remote),
                cluster_uid: committed.cluster_uid().clone(),
            })
        }
        (true, false) => fail(
            local,
            "RemoteRolledBack",
            &format!(
                "its copy on {} stands there as before it was opened: the cluster was restored from a backup, or somebody marked the copy so",
                worker.name
            ),
            now,
        ),
        // Deleted on the worker before it was opened; absence follows, once nobody holds it.
        (_, true) => going::held_before_open(observed, local, remote, worker, now),
    }
}

/// Rules 9, 10, 11, 14: what follows once the committed copy is not seen any more.
fn absent(
    observed: &Observed,
    local: &LocalObject,
    committed: &Committed,
    remote: RemoteTarget,
    (terminating, terminal): (bool, bool),
    now: &Now,
) -> Plan {
    let memory: &Memory = &observed.memory;
    if !is_gone(observed, committed) {
        if terminal && !terminating {
            return Plan::default(); // final: its copy is not missed (R05)
        }
        return Plan::step(Step::ProveRemoteGone {
            remote,
            cluster_uid: committed.cluster_uid().clone(),
        });
    }
    let ended = memory
        .ended
        .as_deref()
        .filter(|ended| ended.uid == *committed.remote_uid())
        .map(|ended| the_end(observed, local, committed, ended, now));
    if terminating {
        // Its owner counts it by its last state, so that comes before the finalizer goes.
        if let Some(plan) = ended.clone().filter(|plan| !plan.steps.is_empty()) {
            return plan;
        }
        return match local.finalizer {
            Some(index) => Plan::step(Step::ReleaseFinalizer {
                local: local_target(local),
                index,
                same_version: false,
            }),
            None if ended.is_some() => Plan::default(), // its end was told
            None => going::kept_here(observed, local, committed, now),
        };
    }
    if terminal {
        return Plan::default();
    }
    if memory.taken_back.contains(committed.remote_uid()) {
        return Plan::step(Step::ClearCommit {
            local: local_target(local),
            finalizers: local.finalizers.clone(),
            attempt: local.attempt.saturating_add(1),
        });
    }
    if let Some(plan) = ended {
        return plan;
    }
    fail(
        local,
        manner::deleted_reason(local.key.subject),
        &format!("its copy on {} was deleted there", committed.cluster()),
        now,
    )
}

/// Rule 10 for a copy that ended and was deleted before its end was mirrored.
fn the_end(
    observed: &Observed,
    local: &LocalObject,
    committed: &Committed,
    ended: &RemoteObject,
    now: &Now,
) -> Plan {
    let dispatched = Dispatched {
        status: true,
        reason: "Finished".to_owned(),
        message: format!("ended on {} and was removed there", committed.cluster()),
    };
    let options = MirrorOptions {
        pod_ips: mirror_pod_ips(observed),
        cluster: committed.cluster().to_string(),
    };
    let patch = manner::mirrored(local, ended, &dispatched, &options, &now.wall);
    let mirrored = patch.and_then(|patch| unkept::mirror(observed, local, patch));
    mirrored.map(Plan::step).unwrap_or_default()
}

/// Rule 13 and 2.4.6: delete the copy; until it is gone its container states are mirrored.
fn terminating(
    observed: &Observed,
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    let dispatched = Dispatched {
        status: true,
        reason: "Terminating".to_owned(),
        message: format!(
            "{}; being deleted there{}",
            opened::on_worker(worker, remote, &Memory::default()),
            going::held(remote)
        ),
    };
    let delete = (!remote.terminating).then(|| Step::Delete {
        remote: target(worker, remote),
        why: DELETED_HERE,
        unchanged: None,
    });
    let options = MirrorOptions {
        pod_ips: false,
        cluster: worker.name.to_string(),
    };
    let patch = manner::mirrored(local, remote, &dispatched, &options, &now.wall);
    let mirrored = patch.and_then(|patch| unkept::mirror(observed, local, patch));
    let is_told_apart = !manner::takes_condition(local.key.subject) && is_news(&dispatched);
    let told = is_told_apart
        .then(|| tell(observed, local, &dispatched))
        .flatten();
    Plan {
        steps: delete.into_iter().chain(mirrored).chain(told).collect(),
        ..Plan::default()
    }
}

fn fail(local: &LocalObject, reason: &'static str, message: &str, now: &Now) -> Plan {
    let dispatched = Dispatched {
        status: false,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let patch = manner::failed(local, reason, message, &dispatched, &now.wall);
    Plan::step(Step::Fail {
        local: local_target(local),
        patch: Box::new(patch),
        reason,
        message: dispatched.message,
    })
}

/// The worker is not usable: Ready=False with our reason, the phase stays (R47).
fn lost(observed: &Observed, local: &LocalObject, committed: &Committed, why: &str, now: &Now) -> Plan {
    if !local.active() && !local.terminating {
        return Plan::default();
    }
    let dispatched = Dispatched {
        // What was never seen open must not look so afterwards: that would be a rollback (`RemoteRolledBack`).
        status: local.seen_open,
        reason: "WorkerUnreachable".to_owned(),
        message: format!("{}: {why}; its last known state is shown", committed.cluster()),
    };
    let step = match manner::takes_condition(local.key.subject) {
        true => manner::worker_lost(local, &dispatched, &now.wall)
            .and_then(|patch| unkept::mirror(observed, local, patch)),
        false => tell(observed, local, &dispatched),
    };
    Plan {
        steps: step.into_iter().collect(),
        ..Plan::default()
    }
}
