//! A task being changed.

use crate::command::By;
use crate::history::{Entry, Reason};
use crate::id::Token;
use crate::json::Json;
use crate::name::stored_text;
use crate::rank::rank;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;
use crate::transition::{Changes, TaskChange};
use crate::workflow::{Waits, Workflow};

/// A status being changed. [`Draft::enter`] keeps everything that must hold beside a state true,
/// so that the arms above say only what is particular to them.
pub(crate) struct Draft<'a> {
    task: &'a Task,
    pub(crate) now: Timestamp,
    /// What the clock shows, which may be before the last change.
    pub(crate) clock: Timestamp,
    pub(crate) status: Status,
    pub(crate) result: Option<Json>,
    entries: Vec<Entry>,
}

impl<'a> Draft<'a> {
    /// `now` is moved forward to the last change if the clock went back: history never does.
    pub(crate) fn of(task: &'a Task, now: Timestamp) -> Self {
        let status = task.status.clone();
        Self {
            task,
            now: now.max(status.updated_at),
            clock: now,
            status,
            result: None,
            entries: Vec::with_capacity(2),
        }
    }

    pub(crate) fn enter_by(&mut self, to: State, reason: Reason, by: &By) {
        self.enter(to, reason, by.actor().as_deref(), by.note.as_deref());
    }

    pub(crate) fn enter(&mut self, to: State, reason: Reason, actor: Option<&str>, note: Option<&str>) {
        self.enter_at(self.now, to, reason, actor, note);
    }

    /// The handler started, at a moment between the claim and now.
    pub(crate) fn started(&mut self, at: Option<Timestamp>, token: &Token) {
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
        status.waits = Waits::Nothing;
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
        status.slot &= !to.is_final() && to != State::Waiting && (strict || !to.is_timed());
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

    /// It may be claimed, unless its workflow is paused.
    pub(crate) fn ready(
        &mut self,
        workflow: Option<&Workflow>,
        reason: Reason,
        actor: Option<&str>,
        note: Option<&str>,
    ) {
        if workflow.is_some_and(|workflow| workflow.paused) {
            self.enter(State::Waiting, reason, actor, note);
            self.status.waits = Waits::Resume;
        } else {
            self.enter(State::Pending, reason, actor, note);
        }
    }

    pub(crate) fn change(self) -> TaskChange {
        TaskChange { id: self.task.id, after: self.status, result: self.result, entries: self.entries }
    }

    pub(crate) fn done(self) -> Changes {
        Changes { tasks: vec![self.change()], ..Changes::default() }
    }
}
