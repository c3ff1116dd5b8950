//! When a failed attempt is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{Lease, TaskId};
use crate::limits;
use crate::rejected::Invalid;

/// How the delay grows with the number of failures, `n` = 1, 2, 3 …
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// No delay.
    None,
    /// `base` each time.
    Fixed,
    /// `base × n`.
    Linear,
    /// `base × factor^(n − 1)`.
    Exponential {
        /// Growth from one failure to the next, 1 or more.
        factor: f64,
    },
    /// `base ×` 1, 1, 2, 3, 5, 8 …
    Fibonacci,
}

/// How delays are spread, so that what failed together does not come back together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    None,
    /// Anywhere between zero and the delay.
    Full,
    /// Up to this many percent more or less.
    Percent(u8),
}

/// The one retry policy. It is stored with the task, and the stored one rules.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How the delay grows.
    pub backoff: Backoff,
    /// The first delay.
    pub base: Duration,
    /// No delay is longer than this, jitter included.
    pub cap: Duration,
    /// How delays are spread.
    pub jitter: Jitter,
}

/// Exponential: 1 s, 2 s, 4 s … up to 60 s, without jitter.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff::Exponential { factor: 2.0 },
            base: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            jitter: Jitter::None,
        }
    }
}

impl RetryPolicy {
    /// Whether the numbers make sense.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Backoff::Exponential { factor } = self.backoff
            && !(1.0..=limits::FACTOR).contains(&factor)
        {
            return Err(Invalid::number("retry factor", factor, "1 to 1000"));
        }
        if let Jitter::Percent(percent @ 101..) = self.jitter {
            return Err(Invalid::number("retry jitter", percent, "0 to 100 percent"));
        }
        if self.cap > limits::BACKOFF {
            return Err(Invalid::number("retry cap", self.cap, "at most 365 days"));
        }
        if self.base > self.cap {
            let expected = format!("at most the cap, {:?}", self.cap);
            return Err(Invalid::number("retry base", self.base, expected));
        }
        Ok(())
    }

    /// The delay after the `failures`-th failure, where `roll` is any number: the same one gives the same
    /// delay.
    #[must_use]
    pub fn delay(&self, failures: u32, roll: u64) -> Duration {
        let delay = self.grown(failures.max(1)).min(self.cap);
        match self.jitter {
            Jitter::None => delay,
            Jitter::Full => share(delay, roll),
            Jitter::Percent(percent) => {
                let width = delay.saturating_mul(2 * u32::from(percent)) / 100;
                let lowest = delay.saturating_sub(width / 2);
                lowest.saturating_add(share(width, roll)).min(self.cap)
            }
        }
    }

    /// The delay before cap and jitter, saturating.
    fn grown(&self, n: u32) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        match self.backoff {
            Backoff::None => Duration::ZERO,
            Backoff::Fixed => self.base,
            Backoff::Linear => self.base.saturating_mul(n),
            Backoff::Exponential { factor } => {
                let seconds = self.base.as_secs_f64() * power(factor, n - 1);
                Duration::try_from_secs_f64(seconds).unwrap_or(self.cap)
            }
            Backoff::Fibonacci => {
                let (mut now, mut next) = (self.base, self.base);
                for _ in 1..n {
                    if now >= self.cap {
                        break;
                    }
                    (now, next) = (next, now.saturating_add(next));
                }
                now
            }
        }
    }
}

/// `factor^exponent` by squaring. Unlike `powi` it promises the same bits on every machine.
fn power(factor: f64, mut exponent: u32) -> f64 {
    let (mut power, mut square) = (1.0, factor);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    power
}

/// The part of `whole` that `roll` is of all numbers, to the microsecond.
fn share(whole: Duration, roll: u64) -> Duration {
    let micros = whole.as_micros() * u128::from(roll) / u128::from(u64::MAX);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// The number that spreads the retries of one claim. Taken from the identity of the claim instead of a
/// random source: ids are random already, so delays spread, and every store computes the same one.
#[must_use]
pub fn roll(task: TaskId, lease: Lease) -> u64 {
    let id = u128::from_be_bytes(*task.as_bytes());
    let low = u64::try_from(id & u128::from(u64::MAX)).unwrap_or(0);
    let high = u64::try_from(id >> 64).unwrap_or(0);
    // splitmix64's finaliser: every bit of the input moves half the bits of the output.
    let mut z = low ^ high.rotate_left(32) ^ u64::from(lease).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(policy: RetryPolicy, failures: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let delays = failures.into_iter().map(|n| policy.delay(n, 0).as_secs());
        delays.collect()
    }

    fn policy(backoff: Backoff, base: u64, cap: u64) -> RetryPolicy {
        RetryPolicy {
            backoff,
            base: Duration::from_secs(base),
            cap: Duration::from_secs(cap),
            jitter: Jitter::None,
        }
    }

    #[test]
    fn requirement_0_11_doubles_to_300_seconds() {
        let doubling = policy(Backoff::Exponential { factor: 2.0 }, 1, 300);
        let delays = seconds(doubling, 1..=10);
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    }

    #[test]
    fn requirement_2_10_doubles_from_2_to_60_seconds() {
        let doubling = policy(Backoff::Exponential { factor: 2.0 }, 2, 60);
        assert_eq!(seconds(doubling, 1..=7), [2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn each_strategy_grows_as_it_says() {
        assert_eq!(seconds(policy(Backoff::None, 5, 60), 1..=3), [0, 0, 0]);
        assert_eq!(seconds(policy(Backoff::Fixed, 5, 60), 1..=3), [5, 5, 5]);
        let linear = seconds(policy(Backoff::Linear, 5, 18), 1..=4);
        assert_eq!(linear, [5, 10, 15, 18]);
        let fibonacci = seconds(policy(Backoff::Fibonacci, 1, 20), 1..=8);
        assert_eq!(fibonacci, [1, 1, 2, 3, 5, 8, 13, 20]);
        assert_eq!(seconds(RetryPolicy::default(), [1, 7, 31, u32::MAX]), [1, 60, 60, 60]);
    }

    #[test]
    fn senseless_policies_are_refused() {
        let default = RetryPolicy::default();
        let factor = |factor| RetryPolicy { backoff: Backoff::Exponential { factor }, ..default };
        for bad in [
            factor(0.5),
            factor(f64::NAN),
            factor(f64::INFINITY),
            RetryPolicy { jitter: Jitter::Percent(101), ..default },
            RetryPolicy { base: Duration::from_secs(61), ..default },
            RetryPolicy { cap: Duration::MAX, ..default },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert!(default.check().is_ok());
    }

    proptest! {
        #[test]
        fn c31_jitter_never_exceeds_the_cap(
            strategy in 0..5_u8, base in 0..100_000_u64, extra in 0..1_000_000_u64,
            percent in 0..=100_u8, n: u32, roll: u64,
        ) {
            let backoff = [
                Backoff::None, Backoff::Fixed, Backoff::Linear,
                Backoff::Exponential { factor: 3.5 }, Backoff::Fibonacci,
            ][usize::from(strategy)];
            for jitter in [Jitter::None, Jitter::Full, Jitter::Percent(percent)] {
                let policy = RetryPolicy {
                    backoff, jitter,
                    base: Duration::from_millis(base),
                    cap: Duration::from_millis(base + extra),
                };
                prop_assert!(policy.check().is_ok());
                prop_assert!(policy.delay(n, roll) <= policy.cap);
            }
        }

        #[test]
        fn rolls_differ_between_claims(id: u128, lease in 0..1000_u32) {
            let task = TaskId::from_bytes(id.to_be_bytes());
            prop_assert_ne!(roll(task, lease), roll(task, lease + 1));
        }
    }

    #[test]
    fn full_jitter_covers_the_range() {
        let spread = RetryPolicy { jitter: Jitter::Full, ..RetryPolicy::default() };
        let task = |n: u128| TaskId::from_bytes(n.to_be_bytes());
        let delays = (0..1000).map(|n| spread.delay(7, roll(task(n), 1)).as_secs_f64());
        let mean = delays.sum::<f64>() / 1000.0;
        assert!((27.0..33.0).contains(&mean), "mean of 0 to 60 s is {mean}");
    }
}
