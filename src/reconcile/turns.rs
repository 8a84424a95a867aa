//! Turns: the keys of a queue are taken one after the other, and a key whose turn failed waits ever longer for the next.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two turns of a key that fails.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a turn ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Look again after this time even if nothing changes.
    pub look_again: Option<Duration>,
    /// It ended in a failure: the next pause is longer.
    pub failed: bool,
}

impl Turn {
    /// Nothing failed.
    pub fn done(look_again: Option<Duration>) -> Self {
        Self {
            look_again,
            failed: false,
        }
    }

    /// It failed, and is tried again after this time.
    pub fn failed(look_again: Duration) -> Self {
        Self {
            look_again: Some(look_again),
            failed: true,
        }
    }
}

/// The pause after so many failed turns in a row before this one.
pub fn pause(failures: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1 << failures.min(8))
        .min(LONGEST_PAUSE)
}

/// The pause before the same is tried again that was in vain so many times before: a second, and twice as long each time.
pub fn ever_longer(before: u32) -> Duration {
    Duration::from_secs(1 << before.min(5)).min(LONGEST_PAUSE)
}

/// Who takes the turns of one kind of key.
pub trait TakesTurns: Send + Sync + 'static {
    /// What a turn is about.
    type Key: Hash + Eq + Clone + Send + Sync + 'static;

    /// The keys that need a turn.
    fn queue(&self) -> &Queue<Self::Key>;

    /// One turn. `failures`: how many turns of this key failed in a row before.
    fn take(&self, key: &Self::Key, failures: u32) -> impl Future<Output = Turn> + Send;
}

/// Starts the tasks that take turns, `concurrency` at a time, until `stop`.
pub fn spawn<T: TakesTurns>(tasks: &mut JoinSet<()>, turns: T, concurrency: usize, stop: &CancellationToken) {
    let (turns, failures) = (Arc::new(turns), Arc::default());
    for _ in 0..concurrency {
        tasks.spawn(take_turns(turns.clone(), Arc::clone(&failures), stop.clone()));
    }
}

async fn take_turns<T: TakesTurns>(
    turns: Arc<T>,
    failures: Arc<Mutex<HashMap<T::Key, u32>>>,
    stop: CancellationToken,
) {
    let queue = turns.queue();
    let failures = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = queue.next() => key,
        };
        let before = failures().get(&key).copied().unwrap_or(0);
        let turn = turns.take(&key, before).await;
        match turn.failed {
            true => failures().insert(key.clone(), before.saturating_add(1)),
            false => failures().remove(&key),
        };
        queue.done(&key);
        if let Some(delay) = turn.look_again {
            queue.add_in(key, delay.max(Duration::from_millis(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails {
        queue: Queue<&'static str>,
        /// How often the first turns fail.
        times: u32,
        seen: Arc<Mutex<Vec<u32>>>,
    }

    impl TakesTurns for Fails {
        type Key = &'static str;

        fn queue(&self) -> &Queue<Self::Key> {
            &self.queue
        }

        async fn take(&self, _: &Self::Key, failures: u32) -> Turn {
            let turns = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(failures);
                u32::try_from(seen.len()).unwrap()
            };
            match turns {
                turns if turns <= self.times => Turn::failed(pause(failures)),
                turns if turns <= self.times + 2 => Turn::done(Some(Duration::ZERO)),
                _ => Turn::default(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_are_counted_and_a_good_turn_forgets_them() {
        let (queue, seen, stop) = (Queue::default(), Arc::default(), CancellationToken::new());
        let turns = Fails {
            queue: queue.clone(),
            times: 3,
            seen: Arc::clone(&seen),
        };
        let mut tasks = JoinSet::new();
        spawn(&mut tasks, turns, 2, &stop);
        queue.add("a");
        tokio::time::sleep(Duration::from_millis(1390)).await;
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2], "after 0, 200 and 600 ms");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            *seen.lock().unwrap(),
            [0, 1, 2, 3, 0, 0],
            "then none is asked for"
        );
        stop.cancel();
        while tasks.join_next().await.is_some() {}
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses = [0, 1, 4, 7, 8, u32::MAX].map(|failures| pause(failures).as_millis());
        assert_eq!(pauses, [200, 400, 3200, 25600, 30000, 30000]);
    }
}
