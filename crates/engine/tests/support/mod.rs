//! What the tests of the engine share: a store on tokio's clock, which stands still unless everything waits;
//! stores that fail on plan or are looked at.

#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::panic)] // Each test uses a part.

mod plan;
mod spy;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::{
    Claim, Client, Clock, Context, Input, MemoryStore, Name, NewWorker, Record, State, Store, TaskError,
    TaskId, Timestamp, Windlass, WorkerBuilder, WorkerId, task_id,
};

pub(crate) use plan::{Fault, Plan, down, lost, unsent};
pub(crate) use spy::Spy;

/// Where the clock starts: 2026-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A clock that goes as tokio's does.
#[derive(Debug)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    /// Begins now.
    #[must_use]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        START.plus(self.0.elapsed())
    }
}

/// An empty store in memory on tokio's clock.
#[must_use]
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(TokioClock::new()))
}

/// The engine on [`memory`].
pub(crate) fn engine() -> Windlass {
    Windlass::new(memory())
}

/// The engine on [`memory`], with a plan of failures in between.
pub(crate) fn planned() -> (Plan, Windlass) {
    let (plan, store) = Plan::around(memory());
    (plan, Windlass::new(store))
}

/// The engine on [`memory`], with somebody who looks.
pub(crate) fn spied() -> (Spy, Windlass) {
    let (spy, store) = Spy::on(memory());
    (spy, Windlass::new(store))
}

/// The engine on [`memory`] twice: with a plan of failures in between, and on the same store without.
pub(crate) fn planned_and_sure() -> (Plan, Windlass, Windlass) {
    let sure = memory();
    let (plan, store) = Plan::around(sure.clone());
    (plan, Windlass::new(store), Windlass::new(sure))
}

/// A worker to be whose heartbeat is on the clock of the test.
pub(crate) fn worker(windlass: &Windlass) -> WorkerBuilder {
    windlass.worker().simulated(task_id)
}

/// Lets time pass. The clock of a test is moved by waiting: it jumps to the next moment that anything waits
/// for.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // tidy: sleep: this is how tokio's paused clock is moved
}

/// Runs a test on a thread of its own with a paused clock and gives up on it after a time that no clock can
/// be kept from telling. For tests that would never end if what they look for were there: a loop that does
/// not wait keeps a paused clock from moving.
pub(crate) fn bounded<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let _ = done.send(runtime.block_on(test));
    });
    ended.recv_timeout(secs(30)).unwrap_or_else(|error| panic!("it has not come to an end: {error}"))
}

/// Milliseconds.
pub(crate) const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Seconds.
pub(crate) const fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// A moment, counted from [`START`].
pub(crate) fn at(since: Duration) -> Timestamp {
    START.plus(since)
}

/// A task that says what is to be done about it.
#[derive(Clone, serde::Serialize, serde::Deserialize, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// How long it takes, in milliseconds.
    #[serde(default)]
    pub(crate) takes: u64,
}

impl Input for Work {
    const KIND: &'static str = "work";
}

/// Work that takes so many milliseconds.
pub(crate) fn work(name: &str, takes: u64) -> Work {
    Work { name: name.into(), takes }
}

/// The task as it is now.
pub(crate) async fn record(windlass: &Windlass, id: TaskId) -> Record {
    windlass.client().get(id).await.unwrap().unwrap()
}

/// Where the task is now.
pub(crate) async fn state(windlass: &Windlass, id: TaskId) -> State {
    record(windlass, id).await.task.status.state
}

/// The states of a task's history, as words.
pub(crate) fn words(record: &Record) -> Vec<&'static str> {
    record.history.iter().map(|entry| entry.to.word()).collect()
}

/// When the task came to each state of its history, since [`START`].
pub(crate) fn times(record: &Record) -> Vec<Duration> {
    record.history.iter().map(|entry| entry.at.since(START)).collect()
}

/// A handler that takes as long as it is told.
pub(crate) async fn take(_: Context, work: Work) -> Result<(), TaskError> {
    pass(ms(work.takes)).await;
    Ok(())
}

/// Submits the same work so many times.
pub(crate) async fn submit(client: &Client, number: usize, work: &Work) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for _ in 0..number {
        ids.push(client.submit(work).await.unwrap().id);
    }
    ids
}

/// Submits quick tasks and then slow ones, which are the answer. The store takes 10 ms for a turn from now
/// on: handlers end during a turn, and the next turn takes some more in advance.
pub(crate) async fn quick_then_slow(plan: &Plan, client: &Client, slow: usize, takes: u64) -> Vec<TaskId> {
    plan.set(&["turn"], Fault::Late(ms(10)));
    submit(client, 20, &work("quick", 1)).await;
    submit(client, slow, &work("slow", takes)).await
}

/// Submits a task to an idle worker whose claim of it meets `fault`.
pub(crate) async fn claim_meets(plan: &Plan, client: &Client, fault: Fault) -> TaskId {
    pass(ms(1)).await;
    plan.once("turn", fault);
    client.submit(&work("a", 0)).await.unwrap().id
}

/// A worker that claims and is never heard of again.
pub(crate) async fn zombie(store: &Arc<dyn Store>, dead_after: Duration, limit: usize) -> WorkerId {
    let id = windlass::worker_id();
    let kinds = vec![Name::kind("work").unwrap()];
    let new = NewWorker { kinds: kinds.clone(), dead_after, ..NewWorker::new(id.clone()) };
    store.register(new).await.unwrap();
    let queues = vec![Name::default()];
    let claim = Claim { worker: id.clone(), namespace: Name::default(), queues, kinds, limit };
    assert_eq!(store.claim(claim).await.unwrap().len(), limit);
    id
}
