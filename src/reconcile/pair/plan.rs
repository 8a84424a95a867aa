//! What is seen of a pair -> the next writes (pure). The rules are those of `docs/protocol.md`.
//!
//! A plan is short: after its steps the edge looks again and plans again, until nothing is left to do.

mod committed;
mod ended;
mod gang;
mod going;
mod opened;
mod orphan;
mod placing;
mod standing;
mod undone;
mod unkept;
mod vain;

use std::time::Duration;

use super::local::{Committed, LocalObject, RemoteObject, Subject};
use super::manner;
use super::observed::{Now, Observed, PolicySeen, WorkerSeen};
use crate::pod::mirror::Dispatched;
use crate::pod::sanitize::{CopyMarks, NamespaceOwner};
use crate::reconcile::faults::{Fault, dropped};
use crate::reconcile::step::{LocalTarget, RemoteTarget, Step};

pub use self::undone::{is_void, remembered};
pub use self::unkept::gist;

/// The manager's API server refuses what we write on the pod.
pub const WRITE_REFUSED: &str = "WriteRefused";

/// The job waits as its user suspended it.
pub const SUSPENDED: &str = "Suspended";

/// What to do now, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order; a failure ends the turn.
    pub steps: Vec<Step>,
    /// Look again after this time even if nothing changes.
    pub look_again: Option<Duration>,
    /// Open remote objects whose local object is gone: listed, never removed by guess.
    pub orphans: Vec<RemoteTarget>,
}

impl Plan {
    fn step(step: Step) -> Self {
        Self {
            steps: vec![step],
            ..Self::default()
        }
    }

    fn wait(duration: Duration) -> Self {
        Self {
            look_again: Some(duration),
            ..Self::default()
        }
    }

    fn and_look_in(mut self, duration: Option<Duration>) -> Self {
        self.look_again = match (self.look_again, duration) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self
    }
}

/// Plans one pair. `observed.local` must come from a complete list (rule 0).
pub fn plan(observed: &Observed, now: &Now) -> Plan {
    let mut plan = own_pod(observed, now);
    let strangers = orphan::plan(observed);
    plan.steps.splice(0..0, strangers.steps);
    plan.orphans = strangers.orphans;
    plan
}

fn own_pod(observed: &Observed, now: &Now) -> Plan {
    let Some(local) = &observed.local else {
        return Plan::default();
    };
    let copies = copies(observed, local);
    if !local.held {
        return match local.committed() {
            Some(committed) => committed::let_go(observed, local, committed, &copies),
            None => leaving(local, &copies),
        };
    }
    let committed_uid = local.committed().map(Committed::remote_uid);
    let newer = copies
        .iter()
        .find(|(_, remote)| remote.attempt > local.attempt && Some(&remote.uid) != committed_uid);
    if let Some((worker, _)) = newer.filter(|(worker, _)| worker.accepts.is_none()) {
        return Plan::step(placing::ask(worker, local));
    }
    if let Some((worker, remote)) = newer.filter(|_| !dropped(Fault::Attempt)) {
        if local.committed().is_none() && local.active() {
            let noun = local.key.subject.noun();
            let what = format!("stands there with a later attempt than this {noun} is at");
            return standing::unrecorded(observed, local, worker, remote, &what, now); // rule 6
        }
        return Plan::step(Step::LookAtLocal {
            key: observed.key.clone(),
        });
    }
    match (local.committed(), local.active()) {
        (Some(committed), _) => committed::plan(observed, local, committed, &copies, now),
        (None, true) => placing::plan(observed, local, &copies, now),
        (None, false) => leaving(local, &copies),
    }
}

/// Rule 15: an uncommitted pod that ends takes its gated copies with it.
fn leaving(local: &LocalObject, copies: &[(&WorkerSeen, &RemoteObject)]) -> Plan {
    let mut steps: Vec<Step> = copies
        .iter()
        .filter(|(_, remote)| remote.gate.is_some() && !remote.terminating)
        .map(|(worker, remote)| Step::Delete {
            remote: target(worker, remote),
            why: "local pod ended uncommitted",
            unchanged: None,
        })
        .collect();
    if copies.iter().any(|(_, remote)| remote.gate.is_none()) {
        steps.push(Step::LookAtLocal {
            key: local.key.clone(),
        }); // rule 4: the view is old
    } else if let (true, Some(index)) = (local.terminating, local.finalizer) {
        // A finalizer without a valid commit: the object was restored under a new UID.
        steps.push(Step::ReleaseFinalizer {
            local: local_target(local),
            index,
            same_version: true,
        });
    }
    Plan {
        steps,
        ..Plan::default()
    }
}

/// Copies of exactly this local object on workers whose lists are complete.
/// Each once, though two WorkerClusters may lead to the same cluster.
fn copies<'a>(observed: &'a Observed, local: &LocalObject) -> Vec<(&'a WorkerSeen, &'a RemoteObject)> {
    let mut copies: Vec<(&WorkerSeen, &RemoteObject)> = Vec::new();
    // A namespace that does not take our pods has none of ours, whatever a pod there says of itself.
    let ours = |worker: &&WorkerSeen| worker.synced && worker.accepts != Some(false);
    for worker in observed.workers.iter().filter(ours) {
        let Some(remote) = worker
            .remote
            .as_deref()
            .filter(|remote| remote.local_uid == local.uid)
        else {
            continue;
        };
        if copies.iter().all(|(_, other)| other.uid != remote.uid) {
            copies.push((worker, remote));
        }
    }
    copies
}

fn target(worker: &WorkerSeen, remote: &RemoteObject) -> RemoteTarget {
    RemoteTarget {
        worker: worker.name.clone(),
        key: remote.key.clone(),
        uid: remote.uid.clone(),
    }
}

fn local_target(local: &LocalObject) -> LocalTarget {
    LocalTarget {
        key: local.key.clone(),
        uid: local.uid.clone(),
        resource_version: local.resource_version.clone(),
    }
}

/// The UID of the worker's namespace is not known before the prepare looked at it; `execute` fills it in.
fn marks(observed: &Observed) -> CopyMarks<'_> {
    CopyMarks {
        origin: &observed.origin,
        owner: match observed.key.subject {
            Subject::Pod => Some(NamespaceOwner {
                name: &observed.key.namespace,
                uid: "",
            }),
            Subject::Job(_) => None, // nobody takes a job for its own by its labels
        },
    }
}

/// Why it waits, if that does not stand there yet, or was not told yet.
fn say(observed: &Observed, local: &LocalObject, dispatched: &Dispatched, now: &Now) -> Option<Step> {
    match manner::takes_condition(local.key.subject) {
        true => unkept::mirror(observed, local, manner::said(local, dispatched, &now.wall)?),
        false => tell(observed, local, dispatched),
    }
}

/// The same by an Event alone, once for the same words.
fn tell(observed: &Observed, local: &LocalObject, dispatched: &Dispatched) -> Option<Step> {
    let Dispatched { reason, message, .. } = dispatched;
    (!observed.memory.is_told(&local.uid, reason, message)).then(|| Step::Tell {
        local: local_target(local),
        reason: reason.clone(),
        message: message.clone(),
    })
}

/// Whether people are told of it by an Event: `kubectl describe` does not show the words of conditions.
pub fn is_news(dispatched: &Dispatched) -> bool {
    // On the worker it waits for something only if the worker says for what: `on a: 0/2 nodes are available`.
    let waits_there = dispatched.reason == "WaitingOnWorker" && dispatched.message.contains(": ");
    let is_held = dispatched.message.contains(going::HELD);
    let is_bad = ["WorkerUnreachable", undone::FORWARD_UNDONE].contains(&dispatched.reason.as_str());
    !dispatched.status || is_bad || is_held || waits_there
}

/// The condition line alone, if it does not stand there yet.
fn say_in_status(local: &LocalObject, dispatched: &Dispatched, now: &Now) -> Option<Step> {
    let patch = manner::said(local, dispatched, &now.wall)?;
    Some(Step::Mirror {
        local: local_target(local),
        patch: Box::new(patch),
    })
}

fn waiting(reason: &str, message: impl Into<String>) -> Dispatched {
    Dispatched {
        status: false,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// The manager's API server refused a write. Mostly an annotation of ours has no room, and the condition alone is taken; once
/// that is said, the same turn goes on to try the write again.
fn say_refused(observed: &Observed, local: &LocalObject, status: bool, now: &Now) -> Option<Step> {
    let words = observed.memory.write_refused.as_ref()?;
    let refused = Dispatched {
        status,
        reason: WRITE_REFUSED.to_owned(),
        message: format!(
            "the API server refuses to store what Portcullis writes on this {}: {words}",
            local.key.subject.noun()
        ),
    };
    say(observed, local, &refused, now)
}

fn mirror_pod_ips(observed: &Observed) -> bool {
    match &observed.policy {
        PolicySeen::Policy(rules) => rules.mirror_pod_ips,
        PolicySeen::NotOptedIn | PolicySeen::NotFound(_) => false,
    }
}

#[cfg(test)]
mod tests;
