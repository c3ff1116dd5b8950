//! Why a request was refused. Each refusal quotes what it saw and says what would be accepted;
//! none of them changed anything.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{Lease, TaskId, Term, WorkerId};
use crate::limits;
use crate::state::State;
use crate::time::Timestamp;
use crate::workflow::{Flaw, WorkflowId, WorkflowState};

/// A value from outside that cannot be accepted.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
#[error("{field} is {value}; expected {expected}")]
pub struct Invalid {
    /// Which part of the request.
    pub field: Cow<'static, str>,
    /// What it was, quoted and shortened.
    pub value: String,
    /// What would be accepted.
    pub expected: String,
}

impl Invalid {
    /// Quotes `value`, cutting it to a length that fits a line.
    pub fn new(field: &'static str, value: &str, expected: impl Into<String>) -> Self {
        let end = value.floor_char_boundary(80);
        let ellipsis = if end < value.len() { "…" } else { "" };
        Self {
            field: field.into(),
            value: format!("{:?}{ellipsis}", &value[..end]),
            expected: expected.into(),
        }
    }

    /// For numbers and durations: the value is shown as it is.
    pub fn number(field: &'static str, value: impl std::fmt::Debug, expected: impl Into<String>) -> Self {
        Self { field: field.into(), value: format!("{value:?}"), expected: expected.into() }
    }

    /// Whether it is a text that is longer than may be, and not one that cannot be meant.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.expected == crate::json::too_large()
    }
}

/// A request that was understood and refused.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
pub enum Rejected {
    /// No such task, or it was deleted or pruned.
    #[error("task {task} does not exist; it was never submitted, or has been deleted or pruned")]
    NotFound {
        /// The id that was asked for.
        task: TaskId,
    },
    /// Another worker holds the task.
    #[error("task {task} is already claimed by worker {by}; claim another one")]
    AlreadyClaimed {
        /// The task.
        task: TaskId,
        /// Its holder.
        by: WorkerId,
    },
    /// The task is not held by anyone, so it can't be started, finished or released.
    #[error("task {task} is {state}, not claimed; claim it first")]
    NotClaimed {
        /// The task.
        task: TaskId,
        /// Where it is.
        state: State,
    },
    /// The task has completed.
    #[error("task {task} is completed, and a completed task never changes")]
    TaskCompleted {
        /// The task.
        task: TaskId,
    },
    /// The task has failed for good.
    #[error("task {task} is {state}; an operator may retry or resolve it")]
    TaskFailed {
        /// The task.
        task: TaskId,
        /// `failed` or `dead_letter`.
        state: State,
    },
    /// The task was cancelled, skipped or resolved by hand.
    #[error("task {task} is {state}{}", if *.state == State::Cancelled { "; an operator may retry it" } else { ", and that never changes" })]
    Settled {
        /// The task.
        task: TaskId,
        /// `cancelled`, `skipped` or `resolved_manually`.
        state: State,
    },
    /// No attempts are left.
    #[error("task {task} has used {attempt} of {max} attempts; retry it with force to start over")]
    MaxAttempts {
        /// The task.
        task: TaskId,
        /// Attempts used.
        attempt: u32,
        /// Attempts allowed.
        max: u32,
    },
    /// A value in the request cannot be accepted.
    #[error("invalid {0}")]
    Invalid(#[from] Invalid),
    /// The worker is unknown or has been silent for too long.
    #[error("worker {worker} is not registered or was declared dead; register, or send a heartbeat, first")]
    InvalidWorker {
        /// The worker that was named.
        worker: WorkerId,
    },
    /// A worker of this id is registered, with another secret or without one.
    #[error(
        "the secret is not that of worker {worker}, which is registered already; send its own secret, or register with another id"
    )]
    WrongWorkerSecret {
        /// The worker that was named.
        worker: WorkerId,
    },
    /// Another worker holds this very lease.
    #[error("task {task} is held by worker {holder}, not by {worker}; only its holder may do this")]
    WrongWorker {
        /// The task.
        task: TaskId,
        /// Who asked.
        worker: WorkerId,
        /// Who holds it.
        holder: WorkerId,
    },
    /// The lease is no longer valid: it expired, was taken away, or the task was claimed again.
    #[error(
        "lease {lease} of task {task} is lost (the task is {state}, its lease {current}); stop working on it"
    )]
    LeaseLost {
        /// The task.
        task: TaskId,
        /// The lease that was named.
        lease: Lease,
        /// The last lease given out.
        current: Lease,
        /// Where the task is.
        state: State,
    },
    /// A task with this idempotency key exists and the submit asked to be told.
    #[error("a task with key {key:?} exists already: {existing}; use another key, or delete it")]
    KeyConflict {
        /// The key.
        key: String,
        /// The task that has it.
        existing: TaskId,
    },
    /// A task with this idempotency key exists, and is not open to the caller.
    #[error("the key {key:?} belongs to a task that this token may not see; use another key")]
    KeyTaken {
        /// The key.
        key: String,
    },
    /// A task with this id exists.
    #[error("a task with id {task} exists already; ids are never reused")]
    IdConflict {
        /// The id.
        task: TaskId,
    },
    /// A workflow reserves this id for one of its steps or items.
    #[error("the id {task} belongs to the workflow {workflow}; submit the task with another id")]
    IdReserved {
        /// The id.
        task: TaskId,
        /// The workflow.
        workflow: WorkflowId,
    },
    /// Only final tasks may be deleted.
    #[error("task {task} is {state}; only final tasks can be deleted, so cancel it first")]
    NotFinal {
        /// The task.
        task: TaskId,
        /// Where it is.
        state: State,
    },
    /// All slots of the task's lane are taken.
    #[error("task {task} waits for a slot of its lane {lane:?}; claim it when an earlier one ends")]
    LaneFull {
        /// The task.
        task: TaskId,
        /// The lane's key.
        lane: String,
    },
    /// The queue is paused.
    #[error("queue {queue:?} is paused; resume it first")]
    QueuePaused {
        /// The queue.
        queue: String,
    },
    /// It is too early to claim or promote the task.
    #[error(
        "task {task} is {state} until {due} and not claimable before a leader has promoted it; an operator may retry it now"
    )]
    NotDue {
        /// The task.
        task: TaskId,
        /// `scheduled` or `waiting_for_retry`.
        state: State,
        /// When it is due.
        due: Timestamp,
    },
    /// The task waits for others.
    #[error("task {task} waits for its dependencies; it moves on by itself when they are done")]
    Waiting {
        /// The task.
        task: TaskId,
    },
    /// There is nothing to promote: the task does not wait for a moment.
    #[error(
        "task {task} is {state}, so there is nothing to promote; only scheduled and waiting_for_retry are"
    )]
    NotTimed {
        /// The task.
        task: TaskId,
        /// Where it is.
        state: State,
    },
    /// The task does not wait for a retry.
    #[error("task {task} is {state}; only a task that is waiting_for_retry can be postponed")]
    NotRetrying {
        /// The task.
        task: TaskId,
        /// Where it is.
        state: State,
    },
    /// The lease's holder is alive.
    #[error("lease {lease} of task {task} is alive until {until}; it can expire only after that")]
    LeaseAlive {
        /// The task.
        task: TaskId,
        /// The lease.
        lease: Lease,
        /// Until when its holder's heartbeat lasts.
        until: Timestamp,
    },
    /// The task asks for a registered entity and there is none.
    #[error("entity {entity:?} is not registered; register it, or submit without require_entity")]
    UnknownEntity {
        /// The entity.
        entity: String,
    },
    /// The task's row holds what this version does not know.
    #[error("task {task} cannot be read by this version ({why}); use a newer windlass, or delete it by hand")]
    Unreadable {
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such schedule.
    #[error("schedule {name:?} does not exist; `windlass schedule list` shows those that do")]
    UnknownSchedule {
        /// Its name.
        name: String,
    },
    /// The schedule was fired or changed since it was looked at.
    #[error("schedule {name:?} has moved on: its next slot is {next_at}; look at it again")]
    ScheduleMoved {
        /// Its name.
        name: String,
        /// Its first slot that was not fired.
        next_at: Timestamp,
    },
    /// Only whole workflows may be deleted.
    #[error("task {task} is a step of a workflow; it goes with its workflow")]
    IsStep {
        /// The task.
        task: TaskId,
    },
    /// Only steps can be skipped or have items.
    #[error("task {task} is not a step of a workflow; cancel or resolve it instead")]
    NotStep {
        /// The task.
        task: TaskId,
    },
    /// No such workflow, or it was pruned.
    #[error("workflow {workflow} does not exist; it was never started, or has been pruned")]
    UnknownWorkflow {
        /// The id that was asked for.
        workflow: WorkflowId,
    },
    /// The workflow is over.
    #[error(
        "workflow {workflow} is {state}, and that never changes; start it again, or rerun it from a step"
    )]
    WorkflowOver {
        /// The workflow.
        workflow: WorkflowId,
        /// Where it is.
        state: WorkflowState,
    },
    /// The workflow is not where the request supposes it to be, or its steps do not allow it.
    #[error("workflow {workflow} is {state}, so it cannot become {wanted}; {why}")]
    WorkflowMoved {
        /// The workflow.
        workflow: WorkflowId,
        /// Where it is.
        state: WorkflowState,
        /// Where it was to go.
        wanted: WorkflowState,
        /// Why not.
        why: String,
    },
    /// Another program moves the workflow.
    #[error("workflow {workflow} belongs to {owner} until {until}; wait, or take it over then")]
    WorkflowOwned {
        /// The workflow.
        workflow: WorkflowId,
        /// Who moves it.
        owner: String,
        /// Until when.
        until: Timestamp,
    },
    /// A workflow with this id exists, or a task with an id that the workflow would reserve.
    #[error(
        "a workflow with id {workflow}, or a task with the id of one of its steps, exists already; start it with another id"
    )]
    WorkflowIdConflict {
        /// The id.
        workflow: WorkflowId,
    },
    /// A workflow with this idempotency key exists and the start asked to be told.
    #[error("a workflow with key {key:?} exists already: {existing}; use another key")]
    WorkflowKeyConflict {
        /// The key.
        key: String,
        /// The workflow that has it.
        existing: WorkflowId,
    },
    /// A workflow with this idempotency key exists, and is not open to the caller.
    #[error("the key {key:?} belongs to a workflow that this token may not see; use another key")]
    WorkflowKeyTaken {
        /// The key.
        key: String,
    },
    /// There is no such definition.
    #[error("there is no definition {name:?}{}; `windlass definition list` shows those that are", version.as_ref().map(|version| format!(" with version {version:?}")).unwrap_or_default())]
    UnknownDefinition {
        /// Its name.
        name: String,
        /// Its version, if one was asked for.
        version: Option<String>,
    },
    /// Another definition has this name and version.
    #[error(
        "definition {name:?} has a version {version:?} with other content, and versions never change; give it another version"
    )]
    DefinitionConflict {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
    /// The definition is not sound.
    #[error("the definition is not sound: {}", .flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; "))]
    Unsound {
        /// What is wrong with it.
        flaws: Vec<Flaw>,
    },
    /// Workflows are within workflows without end.
    #[error("workflow {workflow} would be within {} others; at most that many are possible", limits::NESTING)]
    TooDeep {
        /// The workflow.
        workflow: WorkflowId,
    },
    /// A step asks for a lane that a step above it holds.
    #[error(
        "the step {step:?} asks for the lane {lane:?}, which the step {holder:?} of workflow {workflow} holds until the workflow below it has ended: it would wait for ever; give one of them another lane"
    )]
    LaneHeldAbove {
        /// The step that asks.
        step: String,
        /// The lane's key.
        lane: String,
        /// The step that holds it.
        holder: String,
        /// The workflow of the step that holds it.
        workflow: WorkflowId,
    },
    /// The key of a lane holds expressions, and the start does not say what they give.
    #[error(
        "the lane of the step {step:?} has the key {key:?}, and the start does not say what its expressions give; start the workflow with `windlass`, over HTTP or with `Client::start`"
    )]
    LaneNotEvaluated {
        /// The step.
        step: String,
        /// The key as the definition has it.
        key: String,
    },
    /// An access token has this name or id already.
    #[error(
        "an access token with the {field} {value:?} exists already; revoke it first, or choose another {field}"
    )]
    TokenConflict {
        /// `name` or `id`.
        field: Cow<'static, str>,
        /// Which.
        value: String,
    },
    /// The writer is not the leader of this term any more.
    #[error("term {term} is over; campaign again before doing a leader's work")]
    NotLeader {
        /// The term that was named.
        term: Term,
    },
}

impl Rejected {
    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "task_not_found",
            Self::AlreadyClaimed { .. } => "already_claimed",
            Self::NotClaimed { .. } => "not_claimed",
            Self::TaskCompleted { .. } => "task_completed",
            Self::TaskFailed { .. } => "task_failed",
            Self::Settled { .. } => "task_settled",
            Self::MaxAttempts { .. } => "max_attempts_reached",
            Self::Invalid(invalid) if invalid.field == "worker id" => "invalid_worker",
            Self::Invalid(invalid) if invalid.is_too_large() => "too_large",
            Self::Invalid(_) => "invalid_task",
            Self::InvalidWorker { .. } => "invalid_worker",
            Self::WrongWorkerSecret { .. } => "wrong_worker_secret",
            Self::WrongWorker { .. } => "wrong_worker",
            Self::LeaseLost { .. } => "lease_lost",
            Self::KeyConflict { .. } | Self::KeyTaken { .. } => "key_conflict",
            Self::IdConflict { .. } | Self::IdReserved { .. } => "id_conflict",
            Self::NotFinal { .. } => "not_final",
            Self::LaneFull { .. } => "lane_full",
            Self::QueuePaused { .. } => "queue_paused",
            Self::NotDue { .. } => "not_due",
            Self::Waiting { .. } => "waiting",
            Self::NotTimed { .. } => "not_timed",
            Self::NotRetrying { .. } => "not_retrying",
            Self::LeaseAlive { .. } => "lease_alive",
            Self::UnknownEntity { .. } => "unknown_entity",
            Self::Unreadable { .. } => "unreadable",
            Self::UnknownSchedule { .. } => "schedule_not_found",
            Self::ScheduleMoved { .. } => "schedule_moved",
            Self::IsStep { .. } => "is_step",
            Self::NotStep { .. } => "not_step",
            Self::UnknownWorkflow { .. } => "workflow_not_found",
            Self::WorkflowOver { .. } => "workflow_over",
            Self::WorkflowMoved { .. } => "workflow_moved",
            Self::WorkflowOwned { .. } => "workflow_owned",
            Self::WorkflowIdConflict { .. } => "workflow_id_conflict",
            Self::WorkflowKeyConflict { .. } | Self::WorkflowKeyTaken { .. } => "workflow_key_conflict",
            Self::UnknownDefinition { .. } => "definition_not_found",
            Self::DefinitionConflict { .. } => "definition_conflict",
            Self::Unsound { flaws } if flaws.iter().any(Flaw::is_cycle) => "cycle",
            Self::Unsound { .. } => "invalid_definition",
            Self::TooDeep { .. } => "too_deep",
            Self::LaneHeldAbove { .. } => "lane_held_above",
            Self::LaneNotEvaluated { .. } => "lane_not_evaluated",
            Self::TokenConflict { .. } => "token_conflict",
            Self::NotLeader { .. } => "not_leader",
        }
    }
}
