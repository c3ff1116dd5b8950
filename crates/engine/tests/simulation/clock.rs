//! The store's clock: it goes as tokio's does, and jumps when it is told to.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;
use windlass::{Clock, Timestamp};

/// Where it starts: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A clock that can be wrong.
#[derive(Debug)]
pub(crate) struct Skewed {
    begin: Instant,
    /// Microseconds that it is ahead.
    ahead: AtomicI64,
}

impl Skewed {
    /// Begins now.
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), ahead: AtomicI64::new(0) }
    }

    /// Jumps; back if negative.
    pub(crate) fn jump(&self, millis: i64) {
        self.ahead.fetch_add(millis * 1000, Ordering::SeqCst);
    }

    /// What a clock that was never wrong would say.
    pub(crate) fn true_time(&self) -> Timestamp {
        START.plus(self.begin.elapsed())
    }

    /// Milliseconds since the beginning, for the trace.
    pub(crate) fn millis(&self) -> u128 {
        self.begin.elapsed().as_millis()
    }
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.true_time().as_micros() + self.ahead.load(Ordering::SeqCst))
    }
}
