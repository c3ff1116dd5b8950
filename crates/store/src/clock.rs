//! Where a store's present comes from.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_core::Timestamp;

/// The clock of a store. All moments in its rows, and all decisions about what is due, come from it.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock set before 1970 is read as 1970: the only thing such a clock can tell is that it is wrong.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::MIN.plus(since)
    }
}

/// A clock that stands still until it is moved, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_micros()))
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    /// Moves to `to`, which may be back.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
