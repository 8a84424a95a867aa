//! What failed, and what users hear of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Turns;
use crate::pod::mirror::Dispatched;
use crate::reconcile::events::Note;
use crate::reconcile::execute::Failure;
use crate::reconcile::pair::local::PairKey;
use crate::reconcile::pair::observed::{Observed, RefusedStatus, Verdict};
use crate::reconcile::pair::plan::{SUSPENDED, WRITE_REFUSED, gist, is_news};
use crate::reconcile::step::{ENDED_HERE, Step};
use crate::reconcile::turns::{Turn, ever_longer, pause};

const FIRST_VERDICT: Duration = Duration::from_secs(5);
const LONGEST_VERDICT: Duration = Duration::from_secs(300);
/// After so many failures in a row the pod is told.
const TELL_AFTER: u32 = 5;
const NOT_YET: Duration = Duration::from_secs(1);
/// What passes by itself mostly does so within these tries; then it is told.
const PATIENCE: u32 = 2;

impl Turns {
    pub(super) fn suffer(&self, observed: &Observed, step: &Step, failure: Failure, failures: u32) -> Turn {
        let key = &observed.key;
        match failure {
            Failure::Stale(_) => Turn::done(Some(Duration::ZERO)),
            Failure::Refused {
                worker,
                reason,
                message,
            } => {
                self.refuse(key, &worker, &reason, &message);
                self.metrics.refused(key.subject, &worker);
                if let Some(local) = &observed.local {
                    self.notes.warn(local, &reason, &format!("{worker}: {message}"));
                }
                Turn::done(Some(Duration::ZERO))
            }
            Failure::NotYet {
                worker,
                reason,
                message,
            } => {
                tracing::info!(kind = key.subject.noun(), object = %key, %worker, %reason, %message, "not yet");
                self.wait(key, &worker, &reason, &message);
                if let Some(local) = observed.local.as_ref().filter(|_| failures >= PATIENCE) {
                    self.notes.warn(local, &reason, &format!("{worker}: {message}"));
                }
                Turn::failed(pause(failures).max(NOT_YET))
            }
            Failure::Content { message } => {
                self.remember_refused(key, step);
                tracing::warn!(kind = key.subject.noun(), object = %key, step = step.name(), %message, "the manager refuses what we write");
                if let Some(local) = &observed.local {
                    self.notes.warn(local, WRITE_REFUSED, &message);
                    // An uncommitted pod whose condition is refused goes on to its commit all the same.
                    if matches!(step, Step::Commit { .. }) || local.committed().is_some() {
                        self.world
                            .memories
                            .change(key, |memory| memory.write_refused = Some(message));
                    }
                }
                Turn::failed(pause(failures).max(NOT_YET))
            }
            Failure::Busy => Turn::default(), // `steps` ends before
            Failure::Unavailable { cluster, words } => {
                tracing::info!(kind = key.subject.noun(), object = %key, step = step.name(), %cluster, %words, "no usable answer");
                if let Some(local) = observed.local.as_ref().filter(|_| failures >= TELL_AFTER) {
                    let sentence = format!("{} on {cluster}: {words}; it is tried again", step.name());
                    self.notes.warn(local, "NoAnswer", &sentence);
                }
                Turn::failed(pause(failures))
            }
        }
    }

    /// The same status is not tried again before its pause is over.
    fn remember_refused(&self, key: &PairKey, step: &Step) {
        let Step::Mirror { local, patch } = step else {
            return;
        };
        let (uid, gist) = (local.uid.clone(), Arc::new(gist(patch)));
        self.world.memories.change(key, |memory| {
            let same = memory.refused.take();
            let same = same.filter(|refused| refused.uid == uid && refused.gist == gist);
            let before = same.map_or(0, |refused| refused.before.saturating_add(1));
            memory.refused = Some(RefusedStatus {
                uid,
                gist,
                until: Instant::now() + ever_longer(before),
                before,
            });
        });
    }

    pub(super) fn refuse(&self, key: &PairKey, worker: &Arc<str>, reason: &str, message: &str) {
        self.world.memories.change(key, |memory| {
            let refusals = memory.verdicts.get(worker).map_or(0, |verdict| verdict.refusals);
            let wait = FIRST_VERDICT
                .saturating_mul(1 << refusals.min(6))
                .min(LONGEST_VERDICT);
            let verdict = Verdict {
                reason: reason.to_owned(),
                message: message.to_owned(),
                until: Instant::now() + wait,
                refusals: refusals + 1,
            };
            memory.verdicts.insert(worker.clone(), verdict);
        });
    }

    /// A passing reason is shown like a verdict, but the same worker is asked again at once when it is over.
    fn wait(&self, key: &PairKey, worker: &Arc<str>, reason: &str, message: &str) {
        let shown = format!("{worker}: {message} ({reason})");
        self.world
            .memories
            .change(key, |memory| memory.passing = Some(shown));
    }

    pub(super) fn note(&self, observed: &Observed, step: &Step) {
        let Some(local) = &observed.local else { return };
        let note = match step {
            Step::Open { remote, .. } => Note::normal("Dispatched", format!("handed to {}", remote.worker)),
            Step::TakeBack { remote, reason, .. } => Note::warning(
                "TakenBack",
                format!("{} did not schedule it: {reason}", remote.worker),
            ),
            Step::Delete { remote, why, .. } if *why == ENDED_HERE => Note::warning(
                "EndedHere",
                format!(
                    "somebody else ended it here; its copy on {} is removed",
                    remote.worker
                ),
            ),
            Step::Fail { reason, message, .. } => Note::warning(reason, message.as_str()),
            Step::Expire { .. } => {
                Note::normal("Expired", "ended long enough ago for its ttlSecondsAfterFinished")
            }
            Step::Tell { reason, message, .. } => why(reason, message),
            Step::Mirror { patch, .. } => match waits(patch) {
                Some((reason, message)) => why(&reason, &message),
                None => return,
            },
            Step::Prepare { .. }
            | Step::Commit { .. }
            | Step::GiveUp { .. }
            | Step::Delete { .. }
            | Step::ClearCommit { .. }
            | Step::Remark { .. }
            | Step::Forward { .. }
            | Step::ReleaseFinalizer { .. }
            | Step::ProveRemoteGone { .. }
            | Step::AskConsent { .. }
            | Step::AskPods { .. }
            | Step::ProveLocalGone { .. }
            | Step::LookAtLocal { .. } => return,
        };
        self.notes.send(local, note);
    }
}

/// What users want themselves is no warning.
fn why(reason: &str, message: &str) -> Note {
    match reason == SUSPENDED {
        true => Note::reason(reason, message),
        false => Note::warning(reason, message),
    }
}

/// Why a pod waits, here or on its worker, if this patch says so.
fn waits(patch: &Value) -> Option<(String, String)> {
    let said = Dispatched::of(patch)?;
    is_news(&said).then_some((said.reason, said.message))
}
