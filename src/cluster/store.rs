//! Pods of one side, as its watch and the answers to our own writes show them.
//!
//! A view may be old; every write that follows from it carries preconditions. Absence here proves nothing (rule P).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::reconcile::pod::local::{LocalPod, PodKey, RemotePod, Unreadable};

/// A pod as one side stores it.
pub trait Stored: Sized + Send + Sync {
    /// Reads the object.
    ///
    /// # Errors
    /// If it is no pod.
    fn parse(json: Arc<str>) -> Result<Self, Unreadable>;
    /// `namespace/name`.
    fn key(&self) -> &PodKey;
    /// UID.
    fn uid(&self) -> &Arc<str>;
    /// resourceVersion.
    fn resource_version(&self) -> &str;
    /// What siblings share, if this side has such a thing.
    fn group(&self) -> Option<Arc<str>>;
}

impl Stored for LocalPod {
    fn parse(json: Arc<str>) -> Result<Self, Unreadable> {
        Self::parse(json)
    }
    fn key(&self) -> &PodKey {
        &self.key
    }
    fn uid(&self) -> &Arc<str> {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
    fn group(&self) -> Option<Arc<str>> {
        match (&self.controller, &self.root_hint) {
            (Some(controller), _) => Some(controller.uid.clone()),
            (None, Some(hint)) => Some(format!("{}/{hint}", self.key.namespace).into()),
            (None, None) => None,
        }
    }
}

impl Stored for RemotePod {
    fn parse(json: Arc<str>) -> Result<Self, Unreadable> {
        Self::parse(json)
    }
    fn key(&self) -> &PodKey {
        &self.key
    }
    fn uid(&self) -> &Arc<str> {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
    fn group(&self) -> Option<Arc<str>> {
        None
    }
}

/// The pods of one side.
pub struct PodStore<T> {
    inner: RwLock<Inner<T>>,
}

struct Inner<T> {
    pods: HashMap<PodKey, Arc<T>>,
    groups: HashMap<Arc<str>, BTreeSet<PodKey>>,
    /// The newest resourceVersion that a watch delivered.
    delivered: u64,
}

impl<T> Default for PodStore<T> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                pods: HashMap::new(),
                groups: HashMap::new(),
                delivered: 0,
            }),
        }
    }
}

impl<T: Stored> PodStore<T> {
    /// The pod under the key.
    pub fn get(&self, key: &PodKey) -> Option<Arc<T>> {
        self.read().pods.get(key).cloned()
    }

    /// All pods, in no order.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().pods.values().cloned().collect()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<PodKey> {
        self.read().pods.keys().cloned().collect()
    }

    /// Pods that share a group.
    pub fn in_group(&self, group: &str) -> Vec<Arc<T>> {
        let inner = self.read();
        let Some(keys) = inner.groups.get(group) else {
            return Vec::new();
        };
        keys.iter()
            .filter_map(|key| inner.pods.get(key).cloned())
            .collect()
    }

    /// The watch delivered this state. False if it is no news: an answer showed this state or a newer one before, and
    /// the turn that got the answer went on from there.
    pub fn watched(&self, pod: T) -> bool {
        let mut inner = self.write();
        let version = number(pod.resource_version());
        inner.delivered = inner.delivered.max(version);
        let held = inner.pods.get(pod.key()).filter(|held| held.uid() == pod.uid());
        let held = held.map(|held| number(held.resource_version()));
        if held.is_none_or(|held| held <= version) {
            inner.insert(pod);
        }
        version == 0 || held.is_none_or(|held| held < version)
    }

    /// The watch delivered the end of this pod.
    pub fn removed(&self, pod: &T) {
        let mut inner = self.write();
        inner.delivered = inner.delivered.max(number(pod.resource_version()));
        inner.remove(pod.key(), pod.uid());
    }

    /// A write or a live read was answered with this state. An answer that the watch has overtaken is dropped:
    /// it could bring back a pod that was deleted since.
    pub fn answered(&self, pod: T) {
        let mut inner = self.write();
        let version = number(pod.resource_version());
        let fresh = match inner.pods.get(pod.key()) {
            Some(held) => version > number(held.resource_version()),
            None => version > inner.delivered,
        };
        if fresh {
            inner.insert(pod);
        }
    }

    /// A live read showed a pod that the watch does not deliver (its label was changed): kept until it is put right.
    pub fn unwatched(&self, pod: T) {
        let mut inner = self.write();
        let version = number(pod.resource_version());
        let held = inner.pods.get(pod.key());
        if held.is_none_or(|held| version > number(held.resource_version())) {
            inner.insert(pod);
        }
    }

    /// A live read said that the name is free, or that another pod has it.
    pub fn gone(&self, key: &PodKey, uid: &str) {
        self.write().remove(key, uid);
    }

    /// Changes a pod in place, if it is still this one.
    pub fn change(&self, key: &PodKey, uid: &str, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut inner = self.write();
        let Some(held) = inner.pods.get_mut(key).filter(|held| **held.uid() == *uid) else {
            return;
        };
        change(Arc::make_mut(held));
    }

    /// A list is complete: what it did not show is dropped. `namespace` limits it to a list of that namespace.
    /// Answers that are newer than anything delivered stay.
    pub fn listed(&self, seen: &HashSet<PodKey>, namespace: Option<&str>) -> Vec<PodKey> {
        let mut inner = self.write();
        let delivered = inner.delivered;
        let missing: Vec<Arc<T>> = inner
            .pods
            .values()
            .filter(|pod| namespace.is_none_or(|namespace| &*pod.key().namespace == namespace))
            .filter(|pod| !seen.contains(pod.key()) && number(pod.resource_version()) <= delivered)
            .cloned()
            .collect();
        for pod in &missing {
            inner.remove(pod.key(), pod.uid());
        }
        missing.iter().map(|pod| pod.key().clone()).collect()
    }

    /// Forgets everything: the cluster behind is another one.
    pub fn clear(&self) {
        let mut inner = self.write();
        *inner = Inner {
            pods: HashMap::new(),
            groups: HashMap::new(),
            delivered: 0,
        };
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Stored> Inner<T> {
    fn insert(&mut self, pod: T) {
        let key = pod.key().clone();
        if let Some(old) = self.pods.get(&key).cloned() {
            self.ungroup(&old);
        }
        if let Some(group) = pod.group() {
            self.groups.entry(group).or_default().insert(key.clone());
        }
        self.pods.insert(key, Arc::new(pod));
    }

    fn remove(&mut self, key: &PodKey, uid: &str) {
        if let Some(held) = self.pods.get(key).filter(|held| **held.uid() == *uid).cloned() {
            self.ungroup(&held);
            self.pods.remove(key);
        }
    }

    fn ungroup(&mut self, pod: &T) {
        let Some(group) = pod.group() else { return };
        if let Some(keys) = self.groups.get_mut(&group) {
            keys.remove(pod.key());
            if keys.is_empty() {
                self.groups.remove(&group);
            }
        }
    }
}

/// resourceVersions are decimal numbers that grow (KEP-5504); anything else counts as old.
fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_never_brings_back_what_the_watch_saw_end() {
        let store = PodStore::<RemotePod>::default();
        store.answered(pod("u", 5));
        store.watched(pod("u", 7));
        store.removed(&pod("u", 8));
        store.answered(pod("u", 6));
        assert!(store.get(&key()).is_none());
        store.answered(pod("v", 9));
        assert_eq!(&**store.get(&key()).unwrap().uid(), "v");
    }

    #[test]
    fn an_older_state_never_replaces_a_newer_one() {
        let store = PodStore::<RemotePod>::default();
        store.answered(pod("u", 9));
        store.watched(pod("u", 7));
        assert_eq!(store.get(&key()).unwrap().resource_version(), "9");
        store.answered(pod("u", 8));
        assert_eq!(store.get(&key()).unwrap().resource_version(), "9");
    }

    #[test]
    fn what_an_answer_showed_before_is_no_news() {
        let store = PodStore::<RemotePod>::default();
        assert!(store.watched(pod("u", 5)));
        store.answered(pod("u", 7));
        assert!(!store.watched(pod("u", 6)) && !store.watched(pod("u", 7)));
        assert!(store.watched(pod("u", 8)));
        assert!(store.watched(pod("v", 9)), "another pod of that name");
    }

    #[test]
    fn an_end_counts_for_its_uid_only() {
        let store = PodStore::<RemotePod>::default();
        store.watched(pod("v", 9));
        store.removed(&pod("u", 8));
        store.gone(&key(), "u");
        assert!(store.get(&key()).is_some());
    }

    #[test]
    fn a_complete_list_drops_what_it_does_not_show_but_keeps_newer_answers() {
        let store = PodStore::<RemotePod>::default();
        store.watched(pod("u", 5));
        assert_eq!(store.listed(&HashSet::new(), Some("other")), Vec::new());
        assert_eq!(store.listed(&HashSet::new(), None), vec![key()]);
        store.answered(pod("v", 9));
        assert_eq!(store.listed(&HashSet::new(), None), Vec::new());
    }

    fn key() -> PodKey {
        PodKey {
            namespace: "n".into(),
            name: "p".into(),
        }
    }

    fn pod(uid: &str, version: u64) -> RemotePod {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n","name":"p","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        RemotePod::parse(json.into()).unwrap()
    }
}
