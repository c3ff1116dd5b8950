//! What programs do with tasks: submit them, look at them, wait for them, intervene.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;
use windlass_core::{
    By, Command, Entity, Explanation, Input, Invalid, Json, Name, NewTask, Rejected, State, TaskId, Worker,
};
use windlass_store::{
    Count, Error, Filter, Listing, Page, Receipt, Record, Result, Rings, Store, Submitted, WorkflowCount,
};

use crate::rules::Rules;
use crate::steps::Flows;
use crate::submit::Submit;
use crate::{observe, trace};

/// A second look at a task that is waited for comes no sooner than this after the first: a busy store rings
/// all the time.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// A wait looks again after this long even if nothing was heard.
const POLL: Duration = Duration::from_secs(5);

/// A handle to a store for programs that submit and look at tasks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) namespace: Name,
    pub(crate) rules: Arc<Rules>,
    pub(crate) flows: Arc<Flows>,
}

impl Client {
    pub(crate) fn new(store: Arc<dyn Store>, rules: Arc<Rules>, flows: Arc<Flows>) -> Self {
        Self { store, namespace: Name::default(), rules, flows }
    }

    /// The namespace that it submits to.
    #[must_use]
    pub fn namespace_name(&self) -> &Name {
        &self.namespace
    }

    /// The same client for another namespace.
    pub fn namespace(&self, namespace: &str) -> Result<Self> {
        Ok(Self { namespace: Name::namespace(namespace)?, ..self.clone() })
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// A task for a handler of `input`. Set what differs from the defaults, then `.await` it; it is durable
    /// when that returns.
    ///
    /// ```
    /// # use windlass::{Input, Windlass};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct SendEmail { to: String }
    /// # impl Input for SendEmail { const KIND: &'static str = "email:send"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Windlass::open("memory:").await?.client();
    /// let mail = SendEmail { to: "ada".into() };
    /// let submitted = client.submit(&mail).queue("mail").key("welcome ada").await?;
    /// assert!(submitted.created);
    /// assert!(!client.submit(&mail).queue("mail").key("welcome ada").await?.created);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit<I: Input>(&self, input: &I) -> Submit {
        let payload = serde_json::to_string(input).map_err(|error| {
            Invalid::new("payload", I::KIND, format!("an input that can be written as JSON ({error})"))
        });
        Submit::new(self.clone(), I::KIND, payload.and_then(|text| Json::payload(&text)))
    }

    /// A task of a kind known only at run time, with a payload that is JSON already.
    pub fn submit_json(&self, kind: &str, payload: &str) -> Submit {
        Submit::new(self.clone(), kind, Json::payload(payload))
    }

    /// Submits all of `tasks` (at most 1,000, see [`Submit::build`]) or none, and answers in their order.
    pub async fn submit_all(&self, mut tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        for (index, task) in tasks.iter().enumerate() {
            self.rules.check_task(task).map_err(|invalid| match tasks.len() {
                1 => Error::from(invalid),
                _ => Error::InBatch { index, rejected: invalid.into() },
            })?;
        }
        let span = observe::submitting(&tasks);
        if let Some(traceparent) = trace::identify(&span) {
            for task in &mut tasks {
                task.traceparent.get_or_insert(traceparent);
            }
        }
        self.send_submit(tasks).instrument(span).await
    }

    async fn send_submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        match self.store.submit(tasks.clone()).await {
            Err(Error::Unknown(why)) => self.resolve_submit(tasks, why).await,
            answer => answer,
        }
    }

    /// Finds out what became of a submit whose answer was lost, by reading: a batch is there as a whole or
    /// not at all.
    async fn resolve_submit(&self, tasks: Vec<NewTask>, why: String) -> Result<Vec<Submitted>> {
        // Whatever keeps it from looking: "nothing was changed" is not known.
        let Ok((submitted, any)) = self.look_for(&tasks).await else { return Err(Error::Unknown(why)) };
        if any || tasks.is_empty() {
            return if submitted.len() == tasks.len() { Ok(submitted) } else { Err(Error::Unknown(why)) };
        }
        // Nothing of it is there, so it is repeated. The first may still come through, and then this one is
        // refused.
        let again = match self.store.submit(tasks.clone()).await {
            Ok(mut submitted) => {
                // If the first came through in between, its key was found, and the task is this caller's all
                // the same.
                let ours = |(one, task): (&mut Submitted, &NewTask)| one.created |= one.id == task.id;
                submitted.iter_mut().zip(&tasks).for_each(ours);
                return Ok(submitted);
            }
            Err(again) => again,
        };
        match self.look_for(&tasks).await {
            Ok((submitted, true)) if submitted.len() == tasks.len() => Ok(submitted),
            Ok((_, false)) if again.rejected().is_some() => Err(again),
            _ => Err(Error::Unknown(why)),
        }
    }

    /// Those of `tasks` that are there, by id or by key, and whether any is there by id.
    async fn look_for(&self, tasks: &[NewTask]) -> Result<(Vec<Submitted>, bool)> {
        let (mut submitted, mut any) = (Vec::with_capacity(tasks.len()), false);
        for task in tasks {
            let mut found = self.store.task(task.id).await?;
            any |= found.is_some();
            if let (None, Some(key)) = (&found, &task.key)
                && let Some(other) =
                    self.store.find(task.namespace.clone(), task.kind.clone(), key.into()).await?
            {
                found = self.store.task(other).await?;
            }
            submitted.extend(found.map(|record| Submitted {
                id: record.task.id,
                state: record.task.status.state,
                created: record.task.id == task.id,
            }));
        }
        Ok((submitted, any))
    }

    /// A task with payload, result, history and what its attempts told.
    pub async fn get(&self, id: TaskId) -> Result<Option<Record>> {
        self.store.task(id).await
    }

    /// The task of this namespace that has an idempotency key.
    pub async fn find(&self, kind: &str, key: &str) -> Result<Option<TaskId>> {
        self.store.find(self.namespace.clone(), Name::kind(kind)?, key.into()).await
    }

    /// A page of tasks, newest first unless the page says otherwise. All namespaces, unless the filter says
    /// otherwise.
    pub async fn list(&self, filter: Filter, page: Page) -> Result<Listing> {
        self.store.tasks(filter, page).await
    }

    /// Waits until a task is final.
    pub async fn wait(&self, id: TaskId) -> Result<Finished> {
        let mut looks = Looks::new(self);
        loop {
            looks.begin();
            let record = self.store.task(id).await?.ok_or(Rejected::NotFound { task: id })?;
            if record.task.status.state.is_final() {
                return Ok(Finished(record));
            }
            looks.rest().await;
        }
    }

    /// Stops a task, wherever it is. A handler that runs it is told to stop.
    pub async fn cancel(&self, id: TaskId, by: By) -> Result<Receipt> {
        self.apply(Command::Cancel { task: id, by }).await
    }

    /// Lets a task run now: a failed, dead or cancelled one again, a waiting one without its delay. With
    /// `force` it starts over with all its attempts.
    pub async fn retry(&self, id: TaskId, force: bool, by: By) -> Result<Receipt> {
        self.apply(Command::Retry { task: id, force, by }).await
    }

    /// Lets a task that waits for a retry wait until so long from now, at most 30 days, instead of as long as
    /// it would.
    pub async fn postpone(&self, id: TaskId, delay: Duration) -> Result<Receipt> {
        self.apply(Command::Postpone { task: id, delay }).await
    }

    /// Settles a task by hand, with what it would have returned.
    pub async fn resolve(&self, id: TaskId, result: Option<Json>, by: By) -> Result<Receipt> {
        self.apply(Command::Resolve { task: id, result, by }).await
    }

    /// Removes a final task, its history and its key.
    pub async fn delete(&self, id: TaskId) -> Result<Receipt> {
        self.apply(Command::Delete { task: id }).await
    }

    async fn apply(&self, command: Command) -> Result<Receipt> {
        Ok(self.store.apply(vec![command]).await?.remove(0)?)
    }

    /// Why a task is not running; `None` if there is no such task.
    pub async fn explain(&self, id: TaskId) -> Result<Option<Explanation>> {
        self.store.explain(id).await
    }

    /// How many tasks there are of each namespace, queue, kind and state.
    pub async fn stats(&self) -> Result<Vec<Count>> {
        self.store.counts().await
    }

    /// How many workflows of each sort there are, in all namespaces.
    pub async fn workflow_stats(&self) -> Result<Vec<WorkflowCount>> {
        self.store.workflow_counts().await
    }

    /// Pauses a queue of this namespace, or lets it go on.
    pub async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        self.store.pause(self.namespace.clone(), Name::queue(queue)?, paused).await
    }

    /// All registered workers.
    pub async fn workers(&self) -> Result<Vec<Worker>> {
        self.store.workers().await
    }

    /// Registers an entity of this namespace, written `type:id`; says whether it is new.
    pub async fn register_entity(&self, entity: &str) -> Result<bool> {
        self.store.set_entity(self.namespace.clone(), entity.parse()?, true).await
    }

    /// Forgets an entity of this namespace; says whether it was known.
    pub async fn forget_entity(&self, entity: &str) -> Result<bool> {
        self.store.set_entity(self.namespace.clone(), entity.parse()?, false).await
    }

    /// Whether an entity of this namespace is registered.
    pub async fn has_entity(&self, entity: &str) -> Result<bool> {
        self.store.has_entity(self.namespace.clone(), entity.parse()?).await
    }

    /// Registered entities of this namespace, by name, at most `limit`, from the first after `after`.
    pub async fn entities(&self, after: Option<&Entity>, limit: usize) -> Result<Vec<Entity>> {
        self.store.entities(self.namespace.clone(), after.cloned(), limit).await
    }
}

/// Looks at something that is waited for: one whenever something has become final.
pub(crate) struct Looks {
    rings: watch::Receiver<Rings>,
    seen: u64,
    looked: Instant,
}

impl Looks {
    pub(crate) fn new(client: &Client) -> Self {
        Self { rings: client.store.watch(), seen: 0, looked: Instant::now() }
    }

    /// A look begins.
    pub(crate) fn begin(&mut self) {
        self.seen = self.rings.borrow_and_update().settled;
        self.looked = Instant::now();
    }

    /// Comes when there should be another.
    pub(crate) async fn rest(&mut self) {
        let seen = self.seen;
        let rang = self.rings.wait_for(|rings| rings.settled != seen);
        // Whether it rang, the store went away or time is up: the next look tells.
        let _ = tokio::time::timeout(POLL, rang).await;
        tokio::time::sleep_until(self.looked + SECOND_LOOK).await;
    }
}

/// A task that is final.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished(pub Record);

impl Deref for Finished {
    type Target = Record;
    fn deref(&self) -> &Record {
        &self.0
    }
}

impl Finished {
    /// What the handler returned, or an operator settled it with.
    pub fn output<O: DeserializeOwned>(&self) -> Result<O, OutputError> {
        let Record { task, result, .. } = &self.0;
        let Some(result) = result else {
            let error = task.status.error.clone().unwrap_or_else(|| "it has no result".into());
            return Err(OutputError::None { task: task.id, state: task.status.state, error });
        };
        serde_json::from_str(result.as_str())
            .map_err(|error| OutputError::Unfit { task: task.id, error: error.to_string() })
    }
}

/// Why a final task has no output to give.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OutputError {
    /// It did not complete.
    #[error("task {task} is {state}: {error}")]
    None {
        /// The task.
        task: TaskId,
        /// How it ended.
        state: State,
        /// What went wrong.
        error: String,
    },
    /// Its result is of another type.
    #[error("the result of task {task} is not what was expected: {error}")]
    Unfit {
        /// The task.
        task: TaskId,
        /// What does not fit.
        error: String,
    },
}
