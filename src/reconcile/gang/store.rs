//! What is seen of one cluster: jobs, groups, the pods of groups; as watches and the answers to our own writes show it.
//!
//! A view may be old; every write that follows from it carries preconditions.

mod latest;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use self::latest::{Latest, Name};
use crate::gang::hold;
use crate::workload::Resource;
use crate::workload::jobs::gang_kind;

/// A job by its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Kind and version that are watched.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Name for JobKey {
    type Kind = Resource;

    fn kind(&self) -> Resource {
        self.resource
    }
}

impl std::fmt::Display for JobKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}/{}", self.resource.kind, self.namespace, self.name)
    }
}

/// An object as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// UID.
    pub uid: Arc<str>,
    /// resourceVersion.
    pub resource_version: Arc<str>,
    /// The whole object, without `managedFields`.
    pub object: Arc<Value>,
}

impl Seen {
    /// Reads an object's identity; none if it has none.
    pub fn of(object: Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(Arc::from);
        Some(Self {
            uid: text("/metadata/uid")?,
            resource_version: text("/metadata/resourceVersion")?,
            object: Arc::new(object),
        })
    }

    /// Reads an item of a list or watch. A list of what is built in shows neither `apiVersion` nor `kind` on its items, so
    /// they are those of the list.
    pub fn listed(mut object: Value, api_version: &str, kind: &str) -> Option<Self> {
        let fields = object.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
        Self::of(object)
    }

    fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// Whether it goes.
    pub fn terminating(&self) -> bool {
        self.object
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(Value::is_string)
    }
}

/// A group object by its names: a PodGroup or Workload of one of the back ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// API group, such as `scheduling.x-k8s.io`.
    pub group: &'static str,
    /// Plural, such as `podgroups`.
    pub plural: &'static str,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Name for GroupKey {
    type Kind = (&'static str, &'static str);

    fn kind(&self) -> Self::Kind {
        (self.group, self.plural)
    }
}

/// How many pods of a group there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodCount {
    /// Neither succeeded nor failed.
    pub active: u32,
    /// Of these, how many have a node.
    pub bound: u32,
    /// Succeeded.
    pub succeeded: u32,
}

/// A pod as far as its group is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its group by our label.
    pub group: Arc<str>,
    /// The name of its controller; empty if it has none. Anyone can give a pod our label.
    pub controller: Arc<str>,
    /// Neither succeeded nor failed.
    pub active: bool,
    /// It has a node.
    pub bound: bool,
    /// It succeeded.
    pub succeeded: bool,
}

/// The view.
#[derive(Default)]
pub struct Store(RwLock<Inner>);

/// Namespace, group and controller.
type CountKey = (Arc<str>, Arc<str>, Arc<str>);

#[derive(Default)]
struct Inner {
    jobs: Latest<JobKey>,
    groups: Latest<GroupKey>,
    pods: HashMap<(Arc<str>, Arc<str>), PodSeen>,
    counts: BTreeMap<CountKey, PodCount>,
}

impl Store {
    /// The job under the key.
    pub fn job(&self, key: &JobKey) -> Option<Seen> {
        self.read().jobs.get(key).cloned()
    }

    /// Keys of jobs that fit, in no order.
    pub fn jobs(&self, fits: impl Fn(&JobKey, &Seen) -> bool) -> Vec<JobKey> {
        let inner = self.read();
        let fitting = inner.jobs.iter().filter(|(key, seen)| fits(key, seen));
        fitting.map(|(key, _)| key.clone()).collect()
    }

    /// Whether any job that is known is held by us, or has marks of ours that may have to go.
    pub fn has_left(&self) -> bool {
        let is_left = |(key, seen): (&JobKey, &Seen)| {
            let kind = gang_kind(&key.resource.api_version(), key.resource.kind);
            kind.is_some_and(|kind| hold::is_left(kind, &seen.object))
        };
        self.read().jobs.iter().any(is_left)
    }

    /// The watch delivered this state. True if it is news.
    pub fn job_watched(&self, key: JobKey, seen: Seen) -> bool {
        self.write().jobs.watched(key, seen)
    }

    /// The watch delivered its end, or that it is none of ours any more. True if it was known.
    pub fn job_removed(&self, key: &JobKey, seen: &Seen) -> bool {
        self.write().jobs.removed(key, seen)
    }

    /// A call was answered with this state; `before` is the UID that was seen when it was made. False if it is gone since.
    pub fn job_answered(&self, key: JobKey, seen: Seen, before: &str) -> bool {
        self.write().jobs.answered(key, seen, Some(before))
    }

    /// A call was answered that the name is free, or that another has it; this one had it before.
    pub fn job_gone(&self, key: &JobKey, uid: &str) {
        self.write().jobs.gone(key, uid);
    }

    /// A complete list of this resource: others of it are gone. Answers their keys.
    pub fn jobs_listed(&self, resource: Resource, there: &BTreeSet<JobKey>) -> Vec<JobKey> {
        self.write().jobs.listed(resource, there)
    }

    /// The group object under the key.
    pub fn group(&self, key: &GroupKey) -> Option<Seen> {
        self.read().groups.get(key).cloned()
    }

    /// Group objects of this namespace that this job controls.
    pub fn groups_of(&self, namespace: &str, job_uid: &str) -> Vec<(GroupKey, Seen)> {
        let inner = self.read();
        let controlled = inner.groups.iter().filter(|(key, seen)| {
            &*key.namespace == namespace && controller(&seen.object).is_some_and(|owner| owner.uid == job_uid)
        });
        let mut groups: Vec<_> = controlled
            .map(|(key, seen)| (key.clone(), seen.clone()))
            .collect();
        groups.sort_by(|(one, _), (other, _)| one.cmp(other)); // the same view gives the same plan
        groups
    }

    /// The watch delivered this state. True if it is news.
    pub fn group_watched(&self, key: GroupKey, seen: Seen) -> bool {
        self.write().groups.watched(key, seen)
    }

    /// The watch delivered its end.
    pub fn group_removed(&self, key: &GroupKey, seen: &Seen) {
        self.write().groups.removed(key, seen);
    }

    /// A call was answered with this state; `before` is the UID that was seen when it was made. False if it is gone since.
    pub fn group_answered(&self, key: GroupKey, seen: Seen, before: Option<&str>) -> bool {
        self.write().groups.answered(key, seen, before)
    }

    /// A call was answered that the name is free; this one had it before.
    pub fn group_gone(&self, key: &GroupKey, uid: &str) {
        self.write().groups.gone(key, uid);
    }

    /// A complete list of this resource: others of it are gone.
    pub fn groups_listed(&self, resource: (&'static str, &'static str), there: &BTreeSet<GroupKey>) {
        self.write().groups.listed(resource, there);
    }

    /// The pods of a group that this job, or a Job that it made (`<job>-launcher`, `<jobset>-<name>-0`), controls.
    pub fn pods(&self, namespace: &Arc<str>, group: &Arc<str>, job: &str) -> PodCount {
        let is_of_job = |controller: &str| {
            let rest = controller.strip_prefix(job);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.read()
            .counts_of(namespace, group)
            .filter(|(controller, _)| is_of_job(controller))
            .fold(PodCount::default(), |sum, (_, count)| PodCount {
                active: sum.active + count.active,
                bound: sum.bound + count.bound,
                succeeded: sum.succeeded + count.succeeded,
            })
    }

    /// How many pods of a group have a node and have not ended, whosever they are.
    pub fn bound(&self, namespace: &Arc<str>, group: &Arc<str>) -> u32 {
        let inner = self.read();
        inner
            .counts_of(namespace, group)
            .map(|(_, count)| count.bound)
            .sum()
    }

    /// Answers the group if its count changed. None as `pod`: it is gone.
    pub fn pod_seen(&self, namespace: &Arc<str>, name: &Arc<str>, pod: Option<PodSeen>) -> Option<Arc<str>> {
        let mut inner = self.write();
        let key = (namespace.clone(), name.clone());
        let held = match pod.clone() {
            Some(pod) => inner.pods.insert(key, pod),
            None => inner.pods.remove(&key),
        };
        if held == pod {
            return None;
        }
        let group = held.as_ref().or(pod.as_ref()).map(|pod| pod.group.clone());
        if let Some(held) = held {
            inner.count(namespace, &held, u32::saturating_sub);
        }
        if let Some(pod) = pod {
            inner.count(namespace, &pod, u32::saturating_add);
        }
        group
    }

    /// Names of all pods that are known, by namespace.
    pub fn pod_names(&self) -> Vec<(Arc<str>, Arc<str>)> {
        self.read().pods.keys().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// By controller.
    fn counts_of(&self, namespace: &Arc<str>, group: &Arc<str>) -> impl Iterator<Item = (&str, &PodCount)> {
        let first = (namespace.clone(), group.clone(), Arc::from(""));
        self.counts
            .range(first..)
            .take_while(move |((in_namespace, of, _), _)| in_namespace == namespace && of == group)
            .map(|((_, _, controller), count)| (&**controller, count))
    }

    fn count(&mut self, namespace: &Arc<str>, pod: &PodSeen, change: fn(u32, u32) -> u32) {
        let key = (namespace.clone(), pod.group.clone(), pod.controller.clone());
        let count = self.counts.entry(key.clone()).or_default();
        count.active = change(count.active, u32::from(pod.active));
        count.bound = change(count.bound, u32::from(pod.active && pod.bound));
        count.succeeded = change(count.succeeded, u32::from(pod.succeeded));
        if *count == PodCount::default() {
            self.counts.remove(&key);
        }
    }
}

/// The controller of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller<'o> {
    /// Its kind.
    pub kind: &'o str,
    /// Its name.
    pub name: &'o str,
    /// Its UID.
    pub uid: &'o str,
}

/// Who controls the object, by its owner references.
pub fn controller(object: &Value) -> Option<Controller<'_>> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner["controller"].as_bool().unwrap_or(false))?;
    Some(Controller {
        kind: owner["kind"].as_str()?,
        name: owner["name"].as_str()?,
        uid: owner["uid"].as_str()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_a_list_has_the_version_and_kind_of_the_list() {
        let item = serde_json::json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
        let seen = Seen::listed(item, "scheduling.k8s.io/v1beta1", "PodGroup").unwrap();
        let named = (&seen.object["apiVersion"], &seen.object["kind"]);
        assert_eq!(named, (&"scheduling.k8s.io/v1beta1".into(), &"PodGroup".into()));
    }

    #[test]
    fn only_pods_of_the_job_count_whatever_label_others_have() {
        let store = Store::default();
        let namespace: Arc<str> = "n".into();
        let group: Arc<str> = "train-1".into();
        let pod = |controller: &str, succeeded: bool| PodSeen {
            group: group.clone(),
            controller: controller.into(),
            active: !succeeded,
            bound: true,
            succeeded,
        };
        let pods = [
            ("worker-0", pod("train", false)),
            ("launcher", pod("train-launcher", false)),
            ("bare", pod("", true)),
            ("other", pod("trainer", true)),
            ("neighbour", pod("eve", false)),
        ];
        for (name, pod) in pods {
            assert_eq!(
                store.pod_seen(&namespace, &name.into(), Some(pod)),
                Some(group.clone())
            );
        }
        let of_job = PodCount {
            active: 2,
            bound: 2,
            succeeded: 0,
        };
        assert_eq!(store.pods(&namespace, &group, "train"), of_job);
        assert_eq!(
            store.bound(&namespace, &group),
            3,
            "a scheduler counts the neighbour too"
        );
        store.pod_seen(&namespace, &"worker-0".into(), None);
        assert_eq!(store.pods(&namespace, &group, "train").active, 1);
        assert_eq!(store.pods(&"other".into(), &group, "train"), PodCount::default());
    }
}
