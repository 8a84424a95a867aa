//! Who may call a worker now, and who is next: one that is slow must leave turns for the others (R44).

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::reconcile::pair::local::PairKey;

/// Pairs that call a worker, and those that wait to do so.
#[derive(Default)]
pub struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: usize,
    waiting: VecDeque<PairKey>,
    in_line: HashSet<PairKey>,
    /// They were told that there is room, and have not come yet.
    called: HashSet<PairKey>,
}

/// Where in the line a pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Before all others: it is half-way there.
    First,
    /// Behind all others.
    Last,
}

impl Line {
    /// Whether this pair may call now, as fewer than `most` calls are under way. If not, it stands in line, and its
    /// key is the answer of a later [`Line::leave`] or [`Line::pass`].
    pub fn enter(&self, key: &PairKey, stand: Stand, most: usize) -> bool {
        let mut state = self.lock();
        state.called.remove(key);
        if state.under_way < most {
            state.under_way += 1;
            return true;
        }
        if state.in_line.insert(key.clone()) {
            match stand {
                Stand::First => state.waiting.push_front(key.clone()),
                Stand::Last => state.waiting.push_back(key.clone()),
            }
        }
        false
    }

    /// A call is over. Answers who is called instead.
    pub fn leave(&self) -> Option<PairKey> {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(1);
        state.next()
    }

    /// The turn of this pair is over. If it was called and had nothing to call about, answers who is called instead.
    pub fn pass(&self, key: &PairKey) -> Option<PairKey> {
        let mut state = self.lock();
        match state.called.remove(key) {
            true => state.next(),
            false => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<PairKey> {
        let key = self.waiting.pop_front()?;
        self.in_line.remove(&key);
        self.called.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::pair::local::Subject;

    #[test]
    fn whoever_leaves_calls_the_next_and_those_half_way_come_first() {
        let line = Line::default();
        assert!(line.enter(&pod("a"), Stand::Last, 1));
        assert!(!line.enter(&pod("b"), Stand::Last, 1));
        assert!(!line.enter(&pod("b"), Stand::Last, 1), "it stands there once");
        assert!(!line.enter(&pod("c"), Stand::First, 1));
        assert_eq!(line.leave(), Some(pod("c")));
        assert!(line.enter(&pod("c"), Stand::First, 1));
        assert_eq!(line.leave(), Some(pod("b")));
        assert!(line.enter(&pod("b"), Stand::Last, 1));
        assert_eq!(line.leave(), None);
    }

    #[test]
    fn whoever_is_called_and_does_not_come_passes_it_on() {
        let line = Line::default();
        assert!(line.enter(&pod("a"), Stand::Last, 1));
        assert!(!line.enter(&pod("b"), Stand::Last, 1));
        assert!(!line.enter(&pod("c"), Stand::Last, 1));
        assert_eq!(line.pass(&pod("b")), None, "it was not called");
        assert_eq!(line.leave(), Some(pod("b")));
        assert_eq!(line.pass(&pod("b")), Some(pod("c")));
        assert_eq!(line.pass(&pod("b")), None);
    }

    fn pod(name: &str) -> PairKey {
        PairKey {
            subject: Subject::Pod,
            namespace: "n".into(),
            name: name.into(),
        }
    }
}
