//! Writes on the manager.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Done, Executor, Failure, is_absent, unavailable};
use crate::cluster::api::{CallError, PatchKind, Preconditions};
use crate::cluster::raw::RawObject;
use crate::names;
use crate::reconcile::faults::{Fault, dropped, hold};
use crate::reconcile::pair::local::{LocalObject, PairKey, Subject};
use crate::reconcile::step::{LocalTarget, RemoteTarget};

impl Executor {
    pub(super) async fn commit(
        &self,
        local: &LocalTarget,
        finalizers: &[String],
        cluster_uid: &Arc<str>,
        remote: &RemoteTarget,
    ) -> Result<Done, Failure> {
        let finalizers = match dropped(Fault::FinalizerApart) {
            true => finalizers.to_vec(),
            false => with_ours(finalizers),
        };
        let mut patch = json!({"metadata": {
            "uid": &*local.uid,
            "finalizers": finalizers,
            "annotations": {
                names::CLUSTER: &*remote.worker,
                names::CLUSTER_UID: &**cluster_uid,
                names::REMOTE_UID: format!("{}/{}", local.uid, remote.uid),
            },
        }});
        if !dropped(Fault::CommitVersion) {
            patch["metadata"]["resourceVersion"] = (*local.resource_version).into();
        }
        let committed = self.patch_local(local, "", PatchKind::Merge, &patch).await?;
        if dropped(Fault::FinalizerApart) {
            hold("finalizer", &local.key).await;
            let second = json!({"metadata": {"uid": &*local.uid, "finalizers": with_ours(&finalizers)}});
            return self.patch_local(local, "", PatchKind::Merge, &second).await;
        }
        Ok(committed)
    }

    pub(super) async fn give_up(&self, local: &LocalTarget, attempt: u64) -> Result<Done, Failure> {
        let patch = json!({"metadata": {
            "uid": &*local.uid,
            "resourceVersion": &*local.resource_version,
            "annotations": {names::ATTEMPT: attempt.to_string()},
        }});
        self.patch_local(local, "", PatchKind::Merge, &patch).await
    }

    pub(super) async fn clear_commit(
        &self,
        local: &LocalTarget,
        finalizers: &[String],
        attempt: u64,
    ) -> Result<Done, Failure> {
        let finalizers: Vec<&String> = finalizers
            .iter()
            .filter(|name| *name != names::REMOTE_COPY)
            .collect();
        let mut patch = json!({"metadata": {
            "uid": &*local.uid,
            "finalizers": finalizers,
            "annotations": {
                names::CLUSTER: null,
                names::CLUSTER_UID: null,
                names::REMOTE_UID: null,
                names::REMOTE_NODE: null,
                names::ATTEMPT: attempt.to_string(),
            },
        }});
        if !dropped(Fault::ClearVersion) {
            patch["metadata"]["resourceVersion"] = (*local.resource_version).into();
        }
        self.patch_local(local, "", PatchKind::Merge, &patch).await
    }

    pub(super) async fn write_status(&self, local: &LocalTarget, patch: &Value) -> Result<Done, Failure> {
        let left_out: &[&str] = if dropped(Fault::StatusPreconditions) {
            &["uid", "resourceVersion"]
        } else if dropped(Fault::StatusVersion) {
            &["resourceVersion"]
        } else {
            return self.patch_local(local, "/status", PatchKind::Merge, patch).await;
        };
        let mut patch = patch.clone();
        for field in left_out {
            if let Some(metadata) = patch["metadata"].as_object_mut() {
                metadata.remove(*field);
            }
        }
        self.patch_local(local, "/status", PatchKind::Merge, &patch).await
    }

    pub(super) async fn release_finalizer(
        &self,
        local: &LocalTarget,
        index: usize,
        same_version: bool,
    ) -> Result<Done, Failure> {
        let place = format!("/metadata/finalizers/{index}");
        let mut patch = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": &*local.uid}),
            json!({"op": "test", "path": &place, "value": names::REMOTE_COPY}),
        ];
        if same_version {
            let version = &*local.resource_version;
            patch.push(json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
        }
        patch.push(json!({"op": "remove", "path": &place}));
        self.patch_local(local, "", PatchKind::Json, &patch.into()).await
    }

    /// Deletes an ended job whose time is over. With the version as seen: somebody may just have given it more.
    pub(super) async fn expire(&self, local: &LocalTarget) -> Result<Done, Failure> {
        let only = Preconditions {
            uid: &local.uid,
            resource_version: Some(&local.resource_version),
        };
        let propagation = local.key.subject.propagation();
        match self
            .manager
            .delete_with_owned(&local.key.path(), only, propagation)
            .await
        {
            Ok(_) => self.look_at_local(&local.key, Some(&local.uid)).await,
            Err(CallError::Answered { code: 404 | 409, .. }) => Err(Failure::Stale(
                self.look_at_local(&local.key, Some(&local.uid)).await?,
            )),
            Err(CallError::Answered {
                code: 403, message, ..
            }) => Err(Failure::Content { message }),
            Err(error) => Err(unavailable(&manager(), &error)),
        }
    }

    /// A quorum read. With a UID: whether that one is gone.
    pub(super) async fn look_at_local(&self, key: &PairKey, uid: Option<&Arc<str>>) -> Result<Done, Failure> {
        match self.manager.get(&key.path()).await {
            Ok(object) => {
                let object = read(key.subject, &object)?;
                match uid.filter(|uid| **uid != object.uid) {
                    Some(uid) => Ok(Done::LocalGone {
                        key: key.clone(),
                        uid: uid.clone(),
                    }),
                    None => Ok(Done::Local(Box::new(object))),
                }
            }
            Err(error) if is_absent(&error, key) => Ok(Done::LocalGone {
                key: key.clone(),
                uid: uid.cloned().unwrap_or_else(|| "".into()),
            }),
            Err(error) => Err(unavailable(&manager(), &error)),
        }
    }

    async fn patch_local(
        &self,
        local: &LocalTarget,
        subresource: &str,
        kind: PatchKind,
        patch: &Value,
    ) -> Result<Done, Failure> {
        let path = format!("{}{subresource}", local.key.path());
        match self.manager.patch(&path, kind, patch).await {
            Ok(object) => Ok(Done::Local(Box::new(read(local.key.subject, &object)?))),
            Err(error) if is_absent(&error, &local.key) => Err(Failure::Stale(Done::LocalGone {
                key: local.key.clone(),
                uid: local.uid.clone(),
            })),
            Err(CallError::Answered {
                code: code @ (409 | 422 | 400 | 403),
                message,
                ..
            }) => {
                let seen = self.look_at_local(&local.key, Some(&local.uid)).await?;
                let unchanged =
                    matches!(&seen, Done::Local(object) if object.resource_version == local.resource_version);
                match (unchanged, code) {
                    (true, 400 | 403 | 422) => Err(Failure::Content { message }),
                    (true | false, _) => Err(Failure::Stale(seen)),
                }
            }
            Err(error) => Err(unavailable(&manager(), &error)),
        }
    }
}

fn with_ours(finalizers: &[String]) -> Vec<String> {
    let others = finalizers
        .iter()
        .filter(|name| *name != names::REMOTE_COPY)
        .cloned();
    others.chain([names::REMOTE_COPY.to_owned()]).collect()
}

fn read(subject: Subject, object: &RawObject) -> Result<LocalObject, Failure> {
    LocalObject::parse(subject, object.json().clone()).map_err(|error| Failure::Content {
        message: format!("the {} cannot be read: {error}", subject.noun()),
    })
}

fn manager() -> Arc<str> {
    "manager".into()
}
