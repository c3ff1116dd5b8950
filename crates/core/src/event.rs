//! The feed of changes: where tasks and workflows have come to, one event after the other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::name::Name;
use crate::rejected::Invalid;
use crate::state::State;
use crate::time::Timestamp;
use crate::workflow::{WorkflowId, WorkflowState};

/// A place in the feed of one store. Opaque: only the store that gave it knows what its two numbers are. A
/// later event has a greater one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(u64, u64);

impl EventId {
    /// A place, as a store numbers it.
    #[must_use]
    pub const fn new(group: u64, place: u64) -> Self {
        Self(group, place)
    }

    /// The two numbers that the store knows it by.
    #[must_use]
    pub const fn numbers(self) -> (u64, u64) {
        (self.0, self.1)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{:x}-{:x}", self.0, self.1)
    }
}

/// Accepts what [`Display`](fmt::Display) writes and nothing else.
impl FromStr for EventId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        // Databases count no further.
        let number = |digits| u64::from_str_radix(digits, 16).ok().filter(|it| i64::try_from(*it).is_ok());
        let parts = text.strip_prefix('e').and_then(|numbers| numbers.split_once('-'));
        let id = parts.and_then(|(group, place)| Some(Self(number(group)?, number(place)?)));
        id.filter(|id| id.to_string() == text)
            .ok_or_else(|| Invalid::new("event id", text, "the id of an event, such as e1f-2a"))
    }
}

/// Something has changed, and this is where it is then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the feed.
    pub id: EventId,
    /// When it changed.
    pub at: Timestamp,
    /// Whose it is.
    pub namespace: Name,
    /// What it is, and where.
    pub change: Change,
}

/// What has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// A task was submitted, has another state, or was claimed anew.
    Task {
        /// The task.
        task: TaskId,
        /// The workflow that it is a step of.
        workflow: Option<WorkflowId>,
        /// Its queue.
        queue: Name,
        /// Its kind.
        kind: Name,
        /// Where it is.
        state: State,
        /// Attempts used.
        attempt: u32,
    },
    /// A workflow was started, or has another state.
    Workflow {
        /// The workflow.
        workflow: WorkflowId,
        /// The name of its definition.
        name: Name,
        /// Where it is.
        state: WorkflowState,
    },
}

/// A part of the feed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Events {
    /// In order.
    pub events: Vec<Event>,
    /// Where to go on.
    pub last: EventId,
    /// Whether these are all changes since the place that was asked for. If not, who needs to know where
    /// everything is has to look at it anew; the events begin with the first that is known.
    pub complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read() {
        for (id, text) in [
            (EventId::new(0x1f, 0x2a), "e1f-2a"),
            (EventId::new(0, 0), "e0-0"),
            (EventId::new(i64::MAX as u64, 1), "e7fffffffffffffff-1"),
        ] {
            assert_eq!(id.to_string(), text);
            assert_eq!(text.parse::<EventId>().unwrap(), id);
        }
        let bad = [
            "", "e", "e-", "e1", "e1-", "e-1", "1f-2a", "e1f_2a", "e01-1", "e1-+1", "e1F-1", "e1-1 ",
            "e1-1-1",
        ];
        for text in
            bad.into_iter().chain(["e8000000000000000-0", "e0-ffffffffffffffff", "e10000000000000000-0"])
        {
            let error = text.parse::<EventId>().unwrap_err();
            assert_eq!(error.field, "event id", "{text:?}");
        }
    }

    #[test]
    fn ids_are_in_order() {
        let id = EventId::new;
        assert!(id(1, 9) < id(2, 1) && id(2, 1) < id(2, 2));
        assert_eq!(id(7, 8).numbers(), (7, 8));
    }
}
