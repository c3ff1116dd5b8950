//! The waits of document 002, by its formulas, for those who reckon with them. What steps here do follows
//! their own [`RetryPolicy`](crate::RetryPolicy).

use std::time::Duration;

use crate::time::Timestamp;

/// How waits grow with attempts in document 002: to the power of the attempts, up to a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepBackoff {
    /// The longest of them; 60 seconds by default. Not of those that were asked for.
    pub max: Duration,
    /// What is raised to the power of the attempts, in seconds; 2 by default.
    pub multiplier: f64,
}

impl Default for StepBackoff {
    fn default() -> Self {
        Self { max: Duration::from_secs(60), multiplier: 2.0 }
    }
}

impl StepBackoff {
    /// When a step that has failed is to be tried again: as long after its last attempt as was asked for,
    /// whatever that is; or after its failure, longer each time, up to the limit. `None` if it has not
    /// failed. Attempts that nobody knows are one.
    #[must_use]
    pub fn next_retry_time(
        &self,
        asked: Option<Duration>,
        last_attempted_at: Option<Timestamp>,
        failed_at: Option<Timestamp>,
        attempts: Option<u32>,
    ) -> Option<Timestamp> {
        match (asked, last_attempted_at) {
            (Some(asked), Some(last)) => Some(last.plus(asked)),
            _ => failed_at.map(|failed| failed.plus(self.grown(attempts.unwrap_or(1)))),
        }
    }

    /// To the nearest microsecond. What is too large for a number is the limit; a multiplier below 0, or that
    /// is none, is 0.
    fn grown(&self, attempts: u32) -> Duration {
        const MICROS: f64 = 1e6;
        const HALF: Duration = Duration::from_nanos(500);
        let seconds = self.multiplier.max(0.0).powf(f64::from(attempts)).min(self.max.as_secs_f64());
        let nearest = (seconds * MICROS).round_ties_even() / MICROS;
        // Half a microsecond more, as what follows cuts and the division may have ended just below.
        let grown = Duration::try_from_secs_f64(nearest).map(|grown| grown.saturating_add(HALF));
        grown.unwrap_or(self.max)
    }

    /// How long to wait after so many attempts: `base`, twice as long each time, and never longer than a
    /// minute. Nothing before the first.
    #[must_use]
    pub fn delay(attempts: u32, base: Duration) -> Duration {
        const MOST: Duration = Duration::from_secs(60);
        let mut delay = if attempts == 0 { Duration::ZERO } else { base.min(MOST) };
        // A wait that is any at all has grown to a minute long before.
        for _ in 0..attempts.min(64) {
            delay = delay.saturating_mul(2).min(MOST);
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::MIN.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn requirement_2_10_doubles_from_2_to_60_seconds() {
        let waits = [1, 2, 3, 4, 5, 6, 7, 31, u32::MAX].map(|attempts| {
            let next = StepBackoff::default().next_retry_time(None, None, Some(at(5)), Some(attempts));
            assert_eq!(
                next.unwrap().since(at(5)),
                StepBackoff::delay(attempts, Duration::from_secs(1)),
                "{attempts}"
            );
            next.unwrap().since(at(5)).as_secs()
        });
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn what_was_asked_for_is_not_cut() {
        let (backoff, asked) = (StepBackoff::default(), Some(Duration::from_secs(300)));
        let next = |asked, last, failed, attempts| backoff.next_retry_time(asked, last, failed, attempts);
        assert_eq!(next(asked, Some(at(1)), Some(at(2)), Some(1)), Some(at(301)));
        assert_eq!(next(asked, Some(at(1)), None, None), Some(at(301)));
        assert_eq!(next(asked, None, Some(at(2)), Some(1)), Some(at(4)), "nobody knows after what");
        assert_eq!(next(None, Some(at(1)), Some(at(2)), None), Some(at(4)), "one attempt at least");
        assert_eq!(next(None, Some(at(1)), Some(at(2)), Some(0)), Some(at(3)));
        assert_eq!(next(None, Some(at(1)), None, Some(3)), None);
        assert_eq!(next(asked, None, None, Some(3)), None);
    }

    #[test]
    fn no_number_is_too_large() {
        for multiplier in [0.0, -2.0, 1e-300, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            for max in [Duration::ZERO, Duration::from_secs(60), Duration::MAX] {
                for attempts in [0, 1, 3, u32::MAX] {
                    let backoff = StepBackoff { max, multiplier };
                    let next = backoff.next_retry_time(None, None, Some(at(7)), Some(attempts)).unwrap();
                    assert!(at(7) <= next && next <= at(7).plus(max), "{backoff:?} after {attempts}: {next}");
                }
            }
        }
        let far = StepBackoff::default().next_retry_time(Some(Duration::MAX), Some(at(1)), None, None);
        assert_eq!(far, Some(Timestamp::MAX));
    }

    #[test]
    fn a_delay_doubles_up_to_a_minute() {
        let (seconds, second) = (Duration::from_secs, Duration::from_secs(1));
        assert_eq!([0, 1, 2, 5, 6].map(|n| StepBackoff::delay(n, second)), [0, 2, 4, 32, 60].map(seconds));
        assert_eq!(StepBackoff::delay(2, seconds(5)), seconds(20));
        assert_eq!(StepBackoff::delay(2, seconds(50)), seconds(60));
        assert_eq!(StepBackoff::delay(0, Duration::MAX), Duration::ZERO);
        assert_eq!(StepBackoff::delay(1, Duration::MAX), seconds(60));
        assert_eq!(StepBackoff::delay(u32::MAX, Duration::ZERO), Duration::ZERO);
        assert_eq!(StepBackoff::delay(u32::MAX, Duration::from_nanos(1)), seconds(60));
        assert_eq!(StepBackoff::delay(3, Duration::from_nanos(1)), Duration::from_nanos(8));
    }
}
