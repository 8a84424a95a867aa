//! One job as a turn sees it: the snapshot that the plan is made from.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::scope::Stage;
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
    /// How far it is, if it is the copy of a job of the manager.
    pub copy: Option<Stage>,
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
    /// The list of pods is complete.
    pub knows_pods: bool,
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

/// What is remembered of all jobs, with the UID of each: another job of its name begins anew.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<JobKey, (Arc<str>, Memory)>>);

impl Memories {
    /// What is remembered of the job with this UID.
    pub fn of(&self, key: &JobKey, uid: &str) -> Memory {
        let all = self.lock();
        let of_it = all.get(key).filter(|(of, _)| **of == *uid);
        of_it.map(|(_, memory)| memory.clone()).unwrap_or_default()
    }

    /// Changes what is remembered of the job with this UID.
    pub fn change(&self, key: &JobKey, uid: &Arc<str>, change: impl FnOnce(&mut Memory)) {
        let mut all = self.lock();
        let (of, memory) = all.entry(key.clone()).or_default();
        if of != uid {
            (*of, *memory) = (uid.clone(), Memory::default());
        }
        change(memory);
    }

    /// The job is gone.
    pub fn forget(&self, key: &JobKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobKey, (Arc<str>, Memory)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// How many pods of a group have a node and have not ended, whosever they are.
    fn bound(&self, namespace: &Arc<str>, group: &Arc<str>) -> u32;
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

    fn bound(&self, namespace: &Arc<str>, group: &Arc<str>) -> u32 {
        Self::bound(self, namespace, group)
    }
}

impl Observed<'_> {
    /// The job itself.
    pub fn object(&self) -> &Value {
        &self.job.object
    }

    /// We hold it: it is suspended, and the annotation says that we did it; a copy, from its commit until it is opened.
    pub fn is_held(&self) -> bool {
        match self.copy {
            None => self.is_suspended() && hold::is_claimed(self.object()),
            Some(stage) => stage == Stage::Committed,
        }
    }

    /// Its suspend field is true.
    pub fn is_suspended(&self) -> bool {
        hold::is_suspended(self.kind, self.object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::jobs::gang_kind;

    #[test]
    fn nothing_is_remembered_of_a_job_about_another_of_its_name() {
        let memories = Memories::default();
        let key = JobKey {
            resource: gang_kind("batch/v1", "Job").unwrap().resource(),
            namespace: "n".into(),
            name: "job".into(),
        };
        let (old, new): (Arc<str>, Arc<str>) = ("old".into(), "new".into());
        memories.change(&key, &old, |memory| {
            memory.held_since = Some(Instant::now());
            memory.refused = Some("no".to_owned());
            memory.launcher = LauncherSeen::Good;
            memory.proven.insert("g".into());
        });
        assert_eq!(memories.of(&key, &old).launcher, LauncherSeen::Good);
        assert_eq!(memories.of(&key, &new), Memory::default());
        memories.change(&key, &new, |memory| memory.met_owner = 1);
        let fresh = Memory {
            met_owner: 1,
            ..Memory::default()
        };
        assert_eq!(memories.of(&key, &new), fresh);
        assert_eq!(memories.of(&key, &old), Memory::default());
    }
}
