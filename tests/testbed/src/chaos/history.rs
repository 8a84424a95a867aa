//! What audit logs say of each pod and job -> violations.

use std::collections::BTreeMap;

use serde_json::Value;

use super::audit::{ACCOUNT, Event, Life, Local};
use super::check::{Kind, Violation};

pub(super) fn repeated(lives: &BTreeMap<String, Life>, violations: &mut Vec<Violation>) {
    let mut by_local: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for life in lives.values().filter(|life| life.opened.is_some()) {
        by_local.entry(&life.local_uid).or_default().push(life);
    }
    for (local, mut opened) in by_local {
        opened.sort_by_key(|life| life.opened);
        let bound: Vec<&&Life> = opened.iter().filter(|life| life.bound.is_some()).collect();
        let at = opened
            .first()
            .map(|life| (life.namespace.clone(), life.name.clone()));
        let whole = |lives: &[&Life]| {
            lives
                .iter()
                .map(|life| format!("{} on {}", life.uid, life.cluster))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if bound.len() > 1 {
            let what = format!("{at:?} {local}: {}", whole(&opened));
            violations.push(Violation {
                kind: Kind::BoundTwice,
                what,
                pod: at.clone(),
            });
        }
        let taken_back = |life: &Life, next: &Life| {
            life.bound.is_none() && life.last_delete.is_some_and(|end| Some(end) <= next.opened)
        };
        if opened.windows(2).any(|pair| !taken_back(pair[0], pair[1])) {
            violations.push(Violation {
                kind: Kind::OpenedTwice,
                what: format!("{at:?} {local}: {}", whole(&opened)),
                pod: at,
            });
        }
    }
}

pub(super) fn at_once(lives: &BTreeMap<String, Life>, violations: &mut Vec<Violation>) {
    let mut by_name: BTreeMap<(&str, &str, &str), Vec<&Life>> = BTreeMap::new();
    for life in lives.values().filter(|life| life.opened.is_some()) {
        by_name
            .entry((&life.subject, &life.namespace, &life.name))
            .or_default()
            .push(life);
    }
    for ((_, namespace, name), mut opened) in by_name {
        opened.sort_by_key(|life| life.opened);
        for pair in opened.windows(2) {
            if pair[0].last_delete.is_none_or(|end| Some(end) > pair[1].opened) {
                violations.push(Violation {
                    kind: Kind::TwoAtOnce,
                    what: format!(
                        "{namespace}/{name}: {} on {} and {} on {}",
                        pair[0].uid, pair[0].cluster, pair[1].uid, pair[1].cluster
                    ),
                    pod: Some((namespace.to_owned(), name.to_owned())),
                });
            }
        }
    }
}

pub(super) fn denied(events: &[Event], manager: &str, violations: &mut Vec<Violation>) {
    let ours = events
        .iter()
        .filter(|event| event.cluster == manager && event.user == ACCOUNT && event.resource == "pods/status");
    for event in ours {
        let request = event.request.to_string();
        if ["there is no WorkerCluster", "its WorkerCluster is not registered"]
            .iter()
            .any(|words| request.contains(words))
        {
            violations.push(Violation {
                kind: Kind::WorkerDenied,
                what: format!(
                    "{}/{} says that a registered worker is not: {request}",
                    event.namespace, event.name
                ),
                pod: Some((event.namespace.clone(), event.name.clone())),
            });
        }
    }
}

pub(super) fn uncommitted(life: &Life, local: Option<&Local>, violations: &mut Vec<Violation>) {
    let committed = local.and_then(|local| local.commits.get(&life.uid));
    if life
        .opened
        .is_some_and(|opened| committed.is_none_or(|committed| *committed > opened))
    {
        violations.push(Violation {
            kind: Kind::OpenedUncommitted,
            what: format!(
                "{}/{} {} on {}",
                life.namespace, life.name, life.uid, life.cluster
            ),
            pod: Some((life.namespace.clone(), life.name.clone())),
        });
    }
}

pub(super) fn killed(life: &Life, local: Option<&Local>, violations: &mut Vec<Violation>) {
    let Some(bound) = life.bound else { return };
    let ours = life
        .deletes
        .iter()
        .find(|(time, user)| user == ACCOUNT && *time > bound);
    let (Some((time, _)), Some(local)) = (ours, local) else {
        return;
    };
    // Somebody else may have asked for it before.
    let asked = life.deletes.first().is_some_and(|(first, _)| first < time);
    let deleted = local.deleted.is_some_and(|deleted| deleted < *time);
    let ended = local.ended.as_ref().is_some_and(|(ended, _, _)| ended < time);
    if !asked && !deleted && !ended {
        violations.push(Violation {
            kind: Kind::KilledHealthy,
            what: format!(
                "{}/{} {} on {}",
                life.namespace, life.name, life.uid, life.cluster
            ),
            pod: Some((life.namespace.clone(), life.name.clone())),
        });
    }
}

/// `RemotePodDeleted` and `RemoteJobDeleted` are true if somebody else deleted the remote pod, or if it was taken back by a process that
/// died before it could clear the commit.
pub(super) fn failed(
    uid: &str,
    local: &Local,
    lives: &BTreeMap<String, Life>,
    violations: &mut Vec<Violation>,
) {
    let Some((time, user, reason)) = &local.ended else {
        return;
    };
    if user != ACCOUNT
        || !reason.starts_with("Remote")
        || local.deleted.is_some_and(|deleted| deleted < *time)
    {
        return;
    }
    let committed = local
        .commits
        .iter()
        .max_by_key(|(_, time)| **time)
        .and_then(|(uid, _)| lives.get(uid));
    let cause = committed.is_some_and(|life| {
        let by_others = life
            .deletes
            .first()
            .is_some_and(|(when, who)| who != ACCOUNT && when < time);
        let taken_back = life.opened.is_some()
            && life.bound.is_none()
            && life.deletes.first().is_some_and(|(when, _)| when < time);
        by_others || taken_back
    });
    if !cause {
        violations.push(Violation {
            kind: Kind::FailedWithoutCause,
            what: format!("{}/{} {uid}: {reason}", local.namespace, local.name),
            pod: Some((local.namespace.clone(), local.name.clone())),
        });
    }
}

/// What somebody else made on a worker is not ours to change.
pub(super) fn foreign(events: &[Event], manager: &str, violations: &mut Vec<Violation>) {
    let effective = || {
        events
            .iter()
            .filter(|event| event.cluster != manager && event.took_effect() && !event.uid().is_empty())
    };
    let created = effective().filter(|event| event.verb == "create");
    let makers: BTreeMap<&str, &str> = created.map(|event| (event.uid(), event.user.as_str())).collect();
    for event in effective().filter(|event| event.user == ACCOUNT) {
        let Some(maker) = makers.get(event.uid()).filter(|maker| **maker != ACCOUNT) else {
            continue;
        };
        violations.push(Violation {
            kind: Kind::ForeignTouched,
            what: format!(
                "{} {} {}/{} on {}, which {maker} made",
                event.verb, event.resource, event.namespace, event.name, event.cluster
            ),
            pod: Some((event.namespace.clone(), event.name.clone())),
        });
    }
}

/// A pod of a job that should run on a worker as a whole.
pub(super) fn made_here(events: &[Event], manager: &str, violations: &mut Vec<Violation>) {
    let made = events.iter().filter(|event| {
        event.cluster == manager && event.resource == "pods" && event.verb == "create" && event.took_effect()
    });
    for event in made {
        let owners = event
            .answer
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let of_a_job = |owner: &&Value| owner["kind"] == "Job" || owner["kind"] == "MPIJob";
        if let Some(owner) = owners.into_iter().flatten().find(of_a_job) {
            violations.push(Violation {
                kind: Kind::RanOnManager,
                what: format!(
                    "{}/{} of {} {} was made on the manager",
                    event.namespace, event.name, owner["kind"], owner["name"]
                ),
                pod: Some((event.namespace.clone(), event.name.clone())),
            });
        }
    }
}

/// We delete a job on the manager only in place of its operator, which keeps its TTL after its end.
pub(super) fn expired(uid: &str, local: &Local, violations: &mut Vec<Violation>) {
    let ended = local
        .ended
        .as_ref()
        .zip(local.deleted)
        .is_some_and(|((ended, _, _), deleted)| *ended < deleted);
    if local.deleted_by == ACCOUNT && !ended {
        violations.push(Violation {
            kind: Kind::KilledHealthy,
            what: format!(
                "{}/{} {uid} on the manager, before its end",
                local.namespace, local.name
            ),
            pod: Some((local.namespace.clone(), local.name.clone())),
        });
    }
}

#[cfg(test)]
mod tests;
