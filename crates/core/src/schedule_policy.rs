//! What a schedule does about slots that were missed, and about a task of the slot before that is not over.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::rejected::Invalid;

/// What to do about slots that passed while nobody could fire them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Missed {
    /// Leave them out. A slot that is late by at most [`limits::ON_TIME`] is not missed.
    Skip,
    /// Make up for them with one run, for the last of them.
    #[default]
    One,
    /// Make up for each of them, but for no more than so many, the last ones.
    All(NonZeroU32),
}

/// What to do when a slot comes and the task of the one before is not final.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Overlap {
    /// Submit another beside it.
    #[default]
    Allow,
    /// Leave the slot out.
    Skip,
    /// Submit it, to start when the ones before it have ended.
    Queue,
    /// Cancel the one before.
    Replace,
}

/// `skip`, `one` or `all:N`.
impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.pad("skip"),
            Self::One => f.pad("one"),
            Self::All(most) => f.pad(&format!("all:{most}")),
        }
    }
}

impl FromStr for Missed {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::new("missed", text, "skip, one, or all:N with N from 1 to 100");
        match text.split_once(':') {
            None if text == "skip" => Ok(Self::Skip),
            None if text == "one" => Ok(Self::One),
            Some(("all", most)) => {
                let most = most.parse().ok().filter(|most: &NonZeroU32| most.get() <= limits::CATCH_UP);
                most.map(Self::All).ok_or_else(refused)
            }
            _ => Err(refused()),
        }
    }
}

impl Overlap {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Skip, Self::Queue, Self::Replace];

    /// The word that is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Overlap {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|overlap| overlap.word() == text);
        known.ok_or_else(|| Invalid::new("overlap", text, "allow, skip, queue or replace"))
    }
}
