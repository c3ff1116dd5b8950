//! The history of a task: one row per change of state, never altered, and what can be read from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{Lease, WorkerId};
use crate::rejected::Invalid;
use crate::state::State;
use crate::time::Timestamp;

/// Why a state changed, as a word for programs. What people have to say goes into the note.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// It was submitted.
    Submitted,
    /// A worker took it.
    Claimed,
    /// Its handler started.
    Started,
    /// Its handler succeeded.
    Completed,
    /// Its handler failed.
    Failed,
    /// Its handler asked to come back later.
    Snoozed,
    /// Its handler, or an operator, stopped it.
    Cancelled,
    /// Its worker gave it back.
    Released,
    /// Its worker fell silent.
    LeaseExpired,
    /// Its worker fell silent before it had started the handler. The attempt is given back.
    NotStarted,
    /// Its moment came.
    Due,
    /// An operator wants it to run now.
    Retried,
    /// An operator started it over with all attempts.
    Reopened,
    /// An operator settled it.
    Resolved,
    /// Enough of its parents are done.
    Ready,
    /// Its condition was false, there can never be enough parents that are done, or an operator said so.
    Skipped,
    /// It has made an item for each element of its list.
    Expanded,
    /// It has started the workflow that it is.
    Nested,
    /// Its workflow was paused.
    Paused,
    /// Its workflow goes on.
    Resumed,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 20] = [
        Self::Submitted,
        Self::Claimed,
        Self::Started,
        Self::Completed,
        Self::Failed,
        Self::Snoozed,
        Self::Cancelled,
        Self::Released,
        Self::LeaseExpired,
        Self::NotStarted,
        Self::Due,
        Self::Retried,
        Self::Reopened,
        Self::Resolved,
        Self::Ready,
        Self::Skipped,
        Self::Expanded,
        Self::Nested,
        Self::Paused,
        Self::Resumed,
    ];

    /// The word that is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Snoozed => "snoozed",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::LeaseExpired => "lease_expired",
            Self::NotStarted => "not_started",
            Self::Due => "due",
            Self::Retried => "retried",
            Self::Reopened => "reopened",
            Self::Resolved => "resolved",
            Self::Ready => "ready",
            Self::Skipped => "skipped",
            Self::Expanded => "expanded",
            Self::Nested => "nested",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
        }
    }

    /// Whether the attempt that ended for this reason is given back.
    fn returns_attempt(self) -> bool {
        matches!(self, Self::Released | Self::Snoozed | Self::NotStarted)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Reason {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|reason| reason.word() == text);
        known.ok_or_else(|| Invalid::new("reason", text, "a word of this version's list"))
    }
}

/// One change of state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// 1, 2, 3 … without gaps.
    pub seq: u32,
    /// The state before; none for the first.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// When; never earlier than the entry before.
    pub at: Timestamp,
    /// Who: a worker's id, an operator's name.
    pub actor: Option<String>,
    /// Why.
    pub reason: Reason,
    /// What there is to say: an error, an operator's words.
    pub note: Option<String>,
}

/// One counted run, as the history tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// 1, 2, 3 …; the same number again after one that was given back, and 1 again in a new life.
    pub number: u32,
    /// The number of its claim.
    pub lease: Lease,
    /// Who ran it.
    pub worker: Option<WorkerId>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the handler started, if it did.
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// How it ended, if it has.
    pub ended: Option<Reason>,
    /// What was said at its end: the error, why it was released.
    pub note: Option<String>,
}

/// The attempts of a task, oldest first. They are read from the history and cost no rows of their own.
#[must_use]
pub fn attempts(history: &[Entry]) -> Vec<Attempt> {
    let (mut attempts, mut used): (Vec<Attempt>, u32) = (Vec::new(), 0);
    for entry in history {
        match (entry.to, attempts.last_mut()) {
            (State::Claimed, _) => {
                used += 1;
                attempts.push(Attempt {
                    number: used,
                    lease: u32::try_from(attempts.len() + 1).unwrap_or(Lease::MAX),
                    worker: entry.actor.clone().map(WorkerId::stored),
                    claimed_at: entry.at,
                    started_at: None,
                    ended_at: None,
                    ended: None,
                    note: None,
                });
            }
            (State::Running, Some(attempt)) => attempt.started_at = Some(entry.at),
            (_, Some(attempt)) if attempt.ended.is_none() => {
                attempt.ended_at = Some(entry.at);
                attempt.ended = Some(entry.reason);
                attempt.note.clone_from(&entry.note);
            }
            _ => {}
        }
        if entry.reason.returns_attempt() {
            used = used.saturating_sub(1);
        } else if entry.reason == Reason::Reopened {
            used = 0;
        }
    }
    attempts
}

/// Attempts used after `history`: what [`Status::attempt`](crate::Status::attempt) must say.
#[must_use]
pub fn attempts_used(history: &[Entry]) -> u32 {
    history.iter().fold(0, |used, entry| match entry.reason {
        Reason::Claimed => used + 1,
        Reason::Reopened => 0,
        reason if reason.returns_attempt() => used.saturating_sub(1),
        _ => used,
    })
}

/// What is wrong with `history` by itself: gaps, illegal arrows, time going back. `None` if nothing is.
#[must_use]
pub fn fault(history: &[Entry]) -> Option<String> {
    let mut before: Option<&Entry> = None;
    for (index, entry) in history.iter().enumerate() {
        if usize::try_from(entry.seq) != Ok(index + 1) {
            return Some(format!("entry {} has number {}", index + 1, entry.seq));
        }
        if entry.from != before.map(|before| before.to) {
            return Some(format!("entry {} does not continue the one before", entry.seq));
        }
        let legal = match entry.from {
            Some(from) => from.may_become(entry.to),
            None => entry.to.may_begin(),
        };
        if !legal {
            return Some(format!("entry {} goes from {:?} to {}", entry.seq, entry.from, entry.to));
        }
        if before.is_some_and(|before| before.at > entry.at) {
            return Some(format!("entry {} is earlier than the one before", entry.seq));
        }
        before = Some(entry);
    }
    before.is_none().then(|| "there is no history".into())
}
