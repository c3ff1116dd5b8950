//! The one place where the arrows of a task's life are decided.
//!
//! [`transition`] is given the rows that a [`Command`] concerns and answers with the rows to write, or with why not.
//! A store loads, calls, writes, atomically; it decides nothing. An answer with no rows means "nothing to do":
//! the command had been carried out before.

use crate::command::{By, Command, Outcome};
use crate::history::{Entry, Reason};
use crate::id::{Lease, TaskId, Token, WorkerId};
use crate::json::Json;
use crate::limits;
use crate::name::stored_text;
use crate::notes::{Notes, Report};
use crate::rank::rank;
use crate::rejected::Rejected;
use crate::retry::roll;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;

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
}

impl<'a> Before<'a> {
    /// The task alone, which is all that most commands look at.
    #[must_use]
    pub fn of(task: &'a Task) -> Self {
        Self { task, paused: false, notes: None, alive_until: None }
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
}

/// One task's new status and the history that leads to it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskChange {
    /// The task.
    pub id: TaskId,
    /// Its status from now on. Slots of its lane are then given anew by the store if [`TaskChange::moves_lane`].
    pub after: Status,
    /// The result to keep beside it.
    pub result: Option<Json>,
    /// Rows to append to its history; never empty.
    pub entries: Vec<Entry>,
}

impl TaskChange {
    /// Whether the line for slots of the task's lane has changed: a slot became free, the task wants one now, or it
    /// wanted one and left the line to a task behind it, whose limit may be larger.
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
        Command::Finish { token, outcome, started_at } => finish(task, token, outcome, *started_at, now),
        Command::Release { token, note } => release(task, token, note.as_deref(), now),
        Command::Cancel { by, .. } => cancel(task, by, now),
        Command::Retry { force, by, .. } => retry(task, *force, by, now),
        Command::Resolve { result, by, .. } => resolve(task, result.as_ref(), by, now),
        Command::Promote { .. } => promote(task, now),
        Command::Expire { lease, .. } => expire(before, *lease, now),
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
    task: &Task,
    token: &Token,
    outcome: &Outcome,
    started_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Changes, Rejected> {
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
            let to = if !retryable {
                State::Failed
            } else if task.is_exhausted() {
                State::DeadLetter
            } else {
                let delay = match retry_after {
                    Some(asked) => (*asked).min(limits::RETRY_AFTER),
                    None => task.spec.retry.delay(task.status.attempt, roll(task.id, token.lease)),
                };
                draft.status.due_at = Some(draft.now.plus(delay));
                State::WaitingForRetry
            };
            draft.status.error = Some(error.clone());
            draft.enter(to, Reason::Failed, worker, Some(&error));
        }
        Outcome::Snoozed { delay } => {
            draft.status.due_at = Some(draft.now.plus((*delay).min(limits::RETRY_AFTER)));
            draft.status.attempt = draft.status.attempt.saturating_sub(1);
            draft.enter(State::Scheduled, Reason::Snoozed, worker, None);
        }
        Outcome::Cancelled { note } => {
            draft.enter(State::Cancelled, Reason::Cancelled, worker, Some(note));
        }
    }
    Ok(draft.done())
}

fn release(task: &Task, token: &Token, note: Option<&str>, now: Timestamp) -> Result<Changes, Rejected> {
    holds(task, token)?;
    let mut draft = Draft::of(task, now);
    draft.status.attempt = draft.status.attempt.saturating_sub(1);
    draft.enter(State::Pending, Reason::Released, Some(token.worker.as_str()), note);
    Ok(draft.done())
}

fn cancel(task: &Task, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
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

fn retry(task: &Task, force: bool, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    match task.status.state {
        State::Pending => return Ok(Changes::default()),
        State::Waiting => return Err(Rejected::Waiting { task: task.id }),
        State::Completed | State::Skipped | State::ResolvedManually => return Err(settled(task)),
        _ => {}
    }
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
    draft.enter_by(State::Pending, reason, by);
    Ok(draft.done())
}

fn resolve(task: &Task, result: Option<&Json>, by: &By, now: Timestamp) -> Result<Changes, Rejected> {
    match task.status.state {
        State::ResolvedManually => Ok(Changes::default()),
        State::Completed | State::Skipped | State::Cancelled => Err(settled(task)),
        _ => {
            let mut draft = Draft::of(task, now);
            draft.result = result.cloned();
            draft.enter_by(State::ResolvedManually, Reason::Resolved, by);
            Ok(draft.done())
        }
    }
}

fn promote(task: &Task, now: Timestamp) -> Result<Changes, Rejected> {
    let (id, state) = (task.id, task.status.state);
    match task.status.due_at {
        Some(due) if due > now => Err(Rejected::NotDue { task: id, state, due }),
        Some(_) => {
            let mut draft = Draft::of(task, now);
            draft.enter(State::Pending, Reason::Due, None, None);
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
    let to = if task.is_exhausted() {
        draft.status.error = Some(note.clone());
        State::DeadLetter
    } else {
        State::Pending
    };
    draft.enter(to, Reason::LeaseExpired, None, Some(&note));
    Ok(draft.done())
}

/// Whether the last claim, which `token` names, has already ended with this outcome. Once nobody holds the task the row
/// does not name its last holder; then the lease alone, which only that holder was given, is believed.
fn was_finished_so(task: &Task, token: &Token, outcome: &Outcome) -> bool {
    let status = &task.status;
    let ended_so = matches!(
        (outcome, status.state),
        (Outcome::Completed { .. }, State::Completed)
            | (Outcome::Failed { .. }, State::Failed | State::DeadLetter)
            | (Outcome::Failed { retryable: true, .. }, State::WaitingForRetry)
            | (Outcome::Snoozed { .. }, State::Scheduled)
            | (Outcome::Cancelled { .. }, State::Cancelled)
    );
    let same_worker = status.worker.as_ref().is_none_or(|worker| *worker == token.worker);
    ended_so && token.lease > 0 && status.lease == token.lease && same_worker
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

/// A status being changed. [`Draft::enter`] keeps everything that must hold beside a state true,
/// so that the arms above say only what is particular to them.
struct Draft<'a> {
    task: &'a Task,
    now: Timestamp,
    status: Status,
    result: Option<Json>,
    entries: Vec<Entry>,
}

impl<'a> Draft<'a> {
    /// `now` is moved forward to the last change if the clock went back: history never does.
    fn of(task: &'a Task, now: Timestamp) -> Self {
        let status = task.status.clone();
        Self { task, now: now.max(status.updated_at), status, result: None, entries: Vec::with_capacity(2) }
    }

    fn enter_by(&mut self, to: State, reason: Reason, by: &By) {
        let actor = by.actor.as_deref().map(stored_text);
        self.enter(to, reason, actor.as_deref(), by.note.as_deref());
    }

    fn enter(&mut self, to: State, reason: Reason, actor: Option<&str>, note: Option<&str>) {
        self.enter_at(self.now, to, reason, actor, note);
    }

    /// The handler started, at a moment between the claim and now.
    fn started(&mut self, at: Option<Timestamp>, token: &Token) {
        let claimed_at = self.status.updated_at;
        let at = at.map_or(self.now, |at| at.clamp(claimed_at, self.now));
        self.status.started_at = Some(at);
        self.enter_at(at, State::Running, Reason::Started, Some(token.worker.as_str()), None);
    }

    fn enter_at(
        &mut self,
        at: Timestamp,
        to: State,
        reason: Reason,
        actor: Option<&str>,
        note: Option<&str>,
    ) {
        let status = &mut self.status;
        let from = status.state;
        status.state = to;
        status.updated_at = at;
        status.entries += 1;
        status.finished_at = to.is_final().then_some(at);
        if !to.is_timed() {
            status.due_at = None;
        }
        if !to.has_error() {
            status.error = None;
        }
        if !to.is_held() && !to.is_final() {
            (status.worker, status.claimed_at, status.started_at) = (None, None, None);
        }
        let strict = self.task.spec.lane.as_ref().is_some_and(|lane| lane.is_strict());
        status.slot &= !to.is_final() && (strict || !to.is_timed());
        if to == State::Pending {
            let spec = &self.task.spec;
            status.rank = rank(spec.priority, spec.ageing, spec.created_at, status.attempt);
        }
        self.entries.push(Entry {
            seq: status.entries,
            from: Some(from),
            to,
            at,
            actor: actor.map(Into::into),
            reason,
            note: note.map(stored_text),
        });
    }

    fn done(self) -> Changes {
        let change =
            TaskChange { id: self.task.id, after: self.status, result: self.result, entries: self.entries };
        Changes { tasks: vec![change], ..Changes::default() }
    }
}
