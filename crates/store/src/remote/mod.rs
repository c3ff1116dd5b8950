//! A server as a store: every verb is sent to a Windlass server, which has its own store do it.
//!
//! [`Call`] is what is sent, [`Answering`] the server's side of it, and [`RemoteStore`] this side. What is sent is JSON, by a route of its own:
//! it is for Windlass's own programs, of one version on both sides, and not the contract that programs in other languages rely on.
//!
//! Three things may become of a write: done, not done, and unknown, if it was sent and there is no answer. Those above know how to
//! find out, by reading. Connections live on a thread of their own, as those to a database do.
//!
//! What it does *not* do: it keeps nothing but what never changes, repeats no write by itself, and never leads; the server does.

mod address;
mod answer;
mod bells;
mod call;
mod http;
#[cfg(feature = "conformance")]
mod loopback;
mod options;
mod reply;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::sync::{RwLock, watch};
use windlass_core::{
    AccessToken, Activity, Blueprint, By, Connections, Definition, Entity, EventId, Events, Execution,
    Executions, Facts, Firing, Json, Leadership, Lease, Name, NewAuditEntry, NewSchedule, NewTask, NewWorker,
    NewWorkflow, Rejected, Retention, Schedule, Source, Steering, TaskId, Term, Timestamp, Worker, WorkerId,
    Workflow, WorkflowId,
};

use crate::error::{Error, Result};
use crate::request::{
    AuditListing, Count, Due, Filter, Listing, Page, Pulse, Reconciled, Record, Rings, Submitted, Turn,
    Turned, check_batch,
};
use crate::store::Store;
use crate::workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};

pub use answer::Answering;
pub use call::{Call, LONGEST_WATCH, PROTOCOL};
pub use http::{PROTOCOL_HEADER, STORE_PATH, WATCH_PATH};
pub use options::Options;
pub use reply::Hello;

use bells::Bells;
use reply::{Followed, Reply, SeenWorkflow};
use transport::{Parcel, Transport};

/// Workflows whose blueprints are remembered.
const FOLLOWED: usize = 256;

/// What a server tells of its store under the same name; the rest is told together.
const PASSED_ON: [&str; 3] = ["durability", "wake-up", "in the way"];

/// A server as a store.
#[derive(Debug)]
pub struct RemoteStore {
    transport: Arc<dyn Transport>,
    bells: Arc<Bells>,
    hello: Hello,
    patience: Duration,
    connections: Mutex<Connections>,
    /// What workflows follow, with when they were made: that never changes.
    followed: Mutex<HashMap<WorkflowId, (Timestamp, Arc<Blueprint>)>>,
    closed: RwLock<bool>,
    /// Whether whoever uses it may lead, as only tests may.
    leads: bool,
}

impl RemoteStore {
    /// Asks the server who it is.
    async fn open(transport: Arc<dyn Transport>, patience: Duration) -> Result<Self> {
        let mut store = Self {
            transport,
            bells: Arc::default(),
            hello: Hello { version: String::new(), turns_at_once: 1 },
            patience,
            connections: Mutex::default(),
            followed: Mutex::default(),
            closed: RwLock::new(false),
            leads: false,
        };
        store.hello = store.ask(Call::Hello {}).await?;
        Ok(store)
    }

    /// A store whose server is `store` in this very process, for tests. Who uses it may lead: there is no server that does.
    #[cfg(feature = "conformance")]
    pub async fn in_process(store: Arc<dyn Store>) -> Result<Self> {
        let transport = Arc::new(loopback::Loopback::new(store));
        let mut store = Self::open(transport, options::ANSWER).await?;
        store.leads = true;
        Ok(store)
    }

    /// Sends a call and gives the answer.
    async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let closed = self.closed.read().await;
        self.ask_open(&closed, call).await
    }

    /// The same, where it was looked already whether the store is closed.
    async fn ask_open<T: DeserializeOwned>(&self, closed: &bool, call: Call) -> Result<T> {
        if *closed {
            return Err(Error::Closed);
        }
        let writes = call.is_write();
        let body = serde_json::to_vec(&call)
            .map_err(|error| Error::Unusable(format!("the request cannot be written: {error}")))?;
        let parcel = Parcel { body: body.into(), writes, waits: false, patience: self.patience };
        let answer = self.transport.exchange(parcel).await.map_err(|lost| lost.error(writes))?;
        let reply: Reply<T> = serde_json::from_slice(&answer).map_err(|error| {
            let why = format!(
                "the answer of {} cannot be read ({error}); use the same version of both",
                self.transport.place()
            );
            if writes { Error::Unknown(why) } else { Error::Unusable(why) }
        })?;
        self.bells.learn(&reply.told);
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = reply.told.connections;
        reply.answer.map_err(|error| match error {
            Error::Closed => Error::Unavailable("the server has closed its store; it is stopping".into()),
            error => error,
        })
    }

    fn followed(&self, id: WorkflowId) -> Option<(Timestamp, Arc<Blueprint>)> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn follow(&self, id: WorkflowId, made: Timestamp, blueprint: &Arc<Blueprint>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.len() >= FOLLOWED {
            followed.clear();
        }
        followed.insert(id, (made, blueprint.clone()));
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        self.bells.close();
    }
}

/// JSON has no words for some numbers. No definition with one is sound, and after the journey nobody could tell.
fn check_numbers(definition: &Definition) -> Result<(), Rejected> {
    let retries = definition.steps.iter().map(|step| step.retry).chain([definition.defaults.retry]);
    if retries.filter_map(|retry| retry.factor).all(f64::is_finite) {
        return Ok(());
    }
    Blueprint::of(definition.clone()).map(drop).map_err(|flaws| Rejected::Unsound { flaws })
}

#[async_trait]
impl Store for RemoteStore {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let closed = self.closed.read().await;
        if !*closed {
            check_batch(&tasks)?;
        }
        self.ask_open(&closed, Call::Submit { tasks }).await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        self.ask(Call::Turn { turn }).await
    }

    fn turns_at_once(&self) -> usize {
        self.hello.turns_at_once
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        self.ask(Call::Register { worker }).await
    }

    async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        self.ask(Call::Heartbeat { worker: worker.clone(), held }).await
    }

    async fn deregister(&self, worker: &WorkerId) -> Result<()> {
        self.ask(Call::Deregister { worker: worker.clone() }).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.ask(Call::Workers {}).await
    }

    async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        let closed = self.closed.read().await;
        if !self.leads && !*closed {
            // The server leads, or another that stands at the same store.
            return Ok(None);
        }
        self.ask_open(&closed, Call::Campaign { candidate: candidate.clone(), lease }).await
    }

    async fn resign(&self, candidate: &WorkerId, term: Term) -> Result<()> {
        let closed = self.closed.read().await;
        if !self.leads && !*closed {
            return Ok(());
        }
        self.ask_open(&closed, Call::Resign { candidate: candidate.clone(), term }).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        self.ask(Call::Leader {}).await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        self.ask(Call::Due { limit }).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        self.ask(Call::Task { id }).await
    }

    async fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Result<Option<TaskId>> {
        self.ask(Call::Find { namespace: namespace.clone(), kind: kind.clone(), key: key.into() }).await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.ask(Call::Tasks { filter, page }).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        self.ask(Call::Counts {}).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        self.ask(Call::Facts { id }).await
    }

    async fn pause(&self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        self.ask(Call::Pause { namespace: namespace.clone(), queue: queue.clone(), paused }).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        self.ask(Call::Paused {}).await
    }

    async fn set_entity(&self, namespace: &Name, entity: &Entity, known: bool) -> Result<bool> {
        self.ask(Call::SetEntity { namespace: namespace.clone(), entity: entity.clone(), known }).await
    }

    async fn has_entity(&self, namespace: &Name, entity: &Entity) -> Result<bool> {
        self.ask(Call::HasEntity { namespace: namespace.clone(), entity: entity.clone() }).await
    }

    async fn entities(&self, namespace: &Name, after: Option<&Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.ask(Call::Entities { namespace: namespace.clone(), after: after.cloned(), limit }).await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        let closed = self.closed.read().await;
        if !*closed {
            schedule.check()?;
        }
        self.ask_open(&closed, Call::SetSchedule { schedule: Box::new(schedule) }).await
    }

    async fn remove_schedule(&self, namespace: &Name, name: &Name) -> Result<bool> {
        self.ask(Call::RemoveSchedule { namespace: namespace.clone(), name: name.clone() }).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.ask(Call::Schedules {}).await
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let closed = self.closed.read().await;
        if !*closed {
            check_batch(&firing.tasks)?;
        }
        self.ask_open(&closed, Call::Fire { firing, term }).await
    }

    async fn define(&self, namespace: &Name, definition: Definition) -> Result<Defined> {
        let closed = self.closed.read().await;
        if !*closed {
            check_numbers(&definition)?;
        }
        let call = Call::Define { namespace: namespace.clone(), definition: Box::new(definition) };
        self.ask_open(&closed, call).await
    }

    async fn definition(
        &self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<StoredDefinition>> {
        let (namespace, name, version) = (namespace.clone(), name.clone(), version.map(Into::into));
        self.ask(Call::Definition { namespace, name, version }).await
    }

    async fn definitions(&self, namespace: &Name, name: Option<&Name>) -> Result<Vec<DefinitionLine>> {
        self.ask(Call::Definitions { namespace: namespace.clone(), name: name.cloned() }).await
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        let closed = self.closed.read().await;
        if let Source::AdHoc(definition) = &workflow.source
            && !*closed
        {
            check_numbers(definition)?;
        }
        self.ask_open(&closed, Call::Start { workflow: Box::new(workflow) }).await
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        self.ask(Call::Steer { workflow, steering, by }).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        let known = self.followed(id);
        let call = Call::Workflow { id, known: known.as_ref().map(|(made, _)| *made) };
        let Some(seen) = self.ask::<Option<SeenWorkflow>>(call).await? else { return Ok(None) };
        let SeenWorkflow { workflow, blueprint, input, history } = seen;
        let known = known.map(|(_, blueprint)| blueprint);
        let Some(blueprint) = blueprint.map(|Followed(blueprint)| blueprint).or(known) else {
            return Err(Error::Unusable("the server did not say what the workflow follows".into()));
        };
        self.follow(id, workflow.created_at, &blueprint);
        Ok(Some(WorkflowRecord { workflow, blueprint, input, history }))
    }

    async fn find_workflow(&self, namespace: &Name, name: &Name, key: &str) -> Result<Option<WorkflowId>> {
        let (namespace, name, key) = (namespace.clone(), name.clone(), key.into());
        self.ask(Call::FindWorkflow { namespace, name, key }).await
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        self.ask(Call::Workflows { filter, page }).await
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        self.ask(Call::Results { tasks }).await
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        self.ask(Call::WorkflowCounts {}).await
    }

    async fn ready_workflows(
        &self,
        namespace: Option<&Name>,
        name: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        let (namespace, name) = (namespace.cloned(), name.cloned());
        self.ask(Call::ReadyWorkflows { namespace, name, limit }).await
    }

    async fn activity(&self, since: Timestamp) -> Result<Activity> {
        self.ask(Call::Activity { since }).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        self.ask(Call::Reconcile { after, limit }).await
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        self.ask(Call::Executions { wanted }).await
    }

    /// Those of the server's store, as the last answer told.
    fn connections(&self) -> Connections {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        let behind: Vec<(String, String)> = self.ask(Call::Describe {}).await?;
        let mut told = vec![
            ("store", "server".into()),
            ("server", self.transport.place()),
            ("server version", self.hello.version.clone()),
        ];
        let (mut passed_on, mut rest) = (Vec::new(), Vec::new());
        for (name, value) in behind {
            match PASSED_ON.into_iter().find(|known| **known == *name) {
                Some(known) => passed_on.push((known, value)),
                None => rest.push(format!("{name} {value}")),
            }
        }
        told.push(("behind it", rest.join(", ")));
        told.extend(passed_on);
        Ok(told)
    }

    async fn prune(&self, retention: &Retention, limit: usize) -> Result<usize> {
        self.ask(Call::Prune { retention: retention.clone(), limit }).await
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        self.ask(Call::Events { after, limit }).await
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        self.ask(Call::PutAccessToken { token }).await
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        self.ask(Call::AccessTokens {}).await
    }

    async fn revoke_access_token(&self, name: &Name) -> Result<bool> {
        self.ask(Call::RevokeAccessToken { name: name.clone() }).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        self.ask(Call::Audit { entry }).await
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        self.ask(Call::Audits { page }).await
    }

    fn watch(&self) -> watch::Receiver<Rings> {
        self.bells.watch(&self.transport)
    }

    /// Lets what is under way end, and asks no more. The server's store is not this one's to close.
    async fn close(&self) -> Result<()> {
        *self.closed.write().await = true;
        self.bells.close();
        Ok(())
    }
}
