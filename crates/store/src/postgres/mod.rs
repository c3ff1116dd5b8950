//! The store that many machines share: PostgreSQL 14 or later.
//!
//! Its connections live on a thread of their own ([`Home`]), so that no handler can starve them. Concurrent
//! calls are folded into batches ([`writer`]), and a batch is one transaction, often in one round trip
//! ([`tx`]). The database's clock decides ([`clock`]); a doorbell wakes the other processes ([`doorbell`]).
//! Every statement is a file in `sql/`.

mod access;
mod board;
mod claims;
mod clock;
mod connect;
mod doorbell;
mod failure;
mod feed;
mod fleet;
mod floor;
mod libpq;
mod migrate;
mod read;
mod row;
mod schedules;
mod sql;
mod submit;
mod submit_in;
mod tasker;
mod turn;
mod tx;
mod workflow_read;
mod workflow_row;
mod workflows;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use tokio::sync::{RwLock, watch};
use uuid::Uuid;
use windlass_core::{
    AccessToken, Activity, By, Connections, Definition, Entity, EventId, Events, Execution, Executions,
    Facts, Firing, Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule, NewSecret, NewTask, NewWorker,
    NewWorkflow, Retention, Schedule, Steering, TaskId, Term, Timestamp, Worker, WorkerId, Workflow,
    WorkflowId,
};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::request::{
    AuditListing, Count, Due, Filter, Listing, Look, Page, Pulse, Reconciled, Record, Rings, Submitted, Turn,
    Turned, check_batch, check_limit,
};
use crate::verbs::{Catalog, Reads, Store, Writes};
use crate::workflow::{
    Blueprints, Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount,
    WorkflowFilter, WorkflowListing, WorkflowRecord,
};

pub use connect::{Schema, without_password};
pub use migrate::sql as migrations_sql;

pub use crate::migration::Migration;

use connect::Address;
use doorbell::{Doorbell, Hearing};
use floor::Floors;
use sql::Statement;

/// Connections of one process, unless said otherwise, beside the one that listens.
const CONNECTIONS: usize = 8;

/// Tasks held by workers of this process that are remembered, so that a finish need not read what its claim
/// has just written.
const MOST_HELD: usize = 20_000;

/// How to open a [`PostgresStore`].
#[derive(Clone)]
pub struct Options {
    address: Address,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Options {
    /// The database at an address such as `postgres://user:password@host:5432/database?schema=windlass`.
    /// After the `?` may also stand `connections`, the most to hold (8 by default), `sslrootcert`, a file
    /// with the authority that signs the server's certificate, and what libpq knows, such as
    /// `sslmode=require`.
    pub fn new(address: &str) -> Result<Self> {
        Ok(Self { address: address.parse()?, clock: None })
    }

    /// Another schema than the address says.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.address.schema = schema;
        self
    }

    /// The schema.
    #[must_use]
    pub fn get_schema(&self) -> &Schema {
        &self.address.schema
    }

    /// Another clock than the database's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Connects and brings the schema up to date.
    pub async fn open(self) -> Result<PostgresStore> {
        let home = Home::new("windlass-postgres")?;
        let inner = home.run(move || Inner::open(self)).await?;
        Ok(PostgresStore { inner, home })
    }

    /// The migrations that the database has had and those it has yet to get, in order. Only looks.
    pub async fn migrations(self) -> Result<Vec<Migration>> {
        let looking = async move || {
            let pool = self.address.pool(1)?;
            let client = pool.get().await.map_err(|error| self.address.unreachable(error))?;
            migrate::migrations(&client, &self.address.schema).await
        };
        Home::new("windlass-postgres")?.run(looking).await
    }
}

/// The statements, by name, for tests of their plans.
#[doc(hidden)]
#[must_use]
pub fn statements(schema: &Schema) -> Vec<(&'static str, String)> {
    sql::Sql::new(schema).all()
}

/// A store in a schema of a PostgreSQL database. Dropped, it leaves what is in progress undone, as in a
/// crash: close it first.
pub struct PostgresStore {
    inner: Arc<Inner>,
    home: Home,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

/// What every call shares.
struct Inner {
    address: Address,
    schema: Schema,
    pool: Pool,
    sql: Arc<sql::Sql>,
    floors: Arc<Floors>,
    clock: clock::PgClock,
    bell: Arc<Doorbell>,
    held: Mutex<turn::Held>,
    blueprints: Blueprints,
    submits: writer::Line<Vec<NewTask>, Vec<Submitted>>,
    turns: writer::Line<Turn, Turned>,
    /// Whether it is closed. Each call in progress holds it.
    closed: RwLock<bool>,
}

impl Inner {
    async fn open(options: Options) -> Result<Arc<Self>> {
        let Options { address, clock } = options;
        let pool = address.pool(address.connections.unwrap_or(CONNECTIONS))?;
        let client = pool.get().await.map_err(|error| address.unreachable(error))?;
        migrate::migrate(&client, &address.schema).await?;
        drop(client);
        let schema = address.schema.clone();
        let (sql, floors) = (Arc::new(sql::Sql::new(&schema)), Arc::new(Floors::unless(clock.is_some())));
        let sender = Uuid::new_v4().simple().to_string();
        let bell = Arc::new(Doorbell::new(sender, sql.clone(), floors.clone()));
        let inner = Arc::new(Self {
            sql,
            floors,
            schema,
            pool,
            clock: clock::PgClock::new(clock, Timestamp::MIN),
            bell: bell.clone(),
            held: Mutex::default(),
            blueprints: Blueprints::default(),
            submits: writer::Line::default(),
            turns: writer::Line::default(),
            closed: RwLock::new(false),
            address: address.clone(),
        });
        inner.now().await?;
        let mut hearing = bell.hearing.subscribe();
        tokio::spawn(bell.attend(address.clone(), address.tls()?));
        // Whether notifications arrive is said at the start; a server that is too busy to tell is not waited
        // for.
        let _ = tokio::time::timeout(Duration::from_secs(5), hearing.wait_for(Option::is_some)).await;
        Ok(inner)
    }

    fn held(&self) -> MutexGuard<'_, turn::Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, rings: Rings) {
        self.bell.ring(rings);
    }
}

impl PostgresStore {
    /// Opens the database at `address` with the defaults of [`Options`].
    pub async fn open(address: &str) -> Result<Self> {
        Options::new(address)?.open().await
    }

    /// Has `call` done where connections live, whatever becomes of the caller.
    async fn run<T, F>(&self, call: impl FnOnce(Arc<Inner>) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        let inner = self.inner.clone();
        let calling = async move || {
            let closed = inner.closed.read().await;
            if *closed {
                return Err(Error::Closed);
            }
            call(inner.clone()).await
        };
        self.home.run(calling).await
    }
}

#[async_trait]
impl Writes for PostgresStore {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        self.run(async move |inner| {
            check_batch(&tasks)?;
            if tasks.is_empty() { Ok(Vec::new()) } else { inner.submit(tasks).await }
        })
        .await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        self.run(async move |inner| {
            turn.check()?;
            inner.turn(turn).await
        })
        .await
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.run(async move |inner| {
            worker.check()?;
            inner.register(&worker).await
        })
        .await
    }

    async fn heartbeat(&self, worker: WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.run(async move |inner| inner.heartbeat(&worker, &held).await).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.run(async move |inner| inner.deregister(&worker).await).await
    }

    async fn campaign(&self, candidate: WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        self.run(async move |inner| inner.campaign(&candidate, lease).await).await
    }

    async fn resign(&self, candidate: WorkerId, term: Term) -> Result<()> {
        self.run(async move |inner| inner.resign(&candidate, term).await).await
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        self.run(async move |inner| {
            check_batch(&firing.tasks)?;
            inner.fire(&firing, term).await
        })
        .await
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        self.run(async move |inner| {
            workflow.check()?;
            inner.start(workflow).await
        })
        .await
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        self.run(async move |inner| inner.steer(workflow, steering, by).await).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.run(async move |inner| match Look::after(after.as_deref()) {
            Look::Lanes(after) => inner.reconcile_lanes(after.as_deref(), limit).await,
            Look::Workflows(after) => inner.reconcile_workflow(after).await,
        })
        .await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<usize> {
        self.run(async move |inner| inner.prune(&retention, limit).await).await
    }
}

#[async_trait]
impl Reads for PostgresStore {
    async fn workers(&self) -> Result<Vec<Worker>> {
        self.run(async |inner| inner.workers().await).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.run(async |inner| inner.leader().await).await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        self.run(async move |inner| inner.due(limit).await).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.run(async move |inner| inner.record(id).await).await
    }

    async fn find(&self, namespace: Name, kind: Name, key: String) -> Result<Option<TaskId>> {
        self.run(async move |inner| inner.find(&namespace, &kind, &key).await).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.run(async move |inner| {
            check_limit(page.limit)?;
            inner.tasks(&filter, page).await
        })
        .await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.run(async |inner| inner.counts().await).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        self.run(async move |inner| inner.facts(id).await).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        self.run(async move |inner| inner.workflow(id).await).await
    }

    async fn find_workflow(&self, namespace: Name, name: Name, key: String) -> Result<Option<WorkflowId>> {
        self.run(async move |inner| inner.find_workflow(namespace, name, key).await).await
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        self.run(async move |inner| {
            page.check()?;
            inner.workflows(filter, page).await
        })
        .await
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        self.run(async move |inner| inner.results(tasks).await).await
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        self.run(async |inner| inner.workflow_counts().await).await
    }

    async fn ready_workflows(
        &self,
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        self.run(async move |inner| inner.ready_workflows(namespace, name, limit).await).await
    }

    async fn activity(&self, since: Timestamp, namespace: Option<Name>) -> Result<Activity> {
        self.run(async move |inner| inner.activity(since, namespace).await).await
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        self.run(async move |inner| inner.executions(wanted).await).await
    }

    async fn describe(&self) -> Result<Vec<(String, String)>> {
        self.run(async |inner| {
            let mut told = vec![("store", "postgres".into()), ("address", inner.address.to_string())];
            told.extend(inner.settings().await?);
            let hearing = *inner.bell.hearing.borrow();
            let wake = match hearing {
                Some(Hearing::Listening) => "notifications".into(),
                Some(Hearing::Polling) => {
                    format!("looks every {:?}: notifications do not arrive", doorbell::POLL)
                }
                None => "not connected yet".into(),
            };
            told.push(("wake-up", wake));
            if let Some(transaction) = inner.floors.hindered_by() {
                let why = format!("transaction {transaction} has been open for long: claims may come out of order for a moment");
                told.push(("in the way", why));
            }
            Ok(told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        })
        .await
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        self.run(async move |inner| {
            check_limit(limit)?;
            inner.events(after, limit).await
        })
        .await
    }
}

#[async_trait]
impl Catalog for PostgresStore {
    async fn pause(&self, namespace: Name, queue: Name, paused: bool) -> Result<()> {
        self.run(async move |inner| inner.pause(&namespace, &queue, paused).await).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        self.run(async |inner| inner.paused().await).await
    }

    async fn set_entity(&self, namespace: Name, entity: Entity, known: bool) -> Result<bool> {
        self.run(async move |inner| inner.set_entity(&namespace, &entity, known).await).await
    }

    async fn has_entity(&self, namespace: Name, entity: Entity) -> Result<bool> {
        self.run(async move |inner| inner.has_entity(&namespace, &entity).await).await
    }

    async fn entities(&self, namespace: Name, after: Option<Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.run(async move |inner| {
            check_limit(limit)?;
            inner.entities(&namespace, after.as_ref(), limit).await
        })
        .await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        self.run(async move |inner| {
            schedule.check()?;
            inner.set_schedule(&schedule).await
        })
        .await
    }

    async fn remove_schedule(&self, namespace: Name, name: Name) -> Result<bool> {
        self.run(async move |inner| inner.remove_schedule(&namespace, &name).await).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.run(async |inner| inner.schedules().await).await
    }

    async fn define(&self, namespace: Name, definition: Definition) -> Result<Defined> {
        self.run(async move |inner| inner.define(namespace, definition).await).await
    }

    async fn definition(
        &self,
        namespace: Name,
        name: Name,
        version: Option<String>,
    ) -> Result<Option<StoredDefinition>> {
        self.run(async move |inner| inner.definition(namespace, name, version).await).await
    }

    async fn definitions(&self, namespace: Name, name: Option<Name>) -> Result<Vec<DefinitionLine>> {
        self.run(async move |inner| inner.definitions(namespace, name).await).await
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        self.run(async move |inner| {
            token.check()?;
            inner.put_access_token(&token).await
        })
        .await
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        self.run(async |inner| inner.access_tokens().await).await
    }

    async fn had_access_tokens(&self) -> Result<bool> {
        self.run(async |inner| inner.had_access_tokens().await).await
    }

    async fn rotate_access_token(&self, name: Name, secret: NewSecret, keep: Duration) -> Result<bool> {
        self.run(async move |inner| inner.rotate_access_token(&name, &secret, keep).await).await
    }

    async fn touch_access_tokens(&self, used: Vec<(Name, Timestamp)>) -> Result<()> {
        self.run(async move |inner| inner.touch_access_tokens(&used).await).await
    }

    async fn revoke_access_token(&self, name: Name) -> Result<bool> {
        self.run(async move |inner| inner.revoke_access_token(&name).await).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        self.run(async move |inner| {
            entry.check()?;
            inner.audit(&entry).await
        })
        .await
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        self.run(async move |inner| {
            page.check()?;
            inner.audits(page).await
        })
        .await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn turns_at_once(&self) -> usize {
        writer::MOST_FLIGHTS
    }

    async fn now(&self) -> Result<Timestamp> {
        self.run(async |inner| inner.now().await).await
    }

    fn connections(&self) -> Connections {
        let deadpool_postgres::Status { max_size, size, available, .. } = self.inner.pool.status();
        Connections { active: size.saturating_sub(available) as u64, max: max_size as u64 }
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.inner.bell.watch()
    }

    async fn close(&self) -> Result<()> {
        let inner = self.inner.clone();
        let closing = async move || {
            *inner.closed.write().await = true;
            inner.pool.close();
            Ok(())
        };
        self.home.run(closing).await
    }
}
