//! Keys that wait for a turn: each once, never two turns of one key at a time, delays replaced by earlier ones.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A queue shared by those who add keys and those who take turns.
#[derive(Clone)]
pub struct Queue<K>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    queued: HashSet<K>,
    running: HashSet<K>,
    /// Asked for while it ran: once more afterwards.
    again: HashSet<K>,
    due: BTreeMap<(Instant, u64), K>,
    due_of: HashMap<K, (Instant, u64)>,
    serial: u64,
}

impl<K: Hash + Eq + Clone> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            due: BTreeMap::new(),
            due_of: HashMap::new(),
            serial: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
        }))
    }
}

impl<K: Hash + Eq + Clone> Queue<K> {
    /// This key needs a turn now.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        if state.running.contains(&key) {
            state.again.insert(key);
        } else if state.queued.insert(key.clone()) {
            state.ready.push_back(key);
            drop(state);
            self.0.changed.notify_one();
        }
    }

    /// This key needs a turn after `delay`, unless it gets one sooner.
    pub fn add_in(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        let mut state = self.lock();
        if let Some(held) = state.due_of.get(&key).copied() {
            if held.0 <= at {
                return;
            }
            state.due.remove(&held);
        }
        state.serial += 1;
        let place = (at, state.serial);
        state.due.insert(place, key.clone());
        state.due_of.insert(key, place);
        drop(state);
        self.0.changed.notify_one();
    }

    /// The next key; its turn lasts until [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let wake = self.0.changed.notified();
            let due = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(key) = state.take() {
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        self.0.changed.notify_one();
                    }
                    return key;
                }
                state.due.keys().next().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    () = wake => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => wake.await,
            }
        }
    }

    /// The turn of this key is over.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.running.remove(key);
        if state.again.remove(key) && state.queued.insert(key.clone()) {
            state.ready.push_back(key.clone());
            drop(state);
            self.0.changed.notify_one();
        }
    }

    /// Keys that wait for a turn now.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Whether no key waits for a turn now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone> State<K> {
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.due_of.remove(&key);
            if self.running.contains(&key) {
                self.again.insert(key);
            } else if self.queued.insert(key.clone()) {
                self.ready.push_back(key);
            }
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        if let Some(place) = self.due_of.remove(&key) {
            self.due.remove(&place);
        }
        self.running.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_however_often_it_is_added() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_during_its_turn_gets_another_one_after_it() {
        let queue = Queue::default();
        queue.add("a");
        queue.next().await;
        queue.add("a");
        assert!(queue.is_empty(), "never two turns at a time");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_delay_counts_and_a_turn_forgets_it() {
        let queue = Queue::default();
        queue.add_in("a", Duration::from_secs(60));
        queue.add_in("a", Duration::from_secs(5));
        queue.add_in("a", Duration::from_secs(90));
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&"a");
        assert!(
            tokio::time::timeout(Duration::from_secs(120), queue.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_taker_is_woken() {
        let queue = Queue::default();
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        tokio::task::yield_now().await;
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        for taker in takers {
            tokio::time::timeout(Duration::from_secs(1), taker)
                .await
                .unwrap()
                .unwrap();
        }
    }
}
