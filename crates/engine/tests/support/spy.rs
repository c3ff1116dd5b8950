//! A store that is looked at, and that can be deaf: it writes down what it is asked and may hide what it rings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use windlass::{
    Command, Count, Due, Entity, Error, Facts, Filter, Firing, Leadership, Lease, Listing, Name, NewSchedule,
    NewTask, NewWorker, Page, Pulse, Reconciled, Record, Retention, Rings, Schedule, Store, Submitted,
    TaskId, Term, Turn, Turned, Worker, WorkerId,
};

type Result<T, E = Error> = std::result::Result<T, E>;

/// A store around a store.
#[derive(Debug)]
pub(crate) struct Spy {
    inner: Arc<dyn Store>,
    said: Mutex<Vec<String>>,
    /// Always among what is due.
    due: Mutex<Vec<Command>>,
    deaf: Option<watch::Sender<Rings>>,
    repairs: AtomicU64,
}

impl Spy {
    /// Looks at `inner`.
    pub(crate) fn on(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::new(inner, None))
    }

    /// Nothing is heard of what `inner` rings.
    pub(crate) fn deaf(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::new(inner, Some(watch::Sender::default())))
    }

    fn new(inner: Arc<dyn Store>, deaf: Option<watch::Sender<Rings>>) -> Self {
        Self { inner, said: Mutex::default(), due: Mutex::default(), deaf, repairs: AtomicU64::new(0) }
    }

    /// The next look of the reconcile chore will have put so much right.
    pub(crate) fn repair(&self, number: u64) {
        self.repairs.store(number, Ordering::SeqCst);
    }

    /// Adds commands that will always be due.
    pub(crate) fn always_due(&self, commands: impl IntoIterator<Item = Command>) {
        self.due.lock().unwrap().extend(commands);
    }

    /// What was asked: `claim`, `start`, `report`, `finish`, `release`, `promote`, … for the parts of turns; `resign`, `deregister`.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// How often something was asked.
    pub(crate) fn times(&self, word: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|said| *said == word).count()
    }

    /// Forgets what was asked.
    pub(crate) fn forget(&self) {
        self.said.lock().unwrap().clear();
    }

    fn note(&self, word: &str) {
        self.said.lock().unwrap().push(word.into());
    }
}

fn word(command: &Command) -> &'static str {
    match command {
        Command::Claim { .. } => "take",
        Command::Start { .. } => "start",
        Command::Report { .. } => "report",
        Command::Finish { .. } => "finish",
        Command::Release { .. } => "release",
        Command::Cancel { .. } => "cancel",
        Command::Retry { .. } => "retry",
        Command::Resolve { .. } => "resolve",
        Command::Promote { .. } => "promote",
        Command::Expire { .. } => "expire",
        Command::Delete { .. } => "delete",
    }
}

#[async_trait::async_trait]
impl Store for Spy {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        self.note("submit");
        self.inner.submit(tasks).await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        turn.commands.iter().for_each(|command| self.note(word(command)));
        if turn.claim.is_some() {
            self.note("claim");
        }
        self.inner.turn(turn).await
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.note("register");
        self.inner.register(worker).await
    }

    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.note("heartbeat");
        self.inner.heartbeat(worker, held).await
    }

    async fn deregister(&self, worker: &WorkerId) -> Result<()> {
        self.note("deregister");
        self.inner.deregister(worker).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.inner.workers().await
    }

    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.note("campaign");
        self.inner.campaign(candidate, lease).await
    }

    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()> {
        self.note("resign");
        self.inner.resign(candidate, term).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.inner.leader().await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        let mut due = self.inner.due(limit).await?;
        let mut commands = self.due.lock().unwrap().clone();
        commands.append(&mut due.commands);
        commands.truncate(limit);
        if limit > 0 {
            self.note("due");
        }
        let next = due.next.filter(|_| commands.len() < limit);
        Ok(Due { commands, next, ..due })
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

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        self.note("fire");
        self.inner.fire(firing, term).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.note("reconcile");
        let found = self.inner.reconcile(after, limit).await?;
        Ok(Reconciled { repaired: found.repaired + self.repairs.swap(0, Ordering::SeqCst), ..found })
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.inner.describe().await
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        self.note("prune");
        self.inner.prune(retention, limit).await
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.deaf.as_ref().map_or_else(|| self.inner.watch(), watch::Sender::subscribe)
    }

    async fn close(&self) -> Result<()> {
        self.note("close");
        self.inner.close().await
    }
}
