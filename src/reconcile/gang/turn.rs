//! One turn of one job: observe, plan, execute, learn, until nothing is left to do.

mod tell;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::tell::effect;
use super::answers::Answer;
use super::cluster::{GROUP_APIS, GangCluster};
use super::execute::{Done, Failure, Step, Why, execute};
use super::metrics::GangMetrics;
use super::observed::{LauncherSeen, Memory, Observed};
use super::plan::{Plan, plan};
use super::scope::Scope;
use super::store::{JobKey, Seen};
use crate::cluster::api::CallError;
use crate::gang::hold;
use crate::names;
use crate::reconcile::events::Notes;
use crate::reconcile::queue::Queue;
use crate::reconcile::turns::{LONGEST_PAUSE, TakesTurns, Turn, pause};
use crate::workload::jobs::gang_kind;

/// More steps in one turn than any plan needs: something disagrees with itself.
const MOST_STEPS: usize = 16;
/// After a launcher was deleted its Job's controller makes a new one.
const LAUNCHER_PAUSE: Duration = Duration::from_millis(200);

/// Takes turns.
pub struct Turns {
    cluster: Arc<GangCluster>,
    notes: Notes,
    metrics: Arc<GangMetrics>,
}

impl Turns {
    /// Over this cluster.
    pub fn new(cluster: Arc<GangCluster>, notes: Notes, metrics: Arc<GangMetrics>) -> Self {
        Self {
            cluster,
            notes,
            metrics,
        }
    }
}

impl TakesTurns for Turns {
    type Key = JobKey;

    fn queue(&self) -> &Queue<JobKey> {
        &self.cluster.queue
    }

    async fn take(&self, key: &JobKey, failures: u32) -> Turn {
        let mut previous: Vec<Step> = Vec::new();
        let mut taken = 0;
        loop {
            let now = Instant::now();
            let Some(mut observed) = self.observe(key, now) else {
                self.cluster.memories.forget(key);
                self.cluster.answers.forget(key);
                self.metrics.held.gone(&(self.cluster.scope.name(), key.clone()));
                return Turn::default();
            };
            if observed.copy.is_some() && !self.cluster.is_asked() {
                return Turn::default(); // what it serves will tell
            }
            if observed.label.is_none()
                && hold::is_left(observed.kind, observed.object())
                && let Err(error) = self.look_at_namespace(&mut observed).await
            {
                tracing::warn!(job = %key, words = error.words(), "the namespace of a held job is not readable");
                return Turn::failed(pause(failures));
            }
            let Plan {
                steps,
                notices,
                look_again,
                keeps_hold: _,
                may_open,
            } = plan(&observed, now);
            let waits_for = notices.iter().rev().find(|notice| notice.reason.is_wait());
            let waits_for = waits_for.map(|notice| notice.sentence.clone());
            for notice in notices {
                self.note(&observed, notice);
            }
            if steps.is_empty() {
                self.answer(&observed, may_open, waits_for);
                return Turn::done(look_again);
            }
            if steps == previous || taken > MOST_STEPS {
                let steps: Vec<&str> = steps.iter().map(Step::name).collect();
                tracing::warn!(job = %key, steps = steps.join(", "), "steps that were taken are planned again; they are tried later");
                return Turn::failed(pause(failures));
            }
            for step in &steps {
                taken += 1;
                let before = step.group().and_then(|key| self.cluster.store.group(key));
                let result = execute(&self.cluster.clients.calls, step).await;
                self.metrics
                    .step(step.name(), result.as_ref().err().map_or("ok", Failure::name));
                tracing::debug!(job = %key, step = step.name(), ok = result.is_ok(), "step");
                let (is_old_view, is_seen) = match result {
                    Ok(Done::LauncherDeleted) => {
                        self.learn(&observed, step, before.as_ref(), Done::LauncherDeleted);
                        return Turn::done(Some(LAUNCHER_PAUSE));
                    }
                    Ok(done) => (false, self.learn(&observed, step, before.as_ref(), done)),
                    Err(Failure::Stale(done)) => (true, self.absorb(&observed, before.as_ref(), *done)),
                    Err(failure) => {
                        let pause = self.suffer(&observed, step, failure, failures);
                        // A hold ends in time, whatever the pause.
                        return Turn::failed(look_again.map_or(pause, |delay| delay.min(pause)));
                    }
                };
                if !is_seen {
                    tracing::debug!(job = %key, step = step.name(), "the answer came late: what it shows is gone since");
                    return Turn::failed(pause(failures));
                }
                if is_old_view {
                    break;
                }
            }
            previous = steps;
        }
    }
}

impl Turns {
    fn observe(&self, key: &JobKey, now: Instant) -> Option<Observed<'_>> {
        let cluster = &self.cluster;
        let job = cluster.store.job(key)?;
        let kind = gang_kind(&key.resource.api_version(), key.resource.kind)?;
        let knows = GROUP_APIS
            .iter()
            .filter(|api| cluster.knows(**api))
            .map(|api| (api.group, api.plural))
            .collect();
        let mut observed = Observed {
            key: key.clone(),
            kind,
            copy: cluster.scope.stage(key, &job),
            label: cluster.scope.label(&key.namespace),
            dispatched: cluster.scope.is_dispatched(&key.namespace),
            served: cluster.served(),
            facts: cluster.facts(),
            hold_timeout: cluster.configuration.hold_timeout,
            delete_on_finish: cluster.configuration.delete_on_finish,
            knows,
            knows_pods: cluster.knows_pods(),
            groups: &cluster.store,
            memory: cluster.memories.of(key, &job.uid),
            job,
        };
        let held = observed.is_held();
        let uid = observed.job.uid.clone();
        self.metrics
            .held
            .is(&(cluster.scope.name(), key.clone()), &uid, held, now);
        match (held, observed.memory.held_since) {
            (true, None) => {
                cluster
                    .memories
                    .change(key, &uid, |memory| memory.held_since = Some(now));
                observed.memory.held_since = Some(now);
            }
            (false, Some(_)) => {
                cluster.memories.change(key, &uid, |memory| {
                    memory.held_since = None;
                    memory.launcher = LauncherSeen::Unknown;
                });
                observed.memory.held_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        Some(observed)
    }

    /// Whoever committed a copy is told what it waits for.
    fn answer(&self, observed: &Observed<'_>, may_open: bool, waits_for: Option<String>) {
        if !observed.is_held() || observed.copy.is_none() {
            return;
        }
        let answer = match may_open {
            true => Answer::Stands,
            false => Answer::Awaited(waits_for),
        };
        let (key, uid) = (&observed.key, &observed.job.uid);
        if self.cluster.answers.set(key, uid, answer)
            && let Scope::Copies(copies) = &self.cluster.scope
        {
            copies.pairs.look_at(key);
        }
    }

    /// The watch of namespaces may be behind that of jobs, and then a held job looks like one whose namespace is no gang's
    /// any more. So before its hold ends for that, the namespace is asked.
    async fn look_at_namespace(&self, observed: &mut Observed<'_>) -> Result<(), CallError> {
        let path = format!("/api/v1/namespaces/{}", observed.key.namespace);
        let namespace = match self.cluster.clients.calls.get(&path).await {
            Ok(answer) => serde_json::from_str::<Value>(answer.json()).unwrap_or_default(),
            Err(CallError::Answered { code: 404, .. }) => Value::Null,
            Err(error) => return Err(error),
        };
        let label = |key: &str| namespace.pointer("/metadata/labels")?.get(key)?.as_str();
        observed.label = label(names::GANG).map(Into::into);
        observed.dispatched = label(names::DISPATCH).is_some();
        Ok(())
    }

    /// False if what the answer shows is gone since.
    fn learn(&self, observed: &Observed<'_>, step: &Step, before: Option<&Seen>, done: Done) -> bool {
        match (step, &done) {
            (Step::Create { .. } | Step::Update { .. } | Step::Look { .. }, Done::Group(_, seen)) => {
                let uid = seen.uid.clone();
                self.remember(observed, |memory| {
                    memory.proven.insert(uid);
                    memory.met_owner = 0;
                    memory.refused = None;
                });
            }
            (_, Done::LauncherGood) => self.remember(observed, |memory| memory.launcher = LauncherSeen::Good),
            (_, Done::LauncherDeleted) => {
                self.remember(observed, |memory| {
                    memory.launcher = LauncherSeen::Deleted(Instant::now());
                });
            }
            // After a delete it is awaited; without one, it will be made from the marked template.
            (_, Done::LauncherAbsent) if observed.memory.launcher == LauncherSeen::Unknown => {
                self.remember(observed, |memory| memory.launcher = LauncherSeen::Good);
            }
            // A launcher that was as its template is so no longer.
            (Step::PatchJob { why: Why::Mark, .. }, _) => {
                self.remember(observed, |memory| memory.launcher = LauncherSeen::Unknown);
            }
            _ => {}
        }
        if let Some((reason, message)) = effect(step, before) {
            self.done(observed, reason, message);
        }
        self.absorb(observed, before, done)
    }

    /// `before` is the group that was seen when the call was made. False if what the answer shows is gone since.
    fn absorb(&self, observed: &Observed<'_>, before: Option<&Seen>, done: Done) -> bool {
        let store = &self.cluster.store;
        let before = before.map(|seen| &*seen.uid);
        match done {
            Done::Group(key, seen) => store.group_answered(key, seen, before),
            Done::NoGroup(key) => {
                if let Some(uid) = before {
                    store.group_gone(&key, uid);
                }
                true
            }
            Done::Job(key, seen) => store.job_answered(key, seen, &observed.job.uid),
            Done::NoJob(key) => {
                store.job_gone(&key, &observed.job.uid);
                true
            }
            Done::LauncherGood | Done::LauncherAbsent | Done::LauncherDeleted => true,
        }
    }

    fn remember(&self, observed: &Observed<'_>, change: impl FnOnce(&mut Memory)) {
        let (key, uid) = (&observed.key, &observed.job.uid);
        self.cluster.memories.change(key, uid, change);
    }

    fn suffer(&self, observed: &Observed<'_>, step: &Step, failure: Failure, failures: u32) -> Duration {
        let words = match failure {
            Failure::Stale(_) => String::new(),
            Failure::Owned { message } => {
                self.remember(observed, |memory| memory.met_owner += 1);
                message
            }
            Failure::Refused { message } => {
                self.tell(
                    observed,
                    "PodGroupRefused",
                    format!("{}: {message}", step.name()),
                    true,
                );
                message
            }
            Failure::Ending => {
                tracing::debug!(job = %observed.key, step = step.name(), "its namespace is being deleted");
                return LONGEST_PAUSE;
            }
            // No answer is no refusal, and time without the API is no time in which a group could have been made.
            Failure::Unavailable { words } => {
                self.remember(observed, |memory| {
                    memory.held_since = memory.held_since.map(|_| Instant::now());
                    memory.refused = None;
                });
                tracing::warn!(job = %observed.key, step = step.name(), words, "a step of a gang had no answer; it is tried again");
                return pause(failures);
            }
        };
        self.remember(observed, |memory| memory.refused = Some(words.clone()));
        self.answer(observed, false, Some(words.clone()));
        tracing::warn!(job = %observed.key, step = step.name(), words, "a step of a gang failed; it is tried again");
        pause(failures)
    }
}
