//! When a step may start: the truth table of joins and the states of parents.
//!
//! | a parent is | `all`, `any`, `at_least` | `all_done` |
//! |---|---|---|
//! | completed, resolved by hand | is done | is over |
//! | skipped, cancelled | can never be done | is over |
//! | failed, dead letter | may still be done: an operator may retry it | is over |
//! | anything else | may still be done | is not over |
//!
//! A step may start as soon as enough of its parents are done (or over), and is skipped as soon as there can
//! never be enough.

use serde::{Deserialize, Serialize};

use super::definition::Join;
use crate::state::State;

/// What a step knows of its parents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Parents {
    /// How many are done; for `all_done`, over.
    pub met: u32,
    /// How many can never be.
    pub lost: u32,
}

/// What becomes of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Wait,
    Start,
    Skip,
}

impl Join {
    /// How many of so many parents a step needs.
    #[must_use]
    pub fn needed(self, parents: u32) -> u32 {
        match self {
            Self::All | Self::AllDone => parents,
            Self::Any => parents.min(1),
            Self::AtLeast(n) => n,
        }
    }
}

impl Parents {
    /// What one parent adds.
    #[must_use]
    pub fn of(join: Join, parent: State) -> Self {
        match parent {
            State::Completed | State::ResolvedManually => Self { met: 1, lost: 0 },
            state if join == Join::AllDone => Self { met: u32::from(state.is_final()), lost: 0 },
            State::Skipped | State::Cancelled => Self { met: 0, lost: 1 },
            _ => Self::default(),
        }
    }

    /// What all of them add.
    #[must_use]
    pub fn all(join: Join, parents: impl IntoIterator<Item = State>) -> Self {
        parents.into_iter().map(|parent| Self::of(join, parent)).fold(Self::default(), Self::plus)
    }

    #[must_use]
    fn plus(self, other: Self) -> Self {
        Self { met: self.met + other.met, lost: self.lost + other.lost }
    }

    /// After parents have changed by so much.
    #[must_use]
    pub(super) fn moved(self, met: i64, lost: i64) -> Self {
        let add = |number: u32, by: i64| u32::try_from(i64::from(number) + by).unwrap_or(0);
        Self { met: add(self.met, met), lost: add(self.lost, lost) }
    }

    /// What becomes of a step with so many parents.
    pub(super) fn verdict(self, join: Join, parents: u32) -> Verdict {
        let wanted = join.needed(parents);
        if self.met >= wanted {
            Verdict::Start
        } else if parents.saturating_sub(self.lost) < wanted {
            Verdict::Skip
        } else {
            Verdict::Wait
        }
    }
}
