//! Past repairs -> when the next one may be.

use std::time::Duration;

use tokio::time::Instant;

/// Two repairs of one object within this time are a fight: the next one waits.
const PEACE: Duration = Duration::from_mins(1);
/// The first wait.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest wait, in a fight or while the API server refuses.
const LONGEST: Duration = Duration::from_secs(30);
/// How fast we answer: at once, and ever more slowly while it goes on.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    pause: Duration,
}

impl Pace {
    /// Until when to wait; nothing if the time has come.
    pub(super) fn wait(&self, now: Instant) -> Option<Instant> {
        let until = self.last? + self.pause;
        (until > now).then_some(until)
    }

    pub(super) fn repaired(&mut self, now: Instant) {
        let fight = self.last.is_some_and(|last| now.duration_since(last) < PEACE);
        self.pause = if fight { self.longer() } else { Duration::ZERO };
        self.last = Some(now);
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.pause = self.longer();
        self.last = Some(now);
    }

    fn longer(&self) -> Duration {
        (self.pause * 2).clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_repair_is_at_once_and_a_fight_slows_down() {
        let mut pace = Pace::default();
        let mut waits = Vec::new();
        for _ in 0..7 {
            let now = Instant::now();
            waits.push(
                pace.wait(now)
                    .map_or(0, |until| until.duration_since(now).as_secs()),
            );
            tokio::time::sleep_until(pace.wait(now).unwrap_or(now)).await;
            pace.repaired(Instant::now());
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_minute_of_peace_the_answer_is_at_once_again() {
        let mut pace = Pace::default();
        (0..4).for_each(|_| pace.repaired(Instant::now()));
        tokio::time::sleep(PEACE).await;
        assert_eq!(pace.wait(Instant::now()), None);
        pace.repaired(Instant::now());
        assert_eq!(pace.wait(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_is_tried_again_soon_and_then_twice_a_minute() {
        let mut pace = Pace::default();
        let mut waits = Vec::new();
        for _ in 0..7 {
            let now = Instant::now();
            pace.failed(now);
            waits.push(
                pace.wait(now)
                    .map_or(0, |until| until.duration_since(now).as_secs()),
            );
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    }
}
