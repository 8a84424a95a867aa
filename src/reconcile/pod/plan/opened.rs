//! An opened copy: shown on the local pod, taken back if it is never scheduled (rules 8 and 10).

use std::time::Duration;

use super::super::local::{LocalPod, Phase, RemotePod};
use super::super::observed::{Memory, Now, Observed, PolicySeen, WorkerSeen};
use super::{Plan, json, local_target, mirror_pod_ips, say_refused, target};
use crate::pod::mirror::{self, Dispatched, MirrorOptions};
use crate::reconcile::step::Step;

/// For so long after its opening a copy may get a node and start before it is mirrored.
const SETTLING: Duration = Duration::from_millis(500);

pub(super) fn plan(
    observed: &Observed,
    local: &LocalPod,
    remote: &RemotePod,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    let (take_back, look_again) = unschedulable(observed, local, remote, worker, now);
    if let (Some(rest), None) = (settling(observed, remote, now), &take_back) {
        return Plan::wait(rest).and_look_in(look_again);
    }
    if let Some(step) = say_refused(observed, local, true, now) {
        return Plan::step(step);
    }
    let dispatched = Dispatched {
        status: true,
        reason: if remote.node.is_some() {
            "Scheduled"
        } else {
            "WaitingOnWorker"
        }
        .to_owned(),
        message: on_worker(worker, remote, &observed.memory),
    };
    let mirrored = mirror(observed, local, remote, worker, &dispatched, now);
    Plan {
        steps: mirrored.into_iter().chain(take_back).collect(),
        look_again,
        ..Plan::default()
    }
}

/// How long the mirror of a copy that was opened just now may wait: its node and its start mostly follow at once, and
/// one write then tells all of it. What runs, ends or goes is told at once.
fn settling(observed: &Observed, remote: &RemotePod, now: &Now) -> Option<Duration> {
    let (uid, at) = observed.memory.unready_since.as_ref()?;
    if *uid != remote.uid || remote.phase != Phase::Waiting || remote.terminating {
        return None;
    }
    let rest = SETTLING.checked_sub(now.monotonic.saturating_duration_since(*at))?;
    (!rest.is_zero()).then_some(rest)
}

/// Where it is, and what keeps it from being ready: what its status says, and the worker's last Warning about it.
pub(super) fn on_worker(worker: &WorkerSeen, remote: &RemotePod, memory: &Memory) -> String {
    let waits = mirror::waiting_reason(&json(&remote.json));
    let heard = memory
        .heard
        .as_ref()
        .filter(|heard| heard.remote == remote.uid && !remote.ready);
    let warning = heard.and_then(|heard| heard.warning.clone()).filter(|warning| {
        let words = warning
            .split_once(": ")
            .map_or(warning.as_str(), |(_, words)| words);
        !waits.as_ref().is_some_and(|waits| waits.contains(words))
    });
    let wrong: Vec<String> = waits.into_iter().chain(warning).collect();
    match (wrong.is_empty(), &remote.node) {
        (false, _) => format!("on {}: {}", worker.name, wrong.join("; ")),
        (true, Some(node)) => format!("on {}, node {node}", worker.name),
        (true, None) => format!("on {}", worker.name),
    }
}

fn mirror(
    observed: &Observed,
    local: &LocalPod,
    remote: &RemotePod,
    worker: &WorkerSeen,
    dispatched: &Dispatched,
    now: &Now,
) -> Option<Step> {
    let options = MirrorOptions {
        pod_ips: mirror_pod_ips(observed),
        cluster: worker.name.to_string(),
    };
    let patch = mirror::mirror(
        &json(&local.json),
        &json(&remote.json),
        dispatched,
        &options,
        &now.wall,
    )?;
    Some(Step::Mirror {
        local: local_target(local),
        patch: Box::new(patch),
    })
}

/// Rule 8: never scheduled for `unschedulableAfter`, and there is somewhere else to go.
fn unschedulable(
    observed: &Observed,
    local: &LocalPod,
    remote: &RemotePod,
    worker: &WorkerSeen,
    now: &Now,
) -> (Option<Step>, Option<Duration>) {
    let PolicySeen::Policy(rules) = &observed.policy else {
        return (None, None);
    };
    let (Some(limit), None, false) = (rules.unschedulable_after, &remote.node, remote.terminating) else {
        return (None, None);
    };
    if remote.phase != Phase::Waiting || observed.root.scheduled || local.seen_scheduled {
        return (None, None); // its siblings hold it there, or it did run
    }
    let elsewhere = rules
        .candidates
        .iter()
        .any(|other| other.name != worker.name && other.rejection.is_none());
    let Some((_, since)) = observed
        .memory
        .unscheduled_since
        .as_ref()
        .filter(|(uid, _)| *uid == remote.uid)
    else {
        return (None, Some(limit));
    };
    let waited = now.monotonic.saturating_duration_since(*since);
    match (waited >= limit, elsewhere) {
        (true, true) => {
            let reason = mirror::waiting_reason(&json(&remote.json))
                .unwrap_or_else(|| "its scheduler gave no reason".to_owned());
            let step = Step::TakeBack {
                remote: target(worker, remote),
                resource_version: remote.resource_version.clone(),
                reason,
            };
            (Some(step), None)
        }
        (true, false) => (None, Some(Duration::from_secs(10))),
        (false, _) => (None, Some(limit - waited)),
    }
}
