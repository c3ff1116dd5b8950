//! A clock that is set back, because it was wrong: what was written in the hour that comes again does not
//! wait for it.
//!
//! The store notices it by heartbeats, which are written all the time and never go back. What is counted from
//! the present (how long a worker or a leader may be silent, how long a retry waits) keeps its length. A
//! moment that somebody has chosen stays.

use std::time::Duration;

use crate::task::Task;
use crate::time::Timestamp;
use crate::worker::Leadership;

/// Clocks are corrected by less than this all the time, and nothing waits long for it.
const TOLERANCE: Duration = Duration::from_secs(1);

/// By how much the clock was set back since the last heartbeat of any worker, if it was.
#[must_use]
pub fn set_back(last_heartbeat: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    last_heartbeat.map(|last| last.since(now)).filter(|by| *by > TOLERANCE)
}

impl Leadership {
    /// The same lease by a clock that was set back. One for ever stays so.
    #[must_use]
    pub fn set_back(self, by: Duration) -> Self {
        if self.until == Timestamp::MAX {
            return self;
        }
        Self { until: self.until.minus(by), ..self }
    }
}

impl Task {
    /// When it is due, by a clock that was set back, if that changes anything. A retry or a snooze waits as
    /// long as it was to wait. A new task was given a moment, and has waited enough if that had come.
    #[must_use]
    pub fn due_when_set_back(&self, by: Duration, now: Timestamp) -> Option<Timestamp> {
        let due = self.status.due_at.filter(|due| *due > now && self.status.updated_at > now)?;
        match self.status.lease {
            0 => (due <= now.plus(by)).then_some(now),
            _ => Some(due.minus(by)),
        }
    }
}
