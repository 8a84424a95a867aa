//! What copies on a worker wait for, as their last turn showed it. The pair opens a copy by it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::store::JobKey;

/// Whether a committed copy may be opened, as far as its gang is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not yet, and why, if there is anything to say.
    Awaited(Option<String>),
    /// Its PodGroup was shown by an answer of the API, or it has to start without one.
    Stands,
}

/// By copy, with the UID of each.
#[derive(Default)]
pub(super) struct Answers(Mutex<HashMap<JobKey, (Arc<str>, Answer)>>);

impl Answers {
    pub(super) fn of(&self, key: &JobKey, uid: &str) -> Option<Answer> {
        let all = self.lock();
        let of_it = all.get(key).filter(|(of, _)| **of == *uid);
        of_it.map(|(_, answer)| answer.clone())
    }

    /// True if that is news.
    pub(super) fn set(&self, key: &JobKey, uid: &Arc<str>, answer: Answer) -> bool {
        let next = (uid.clone(), answer);
        let before = self.lock().insert(key.clone(), next.clone());
        before != Some(next)
    }

    pub(super) fn forget(&self, key: &JobKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobKey, (Arc<str>, Answer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
