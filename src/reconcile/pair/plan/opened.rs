//! An opened copy: shown on the local object, taken back if it is never scheduled (rules 8 and 10).

use std::sync::Arc;
use std::time::Duration;

use super::super::local::{LocalObject, Phase, RemoteObject};
use super::super::manner;
use super::super::observed::{Memory, Now, Observed, PolicySeen, WorkerSeen};
use super::super::waits;
use super::{Plan, going, is_news, mirror_pod_ips, say_refused, target, tell, undone, unkept};
use crate::pod::mirror::{Dispatched, MirrorOptions};
use crate::reconcile::step::Step;

pub(super) fn plan(
    observed: &Observed,
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    let (take_back, look_again) = unschedulable(observed, local, remote, worker, now);
    let forward = manner::forward(local, remote, undone::allowed(observed))
        .filter(|_| !remote.terminating)
        .map(|patch| Step::Forward {
            remote: target(worker, remote),
            resource_version: remote.resource_version.clone(),
            patch: Box::new(patch),
            wanted: Arc::new(manner::wanted(local, undone::allowed(observed))),
        });
    let undone_again = forward
        .as_ref()
        .and_then(|step| undone::rest(observed.memory.forwarded.as_ref(), step, now));
    let forward = forward.filter(|_| undone_again.is_none());
    let news = forward.is_some() || take_back.is_some();
    if let (Some(rest), false) = (settling(observed, remote, now), news) {
        return Plan::wait(rest).and_look_in(look_again).and_look_in(undone_again);
    }
    if let Some(step) = say_refused(observed, local, true, now) {
        return Plan::step(step);
    }
    let fought = undone::said(observed.memory.forwarded.as_ref(), remote, worker, now);
    let (fought, over_in) = fought.unzip();
    let dispatched = fought.unwrap_or_else(|| {
        let goes = remote.terminating && remote.phase != Phase::Terminal;
        let (reason, message) = match goes {
            true => (going::REMOTE_TERMINATING, going::words(worker, remote)),
            false => (
                stage(remote, &observed.memory),
                on_worker(worker, remote, &observed.memory),
            ),
        };
        Dispatched {
            status: true,
            reason: reason.to_owned(),
            message,
        }
    });
    let mirrored = mirror(observed, local, remote, worker, &dispatched, now);
    let refused = mirrored
        .as_ref()
        .and_then(|step| unkept::refused_for(observed, step, now));
    let mirrored = mirrored.filter(|_| refused.is_none());
    let told = (!manner::takes_condition(local.key.subject) && is_news(&dispatched))
        .then(|| tell(observed, local, &dispatched))
        .flatten();
    let steps = forward.into_iter().chain(mirrored).chain(told).chain(take_back);
    let steps: Vec<Step> = steps.collect();
    let ask_in = waits::due_in(observed.memory.doubt.as_ref(), remote, now.monotonic);
    if steps.is_empty() && ask_in.is_some_and(|rest| rest.is_zero()) {
        return Plan::step(ask_pods(remote, worker)); // the same turn goes on with the answer
    }
    Plan {
        steps,
        look_again,
        ..Plan::default()
    }
    .and_look_in(ask_in)
    .and_look_in(refused)
    .and_look_in(undone_again)
    .and_look_in(over_in)
}

/// In one word, what it is at. A job of which some pods wait does, though others may run.
fn stage(remote: &RemoteObject, memory: &Memory) -> &'static str {
    match waits::words(memory.doubt.as_ref(), remote) {
        Some(_) => "WaitingOnWorker",
        None => manner::stage(remote),
    }
}

fn ask_pods(remote: &RemoteObject, worker: &WorkerSeen) -> Step {
    Step::AskPods {
        remote: target(worker, remote),
        selector: manner::pod_selector(remote),
        status: remote.untold.unwrap_or_default(),
    }
}

/// How long the mirror of a copy that was opened just now may wait: its node and its start mostly follow at once, and
/// one write then tells all of it. What runs, ends or goes is told at once.
fn settling(observed: &Observed, remote: &RemoteObject, now: &Now) -> Option<Duration> {
    let (uid, at) = observed.memory.unready_since.as_ref()?;
    if *uid != remote.uid || remote.phase != Phase::Waiting || remote.terminating {
        return None;
    }
    let rest =
        manner::settling(remote.key.subject).checked_sub(now.monotonic.saturating_duration_since(*at))?;
    (!rest.is_zero()).then_some(rest)
}

/// Where it is, and what keeps it from being ready: what its status says, and the worker's last Warning about it.
pub(super) fn on_worker(worker: &WorkerSeen, remote: &RemoteObject, memory: &Memory) -> String {
    let pods = || waits::words(memory.doubt.as_ref(), remote).map(str::to_owned);
    let waits = manner::waiting_reason(remote).or_else(pods);
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
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    dispatched: &Dispatched,
    now: &Now,
) -> Option<Step> {
    let options = MirrorOptions {
        pod_ips: mirror_pod_ips(observed),
        cluster: worker.name.to_string(),
    };
    let patch = manner::mirrored(local, remote, dispatched, &options, &now.wall)?;
    unkept::mirror(observed, local, patch)
}

/// Rule 8: never scheduled for `unschedulableAfter`, and there is somewhere else to go.
fn unschedulable(
    observed: &Observed,
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> (Option<Step>, Option<Duration>) {
    let PolicySeen::Policy(rules) = &observed.policy else {
        return (None, None);
    };
    if !manner::can_be_taken_back(local.key.subject) {
        return (None, None);
    }
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
            let reason =
                manner::waiting_reason(remote).unwrap_or_else(|| "its scheduler gave no reason".to_owned());
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
