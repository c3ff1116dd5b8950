//! The embedded store: one SQLite file, no set-up.
//!
//! One thread writes ([`writer`]), many read. Several processes may use one file: SQLite's own lock makes
//! their writers take turns, and an idle one notices what another has committed. Every statement is a file in
//! `sql/`, prepared once.

mod access;
pub mod backup;
pub mod examine;
mod failure;
mod feed;
mod fleet;
mod identity;
mod migrate;
mod read;
mod row;
mod schedules;
mod slots;
mod submit;
mod turn;
mod tx;
mod workflow_read;
mod workflow_row;
mod workflows;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    AccessToken, Activity, By, Definition, Entity, EventId, Events, Execution, Executions, Facts, Firing,
    Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule, NewSecret, NewTask, NewWorker, NewWorkflow,
    Retention, Schedule, Steering, TaskId, Term, Timestamp, Worker, WorkerId, Workflow, WorkflowId,
};

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::request::{
    AuditListing, Count, Due, Filter, Listing, Look, Page, Pulse, Reconciled, Record, Rings, Submitted, Turn,
    Turned, check_batch, check_limit,
};
use crate::verbs::{Catalog, Reads, Store, Writes};
use crate::workflow::{
    Blueprints, Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount,
    WorkflowFilter, WorkflowListing, WorkflowRecord,
};

pub use migrate::migrations;

pub use crate::migration::Migration;

/// When a commit counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When it is on the disk (`synchronous = FULL`): an acknowledged write survives a power cut.
    #[default]
    Full,
    /// When the operating system has it (`synchronous = NORMAL`): an acknowledged write survives the process,
    /// but the last ones before a power cut may be lost. The file stays whole.
    Normal,
}

impl Durability {
    fn pragma(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }

    /// What it promises, for people.
    fn words(self) -> &'static str {
        match self {
            Self::Full => "full: an acknowledged write survives a power cut",
            Self::Normal => "normal: an acknowledged write survives the process, not always a power cut",
        }
    }
}

/// How to open a [`SqliteStore`].
#[derive(Clone)]
pub struct Options {
    path: PathBuf,
    durability: Durability,
    clock: Arc<dyn Clock>,
    readers: usize,
    max_bytes: Option<u64>,
    probe: Option<tx::Probe>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("path", &self.path).field("durability", &self.durability).finish()
    }
}

impl Options {
    /// The file at `path`, made if it is not there; full durability; four readers; the machine's clock.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().into(),
            durability: Durability::default(),
            clock: Arc::new(SystemClock),
            readers: 4,
            max_bytes: None,
            probe: None,
        }
    }

    /// When a commit counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many reads may go on at once.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// How large the file may grow (the log beside it not counted). What does not fit is refused as on a full
    /// disk, until tasks are deleted or pruned.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Called on the writer's thread before (`true`) and after every statement that writes, with its name. A
    /// test may look at the file there, or panic.
    #[doc(hidden)]
    #[must_use]
    pub fn probe(mut self, probe: impl Fn(&'static str, bool) + Send + Sync + 'static) -> Self {
        self.probe = Some(Arc::new(probe));
        self
    }

    /// Opens the file and brings its schema up to date. Blocks while that takes.
    pub fn open(self) -> Result<SqliteStore> {
        // Readers open it later, when the working directory may be another. And an absolute path is never
        // taken for a URI.
        let path = std::path::absolute(&self.path)
            .map_err(|error| Error::Unusable(format!("{:?} is not a path: {error}", self.path)))?;
        let named = |error| failure::of_file(&path, error);
        let mut connection = migrate::writer(&path, self.durability).map_err(named)?;
        migrate::migrate(&mut connection, self.clock.now()).map_err(named)?;
        if let Some(bytes) = self.max_bytes {
            migrate::limit(&connection, bytes)?;
        }
        let wake = watch::Sender::default();
        let blueprints = Arc::<Blueprints>::default();
        let identity = identity::Identity::of(&path);
        let readers = read::Readers::new(path.clone(), identity.clone(), self.readers);
        let (clock, probe) = (self.clock.clone(), self.probe);
        let writer =
            writer::Writer::start(connection, identity, clock, wake.clone(), blueprints.clone(), probe)?;
        let (durability, clock) = (self.durability, self.clock);
        Ok(SqliteStore { path, durability, clock, writer, readers, blueprints, wake })
    }
}

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    durability: Durability,
    clock: Arc<dyn Clock>,
    writer: writer::Writer,
    readers: read::Readers,
    blueprints: Arc<Blueprints>,
    wake: watch::Sender<Rings>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file at `path` with the defaults of [`Options`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("windlass.db");
    /// let store = windlass_store::SqliteStore::open(&path)?;
    /// # drop(store);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new(path).open()
    }
}

#[async_trait]
impl Writes for SqliteStore {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let checked = check_batch(&tasks);
        self.writer.run(tasks.len(), move |tx| checked.and_then(|()| tx.submit(tasks))).await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let checked = turn.check();
        let touched = turn.commands.len() + turn.claim.as_ref().map_or(0, |claim| claim.limit);
        self.writer.run(touched, move |tx| checked.and_then(|()| tx.turn(turn))).await
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        let checked = worker.check();
        self.writer.run(1, move |tx| checked.map_err(Error::from).and_then(|()| tx.register(worker))).await
    }

    async fn heartbeat(&self, worker: WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.writer.run(held.len(), move |tx| tx.heartbeat(&worker, held)).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.writer.run(1, move |tx| tx.deregister(&worker)).await
    }

    async fn campaign(&self, candidate: WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.writer.run(1, move |tx| tx.campaign(&candidate, lease)).await
    }

    async fn resign(&self, candidate: WorkerId, term: Term) -> Result<()> {
        self.writer.run(1, move |tx| tx.resign(&candidate, term)).await
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let checked = check_batch(&firing.tasks);
        let touched = firing.tasks.len() + 1;
        self.writer.run(touched, move |tx| checked.and_then(|()| tx.fire(&firing, term))).await
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        let checked = workflow.check();
        self.writer.run(1, move |tx| checked.map_err(Error::from).and_then(|()| tx.start(workflow))).await
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        self.writer.run(1, move |tx| tx.steer(workflow, &steering, &by)).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let after = match Look::after(after.as_deref()) {
            Look::Lanes(after) => {
                return self.writer.run(limit, move |tx| tx.reconcile_lanes(after.as_deref(), limit)).await;
            }
            Look::Workflows(after) => after,
        };
        // The writer is asked only if there is something to do: a workflow may be large.
        let blueprints = self.blueprints.clone();
        let now = self.clock.now();
        let found = self.readers.run(move |snapshot| snapshot.look_at_next(&blueprints, after, now)).await?;
        let Some((id, wrong)) = found else { return Ok(Reconciled::default()) };
        let repaired =
            if wrong > 0 { self.writer.run(1, move |tx| tx.repair_workflow(id)).await? } else { 0 };
        Ok(Reconciled { repaired, next: Some(Look::next_workflow(id)) })
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<usize> {
        self.writer.run(limit, move |tx| tx.prune(&retention, limit)).await
    }
}

#[async_trait]
impl Reads for SqliteStore {
    async fn workers(&self) -> Result<Vec<Worker>> {
        self.readers.run(|snapshot| snapshot.workers()).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.readers.run(|snapshot| snapshot.leader()).await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        let now = self.clock.now();
        self.readers.run(move |snapshot| snapshot.due(now, limit)).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.readers.run(move |snapshot| snapshot.record(id)).await
    }

    async fn find(&self, namespace: Name, kind: Name, key: String) -> Result<Option<TaskId>> {
        self.readers.run(move |snapshot| snapshot.find(&namespace, &kind, &key)).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.readers.check_open()?;
        page.check()?;
        self.readers.run(move |snapshot| snapshot.tasks(&filter, page)).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.readers.run(|snapshot| snapshot.counts()).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        let now = self.clock.now();
        self.readers.run(move |snapshot| snapshot.facts(id, now)).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        let blueprints = self.blueprints.clone();
        self.readers.run(move |snapshot| snapshot.workflow(&blueprints, id)).await
    }

    async fn find_workflow(&self, namespace: Name, name: Name, key: String) -> Result<Option<WorkflowId>> {
        self.readers.run(move |snapshot| snapshot.find_workflow(&namespace, &name, &key)).await
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        self.readers.check_open()?;
        page.check()?;
        self.readers.run(move |snapshot| snapshot.workflows(&filter, page)).await
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        self.readers.run(move |snapshot| snapshot.results(&tasks)).await
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        self.readers.run(|snapshot| snapshot.workflow_counts()).await
    }

    async fn ready_workflows(
        &self,
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        let now = self.clock.now();
        let wanted = move |workflow: &Workflow| {
            namespace.as_ref().is_none_or(|namespace| workflow.namespace == *namespace)
                && name.as_ref().is_none_or(|name| workflow.name == *name)
        };
        self.readers.run(move |snapshot| snapshot.ready_workflows(&wanted, limit, now)).await
    }

    async fn activity(&self, since: Timestamp, namespace: Option<Name>) -> Result<Activity> {
        self.readers.run(move |snapshot| snapshot.activity(since, namespace.as_ref())).await
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        let blueprints = self.blueprints.clone();
        self.readers.run(move |snapshot| snapshot.executions(&blueprints, &wanted)).await
    }

    async fn describe(&self) -> Result<Vec<(String, String)>> {
        let mut told = vec![
            ("store", "sqlite".into()),
            ("path", self.path.display().to_string()),
            ("durability", self.durability.words().into()),
        ];
        told.extend(self.readers.run(|snapshot| snapshot.describe()).await?);
        Ok(told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        self.readers.check_open()?;
        check_limit(limit)?;
        loop {
            let now = self.clock.now();
            let told = self.readers.run(move |snapshot| snapshot.events(after, limit, now)).await?;
            match told {
                Some(events) => return Ok(events),
                None => self.writer.run(1, |tx| tx.listen()).await?,
            }
        }
    }
}

#[async_trait]
impl Catalog for SqliteStore {
    async fn pause(&self, namespace: Name, queue: Name, paused: bool) -> Result<()> {
        self.writer.run(1, move |tx| tx.pause(&namespace, &queue, paused)).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        self.readers.run(|snapshot| snapshot.paused()).await
    }

    async fn set_entity(&self, namespace: Name, entity: Entity, known: bool) -> Result<bool> {
        self.writer.run(1, move |tx| tx.set_entity(&namespace, &entity, known)).await
    }

    async fn has_entity(&self, namespace: Name, entity: Entity) -> Result<bool> {
        self.readers.run(move |snapshot| snapshot.has_entity(&namespace, &entity)).await
    }

    async fn entities(&self, namespace: Name, after: Option<Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.readers.check_open()?;
        check_limit(limit)?;
        self.readers.run(move |snapshot| snapshot.entities(&namespace, after.as_ref(), limit)).await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        let checked = schedule.check();
        self.writer
            .run(1, move |tx| checked.map_err(Error::from).and_then(|()| tx.set_schedule(schedule)))
            .await
    }

    async fn remove_schedule(&self, namespace: Name, name: Name) -> Result<bool> {
        self.writer.run(1, move |tx| tx.remove_schedule(&namespace, &name)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.readers.run(|snapshot| snapshot.schedules()).await
    }

    async fn define(&self, namespace: Name, definition: Definition) -> Result<Defined> {
        self.writer.run(1, move |tx| tx.define(&namespace, definition)).await
    }

    async fn definition(
        &self,
        namespace: Name,
        name: Name,
        version: Option<String>,
    ) -> Result<Option<StoredDefinition>> {
        let blueprints = self.blueprints.clone();
        self.readers
            .run(move |snapshot| snapshot.definition(&blueprints, namespace, &name, version.as_deref()))
            .await
    }

    async fn definitions(&self, namespace: Name, name: Option<Name>) -> Result<Vec<DefinitionLine>> {
        self.readers.run(move |snapshot| snapshot.definitions(&namespace, name.as_ref())).await
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        let checked = token.check();
        self.writer
            .run(1, move |tx| checked.map_err(Error::from).and_then(|()| tx.put_access_token(&token)))
            .await
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        self.readers.run(|snapshot| snapshot.access_tokens()).await
    }

    async fn had_access_tokens(&self) -> Result<bool> {
        self.readers.run(|snapshot| snapshot.had_access_tokens()).await
    }

    async fn revoke_access_token(&self, name: Name) -> Result<bool> {
        self.writer.run(1, move |tx| tx.revoke_access_token(&name)).await
    }

    async fn rotate_access_token(&self, name: Name, secret: NewSecret, keep: Duration) -> Result<bool> {
        self.writer.run(1, move |tx| tx.rotate_access_token(&name, secret.clone(), keep)).await
    }

    async fn touch_access_tokens(&self, used: Vec<(Name, Timestamp)>) -> Result<()> {
        self.writer.run(used.len(), move |tx| tx.touch_access_tokens(&used)).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        let checked = entry.check();
        self.writer.run(1, move |tx| checked.map_err(Error::from).and_then(|()| tx.audit(&entry))).await
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        self.readers.check_open()?;
        page.check()?;
        self.readers.run(move |snapshot| snapshot.audits(page)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn watch(&self) -> watch::Receiver<Rings> {
        let receiver = self.wake.subscribe();
        self.writer.look();
        receiver
    }

    async fn close(&self) -> Result<()> {
        self.readers.close();
        self.writer.stop().await;
        Ok(())
    }
}
