//! A copy that is being deleted on its worker, and who holds it there.

use super::super::local::{Committed, LocalObject, RemoteObject};
use super::super::manner;
use super::super::observed::{Now, Observed, WorkerSeen};
use super::{Plan, say};
use crate::pod::mirror::Dispatched;
use crate::words::few;

/// The copy is being deleted on its worker, though its local object is not.
pub(super) const REMOTE_TERMINATING: &str = "RemoteTerminating";
/// Between what is said of a deletion and the finalizers that hold it up.
pub(super) const HELD: &str = "; it stays there until these finalizers are taken off: ";
/// Those of Kubernetes itself come off by themselves.
const PASSING: [&str; 3] = ["foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"];
/// An object may have any number.
const SHOWN: usize = 5;

/// The finalizers that hold it, in words; empty if there are none.
pub(super) fn held(remote: &RemoteObject) -> String {
    let theirs = keepers(&remote.finalizers);
    match theirs.is_empty() || !remote.terminating {
        true => String::new(),
        false => format!("{HELD}{theirs}"),
    }
}

/// Those of these finalizers that somebody has to take off.
pub(super) fn keepers(finalizers: &[String]) -> String {
    let passing = |name: &str| PASSING.contains(&name);
    let theirs: Vec<String> = finalizers.iter().filter(|name| !passing(name)).cloned().collect();
    few(&theirs, SHOWN)
}

/// What is said of one that was opened and goes there without its local object.
pub(super) fn words(worker: &WorkerSeen, remote: &RemoteObject) -> String {
    format!(
        "on {}: its copy is being deleted there, and follows no edits any more{}",
        worker.name,
        held(remote)
    )
}

/// All is done, but finalizers of others hold the local object.
pub(super) fn kept_here(observed: &Observed, local: &LocalObject, committed: &Committed, now: &Now) -> Plan {
    let keepers = keepers(&local.finalizers);
    let dispatched = Dispatched {
        status: local.seen_open,
        reason: "Terminating".to_owned(),
        message: format!(
            "its copy on {} is gone; it stays here until these finalizers are taken off: {keepers}",
            committed.cluster()
        ),
    };
    let is_kept = !keepers.is_empty() && manner::takes_condition(local.key.subject);
    let said = is_kept.then(|| say(observed, local, &dispatched, now)).flatten();
    said.map(Plan::step).unwrap_or_default()
}

/// A committed copy that was deleted before it was opened, and that somebody holds.
pub(super) fn held_before_open(
    observed: &Observed,
    local: &LocalObject,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Plan {
    let dispatched = Dispatched {
        status: local.seen_open,
        reason: REMOTE_TERMINATING.to_owned(),
        message: words(worker, remote),
    };
    let is_held = !held(remote).is_empty();
    let said = is_held.then(|| say(observed, local, &dispatched, now)).flatten();
    said.map(Plan::step).unwrap_or_default()
}
