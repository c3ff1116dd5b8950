//! The database's clock: it decides, whatever the clocks of the machines show.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use windlass_core::Timestamp;

use super::row::moment;
use crate::clock::Clock;

/// What time it is at the database, by what it last told and the time that has passed here since. A statement
/// that needs the exact moment asks for it.
#[derive(Debug)]
pub(super) struct PgClock {
    /// Another clock, for tests.
    by_hand: Option<Arc<dyn Clock>>,
    told: Mutex<(Timestamp, Instant)>,
}

impl PgClock {
    pub(super) fn new(by_hand: Option<Arc<dyn Clock>>, now: Timestamp) -> Self {
        Self { by_hand, told: Mutex::new((now, Instant::now())) }
    }

    /// About now.
    pub(super) fn now(&self) -> Timestamp {
        if let Some(clock) = &self.by_hand {
            return clock.now();
        }
        let (told, at) = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.plus(at.elapsed())
    }

    /// What a statement is given as the present: nothing, so that the database's own counts, unless a test
    /// holds the clock.
    pub(super) fn given(&self) -> Option<SystemTime> {
        self.by_hand.as_ref().map(|clock| moment(clock.now()))
    }

    /// The database has told what time it is.
    pub(super) fn hear(&self, now: Timestamp) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = (now, Instant::now());
    }
}
