//! The order in which pending tasks are claimed: highest rank first, then first come.
//!
//! With ageing, the order at any moment `now` follows `priority + per_hour × (now − created) + per_retry ×
//! attempts`. `now` is the same for all tasks, so leaving it out changes nothing about the order, and what is
//! left is a constant per task. It is stored and indexed; ageing then costs nothing at claim time.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::rejected::Invalid;
use crate::time::Timestamp;

/// How a task's place in the queue improves, in thousandths of a priority point. Zero by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ageing {
    /// For each hour since it was submitted.
    pub per_hour: u32,
    /// For each attempt it has used.
    pub per_retry: u32,
}

impl Ageing {
    /// Whether the numbers are within bounds.
    pub fn check(self) -> Result<(), Invalid> {
        match self.per_hour.max(self.per_retry) {
            0..=limits::AGEING => Ok(()),
            large => Err(Invalid::number("ageing", large, "at most 1,000,000,000 thousandths of a point")),
        }
    }
}

/// The rank, in millionths of a priority point.
#[must_use]
pub fn rank(priority: i32, ageing: Ageing, created_at: Timestamp, attempt: u32) -> i64 {
    const HOUR: i128 = 3_600_000_000;
    let points = i128::from(priority) * 1_000_000;
    let bonus = i128::from(ageing.per_retry) * i128::from(attempt) * 1_000;
    let age = i128::from(ageing.per_hour) * 1_000 * i128::from(created_at.as_micros()) / HOUR;
    let rank = points + bonus - age;
    i64::try_from(rank).unwrap_or(if rank > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// C44: monotone ageing. The stored constant orders as the formula does at every later moment.
        #[test]
        fn order_is_that_of_the_formula(
            priorities in (-1000..1000_i32, -1000..1000_i32),
            hours in (0..500_000_i64, 0..500_000_i64),
            attempts in (0..100_u32, 0..100_u32),
            per_hour in 0..100_000_u32, per_retry in 0..100_000_u32, later in 0..100_000_i64,
        ) {
            let ageing = Ageing { per_hour, per_retry };
            let created = |hours: i64| Timestamp::from_micros(hours * 3_600_000_000);
            let formula = |priority: i32, hours: i64, attempt: u32| {
                i64::from(priority) * 1000
                    + i64::from(per_hour) * (500_000 + later - hours)
                    + i64::from(per_retry) * i64::from(attempt)
            };
            let stored = rank(priorities.0, ageing, created(hours.0), attempts.0)
                .cmp(&rank(priorities.1, ageing, created(hours.1), attempts.1));
            let wanted = formula(priorities.0, hours.0, attempts.0)
                .cmp(&formula(priorities.1, hours.1, attempts.1));
            prop_assert_eq!(stored, wanted);
        }
    }

    #[test]
    fn without_ageing_rank_is_priority() {
        let late = Timestamp::MAX;
        assert_eq!(rank(7, Ageing::default(), late, 9), 7_000_000);
        assert_eq!(rank(i32::MIN, Ageing::default(), late, 0), i64::from(i32::MIN) * 1_000_000);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let most = Ageing { per_hour: u32::MAX, per_retry: u32::MAX };
        assert!(rank(i32::MIN, most, Timestamp::MAX, 0) < 0);
        assert!(rank(i32::MAX, most, Timestamp::MIN, u32::MAX) > 0);
        assert!(most.check().is_err());
    }
}
