//! A source of chance that one number replays.

/// splitmix64: tiny, good enough to choose operations, and the same on every machine.
#[derive(Clone, Debug)]
pub(in crate::conformance) struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub(in crate::conformance) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(in crate::conformance) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end` − 1. The tiny bias of the remainder does not matter here.
    pub(in crate::conformance) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    /// True in so many of a hundred cases.
    pub(in crate::conformance) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which are not empty.
    pub(in crate::conformance) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// One of `choices`, each as often as its weight says.
    pub(in crate::conformance) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }

    /// Some of `pool`: mostly one or two, now and then one twice, or none at all.
    pub(in crate::conformance) fn some_of<T: Clone>(&mut self, pool: &[T]) -> Vec<T> {
        let many = self.weighted(&[(2, 0), (38, 1), (30, 2), (30, pool.len())]);
        (0..many).map(|_| self.pick(pool)).collect()
    }
}
