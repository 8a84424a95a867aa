//! Objects of one side, as its watches and the answers to our own writes show them.
//!
//! A view may be old; every write that follows from it carries preconditions. Absence here proves nothing (rule P).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::reconcile::pair::local::{LocalObject, PairKey, RemoteObject, Subject};

/// An object as one side stores it.
pub trait Stored: Sized + Send + Sync {
    /// Kind, namespace and name.
    fn key(&self) -> &PairKey;
    /// UID.
    fn uid(&self) -> &Arc<str>;
    /// resourceVersion.
    fn resource_version(&self) -> &str;
    /// What siblings share, if this side has such a thing.
    fn group(&self) -> Option<Arc<str>>;
}

impl Stored for LocalObject {
    fn key(&self) -> &PairKey {
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

impl Stored for RemoteObject {
    fn key(&self) -> &PairKey {
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

/// The objects of one side.
pub struct ObjectStore<T> {
    inner: RwLock<Inner<T>>,
}

struct Inner<T> {
    objects: HashMap<PairKey, Arc<T>>,
    groups: HashMap<Arc<str>, BTreeSet<PairKey>>,
    /// The newest resourceVersion that the watches of a kind delivered.
    delivered: BTreeMap<Subject, u64>,
}

impl<T> Default for Inner<T> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            groups: HashMap::new(),
            delivered: BTreeMap::new(),
        }
    }
}

impl<T> Default for ObjectStore<T> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner::default()),
        }
    }
}

impl<T: Stored> ObjectStore<T> {
    /// The object under the key.
    pub fn get(&self, key: &PairKey) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<PairKey> {
        self.read().objects.keys().cloned().collect()
    }

    /// Pods that share a group.
    pub fn in_group(&self, group: &str) -> Vec<Arc<T>> {
        let inner = self.read();
        let Some(keys) = inner.groups.get(group) else {
            return Vec::new();
        };
        keys.iter()
            .filter_map(|key| inner.objects.get(key).cloned())
            .collect()
    }

    /// The watch delivered this state. False if it is no news: an answer showed this state or a newer one before, and
    /// the turn that got the answer went on from there.
    pub fn watched(&self, object: T) -> bool {
        let mut inner = self.write();
        let version = number(object.resource_version());
        inner.deliver(object.key().subject, version);
        let held = inner
            .objects
            .get(object.key())
            .filter(|held| held.uid() == object.uid());
        let held = held.map(|held| number(held.resource_version()));
        if held.is_none_or(|held| held <= version) {
            inner.insert(object);
        }
        version == 0 || held.is_none_or(|held| held < version)
    }

    /// The watch delivered the end of this object.
    pub fn removed(&self, object: &T) {
        let mut inner = self.write();
        inner.deliver(object.key().subject, number(object.resource_version()));
        inner.remove(object.key(), object.uid());
    }

    /// A write or a live read was answered with this state. An answer that the watch has overtaken is dropped:
    /// it could bring back an object that was deleted since.
    pub fn answered(&self, object: T) {
        let mut inner = self.write();
        let version = number(object.resource_version());
        let fresh = match inner.objects.get(object.key()) {
            Some(held) => version > number(held.resource_version()),
            None => version > inner.delivered(object.key().subject),
        };
        if fresh {
            inner.insert(object);
        }
    }

    /// A live read showed an object that the watch does not deliver (its label was changed): kept until it is put right.
    pub fn unwatched(&self, object: T) {
        let mut inner = self.write();
        let version = number(object.resource_version());
        let held = inner.objects.get(object.key());
        if held.is_none_or(|held| version > number(held.resource_version())) {
            inner.insert(object);
        }
    }

    /// A live read said that the name is free, or that another object has it.
    pub fn gone(&self, key: &PairKey, uid: &str) {
        self.write().remove(key, uid);
    }

    /// Changes an object in place, if it is still this one.
    pub fn change(&self, key: &PairKey, uid: &str, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut inner = self.write();
        let Some(held) = inner.objects.get_mut(key).filter(|held| **held.uid() == *uid) else {
            return;
        };
        change(Arc::make_mut(held));
    }

    /// A list of a kind is complete: what it did not show is dropped. `namespace` limits it to a list of that namespace.
    /// Answers that are newer than anything delivered stay.
    pub fn listed(&self, subject: Subject, seen: &HashSet<PairKey>, namespace: Option<&str>) -> Vec<PairKey> {
        let mut inner = self.write();
        let delivered = inner.delivered(subject);
        let missing: Vec<Arc<T>> = inner
            .objects
            .values()
            .filter(|object| object.key().subject == subject)
            .filter(|object| namespace.is_none_or(|namespace| &*object.key().namespace == namespace))
            .filter(|object| !seen.contains(object.key()) && number(object.resource_version()) <= delivered)
            .cloned()
            .collect();
        for object in &missing {
            inner.remove(object.key(), object.uid());
        }
        missing.iter().map(|object| object.key().clone()).collect()
    }

    /// Forgets everything: the cluster behind is another one.
    pub fn clear(&self) {
        let mut inner = self.write();
        *inner = Inner::default();
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Stored> Inner<T> {
    fn deliver(&mut self, subject: Subject, version: u64) {
        let newest = self.delivered.entry(subject).or_default();
        *newest = version.max(*newest);
    }

    fn delivered(&self, subject: Subject) -> u64 {
        self.delivered.get(&subject).copied().unwrap_or_default()
    }

    fn insert(&mut self, object: T) {
        let key = object.key().clone();
        if let Some(old) = self.objects.get(&key).cloned() {
            self.ungroup(&old);
        }
        if let Some(group) = object.group() {
            self.groups.entry(group).or_default().insert(key.clone());
        }
        self.objects.insert(key, Arc::new(object));
    }

    fn remove(&mut self, key: &PairKey, uid: &str) {
        if let Some(held) = self.objects.get(key).filter(|held| **held.uid() == *uid).cloned() {
            self.ungroup(&held);
            self.objects.remove(key);
        }
    }

    fn ungroup(&mut self, object: &T) {
        let Some(group) = object.group() else { return };
        if let Some(keys) = self.groups.get_mut(&group) {
            keys.remove(object.key());
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
        let store = ObjectStore::<RemoteObject>::default();
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
        let store = ObjectStore::<RemoteObject>::default();
        store.answered(pod("u", 9));
        store.watched(pod("u", 7));
        assert_eq!(store.get(&key()).unwrap().resource_version(), "9");
        store.answered(pod("u", 8));
        assert_eq!(store.get(&key()).unwrap().resource_version(), "9");
    }

    #[test]
    fn what_an_answer_showed_before_is_no_news() {
        let store = ObjectStore::<RemoteObject>::default();
        assert!(store.watched(pod("u", 5)));
        store.answered(pod("u", 7));
        assert!(!store.watched(pod("u", 6)) && !store.watched(pod("u", 7)));
        assert!(store.watched(pod("u", 8)));
        assert!(store.watched(pod("v", 9)), "another pod of that name");
    }

    #[test]
    fn an_end_counts_for_its_uid_only() {
        let store = ObjectStore::<RemoteObject>::default();
        store.watched(pod("v", 9));
        store.removed(&pod("u", 8));
        store.gone(&key(), "u");
        assert!(store.get(&key()).is_some());
    }

    #[test]
    fn a_complete_list_drops_what_it_does_not_show_but_keeps_newer_answers() {
        let store = ObjectStore::<RemoteObject>::default();
        store.watched(pod("u", 5));
        assert_eq!(
            store.listed(Subject::Pod, &HashSet::new(), Some("other")),
            Vec::new()
        );
        assert_eq!(store.listed(Subject::Pod, &HashSet::new(), None), vec![key()]);
        store.answered(pod("v", 9));
        assert_eq!(store.listed(Subject::Pod, &HashSet::new(), None), Vec::new());
    }

    fn key() -> PairKey {
        PairKey {
            subject: Subject::Pod,
            namespace: "n".into(),
            name: "p".into(),
        }
    }

    fn pod(uid: &str, version: u64) -> RemoteObject {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n","name":"p","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        RemoteObject::parse(Subject::Pod, json.into()).unwrap()
    }
}
