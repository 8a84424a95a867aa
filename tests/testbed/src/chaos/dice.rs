//! Random numbers that follow from a seed (SplitMix64): a run can be asked for again.

use std::time::Duration;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `below` - 1; 0 if there is nothing below.
    pub fn roll(&mut self, below: usize) -> usize {
        let below = u64::try_from(below.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % below).unwrap_or(0)
    }

    /// Whether it happens, `percent` times in a hundred.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    /// Between the two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = usize::try_from(most.saturating_sub(least).as_millis()).unwrap_or(usize::MAX);
        least + Duration::from_millis(u64::try_from(self.roll(span)).unwrap_or(0))
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.roll(all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let rolls = |seed| {
            (0..8)
                .map(|_| ())
                .scan(Dice::new(seed), |dice, ()| Some(dice.roll(1000)))
                .collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
    }
}
