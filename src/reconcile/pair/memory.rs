//! What one process remembers of the pairs, and who decides for a workload. All of it may be lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::local::{PairKey, Subject};
use super::observed::Memory;

/// The memory of every pair that has something to remember.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<PairKey, Memory>>);

impl Memories {
    /// A copy of what is remembered.
    pub fn get(&self, key: &PairKey) -> Memory {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    /// Changes what is remembered.
    pub fn change(&self, key: &PairKey, change: impl FnOnce(&mut Memory)) {
        change(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key.clone())
                .or_default(),
        );
    }

    /// What workers refused was asked under other rules: it is asked again.
    pub fn forget_verdicts(&self) {
        for memory in self.0.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
            memory.verdicts.clear();
        }
    }

    /// The schema of these has changed: what was not kept, or refused, may be taken now. Answers of which pairs there is any.
    pub fn forget_statuses(&self, changed: impl Fn(Subject) -> bool) -> Vec<PairKey> {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_these = memories.iter_mut().filter(|(key, _)| changed(key.subject));
        of_these
            .filter_map(|(key, memory)| {
                let (unkept, refused) = (memory.unkept.take(), memory.refused.take());
                (unkept.is_some() || refused.is_some()).then(|| key.clone())
            })
            .collect()
    }

    /// Nothing is left of the pair.
    pub fn forget(&self, key: &PairKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Placement is decided one at a time per workload: the holder decides, the others are told when it is done.
#[derive(Default)]
pub struct Deciders(Mutex<Held>);

#[derive(Default)]
struct Held {
    by_root: HashMap<Arc<str>, Decider>,
    root_of: HashMap<PairKey, Arc<str>>,
}

struct Decider {
    holder: PairKey,
    waiting: BTreeSet<PairKey>,
}

impl Deciders {
    /// Whether this pod may decide for its workload now. If not, it is told by [`Deciders::done`] of the holder.
    pub fn enter(&self, root: &Arc<str>, key: &PairKey) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let decider = held.by_root.entry(root.clone()).or_insert_with(|| Decider {
            holder: key.clone(),
            waiting: BTreeSet::new(),
        });
        let holds = decider.holder == *key;
        if holds {
            held.root_of.insert(key.clone(), root.clone());
        } else {
            decider.waiting.insert(key.clone());
        }
        holds
    }

    /// The pod has decided, or gave up for now. Answers who waited for it.
    pub fn done(&self, key: &PairKey) -> BTreeSet<PairKey> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let root = held.root_of.remove(key);
        let decider = root.and_then(|root| held.by_root.remove(&root));
        decider.map(|decider| decider.waiting).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_decides_and_the_others_are_told() {
        let deciders = Deciders::default();
        let root: Arc<str> = "root".into();
        let pod = |name: &str| PairKey {
            subject: Subject::Pod,
            namespace: "n".into(),
            name: name.into(),
        };
        assert!(deciders.enter(&root, &pod("a")));
        assert!(deciders.enter(&root, &pod("a")), "the holder may look twice");
        assert!(!deciders.enter(&root, &pod("b")));
        assert_eq!(
            deciders.done(&pod("b")),
            BTreeSet::new(),
            "who only waits ends nothing"
        );
        assert_eq!(deciders.done(&pod("a")), BTreeSet::from([pod("b")]));
        assert!(deciders.enter(&root, &pod("b")));
    }
}
