//! A store that writes down what is asked of it and what it answers, and says so aloud, for the checker and the watcher.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass::{
    Command, Count, Due, Entity, Facts, Filter, Firing, Leadership, Lease, Listing, Name, NewSchedule,
    NewTask, NewWorker, Page, Pulse, Reconciled, Record, Retention, Rings, Schedule, Store, Submitted,
    TaskId, Term, Turn, Turned, Worker, WorkerId,
};
use windlass_store::Result;
use windlass_store::conformance::checker::{Journal, Op};

use super::gates::{Gates, say};

/// A store, its log, and the places where its caller may have to wait.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) journal: Journal,
    pub(crate) gates: Arc<Gates>,
    /// Whether to say aloud what happens.
    pub(crate) aloud: bool,
}

impl Logged {
    fn say(&self, line: &str) {
        if self.aloud {
            say(line);
        }
    }
}

#[async_trait]
impl Store for Logged {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        self.journal.submit(&*self.inner, tasks).await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        for command in &turn.commands {
            if matches!(command, Command::Finish { .. }) && self.gates.is_held_back(command.task()) {
                let task = command.task().to_string();
                say(&format!("holding {task}"));
                self.gates.pass(&task).await;
            }
        }
        let commands = turn.commands.clone();
        if !commands.is_empty() {
            self.say("telling");
            self.gates.reach("before turn").await;
        }
        let turned = self.journal.turn(&*self.inner, turn).await?;
        if !commands.is_empty() {
            self.say("told");
            self.gates.reach("after turn").await;
        }
        for (command, receipt) in commands.iter().zip(&turned.receipts) {
            if let (Command::Finish { token, .. }, Err(rejected)) = (command, receipt) {
                say(&format!("refused {} {} {}", token.task, token.lease, rejected.code()));
            }
        }
        if turned.claimed.as_ref().is_ok_and(|claimed| !claimed.is_empty()) {
            self.say("claimed");
        }
        Ok(turned)
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.inner.register(worker).await
    }

    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.gates.heartbeats.fetch_add(1, Ordering::SeqCst);
        self.inner.heartbeat(worker, held).await
    }

    async fn deregister(&self, worker: &WorkerId) -> Result<()> {
        self.gates.reach("before deregister").await;
        self.inner.deregister(worker).await?;
        self.gates.reach("after deregister").await;
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.inner.workers().await
    }

    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.inner.campaign(candidate, lease).await
    }

    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()> {
        self.gates.reach("before resign").await;
        self.inner.resign(candidate, term).await?;
        self.gates.reach("after resign").await;
        Ok(())
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.inner.leader().await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        self.inner.due(limit).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.inner.task(id).await
    }

    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>> {
        self.inner.find(namespace, kind, key).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.inner.tasks(filter, page).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.inner.counts().await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        self.inner.facts(id).await
    }

    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
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

    /// A schedule's submit is a submit like any other.
    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let pending = self.journal.invoke(Op::submit(&firing.tasks));
        let submitted = self.inner.fire(firing, term).await;
        pending.end(submitted.as_ref().map(Vec::as_slice));
        submitted
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.inner.reconcile(after, limit).await
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.inner.describe().await
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        self.journal.prune(&*self.inner, retention, limit).await
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.inner.watch()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
