//! The worker: claims what it has handlers for, runs it, reports.
//!
//! Its parts, each in a file: the loop ([`driver`]) and what it asks the store ([`asking`]), one attempt
//! ([`attempt`]), the heartbeat ([`pulse`]) and until when something may start ([`fence`]), what it holds
//! ([`held`]) and what it has to say ([`outbox`]). Every worker also stands for leader ([`crate::leader`]).

mod asking;
pub(crate) mod attempt;
pub(crate) mod driver;
pub(crate) mod fence;
mod held;
pub(crate) mod outbox;
mod pulse;
pub(crate) mod setup;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use windlass_core::{
    DEAD_AFTER, Input, Invalid, Lease, Name, Outcome, Retention, TaskId, WORKFLOW, WorkerId, limits,
};
use windlass_store::{Error, Result};

use crate::client::Client;
use crate::context::Context;
use crate::error::TaskError;
use crate::handler::{Handlers, Next};
use crate::ids::{task_id, worker_id};
use crate::leader;
pub use setup::ReportResult;
use setup::{Setup, Shared};

/// Handlers that run at once, unless said otherwise.
const POOL: usize = 10;

/// The least time between two looks of an idle worker.
const SHORTEST_POLL: Duration = Duration::from_millis(1);

/// How long a store that did not answer is told that the worker is gone.
const AWAY: Duration = Duration::from_millis(500);

/// Claims that a worker with quick handlers may hold in advance, unless said otherwise.
const BUFFER: usize = 1024;

/// A worker to be. Give it handlers, then [`start`](WorkerBuilder::start) it.
#[derive(Debug)]
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    setup: Setup,
    handlers: Handlers,
    refused: Option<Invalid>,
}

impl WorkerBuilder {
    pub(crate) fn new(client: Client) -> Self {
        let setup = Setup {
            client,
            id: worker_id(),
            handlers: Arc::default(),
            queues: vec![Name::default()],
            pool: POOL,
            buffer: BUFFER,
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            heartbeat: Duration::from_secs(10),
            dead_after: DEAD_AFTER,
            poll: Duration::from_secs(30),
            leads: true,
            retention: Retention::default(),
            threaded: true,
            new_id: Arc::new(task_id),
            on_report: None,
        };
        Self { setup, handlers: Handlers::default(), refused: None }
    }

    /// Remembers the first thing that cannot be accepted, to tell it at the start.
    fn check(mut self, checked: Result<(), Invalid>) -> Self {
        self.refused = self.refused.or(checked.err());
        self
    }

    /// Adds a handler: an `async fn(Context, Input) -> Result<Output, TaskError>`, or a closure of that form.
    /// A kind can have only one.
    pub fn handle<I, O, F>(mut self, handler: impl Fn(Context, I) -> F + Send + Sync + 'static) -> Self
    where
        I: Input,
        O: Serialize,
        F: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let added = self.handlers.add_typed(handler);
        self.check(added)
    }

    /// Adds a handler for a kind known only at run time. The input is in [`Context::payload`].
    pub fn handle_kind<O, F>(
        mut self,
        kind: &str,
        handler: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        O: Serialize,
        F: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let added = self.handlers.add(kind, handler);
        self.check(added)
    }

    /// Also starts workflows that are steps of others. Somebody must: otherwise such steps wait.
    pub fn starts_workflows(mut self) -> Self {
        // A step that is a workflow never comes to its handler.
        let added = self.handlers.add(WORKFLOW, |_| async {
            Err::<(), _>(TaskError::fail("only a step of a workflow can be a workflow"))
        });
        self.check(added)
    }

    /// Puts something around all handlers: it is given the context and what is inside, and returns the
    /// outcome. The last one put around is the outermost.
    ///
    /// ```
    /// # async fn around(windlass: windlass::Windlass) {
    /// let worker = windlass.worker().around(|context, next| async move {
    ///     let id = context.id();
    ///     let outcome = next.run(context).await;
    ///     println!("{id} ended: {outcome:?}");
    ///     outcome
    /// });
    /// # drop(worker);
    /// # }
    /// ```
    pub fn around<F>(mut self, around: impl Fn(Context, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.handlers.wrap(around);
        self
    }

    /// Gives all handlers something to share, found by its type with [`Context::shared`].
    pub fn share<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.share_arc(Arc::new(value))
    }

    /// The same for something that the program shares already.
    pub fn share_arc<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.handlers.share(value);
        self
    }

    /// Whose tasks it takes; those of the namespace `default` by default.
    pub fn namespace(mut self, namespace: Name) -> Self {
        self.setup.client.namespace = namespace;
        self
    }

    /// The queues it takes from; `default` by default.
    pub fn queues<'a>(mut self, queues: impl IntoIterator<Item = &'a str>) -> Self {
        match queues.into_iter().map(Name::queue).collect() {
            Ok(queues) => {
                self.setup.queues = queues;
                self
            }
            Err(invalid) => self.check(Err(invalid)),
        }
    }

    /// How many handlers run at once; 10 by default.
    pub fn pool(mut self, handlers: usize) -> Self {
        self.setup.pool = handlers;
        self
    }

    /// How many tasks it may claim before a handler is free for them; 1,024 by default. It uses as much of
    /// that as handlers get through during a turn or two with the store: nothing if they are slow.
    pub fn buffer(mut self, tasks: usize) -> Self {
        self.setup.buffer = tasks;
        self
    }

    /// How long handlers may go on after the worker was told to stop; 30 s by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.setup.grace = grace.min(limits::TIMEOUT);
        self
    }

    /// How long a handler may go on after it was told to stop; 5 s by default. Then it is dropped at its next
    /// `.await`.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.setup.patience = patience.min(limits::TIMEOUT);
        self
    }

    /// How long the worker may be silent before others take its tasks; 30 s by default. It sends a heartbeat
    /// every third of that.
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.setup.dead_after = silence;
        self.setup.heartbeat = silence / 3;
        self
    }

    /// How long an idle worker trusts that it would have been woken; 30 s by default.
    pub fn poll(mut self, interval: Duration) -> Self {
        self.setup.poll = interval.min(limits::TIMEOUT);
        self
    }

    /// Whether it may become the leader, who does what the passing of time asks for; it may by default. A
    /// store needs one worker that may.
    pub fn leads(mut self, leads: bool) -> Self {
        self.setup.leads = leads;
        self
    }

    /// What is deleted, and when, while this worker leads; nothing by default.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.setup.retention = retention;
        self
    }

    /// Tells what became of the report about each attempt, once. A worker that stops while the store is away
    /// has reports that it could not make, of which nothing is told.
    pub fn on_report(mut self, heard: impl Fn(TaskId, Lease, &ReportResult) + Send + Sync + 'static) -> Self {
        self.setup.on_report = Some(Arc::new(heard));
        self
    }

    /// Its identity, which must be fresh at every start. Made up by default.
    pub fn id(mut self, id: WorkerId) -> Self {
        self.setup.id = id;
        self
    }

    /// For simulations: everything runs on the runtime that starts it, and ids come from `new_id`.
    #[doc(hidden)]
    pub fn simulated(mut self, new_id: impl Fn() -> TaskId + Send + Sync + 'static) -> Self {
        self.setup.threaded = false;
        self.setup.new_id = Arc::new(new_id);
        self
    }

    /// Registers the worker and starts it.
    pub async fn start(self) -> Result<RunningWorker> {
        let setup = self.prepare().await?;
        metrics::gauge!("windlass_worker_pool_capacity").set(crate::observe::count(setup.pool));
        RunningWorker::launch(setup)
    }

    /// Checks what was given and registers the worker.
    pub(crate) async fn prepare(mut self) -> Result<Setup> {
        if let Some(invalid) = self.refused {
            return Err(invalid.into());
        }
        if self.handlers.kinds().is_empty() {
            return Err(
                Invalid::number("number of handlers", 0, "at least one; a worker runs handlers").into()
            );
        }
        if !(1..=limits::POOL).contains(&self.setup.pool) {
            return Err(Invalid::number("pool", self.setup.pool, "1 to 10000 handlers at once").into());
        }
        if self.setup.queues.is_empty() {
            return Err(Invalid::number("number of queues", 0, "at least one").into());
        }
        if self.setup.poll < SHORTEST_POLL {
            return Err(Invalid::number("poll", self.setup.poll, "at least 1 ms").into());
        }
        self.setup.handlers = Arc::new(self.handlers);
        self.setup.client.store.register(self.setup.registration()).await?;
        Ok(self.setup)
    }

    /// Stands for leader and leads until `signal` comes, and does nothing else: it is not registered, and
    /// needs no handlers. For programs that let others do the work.
    pub async fn lead_until(self, signal: impl Future<Output = ()>) -> Result<()> {
        if let Some(invalid) = self.refused {
            return Err(invalid.into());
        }
        let (stop, shared) = (CancellationToken::new(), Arc::new(Shared::new(self.setup)));
        let stopping = async {
            signal.await;
            stop.cancel();
        };
        tokio::join!(leader::stand(shared, stop.clone()), stopping);
        Ok(())
    }

    /// Starts the worker and runs it until `signal` comes, then stops it gracefully.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<()> {
        let worker = self.start().await?;
        tokio::select! {
            biased;
            ended = worker.ended() => return ended,
            () = signal => {}
        }
        worker.stop().await
    }
}

/// A worker that runs. Dropped, it stops gracefully by itself.
#[derive(Debug)]
pub struct RunningWorker {
    id: WorkerId,
    stop: CancellationToken,
    ended: CancellationToken,
    life: std::sync::Mutex<Option<JoinHandle<Result<()>>>>,
}

impl RunningWorker {
    fn launch(setup: Setup) -> Result<Self> {
        let (id, stop, ended) = (setup.id.clone(), CancellationToken::new(), CancellationToken::new());
        let shared = Arc::new(Shared::new(setup));
        let pulse = Pulse::start(shared.clone())?;
        let life = tokio::spawn(live(shared, pulse, stop.clone(), ended.clone()));
        Ok(Self { id, stop, ended, life: std::sync::Mutex::new(Some(life)) })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> &WorkerId {
        &self.id
    }

    /// Stops it gracefully: it claims no more, lets handlers end within the grace period, reports, gives back
    /// the rest, gives up leadership and deregisters.
    pub async fn stop(&self) -> Result<()> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits until it has ended, by [`RunningWorker::stop`] or because the store cannot be used any more.
    pub async fn ended(&self) -> Result<()> {
        self.ended.cancelled().await;
        let life = self.life.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match life {
            Some(life) => life.await.unwrap_or_else(|error| {
                Err(Error::Unavailable(format!("the worker was stopped by a bug: {error}")))
            }),
            None => Ok(()),
        }
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The heartbeat in progress.
struct Pulse {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// Its leases die with the worker, however that ends: nobody works for them.
impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Pulse {
    /// Starts it on a thread of its own, where no handler can keep it from beating.
    fn start(shared: Arc<Shared>) -> Result<Self> {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let (until, done, threaded) = (stop.clone(), ended.clone().drop_guard(), shared.setup.threaded);
        let beating = async move {
            let _done = done;
            pulse::beat(shared, until).await;
        };
        if !threaded {
            tokio::spawn(beating);
            return Ok(Self { stop, ended });
        }
        let failed = |error| Error::Unavailable(format!("no thread for the heartbeat: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let thread = std::thread::Builder::new().name("windlass-pulse".into());
        thread.spawn(move || runtime.block_on(beating)).map_err(failed)?;
        Ok(Self { stop, ended })
    }

    async fn end(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

/// A worker's life: the loop, with a leader's beside it, and what is to be done at the end, in that order.
async fn live(
    shared: Arc<Shared>,
    pulse: Pulse,
    stop: CancellationToken,
    ended: CancellationToken,
) -> Result<()> {
    let _ended = ended.drop_guard();
    let Setup { id, pool, leads, .. } = &shared.setup;
    info!(worker = %id, pool, "worker started");
    let lead_until = CancellationToken::new();
    let leading = leads.then(|| tokio::spawn(leader::stand(shared.clone(), lead_until.clone())));
    let worked = driver::Driver::new(shared.clone()).run(stop).await;
    // A store that has not heard the last reports is not waited for again.
    let last_words = if worked == Ok(false) { AWAY } else { driver::LAST_WORDS };
    lead_until.cancel();
    // A store that does not answer is not waited for: the term runs out, and the worker will count as dead.
    if let Some(leading) = leading
        && let Ok(Err(error)) = timeout(last_words, leading).await
    {
        warn!(%error, "the leader's loop was stopped by a bug");
    }
    pulse.end().await;
    match timeout(last_words, shared.store().deregister(id.clone())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, worker = %id, "not deregistered; it will count as dead"),
        Err(_) => warn!(worker = %id, "not deregistered: the store does not answer; it will count as dead"),
    }
    info!(worker = %id, "worker stopped");
    worked.map(|_| ())
}
