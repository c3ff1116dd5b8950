//! The side of the server: what a [`Call`] asks for, done by a store.

use std::slice::from_ref;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;
use windlass_core::Name;

use super::call::Call;
use super::reply::{Hello, Reply, SeenWorkflow, Told};
use crate::error::{Error, Result};
use crate::request::Rings;
use crate::store::Store;

/// A store that answers calls. Who may call is for those to decide who let calls in.
#[derive(Debug)]
pub struct Answering {
    store: Arc<dyn Store>,
    rings: watch::Receiver<Rings>,
    server: u64,
    version: String,
}

impl Answering {
    /// For the store of a server. `server` is a number that no other server, and no other start of this one, has.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, server: u64, version: impl Into<String>) -> Self {
        Self { rings: store.watch(), store, server, version: version.into() }
    }

    /// Reads a call, and checks all of it that no store checks.
    pub fn read(body: &[u8]) -> Result<Call> {
        let call: Call = serde_json::from_slice(body)
            .map_err(|error| Error::Unusable(format!("what was sent is no call: {error}")))?;
        call.check()?;
        Ok(call)
    }

    /// Comes when something has rung that is not `heard`; at once, if that was heard from another server.
    pub async fn rung(&self, server: u64, heard: Rings) {
        if server == self.server {
            // A store that is gone rings no more, and whoever waits had better know.
            let _ = self.rings.clone().wait_for(|rings| *rings != heard).await;
        }
    }

    /// Carries out a call and gives the answer as it is sent. A [`Call::Watch`] is answered at once: see [`Answering::rung`].
    pub async fn answer(&self, call: Call) -> Vec<u8> {
        self.answer_within(call, &|_| true).await
    }

    /// As [`answer`](Self::answer), for one who may not see everything: of workers, counts, paused queues and schedules only those are told whose queues
    /// `sees` says yes to. Whether the rest may be asked for is for those to decide who let the call in.
    pub async fn answer_within(&self, call: Call, sees: &(dyn Fn(&[Name]) -> bool + Sync)) -> Vec<u8> {
        fn part<T>(answer: Result<Vec<T>>, keep: impl Fn(&T) -> bool) -> Result<Vec<T>> {
            answer.map(|all| all.into_iter().filter(keep).collect())
        }
        let store = &*self.store;
        match call {
            Call::Hello {} => {
                self.reply(Ok(Hello { version: self.version.clone(), turns_at_once: store.turns_at_once() }))
            }
            Call::Watch { .. } => self.reply(Ok(())),
            Call::Submit { tasks } => self.reply(store.submit(tasks).await),
            Call::Turn { turn } => self.reply(store.turn(turn).await),
            Call::Register { worker } => self.reply(store.register(worker).await),
            Call::Heartbeat { worker, held } => self.reply(store.heartbeat(&worker, held).await),
            Call::Deregister { worker } => self.reply(store.deregister(&worker).await),
            Call::Workers {} => self.reply(part(store.workers().await, |worker| sees(&worker.queues))),
            Call::Campaign { candidate, lease } => self.reply(store.campaign(&candidate, lease).await),
            Call::Resign { candidate, term } => self.reply(store.resign(&candidate, term).await),
            Call::Leader {} => self.reply(store.leader().await),
            Call::Due { limit } => self.reply(store.due(limit).await),
            Call::Task { id } => self.reply(store.task(id).await),
            Call::Find { namespace, kind, key } => self.reply(store.find(&namespace, &kind, &key).await),
            Call::Tasks { filter, page } => self.reply(store.tasks(filter, page).await),
            Call::Counts {} => self.reply(part(store.counts().await, |count| sees(from_ref(&count.queue)))),
            Call::Facts { id } => self.reply(store.facts(id).await),
            Call::Pause { namespace, queue, paused } => {
                self.reply(store.pause(&namespace, &queue, paused).await)
            }
            Call::Paused {} => self.reply(part(store.paused().await, |(_, queue)| sees(from_ref(queue)))),
            Call::SetEntity { namespace, entity, known } => {
                self.reply(store.set_entity(&namespace, &entity, known).await)
            }
            Call::HasEntity { namespace, entity } => self.reply(store.has_entity(&namespace, &entity).await),
            Call::Entities { namespace, after, limit } => {
                self.reply(store.entities(&namespace, after.as_ref(), limit).await)
            }
            Call::SetSchedule { schedule } => self.reply(store.set_schedule(*schedule).await),
            Call::RemoveSchedule { namespace, name } => {
                self.reply(store.remove_schedule(&namespace, &name).await)
            }
            Call::Schedules {} => {
                let schedules = store.schedules().await;
                self.reply(part(schedules, |one| sees(from_ref(&one.template.task().queue))))
            }
            Call::Fire { firing, term } => self.reply(store.fire(firing, term).await),
            Call::Define { namespace, definition } => self.reply(store.define(&namespace, *definition).await),
            Call::Definition { namespace, name, version } => {
                self.reply(store.definition(&namespace, &name, version.as_deref()).await)
            }
            Call::Definitions { namespace, name } => {
                self.reply(store.definitions(&namespace, name.as_ref()).await)
            }
            Call::Start { workflow } => self.reply(store.start(*workflow).await),
            Call::Steer { workflow, steering, by } => self.reply(store.steer(workflow, steering, by).await),
            Call::Workflow { id, known } => {
                let found = store.workflow(id).await;
                self.reply(found.map(|found| found.map(|record| SeenWorkflow::of(record, known))))
            }
            Call::FindWorkflow { namespace, name, key } => {
                self.reply(store.find_workflow(&namespace, &name, &key).await)
            }
            Call::Workflows { filter, page } => self.reply(store.workflows(filter, page).await),
            Call::Results { tasks } => self.reply(store.results(tasks).await),
            Call::WorkflowCounts {} => self.reply(store.workflow_counts().await),
            Call::ReadyWorkflows { namespace, name, limit } => {
                self.reply(store.ready_workflows(namespace.as_ref(), name.as_ref(), limit).await)
            }
            Call::Activity { since } => self.reply(store.activity(since).await),
            Call::Reconcile { after, limit } => self.reply(store.reconcile(after, limit).await),
            Call::Executions { wanted } => self.reply(store.executions(wanted).await),
            Call::Describe {} => self.reply(store.describe().await),
            Call::Prune { retention, limit } => self.reply(store.prune(&retention, limit).await),
            Call::Events { after, limit } => self.reply(store.events(after, limit).await),
            Call::PutAccessToken { token } => self.reply(store.put_access_token(token).await),
            Call::AccessTokens {} => self.reply(store.access_tokens().await),
            Call::RevokeAccessToken { name } => self.reply(store.revoke_access_token(&name).await),
            Call::Audit { entry } => self.reply(store.audit(entry).await),
            Call::Audits { page } => self.reply(store.audits(page).await),
        }
    }

    /// The answer to a call that was not carried out.
    #[must_use]
    pub fn refusal(&self, error: Error) -> Vec<u8> {
        self.reply::<()>(Err(error))
    }

    fn reply<T: Serialize>(&self, answer: Result<T>) -> Vec<u8> {
        let told =
            Told { server: self.server, rings: *self.rings.borrow(), connections: self.store.connections() };
        // Nothing in it can fail to be written: there are no maps but those with texts as keys.
        serde_json::to_vec(&Reply { told, answer }).unwrap_or_default()
    }
}
