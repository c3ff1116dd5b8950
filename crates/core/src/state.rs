//! The states of a task and the arrows between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rejected::Invalid;

/// Where a task is. Stored and shown as the words of [`State::word`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A step that waits for others: see [`Waits`](crate::Waits).
    Waiting,
    /// Due in the future: delayed at submit, or snoozed by its handler.
    Scheduled,
    /// Claimable now (or parked behind its lane, which is not a state).
    Pending,
    /// Leased to a worker; the handler has not started.
    Claimed,
    /// The handler is executing.
    Running,
    /// An attempt failed and the backoff is running.
    WaitingForRetry,
    /// Success, with a result.
    Completed,
    /// Failed for good: not retryable, no handler, bad payload.
    Failed,
    /// Failed and no attempts are left.
    DeadLetter,
    /// Stopped by an operator, its handler or its workflow.
    Cancelled,
    /// Never ran: its condition was false or its workflow said so.
    Skipped,
    /// Settled by an operator.
    ResolvedManually,
}

use State::{
    Cancelled, Claimed, Completed, DeadLetter, Failed, Pending, ResolvedManually, Running, Scheduled,
    Skipped, Waiting, WaitingForRetry,
};

impl State {
    /// All states, in the order of a task's life.
    pub const ALL: [Self; 12] = [
        Waiting,
        Scheduled,
        Pending,
        Claimed,
        Running,
        WaitingForRetry,
        Completed,
        Failed,
        DeadLetter,
        Cancelled,
        Skipped,
        ResolvedManually,
    ];

    /// The word that is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Waiting => "waiting",
            Scheduled => "scheduled",
            Pending => "pending",
            Claimed => "claimed",
            Running => "running",
            WaitingForRetry => "waiting_for_retry",
            Completed => "completed",
            Failed => "failed",
            DeadLetter => "dead_letter",
            Cancelled => "cancelled",
            Skipped => "skipped",
            ResolvedManually => "resolved_manually",
        }
    }

    /// Whether nothing more will happen by itself.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Completed | Failed | DeadLetter | Cancelled | Skipped | ResolvedManually)
    }

    /// Whether a worker holds it.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Claimed | Running)
    }

    /// Whether it waits for a moment: `due_at` is set in these states and no others.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Scheduled | WaitingForRetry)
    }

    /// Whether an error is recorded beside it: in these states and no others.
    #[must_use]
    pub fn has_error(self) -> bool {
        matches!(self, WaitingForRetry | Failed | DeadLetter)
    }

    /// Whether the arrow from this state to `to` exists. A table to check histories against;
    /// [`transition`](crate::transition) decides when an arrow is taken.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        match self {
            Waiting => {
                matches!(
                    to,
                    Pending | Scheduled | Completed | Failed | Skipped | Cancelled | ResolvedManually
                )
            }
            Scheduled | WaitingForRetry => {
                matches!(to, Pending | Waiting | Skipped | Cancelled | ResolvedManually)
            }
            Pending => matches!(to, Claimed | Waiting | Skipped | Cancelled | ResolvedManually),
            Claimed => {
                matches!(to, Running | Pending | Waiting | Skipped | Cancelled | ResolvedManually)
            }
            Running => matches!(
                to,
                Completed
                    | Failed
                    | WaitingForRetry
                    | DeadLetter
                    | Scheduled
                    | Pending
                    | Waiting
                    | Skipped
                    | Cancelled
                    | ResolvedManually
            ),
            Failed | DeadLetter => matches!(to, Pending | Waiting | Skipped | ResolvedManually),
            Cancelled => matches!(to, Pending | Waiting),
            Completed | Skipped | ResolvedManually => false,
        }
    }

    /// Whether a task may begin its life here. A step whose result was taken over from another workflow
    /// begins at its end.
    #[must_use]
    pub fn may_begin(self) -> bool {
        matches!(self, Waiting | Scheduled | Pending | ResolvedManually)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for State {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|state| state.word() == text);
        known.ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            Invalid::new("state", text, format!("one of {words}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for state in State::ALL {
            assert_eq!(state.word().parse::<State>().unwrap(), state);
        }
        let error = "done".parse::<State>().unwrap_err().to_string();
        assert!(error.contains("\"done\"") && error.contains("completed"), "{error}");
    }

    #[test]
    fn what_never_changes_has_no_arrow_out() {
        for from in [Completed, Skipped, ResolvedManually] {
            assert!(State::ALL.into_iter().all(|to| !from.may_become(to)));
        }
        for state in State::ALL {
            assert!(!state.may_become(state), "{state} to itself");
            assert!(state.is_final() || state.may_become(Cancelled));
            assert!(state.is_final() || state.may_become(ResolvedManually));
        }
    }
}
