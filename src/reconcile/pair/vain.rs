//! What is done again and again and leads nowhere, since something undoes it: it is done ever more rarely, whatever wakes the
//! pair meanwhile, and people are told (pure).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::observed::Memory;
use crate::reconcile::step::Step;
use crate::reconcile::turns::{ever_longer, pause};

/// After so long without it, it begins anew.
const QUIET: Duration = Duration::from_mins(2);
/// So many copies one after the other are honest: the object was edited meanwhile.
const HONEST_COPIES: u32 = 3;

/// The copies of a local object that were made and not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    local: Arc<str>,
    made: u32,
    last: Instant,
}

impl Copies {
    /// One more was made now.
    #[must_use]
    pub fn and_one(before: Option<&Self>, local: &Arc<str>, now: Instant) -> Self {
        let same = before.filter(|copies| copies.local == *local && is_recent(copies.last, now));
        Self {
            local: local.clone(),
            made: same.map_or(0, |copies| copies.made).saturating_add(1),
            last: now,
        }
    }

    /// For how long none may be made of this object.
    #[must_use]
    pub fn rest(&self, local: &Arc<str>, now: Instant) -> Option<Duration> {
        let vain = self.made.checked_sub(HONEST_COPIES).filter(|vain| *vain > 0)?;
        (self.local == *local)
            .then(|| left(self.last + ever_longer(vain - 1), now))
            .flatten()
    }
}

/// Steps that were taken and planned again at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    steps: Vec<&'static str>,
    until: Instant,
    times: u32,
}

impl Stuck {
    /// These were planned again now.
    #[must_use]
    pub fn again(before: Option<&Self>, steps: &[Step], now: Instant) -> Self {
        let names = names(steps);
        let same = before.filter(|stuck| stuck.steps == names && is_recent(stuck.until, now));
        let times = same.map_or(0, |stuck| stuck.times);
        Self {
            steps: names,
            until: now + pause(times),
            times: times.saturating_add(1),
        }
    }

    /// How often in a row.
    #[must_use]
    pub fn times(&self) -> u32 {
        self.times
    }

    /// When they may be tried again.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// For how long these steps are not to be taken. All others may be.
#[must_use]
pub fn stuck_for(memory: &Memory, steps: &[Step], now: Instant) -> Option<Duration> {
    let stuck = memory.stuck.as_ref()?;
    (stuck.steps == names(steps))
        .then(|| left(stuck.until, now))
        .flatten()
}

fn names(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(Step::name).collect()
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) < QUIET
}

fn left(until: Instant, now: Instant) -> Option<Duration> {
    until.checked_duration_since(now).filter(|rest| !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::super::key::{PairKey, Subject};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn copies_in_vain_are_made_ever_more_rarely() {
        let (local, other): (Arc<str>, Arc<str>) = ("L1".into(), "L2".into());
        let now = Instant::now();
        let mut copies = None;
        let mut rests = Vec::new();
        for _ in 0..10 {
            let more = Copies::and_one(copies.as_ref(), &local, now);
            rests.push(more.rest(&local, now).map_or(0, |rest| rest.as_secs()));
            copies = Some(more);
        }
        assert_eq!(rests, [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
        let copies = copies.unwrap();
        assert_eq!(copies.rest(&other, now), None);
        assert_eq!(copies.rest(&local, now + 29 * SECOND), Some(SECOND));
        assert_eq!(copies.rest(&local, now + 30 * SECOND), None);
        let later = Copies::and_one(Some(&copies), &local, now + QUIET);
        assert_eq!(later.rest(&local, now + QUIET), None, "it begins anew");
    }

    #[test]
    fn stuck_steps_wait_and_others_do_not() {
        let key = PairKey {
            subject: Subject::Pod,
            namespace: "n".into(),
            name: "one".into(),
        };
        let stuck = [Step::LookAtLocal { key: key.clone() }];
        let others = [Step::AskConsent {
            worker: "a".into(),
            key,
        }];
        let now = Instant::now();
        let mut memory = Memory::default();
        let mut rests = Vec::new();
        for _ in 0..10 {
            memory.stuck = Some(Stuck::again(memory.stuck.as_ref(), &stuck, now));
            rests.push(stuck_for(&memory, &stuck, now).unwrap().as_millis());
        }
        assert_eq!(
            rests,
            [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
        );
        assert_eq!(stuck_for(&memory, &others, now), None);
        assert_eq!(stuck_for(&memory, &stuck, now + 30 * SECOND), None);
        assert_eq!(Stuck::again(memory.stuck.as_ref(), &others, now).times(), 1);
    }
}
