//! A store around a store: one place to look at every call, for metrics, spans, or failures made on purpose.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    Command, Entity, Facts, Firing, Leadership, Lease, Name, NewSchedule, NewTask, NewWorker, Retention,
    Schedule, TaskId, Term, Worker, WorkerId,
};

use crate::error::Result;
use crate::request::{
    Count, Due, Filter, Listing, Page, Pulse, Reconciled, Record, Rings, Submitted, Turn, Turned,
};
use crate::store::Store;

/// What is done around every call of a store.
#[async_trait]
pub trait Wrap: Debug + Send + Sync + 'static {
    /// Does the call named `verb`, or answers in its place. The call is made when its future is polled; a future that is not
    /// polled did nothing.
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T>;

    /// Looks at what was submitted and what the answer was.
    fn submitted(&self, _kinds: &[Name], _answer: &[Submitted]) {}

    /// Looks at what a turn did. The receipts at `_deletions` are of tasks that are no more, and tell where they were.
    fn turned(&self, _deletions: &[usize], _answer: &Turned) {}
}

/// A store with something done around every call.
#[derive(Debug)]
pub struct Wrapped<W> {
    inner: Arc<dyn Store>,
    wrap: W,
}

impl<W> Wrapped<W> {
    /// Puts `wrap` around `inner`.
    pub fn new(inner: Arc<dyn Store>, wrap: W) -> Self {
        Self { inner, wrap }
    }
}

#[async_trait]
impl<W: Wrap> Store for Wrapped<W> {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let kinds: Vec<Name> = tasks.iter().map(|task| task.kind.clone()).collect();
        let submitted = self.wrap.call("submit", self.inner.submit(tasks)).await?;
        self.wrap.submitted(&kinds, &submitted);
        Ok(submitted)
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let commands = turn.commands.iter().enumerate();
        let deletions = commands.filter(|(_, command)| matches!(command, Command::Delete { .. }));
        let deletions: Vec<usize> = deletions.map(|(at, _)| at).collect();
        let turned = self.wrap.call("turn", self.inner.turn(turn)).await?;
        self.wrap.turned(&deletions, &turned);
        Ok(turned)
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.wrap.call("register", self.inner.register(worker)).await
    }

    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.wrap.call("heartbeat", self.inner.heartbeat(worker, held)).await
    }

    async fn deregister(&self, worker: &WorkerId) -> Result<()> {
        self.wrap.call("deregister", self.inner.deregister(worker)).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.wrap.call("workers", self.inner.workers()).await
    }

    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.wrap.call("campaign", self.inner.campaign(candidate, lease)).await
    }

    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()> {
        self.wrap.call("resign", self.inner.resign(candidate, term)).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.wrap.call("leader", self.inner.leader()).await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        self.wrap.call("due", self.inner.due(limit)).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.wrap.call("task", self.inner.task(id)).await
    }

    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>> {
        self.wrap.call("find", self.inner.find(namespace, kind, key)).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.wrap.call("tasks", self.inner.tasks(filter, page)).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.wrap.call("counts", self.inner.counts()).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        self.wrap.call("facts", self.inner.facts(id)).await
    }

    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        self.wrap.call("pause", self.inner.pause(namespace, queue, paused)).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        self.wrap.call("paused", self.inner.paused()).await
    }

    async fn set_entity(&self, namespace: &Name, entity: &Entity, known: bool) -> Result<bool> {
        self.wrap.call("set_entity", self.inner.set_entity(namespace, entity, known)).await
    }

    async fn has_entity(&self, namespace: &Name, entity: &Entity) -> Result<bool> {
        self.wrap.call("has_entity", self.inner.has_entity(namespace, entity)).await
    }

    async fn entities(&self, namespace: &Name, after: Option<&Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.wrap.call("entities", self.inner.entities(namespace, after, limit)).await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        self.wrap.call("set_schedule", self.inner.set_schedule(schedule)).await
    }

    async fn remove_schedule(&self, namespace: &Name, name: &Name) -> Result<bool> {
        self.wrap.call("remove_schedule", self.inner.remove_schedule(namespace, name)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.wrap.call("schedules", self.inner.schedules()).await
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let kinds: Vec<Name> = firing.tasks.iter().map(|task| task.kind.clone()).collect();
        let submitted = self.wrap.call("fire", self.inner.fire(firing, term)).await?;
        self.wrap.submitted(&kinds, &submitted);
        Ok(submitted)
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.wrap.call("reconcile", self.inner.reconcile(after, limit)).await
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.wrap.call("describe", self.inner.describe()).await
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        self.wrap.call("prune", self.inner.prune(retention, limit)).await
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.inner.watch()
    }

    async fn close(&self) -> Result<()> {
        self.wrap.call("close", self.inner.close()).await
    }
}
