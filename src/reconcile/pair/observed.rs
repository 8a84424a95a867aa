//! One snapshot of everything that decides about one pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::local::{LocalObject, PairKey, RemoteObject};
use super::vain::{Copies, Stuck};
use super::waits::Doubt;
use crate::api::{Colocate, Forward, Strategy};
use crate::gang::birth::Maker;
use crate::placement::{Candidate, Rejection};

/// What is seen of one pod, its copies and the rules for them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The pair.
    pub key: PairKey,
    /// UID of the manager's kube-system namespace.
    pub origin: Arc<str>,
    /// The manager's object.
    pub local: Option<Arc<LocalObject>>,
    /// Every registered worker.
    pub workers: Vec<WorkerSeen>,
    /// What the namespace's policy says.
    pub policy: PolicySeen,
    /// The workload's other objects.
    pub root: RootSeen,
    /// The manager's schema of this kind has no `managedBy`: its operator there runs the job whatever stands in it.
    pub runs_here: bool,
    /// The job asks for a gang. Known while it is not opened.
    pub asks_for_gang: bool,
    /// What only this process knows.
    pub memory: Memory,
}

/// A worker and the pod of ours under this key on it.
#[derive(Clone, Debug)]
pub struct WorkerSeen {
    /// Name of the WorkerCluster.
    pub name: Arc<str>,
    /// UID of its kube-system namespace, as read at connect.
    pub cluster_uid: Arc<str>,
    /// Connected, and its initial list is complete (rule 0).
    pub synced: bool,
    /// Not reachable for longer than the detection time, and why.
    pub lost: Option<String>,
    /// Whether the pod's namespace there takes our pods; none: it was not read yet.
    pub accepts: Option<bool>,
    /// The pod with our origin label under the key.
    pub remote: Option<Arc<RemoteObject>>,
    /// Its gang scheduler.
    pub gangs: GangsThere,
    /// What the gang of the copy says to its opening.
    pub gang: GangSeen,
}

/// The gang scheduler of a worker.
#[derive(Clone, Debug, Default)]
pub enum GangsThere {
    /// It has none.
    #[default]
    None,
    /// It has one, but it has not said yet what it serves.
    NotKnown,
    /// It has one, but serves other groups.
    NotServed,
    /// It has one, and this is what copies are born with.
    Made(Arc<Maker>),
}

impl GangsThere {
    /// What copies are born with, if that is known.
    pub fn maker(&self) -> Option<&Maker> {
        match self {
            Self::Made(maker) => Some(maker),
            Self::None | Self::NotKnown | Self::NotServed => None,
        }
    }
}

/// What the gang of a committed copy says to its opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GangSeen {
    /// The copy is no gang of ours.
    #[default]
    NotAsked,
    /// Its PodGroup is not there yet, and why, if there is anything to say.
    Awaited(Option<String>),
    /// Its PodGroup was shown by an answer of the worker, or it has to start without one.
    Stands,
}

/// The policy of the pod's namespace, read at each turn.
#[derive(Clone, Debug)]
pub enum PolicySeen {
    /// The namespace has no opt-in label (any more).
    NotOptedIn,
    /// The label names a policy that does not exist.
    NotFound(String),
    /// The policy.
    Policy(PolicyRules),
}

/// A policy's rules in usable form.
#[derive(Clone, Debug)]
pub struct PolicyRules {
    /// Order of candidates.
    pub strategy: Strategy,
    /// Whether siblings share a cluster.
    pub colocate: Colocate,
    /// Clusters in order, with what speaks against each now.
    pub candidates: Vec<Candidate>,
    /// Take back a pod that was never scheduled.
    pub unschedulable_after: Option<Duration>,
    /// Upper bound for keeping a finished remote object.
    pub keep_finished: Option<Duration>,
    /// Create missing namespaces.
    pub create_namespaces: bool,
    /// Show the worker's IPs.
    pub mirror_pod_ips: bool,
    /// What of a job's metadata follows later changes to its copy.
    pub forward: Forward,
}

/// The other objects of the workload.
#[derive(Clone, Debug, Default)]
pub struct RootSeen {
    /// The cluster that they are committed to.
    pub fixed: Option<Arc<str>>,
    /// One of them is on a node there.
    pub scheduled: bool,
    /// Another one is being placed now.
    pub deciding: bool,
}

/// What one process remembers of one pair. All of it may be lost: then things happen later, never wrongly.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Remote UIDs whose take-back was answered with success (rule 8).
    pub taken_back: BTreeSet<Arc<str>>,
    /// `(cluster UID, remote UID)` proven gone after the commit was read (rule P): a fact for ever.
    pub remote_gone: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Remote UIDs that a live read, made after their local object was read as seen open, showed gated: rolled back.
    pub rolled_back: BTreeSet<Arc<str>>,
    /// Local UIDs proven gone: a fact for ever.
    pub local_gone: BTreeSet<Arc<str>>,
    /// The last state of a remote object that was deleted after it had ended.
    pub ended: Option<Arc<RemoteObject>>,
    /// The opened remote object without a node, and since when this process sees it.
    pub unscheduled_since: Option<(Arc<str>, Instant)>,
    /// The opened remote object that is not ready, and since when this process sees it.
    pub unready_since: Option<(Arc<str>, Instant)>,
    /// What the worker's Events said of it.
    pub heard: Option<Heard>,
    /// The opened job some pods of which may wait, and what its worker said of them.
    pub doubt: Option<Doubt>,
    /// What workers answered to a prepare, and until when it counts.
    pub verdicts: BTreeMap<Arc<str>, Verdict>,
    /// What the chosen worker waits for before it can take the pod.
    pub passing: Option<String>,
    /// Why the manager refused the last write on the pod, in its own words.
    pub write_refused: Option<String>,
    /// What was told by Events alone.
    pub told: Option<Told>,
    /// UID of the local object, and the last status that the manager's API server took without keeping anything of it.
    pub unkept: Option<(Arc<str>, Arc<Value>)>,
    /// The last status of an open copy that it refused.
    pub refused: Option<RefusedStatus>,
    /// The last edits that its open copy was given.
    pub forwarded: Option<Forwarded>,
    /// The copies that were made and not recorded since.
    pub copies: Option<Copies>,
    /// Steps that were taken and planned again.
    pub stuck: Option<Stuck>,
}

/// Edits of a job that its copy was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// UID of the copy.
    pub remote: Arc<str>,
    /// What the job said in all that its copy follows in.
    pub wanted: Arc<Value>,
    /// The fields that differed, for people.
    pub fields: String,
    /// When.
    pub at: Instant,
    /// How often in a row the copy was given the same before: something there undoes it. The pause doubles.
    pub before: u32,
}

/// A status that the manager's API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStatus {
    /// UID of the local object.
    pub uid: Arc<str>,
    /// What it said.
    pub gist: Arc<Value>,
    /// When the same may be tried again, whatever happens meanwhile.
    pub until: Instant,
    /// How often in a row it was refused before; the pause doubles.
    pub before: u32,
}

/// What people were told of a local object whose status has no place for our condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// UID of the local object.
    uid: Arc<str>,
    /// The last words of each reason.
    words: BTreeMap<String, String>,
}

impl Memory {
    /// Whether this was the last that was told of this reason.
    pub fn is_told(&self, uid: &Arc<str>, reason: &str, message: &str) -> bool {
        let told = self.told.as_ref().filter(|told| told.uid == *uid);
        told.and_then(|told| told.words.get(reason)).map(String::as_str) == Some(message)
    }

    /// This was told.
    pub fn tell(&mut self, uid: &Arc<str>, reason: &str, message: &str) {
        let of_this = self.told.take().filter(|told| told.uid == *uid);
        let mut told = of_this.unwrap_or_else(|| Told {
            uid: uid.clone(),
            words: BTreeMap::new(),
        });
        told.words.insert(reason.to_owned(), message.to_owned());
        self.told = Some(told);
    }
}

/// What a worker's Events said of a remote object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// UID of the remote object.
    pub remote: Arc<str>,
    /// The last Warning, `Reason: message`.
    pub warning: Option<String>,
    /// When they were read.
    pub at: Instant,
    /// How often in a row they said the same; the pause doubles.
    pub same: u32,
}

/// A worker's refusal of one pod.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// In CamelCase.
    pub reason: String,
    /// The worker's own words.
    pub message: String,
    /// When it may be asked again.
    pub until: Instant,
    /// How often it refused so far; the wait doubles.
    pub refusals: u32,
}

impl Verdict {
    /// As a reason against the candidate, while it counts.
    pub fn rejection(&self, now: Instant) -> Option<Rejection> {
        (self.until > now).then(|| Rejection {
            reason: self.reason.clone(),
            message: self.message.clone(),
            retry_in: Some(self.until - now),
            settling: false,
        })
    }
}

/// The two clocks, read once a turn by the edge.
#[derive(Clone, Debug)]
pub struct Now {
    /// For durations: never jumps.
    pub monotonic: Instant,
    /// For what people read, RFC 3339 in seconds.
    pub wall: String,
    /// Seconds since the epoch, to compare with times that a kubelet wrote.
    pub epoch_seconds: i64,
}
