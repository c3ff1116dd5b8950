//! What all stores decide alike about the feed of changes: whether it has to be switched on, and what one who
//! goes on from a place is told.

use windlass_core::{Event, EventId, Events, Timestamp, limits};

/// What one who asks for events has to do first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listening {
    /// Nothing: others have asked not long ago. So reading seldom writes.
    GoesOn,
    /// Keep it on for longer.
    RunsOut,
    /// Switch it on. Nobody knows what has changed before.
    IsOver,
}

impl Listening {
    /// From the moment until which changes are told.
    pub(crate) fn at(now: Timestamp, until: Timestamp) -> Self {
        if until <= now {
            Self::IsOver
        } else if until < now.plus(limits::LISTENED / 2) {
            Self::RunsOut
        } else {
            Self::GoesOn
        }
    }
}

/// What is known of the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Feed {
    /// Every change after this is known.
    pub(crate) since: EventId,
    /// The last event, or `since`.
    pub(crate) end: EventId,
}

impl Feed {
    /// After which place one is told who goes on from `after`, and whether nothing is missing.
    pub(crate) fn from(self, after: Option<EventId>) -> (EventId, bool) {
        match after {
            None => (self.end, true),
            Some(after) if (self.since..=self.end).contains(&after) => (after, true),
            Some(_) => (self.since, false),
        }
    }
}

/// The answer to one who is told `events`, which are those after `from`.
pub(crate) fn answer(events: Vec<Event>, from: EventId, complete: bool) -> Events {
    let last = events.last().map_or(from, |event| event.id);
    Events { events, last, complete }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_kept_on_before_it_runs_out() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let of = |left: Duration| Listening::at(now, now.plus(left));
        assert_eq!(of(Duration::ZERO), Listening::IsOver);
        assert_eq!(Listening::at(now, Timestamp::MIN), Listening::IsOver);
        assert_eq!(of(Duration::from_micros(1)), Listening::RunsOut);
        assert_eq!(of(limits::LISTENED / 2 - Duration::from_micros(1)), Listening::RunsOut);
        assert_eq!(of(limits::LISTENED / 2), Listening::GoesOn);
    }

    #[test]
    fn who_comes_from_elsewhere_is_told_so() {
        let id = EventId::new;
        let feed = Feed { since: id(2, 5), end: id(2, 9) };
        assert_eq!(feed.from(None), (id(2, 9), true));
        for fine in [id(2, 5), id(2, 7), id(2, 9)] {
            assert_eq!(feed.from(Some(fine)), (fine, true));
        }
        for foreign in [id(1, 7), id(2, 4), id(2, 10), id(3, 0)] {
            assert_eq!(feed.from(Some(foreign)), (id(2, 5), false), "{foreign}");
        }
    }
}
