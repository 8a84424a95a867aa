//! Writes on workers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Done, Executor, Failure, Way, unavailable};
use crate::cluster::api::{CallError, PatchKind, Preconditions};
use crate::cluster::raw::RawObject;
use crate::cluster::worker::connect::identify;
use crate::cluster::worker::line::Stand;
use crate::cluster::worker::space::NotUsable;
use crate::cluster::worker::{Connection, Worker};
use crate::names;
use crate::pod::sanitize::{NamespaceOwner, set_owner};
use crate::reconcile::faults::{Fault, dropped};
use crate::reconcile::pod::local::{Gate, PairKey, RemoteObject, Subject};
use crate::reconcile::step::{LocalTarget, RemoteTarget};

impl Executor {
    pub(super) async fn prepare(
        &self,
        name: &Arc<str>,
        local: &LocalTarget,
        copy: &Value,
        create_namespace: bool,
    ) -> Result<Done, Failure> {
        let Way {
            worker,
            connection,
            _place,
        } = self.worker(name, &local.key, Stand::Last)?;
        let namespace = &local.key.namespace;
        let space = worker
            .spaces
            .ensure(&connection, &self.origin, namespace, create_namespace)
            .await;
        let uid = space.map_err(|not_usable| not_usable_failure(name, not_usable))?;
        let mut copy = copy.clone();
        set_owner(
            &mut copy,
            &NamespaceOwner {
                name: namespace,
                uid: &uid,
            },
        );
        let path = local.key.subject.collection(namespace);
        match connection.clients.calls.create(&path, &copy).await {
            Ok(object) => remote(name, local.key.subject, &object),
            Err(CallError::Answered {
                code: 409,
                ref reason,
                ..
            }) if reason == "AlreadyExists" => self.who_has_the_name(&worker, &connection, &local.key).await,
            Err(error) => Err(create_failure(&worker, namespace, error)),
        }
    }

    /// Our own create may have taken effect though its answer was lost; or the name is another's.
    async fn who_has_the_name(
        &self,
        worker: &Worker,
        connection: &Connection,
        key: &PairKey,
    ) -> Result<Done, Failure> {
        let name = &worker.name;
        match connection.clients.calls.get(&key.path()).await {
            Ok(object) if RemoteObject::is_ours(object.json(), &self.origin) => {
                remote(name, key.subject, &object)
            }
            Ok(_) => Err(Failure::Refused {
                worker: name.clone(),
                reason: "NameTaken".to_owned(),
                message: format!(
                    "a {} {key} that is not of this origin exists there; it is left alone",
                    key.subject.noun()
                ),
            }),
            Err(CallError::Answered { code: 404, .. }) => Err(Failure::NotYet {
                worker: name.clone(),
                reason: "NameWasTaken".to_owned(),
                message: "the name was taken a moment ago and is free now".to_owned(),
            }),
            Err(error) => Err(unavailable(name, &error)),
        }
    }

    pub(super) async fn open(
        &self,
        target: &RemoteTarget,
        gate: Gate,
        patch: &Value,
    ) -> Result<Done, Failure> {
        let Way {
            connection, _place, ..
        } = self.worker(&target.worker, &target.key, Stand::First)?;
        let mut patch = patch.clone();
        if let (true, Some(operations)) = (dropped(Fault::OpenUid), patch.as_array_mut()) {
            operations.remove(0);
        }
        let path = target.key.path();
        match connection
            .clients
            .calls
            .patch(&path, PatchKind::Json, &patch)
            .await
        {
            Ok(object) => remote(&target.worker, target.key.subject, &object),
            Err(CallError::Answered {
                code: code @ (404 | 409 | 422),
                message,
                ..
            }) => {
                let seen = self.look_at_remote(&connection, target).await?;
                let still_gated = matches!(&seen, Done::Remote { object, .. } if object.uid == target.uid && object.gate == Some(gate));
                match (still_gated, code) {
                    (true, 422) => Err(Failure::NotYet {
                        worker: target.worker.clone(),
                        reason: "OpenRefused".to_owned(),
                        message,
                    }),
                    (true | false, _) => Err(Failure::Stale(seen)),
                }
            }
            Err(CallError::Answered {
                code: 403, message, ..
            }) => Err(Failure::NotYet {
                worker: target.worker.clone(),
                reason: "OpenForbidden".to_owned(),
                message,
            }),
            Err(error) => Err(unavailable(&target.worker, &error)),
        }
    }

    /// Puts our marks back. A UID in the body is a precondition.
    pub(super) async fn remark(
        &self,
        target: &RemoteTarget,
        origin: &Arc<str>,
        local: &LocalTarget,
        attempt: u64,
    ) -> Result<Done, Failure> {
        let Way {
            connection, _place, ..
        } = self.worker(&target.worker, &target.key, Stand::First)?;
        let patch = json!({"metadata": {
            "uid": &*target.uid,
            "labels": {names::ORIGIN: &**origin},
            "annotations": {
                names::LOCAL_UID: &*local.uid,
                names::LOCAL_NAME: local.key.to_string(),
                names::LOCAL_ATTEMPT: attempt.to_string(),
            },
        }});
        let path = target.key.path();
        match connection
            .clients
            .calls
            .patch(&path, PatchKind::Merge, &patch)
            .await
        {
            Ok(object) => remote(&target.worker, target.key.subject, &object),
            Err(CallError::Answered {
                code: 404 | 409 | 422,
                ..
            }) => Err(Failure::Stale(self.look_at_remote(&connection, target).await?)),
            Err(CallError::Answered {
                code: 403, message, ..
            }) => Err(Failure::NotYet {
                worker: target.worker.clone(),
                reason: "MarksForbidden".to_owned(),
                message,
            }),
            Err(error) => Err(unavailable(&target.worker, &error)),
        }
    }

    /// Whatever the namespace says is kept with the worker; a refusal is an answer too.
    pub(super) async fn ask_consent(&self, name: &Arc<str>, key: &PairKey) -> Result<Done, Failure> {
        let Way {
            worker,
            connection,
            _place,
        } = self.worker(name, key, Stand::First)?;
        match worker
            .spaces
            .ensure(&connection, &self.origin, &key.namespace, false)
            .await
        {
            Ok(_) | Err(NotUsable::Refused { .. }) => Ok(Done::Read),
            Err(not_usable) => Err(not_usable_failure(name, not_usable)),
        }
    }

    /// With the UID always, with the resourceVersion for a take-back.
    pub(super) async fn delete(
        &self,
        target: &RemoteTarget,
        resource_version: Option<&Arc<str>>,
    ) -> Result<Done, Failure> {
        let Way {
            connection, _place, ..
        } = self.worker(&target.worker, &target.key, Stand::First)?;
        let path = target.key.path();
        let resource_version = resource_version.filter(|_| !dropped(Fault::TakeBackVersion));
        let only = Preconditions {
            uid: &target.uid,
            resource_version: resource_version.map(|version| &**version),
        };
        let api = &connection.clients.calls;
        let answer = match dropped(Fault::DeleteUid) {
            true => api.delete_with(&path, &json!({})).await,
            false => api.delete(&path, only).await,
        };
        match answer {
            Ok(_) => Ok(Done::Leaving {
                worker: target.worker.clone(),
                key: target.key.clone(),
                uid: target.uid.clone(),
            }),
            Err(CallError::Answered { code: 404 | 409, .. }) => {
                Err(Failure::Stale(self.look_at_remote(&connection, target).await?))
            }
            Err(CallError::Answered {
                code: 403, message, ..
            }) => Err(Failure::NotYet {
                worker: target.worker.clone(),
                reason: "DeleteForbidden".to_owned(),
                message,
            }),
            Err(error) => Err(unavailable(&target.worker, &error)),
        }
    }

    /// Rule P. The cluster that answers must be the one that the commit names, so its identity is read after the
    /// pod: a cluster that answers as itself afterwards was itself before, as the client's address is fixed.
    pub(super) async fn prove_remote_gone(
        &self,
        target: &RemoteTarget,
        cluster_uid: &Arc<str>,
    ) -> Result<Done, Failure> {
        let proven = |target: &RemoteTarget| Done::ProvenGone {
            worker: target.worker.clone(),
            key: target.key.clone(),
            cluster_uid: cluster_uid.clone(),
            uid: target.uid.clone(),
        };
        if dropped(Fault::RemoteProof) {
            return Ok(proven(target));
        }
        let Way {
            connection, _place, ..
        } = self.worker(&target.worker, &target.key, Stand::First)?;
        match self.look_at_remote(&connection, target).await? {
            Done::Absent { .. } => {}
            seen => return Ok(seen),
        }
        let unidentified = |words: String| Failure::Unavailable {
            cluster: target.worker.clone(),
            words,
        };
        let uid = identify(&connection.clients)
            .await
            .map_err(|problem| unidentified(problem.message))?;
        if uid == *cluster_uid {
            Ok(proven(target))
        } else {
            Err(unidentified("another cluster answers there now".to_owned()))
        }
    }

    async fn look_at_remote(&self, connection: &Connection, target: &RemoteTarget) -> Result<Done, Failure> {
        let absent = || Done::Absent {
            worker: target.worker.clone(),
            key: target.key.clone(),
            uid: target.uid.clone(),
        };
        match connection.clients.calls.get(&target.key.path()).await {
            Ok(object) => match remote(&target.worker, target.key.subject, &object)? {
                Done::Remote { object, .. } if object.uid != target.uid => Ok(absent()),
                seen => Ok(seen),
            },
            Err(CallError::Answered { code: 404, .. }) => Ok(absent()),
            Err(error) => Err(unavailable(&target.worker, &error)),
        }
    }
}

fn remote(worker: &Arc<str>, subject: Subject, object: &RawObject) -> Result<Done, Failure> {
    match RemoteObject::parse(subject, object.json().clone()) {
        Ok(object) => Ok(Done::Remote {
            worker: worker.clone(),
            object: Box::new(object),
        }),
        Err(error) => Err(Failure::Unavailable {
            cluster: worker.clone(),
            words: format!("the answer is no readable {}: {error}", subject.noun()),
        }),
    }
}

fn not_usable_failure(worker: &Arc<str>, not_usable: NotUsable) -> Failure {
    match not_usable {
        NotUsable::Refused { reason, message } => Failure::Refused {
            worker: worker.clone(),
            reason: reason.to_owned(),
            message,
        },
        NotUsable::NotYet { reason, message } => Failure::NotYet {
            worker: worker.clone(),
            reason: reason.to_owned(),
            message,
        },
        NotUsable::Call(error) => unavailable(worker, &error),
    }
}

/// A refusal is a verdict of that worker, never a failure of the pod (R27). What a new or dying namespace causes
/// passes by itself.
fn create_failure(worker: &Worker, namespace: &str, error: CallError) -> Failure {
    let name = &worker.name;
    let CallError::Answered {
        code,
        reason,
        message,
    } = error
    else {
        return unavailable(name, &error);
    };
    let passing = message.contains("is being terminated")
        || message.contains("serviceaccount") && message.contains("not found");
    match (code, passing) {
        (404, _) | (403, true) => {
            worker.spaces.forget(namespace);
            Failure::NotYet {
                worker: name.clone(),
                reason: "NamespaceNotReady".to_owned(),
                message,
            }
        }
        (400 | 403 | 413 | 422, _) => Failure::Refused {
            worker: name.clone(),
            reason: word(code, &reason),
            message,
        },
        (_, _) => unavailable(
            name,
            &CallError::Answered {
                code,
                reason,
                message,
            },
        ),
    }
}

fn word(code: u16, reason: &str) -> String {
    if reason.is_empty() {
        format!("HTTP{code}")
    } else {
        reason.to_owned()
    }
}
