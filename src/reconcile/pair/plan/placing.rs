//! An active, uncommitted pod: find its cluster, prepare, commit (rules 2-5, 17).

use std::sync::Arc;
use std::time::Duration;

use super::super::local::{Gate, LocalObject, RemoteObject, Subject};
use super::super::manner;
use super::super::observed::{Now, Observed, PolicyRules, PolicySeen, WorkerSeen};
use super::{
    Plan, SUSPENDED, gang, local_target, marks, say, say_in_status, say_refused, standing, target, tell,
    vain, waiting,
};
use crate::placement::{Choice, RootState, choose};
use crate::pod::sanitize::UnreadableLocal;
use crate::reconcile::faults::{Fault, dropped};
use crate::reconcile::step::Step;
use crate::words::few;

/// A pod may have any number of gates.
const GATES_SHOWN: usize = 5;
/// As admission calls it.
const FIELD_DROPPED: &str = "FieldDropped";
/// Nobody tells when a schema has the field.
const SCHEMA: Duration = Duration::from_secs(30);

pub(super) fn plan(
    observed: &Observed,
    local: &LocalObject,
    copies: &[(&WorkerSeen, &RemoteObject)],
    now: &Now,
) -> Plan {
    let opened = copies
        .iter()
        .find(|(_, remote)| remote.gate.is_none() && remote.attempt == local.attempt);
    if let (Some((worker, remote)), true) = (opened, dropped(Fault::OpenedCopy)) {
        return Plan::step(Step::Delete {
            remote: target(worker, remote),
            why: "fault: an opened copy counts as a stray",
            unchanged: None,
        });
    }
    if let Some((worker, _)) = opened.filter(|(worker, _)| worker.accepts.is_none()) {
        return Plan::step(ask(worker, local));
    }
    if let Some((worker, remote)) = opened {
        let verb = match remote.suspended {
            true => "stands",
            false => "runs",
        };
        let noun = local.key.subject.noun();
        let what = format!("{verb} there, though this {noun} has not recorded it");
        return standing::unrecorded(observed, local, worker, remote, &what, now)
            .and_look_in(Some(Duration::from_secs(2))); // rule 4
    }
    if let Some((worker, remote)) = copies
        .iter()
        .find(|(_, remote)| remote.attempt < local.attempt && !remote.terminating)
    {
        return Plan::step(Step::Delete {
            remote: target(worker, remote),
            why: "of an earlier attempt",
            unchanged: None,
        }); // rule 5
    }
    if observed.runs_here {
        return leave(observed, local, copies);
    }
    let rules = match rules(observed) {
        Ok(rules) => rules,
        Err((reason, message)) => return withdraw(observed, local, copies, reason, message, now),
    };
    if local.suspended {
        let message = "is suspended; it is dispatched once it is resumed";
        return withdraw(observed, local, copies, SUSPENDED, message.to_owned(), now);
    }
    if !local.other_gates.is_empty() {
        let gates = few(&local.other_gates, GATES_SHOWN);
        let message = format!("waits for other scheduling gates: {gates}");
        return withdraw(observed, local, copies, "WaitingForGates", message, now);
    }
    if !dropped(Fault::HeldName)
        && let Some(plan) = standing::name_is_held(observed, local, now)
    {
        return plan;
    }
    if copies.iter().any(|(_, remote)| remote.terminating) {
        return Plan::default(); // the name is not free yet; its watch tells
    }
    place(observed, local, copies, rules, now)
}

/// The policy's rules, or why there are none.
fn rules(observed: &Observed) -> Result<&PolicyRules, (&'static str, String)> {
    match &observed.policy {
        PolicySeen::Policy(rules) => Ok(rules),
        PolicySeen::NotOptedIn => Err((
            "NamespaceNotOptedIn",
            format!(
                "the namespace has no label portcullis.dev/dispatch any more; delete the {}, or label the namespace",
                observed.key.subject.noun()
            ),
        )),
        PolicySeen::NotFound(name) => Err((
            "PolicyNotFound",
            format!(
                "the namespace names DispatchPolicy {name:?}, which does not exist; create it or change the label"
            ),
        )),
    }
}

/// Nothing new is placed: ready copies are given up, and the pod says why it waits.
fn withdraw(
    observed: &Observed,
    local: &LocalObject,
    copies: &[(&WorkerSeen, &RemoteObject)],
    reason: &'static str,
    message: String,
    now: &Now,
) -> Plan {
    if let Some(plan) = give_up(local, copies) {
        return plan;
    }
    Plan {
        steps: say(observed, local, &waiting(reason, message), now)
            .into_iter()
            .collect(),
        ..Plan::default()
    }
}

/// A job that its operator on the manager runs, as the schema there has no `managedBy`, must have no copy. That operator owns
/// the job's status, so it is told by an Event.
fn leave(observed: &Observed, local: &LocalObject, copies: &[(&WorkerSeen, &RemoteObject)]) -> Plan {
    if let Some(plan) = give_up(local, copies) {
        return plan;
    }
    let message = format!(
        "{} has no field for managedBy on this cluster, so its operator here may run the job, and it gets no copy; install a newer {}",
        local.key.subject.noun(),
        local.key.subject.argument()
    );
    Plan {
        steps: tell(observed, local, &waiting(FIELD_DROPPED, message))
            .into_iter()
            .collect(),
        look_again: Some(SCHEMA),
        ..Plan::default()
    }
}

/// Rule 3c: a ready copy of this attempt is not wanted. Another process may commit it at this moment, or a commit of ours
/// may have taken effect without an answer: so the attempt ends first, by a write that fails if the pod was committed.
/// Then the copy is one of an earlier attempt (rule 5).
fn give_up(local: &LocalObject, copies: &[(&WorkerSeen, &RemoteObject)]) -> Option<Plan> {
    let ready: Vec<_> = copies.iter().filter(|(_, remote)| !remote.terminating).collect();
    if ready.is_empty() {
        return None;
    }
    let steps = match dropped(Fault::GiveUp) {
        true => ready
            .iter()
            .map(|(worker, remote)| Step::Delete {
                remote: target(worker, remote),
                why: "fault: the attempt goes on",
                unchanged: None,
            })
            .collect(),
        false => vec![Step::GiveUp {
            local: local_target(local),
            attempt: local.attempt.saturating_add(1),
        }],
    };
    Some(Plan {
        steps,
        ..Plan::default()
    })
}

pub(super) fn ask(worker: &WorkerSeen, local: &LocalObject) -> Step {
    Step::AskConsent {
        worker: worker.name.clone(),
        key: local.key.clone(),
    }
}

fn place(
    observed: &Observed,
    local: &LocalObject,
    copies: &[(&WorkerSeen, &RemoteObject)],
    rules: &PolicyRules,
    now: &Now,
) -> Plan {
    // What an earlier attempt showed must not look like the next one's: a copy that was seen open and is gated again is
    // a rollback (`RemoteRolledBack`).
    let taken_back = waiting(
        "TakenBack",
        "its copy was taken back; the next cluster is looked for",
    );
    if let Some(step) = say_in_status(local, &taken_back, now).filter(|_| local.seen_open) {
        return Plan::step(step);
    }
    let root = match (&observed.root.fixed, observed.root.deciding) {
        (Some(cluster), _) => RootState::Fixed(cluster.clone()),
        (None, true) => RootState::Deciding,
        (None, false) => RootState::Free,
    };
    // A copy that stands ready is gone on with whatever speaks against its cluster by now: another process may commit
    // it at this moment, and to delete it would fail its pod.
    let cluster = match ready_copy(rules, copies, &root) {
        Some(ready) => ready,
        None => match choose(rules.strategy, rules.colocate, &rules.candidates, &root) {
            Choice::Try(first) => first,
            Choice::Queue => return Plan::default(),
            Choice::Soon => return Plan::wait(Duration::from_millis(200)),
            Choice::Nowhere {
                reason,
                message,
                retry_in,
            } => {
                return withdraw(observed, local, copies, reason, message, now).and_look_in(retry_in);
            }
        },
    };
    let Some(worker) = observed
        .workers
        .iter()
        .find(|worker| worker.name == cluster && worker.synced)
    else {
        return Plan::wait(Duration::from_secs(5));
    };
    if let Some(plan) = gang::before_copy(observed, worker) {
        return plan;
    }
    let ready = copies
        .iter()
        .find(|(other, _)| other.name == cluster)
        .map(|(_, remote)| *remote);
    if ready.is_none()
        && let Some(plan) = give_up(local, copies)
    {
        return plan; // another cluster was chosen
    }
    if let Some(passing) = &observed.memory.passing
        && let Some(step) = say(observed, local, &waiting("NotYet", passing.as_str()), now)
    {
        return Plan::step(step);
    }
    if let Some(step) = say_refused(observed, local, false, now) {
        return Plan::step(step);
    }
    match next(observed, local, worker, ready, rules) {
        Ok(Some(step @ Step::Prepare { .. })) => {
            vain::made_in_vain(observed, local, &cluster, now).unwrap_or_else(|| Plan::step(step))
        }
        Ok(Some(step)) => Plan::step(step),
        Ok(None) => give_up(local, copies).unwrap_or_default(), // rule 3b
        Err(unreadable) => {
            let reason = match local.key.subject {
                Subject::Pod => "InvalidPod",
                Subject::Job(_) => "InvalidJob",
            };
            // A copy that was made before its worker had a gang scheduler is not what the job asks for.
            let given_up = match unreadable {
                UnreadableLocal::Gang(_) => copies,
                UnreadableLocal::Missing { .. } | UnreadableLocal::Wrong { .. } => &[],
            };
            withdraw(observed, local, given_up, reason, unreadable.to_string(), now)
        }
    }
}

/// Prepare or commit; nothing if the copy that stands ready was made from an older spec.
fn next(
    observed: &Observed,
    local: &LocalObject,
    worker: &WorkerSeen,
    ready: Option<&RemoteObject>,
    rules: &PolicyRules,
) -> Result<Option<Step>, UnreadableLocal> {
    Ok(match ready {
        Some(remote) if remote.gate == Some(Gate::Loose) => None, // as good as none
        Some(remote)
            if remote.source == manner::source(local, worker.gangs.maker())? || dropped(Fault::Source) =>
        {
            Some(Step::Commit {
                local: local_target(local),
                finalizers: local.finalizers.clone(),
                cluster_uid: worker.cluster_uid.clone(),
                remote: target(worker, remote),
            })
        }
        Some(_) => None,
        None => Some(Step::Prepare {
            worker: worker.name.clone(),
            local: local_target(local),
            copy: Box::new(manner::copy(local, &marks(observed), worker.gangs.maker())?),
            create_namespace: rules.create_namespaces,
        }),
    })
}

fn ready_copy(
    rules: &PolicyRules,
    copies: &[(&WorkerSeen, &RemoteObject)],
    root: &RootState,
) -> Option<Arc<str>> {
    let allowed = |name: &Arc<str>| match root {
        RootState::Fixed(cluster) => cluster == name,
        RootState::Free => true,
        RootState::Deciding => false,
    };
    rules
        .candidates
        .iter()
        .filter(|candidate| allowed(&candidate.name))
        .find(|candidate| copies.iter().any(|(worker, _)| worker.name == candidate.name))
        .map(|candidate| candidate.name.clone())
}
