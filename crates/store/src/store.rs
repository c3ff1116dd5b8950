//! The trait that all stores are.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    AccessToken, Activity, By, Command, Connections, Definition, Entity, EventId, Events, Execution,
    Executions, Explanation, Facts, Firing, Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule,
    NewTask, NewWorker, NewWorkflow, Rejected, Retention, Schedule, Steering, TaskId, Term, Timestamp,
    Worker, WorkerId, Workflow, WorkflowId, explain,
};

use crate::error::Result;
use crate::request::{
    AuditListing, Claim, Claimed, Count, Due, Filter, Listing, Page, Pulse, Receipt, Reconciled, Record,
    Rings, Submitted, Turn, Turned,
};
use crate::workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};

/// A place where tasks live. Every write is atomic and, once acknowledged, durable; every decision is the core's.
///
/// The unit of atomicity is one task (and, with workflows, one workflow): each command of a turn is carried out or
/// refused by itself, a submit as a whole. Dropping the future of a call does not undo a write in progress.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Accepts all of `tasks` or none, and answers in their order. A task whose key exists is answered with the
    /// existing one.
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>>;

    /// Carries out commands, then claims, in one transaction.
    async fn turn(&self, turn: Turn) -> Result<Turned>;

    /// A turn of commands only.
    async fn apply(&self, commands: Vec<Command>) -> Result<Vec<Result<Receipt, Rejected>>> {
        Ok(self.turn(Turn { commands, ..Turn::default() }).await?.receipts)
    }

    /// A turn with a claim only.
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        Ok(self.turn(Turn { claim: Some(claim), ..Turn::default() }).await?.claimed?)
    }

    /// How many turns of one worker may go on at once to good effect: one, if they take turns anyway.
    fn turns_at_once(&self) -> usize {
        1
    }

    /// Makes a worker known; again, with the same id, replaces what is known about it.
    async fn register(&self, worker: NewWorker) -> Result<Worker>;

    /// Keeps all leases of a worker alive, and tells it which of those it believes to hold it must let go.
    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse>;

    /// Forgets a worker. Leases it still holds expire at once. Unknown ones are forgotten already.
    async fn deregister(&self, worker: &WorkerId) -> Result<()>;

    /// All registered workers, dead ones too, by id.
    async fn workers(&self) -> Result<Vec<Worker>>;

    /// Takes or renews the leader's lease; `None` if another leads.
    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>>;

    /// Gives the lease up, if it is still this one.
    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()>;

    /// The last leader's lease, over or not.
    async fn leader(&self) -> Result<Option<Leadership>>;

    /// What the passing of time asks for: at most `limit` commands, longest due first, then those for expired leases; and at
    /// most `limit` schedules.
    async fn due(&self, limit: usize) -> Result<Due>;

    /// The store's present.
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.due(0).await?.now)
    }

    /// A task with payload, result and history.
    async fn task(&self, id: TaskId) -> Result<Option<Record>>;

    /// The task that has an idempotency key.
    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>>;

    /// A page of tasks, in the order of submission.
    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing>;

    /// How many tasks there are of each namespace, queue, kind and state, in that order. Does not scan.
    async fn counts(&self) -> Result<Vec<Count>>;

    /// What is needed to explain a task.
    async fn facts(&self, id: TaskId) -> Result<Option<Facts>>;

    /// Why a task is not running; `None` if there is no such task.
    async fn explain(&self, id: TaskId) -> Result<Option<Explanation>> {
        Ok(self.facts(id).await?.as_ref().map(explain))
    }

    /// Pauses or resumes a queue. Nothing of a paused queue is claimed; what is running goes on.
    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()>;

    /// The paused queues, with their namespaces.
    async fn paused(&self) -> Result<Vec<(Name, Name)>>;

    /// Registers an entity, or forgets it; says whether that changed anything.
    async fn set_entity(&self, namespace: &Name, entity: &Entity, known: bool) -> Result<bool>;

    /// Whether an entity is registered.
    async fn has_entity(&self, namespace: &Name, entity: &Entity) -> Result<bool>;

    /// Registered entities of a namespace, by name, at most `limit` (1 to 1,000), from the first after `after`.
    async fn entities(&self, namespace: &Name, after: Option<&Entity>, limit: usize) -> Result<Vec<Entity>>;

    /// Makes a schedule, or changes the one of that name.
    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule>;

    /// Forgets a schedule; says whether there was one. Tasks that it submitted stay.
    async fn remove_schedule(&self, namespace: &Name, name: &Name) -> Result<bool>;

    /// All schedules, by namespace and name.
    async fn schedules(&self) -> Result<Vec<Schedule>>;

    /// Submits the tasks for slots of a schedule and moves it on, in one transaction; nothing, if it has moved on already. With a
    /// leader's term, nothing if that is over.
    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>>;

    /// Keeps a definition. The same content gives the same version; other content under a version that exists is refused.
    async fn define(&self, namespace: &Name, definition: Definition) -> Result<Defined>;

    /// A definition; the newest of that name if no version is asked for.
    async fn definition(
        &self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<StoredDefinition>>;

    /// The definitions of a namespace, or all versions of one of them, oldest first.
    async fn definitions(&self, namespace: &Name, name: Option<&Name>) -> Result<Vec<DefinitionLine>>;

    /// Makes a workflow with all its steps, or answers with the one that has its key.
    async fn start(&self, workflow: NewWorkflow) -> Result<Started>;

    /// Changes a workflow as a whole, and gives it as it is then.
    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow>;

    /// A workflow with its definition, input and history. Its tasks are listed with [`Filter::workflow`].
    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>>;

    /// The workflow that has an idempotency key.
    async fn find_workflow(&self, namespace: &Name, name: &Name, key: &str) -> Result<Option<WorkflowId>>;

    /// A page of workflows, in the order of their starts.
    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing>;

    /// What tasks have returned, in the order of `tasks`; `None` for those that have returned nothing or do not exist.
    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>>;

    /// How many workflows of each sort there are, in order.
    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>>;

    /// The workflows in process that have steps which [nothing keeps from running](windlass_core::BlockingReason::of), highest
    /// [rank](Workflow::rank) first, at most `limit`; of one namespace and of one name, if these are given.
    async fn ready_workflows(
        &self,
        namespace: Option<&Name>,
        name: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>>;

    /// What happened to workflows since the beginning of the minute that `since` is in, and not longer ago than
    /// [`limits::ACTIVITY`](windlass_core::limits::ACTIVITY).
    async fn activity(&self, since: Timestamp) -> Result<Activity>;

    /// Looks at part of what is kept beside the states of tasks (who holds the slots of lanes, what steps know of their parents, the counts
    /// and states of workflows), and puts right what does not follow from them. Begins at `after`, the end of an earlier look, and
    /// looks at no more than `limit` lanes, or at one workflow.
    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled>;

    /// The slowest of what ended since a moment.
    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>>;

    /// Connections that are in use, and how many there may be; nothing, for a store that has none.
    fn connections(&self) -> Connections {
        Connections::default()
    }

    /// What this store is and how it is set: names and values for people, such as its durability.
    async fn describe(&self) -> Result<Vec<(&'static str, String)>>;

    /// Deletes final tasks that are older than `retention` allows, oldest first, at most `limit`, and says how many. The tasks of a workflow
    /// go with it, and count as one. Forgets workers
    /// that died longer than [`limits::DEAD_WORKERS`](windlass_core::limits::DEAD_WORKERS) ago, and deletes a bounded number of old events
    /// and of old entries about operators.
    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize>;

    /// At most `limit` (1 to 1,000) events after `after`, in order: one for each committed change of the state of a task or a workflow, and
    /// for each new claim, none twice and none missing. What one transaction passes through may be left out. Deleting tells nothing.
    ///
    /// Nothing is told until somebody asks, and then until nobody has asked for [`limits::LISTENED`](windlass_core::limits::LISTENED); events are kept
    /// for [`limits::EVENTS_KEPT`](windlass_core::limits::EVENTS_KEPT). Who has missed some of it learns that from [`Events::complete`]. Without `after` there are no
    /// events, but the place to go on from: every change that is committed after this has answered comes after it.
    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events>;

    /// Keeps an access token. One whose name or id exists is refused.
    async fn put_access_token(&self, token: AccessToken) -> Result<()>;

    /// All access tokens, also those that have expired, by name.
    async fn access_tokens(&self) -> Result<Vec<AccessToken>>;

    /// Forgets the access token of that name; says whether there was one.
    async fn revoke_access_token(&self, name: &Name) -> Result<bool>;

    /// Writes down what an operator did, at the store's present. It is never altered, and kept for
    /// [`limits::AUDIT_KEPT`](windlass_core::limits::AUDIT_KEPT).
    async fn audit(&self, entry: NewAuditEntry) -> Result<()>;

    /// A page of what operators did, in the order in which it was written down.
    async fn audits(&self, page: Page) -> Result<AuditListing>;

    /// Changes whenever there may be something new to claim, to wait for (a moment, or a worker that may fall silent), or to let go. Only an optimisation:
    /// a signal may be missed or be in vain.
    fn watch(&self) -> watch::Receiver<Rings>;

    /// Ends what is in progress and closes. Every later call answers [`Error::Closed`](crate::Error::Closed); closing
    /// again is fine.
    async fn close(&self) -> Result<()>;
}
