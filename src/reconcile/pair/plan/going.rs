//! A copy that is being deleted on its worker, and who holds it there.

use super::super::local::RemoteObject;
use super::super::observed::WorkerSeen;
use crate::words::few;

/// The copy is being deleted on its worker, though its local object is not.
pub(super) const REMOTE_TERMINATING: &str = "RemoteTerminating";
/// Between what is said of a deletion and the finalizers that hold it up.
pub(super) const HELD: &str = "; it stays there until these finalizers are taken off: ";
/// Those of the API server itself come off by themselves.
const PASSING: [&str; 2] = ["foregroundDeletion", "orphan"];
/// An object may have any number.
const SHOWN: usize = 5;

/// The finalizers that hold it, in words; empty if there are none.
pub(super) fn held(remote: &RemoteObject) -> String {
    let theirs: Vec<String> = remote
        .finalizers
        .iter()
        .filter(|name| !PASSING.contains(&name.as_str()))
        .cloned()
        .collect();
    match theirs.is_empty() || !remote.terminating {
        true => String::new(),
        false => format!("{HELD}{}", few(&theirs, SHOWN)),
    }
}

/// What is said of one that was opened and goes there without its local object.
pub(super) fn words(worker: &WorkerSeen, remote: &RemoteObject) -> String {
    format!(
        "on {}: its copy is being deleted there, and follows no edits any more{}",
        worker.name,
        held(remote)
    )
}
