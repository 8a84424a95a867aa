//! What the process knows: both sides' stores, policies, the fleet. Shared by watches and turns.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use super::gangs::Gangs;
use super::local::{LocalObject, PairKey, Phase, Subject};
use super::memory::{Deciders, Memories};
use super::observed::{Memory, Observed, PolicyRules, PolicySeen, RootSeen, WorkerSeen};
use super::waits;
use crate::admission::Keeps;
use crate::api::{Colocate, DispatchPolicy};
use crate::clock::parse_duration;
use crate::cluster::fleet::{Fleet, Member, same_cluster, twin_of};
use crate::cluster::namespaces::Namespaces;
use crate::cluster::owners::Owners;
use crate::cluster::store::ObjectStore;
use crate::cluster::survey::Survey;
use crate::cluster::worker::{Worker, not_served};
use crate::placement::{Candidate, Rejection};
use crate::reconcile::queue::Queue;
use crate::workload::jobs::JobKinds;

/// Everything that turns look at.
pub struct World {
    /// UID of the manager's kube-system namespace.
    pub origin: Arc<str>,
    /// The manager's objects that are dispatched.
    pub locals: ObjectStore<LocalObject>,
    /// Whether the manager's initial lists are complete (rule 0); those of jobs are apart.
    pub ready: AtomicBool,
    /// Every kind of job that is dispatched whole.
    pub kinds: JobKinds,
    /// Those of them that the manager serves, and whether their list is complete.
    jobs: RwLock<BTreeMap<Subject, bool>>,
    /// Which of them keep `managedBy` on the manager.
    survey: Arc<Survey>,
    /// The manager's namespaces.
    pub namespaces: Arc<Namespaces>,
    /// ReplicaSets and Deployments.
    pub owners: Owners,
    /// DispatchPolicies by name.
    pub policies: RwLock<BTreeMap<String, Arc<DispatchPolicy>>>,
    /// The workers.
    pub fleet: Arc<Fleet>,
    /// Pairs that need a turn.
    pub queue: Queue<PairKey>,
    /// What is remembered of pairs.
    pub memories: Memories,
    /// Who decides for a workload.
    pub deciders: Deciders,
    /// Gangs on workers.
    pub gangs: Gangs,
}

impl World {
    /// An empty world over these namespaces, which the webhook reads too.
    pub fn new(origin: Arc<str>, namespaces: Arc<Namespaces>, survey: Arc<Survey>) -> Self {
        Self {
            kinds: survey.kinds(),
            survey,
            jobs: RwLock::default(),
            origin,
            locals: ObjectStore::default(),
            ready: AtomicBool::new(false),
            namespaces,
            owners: Owners::default(),
            policies: RwLock::default(),
            fleet: Arc::default(),
            queue: Queue::default(),
            memories: Memories::default(),
            deciders: Deciders::default(),
            gangs: Gangs::default(),
        }
    }

    /// One snapshot of all that decides about a pair. None before the manager's lists are complete (rule 0).
    pub fn observe(&self, key: &PairKey, now: Instant) -> Option<Observed> {
        if !self.ready.load(Ordering::Acquire) || !self.is_complete(key.subject) {
            return None;
        }
        let local = self.locals.get(key);
        let members = self.fleet.all();
        let workers: Vec<WorkerSeen> = members
            .iter()
            .map(|member| seen(&self.gangs, member, key))
            .collect();
        self.remember(key, local.as_deref(), &workers, now);
        let memory = self.memories.get(key);
        let is_opened = workers
            .iter()
            .any(|worker| worker.remote.as_ref().is_some_and(|remote| remote.gate.is_none()));
        let asks_for_gang = local
            .as_deref()
            .is_some_and(|local| !is_opened && self.gangs.asks(local));
        let policy = self.policy(key, &members, asks_for_gang, &memory, now);
        let root = local
            .as_deref()
            .filter(|local| asks_for_siblings(local, &policy))
            .map(|local| self.root(local, &policy))
            .unwrap_or_default();
        Some(Observed {
            key: key.clone(),
            origin: self.origin.clone(),
            local,
            workers,
            policy,
            root,
            runs_here: self.runs_here(key.subject),
            asks_for_gang,
            memory,
        })
    }

    /// Pods, and the kinds of jobs that the manager serves.
    pub fn subjects(&self) -> BTreeSet<Subject> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        jobs.keys().copied().chain([Subject::Pod]).collect()
    }

    /// The manager serves these kinds of jobs, and no others any more.
    pub fn serve(&self, subjects: &BTreeSet<Subject>) {
        {
            let mut jobs = self.jobs.write().unwrap_or_else(PoisonError::into_inner);
            jobs.retain(|subject, _| {
                let stays = subjects.contains(subject);
                if !stays {
                    self.locals.listed(*subject, &HashSet::new(), None); // with the CRD went its objects
                }
                stays
            });
            for subject in subjects {
                jobs.entry(*subject).or_insert(false);
            }
        }
        for member in self.fleet.all() {
            member.worker.ask_again.notify_one();
            member.worker.serves_changed.notify_one();
        }
    }

    /// The list of the manager's jobs of this kind is complete.
    pub fn listed(&self, subject: Subject) {
        let mut jobs = self.jobs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(complete) = jobs.get_mut(&subject) {
            *complete = true;
        }
    }

    fn is_complete(&self, subject: Subject) -> bool {
        match subject {
            Subject::Pod => true, // one of those that `ready` waits for
            Subject::Job(_) => {
                let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
                jobs.get(&subject).copied().unwrap_or(false)
            }
        }
    }

    /// What is not known counts as kept, as at admission.
    fn runs_here(&self, subject: Subject) -> bool {
        match subject {
            Subject::Pod => false,
            Subject::Job(kind) => self.survey.keeps(kind.resource()) == Keeps::No,
        }
    }

    /// The workload on top of a pod, if it has one.
    pub fn root_of(&self, local: &LocalObject) -> Option<Arc<str>> {
        match (&local.controller, &local.root_hint) {
            (Some(controller), _) => Some(self.owners.root_of(&controller.uid)),
            (None, Some(hint)) => Some(format!("{}/{hint}", local.key.namespace).into()),
            (None, None) => None,
        }
    }

    /// Every pair of which something is known.
    pub fn all_keys(&self) -> Vec<PairKey> {
        let mut keys = self.locals.keys();
        for member in self.fleet.all() {
            keys.extend(member.worker.store.keys());
        }
        keys
    }

    /// Every pair needs a turn: a policy, a namespace or a worker changed.
    pub fn look_at_all(&self) {
        for key in self.all_keys() {
            self.queue.add(key);
        }
    }

    /// Starts and stops the clocks of a committed, opened remote object, which count from when *we* first saw it so: that
    /// of `unschedulableAfter`, that of asking for the worker's Events, and that of asking about a job's pods.
    fn remember(&self, key: &PairKey, local: Option<&LocalObject>, workers: &[WorkerSeen], now: Instant) {
        let opened = local.and_then(LocalObject::committed).and_then(|committed| {
            let remote = workers
                .iter()
                .find(|worker| worker.name == *committed.cluster())?
                .remote
                .as_ref()?;
            (remote.uid == *committed.remote_uid() && remote.gate.is_none()).then_some(remote)
        });
        let unscheduled = opened
            .filter(|remote| remote.node.is_none())
            .map(|remote| remote.uid.clone());
        let unready = opened
            .filter(|remote| !remote.ready && !remote.terminating && remote.phase != Phase::Terminal)
            .filter(|_| local.is_some_and(LocalObject::active))
            .map(|remote| remote.uid.clone());
        let held = self.memories.get(key);
        let same = |held: &Option<(Arc<str>, Instant)>, now: &Option<Arc<str>>| {
            held.as_ref().map(|(uid, _)| uid) == now.as_ref()
        };
        if !same(&held.unscheduled_since, &unscheduled) {
            self.memories.change(key, |memory| {
                memory.unscheduled_since = unscheduled.map(|uid| (uid, now));
            });
        }
        let open = opened
            .map(AsRef::as_ref)
            .filter(|_| local.is_some_and(LocalObject::active));
        if let Some(doubt) = waits::seen(held.doubt.as_ref(), open, now) {
            self.memories.change(key, |memory| memory.doubt = doubt);
        }
        if !same(&held.unready_since, &unready) {
            self.memories.change(key, |memory| {
                memory.unready_since = unready.map(|uid| (uid, now));
                memory.heard = None;
            });
        }
    }

    fn policy(
        &self,
        key: &PairKey,
        members: &[Member],
        asks_for_gang: bool,
        memory: &Memory,
        now: Instant,
    ) -> PolicySeen {
        let gangs = asks_for_gang.then_some(&self.gangs);
        let Some(name) = self
            .namespaces
            .get(&key.namespace)
            .and_then(|opt_in| opt_in.dispatch)
        else {
            return PolicySeen::NotOptedIn;
        };
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let Some(policy) = policies.get(&*name) else {
            return PolicySeen::NotFound(name.to_string());
        };
        let spec = &policy.spec;
        let candidates = spec
            .clusters
            .iter()
            .map(|cluster| Candidate {
                name: cluster.as_str().into(),
                rejection: rejection(cluster, key, members, gangs, memory, now),
            })
            .collect();
        // A duration that cannot be read is shown in the policy's status; here it counts as absent.
        let duration = |text: &Option<String>| text.as_deref().and_then(|text| parse_duration(text).ok());
        PolicySeen::Policy(PolicyRules {
            strategy: spec.strategy,
            colocate: spec.colocate,
            candidates,
            unschedulable_after: duration(&spec.unschedulable_after),
            keep_finished: duration(&spec.keep_finished),
            create_namespaces: spec.namespaces.create,
            mirror_pod_ips: spec.mirror_pod_ips,
            forward: spec.forward.clone().unwrap_or_default(),
        })
    }

    fn root(&self, local: &LocalObject, policy: &PolicySeen) -> RootSeen {
        let Some(root) = self.root_of(local) else {
            return RootSeen::default();
        };
        let mut clusters: BTreeMap<Arc<str>, (usize, bool)> = BTreeMap::new();
        for member in self.owners.members(&root) {
            for sibling in self.locals.in_group(&member) {
                let Some(committed) = sibling.committed() else {
                    continue;
                };
                let counts = sibling.key != local.key
                    && sibling.key.namespace == local.key.namespace
                    && sibling.phase != Phase::Terminal;
                if counts {
                    let entry = clusters.entry(committed.cluster().clone()).or_default();
                    entry.0 += 1;
                    entry.1 |= sibling.seen_scheduled;
                }
            }
        }
        let most = clusters.iter().max_by_key(|(_, (count, _))| *count);
        let fixed = most.map(|(name, _)| name.clone());
        let scheduled = most.is_some_and(|(_, (_, scheduled))| *scheduled);
        let colocates = matches!(policy, PolicySeen::Policy(rules) if rules.colocate == Colocate::Owner);
        let decides = colocates && fixed.is_none() && local.active() && local.committed().is_none();
        RootSeen {
            deciding: decides && !self.deciders.enter(&root, &local.key),
            fixed,
            scheduled,
        }
    }
}

/// Whether a plan looks at the workload's other objects: while it places this one, or may take it back. To count them for
/// each status of each pod would cost a big workload the square of its size.
fn asks_for_siblings(local: &LocalObject, policy: &PolicySeen) -> bool {
    let takes_back = matches!(policy, PolicySeen::Policy(rules) if rules.unschedulable_after.is_some());
    local.committed().is_none() || (takes_back && !local.seen_scheduled)
}

fn seen(gangs: &Gangs, member: &Member, key: &PairKey) -> WorkerSeen {
    let worker = &member.worker;
    let remote = worker.store.get(key);
    WorkerSeen {
        name: worker.name.clone(),
        cluster_uid: worker
            .connection()
            .map(|connection| connection.cluster_uid.clone())
            .unwrap_or_default(),
        synced: worker.synced(key.subject, &key.namespace),
        lost: lost(worker, key.subject),
        accepts: worker.spaces.accepts(&key.namespace),
        gangs: gangs.there(member),
        gang: gangs.of_copy(member, key, remote.as_deref()),
        remote,
    }
}

/// A job on a worker whose CRD went cannot be seen any more, as little as on one that does not answer.
fn lost(worker: &Worker, subject: Subject) -> Option<String> {
    let gone = || (worker.serves(subject) == Some(false)).then(|| not_served(subject));
    worker.lost().map(|words| words.to_string()).or_else(gone)
}

fn rejection(
    cluster: &str,
    key: &PairKey,
    members: &[Member],
    gangs: Option<&Gangs>,
    memory: &Memory,
    now: Instant,
) -> Option<Rejection> {
    let because = |reason: &str, message: String| {
        Some(Rejection {
            reason: reason.to_owned(),
            message,
            retry_in: None,
            settling: false,
        })
    };
    let Some(member) = members.iter().find(|member| &*member.worker.name == cluster) else {
        return because(
            "ClusterNotFound",
            format!("there is no WorkerCluster {cluster:?}"),
        );
    };
    if let Some(twin) = twin_of(members, &member.worker) {
        return because("DuplicateCluster", same_cluster(&twin));
    }
    if let Some((reason, words)) = member.intake.why_closed() {
        return because(reason, words.to_owned());
    }
    let verdict = memory
        .verdicts
        .get(cluster)
        .and_then(|verdict| verdict.rejection(now));
    let ungangable = || gangs.and_then(|gangs| gangs.rejection(member, key.subject));
    let rejection = member.worker.rejection(key.subject, &key.namespace);
    rejection.or_else(ungangable).or(verdict)
}
