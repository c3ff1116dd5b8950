//! The one place where the arrows of a task's life are decided.
//!
//! [`transition`] is given the rows that a [`Command`] concerns and answers with the rows to write, or with
//! why not. A store loads, calls, writes, atomically; it decides nothing. An answer with no rows means
//! "nothing to do": the command had been carried out before.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::command::{By, Command, Outcome};
use crate::draft::Draft;
use crate::history::{Entry, Reason};
use crate::id::{Lease, TaskId, Token, WorkerId};
use crate::json::Json;
use crate::lane::Lane;
use crate::limits;
use crate::name::stored_text;
use crate::notes::{Notes, Report};
use crate::rejected::{Invalid, Rejected};
use crate::retry::roll;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;
use crate::workflow::{LanesAbove, Place, Waits, Workflow, WorkflowState, item};

/// What a store loaded for one command, as far as the command's [`Scope`](crate::Scope) goes.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// The task the command names.
    pub task: &'a Task,
    /// Whether its queue is paused. Read only by [`Command::Claim`].
    pub paused: bool,
    /// What its present attempt has told; `None` if nothing. Read only by [`Command::Report`].
    pub notes: Option<&'a Notes>,
    /// Until when its holder is alive; `None` if there is no such worker. Read only by [`Command::Expire`].
    pub alive_until: Option<Timestamp>,
    /// The workflow that the task is part of, if it is a step and [`Command::concerns_workflow`].
    pub workflow: Option<&'a Workflow>,
    /// The lanes that steps above it hold, if it is a step and [`Command::concerns_lanes_above`].
    pub lanes_above: Option<&'a LanesAbove>,
}

impl<'a> Before<'a> {
    /// The task alone, which is all that most commands look at.
    #[must_use]
    pub fn of(task: &'a Task) -> Self {
        Self { task, paused: false, notes: None, alive_until: None, workflow: None, lanes_above: None }
    }
}

/// The rows to write, together or not at all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// Tasks that change.
    pub tasks: Vec<TaskChange>,
    /// What the present attempt of the task that the command names has told from now on.
    pub notes: Option<Notes>,
    /// Tasks that go, with everything that belongs to them.
    pub deleted: Vec<TaskId>,
    /// Where tasks are that go, with everything that belongs to them, before others come: the items of an
    /// earlier life of a step.
    pub cleared: Option<RangeInclusive<TaskId>>,
    /// Tasks that come, each with its payload and the first row of its history.
    pub created: Vec<(Task, Json, Entry)>,
}

/// One task's new status and the history that leads to it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskChange {
    /// The task.
    pub id: TaskId,
    /// Its status from now on. Slots of its lane are then given anew by the store if
    /// [`TaskChange::moves_lane`].
    pub after: Status,
    /// The result to keep beside it.
    pub result: Option<Json>,
    /// Rows to append to its history; none if only what it knows of its parents or items has changed, or the
    /// moment that it waits for.
    pub entries: Vec<Entry>,
}

impl TaskChange {
    /// Whether the line for slots of the task's lane has changed: a slot became free, the task wants one now,
    /// or it wanted one and left the line to a task behind it, whose limit may be larger.
    #[must_use]
    pub fn moves_lane(&self, before: &Task) -> bool {
        let in_line = |state: State| state == State::Pending;
        before.spec.lane.is_some()
            && !self.after.slot
            && (before.status.slot || in_line(before.status.state) || in_line(self.after.state))
    }
}

/// Decides what `command` does to the task in `before` at the moment `now`.
pub fn transition(before: &Before<'_>, command: &Command, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    match command {
        Command::Claim { worker, .. } => claim(before, worker, now),
        Command::Start { token, at } => start(task, token, *at, now),
        Command::Report { token, report: told } => report(before, token, told),
        Command::Finish { token, outcome, started_at } => finish(before, token, outcome, *started_at, now),
        Command::Release { token, note } => release(before, token, note.as_deref(), now),
        Command::Cancel { by, .. } => cancel(before, by, now),
        Command::Retry { force, by, .. } => retry(before, *force, by, now),
        Command::Postpone { delay, .. } => postpone(task, *delay, now),
        Command::Resolve { result, by, .. } => resolve(before, result.as_ref(), by, now),
        Command::Skip { by, .. } => skip(before, by, now),
        Command::Promote { .. } => promote(before, now),
        Command::Expire { lease, .. } => expire(before, *lease, now),
        Command::Delete { .. } if task.spec.workflow.is_some() => Err(Rejected::IsStep { task: task.id }),
        Command::Delete { .. } if task.status.state.is_final() => {
            Ok(Changes { deleted: vec![task.id], ..Changes::default() })
        }
        Command::Delete { .. } => Err(Rejected::NotFinal { task: task.id, state: task.status.state }),
    }
}

fn claim(before: &Before<'_>, worker: &WorkerId, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    let id = task.id;
    match (task.status.state, &task.status.worker) {
        (State::Pending, _) if before.paused => {
            Err(Rejected::QueuePaused { queue: task.spec.queue.to_string() })
        }
        (State::Pending, _) => match &task.spec.lane {
            Some(lane) if !task.status.slot => Err(Rejected::LaneFull { task: id, lane: lane.key().into() }),
            _ => {
                let mut draft = Draft::of(task, now);
                draft.status.attempt += 1;
                draft.status.lease += 1;
                draft.status.worker = Some(worker.clone());
                draft.status.claimed_at = Some(draft.now);
                draft.enter(State::Claimed, Reason::Claimed, Some(worker.as_str()), None);
                Ok(draft.done())
            }
        },
        (State::Claimed | State::Running, Some(holder)) if holder == worker => Ok(Changes::default()),
        (State::Claimed | State::Running, Some(holder)) => {
            Err(Rejected::AlreadyClaimed { task: id, by: holder.clone() })
        }
        _ => Err(unclaimable(task)),
    }
}

fn start(task: &Task, token: &Token, at: Option<Timestamp>, now: Timestamp) -> Result<Changes, Rejected> {
    holds(task, token)?;
    if task.status.state == State::Running {
        return Ok(Changes::default());
    }
    let mut draft = Draft::of(task, now);
    draft.started(at, token);
    Ok(draft.done())
}

fn report(before: &Before<'_>, token: &Token, told: &Report) -> Result<Changes, Rejected> {
    told.check()?;
    holds(before.task, token)?;
    let none = Notes { lease: token.lease, ..Notes::default() };
    let known = before.notes.unwrap_or(&none);
    let notes = known.with(told);
    Ok(Changes { notes: (notes != *known).then_some(notes), ..Changes::default() })
}

fn finish(
    before: &Before<'_>,
    token: &Token,
    outcome: &Outcome,
    started_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Changes, Rejected> {
    let task = before.task;
    if was_finished_so(task, token, outcome) {
        return Ok(Changes::default());
    }
    holds(task, token)?;
    let mut draft = Draft::of(task, now);
    if task.status.state == State::Claimed {
        draft.started(started_at, token);
    }
    let worker = Some(token.worker.as_str());
    match outcome {
        Outcome::Completed { result } => {
            draft.result = Some(result.clone());
            draft.enter(State::Completed, Reason::Completed, worker, None);
        }
        Outcome::Failed { error, retryable, retry_after } => {
            let error = match stored_text(error) {
                empty if empty.is_empty() => "the handler gave no error message".into(),
                error => error,
            };
            let delay = retry_delay(task, *retry_after);
            let to = if !retryable {
                State::Failed
            } else if task.is_exhausted() {
                State::DeadLetter
            } else if delay.is_zero() {
                // As if it had waited: it goes back to its place in the line of its lane.
                draft.status.slot &= task.spec.lane.as_ref().is_some_and(Lane::is_strict);
                draft.ready(before.workflow, Reason::Failed, worker, Some(&error));
                return Ok(draft.done());
            } else {
                draft.status.due_at = Some(draft.clock.plus(delay));
                State::WaitingForRetry
            };
            draft.status.error = Some(error.clone());
            draft.enter(to, Reason::Failed, worker, Some(&error));
        }
        Outcome::Snoozed { delay } => {
            draft.status.due_at = Some(draft.clock.plus((*delay).min(limits::RETRY_AFTER)));
            draft.status.attempt = draft.status.attempt.saturating_sub(1);
            draft.enter(State::Scheduled, Reason::Snoozed, worker, None);
        }
        Outcome::Cancelled { note } => {
            draft.enter(State::Cancelled, Reason::Cancelled, worker, Some(note));
        }
        Outcome::Skipped { note } => {
            step_of(before)?;
            draft.enter(State::Skipped, Reason::Skipped, worker, Some(note));
        }
        Outcome::Expanded { items, max_parallel, lanes } => {
            return expand(before, draft, token, items, *max_parallel, lanes);
        }
    }
    Ok(draft.done())
}

/// How long a task waits after a failure of its last claim.
fn retry_delay(task: &Task, retry_after: Option<Duration>) -> Duration {
    match retry_after {
        Some(asked) => asked.min(limits::RETRY_AFTER),
        None => task.spec.retry.delay(task.status.attempt, roll(task.id, task.status.lease)),
    }
}

/// The workflow of a step.
fn step_of<'a>(before: &Before<'a>) -> Result<&'a Workflow, Rejected> {
    before.workflow.ok_or(Rejected::NotStep { task: before.task.id })
}

/// A step makes its items and waits for them.
fn expand(
    before: &Before<'_>,
    mut draft: Draft<'_>,
    token: &Token,
    items: &[Json],
    max_parallel: Option<u32>,
    lanes: &[Lane],
) -> Result<Changes, Rejected> {
    let (task, workflow) = (before.task, step_of(before)?);
    if Place::of(task.id).item.is_some() {
        return Err(Invalid::number("list", "a list", "nothing: an item has no items of its own").into());
    }
    if items.len() > limits::STEPS {
        return Err(Invalid::number("length of the list", items.len(), "at most 100000 items").into());
    }
    if !lanes.is_empty() && (lanes.len() != items.len() || max_parallel.is_some()) {
        let expected = "one lane for each item, and no max_parallel";
        return Err(Invalid::number("number of lanes", lanes.len(), expected).into());
    }
    let lane = max_parallel.map(|limit| Lane::new(&format!("items of {}", task.id), limit)).transpose()?;
    let worker = Some(token.worker.as_str());
    if items.is_empty() {
        draft.result = Some(Json::stored("[]"));
        draft.enter(State::Completed, Reason::Completed, worker, Some("the list is empty"));
        return Ok(draft.done());
    }
    if let Some(above) = before.lanes_above
        && let Some(refused) = lanes.iter().find_map(|lane| above.refuse(&task.spec.namespace, lane))
    {
        let error = refused.to_string();
        draft.status.error = Some(error.clone());
        draft.enter(State::Failed, Reason::Failed, worker, Some(&error));
        return Ok(draft.done());
    }
    let of = u32::try_from(items.len()).unwrap_or(u32::MAX);
    draft.enter(State::Waiting, Reason::Expanded, worker, Some(&format!("{of} items")));
    draft.status.waits = Waits::Items { settled: 0, of };
    let at = draft.now;
    let create = |(index, payload): (u32, &Json)| {
        let lane = lane.as_ref().or_else(|| lanes.get(index as usize));
        let (task, entry) = item(task, workflow, index, lane, at);
        (task, payload.clone(), entry)
    };
    let cleared = (task.status.lease > 1).then(|| workflow.id.items(Place::of(task.id).step));
    Ok(Changes { cleared, created: (0..).zip(items).map(create).collect(), ..draft.done() })
}

/// A step has started the workflow that it is, and waits for it.
pub fn nest(before: &Before<'_>, token: &Token, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    step_of(before)?;
    if task.status.waits == Waits::Workflow && task.status.lease == token.lease {
        return Ok(Changes::default());
    }
    holds(task, token)?;
    let mut draft = Draft::of(task, now);
    if task.status.state == State::Claimed {
        draft.started(None, token);
    }
    draft.enter(State::Waiting, Reason::Nested, Some(token.worker.as_str()), None);
    draft.status.waits = Waits::Workflow;
    // Its slot is its own until that workflow has ended.
    draft.status.slot = task.status.slot;
    Ok(draft.done())
}

/// The workflow that a step is has ended. Nothing, if the step does not wait for it any more.
#[must_use]
pub fn conclude(task: &Task, ended: &Ended, now: Timestamp) -> Changes {
    if task.status.waits != Waits::Workflow {
        return Changes::default();
    }
    let mut draft = Draft::of(task, now);
    match ended {
        Ended::Done { result } => {
            draft.result = Some(result.clone());
            draft.enter(State::Completed, Reason::Completed, None, None);
        }
        Ended::Failed { error } => {
            draft.status.error = Some(stored_text(error));
            draft.enter(State::Failed, Reason::Failed, None, Some(error));
        }
        Ended::Cancelled { note } => draft.enter(State::Cancelled, Reason::Cancelled, None, Some(note)),
    }
    draft.done()
}

/// How the workflow that a step is has ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Ended {
    /// With these results of its last steps.
    Done {
        /// The results, by name.
        result: Json,
    },
    /// It was given up.
    Failed {
        /// Why.
        error: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Why.
        note: String,
    },
}

fn release(
    before: &Before<'_>,
    token: &Token,
    note: Option<&str>,
    now: Timestamp,
) -> Result<Changes, Rejected> {
    let task = before.task;
    holds(task, token)?;
    let mut draft = Draft::of(task, now);
    draft.status.attempt = draft.status.attempt.saturating_sub(1);
    draft.ready(before.workflow, Reason::Released, Some(token.worker.as_str()), note);
    Ok(draft.done())
}

fn cancel(before: &Before<'_>, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    match task.status.state {
        State::Cancelled => Ok(Changes::default()),
        state if state.is_final() => Err(settled(task)),
        _ => {
            let mut draft = Draft::of(task, now);
            draft.enter_by(State::Cancelled, Reason::Cancelled, by);
            Ok(draft.done())
        }
    }
}

/// Refuses what an operator wants of a step whose workflow is over. One in error is opened again.
fn check_open(before: &Before<'_>) -> Result<(), Rejected> {
    match before.workflow {
        Some(workflow) if workflow.state.is_final() && workflow.state != WorkflowState::Error => {
            Err(Rejected::WorkflowOver { workflow: workflow.id, state: workflow.state })
        }
        _ => Ok(()),
    }
}

fn retry(before: &Before<'_>, force: bool, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    match task.status.state {
        State::Pending => return Ok(Changes::default()),
        State::Waiting => return Err(Rejected::Waiting { task: task.id }),
        State::Completed | State::Skipped | State::ResolvedManually => return Err(settled(task)),
        _ => {}
    }
    check_open(before)?;
    let mut draft = Draft::of(task, now);
    let reason = if force {
        draft.status.attempt = 0;
        Reason::Reopened
    } else if let Some(max) = task.spec.max_attempts.filter(|_| task.is_exhausted()) {
        let (attempt, max) = (task.status.attempt, max.get());
        return Err(Rejected::MaxAttempts { task: task.id, attempt, max });
    } else {
        Reason::Retried
    };
    draft.ready(before.workflow, reason, by.actor().as_deref(), by.note.as_deref());
    Ok(draft.done())
}

/// The state stays as it is, and so does the moment of the failure: there is nothing for the history.
fn postpone(task: &Task, delay: Duration, now: Timestamp) -> Result<Changes, Rejected> {
    if task.status.state != State::WaitingForRetry {
        return Err(Rejected::NotRetrying { task: task.id, state: task.status.state });
    }
    let mut draft = Draft::of(task, now);
    draft.status.due_at = Some(draft.clock.plus(delay.min(limits::RETRY_AFTER)));
    Ok(if draft.status == task.status { Changes::default() } else { draft.done() })
}

fn resolve(before: &Before<'_>, result: Option<&Json>, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    match task.status.state {
        State::ResolvedManually => Ok(Changes::default()),
        State::Completed | State::Skipped | State::Cancelled => Err(settled(task)),
        _ => {
            check_open(before)?;
            let mut draft = Draft::of(task, now);
            draft.result = result.cloned();
            draft.enter_by(State::ResolvedManually, Reason::Resolved, by);
            Ok(draft.done())
        }
    }
}

fn skip(before: &Before<'_>, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    step_of(before)?;
    match task.status.state {
        State::Skipped => Ok(Changes::default()),
        State::Completed | State::ResolvedManually | State::Cancelled => Err(settled(task)),
        _ => {
            check_open(before)?;
            let mut draft = Draft::of(task, now);
            draft.enter_by(State::Skipped, Reason::Skipped, by);
            Ok(draft.done())
        }
    }
}

fn promote(before: &Before<'_>, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    let (id, state) = (task.id, task.status.state);
    match task.status.due_at {
        Some(due) if due > now => Err(Rejected::NotDue { task: id, state, due }),
        Some(_) => {
            let mut draft = Draft::of(task, now);
            draft.ready(before.workflow, Reason::Due, None, None);
            Ok(draft.done())
        }
        None => Err(Rejected::NotTimed { task: id, state }),
    }
}

fn expire(before: &Before<'_>, lease: Lease, now: Timestamp) -> Result<Changes, Rejected> {
    let task = before.task;
    let (id, holder) = match &task.status.worker {
        Some(holder) if task.status.state.is_held() && task.status.lease == lease => (task.id, holder),
        _ => return Err(refusal(task, lease, None)),
    };
    if let Some(until) = before.alive_until.filter(|until| *until > now) {
        return Err(Rejected::LeaseAlive { task: id, lease, until });
    }
    let note = format!("lease {lease} expired: worker {holder} stopped sending heartbeats");
    let mut draft = Draft::of(task, now);
    if task.status.state == State::Claimed && task.must_record_start() {
        draft.status.attempt -= 1;
        let note = format!("{note} before the handler started");
        draft.ready(before.workflow, Reason::NotStarted, None, Some(&note));
    } else if task.is_exhausted() {
        draft.status.error = Some(note.clone());
        draft.enter(State::DeadLetter, Reason::LeaseExpired, None, Some(&note));
    } else {
        draft.ready(before.workflow, Reason::LeaseExpired, None, Some(&note));
    }
    Ok(draft.done())
}

/// Whether the last claim, which `token` names, has already ended with this outcome. Once nobody holds the
/// task the row does not name its last holder; then the lease alone, which only that holder was given, is
/// believed.
fn was_finished_so(task: &Task, token: &Token, outcome: &Outcome) -> bool {
    let status = &task.status;
    let ended_so = matches!(
        (outcome, status.state),
        (Outcome::Completed { .. }, State::Completed)
            | (Outcome::Failed { .. }, State::Failed | State::DeadLetter)
            | (Outcome::Failed { retryable: true, .. }, State::WaitingForRetry)
            | (Outcome::Snoozed { .. }, State::Scheduled)
            | (Outcome::Cancelled { .. }, State::Cancelled)
            | (Outcome::Skipped { .. }, State::Skipped)
            | (Outcome::Expanded { .. }, State::Completed | State::Failed)
    );
    let expanded_so = matches!((outcome, status.waits), (Outcome::Expanded { .. }, Waits::Items { .. }));
    let is_ready = status.state == State::Pending || status.waits == Waits::Resume;
    let retried_so = match outcome {
        Outcome::Failed { retryable: true, retry_after, .. } => {
            is_ready && retry_delay(task, *retry_after).is_zero()
        }
        _ => false,
    };
    let same_worker = status.worker.as_ref().is_none_or(|worker| *worker == token.worker);
    (ended_so || expanded_so || retried_so) && token.lease > 0 && status.lease == token.lease && same_worker
}

/// Accepts the holder of the present claim and nobody else.
fn holds(task: &Task, token: &Token) -> Result<(), Rejected> {
    let held = task.status.state.is_held() && task.status.lease == token.lease;
    match &task.status.worker {
        Some(holder) if held && *holder == token.worker => Ok(()),
        _ => Err(refusal(task, token.lease, Some(&token.worker))),
    }
}

/// Why a lease is not (or no longer) good for this task. A number that was given out before is lost,
/// whatever became of the task; one that never was gets an answer about the task's state.
fn refusal(task: &Task, lease: Lease, worker: Option<&WorkerId>) -> Rejected {
    let (id, state, current) = (task.id, task.status.state, task.status.lease);
    let lost = Rejected::LeaseLost { task: id, lease, current, state };
    match (&task.status.worker, worker) {
        _ if lease > 0 && lease < current => lost,
        _ if state.is_final() => settled(task),
        (Some(holder), Some(worker)) if holder != worker => {
            Rejected::WrongWorker { task: id, worker: worker.clone(), holder: holder.clone() }
        }
        (Some(_), _) => lost,
        (None, _) if lease > 0 && lease == current => lost,
        (None, _) => Rejected::NotClaimed { task: id, state },
    }
}

/// Why a task that nobody holds can't be claimed.
fn unclaimable(task: &Task) -> Rejected {
    let (id, state) = (task.id, task.status.state);
    match task.status.due_at {
        Some(due) => Rejected::NotDue { task: id, state, due },
        None if state.is_final() => settled(task),
        None => Rejected::Waiting { task: id },
    }
}

/// The refusal that a final state gives.
fn settled(task: &Task) -> Rejected {
    let (id, state) = (task.id, task.status.state);
    match state {
        State::Completed => Rejected::TaskCompleted { task: id },
        State::Failed | State::DeadLetter => Rejected::TaskFailed { task: id, state },
        _ => Rejected::Settled { task: id, state },
    }
}
