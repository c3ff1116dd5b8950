//! A store that is right in everything but lies once: what the comparison is tested with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    Command, Entity, Facts, Firing, Leadership, Lease, Name, NewSchedule, NewTask, NewWorker, Rejected,
    Retention, Schedule, TaskId, Term, Worker, WorkerId,
};

use crate::conformance::Lab;
use crate::{
    Count, Due, Error, Filter, Listing, ManualClock, MemoryStore, Page, Pulse, Reconciled, Record, Result,
    Rings, Store, Submitted, Turn, Turned,
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
}

/// A memory store that lies.
#[derive(Debug)]
pub(super) struct Liar {
    inner: MemoryStore,
    lie: Lie,
    chances: AtomicUsize,
}

impl Liar {
    /// Whether it is time for `lie`; `possible` says whether it would be seen at all.
    fn lies(&self, lie: Lie, possible: bool) -> bool {
        self.lie == lie && possible && self.chances.fetch_add(1, Ordering::SeqCst) == 2
    }

    /// The command with the present lease instead of an old one, if the task is held.
    async fn refreshed(&self, command: Command) -> Command {
        let Command::Finish { mut token, outcome, started_at } = command else { return command };
        if let Some(Record { task, .. }) = self.inner.task(token.task).await.unwrap()
            && let Some(worker) = task.status.worker.filter(|_| task.status.state.is_held())
            && self.lies(Lie::AcceptsStaleToken, task.status.lease > token.lease)
        {
            (token.lease, token.worker) = (task.status.lease, worker);
        }
        Command::Finish { token, outcome, started_at }
    }
}

/// A place for a liar.
pub(super) struct LiarLab(Arc<ManualClock>, Arc<Liar>);

impl LiarLab {
    pub(super) fn new(lie: Lie) -> Self {
        let clock = Arc::new(ManualClock::new(crate::conformance::START));
        let inner = MemoryStore::new(clock.clone());
        Self(clock, Arc::new(Liar { inner, lie, chances: AtomicUsize::new(0) }))
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
impl Store for Liar {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let submitted = self.inner.submit(tasks).await?;
        let fresh = submitted.iter().find(|one| one.created).map(|one| one.id);
        if let Some(task) = fresh.filter(|_| self.lies(Lie::LosesSubmit, fresh.is_some())) {
            let by = windlass_core::By::default();
            self.inner.apply(vec![Command::Cancel { task, by }, Command::Delete { task }]).await?;
        }
        Ok(submitted)
    }

    async fn turn(&self, mut turn: Turn) -> Result<Turned> {
        // With a claim or a term the whole turn may be refused, and the lie with it.
        if turn.claim.is_none() && turn.term.is_none() {
            let mut commands = Vec::new();
            for command in turn.commands {
                commands.push(self.refreshed(command).await);
            }
            turn.commands = commands;
        }
        let leader = self.inner.leader().await?.map(|leader| leader.term);
        if self.lies(Lie::IgnoresTerm, turn.term.is_some_and(|term| Some(term) != leader)) {
            turn.term = None;
        }
        let mut turned = self.inner.turn(turn).await?;
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

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.inner.register(worker).await
    }

    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.inner.heartbeat(worker, held).await
    }

    async fn deregister(&self, worker: &WorkerId) -> Result<()> {
        let known = self.inner.workers().await?.iter().any(|known| known.id == *worker);
        if self.lies(Lie::RevivesWorker, known) {
            return Ok(());
        }
        self.inner.deregister(worker).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.inner.workers().await
    }

    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.inner.campaign(candidate, lease).await
    }

    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()> {
        self.inner.resign(candidate, term).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.inner.leader().await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        let mut due = self.inner.due(limit).await?;
        if self.lies(Lie::ForgetsDue, !due.commands.is_empty()) {
            due.commands.pop();
        }
        if self.lies(Lie::ForgetsSlot, !due.schedules.is_empty()) {
            due.schedules.pop();
        }
        Ok(due)
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        let mut record = self.inner.task(id).await?;
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

    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>> {
        self.inner.find(namespace, kind, key).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        let mut listing = self.inner.tasks(filter, page).await?;
        if self.lies(Lie::SkipsListed, listing.tasks.len() > 1) {
            listing.tasks.remove(0);
        }
        Ok(listing)
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        let mut counts = self.inner.counts().await?;
        if let Some(count) = counts.first_mut()
            && self.lies(Lie::Miscounts, true)
        {
            count.tasks += 1;
        }
        Ok(counts)
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        let mut facts = self.inner.facts(id).await?;
        if let Some(facts) = facts.as_mut().filter(|facts| !facts.lane_holders.is_empty())
            && self.lies(Lie::HidesHolder, true)
        {
            facts.lane_holders.pop();
        }
        Ok(facts)
    }

    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        let known = self.inner.paused().await?.contains(&(namespace.clone(), queue.clone()));
        if self.lies(Lie::IgnoresPause, paused && !known) {
            return Ok(());
        }
        self.inner.pause(namespace, queue, paused).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        self.inner.paused().await
    }

    async fn set_entity(&self, namespace: &Name, entity: &Entity, known: bool) -> Result<bool> {
        self.inner.set_entity(namespace, entity, known).await
    }

    async fn has_entity(&self, namespace: &Name, entity: &Entity) -> Result<bool> {
        self.inner.has_entity(namespace, entity).await
    }

    async fn entities(&self, namespace: &Name, after: Option<&Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.inner.entities(namespace, after, limit).await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        self.inner.set_schedule(schedule).await
    }

    async fn remove_schedule(&self, namespace: &Name, name: &Name) -> Result<bool> {
        self.inner.remove_schedule(namespace, name).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.inner.schedules().await
    }

    async fn fire(&self, mut firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let answer = self.inner.fire(firing.clone(), term).await;
        if let Err(Error::Rejected(Rejected::ScheduleMoved { next_at, .. })) = answer
            && self.lies(Lie::FiresTwice, true)
        {
            firing.expected = next_at;
            return self.inner.fire(firing, term).await;
        }
        answer
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let look = self.inner.reconcile(after, limit).await?;
        let repaired = look.repaired + u64::from(self.lies(Lie::RepairsInVain, true));
        Ok(Reconciled { repaired, ..look })
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.inner.describe().await
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        let done = self.inner.prune(retention, limit).await?;
        Ok(done + usize::from(self.lies(Lie::PrunesTooFew, done > 0)))
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.inner.watch()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
