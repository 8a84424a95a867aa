//! A step -> one API call with its preconditions, and what the answer means. The only door to writes on pairs.
//!
//! A precondition that fails is 409 or, for a UID in a patch body and a JSON-patch `test`, 422: the same code as a
//! refusal of the content. So after either the object is read live: if what was required still holds, the content
//! was refused; if not, the view was old.

mod local;
mod pods;
mod prepare;
mod remote;
mod unfit;

use std::sync::Arc;

use super::faults::{Fault, dropped, hold};
use super::pair::local::{LocalObject, PairKey, RemoteObject, Subject};
use super::pair::world::World;
use super::queue::Queue;
use super::step::Step;
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::fleet::Fleet;
use crate::cluster::leading::Leading;
use crate::cluster::worker::line::Stand;
use crate::cluster::worker::{Connection, Worker};
use crate::job::pods::PodsSeen;
use crate::workload::jobs::JobKinds;

/// Makes the writes. Cannot be built without the proof of leading.
pub struct Executor {
    manager: ClusterApi,
    fleet: Arc<Fleet>,
    origin: Arc<str>,
    /// Calls to one worker at a time: one that hangs must leave room for the others (R44).
    most_per_worker: usize,
    /// Whoever waited for such a call gets a turn here.
    queue: Queue<PairKey>,
    /// The kinds that may be read on workers.
    kinds: JobKinds,
    _leading: Leading,
}

/// What an answer showed.
#[derive(Debug)]
pub enum Done {
    /// The local object as it is now.
    Local(Box<LocalObject>),
    /// No local object with this UID exists any more, for ever.
    LocalGone { key: PairKey, uid: Arc<str> },
    /// The remote object as it is now.
    Remote {
        worker: Arc<str>,
        object: Box<RemoteObject>,
    },
    /// The remote object is being deleted.
    Leaving {
        worker: Arc<str>,
        key: PairKey,
        uid: Arc<str>,
    },
    /// Rule P: gone for ever, said by the cluster that the commit names.
    ProvenGone {
        worker: Arc<str>,
        key: PairKey,
        cluster_uid: Arc<str>,
        uid: Arc<str>,
    },
    /// What the pods of a job there wait for; none: the worker did not say.
    Pods(Option<PodsSeen>),
    /// The namespace was read; what it says is kept with the worker.
    Read,
    /// There was nothing to ask.
    Nothing,
    /// Gone as far as this answer tells; whoever needs a proof asks for it.
    Absent {
        worker: Arc<str>,
        key: PairKey,
        uid: Arc<str>,
    },
}

/// Why a step did not happen.
#[derive(Debug)]
pub enum Failure {
    /// The view was old; `Done` is what is there now.
    Stale(Done),
    /// This worker does not take this object; another may.
    Refused {
        worker: Arc<str>,
        reason: String,
        message: String,
    },
    /// This worker will take it later.
    NotYet {
        worker: Arc<str>,
        reason: String,
        message: String,
    },
    /// The manager's API server refuses what we write.
    Content { message: String },
    /// Enough calls to this worker are under way; the pair stands in its line and gets a turn.
    Busy,
    /// No usable answer; it may have taken effect. Look again after a pause.
    Unavailable { cluster: Arc<str>, words: String },
}

impl Failure {
    /// A fixed name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stale(_) => "Stale",
            Self::Refused { .. } => "Refused",
            Self::NotYet { .. } => "NotYet",
            Self::Content { .. } => "Content",
            Self::Busy => "Busy",
            Self::Unavailable { .. } => "Unavailable",
        }
    }
}

impl Executor {
    /// An executor for the pairs of this manager, which makes `concurrency` steps at a time.
    pub fn new(manager: ClusterApi, world: &World, concurrency: usize, leading: Leading) -> Self {
        Self {
            manager,
            fleet: world.fleet.clone(),
            origin: world.origin.clone(),
            queue: world.queue.clone(),
            kinds: world.kinds,
            most_per_worker: (concurrency * 3 / 4).max(1),
            _leading: leading,
        }
    }

    /// Makes one step.
    ///
    /// # Errors
    /// [`Failure`]: what it means for the plan.
    pub async fn execute(&self, step: &Step) -> Result<Done, Failure> {
        hold(step.name(), step.key()).await;
        match step {
            Step::Prepare {
                worker,
                local,
                copy,
                create_namespace,
            } => self.prepare(worker, local, copy, *create_namespace).await,
            Step::Commit {
                local,
                finalizers,
                cluster_uid,
                remote,
            } => self.commit(local, finalizers, cluster_uid, remote).await,
            Step::GiveUp { local, attempt } => self.give_up(local, *attempt).await,
            Step::Open {
                committed: _,
                remote,
                gate,
                patch,
            } => self.open(remote, *gate, patch).await,
            Step::Forward {
                remote,
                resource_version,
                patch,
                wanted: _,
            } => self.forward(remote, resource_version, patch).await,
            Step::Expire { local } => self.expire(local).await,
            Step::Remark {
                remote,
                origin,
                local,
                attempt,
            } => self.remark(remote, origin, local, *attempt).await,
            Step::Delete {
                remote,
                why: _,
                unchanged,
            } => self.delete(remote, unchanged.as_ref()).await,
            Step::TakeBack {
                remote,
                resource_version,
                reason: _,
            } => self.delete(remote, Some(resource_version)).await,
            Step::ClearCommit {
                local,
                finalizers,
                attempt,
            } => self.clear_commit(local, finalizers, *attempt).await,
            Step::Mirror { local, patch }
            | Step::Fail {
                local,
                patch,
                reason: _,
                message: _,
            } => self.write_status(local, patch).await,
            Step::ReleaseFinalizer {
                local,
                index,
                same_version,
            } => self.release_finalizer(local, *index, *same_version).await,
            Step::ProveRemoteGone { remote, cluster_uid } => {
                self.prove_remote_gone(remote, cluster_uid).await
            }
            Step::ProveLocalGone { key, uid } if dropped(Fault::LocalProof) => Ok(Done::LocalGone {
                key: key.clone(),
                uid: uid.clone(),
            }),
            Step::AskPods {
                remote,
                selector,
                status: _,
            } => self.ask_pods(remote, selector.as_deref()).await,
            Step::AskConsent { worker, key } => self.ask_consent(worker, key).await,
            Step::ProveLocalGone { key, uid } => self.look_at_local(key, Some(uid)).await,
            Step::LookAtLocal { key } => self.look_at_local(key, None).await,
            Step::Tell { .. } => Ok(Done::Nothing), // the turn sends it with all other Events
        }
    }

    fn worker(&self, name: &Arc<str>, key: &PairKey, stand: Stand) -> Result<Way, Failure> {
        let unavailable = |words: &str| Failure::Unavailable {
            cluster: name.clone(),
            words: words.to_owned(),
        };
        let worker = self
            .fleet
            .get(name)
            .ok_or_else(|| unavailable("not registered"))?
            .worker;
        let connection = worker.connection().ok_or_else(|| unavailable("not connected"))?;
        if worker.is_suspect() {
            return Err(unavailable("the last ping was not answered"));
        }
        if !worker.line.enter(key, stand, self.most_per_worker) {
            return Err(Failure::Busy);
        }
        let place = Place {
            worker: worker.clone(),
            queue: self.queue.clone(),
        };
        Ok(Way {
            worker,
            connection,
            _place: place,
        })
    }
}

/// The way to a worker for one step.
struct Way {
    worker: Arc<Worker>,
    connection: Arc<Connection>,
    _place: Place,
}

/// A call that is under way. When it is over, whoever waited for it gets a turn.
struct Place {
    worker: Arc<Worker>,
    queue: Queue<PairKey>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(next) = self.worker.line.leave() {
            self.queue.add(next);
        }
    }
}

/// Whether the answer says that the object is not there. That a cluster does not know the kind, or not in this version any
/// more, is a 404 too and says nothing of the object.
fn is_absent(error: &CallError, key: &PairKey) -> bool {
    let CallError::Answered {
        code: 404,
        reason,
        message,
    } = error
    else {
        return false;
    };
    match key.subject {
        Subject::Pod => true,
        Subject::Job(_) => reason == "NotFound" && message.contains(&format!("{:?}", key.name)),
    }
}

fn unavailable(cluster: &Arc<str>, error: &CallError) -> Failure {
    Failure::Unavailable {
        cluster: cluster.clone(),
        words: error.words(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::jobs::JobSet;

    #[test]
    fn a_kind_that_is_not_served_is_no_proof_that_an_object_is_gone() {
        let key = |subject: Subject| PairKey {
            subject,
            namespace: "n".into(),
            name: "train".into(),
        };
        let answer = |reason: &str, message: &str| CallError::Answered {
            code: 404,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let set = key(Subject::Job(&JobSet));
        let gone = answer("NotFound", "jobsets.jobset.x-k8s.io \"train\" not found");
        assert!(is_absent(&gone, &set));
        for unknown in [
            answer("", "404 page not found"),
            answer("NotFound", "the server could not find the requested resource"),
        ] {
            assert!(!is_absent(&unknown, &set), "{unknown}");
        }
        assert!(
            is_absent(&answer("", ""), &key(Subject::Pod)),
            "pods are served everywhere"
        );
    }
}
