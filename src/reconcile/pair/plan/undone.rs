//! Something on a worker undoes what its copy of a job was given: it is given it again ever more rarely, and people are told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::local::{Phase, RemoteObject};
use super::super::manner;
use super::super::observed::{Forwarded, Now, Observed, PolicySeen, WorkerSeen};
use crate::job::forward::{self, Allowed};
use crate::pod::mirror::Dispatched;
use crate::reconcile::step::Step;
use crate::reconcile::turns::ever_longer;

/// Something on the worker undoes edits of the job again and again.
pub(super) const FORWARD_UNDONE: &str = "ForwardUndone";
/// From so many repeats on people are told.
const TELL_FROM: u32 = 3;
/// Nothing was undone for so long: it is over.
const QUIET: Duration = Duration::from_secs(120);

/// How long this step waits: the copy was given the same before. What somebody edits in the job is never kept waiting.
pub(super) fn rest(forwarded: Option<&Forwarded>, step: &Step, now: &Now) -> Option<Duration> {
    let last = forwarded.filter(|last| is_same(last, step))?;
    let since = now.monotonic.saturating_duration_since(last.at);
    let rest = ever_longer(last.before).checked_sub(since)?;
    (!rest.is_zero()).then_some(rest)
}

/// What is said of a copy whose edits are undone again and again, and when that is over if nothing more is undone.
pub(super) fn said(
    forwarded: Option<&Forwarded>,
    remote: &RemoteObject,
    worker: &WorkerSeen,
    now: &Now,
) -> Option<(Dispatched, Duration)> {
    let last = forwarded.filter(|last| last.remote == remote.uid && last.before >= TELL_FROM)?;
    let over_in = QUIET.checked_sub(now.monotonic.saturating_duration_since(last.at))?;
    if over_in.is_zero() || remote.terminating || !matches!(remote.phase, Phase::Waiting | Phase::Running) {
        return None;
    }
    let message = format!(
        "{}: something there keeps changing {} of its copy; it is put back ever more rarely; look at what manages jobs there",
        worker.name, last.fields
    );
    let dispatched = Dispatched {
        status: true,
        reason: FORWARD_UNDONE.to_owned(),
        message,
    };
    Some((dispatched, over_in))
}

/// The memory of this forward, which was taken by the worker.
pub fn remembered(last: Option<Forwarded>, step: &Step, at: Instant) -> Option<Forwarded> {
    let Step::Forward {
        remote,
        patch,
        wanted,
        ..
    } = step
    else {
        return last;
    };
    let again = last
        .filter(|last| is_same(last, step) && at.saturating_duration_since(last.at) < QUIET)
        .map_or(0, |last| last.before.saturating_add(1));
    Some(Forwarded {
        remote: remote.uid.clone(),
        wanted: Arc::clone(wanted),
        fields: forward::fields(patch),
        at,
        before: again,
    })
}

/// The job wants something else than its copy was given last: what was undone before says nothing of what follows, though
/// the copy may be as it is wanted by chance.
pub fn is_void(observed: &Observed) -> bool {
    let (Some(last), Some(local)) = (&observed.memory.forwarded, &observed.local) else {
        return false;
    };
    *last.wanted != manner::wanted(local, allowed(observed))
}

/// What the policy says of metadata; nothing follows while there is none.
pub(super) fn allowed(observed: &Observed) -> Allowed<'_> {
    match &observed.policy {
        PolicySeen::Policy(rules) => Allowed {
            labels: &rules.forward.labels,
            annotations: &rules.forward.annotations,
        },
        PolicySeen::NotOptedIn | PolicySeen::NotFound(_) => Allowed::default(),
    }
}

fn is_same(last: &Forwarded, step: &Step) -> bool {
    matches!(step, Step::Forward { remote, wanted, .. } if remote.uid == last.remote && *wanted == last.wanted)
}
