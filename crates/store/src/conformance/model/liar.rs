//! A store that is right in everything but lies once: what the comparison is tested with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use windlass_core::{
    By, Command, Facts, Firing, Name, NewTask, NewWorkflow, Rejected, Retention, Steering, TaskId, Term,
    WorkerId, Workflow, WorkflowId,
};

use crate::conformance::Lab;
use crate::{
    Count, Due, Error, Filter, Listing, ManualClock, MemoryStore, Page, Reconciled, Record, Result, Started,
    Store, Submitted, Turn, Turned, Wrap, Wrapped,
};

/// What it does wrong, the third time that it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    /// Does nothing wrong.
    Nothing,
    /// Acknowledges a submit and keeps nothing.
    LosesSubmit,
    /// Leaves out a row of a history.
    DropsHistory,
    /// Counts one too many.
    Miscounts,
    /// Takes an old lease for the present one.
    AcceptsStaleToken,
    /// Hands out in the wrong order.
    Misorders,
    /// Does a turn of a term that is over.
    IgnoresTerm,
    /// Does not mention something that is due.
    ForgetsDue,
    /// Leaves out a task of a listing.
    SkipsListed,
    /// Prunes less than it says.
    PrunesTooFew,
    /// Pauses nothing.
    IgnoresPause,
    /// Keeps a dead worker alive.
    RevivesWorker,
    /// Gives a slot's holder wrongly.
    HidesHolder,
    /// Leaves out what an attempt has told.
    LosesNotes,
    /// Keeps from an attempt what the one before left for it.
    KeepsDetails,
    /// Fires a slot that another has fired.
    FiresTwice,
    /// Does not mention a schedule whose slot has come.
    ForgetsSlot,
    /// Finds something to put right where nothing is wrong.
    RepairsInVain,
    /// Says that a workflow is paused, and lets it go on.
    PausesNothing,
    /// Starts a workflow without what was carried over.
    DropsCarried,
}

/// What makes a store lie.
#[derive(Debug)]
struct Liar {
    lie: Lie,
    chances: AtomicUsize,
}

impl Liar {
    /// Whether it is time for `lie`; `possible` says whether it would be seen at all.
    fn lies(&self, lie: Lie, possible: bool) -> bool {
        self.lie == lie && possible && self.chances.fetch_add(1, Ordering::SeqCst) == 2
    }

    /// Whether it is time for `lie`, or was before: for one that may fail to be told.
    fn lies_on(&self, lie: Lie) -> bool {
        self.lie == lie && self.chances.fetch_add(1, Ordering::SeqCst) >= 2
    }

    /// The command with the present lease instead of an old one, if the task is held.
    async fn refreshed(&self, inner: &dyn Store, command: Command) -> Command {
        let Command::Finish { mut token, outcome, started_at } = command else { return command };
        if let Some(Record { task, .. }) = inner.task(token.task).await.unwrap()
            && let Some(worker) = task.status.worker.filter(|_| task.status.state.is_held())
            && self.lies(Lie::AcceptsStaleToken, task.status.lease > token.lease)
        {
            (token.lease, token.worker) = (task.status.lease, worker);
        }
        Command::Finish { token, outcome, started_at }
    }
}

/// A place for a liar.
pub(super) struct LiarLab(Arc<ManualClock>, Arc<Wrapped<Liar>>);

impl LiarLab {
    pub(super) fn new(lie: Lie) -> Self {
        let clock = Arc::new(ManualClock::new(crate::conformance::START));
        let inner = Arc::new(MemoryStore::new(clock.clone()));
        let liar = Liar { lie, chances: AtomicUsize::new(0) };
        Self(clock, Arc::new(Wrapped::new(inner, liar)))
    }
}

#[async_trait]
impl Lab for LiarLab {
    fn clock(&self) -> Arc<ManualClock> {
        self.0.clone()
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.1.clone()
    }
}

#[async_trait]
impl Wrap for Liar {
    async fn submit(&self, inner: &dyn Store, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let submitted = inner.submit(tasks).await?;
        let fresh = submitted.iter().find(|one| one.created).map(|one| one.id);
        if let Some(task) = fresh.filter(|_| self.lies(Lie::LosesSubmit, fresh.is_some())) {
            let by = By::default();
            inner.apply(vec![Command::Cancel { task, by }, Command::Delete { task }]).await?;
        }
        Ok(submitted)
    }

    async fn turn(&self, inner: &dyn Store, mut turn: Turn) -> Result<Turned> {
        // With a claim or a term the whole turn may be refused, and the lie with it.
        if turn.claim.is_none() && turn.term.is_none() {
            let mut commands = Vec::new();
            for command in turn.commands {
                commands.push(self.refreshed(inner, command).await);
            }
            turn.commands = commands;
        }
        let leader = inner.leader().await?.map(|leader| leader.term);
        if self.lies(Lie::IgnoresTerm, turn.term.is_some_and(|term| Some(term) != leader)) {
            turn.term = None;
        }
        let mut turned = inner.turn(turn).await?;
        if let Ok(claimed) = &mut turned.claimed
            && self.lies(Lie::Misorders, claimed.len() > 1)
        {
            claimed.reverse();
        }
        let given = turned.claimed.iter_mut().flatten().find(|claimed| claimed.details.is_some());
        if let Some(claimed) = given
            && self.lies(Lie::KeepsDetails, true)
        {
            claimed.details = None;
        }
        Ok(turned)
    }

    async fn deregister(&self, inner: &dyn Store, worker: WorkerId) -> Result<()> {
        let known = inner.workers().await?.iter().any(|known| known.id == worker);
        if self.lies(Lie::RevivesWorker, known) {
            return Ok(());
        }
        inner.deregister(worker).await
    }

    async fn due(&self, inner: &dyn Store, limit: usize) -> Result<Due> {
        let mut due = inner.due(limit).await?;
        if self.lies(Lie::ForgetsDue, !due.commands.is_empty()) {
            due.commands.pop();
        }
        if self.lies(Lie::ForgetsSlot, !due.schedules.is_empty()) {
            due.schedules.pop();
        }
        Ok(due)
    }

    async fn task(&self, inner: &dyn Store, id: TaskId) -> Result<Option<Record>> {
        let mut record = inner.task(id).await?;
        if let Some(record) = record.as_mut().filter(|record| record.history.len() > 2)
            && self.lies(Lie::DropsHistory, true)
        {
            record.history.remove(1);
        }
        if let Some(record) = record.as_mut().filter(|record| !record.notes.is_empty())
            && self.lies(Lie::LosesNotes, true)
        {
            record.notes.pop();
        }
        Ok(record)
    }

    async fn tasks(&self, inner: &dyn Store, filter: Filter, page: Page) -> Result<Listing> {
        let mut listing = inner.tasks(filter, page).await?;
        if self.lies(Lie::SkipsListed, listing.tasks.len() > 1) {
            listing.tasks.remove(0);
        }
        Ok(listing)
    }

    async fn counts(&self, inner: &dyn Store) -> Result<Vec<Count>> {
        let mut counts = inner.counts().await?;
        if let Some(count) = counts.first_mut()
            && self.lies(Lie::Miscounts, true)
        {
            count.tasks += 1;
        }
        Ok(counts)
    }

    async fn facts(&self, inner: &dyn Store, id: TaskId) -> Result<Option<Facts>> {
        let mut facts = inner.facts(id).await?;
        if let Some(facts) =
            facts.as_mut().filter(|facts| facts.task.is_parked() && !facts.lane_holders.is_empty())
            && self.lies(Lie::HidesHolder, true)
        {
            facts.lane_holders.pop();
        }
        Ok(facts)
    }

    async fn pause(&self, inner: &dyn Store, namespace: Name, queue: Name, paused: bool) -> Result<()> {
        let known = inner.paused().await?.contains(&(namespace.clone(), queue.clone()));
        if self.lies(Lie::IgnoresPause, paused && !known) {
            return Ok(());
        }
        inner.pause(namespace, queue, paused).await
    }

    async fn fire(
        &self,
        inner: &dyn Store,
        mut firing: Firing,
        term: Option<Term>,
    ) -> Result<Vec<Submitted>> {
        let answer = inner.fire(firing.clone(), term).await;
        if let Err(Error::Rejected(Rejected::ScheduleMoved { next_at, .. })) = answer
            && self.lies_on(Lie::FiresTwice)
        {
            firing.expected = next_at;
            return inner.fire(firing, term).await;
        }
        answer
    }

    async fn start(&self, inner: &dyn Store, mut new: NewWorkflow) -> Result<Started> {
        // A start may be refused, and the lie with it.
        if new.carried.iter().any(|(n, _)| *n == 0) && self.lies_on(Lie::DropsCarried) {
            new.carried.clear();
        }
        inner.start(new).await
    }

    async fn steer(&self, inner: &dyn Store, id: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        let is_pause = steering == Steering::Pause;
        let after = inner.steer(id, steering, by).await?;
        if self.lies(Lie::PausesNothing, is_pause) {
            inner.steer(id, Steering::Resume, By::default()).await?;
        }
        Ok(after)
    }

    async fn reconcile(&self, inner: &dyn Store, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let look = inner.reconcile(after, limit).await?;
        let repaired = look.repaired + u64::from(self.lies(Lie::RepairsInVain, true));
        Ok(Reconciled { repaired, ..look })
    }

    async fn prune(&self, inner: &dyn Store, retention: Retention, limit: usize) -> Result<usize> {
        let done = inner.prune(retention, limit).await?;
        Ok(done + usize::from(self.lies(Lie::PrunesTooFew, done > 0)))
    }
}
