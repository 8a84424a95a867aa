//! A remote object that does not become ready -> when to ask its worker for Events (pure).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::observed::{Heard, Memory};

/// A pod that becomes ready sooner is not asked about.
const FIRST: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

/// When to ask.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    /// About the remote object of this UID.
    Now(Arc<str>),
    /// Later.
    In(Duration),
}

/// Whether the worker's Events should be read now. `None`: nothing is wrong with the pod.
pub fn next(memory: &Memory, now: Instant) -> Option<Ask> {
    let (uid, since) = memory.unready_since.as_ref()?;
    let due = match memory.heard.as_ref().filter(|heard| heard.remote == *uid) {
        Some(heard) => heard.at + AGAIN.saturating_mul(1 << heard.same.min(5)).min(LONGEST),
        None => *since + FIRST,
    };
    Some(if due <= now {
        Ask::Now(uid.clone())
    } else {
        Ask::In(due - now)
    })
}

/// What is remembered after the Events were read.
pub fn heard(before: Option<&Heard>, remote: Arc<str>, warning: Option<String>, now: Instant) -> Heard {
    let before = before.filter(|before| before.remote == remote && before.warning == warning);
    Heard {
        remote,
        warning,
        at: now,
        same: before.map_or(0, |before| before.same + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_asked_about_after_five_seconds_and_then_ever_less_often() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut memory = Memory::default();
        assert_eq!(next(&memory, start), None);
        memory.unready_since = Some(("u".into(), start));
        assert_eq!(next(&memory, after(2)), Some(Ask::In(Duration::from_secs(3))));
        assert_eq!(next(&memory, after(5)), Some(Ask::Now("u".into())));
        memory.heard = Some(heard(None, "u".into(), None, after(5)));
        assert_eq!(next(&memory, after(6)), Some(Ask::In(Duration::from_secs(29))));
        memory.heard = Some(heard(memory.heard.as_ref(), "u".into(), None, after(35)));
        assert_eq!(next(&memory, after(35)), Some(Ask::In(Duration::from_secs(60))));
        memory.heard = Some(heard(
            memory.heard.as_ref(),
            "u".into(),
            Some("news".into()),
            after(95),
        ));
        assert_eq!(next(&memory, after(95)), Some(Ask::In(Duration::from_secs(30))));
    }

    #[test]
    fn what_was_heard_of_another_pod_does_not_count() {
        let start = Instant::now();
        let memory = Memory {
            unready_since: Some(("v".into(), start)),
            heard: Some(heard(None, "u".into(), None, start)),
            ..Memory::default()
        };
        assert_eq!(next(&memory, start + FIRST), Some(Ask::Now("v".into())));
    }
}
