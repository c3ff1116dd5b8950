//! What a workflow looks like from outside: how it is doing, what to do about it, and what keeps each step from running.

use std::fmt;

use super::{Place, StepState, Waits, Workflow, WorkflowState};
use crate::state::State;
use crate::task::Task;

/// How a workflow is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExecutionStatus {
    /// Steps have failed for good.
    BlockedByFailures,
    /// Steps can be claimed.
    HasReadySteps,
    /// Workers have steps.
    Processing,
    /// Everything is over.
    AllComplete,
    /// What is left waits.
    WaitingForDependencies,
}

impl ExecutionStatus {
    /// A stable word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BlockedByFailures => "blocked_by_failures",
            Self::HasReadySteps => "has_ready_steps",
            Self::Processing => "processing",
            Self::AllComplete => "all_complete",
            Self::WaitingForDependencies => "waiting_for_dependencies",
        }
    }

    /// What is to be done, as a stable word for programs.
    #[must_use]
    pub fn recommended_action(self) -> &'static str {
        match self {
            Self::BlockedByFailures => "handle_failures",
            Self::HasReadySteps => "execute_ready_steps",
            Self::Processing => "wait_for_completion",
            Self::AllComplete => "finalize_task",
            Self::WaitingForDependencies => "wait_for_dependencies",
        }
    }
}

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The tasks of a workflow in numbers, and what they mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExecutionContext {
    /// Steps and items.
    pub total: u32,
    /// Not begun: waiting, scheduled, ready or waiting for a retry.
    pub pending: u32,
    /// Held by a worker that has not started them.
    pub enqueued: u32,
    /// Running; or lists and workflows, whose parts are not over.
    pub in_progress: u32,
    /// Completed or settled by hand.
    pub completed: u32,
    /// Failed for good.
    pub failed: u32,
    /// Skipped or cancelled.
    pub left_out: u32,
    /// Those that can be claimed now.
    pub ready: u32,
    /// Those that wait for a retry.
    pub retrying: u32,
    /// How it is doing.
    pub status: ExecutionStatus,
}

impl ExecutionContext {
    /// From all tasks of a workflow.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let (mut seen, mut ready) = ([0_u32; StepState::ALL.len()], 0);
        for task in tasks {
            seen[StepState::of(&task.status) as usize] += 1;
            ready += u32::from(task.status.state == State::Pending);
        }
        let count = |state: StepState| seen[state as usize];
        let total = seen.iter().sum();
        let (enqueued, in_progress) = (count(StepState::Enqueued), count(StepState::InProgress));
        let completed = count(StepState::Complete) + count(StepState::ResolvedManually);
        let (failed, left_out) = (count(StepState::Error), count(StepState::Cancelled));
        let retrying = count(StepState::WaitingForRetry);
        let pending = count(StepState::Pending) + retrying;
        let status = if failed > 0 {
            ExecutionStatus::BlockedByFailures
        } else if ready > 0 {
            ExecutionStatus::HasReadySteps
        } else if enqueued + in_progress > 0 {
            ExecutionStatus::Processing
        } else if completed + left_out == total {
            ExecutionStatus::AllComplete
        } else {
            ExecutionStatus::WaitingForDependencies
        };
        Self { total, pending, enqueued, in_progress, completed, failed, left_out, ready, retrying, status }
    }

    /// How it is, in one word: `blocked`, `recovering`, `healthy` or `unknown`.
    #[must_use]
    pub fn health(&self) -> &'static str {
        match self {
            Self { failed: 1.., .. } => "blocked",
            Self { retrying: 1.., .. } => "recovering",
            Self { total: 0, .. } => "unknown",
            _ => "healthy",
        }
    }

    /// How much is over, in percent, to two decimals; 0 if there is nothing.
    #[must_use]
    pub fn completion_percentage(&self) -> f64 {
        match self.total {
            0 => 0.0,
            total => {
                (f64::from(self.completed + self.left_out) * 10_000.0 / f64::from(total)).round() / 100.0
            }
        }
    }
}

/// What keeps a step from running.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockingReason {
    /// It waits for its parents, its items, or its workflow.
    DependenciesNotSatisfied,
    /// It has failed and is not tried again by itself.
    RetryNotEligible,
    /// It waits for the moment of its retry, or of its start.
    BackoffNotElapsed,
    /// A worker has it.
    AlreadyInProcess,
    /// It is over, or its workflow is paused.
    InvalidState,
}

impl BlockingReason {
    /// What keeps a step from running; nothing, if it can be claimed.
    #[must_use]
    pub fn of(task: &Task) -> Option<Self> {
        match task.status.state {
            State::Pending => None,
            State::Waiting if task.status.waits == Waits::Resume => Some(Self::InvalidState),
            State::Waiting => Some(Self::DependenciesNotSatisfied),
            State::Scheduled | State::WaitingForRetry => Some(Self::BackoffNotElapsed),
            State::Claimed | State::Running => Some(Self::AlreadyInProcess),
            State::Failed | State::DeadLetter => Some(Self::RetryNotEligible),
            State::Completed | State::Cancelled | State::Skipped | State::ResolvedManually => {
                Some(Self::InvalidState)
            }
        }
    }

    /// A stable word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::DependenciesNotSatisfied => "dependencies_not_satisfied",
            Self::RetryNotEligible => "retry_not_eligible",
            Self::BackoffNotElapsed => "backoff_not_elapsed",
            Self::AlreadyInProcess => "already_in_process",
            Self::InvalidState => "invalid_state",
        }
    }
}

impl Workflow {
    /// The name of a step, or of an item of one, in this workflow: `regions` or `regions[3]`.
    #[must_use]
    pub fn place_name(step: &str, place: Place) -> String {
        match place.item {
            Some(item) => format!("{step}[{item}]"),
            None => step.to_owned(),
        }
    }

    /// Whether it can be waited for no longer: it is over, or an operator has to decide.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.state.is_settled()
    }

    /// Whether everything went as it should.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self.state, WorkflowState::Complete | WorkflowState::ResolvedManually)
    }
}
