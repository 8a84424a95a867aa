//! All registered workers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::worker::Worker;

/// The registered workers by name, and which of them are cordoned.
#[derive(Default)]
pub struct Fleet {
    members: RwLock<BTreeMap<Arc<str>, Member>>,
}

/// A registered worker.
#[derive(Clone)]
pub struct Member {
    /// The worker.
    pub worker: Arc<Worker>,
    /// No new placements.
    pub cordoned: bool,
}

impl Fleet {
    /// The worker of this name.
    pub fn get(&self, name: &str) -> Option<Member> {
        self.members
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// All, by name.
    pub fn all(&self) -> Vec<Member> {
        self.members
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Registers a worker, or changes whether it is cordoned. True if something changed.
    pub fn set(&self, worker: Arc<Worker>, cordoned: bool) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let same = members
            .get(&worker.name)
            .is_some_and(|held| held.cordoned == cordoned && Arc::ptr_eq(&held.worker, &worker));
        members.insert(worker.name.clone(), Member { worker, cordoned });
        !same
    }

    /// Forgets a worker.
    pub fn remove(&self, name: &str) {
        self.members
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}

/// The WorkerCluster that leads to the same cluster and comes first by name: pods are placed through that one only,
/// since each would take the other's copies for strays.
pub fn twin_of(members: &[Member], worker: &Worker) -> Option<Arc<str>> {
    let uid = worker.connection()?.cluster_uid.clone();
    let same = |other: &&Member| {
        other
            .worker
            .connection()
            .is_some_and(|connection| connection.cluster_uid == uid)
    };
    members
        .iter()
        .take_while(|other| other.worker.name < worker.name)
        .find(same)
        .map(|twin| twin.worker.name.clone())
}

/// The sentence for a twin.
pub fn same_cluster(twin: &str) -> String {
    format!("its kubeconfig leads to the same cluster as that of WorkerCluster {twin}; delete one of the two")
}
