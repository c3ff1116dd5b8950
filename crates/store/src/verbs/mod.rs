//! The table of verbs: everything a store can be asked to do, declared once.
//!
//! A line of the table says what a verb takes and answers, and whether it reads or writes. `expand.rs` makes
//! the trait method, the value and the protocol from it; `policy.rs` says who may run it. A verb without an
//! entry there does not compile.

mod access;
#[macro_use]
mod expand;
mod limited;
mod policy;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass_core::{
    AccessToken, Activity, By, Command, Connections, Definition, Entity, EventId, Events, Execution,
    Executions, Explanation, Facts, Firing, Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule,
    NewSecret, NewTask, NewWorker, NewWorkflow, Rejected, Retention, Schedule, Steering, TaskId, Term,
    Timestamp, Worker, WorkerId, Workflow, WorkflowId, explain,
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
use crate::wrap::Wrapped;

pub use access::{Access, ActorName, AuditNote, AuditSubject, Guarded, IsOpen, Scopes, Subject, WorkerProof};

/// Where tasks live. Every write is atomic and, once acknowledged, durable; every decision is the core's.
///
/// The unit of atomicity is one task (and, with workflows, one workflow): each command of a turn is carried
/// out or refused by itself, a submit as a whole. Dropping the future of a call does not undo a write in
/// progress.
///
/// Everything above speaks to `Arc<dyn Store>`, through which the methods of all three groups of verbs can be
/// called.
#[async_trait]
pub trait Store: Writes + Reads + Catalog {
    /// Changes whenever there may be something new to claim, to wait for (a moment, or a worker that may fall
    /// silent), or to let go. A missed wake-up costs time, never work.
    fn watch(&self) -> watch::Receiver<Rings>;

    /// Ends what is in progress and closes. Every later call answers [`Error::Closed`](crate::Error::Closed);
    /// closing again is fine.
    async fn close(&self) -> Result<()>;

    /// How many turns of one worker may go on at once to good effect. Default: 1.
    fn turns_at_once(&self) -> usize {
        1
    }

    /// Connections that are in use, and how many there may be. Default: none, for a store that has no
    /// connections.
    fn connections(&self) -> Connections {
        Connections::default()
    }

    /// The store's present.
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.due(0).await?.now)
    }

    /// A turn of commands only.
    async fn apply(&self, commands: Vec<Command>) -> Result<Vec<Result<Receipt, Rejected>>> {
        Ok(self.turn(Turn { commands, ..Turn::default() }).await?.receipts)
    }

    /// A turn with a claim only.
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        Ok(self.turn(Turn { claim: Some(claim), ..Turn::default() }).await?.claimed?)
    }

    /// Why a task is not running; `None` if there is no such task.
    async fn explain(&self, id: TaskId) -> Result<Option<Explanation>> {
        Ok(self.facts(id).await?.as_ref().map(explain))
    }
}

/// A verb of a store as a value: its arguments, and what everybody needs to know about it.
pub trait Verb: Guarded + Into<Call> + Clone + Send + Sync + 'static {
    /// What the store answers.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    /// Its name in metrics, spans and documentation: that of the method.
    const NAME: &'static str;
    /// Whether it may change something, so that a lost answer leaves the outcome unknown.
    const WRITES: bool;

    /// Has a store run it.
    fn run(self, store: &dyn Store) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// Something that runs verbs, one type at a time: a store, or a gate in front of one.
pub trait Runner: Sync {
    /// What it makes of an answer.
    type Reply;

    /// Runs a verb.
    fn run<V: Verb>(&self, verb: V) -> impl Future<Output = Self::Reply> + Send;

    /// Answers what a remote store asks beside the verbs.
    fn run_connection_call(&self, call: ConnectionCall) -> impl Future<Output = Self::Reply> + Send;
}

/// What a remote store asks beside the verbs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConnectionCall {
    /// What the server is.
    Hello {},
    /// Waits for a wake-up of `server` that is not among `heard`. Another server answers at once: wake-ups
    /// are counted by each.
    Watch {
        /// The server that counted.
        server: u64,
        /// The wake-ups that are known.
        heard: Rings,
    },
    /// [`GetWorkflow`] without the definition if the caller has it. `known` is when the workflow was created
    /// whose definition the caller has: that never changes, and may be large.
    GetWorkflow {
        /// The workflow.
        id: WorkflowId,
        /// When the workflow of this id was created that the caller knows.
        known: Option<Timestamp>,
    },
}

verbs! {
    /// What changes tasks, workflows and workers.
    trait Writes {
        /// Accepts all of `tasks` or none, and answers in their order. A task whose key exists is answered
        /// with the existing one.
        write Submit = submit(tasks: Vec<NewTask>) -> Vec<Submitted>;

        /// Carries out commands, then claims, in one transaction.
        write TakeTurn = turn(turn: Turn) -> Turned;

        /// Creates a workflow with all its steps, or answers with the one that has its key.
        write Start = start(workflow: NewWorkflow) -> Started;

        /// Changes a workflow as a whole, and answers with it as it is then.
        write Steer = steer(workflow: WorkflowId, steering: Steering, by: By) -> Workflow;

        /// Submits the tasks for slots of a schedule and moves it on, in one transaction. Does nothing if it
        /// has moved on already, or if the leader's term is given and over.
        write FireSchedule = fire(firing: Firing, term: Option<Term>) -> Vec<Submitted>;

        /// Registers a worker. A second time, with the same id, replaces what is known about it.
        write Register = register(worker: NewWorker) -> Worker;

        /// Keeps all leases of a worker alive, and answers which of those it believes to hold it must let go.
        write Heartbeat = heartbeat(worker: WorkerId, held: Vec<(TaskId, Lease)>) -> Pulse;

        /// Forgets a worker. Leases it still holds expire at once. An unknown worker is no error.
        write Deregister = deregister(worker: WorkerId) -> ();

        /// Takes or renews the leader's lease; `None` if another leads.
        write Campaign = campaign(candidate: WorkerId, lease: Duration) -> Option<Leadership>;

        /// Gives the leader's lease up, if it is still this one.
        write Resign = resign(candidate: WorkerId, term: Term) -> ();

        /// Checks part of what is kept beside the states of tasks (the holders of lanes' slots, what steps
        /// know of their parents, the counts and states of workflows), and repairs what does not follow from
        /// them. Begins at `after`, the end of an earlier call, and checks at most `limit` lanes, or one
        /// workflow.
        write Reconcile = reconcile(after: Option<String>, limit: usize) -> Reconciled;

        /// Deletes final tasks that are older than `retention` allows, oldest first, at most `limit`, and
        /// answers how many. The tasks of a workflow go with it, and count as one. Forgets workers that died
        /// longer than [`limits::DEAD_WORKERS`](windlass_core::limits::DEAD_WORKERS) ago, and deletes a
        /// bounded number of old events and audit entries.
        write Prune = prune(retention: Retention, limit: usize) -> usize;
    }

    /// What only reads.
    trait Reads {
        /// What timers ask for: at most `limit` commands, longest due first, then those for expired leases;
        /// and at most `limit` schedules.
        read GetDue = due(limit: usize) -> Due;

        /// At most `limit` (1 to 1,000) events after `after`, in order: one for each committed change of the
        /// state of a task or a workflow, and for each new claim, none twice and none missing. States that
        /// one transaction passes through may be left out. Deleting writes no event.
        ///
        /// Events are written from the first call on, until nobody has called for
        /// [`limits::LISTENED`](windlass_core::limits::LISTENED), and kept for
        /// [`limits::EVENTS_KEPT`](windlass_core::limits::EVENTS_KEPT). [`Events::complete`] says whether
        /// some were missed. Without `after` the answer has no events, but the position to go on from: every
        /// change that is committed later comes after it.
        read ReadEvents = events(after: Option<EventId>, limit: usize) -> Events;

        /// A task with payload, result and history.
        read GetTask = task(id: TaskId) -> Option<Record>;

        /// The task that has an idempotency key.
        read FindTask = find(namespace: Name, kind: Name, key: String) -> Option<TaskId>;

        /// A page of tasks, in the order of submission.
        read ListTasks = tasks(filter: Filter, page: Page) -> Listing;

        /// What tasks have returned, in the order of `tasks`; `None` for those that have returned nothing or
        /// do not exist.
        read GetResults = results(tasks: Vec<TaskId>) -> Vec<Option<Json>>;

        /// What is needed to explain a task.
        read GetFacts = facts(id: TaskId) -> Option<Facts>;

        /// How many tasks there are of each namespace, queue, kind and state, in that order. Does not scan.
        read CountTasks = counts() -> Vec<Count>;

        /// A workflow with its definition, input and history. Its tasks are listed with [`Filter::workflow`].
        read GetWorkflow = workflow(id: WorkflowId) -> Option<WorkflowRecord>;

        /// The workflow that has an idempotency key.
        read FindWorkflow = find_workflow(namespace: Name, name: Name, key: String) -> Option<WorkflowId>;

        /// A page of workflows, in the order of their starts.
        read ListWorkflows = workflows(filter: WorkflowFilter, page: Page) -> WorkflowListing;

        /// How many workflows there are of each namespace, name and state, in that order.
        read CountWorkflows = workflow_counts() -> Vec<WorkflowCount>;

        /// The workflows in process that have steps which [nothing keeps from
        /// running](windlass_core::BlockingReason::of), highest [rank](Workflow::rank) first, at most
        /// `limit`. Default: those of every namespace and every name.
        read ListReadyWorkflows = ready_workflows(namespace: Option<Name>, name: Option<Name>, limit: usize) -> Vec<ReadyWorkflow>;

        /// What happened to workflows since the beginning of the minute that `since` is in, and not longer
        /// ago than [`limits::ACTIVITY`](windlass_core::limits::ACTIVITY). Default: in every namespace.
        read GetActivity = activity(since: Timestamp, namespace: Option<Name>) -> Activity;

        /// The slowest of what ended since a moment.
        read ListSlowest = executions(wanted: Executions) -> Vec<Execution>;

        /// All registered workers, dead ones too, by id.
        read ListWorkers = workers() -> Vec<Worker>;

        /// The last leader's lease, over or not.
        read GetLeader = leader() -> Option<Leadership>;

        /// What this store is and how it is set: names and values for people, such as its durability.
        read Describe = describe() -> Vec<(String, String)>;
    }

    /// What operators name: queues, entities, schedules, definitions, access tokens; and the audit log.
    trait Catalog {
        /// Pauses or resumes a queue. Nothing of a paused queue is claimed; what is running goes on.
        write Pause = pause(namespace: Name, queue: Name, paused: bool) -> ();

        /// The paused queues, with their namespaces.
        read ListPaused = paused() -> Vec<(Name, Name)>;

        /// Registers an entity, or forgets it, and answers whether that changed anything.
        write SetEntity = set_entity(namespace: Name, entity: Entity, known: bool) -> bool;

        /// Whether an entity is registered.
        read HasEntity = has_entity(namespace: Name, entity: Entity) -> bool;

        /// Registered entities of a namespace, by name, at most `limit` (1 to 1,000), from the first after
        /// `after`.
        read ListEntities = entities(namespace: Name, after: Option<Entity>, limit: usize) -> Vec<Entity>;

        /// Creates a schedule, or changes the one of that name.
        write SetSchedule = set_schedule(schedule: NewSchedule) -> Schedule;

        /// Deletes a schedule, and answers whether there was one. Tasks that it submitted stay.
        write RemoveSchedule = remove_schedule(namespace: Name, name: Name) -> bool;

        /// All schedules, by namespace and name.
        read ListSchedules = schedules() -> Vec<Schedule>;

        /// Stores a definition. The same content gives the same version; other content under a version that
        /// exists is refused.
        write Define = define(namespace: Name, #[serde(with = "windlass_core::wire::text")] definition: Definition) -> Defined;

        /// A definition. Default version: the newest of that name.
        read GetDefinition = definition(namespace: Name, name: Name, version: Option<String>) -> Option<StoredDefinition>;

        /// The definitions of a namespace, or all versions of one of them, oldest first.
        read ListDefinitions = definitions(namespace: Name, name: Option<Name>) -> Vec<DefinitionLine>;

        /// Stores an access token. One whose name or id exists is refused.
        write PutAccessToken = put_access_token(token: AccessToken) -> ();

        /// All access tokens, also those that have expired, by name.
        read ListAccessTokens = access_tokens() -> Vec<AccessToken>;

        /// Whether there is an access token, or ever was one.
        read HadAccessTokens = had_access_tokens() -> bool;

        /// Replaces the secret of an access token, and answers whether there is one of that name. The secret
        /// before is accepted for `keep` more; if that is zero, all former secrets end. The same secret again
        /// changes nothing.
        write RotateAccessToken = rotate_access_token(name: Name, secret: NewSecret, keep: Duration) -> bool;

        /// Records when access tokens were last used. Leaves out those that do not exist.
        write TouchAccessTokens = touch_access_tokens(used: Vec<(Name, Timestamp)>) -> ();

        /// Deletes the access token of that name, and answers whether there was one.
        write RevokeAccessToken = revoke_access_token(name: Name) -> bool;

        /// Writes an audit entry, at the store's present. It is never altered, and kept for
        /// [`limits::AUDIT_KEPT`](windlass_core::limits::AUDIT_KEPT).
        write Audit = audit(entry: NewAuditEntry) -> ();

        /// A page of the audit log, in the order in which it was written.
        read ListAudit = audits(page: Page) -> AuditListing;
    }
}
