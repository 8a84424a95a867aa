//! Who made a pod: ReplicaSets and their Deployments, as the manager's watch shows them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use kube::core::PartialObjectMeta;

use k8s_openapi::api::apps::v1::ReplicaSet;

/// ReplicaSets by UID, with the Deployment that controls each.
#[derive(Default)]
pub struct Owners {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    parent: HashMap<Arc<str>, Arc<str>>,
    children: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Owners {
    /// The watch delivered this ReplicaSet.
    pub fn watched(&self, replica_set: &PartialObjectMeta<ReplicaSet>) {
        let Some((uid, parent)) = controlled(replica_set) else {
            return;
        };
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner
            .children
            .entry(parent.clone())
            .or_default()
            .insert(uid.clone());
        inner.parent.insert(uid, parent);
    }

    /// The watch delivered the end of this ReplicaSet.
    pub fn removed(&self, replica_set: &PartialObjectMeta<ReplicaSet>) {
        let Some((uid, parent)) = controlled(replica_set) else {
            return;
        };
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.parent.remove(&uid);
        let empty = inner.children.get_mut(&parent).is_some_and(|children| {
            children.remove(&uid);
            children.is_empty()
        });
        if empty {
            inner.children.remove(&parent);
        }
    }

    /// The workload on top of a pod whose controller has this UID: its Deployment, or the controller itself.
    pub fn root_of(&self, controller: &Arc<str>) -> Arc<str> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.parent.get(controller).unwrap_or(controller).clone()
    }

    /// All controllers whose pods belong to this root, the root itself among them.
    pub fn members(&self, root: &Arc<str>) -> Vec<Arc<str>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let children = inner.children.get(root).into_iter().flatten().cloned();
        std::iter::once(root.clone()).chain(children).collect()
    }
}

fn controlled(replica_set: &PartialObjectMeta<ReplicaSet>) -> Option<(Arc<str>, Arc<str>)> {
    let uid = replica_set.metadata.uid.as_deref()?;
    let owners = replica_set
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some((uid.into(), owner.uid.as_str().into()))
}
