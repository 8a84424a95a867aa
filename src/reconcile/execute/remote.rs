//! Writes on workers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::prepare::not_usable_failure;
use super::{Done, Executor, Failure, Way, is_absent, unavailable};
use crate::cluster::api::{CallError, PatchKind, Preconditions};
use crate::cluster::raw::RawObject;
use crate::cluster::worker::Connection;
use crate::cluster::worker::connect::identify;
use crate::cluster::worker::line::Stand;
use crate::cluster::worker::space::NotUsable;
use crate::names;
use crate::reconcile::faults::{Fault, dropped};
use crate::reconcile::pair::local::{Gate, PairKey, RemoteObject, Subject};
use crate::reconcile::step::{LocalTarget, RemoteTarget};

impl Executor {
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

    /// Takes over what the user changed. Its patch tests the UID, and that the copy is opened.
    pub(super) async fn forward(
        &self,
        target: &RemoteTarget,
        resource_version: &Arc<str>,
        patch: &Value,
    ) -> Result<Done, Failure> {
        let Way {
            connection, _place, ..
        } = self.worker(&target.worker, &target.key, Stand::First)?;
        let api = &connection.clients.calls;
        match api.patch(&target.key.path(), PatchKind::Json, patch).await {
            Ok(object) => remote(&target.worker, target.key.subject, &object),
            Err(CallError::Answered {
                code: code @ (400 | 403 | 404 | 409 | 422),
                message,
                ..
            }) => {
                let seen = self.look_at_remote(&connection, target).await?;
                let unchanged = matches!(&seen, Done::Remote { object, .. } if object.resource_version == *resource_version);
                match (unchanged, code) {
                    (true, 400 | 403 | 422) => Err(Failure::NotYet {
                        worker: target.worker.clone(),
                        reason: "ChangeRefused".to_owned(),
                        message,
                    }),
                    (true | false, _) => Err(Failure::Stale(seen)),
                }
            }
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
            false => {
                let propagation = target.key.subject.propagation();
                api.delete_with_owned(&path, only, propagation).await
            }
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
                code: code @ (400 | 403 | 422),
                message,
                ..
            }) => Err(Failure::NotYet {
                worker: target.worker.clone(),
                reason: match code {
                    403 => "DeleteForbidden".to_owned(),
                    _ => "DeleteRefused".to_owned(),
                },
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
            Err(error) if is_absent(&error, &target.key) => Ok(absent()),
            Err(error) => Err(unavailable(&target.worker, &error)),
        }
    }
}

pub(super) fn remote(worker: &Arc<str>, subject: Subject, object: &RawObject) -> Result<Done, Failure> {
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
