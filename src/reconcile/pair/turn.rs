//! One turn of one pair: observe, plan, execute, learn from the answer, until nothing is left to do.

mod tell;
mod undone;

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use super::hearing::{self, Ask};
use super::local::{Gate, PairKey};
use super::observed::{Now, Observed};
use super::plan::{Plan, gist, is_void, plan, remembered};
use super::world::World;
use super::{vain, waits};
use crate::cluster::worker::events;
use crate::reconcile::events::Notes;
use crate::reconcile::execute::{Done, Executor, Failure};
use crate::reconcile::queue::Queue;
use crate::reconcile::step::{DELETED_HERE, Step};
use crate::reconcile::turns::{TakesTurns, Turn};

/// More steps in one turn than any plan needs: something disagrees with itself.
const MOST_STEPS: usize = 24;
/// The reason of a take-back.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Takes turns.
pub struct Turns {
    world: Arc<World>,
    executor: Executor,
    notes: Notes,
    metrics: Arc<super::metrics::PodMetrics>,
}

impl Turns {
    /// Over this world.
    pub fn new(
        world: Arc<World>,
        executor: Executor,
        notes: Notes,
        metrics: Arc<super::metrics::PodMetrics>,
    ) -> Self {
        Self {
            world,
            executor,
            notes,
            metrics,
        }
    }
}

impl TakesTurns for Turns {
    type Key = PairKey;

    fn queue(&self) -> &Queue<PairKey> {
        &self.world.queue
    }

    async fn take(&self, key: &PairKey, failures: u32) -> Turn {
        let mut previous: Vec<Step> = Vec::new();
        let mut taken = 0;
        let turn = loop {
            let now = now();
            let Some(mut observed) = self.world.observe(key, now.monotonic) else {
                break Turn::default();
            };
            if is_void(&observed) {
                observed.memory.forwarded = None;
                self.world.memories.change(key, |memory| memory.forwarded = None);
            }
            let Plan {
                steps,
                look_again,
                orphans,
            } = plan(&observed, &now);
            self.metrics.orphans(key, &orphans);
            if steps.is_empty() {
                self.forget_if_nothing_is_left(&observed);
                let look_again = match hearing::next(&observed.memory, now.monotonic) {
                    Some(Ask::Now(uid)) => {
                        self.hear(&observed, uid).await;
                        previous.clear();
                        continue;
                    }
                    Some(Ask::In(pause)) => Some(look_again.map_or(pause, |other| other.min(pause))),
                    None => look_again,
                };
                break Turn::done(look_again);
            }
            if let Some(rest) = vain::stuck_for(&observed.memory, &steps, now.monotonic) {
                break Turn::done(Some(look_again.map_or(rest, |other| other.min(rest))));
            }
            if steps == previous || taken > MOST_STEPS {
                break self.stuck(&observed, &steps);
            }
            match self.steps(&observed, &steps, &mut taken, failures).await {
                Ok(End::Again) => previous = steps,
                Ok(End::Wait) => break Turn::done(look_again),
                Ok(End::InLine) => {
                    // It goes on deciding for its workload: else each of its pods would come and stand in line.
                    self.pass_on(key);
                    return Turn::done(look_again);
                }
                Err(turn) => break turn,
            }
        };
        self.pass_on(key);
        self.release(key);
        turn
    }
}

impl Turns {
    async fn steps(
        &self,
        observed: &Observed,
        steps: &[Step],
        taken: &mut usize,
        failures: u32,
    ) -> Result<End, Turn> {
        let mut end = End::Again;
        // A change that the worker refuses keeps nothing else from being done, nor does its delete of what is deleted here
        // keep that from being told.
        let mut refused = None;
        for step in steps {
            *taken += 1;
            let started = Instant::now();
            let result = self.executor.execute(step).await;
            if let Err(Failure::Busy) = result {
                return Ok(End::InLine);
            }
            self.metrics.step(
                observed.key.subject,
                step.name(),
                result.as_ref().err().map_or("ok", Failure::name),
                started.elapsed(),
            );
            tracing::debug!(kind = observed.key.subject.noun(), object = %observed.key, step = step.name(), ok = result.is_ok(), "step");
            match result {
                Ok(done) => {
                    end = self.learn(observed, step, done);
                    self.note(observed, step);
                }
                Err(Failure::Stale(done)) => {
                    self.absorb(done);
                    return Ok(End::Again);
                }
                Err(failure) if is_shown_all_the_same(step) => {
                    refused = Some(self.suffer(observed, step, failure, failures));
                }
                Err(failure) => return Err(self.suffer(observed, step, failure, failures)),
            }
        }
        refused.map_or(Ok(end), Err)
    }

    /// The answer becomes part of the view, and of the memory where the rules need one.
    fn learn(&self, observed: &Observed, step: &Step, done: Done) -> End {
        let key = &observed.key;
        self.count(observed, step, &done);
        let end = match (step, &done) {
            (Step::TakeBack { remote, reason, .. }, Done::Leaving { .. }) => {
                self.world.memories.change(key, |memory| {
                    memory.taken_back.insert(remote.uid.clone()); // only now: rule 8
                });
                self.refuse(key, &remote.worker, UNSCHEDULABLE, reason);
                End::Wait
            }
            (Step::Delete { .. }, Done::Leaving { .. }) => End::Wait,
            (Step::Prepare { worker, .. }, _) => {
                self.world.memories.change(key, |memory| {
                    // A worker that takes the pod and never schedules it again is asked ever more rarely.
                    memory
                        .verdicts
                        .retain(|name, verdict| name != worker || verdict.reason == UNSCHEDULABLE);
                    memory.passing = None;
                });
                End::Again
            }
            (Step::ProveRemoteGone { remote, .. }, Done::Remote { object, .. })
                if object.uid == remote.uid
                    && object.gate.is_some_and(|gate| gate != Gate::Loose)
                    && observed.local.as_ref().is_some_and(|local| local.seen_open) =>
            {
                self.world.memories.change(key, |memory| {
                    memory.rolled_back.insert(remote.uid.clone());
                });
                End::Again
            }
            (Step::ProveLocalGone { uid, .. }, Done::LocalGone { .. }) => {
                self.world.memories.change(key, |memory| {
                    memory.local_gone.insert(uid.clone());
                });
                End::Again
            }
            (Step::Mirror { local, patch }, Done::Local(object))
                if object.resource_version == local.resource_version =>
            {
                self.world.memories.change(key, |memory| {
                    memory.unkept = Some((local.uid.clone(), Arc::new(gist(patch))));
                    memory.write_refused = None;
                });
                End::Again
            }
            (Step::Commit { .. } | Step::Mirror { .. }, _) if observed.memory.write_refused.is_some() => {
                // A write was taken: what was refused before is over, or is refused again.
                self.world
                    .memories
                    .change(key, |memory| memory.write_refused = None);
                End::Again
            }
            (Step::Forward { .. }, _) => {
                self.world.memories.change(key, |memory| {
                    memory.forwarded = remembered(memory.forwarded.take(), step, Instant::now());
                });
                End::Again
            }
            (Step::AskPods { remote, status, .. }, Done::Pods(seen)) => {
                self.world.memories.change(key, |memory| {
                    let doubt = memory.doubt.take();
                    memory.doubt = waits::answered(doubt, &remote.uid, *status, seen.clone(), Instant::now());
                });
                End::Again
            }
            (Step::Open { .. }, _) => {
                self.world.memories.change(key, |memory| memory.passing = None);
                self.metrics.opened(key.subject);
                End::Again
            }
            (
                Step::Tell {
                    local,
                    reason,
                    message,
                },
                _,
            ) => {
                self.world
                    .memories
                    .change(key, |memory| memory.tell(&local.uid, reason, message));
                End::Again
            }
            _ => End::Again,
        };
        self.absorb(done);
        end
    }

    fn absorb(&self, done: Done) {
        match done {
            // What is not ours any more comes by no watch.
            Done::Local(object) if !object.concerns_us() => self.world.locals.unwatched(*object),
            Done::Local(object) => self.world.locals.answered(*object),
            Done::LocalGone { key, uid } => self.world.locals.gone(&key, &uid),
            Done::Remote { worker, object } => {
                if let Some(member) = self.world.fleet.get(&worker) {
                    match object.origin == self.world.origin {
                        true => member.worker.store.answered(*object),
                        false => member.worker.store.unwatched(*object),
                    }
                }
            }
            Done::Leaving { worker, key, uid } => {
                if let Some(member) = self.world.fleet.get(&worker) {
                    member
                        .worker
                        .store
                        .change(&key, &uid, |object| object.terminating = true);
                }
            }
            Done::ProvenGone {
                worker,
                key,
                cluster_uid,
                uid,
            } => {
                self.world.memories.change(&key, |memory| {
                    memory.remote_gone.insert((cluster_uid, uid.clone()));
                });
                self.drop_remote(&worker, &key, &uid);
            }
            Done::Pods(_) | Done::Read | Done::Nothing => {}
            Done::Absent { worker, key, uid } => self.drop_remote(&worker, &key, &uid),
        }
    }

    fn drop_remote(&self, worker: &Arc<str>, key: &PairKey, uid: &Arc<str>) {
        if let Some(member) = self.world.fleet.get(worker) {
            member.worker.store.gone(key, uid);
        }
    }

    /// Reads the worker's Events about the pod. No answer is no news: it is asked again later.
    async fn hear(&self, observed: &Observed, remote: Arc<str>) {
        let cluster = observed
            .local
            .as_ref()
            .and_then(|local| local.committed())
            .map(|committed| committed.cluster());
        let connection = cluster
            .and_then(|cluster| self.world.fleet.get(cluster))
            .filter(|member| member.worker.lost().is_none())
            .and_then(|member| Some((member.worker.name.clone(), member.worker.connection()?)));
        let warning = match connection {
            Some((worker, connection)) => {
                events::last_warning(&worker, &connection.clients.calls, &observed.key, &remote).await
            }
            None => None,
        };
        self.world.memories.change(&observed.key, |memory| {
            memory.heard = Some(hearing::heard(
                memory.heard.as_ref(),
                remote,
                warning,
                Instant::now(),
            ));
        });
    }

    fn forget_if_nothing_is_left(&self, observed: &Observed) {
        if observed.local.is_none() && observed.workers.iter().all(|worker| worker.remote.is_none()) {
            self.world.memories.forget(&observed.key);
        }
    }

    /// A worker that called this pod, which then had nothing to do there, calls the next.
    fn pass_on(&self, key: &PairKey) {
        for member in self.world.fleet.all() {
            if let Some(next) = member.worker.line.pass(key) {
                self.world.queue.add(next);
            }
        }
    }

    /// Whoever waited for this pod's decision gets its turn.
    fn release(&self, key: &PairKey) {
        for waiting in self.world.deciders.done(key) {
            self.world.queue.add(waiting);
        }
    }
}

fn is_shown_all_the_same(step: &Step) -> bool {
    match step {
        Step::Forward { .. } => true,
        Step::Delete { why, .. } => *why == DELETED_HERE,
        _ => false,
    }
}

enum End {
    Again,
    Wait,
    /// The worker has enough to do; it calls.
    InLine,
}

fn now() -> Now {
    let wall = Timestamp::now();
    Now {
        monotonic: Instant::now(),
        wall: wall.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        epoch_seconds: wall.as_second(),
    }
}
