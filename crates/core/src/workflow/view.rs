//! What a workflow looks like from outside: how it is doing, what to do about it, and what keeps each step
//! from running.

use std::fmt;

use super::{Place, StepState, Waits, Workflow, WorkflowState};
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;

/// How a workflow is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExecutionStatus {
    /// Steps have failed for good.
    BlockedByFailures,
    /// Nothing keeps some of the steps from running.
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
    /// Those that nothing keeps from running: see [`BlockingReason::of`].
    pub ready: u32,
    /// Those that wait for a retry.
    pub retrying: u32,
    /// How it is doing.
    pub status: ExecutionStatus,
}

impl ExecutionContext {
    /// From all tasks of a workflow, which may be paused.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>, paused: bool, now: Timestamp) -> Self {
        let (mut seen, mut ready) = ([0_u32; StepState::ALL.len()], 0);
        for task in tasks {
            seen[StepState::of(&task.status) as usize] += 1;
            ready += u32::from(BlockingReason::of(task, paused, now).is_none());
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
    /// It waits for its parents.
    DependenciesNotSatisfied,
    /// It has failed and is not tried again by itself.
    RetryNotEligible,
    /// It waits for the moment of its retry, or of its start.
    BackoffNotElapsed,
    /// A worker has it, or others have all places of its lane; or its items, or the workflow that it is, are
    /// being worked on.
    AlreadyInProcess,
    /// It is over, or its workflow is paused.
    InvalidState,
}

impl BlockingReason {
    /// What keeps a task of a workflow from running; nothing, if a worker may take it now. This is what
    /// "ready" means everywhere. One whose moment has come is ready even if nobody has promoted it yet,
    /// unless its workflow is paused: then it goes on waiting.
    #[must_use]
    pub fn of(task: &Task, paused: bool, now: Timestamp) -> Option<Self> {
        let Status { state, waits, due_at, .. } = &task.status;
        match state {
            State::Waiting => Some(match waits {
                Waits::Items { .. } | Waits::Workflow => Self::AlreadyInProcess,
                Waits::Resume => Self::InvalidState,
                Waits::Parents(_) | Waits::Nothing => Self::DependenciesNotSatisfied,
            }),
            State::Scheduled | State::WaitingForRetry if due_at.is_some_and(|due| due > now) => {
                Some(Self::BackoffNotElapsed)
            }
            State::Scheduled | State::WaitingForRetry | State::Pending if paused => Some(Self::InvalidState),
            State::Pending if task.is_parked() => Some(Self::AlreadyInProcess),
            State::Scheduled | State::WaitingForRetry | State::Pending => None,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::super::Parents;
    use super::*;
    use crate::lane::Lane;
    use crate::{Ageing, Name, RetryPolicy, Spec, WorkflowId};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn task(state: State) -> Task {
        let id = WorkflowId::new(Uuid::from_u128(1 << 64));
        let spec = Spec {
            namespace: Name::default(),
            queue: Name::default(),
            kind: Name::stored("k"),
            priority: 0,
            ageing: Ageing::default(),
            key: None,
            lane: None,
            timeout: None,
            tags: Vec::new(),
            max_attempts: None,
            retry: RetryPolicy::default(),
            created_at: NOW,
            workflow: Some(id),
            traceparent: None,
        };
        Task { id: id.step(0), spec, status: Status::new(state, 0, NOW) }
    }

    fn waiting(waits: Waits) -> Task {
        let mut task = task(State::Waiting);
        task.status.waits = waits;
        task
    }

    fn due(state: State, due_at: Timestamp) -> Task {
        let mut task = task(state);
        task.status.due_at = Some(due_at);
        task
    }

    fn in_lane(slot: bool) -> Task {
        let mut task = task(State::Pending);
        task.spec.lane = Some(Lane::new("narrow", 1).unwrap());
        task.status.slot = slot;
        task
    }

    /// C42: nothing keeps exactly those that are ready.
    #[test]
    fn one_reason_for_each_that_is_not_ready() {
        use BlockingReason::{
            AlreadyInProcess, BackoffNotElapsed, DependenciesNotSatisfied, InvalidState, RetryNotEligible,
        };
        let later = NOW.plus(Duration::from_micros(1));
        // In a workflow that goes on, and in one that is paused.
        for (task, open, paused) in [
            (task(State::Pending), None, Some(InvalidState)),
            (in_lane(true), None, Some(InvalidState)),
            (in_lane(false), Some(AlreadyInProcess), Some(InvalidState)),
            (due(State::WaitingForRetry, NOW), None, Some(InvalidState)),
            (due(State::Scheduled, NOW), None, Some(InvalidState)),
            (due(State::WaitingForRetry, later), Some(BackoffNotElapsed), Some(BackoffNotElapsed)),
            (due(State::Scheduled, later), Some(BackoffNotElapsed), Some(BackoffNotElapsed)),
            (
                waiting(Waits::Parents(Parents::default())),
                Some(DependenciesNotSatisfied),
                Some(DependenciesNotSatisfied),
            ),
            (waiting(Waits::Items { settled: 1, of: 2 }), Some(AlreadyInProcess), Some(AlreadyInProcess)),
            (waiting(Waits::Workflow), Some(AlreadyInProcess), Some(AlreadyInProcess)),
            (waiting(Waits::Resume), Some(InvalidState), Some(InvalidState)),
            (task(State::Claimed), Some(AlreadyInProcess), Some(AlreadyInProcess)),
            (task(State::Running), Some(AlreadyInProcess), Some(AlreadyInProcess)),
            (task(State::Failed), Some(RetryNotEligible), Some(RetryNotEligible)),
            (task(State::DeadLetter), Some(RetryNotEligible), Some(RetryNotEligible)),
            (task(State::Completed), Some(InvalidState), Some(InvalidState)),
            (task(State::Cancelled), Some(InvalidState), Some(InvalidState)),
            (task(State::Skipped), Some(InvalidState), Some(InvalidState)),
            (task(State::ResolvedManually), Some(InvalidState), Some(InvalidState)),
        ] {
            let status = &task.status;
            assert_eq!(BlockingReason::of(&task, false, NOW), open, "{status:?}");
            assert_eq!(BlockingReason::of(&task, true, NOW), paused, "{status:?}, paused");
            let ready = u32::from(open.is_none());
            assert_eq!(ExecutionContext::of([&task], false, NOW).ready, ready, "{status:?}");
        }
    }

    /// 2.12, C49, C50: the first that holds of failures, something ready, something under way, everything
    /// over.
    #[test]
    fn how_a_workflow_is_doing() {
        let (ready, parked) = (task(State::Pending), in_lane(false));
        let (claimed, running) = (task(State::Claimed), task(State::Running));
        let (items, parents) =
            (waiting(Waits::Items { settled: 0, of: 1 }), waiting(Waits::Parents(Parents::default())));
        let (done, by_hand) = (task(State::Completed), task(State::ResolvedManually));
        let (failed, dead) = (task(State::Failed), task(State::DeadLetter));
        let (skipped, cancelled) = (task(State::Skipped), task(State::Cancelled));
        let retrying = due(State::WaitingForRetry, NOW.plus(Duration::from_secs(1)));
        let again = due(State::WaitingForRetry, NOW);
        for (tasks, status, action, health, percent) in [
            (vec![], "all_complete", "finalize_task", "unknown", 0.0),
            (vec![&done], "all_complete", "finalize_task", "healthy", 100.0),
            (vec![&done, &by_hand, &skipped, &cancelled], "all_complete", "finalize_task", "healthy", 100.0),
            (vec![&ready], "has_ready_steps", "execute_ready_steps", "healthy", 0.0),
            (vec![&ready, &running, &claimed], "has_ready_steps", "execute_ready_steps", "healthy", 0.0),
            (vec![&again], "has_ready_steps", "execute_ready_steps", "recovering", 0.0),
            (vec![&running, &parents], "processing", "wait_for_completion", "healthy", 0.0),
            (vec![&claimed], "processing", "wait_for_completion", "healthy", 0.0),
            (vec![&items], "processing", "wait_for_completion", "healthy", 0.0),
            (vec![&running, &retrying], "processing", "wait_for_completion", "recovering", 0.0),
            (vec![&running, &parked], "processing", "wait_for_completion", "healthy", 0.0),
            (vec![&parked], "waiting_for_dependencies", "wait_for_dependencies", "healthy", 0.0),
            (vec![&done, &parents], "waiting_for_dependencies", "wait_for_dependencies", "healthy", 50.0),
            (vec![&retrying], "waiting_for_dependencies", "wait_for_dependencies", "recovering", 0.0),
            (
                vec![&done, &done, &retrying],
                "waiting_for_dependencies",
                "wait_for_dependencies",
                "recovering",
                66.67,
            ),
            (vec![&failed, &ready], "blocked_by_failures", "handle_failures", "blocked", 0.0),
            (vec![&dead, &running, &retrying], "blocked_by_failures", "handle_failures", "blocked", 0.0),
            (vec![&failed, &done], "blocked_by_failures", "handle_failures", "blocked", 50.0),
        ] {
            let context = ExecutionContext::of(tasks.iter().copied(), false, NOW);
            let told = (context.status.word(), context.status.recommended_action(), context.health());
            assert_eq!(told, (status, action, health), "{context:?}");
            assert!((context.completion_percentage() - percent).abs() < 1e-9, "{context:?}");
        }
        let context =
            ExecutionContext::of([&retrying, &parents, &ready, &parked, &claimed, &items], false, NOW);
        let ExecutionContext { total, pending, enqueued, in_progress, ready, retrying, .. } = context;
        assert_eq!((total, pending, enqueued, in_progress, ready, retrying), (6, 4, 1, 1, 1, 1));
    }
}
