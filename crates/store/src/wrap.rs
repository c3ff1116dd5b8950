//! A store around a store: one place to look at every call, for metrics, spans, or failures made on purpose.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    AccessToken, Activity, By, Command, Connections, Definition, Entity, EventId, Events, Execution,
    Executions, Facts, Firing, Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule, NewTask, NewWorker,
    NewWorkflow, Retention, Schedule, Steering, TaskId, Term, Timestamp, Worker, WorkerId, Workflow,
    WorkflowId,
};

use crate::error::Result;
use crate::request::{
    AuditListing, Count, Due, Filter, Listing, Page, Pulse, Reconciled, Record, Rings, Submitted, Turn,
    Turned,
};
use crate::store::Store;
use crate::workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};

/// What is done around every call of a store, and for those of its verbs that a wrap may do otherwise.
///
/// A verb is here when a wrap needs what is asked or changes what is answered; unless a wrap says otherwise, `inner` does it.
#[async_trait]
pub trait Wrap: Debug + Send + Sync + 'static {
    /// Does the call named `verb`, or answers in its place. The call is made when its future is polled; a future that is not
    /// polled did nothing.
    async fn call<T: Send>(
        &self,
        _verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        call.await
    }

    /// Looks at what was submitted and what the answer was.
    fn submitted(&self, _kinds: &[Name], _answer: &[Submitted]) {}

    /// Looks at what a turn did. The receipts at `_deletions` are of tasks that are no more, and tell where they were.
    fn turned(&self, _deletions: &[usize], _answer: &Turned) {}

    /// Does [`Store::submit`].
    async fn submit(&self, inner: &dyn Store, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        inner.submit(tasks).await
    }

    /// Does [`Store::turn`].
    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Turned> {
        inner.turn(turn).await
    }

    /// Does [`Store::deregister`].
    async fn deregister(&self, inner: &dyn Store, worker: &WorkerId) -> Result<()> {
        inner.deregister(worker).await
    }

    /// Does [`Store::due`].
    async fn due(&self, inner: &dyn Store, limit: usize) -> Result<Due> {
        inner.due(limit).await
    }

    /// Does [`Store::task`].
    async fn task(&self, inner: &dyn Store, id: TaskId) -> Result<Option<Record>> {
        inner.task(id).await
    }

    /// Does [`Store::tasks`].
    async fn tasks(&self, inner: &dyn Store, filter: Filter, page: Page) -> Result<Listing> {
        inner.tasks(filter, page).await
    }

    /// Does [`Store::counts`].
    async fn counts(&self, inner: &dyn Store) -> Result<Vec<Count>> {
        inner.counts().await
    }

    /// Does [`Store::facts`].
    async fn facts(&self, inner: &dyn Store, id: TaskId) -> Result<Option<Facts>> {
        inner.facts(id).await
    }

    /// Does [`Store::pause`].
    async fn pause(&self, inner: &dyn Store, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        inner.pause(namespace, queue, paused).await
    }

    /// Does [`Store::fire`].
    async fn fire(&self, inner: &dyn Store, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        inner.fire(firing, term).await
    }

    /// Does [`Store::start`].
    async fn start(&self, inner: &dyn Store, workflow: NewWorkflow) -> Result<Started> {
        inner.start(workflow).await
    }

    /// Does [`Store::steer`].
    async fn steer(
        &self,
        inner: &dyn Store,
        workflow: WorkflowId,
        steering: Steering,
        by: By,
    ) -> Result<Workflow> {
        inner.steer(workflow, steering, by).await
    }

    /// Does [`Store::reconcile`].
    async fn reconcile(&self, inner: &dyn Store, after: Option<String>, limit: usize) -> Result<Reconciled> {
        inner.reconcile(after, limit).await
    }

    /// Does [`Store::prune`].
    async fn prune(&self, inner: &dyn Store, retention: &Retention, limit: usize) -> Result<usize> {
        inner.prune(retention, limit).await
    }

    /// Answers [`Store::turns_at_once`].
    fn turns_at_once(&self, inner: &dyn Store) -> usize {
        inner.turns_at_once()
    }

    /// Does [`Store::watch`].
    fn watch(&self, inner: &dyn Store) -> watch::Receiver<Rings> {
        inner.watch()
    }
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
        let submitted = self.wrap.call("submit", self.wrap.submit(&*self.inner, tasks)).await?;
        self.wrap.submitted(&kinds, &submitted);
        Ok(submitted)
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let commands = turn.commands.iter().enumerate();
        let deletions = commands.filter(|(_, command)| matches!(command, Command::Delete { .. }));
        let deletions: Vec<usize> = deletions.map(|(at, _)| at).collect();
        let turned = self.wrap.call("turn", self.wrap.turn(&*self.inner, turn)).await?;
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
        self.wrap.call("deregister", self.wrap.deregister(&*self.inner, worker)).await
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
        self.wrap.call("due", self.wrap.due(&*self.inner, limit)).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.wrap.call("task", self.wrap.task(&*self.inner, id)).await
    }

    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>> {
        self.wrap.call("find", self.inner.find(namespace, kind, key)).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.wrap.call("tasks", self.wrap.tasks(&*self.inner, filter, page)).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.wrap.call("counts", self.wrap.counts(&*self.inner)).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        self.wrap.call("facts", self.wrap.facts(&*self.inner, id)).await
    }

    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        self.wrap.call("pause", self.wrap.pause(&*self.inner, namespace, queue, paused)).await
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
        let submitted = self.wrap.call("fire", self.wrap.fire(&*self.inner, firing, term)).await?;
        self.wrap.submitted(&kinds, &submitted);
        Ok(submitted)
    }

    async fn define(&self, namespace: &Name, definition: Definition) -> Result<Defined> {
        self.wrap.call("define", self.inner.define(namespace, definition)).await
    }

    async fn definition(
        &self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<StoredDefinition>> {
        self.wrap.call("definition", self.inner.definition(namespace, name, version)).await
    }

    async fn definitions(&self, namespace: &Name, name: Option<&Name>) -> Result<Vec<DefinitionLine>> {
        self.wrap.call("definitions", self.inner.definitions(namespace, name)).await
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        self.wrap.call("start", self.wrap.start(&*self.inner, workflow)).await
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        self.wrap.call("steer", self.wrap.steer(&*self.inner, workflow, steering, by)).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        self.wrap.call("workflow", self.inner.workflow(id)).await
    }

    async fn find_workflow(&self, namespace: &Name, name: &Name, key: &str) -> Result<Option<WorkflowId>> {
        self.wrap.call("find_workflow", self.inner.find_workflow(namespace, name, key)).await
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        self.wrap.call("workflows", self.inner.workflows(filter, page)).await
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        self.wrap.call("results", self.inner.results(tasks)).await
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        self.wrap.call("workflow_counts", self.inner.workflow_counts()).await
    }

    async fn ready_workflows(
        &self,
        namespace: Option<&Name>,
        name: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        self.wrap.call("ready_workflows", self.inner.ready_workflows(namespace, name, limit)).await
    }

    async fn activity(&self, since: Timestamp) -> Result<Activity> {
        self.wrap.call("activity", self.inner.activity(since)).await
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        self.wrap.call("executions", self.inner.executions(wanted)).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.wrap.call("reconcile", self.wrap.reconcile(&*self.inner, after, limit)).await
    }

    fn connections(&self) -> Connections {
        self.inner.connections()
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.wrap.call("describe", self.inner.describe()).await
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        self.wrap.call("prune", self.wrap.prune(&*self.inner, retention, limit)).await
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        self.wrap.call("events", self.inner.events(after, limit)).await
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        self.wrap.call("put_access_token", self.inner.put_access_token(token)).await
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        self.wrap.call("access_tokens", self.inner.access_tokens()).await
    }

    async fn revoke_access_token(&self, name: &Name) -> Result<bool> {
        self.wrap.call("revoke_access_token", self.inner.revoke_access_token(name)).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        self.wrap.call("audit", self.inner.audit(entry)).await
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        self.wrap.call("audits", self.inner.audits(page)).await
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.wrap.watch(&*self.inner)
    }

    fn turns_at_once(&self) -> usize {
        self.wrap.turns_at_once(&*self.inner)
    }

    async fn close(&self) -> Result<()> {
        self.wrap.call("close", self.inner.close()).await
    }
}
