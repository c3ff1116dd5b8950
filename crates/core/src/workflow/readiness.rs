//! Whether steps can run, told step by step in the words and columns that others of the field use.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::join::Parents;
use super::{BlockingReason, Blueprint, Place, Waits, Workflow, WorkflowId};
use crate::id::TaskId;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;

/// Where a step is, in the ten words of document 002. Two of them are of queues between programs that this
/// engine does not need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StepState {
    /// Not begun: it waits for its parents, for a moment, or for a worker.
    Pending,
    /// A worker has it and has not started it.
    Enqueued,
    /// Running; or it is a list or a workflow, whose parts are.
    InProgress,
    /// Never: what a worker reports is taken in at once.
    EnqueuedForOrchestration,
    /// Never, likewise.
    EnqueuedAsErrorForOrchestration,
    /// It failed and is tried again later.
    WaitingForRetry,
    /// Done.
    Complete,
    /// Failed for good.
    Error,
    /// Stopped, or skipped.
    Cancelled,
    /// An operator has settled it.
    ResolvedManually,
}

impl StepState {
    /// All of them, in the order of the document.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Enqueued,
        Self::InProgress,
        Self::EnqueuedForOrchestration,
        Self::EnqueuedAsErrorForOrchestration,
        Self::WaitingForRetry,
        Self::Complete,
        Self::Error,
        Self::Cancelled,
        Self::ResolvedManually,
    ];

    /// Where a step is.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        match status.state {
            State::Waiting if matches!(status.waits, Waits::Items { .. } | Waits::Workflow) => {
                Self::InProgress
            }
            state => Self::plain(state),
        }
    }

    /// Where a step in a state is, whatever it waits for.
    pub(super) fn plain(state: State) -> Self {
        match state {
            State::Waiting | State::Scheduled | State::Pending => Self::Pending,
            State::Claimed => Self::Enqueued,
            State::Running => Self::InProgress,
            State::WaitingForRetry => Self::WaitingForRetry,
            State::Completed => Self::Complete,
            State::Failed | State::DeadLetter => Self::Error,
            State::Cancelled | State::Skipped => Self::Cancelled,
            State::ResolvedManually => Self::ResolvedManually,
        }
    }

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Enqueued => "enqueued",
            Self::InProgress => "in_progress",
            Self::EnqueuedForOrchestration => "enqueued_for_orchestration",
            Self::EnqueuedAsErrorForOrchestration => "enqueued_as_error_for_orchestration",
            Self::WaitingForRetry => "waiting_for_retry",
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::ResolvedManually => "resolved_manually",
        }
    }
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Whether a step can run, and what that follows from.
#[derive(Clone, PartialEq, Debug)]
pub struct Readiness {
    /// The step, or the item of one.
    pub step: TaskId,
    /// Its workflow.
    pub workflow: WorkflowId,
    /// The step of the definition: see [`Workflow::named_step`]. Items have that of their step.
    pub named_step: Uuid,
    /// Its name: `publish`, or `regions[3]`.
    pub name: String,
    /// Where it is.
    pub state: StepState,
    /// Whether enough of its parents are done, as its join demands.
    pub dependencies_satisfied: bool,
    /// Whether it has not run yet, or may be tried again.
    pub retry_eligible: bool,
    /// Whether a worker may take it now.
    pub ready_for_execution: bool,
    /// When it last failed.
    pub last_failure_at: Option<Timestamp>,
    /// When it is tried again.
    pub next_retry_at: Option<Timestamp>,
    /// How many parents it has.
    pub total_parents: u32,
    /// How many of them are done.
    pub completed_parents: u32,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts in all; none is no limit.
    pub max_attempts: Option<u32>,
    /// How long it waits after its last failure, if it does.
    pub backoff: Option<Duration>,
    /// When its last attempt began.
    pub last_attempted_at: Option<Timestamp>,
    /// What keeps it from running; none if and only if it is ready.
    pub blocking_reason: Option<BlockingReason>,
}

impl Readiness {
    /// Of one task of a workflow. `state_of` tells where other steps are; `last_failure` when it last failed,
    /// which its row does not always tell. What comes due while the workflow is paused goes on waiting.
    #[must_use]
    pub fn of(
        task: &Task,
        workflow: &Workflow,
        blueprint: &Blueprint,
        state_of: impl Fn(u32) -> Option<State>,
        last_failure: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let (Task { id, spec, status }, Place { step, item }) = (task, Place::of(task.id));
        let found = blueprint.step(step);
        let step_name = found.map_or("?", |step| &step.name);
        // Items come after nobody, and need nobody: their step did.
        let parents: &[u32] = if item.is_some() { &[] } else { blueprint.graph().parents(step) };
        let join = found.filter(|_| item.is_none()).map(|step| step.join).unwrap_or_default();
        let total = u32::try_from(parents.len()).unwrap_or(u32::MAX);
        let states = || parents.iter().filter_map(|parent| state_of(*parent));
        let is_done = |state: &State| matches!(state, State::Completed | State::ResolvedManually);
        let is_retrying = status.state == State::WaitingForRetry;
        let blocking_reason = BlockingReason::of(task, workflow.paused, now);
        let max_attempts = spec.max_attempts.map(std::num::NonZeroU32::get);
        let has_attempts = max_attempts.is_none_or(|most| status.attempt < most);
        Self {
            step: *id,
            workflow: workflow.id,
            named_step: workflow.named_step(step_name),
            name: Workflow::place_name(step_name, Place { step, item }),
            state: StepState::of(status),
            dependencies_satisfied: Parents::all(join, states()).met >= join.needed(total),
            retry_eligible: status.attempt == 0 || status.state != State::Failed && has_attempts,
            ready_for_execution: blocking_reason.is_none(),
            last_failure_at: last_failure,
            next_retry_at: status.due_at.filter(|_| is_retrying),
            total_parents: total,
            completed_parents: u32::try_from(states().filter(is_done).count()).unwrap_or(u32::MAX),
            attempts: status.attempt,
            max_attempts,
            backoff: status
                .due_at
                .filter(|_| is_retrying)
                .zip(last_failure)
                .map(|(due, failed)| due.since(failed)),
            last_attempted_at: status.started_at.or(status.claimed_at),
            blocking_reason,
        }
    }

    /// When a task last failed, if its row tells. None, if only its history does.
    #[must_use]
    pub fn last_failure(task: &Task) -> Option<Option<Timestamp>> {
        let Status { state, lease, updated_at, finished_at, .. } = &task.status;
        match (state, *lease) {
            (State::WaitingForRetry, _) => Some(Some(*updated_at)),
            (State::Failed | State::DeadLetter, _) => Some(*finished_at),
            (_, 0) | (State::Claimed | State::Running | State::Completed, 1) => Some(None),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Json;
    use crate::rank::Ageing;
    use crate::retry::RetryPolicy;
    use crate::task::Spec;
    use crate::{Definition, Name, NewWorkflow, Source, Within};

    #[test]
    fn items_need_nobody() {
        let definition: Definition = serde_json::from_value(json!({ "name": "test", "steps": {
            "a": { "task": "k" }, "b": { "task": "k" },
            "c": { "task": "k", "needs": ["a", "b"], "join": { "at_least": 2 }, "map": { "over": [1] } },
        }}))
        .unwrap();
        let blueprint = Blueprint::of(definition.clone()).unwrap();
        let (id, now) = (WorkflowId::new(Uuid::from_u128(1 << 64)), Timestamp::from_micros(0));
        let new = NewWorkflow::new(id, Source::AdHoc(Box::new(definition)), Json::default());
        let workflow = new.admit(&blueprint, "1".into(), Within::default(), now).workflow;
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
            created_at: now,
            workflow: Some(id),
            traceparent: None,
        };
        let of = |item| {
            let status = Status::new(State::Pending, 0, now);
            let task = Task { id: id.task(Place { step: 2, item }), spec: spec.clone(), status };
            Readiness::of(&task, &workflow, &blueprint, |_| Some(State::Completed), None, now)
        };
        let (step, item) = (of(None), of(Some(0)));
        assert_eq!((step.total_parents, step.completed_parents, step.dependencies_satisfied), (2, 2, true));
        assert_eq!((item.total_parents, item.completed_parents, item.dependencies_satisfied), (0, 0, true));
        assert_eq!((&*step.name, &*item.name), ("c", "c[0]"));
        assert_eq!(step.named_step, item.named_step);
    }

    /// Beside what `sha256sum` says.
    #[test]
    fn steps_are_known_by_their_definition() {
        let definition: Definition =
            serde_json::from_value(json!({ "name": "nightly", "steps": { "load": { "task": "k" } } }))
                .unwrap();
        let blueprint = Blueprint::of(definition.clone()).unwrap();
        let new = NewWorkflow::new(
            WorkflowId::new(Uuid::from_u128(1 << 64)),
            Source::AdHoc(Box::new(definition)),
            Json::default(),
        );
        let mut workflow = new.admit(&blueprint, "2".into(), Within::default(), Timestamp::MIN).workflow;
        assert_eq!(workflow.named_step("load").to_string(), "20ac65f4-ddf9-78e9-a75b-b7f5af00e6de");
        workflow.version = "\u{1}of its own".into();
        assert_eq!(workflow.named_step("load").to_string(), "8da0e769-d7e4-d29e-2ff2-1c914ec12c7d");
    }
}
