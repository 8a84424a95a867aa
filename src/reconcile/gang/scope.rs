//! Which jobs of a cluster are ours, and which gang scheduler they are for: on the manager the labels of namespaces say it,
//! on a worker its WorkerCluster does, and only committed copies count.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cluster::{COSCHEDULING, GROUP_APIS, GroupApi, NATIVE_POD_GROUP, NATIVE_WORKLOAD, VOLCANO};
use super::store::{JobKey, Seen};
use crate::cluster::namespaces::Namespaces;
use crate::cluster::watch::Watching;
use crate::gang::Family;
use crate::job::is_uncommitted;
use crate::names;

/// Whose jobs a cluster has.
#[derive(Clone)]
pub enum Scope {
    /// The manager: jobs of namespaces with the label `gang`.
    Labelled(Arc<Namespaces>),
    /// A worker: copies that were born with the marks of a gang.
    Copies(Copies),
}

/// The copies of one worker.
#[derive(Clone)]
pub struct Copies {
    /// Name of its WorkerCluster.
    pub worker: Arc<str>,
    /// Its gang scheduler.
    pub family: Family,
    /// Where they come from.
    pub pairs: Arc<dyn Pairs>,
}

/// The pairs that copies are part of.
pub trait Pairs: Send + Sync {
    /// Whether the manager's job has recorded this copy.
    fn is_committed(&self, job: &JobKey, copy: &str) -> bool;
    /// What this job waited for has changed.
    fn look_at(&self, job: &JobKey);
    /// What speaks against this worker has changed.
    fn changed(&self);
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The manager has not recorded it, and may give it up.
    Uncommitted,
    /// Recorded, and held until its PodGroup stands.
    Committed,
    /// It runs as its user says.
    Opened,
}

impl Scope {
    /// The gang scheduler that the namespace asks for.
    pub fn label(&self, namespace: &str) -> Option<Arc<str>> {
        match self {
            Self::Labelled(namespaces) => namespaces.gang(namespace),
            Self::Copies(copies) => Some(copies.family.to_string().into()),
        }
    }

    /// Whether pods of the namespace run elsewhere, so that no PodGroup of this cluster would hold anything.
    pub fn is_dispatched(&self, namespace: &str) -> bool {
        match self {
            Self::Labelled(namespaces) => namespaces
                .get(namespace)
                .is_some_and(|labels| labels.dispatch.is_some()),
            Self::Copies(_) => false,
        }
    }

    /// How far the copy is; none: it is no copy.
    pub fn stage(&self, key: &JobKey, job: &Seen) -> Option<Stage> {
        match self {
            Self::Labelled(_) => None,
            Self::Copies(copies) => Some(match is_uncommitted(&job.object) {
                false => Stage::Opened,
                true if copies.pairs.is_committed(key, &job.uid) => Stage::Committed,
                true => Stage::Uncommitted,
            }),
        }
    }

    /// UID of the job that people look at, and what it is told about this one.
    pub fn tell(&self, job: &Seen, sentence: String) -> (String, String) {
        match self {
            Self::Labelled(_) => (job.uid.to_string(), sentence),
            Self::Copies(copies) => {
                let annotations = job.object.pointer("/metadata/annotations");
                let local = annotations.and_then(|annotations| annotations.get(names::LOCAL_UID)?.as_str());
                (
                    local.unwrap_or_default().to_owned(),
                    format!("{}: {sentence}", copies.worker),
                )
            }
        }
    }

    /// Namespaces that ask for gangs. Jobs of others are not kept.
    pub fn ganged(&self) -> Vec<Arc<str>> {
        match self {
            Self::Labelled(namespaces) => namespaces.ganged(),
            Self::Copies(_) => Vec::new(),
        }
    }

    /// Whether any job may ask for a gang.
    pub fn is_needed(&self) -> bool {
        match self {
            Self::Labelled(namespaces) => !namespaces.ganged().is_empty(),
            Self::Copies(_) => true,
        }
    }

    /// Whether it is known which namespaces ask for gangs.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Labelled(namespaces) => namespaces.are_listed(),
            Self::Copies(_) => true,
        }
    }

    /// Answers when other namespaces ask for gangs.
    pub async fn changed(&self) {
        match self {
            Self::Labelled(namespaces) => namespaces.gangs_changed.notified().await,
            Self::Copies(_) => std::future::pending().await,
        }
    }

    /// Others than before may ask for gangs.
    pub fn notify(&self) {
        match self {
            Self::Labelled(namespaces) => namespaces.gangs_changed.notify_one(),
            Self::Copies(_) => {}
        }
    }

    /// Whether jobs are followed here. Copies come from the watches of their pairs.
    pub fn follows_jobs(&self) -> bool {
        matches!(self, Self::Labelled(_))
    }

    /// Whether native groups are tried.
    pub fn may_be_native(&self) -> bool {
        self.apis().contains(&NATIVE_WORKLOAD)
    }

    /// The group objects that may be made.
    pub fn apis(&self) -> BTreeSet<GroupApi> {
        match self {
            Self::Labelled(_) => GROUP_APIS.into_iter().collect(),
            Self::Copies(copies) => apis_of(copies.family).iter().copied().collect(),
        }
    }

    /// What a watch of this cluster is called.
    pub fn watching(&self, resource: &str) -> Watching {
        let mut watching = Watching::on_manager(resource);
        if let Self::Copies(copies) = self {
            watching.cluster = copies.worker.clone();
        }
        watching
    }

    /// The cluster's name in what is counted; empty for the manager.
    pub fn name(&self) -> Arc<str> {
        match self {
            Self::Labelled(_) => "".into(),
            Self::Copies(copies) => copies.worker.clone(),
        }
    }
}

/// The objects of a gang of this scheduler.
pub fn apis_of(family: Family) -> &'static [GroupApi] {
    match family {
        Family::Coscheduling => &[COSCHEDULING],
        Family::Volcano => &[VOLCANO],
        Family::Native => &[NATIVE_POD_GROUP, NATIVE_WORKLOAD],
    }
}
