//! A source of chance that one number replays.

use std::time::Duration;

/// splitmix64: tiny, good enough to choose with, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A source of its own, so that one part of a run does not change what another draws.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn per_mille(&mut self, cases: u64) -> bool {
        self.next() % 1000 < cases
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.per_mille(percent * 10)
    }

    /// One of `choices`, which are not empty.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let len = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.next() % len).unwrap()].clone()
    }

    /// One of `choices`, each as often as its weight says.
    pub(crate) fn weighted<T: Clone>(&mut self, choices: &[(u64, T)]) -> T {
        let mut left = self.next() % choices.iter().map(|(weight, _)| weight).sum::<u64>();
        for (weight, choice) in choices {
            if left < *weight {
                return choice.clone();
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }

    /// So many milliseconds.
    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// So many seconds, to the millisecond.
    pub(crate) fn seconds(&mut self, low: u64, high: u64) -> Duration {
        self.millis(low * 1000, high * 1000)
    }
}
