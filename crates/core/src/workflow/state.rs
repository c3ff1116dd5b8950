//! The states of a workflow, which follow from those of its steps, and the arrows between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Counts;
use crate::rejected::Invalid;

/// Where a workflow is. Stored and shown as the words of [`WorkflowState::word`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    /// Accepted.
    Pending,
    /// Its steps are being made.
    Initializing,
    /// Steps that can run are being handed out.
    EnqueuingSteps,
    /// Steps can run or are running.
    StepsInProcess,
    /// What steps have brought is being looked at.
    EvaluatingResults,
    /// Nothing can run: it is paused, or waits for workflows within it.
    WaitingForDependencies,
    /// Nothing can run until a moment has come.
    WaitingForRetry,
    /// Nothing can run because of steps that failed: an operator may retry or settle them, or give up.
    BlockedByFailures,
    /// Everything is done, or was skipped.
    Complete,
    /// Given up because of steps that failed.
    Error,
    /// Stopped by an operator, or by the workflow it is a step of.
    Cancelled,
    /// Settled by an operator.
    ResolvedManually,
}

use WorkflowState::{
    BlockedByFailures, Cancelled, Complete, EnqueuingSteps, Error, EvaluatingResults, Initializing, Pending,
    ResolvedManually, StepsInProcess, WaitingForDependencies, WaitingForRetry,
};

impl WorkflowState {
    /// All states, in the order of a workflow's life.
    pub const ALL: [Self; 12] = [
        Pending,
        Initializing,
        EnqueuingSteps,
        StepsInProcess,
        EvaluatingResults,
        WaitingForDependencies,
        WaitingForRetry,
        BlockedByFailures,
        Complete,
        Error,
        Cancelled,
        ResolvedManually,
    ];

    /// The word that is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Pending => "pending",
            Initializing => "initializing",
            EnqueuingSteps => "enqueuing_steps",
            StepsInProcess => "steps_in_process",
            EvaluatingResults => "evaluating_results",
            WaitingForDependencies => "waiting_for_dependencies",
            WaitingForRetry => "waiting_for_retry",
            BlockedByFailures => "blocked_by_failures",
            Complete => "complete",
            Error => "error",
            Cancelled => "cancelled",
            ResolvedManually => "resolved_manually",
        }
    }

    /// Whether nothing more will happen by itself, and nothing is asked of an operator.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Complete | Error | Cancelled | ResolvedManually)
    }

    /// Whether nothing more will happen by itself.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.is_final() || self == BlockedByFailures
    }

    /// Whether it is one of those in which a workflow has an owner.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Initializing | EnqueuingSteps | StepsInProcess | EvaluatingResults)
    }

    /// Whether the arrow from this state to `to` exists.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        let by_operator = matches!(to, Cancelled | ResolvedManually);
        match self {
            Pending => to == Initializing || by_operator,
            Initializing => matches!(to, EnqueuingSteps | WaitingForDependencies | Complete) || by_operator,
            EnqueuingSteps => matches!(to, StepsInProcess | Error) || by_operator,
            StepsInProcess => matches!(to, EvaluatingResults | WaitingForRetry) || by_operator,
            EvaluatingResults => {
                matches!(to, EnqueuingSteps | WaitingForDependencies | BlockedByFailures | Complete)
                    || by_operator
            }
            WaitingForDependencies => to == EvaluatingResults || by_operator,
            WaitingForRetry => matches!(to, EnqueuingSteps | EvaluatingResults) || by_operator,
            BlockedByFailures => matches!(to, EvaluatingResults | Error) || by_operator,
            // Reopened by an operator who retries or settles a step.
            Error => to == EvaluatingResults,
            Complete | Cancelled | ResolvedManually => false,
        }
    }

    /// Where a workflow is that has these steps, if no operator has ended it.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        if counts.active > 0 {
            StepsInProcess
        } else if counts.timed > 0 {
            WaitingForRetry
        } else if counts.nested > 0 {
            WaitingForDependencies
        } else if counts.failed > 0 {
            BlockedByFailures
        } else if counts.waiting > 0 {
            WaitingForDependencies
        } else {
            Complete
        }
    }

    /// The states that lead from this one to `to`, the last of them included, along arrows.
    #[must_use]
    pub fn way_to(self, to: Self) -> Vec<Self> {
        let mut way = Vec::new();
        let mut at = self;
        while at != to && way.len() < Self::ALL.len() {
            at = at.next(to);
            way.push(at);
        }
        way
    }

    /// The next state on the way to `to`.
    fn next(self, to: Self) -> Self {
        match self {
            _ if self.may_become(to) => to,
            Pending => Initializing,
            Initializing if matches!(to, BlockedByFailures | EvaluatingResults) => WaitingForDependencies,
            Initializing => EnqueuingSteps,
            EnqueuingSteps => StepsInProcess,
            WaitingForRetry if to == StepsInProcess => EnqueuingSteps,
            EvaluatingResults if to == Error => BlockedByFailures,
            EvaluatingResults => EnqueuingSteps,
            _ => EvaluatingResults,
        }
    }
}

impl fmt::Display for WorkflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for WorkflowState {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|state| state.word() == text);
        known.ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            Invalid::new("state of a workflow", text, format!("one of {words}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for state in WorkflowState::ALL {
            assert_eq!(state.word().parse::<WorkflowState>().unwrap(), state);
        }
        assert!("done".parse::<WorkflowState>().unwrap_err().to_string().contains("complete"));
    }

    #[test]
    fn every_way_follows_arrows() {
        let rests = [StepsInProcess, WaitingForDependencies, WaitingForRetry, BlockedByFailures, Complete];
        for from in WorkflowState::ALL.into_iter().filter(|state| !state.is_final() || *state == Error) {
            for to in rests.into_iter().chain([Error]) {
                let way = from.way_to(to);
                assert_eq!(way.last().copied().unwrap_or(from), to, "{from} to {to}: {way:?}");
                let mut at = from;
                for next in way {
                    assert!(at.may_become(next), "{from} to {to}: no arrow from {at} to {next}");
                    at = next;
                }
            }
        }
        assert_eq!(Pending.way_to(StepsInProcess), [Initializing, EnqueuingSteps, StepsInProcess]);
        assert_eq!(StepsInProcess.way_to(Complete), [EvaluatingResults, Complete]);
        assert_eq!(StepsInProcess.way_to(WaitingForRetry), [WaitingForRetry]);
        assert_eq!(Pending.way_to(Complete), [Initializing, Complete]);
    }

    #[test]
    fn what_is_over_stays_over() {
        for state in [Complete, Cancelled, ResolvedManually] {
            assert!(WorkflowState::ALL.into_iter().all(|to| !state.may_become(to)));
        }
    }
}
