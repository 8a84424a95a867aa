//! One job as a turn sees it: the snapshot that the plan is made from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::store::{GroupKey, JobKey, PodCount, Seen, Store};
use crate::gang::hold;
use crate::gang::{ClusterFacts, DeleteOnFinish, Served};
use crate::workload::jobs::GangKind;

/// What is seen of a job, and what its PodGroup depends on.
#[derive(Clone)]
pub struct Observed<'s> {
    /// Which.
    pub key: JobKey,
    /// Its kind.
    pub kind: &'static dyn GangKind,
    /// The job.
    pub job: Seen,
    /// The label `gang` of its namespace.
    pub label: Option<Arc<str>>,
    /// Pods of its namespace are dispatched to workers.
    pub dispatched: bool,
    /// The gang schedulers of this cluster.
    pub served: Served,
    /// Classes and configuration.
    pub facts: Arc<ClusterFacts>,
    /// How long it may be held.
    pub hold_timeout: Duration,
    /// When the PodGroup of a finished job goes.
    pub delete_on_finish: DeleteOnFinish,
    /// Which lists of group objects are complete.
    pub knows: BTreeSet<(&'static str, &'static str)>,
    /// The group objects and pods of this cluster.
    pub groups: &'s dyn Groups,
    /// What this process remembers.
    pub memory: Memory,
}

/// What is remembered of a job; all of it may be lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Since when this process has seen it held. A time of this process's own clock: while it does not run, nothing counts.
    pub held_since: Option<Instant>,
    /// UIDs of group objects that an answer of the API has shown.
    pub proven: BTreeSet<Arc<str>>,
    /// How often an update met a field of somebody else's.
    pub met_owner: u32,
    /// What is known of a launcher that was made before the templates had their marks.
    pub launcher: LauncherSeen,
    /// Why the last write failed; none once its group was written.
    pub refused: Option<String>,
}

/// A launcher Job is made while its MPIJob is suspended; what it takes over later are labels, but neither the scheduler's
/// name nor the class (mpi-operator `syncLauncherJob`). So one from before the marks is made anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LauncherSeen {
    /// Nobody looked.
    #[default]
    Unknown,
    /// It was deleted then, and its operator has not made another one yet.
    Deleted(Instant),
    /// There is none without marks.
    Good,
}

/// Group objects and pods, looked up by name.
pub trait Groups: Sync {
    /// The object under the key.
    fn group(&self, key: &GroupKey) -> Option<Seen>;
    /// Objects that this job controls.
    fn of_job(&self, namespace: &str, uid: &str) -> Vec<(GroupKey, Seen)>;
    /// The pods of a group that this job controls.
    fn pods(&self, namespace: &Arc<str>, group: &Arc<str>, job: &str) -> PodCount;
}

impl Groups for Store {
    fn group(&self, key: &GroupKey) -> Option<Seen> {
        Self::group(self, key)
    }

    fn of_job(&self, namespace: &str, uid: &str) -> Vec<(GroupKey, Seen)> {
        self.groups_of(namespace, uid)
    }

    fn pods(&self, namespace: &Arc<str>, group: &Arc<str>, job: &str) -> PodCount {
        Self::pods(self, namespace, group, job)
    }
}

impl Observed<'_> {
    /// The job itself.
    pub fn object(&self) -> &Value {
        &self.job.object
    }

    /// We hold it: it is suspended, and the annotation says that we did it.
    pub fn is_held(&self) -> bool {
        self.is_suspended() && hold::is_claimed(self.object())
    }

    /// Its suspend field is true.
    pub fn is_suspended(&self) -> bool {
        hold::is_suspended(self.kind, self.object())
    }
}
