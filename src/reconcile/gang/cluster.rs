//! One cluster whose jobs get PodGroups: its clients, what is seen of it, and which jobs need a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::Value;

use super::answers::{Answer, Answers};
use super::observed::Memories;
use super::pod_policy::PodPolicy;
use super::scope::Scope;
use super::store::{GroupKey, JobKey, Seen, Store, controller};
use crate::admission::gang::GangFacts;
use crate::cluster::client::Clients;
use crate::cluster::definitions::Definitions;
use crate::cluster::discovery;
use crate::config::Configuration;
use crate::gang::facts::runtime_overhead;
use crate::gang::{ClusterFacts, NativeVersion, PriorityClasses, Served, hold, marked};
use crate::names::ADOPT_PODGROUP;
use crate::reconcile::queue::Queue;
use crate::workload::jobs::gang_kind;

/// A kind of group object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupApi {
    /// API group.
    pub group: &'static str,
    /// Plural.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Versions, the best first.
    pub versions: &'static [&'static str],
}

impl GroupApi {
    /// Whether a cluster that serves this has objects of the kind, in any version.
    #[must_use]
    pub fn is_served(self, served: &discovery::Served) -> bool {
        served.first(self.group, self.versions, self.plural).is_some()
    }
}

/// The PodGroup of scheduler-plugins.
pub const COSCHEDULING: GroupApi = GroupApi {
    group: "scheduling.x-k8s.io",
    plural: "podgroups",
    kind: "PodGroup",
    versions: &["v1alpha1"],
};
/// The PodGroup of Volcano.
pub const VOLCANO: GroupApi = GroupApi {
    group: "scheduling.volcano.sh",
    plural: "podgroups",
    kind: "PodGroup",
    versions: &["v1beta1"],
};
/// The PodGroup of Kubernetes.
pub const NATIVE_POD_GROUP: GroupApi = GroupApi {
    group: "scheduling.k8s.io",
    plural: "podgroups",
    kind: "PodGroup",
    versions: &["v1beta1", "v1alpha3", "v1alpha2"],
};
/// The Workload of Kubernetes.
pub const NATIVE_WORKLOAD: GroupApi = GroupApi {
    group: "scheduling.k8s.io",
    plural: "workloads",
    kind: "Workload",
    versions: &["v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"],
};

/// All of them.
pub const GROUP_APIS: [GroupApi; 4] = [COSCHEDULING, VOLCANO, NATIVE_POD_GROUP, NATIVE_WORKLOAD];

/// The cluster.
pub struct GangCluster {
    /// Its clients.
    pub clients: Clients,
    /// Whose jobs.
    pub scope: Scope,
    /// What is seen.
    pub store: Store,
    /// Jobs that need a turn.
    pub queue: Queue<JobKey>,
    /// The configuration.
    pub configuration: Configuration,
    /// Our own namespace there.
    pub own_namespace: String,
    /// Its CRDs.
    pub(super) definitions: Definitions,
    served: ArcSwap<Served>,
    /// What is served was asked, and native groups were tried: not while no namespace asks for gangs.
    asked: AtomicBool,
    facts: ArcSwap<ClusterFacts>,
    known: Mutex<BTreeSet<GroupApi>>,
    /// A complete list of the pods of groups was seen.
    pods_known: AtomicBool,
    /// What this process remembers of jobs.
    pub(super) memories: Memories,
    /// What copies wait for.
    pub(super) answers: Answers,
    /// Rights that our identity lacks there, in words.
    lacks: ArcSwap<Vec<String>>,
    pod_policy: ArcSwap<PodPolicy>,
    since: Instant,
}

impl GangCluster {
    /// Nothing is seen yet.
    pub fn new(
        clients: Clients,
        scope: Scope,
        configuration: Configuration,
        own_namespace: String,
        definitions: Definitions,
    ) -> Self {
        let facts = ClusterFacts {
            settings: configuration.gang.clone(),
            ..ClusterFacts::default()
        };
        Self {
            clients,
            scope,
            store: Store::default(),
            queue: Queue::default(),
            configuration,
            own_namespace,
            definitions,
            served: ArcSwap::default(),
            asked: AtomicBool::new(false),
            facts: ArcSwap::from_pointee(facts),
            known: Mutex::default(),
            pods_known: AtomicBool::new(false),
            memories: Memories::default(),
            answers: Answers::default(),
            lacks: ArcSwap::default(),
            pod_policy: ArcSwap::default(),
            since: Instant::now(),
        }
    }

    /// Which gang schedulers it serves.
    pub fn served(&self) -> Served {
        **self.served.load()
    }

    /// It has said what it serves, while gangs are asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// What our identity may not do there, though gangs need it.
    pub fn lacks(&self) -> Arc<Vec<String>> {
        self.lacks.load_full()
    }

    pub(super) fn set_lacks(&self, lacks: Vec<String>) {
        let before = self.lacks.swap(Arc::new(lacks.clone()));
        if *before != lacks {
            self.news();
        }
    }

    /// Whether pods get the native group that only their marks name.
    pub fn pod_policy(&self) -> Arc<PodPolicy> {
        self.pod_policy.load_full()
    }

    pub(super) fn set_pod_policy(&self, now: PodPolicy) {
        let before = self.pod_policy.swap(Arc::new(now.clone()));
        if *before != now {
            self.news();
        }
    }

    /// Whether the lists of groups that a gang there depends on are complete.
    pub fn is_listed(&self) -> bool {
        self.scope.apis().into_iter().all(|api| self.knows(api))
    }

    /// Placement on a worker depends on it.
    fn news(&self) {
        if let Scope::Copies(copies) = &self.scope {
            copies.pairs.changed();
        }
    }

    /// Since when it is looked at.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Classes and configuration.
    pub fn facts(&self) -> Arc<ClusterFacts> {
        self.facts.load_full()
    }

    /// It serves this now; natives are left out until the probe has shown that pods can be in groups. `tried`: it was asked.
    pub(super) fn serve(&self, served: &discovery::Served, native: Option<NativeVersion>, tried: bool) {
        let next = Served {
            coscheduling: COSCHEDULING.is_served(served),
            volcano: VOLCANO.is_served(served),
            native,
        };
        self.lock(&self.known).retain(|api| api.is_served(served));
        let changed = *self.served.swap(Arc::new(next)) != next;
        let is_first = self.asked.swap(tried, Ordering::AcqRel) != tried;
        if !tried {
            self.pods_known(false); // nothing follows them
        }
        if changed || is_first {
            self.news();
        }
        if changed || (is_first && !self.scope.follows_jobs()) {
            self.look_at_all();
        }
    }

    /// A complete list of these was seen. Before it, absence means nothing.
    pub(super) fn groups_known(&self, api: GroupApi) {
        if self.lock(&self.known).insert(api) {
            self.news();
        }
    }

    /// Whether absence of these means anything.
    pub(super) fn knows(&self, api: GroupApi) -> bool {
        self.lock(&self.known).contains(&api)
    }

    /// Whether the list of pods is complete. Before it, absence means nothing.
    pub(super) fn pods_known(&self, known: bool) {
        self.pods_known.store(known, Ordering::Release);
    }

    /// Whether absence of pods means anything.
    pub(super) fn knows_pods(&self) -> bool {
        self.pods_known.load(Ordering::Acquire)
    }

    pub(super) fn priority_classes(&self, classes: &BTreeMap<String, PriorityClass>) {
        let priority_classes: PriorityClasses = classes.values().collect();
        self.change_facts(|facts| facts.priority_classes = priority_classes.clone());
    }

    pub(super) fn runtime_classes(&self, classes: &BTreeMap<String, RuntimeClass>) {
        let overheads: BTreeMap<_, _> = classes
            .iter()
            .filter_map(|(name, class)| {
                let class = serde_json::to_value(class).ok()?;
                Some((name.clone(), runtime_overhead(&class).ok()?))
            })
            .collect();
        self.change_facts(|facts| facts.runtime_overheads = overheads.clone());
    }

    /// A gang that runs is not rewritten because a class changed, so only what is computed from now on sees it.
    fn change_facts(&self, change: impl Fn(&mut ClusterFacts)) {
        self.facts.rcu(|facts| {
            let mut facts = ClusterFacts::clone(facts);
            change(&mut facts);
            facts
        });
    }

    /// Every job gets a turn.
    pub(super) fn look_at_all(&self) {
        for key in self.store.jobs(|_, _| true) {
            self.queue.add(key);
        }
    }

    /// The jobs that a group object is about: its controller, a job of its name, and those that adopt it.
    pub(super) fn look_at_jobs_of(&self, key: &GroupKey, seen: &Seen) {
        let owner = controller(&seen.object);
        let adopts = |job: &Seen| {
            let annotations = job.object.pointer("/metadata/annotations");
            annotations.is_some_and(|all| all.get(ADOPT_PODGROUP).is_some_and(|name| *name == *key.name))
        };
        let about = |job: &JobKey, seen: &Seen| {
            job.namespace == key.namespace
                && (job.name == key.name
                    || owner.is_some_and(|owner| owner.kind == job.resource.kind && owner.name == &*job.name)
                    || adopts(seen))
        };
        for job in self.store.jobs(about) {
            self.queue.add(job);
        }
    }

    /// The job of a group's pods, by the controller of the group; and one that is held until they are gone, which has no group yet.
    pub(super) fn look_at_job_of_pods(&self, namespace: &Arc<str>, group: &Arc<str>) {
        let names_it = |job: &JobKey, object: &Value| {
            let kind = gang_kind(&job.resource.api_version(), job.resource.kind);
            let marked = kind.and_then(|kind| marked(kind, object));
            job.name == *group || marked.is_some_and(|(_, name)| name == &**group)
        };
        let waits = |job: &JobKey, seen: &Seen| {
            job.namespace == *namespace && hold::is_claimed(&seen.object) && names_it(job, &seen.object)
        };
        for job in self.store.jobs(waits) {
            self.queue.add(job);
        }
        for api in GROUP_APIS {
            let key = GroupKey {
                group: api.group,
                plural: api.plural,
                namespace: namespace.clone(),
                name: group.clone(),
            };
            if let Some(seen) = self.store.group(&key) {
                self.look_at_jobs_of(&key, &seen);
            }
        }
    }

    /// A copy as its pair sees it.
    pub fn copy_seen(&self, key: JobKey, seen: Seen) {
        if self.store.job_watched(key.clone(), seen) {
            self.queue.add(key);
        }
    }

    /// A copy of this name is there no longer.
    pub fn copy_gone(&self, key: &JobKey) {
        if let Some(held) = self.store.job(key) {
            self.store.job_gone(key, &held.uid);
            self.queue.add(key.clone());
        }
    }

    /// What the copy with this UID waits for; none: nobody looked yet, and somebody will.
    pub fn answer(&self, key: &JobKey, uid: &str) -> Option<Answer> {
        let answer = self.answers.of(key, uid);
        if answer.is_none() {
            self.queue.add(key.clone());
        }
        answer
    }

    fn lock<'l, T>(&self, what: &'l Mutex<T>) -> MutexGuard<'l, T> {
        what.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GangFacts for GangCluster {
    fn label(&self, namespace: &str) -> Option<Arc<str>> {
        self.scope.label(namespace)
    }

    fn is_dispatched(&self, namespace: &str) -> bool {
        self.scope.is_dispatched(namespace)
    }

    fn served(&self) -> Option<Served> {
        self.is_asked().then(|| Self::served(self))
    }

    fn cluster(&self) -> Arc<ClusterFacts> {
        self.facts()
    }
}
