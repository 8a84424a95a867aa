//! All registered workers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::worker::Worker;
use crate::api::{GangScheduler, WorkerCluster};
use crate::gang::Family;

/// The registered workers by name, and which of them take new pods.
#[derive(Default)]
pub struct Fleet {
    members: RwLock<BTreeMap<Arc<str>, Member>>,
}

/// A registered worker.
#[derive(Clone)]
pub struct Member {
    /// The worker.
    pub worker: Arc<Worker>,
    /// Whether new pods are placed there.
    pub intake: Intake,
    /// Its gang scheduler, if it has one.
    pub gang: Option<GangSetting>,
}

/// What a WorkerCluster says of its gang scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangSetting {
    /// Whose groups.
    pub family: Family,
    /// `spec.schedulerName` of its pods, if it differs from that of the configuration.
    pub scheduler_name: Option<String>,
}

impl GangSetting {
    /// What counts for this WorkerCluster.
    pub fn of(cluster: &WorkerCluster) -> Option<Self> {
        let gang = cluster.spec.gang.as_ref()?;
        let family = match gang.scheduler {
            GangScheduler::Coscheduling => Family::Coscheduling,
            GangScheduler::Volcano => Family::Volcano,
            GangScheduler::Native => Family::Native,
            GangScheduler::None => return None,
        };
        Some(Self {
            family,
            scheduler_name: gang.scheduler_name.clone(),
        })
    }
}

/// What a WorkerCluster says of new pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// They are placed there.
    Open,
    /// Not while `spec.cordoned` is true.
    Cordoned,
    /// Not any more.
    BeingDeleted,
}

impl Intake {
    /// What counts for this WorkerCluster.
    pub fn of(cluster: &WorkerCluster) -> Self {
        match (
            cluster.metadata.deletion_timestamp.is_some(),
            cluster.spec.cordoned,
        ) {
            (true, _) => Self::BeingDeleted,
            (false, true) => Self::Cordoned,
            (false, false) => Self::Open,
        }
    }

    /// Reason and sentence, if no new pods are placed there.
    pub fn why_closed(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Open => None,
            Self::Cordoned => Some(("Cordoned", "it is cordoned: its spec.cordoned is true")),
            Self::BeingDeleted => Some(("BeingDeleted", "its WorkerCluster is being deleted")),
        }
    }
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

    /// Registers a worker, or changes whether it takes new pods. True if something changed.
    pub fn set(&self, worker: Arc<Worker>, intake: Intake, gang: Option<GangSetting>) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let same = members.get(&worker.name).is_some_and(|held| {
            held.intake == intake && held.gang == gang && Arc::ptr_eq(&held.worker, &worker)
        });
        members.insert(worker.name.clone(), Member { worker, intake, gang });
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_that_is_being_deleted_is_not_called_cordoned() {
        let closed = |deleting: bool, cordoned: bool| {
            let mut cluster = json!({
                "metadata": {"name": "w"},
                "spec": {"kubeconfigSecretRef": {"name": "w"}, "cordoned": cordoned},
            });
            if deleting {
                cluster["metadata"]["deletionTimestamp"] = json!("2026-11-30T10:00:00Z");
            }
            Intake::of(&serde_json::from_value(cluster).unwrap()).why_closed()
        };
        assert_eq!(closed(false, false), None);
        assert_eq!(closed(false, true).unwrap().0, "Cordoned");
        for cordoned in [true, false] {
            let (reason, words) = closed(true, cordoned).unwrap();
            assert_eq!(reason, "BeingDeleted");
            assert!(words.contains("is being deleted") && !words.contains("cordoned"));
        }
    }
}
