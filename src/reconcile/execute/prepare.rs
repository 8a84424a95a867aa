//! The copy on a worker: made, and refused.

use std::sync::Arc;

use serde_json::Value;

use super::remote::remote;
use super::unfit::unfit;
use super::{Done, Executor, Failure, Way, unavailable};
use crate::cluster::api::{CallError, Preconditions};
use crate::cluster::worker::line::Stand;
use crate::cluster::worker::space::NotUsable;
use crate::cluster::worker::{Connection, Worker};
use crate::pod::sanitize::{NamespaceOwner, set_owner};
use crate::reconcile::pair::local::{PairKey, RemoteObject, Subject};
use crate::reconcile::step::LocalTarget;

/// Whether a pod was born without its gate, so that it may have started before it is deleted, and its worker's watch tells when
/// it is gone.
fn may_run(made: &RemoteObject) -> bool {
    made.key.subject == Subject::Pod
        && made.gate.is_none()
        && !made.origin.is_empty()
        && !made.local_uid.is_empty()
}

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
        if local.key.subject == Subject::Pod {
            let owner = NamespaceOwner {
                name: namespace,
                uid: &uid,
            };
            set_owner(&mut copy, &owner);
        }
        let path = local.key.subject.collection(namespace);
        match connection.clients.calls.create(&path, &copy).await {
            Ok(object) => {
                let made = remote(name, local.key.subject, &object)?;
                self.held(&worker, &connection, &copy, made).await
            }
            Err(CallError::Answered {
                code: 409,
                ref reason,
                ..
            }) if reason == "AlreadyExists" => self.who_has_the_name(&worker, &connection, &local.key).await,
            Err(error) => Err(create_failure(&worker, namespace, error)),
        }
    }

    /// A copy that cannot stay as it was made goes, and that worker gets no other one for a while.
    async fn held(
        &self,
        worker: &Worker,
        connection: &Connection,
        sent: &Value,
        made: Done,
    ) -> Result<Done, Failure> {
        let Done::Remote { worker: name, object } = &made else {
            return Ok(made);
        };
        let Some((reason, message)) = unfit(sent, object) else {
            return Ok(made);
        };
        let may_run = may_run(object);
        if may_run {
            worker.store.answered((**object).clone()); // as long as it stands there, no other one is made
        }
        let only = Preconditions {
            uid: &object.uid,
            resource_version: None,
        };
        let deleted = connection
            .clients
            .calls
            .delete_with_owned(&object.key.path(), only, object.key.subject.propagation())
            .await;
        let message = match deleted {
            Ok(_) | Err(CallError::Answered { code: 404 | 409, .. }) => {
                // If something keeps it there, the watch shows it again.
                if !may_run {
                    worker.store.gone(&object.key, &object.uid);
                }
                message
            }
            Err(CallError::Answered {
                code: 403,
                message: words,
                ..
            }) => format!("{message}; it could not be deleted: {words}"),
            Err(error) => return Err(unavailable(name, &error)),
        };
        Err(Failure::Refused {
            worker: name.clone(),
            reason: reason.to_owned(),
            message,
        })
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
}

pub(super) fn not_usable_failure(worker: &Arc<str>, not_usable: NotUsable) -> Failure {
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
