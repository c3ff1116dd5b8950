//! What the tests of the engine share: a store on tokio's clock, which stands still unless everything waits; stores that fail on
//! plan or are looked at.

#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::panic)] // Each test uses a part.

mod plan;
mod spy;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::{
    Clock, Input, MemoryStore, Record, State, Store, TaskId, Timestamp, Windlass, WorkerBuilder, task_id,
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
pub(crate) fn spied() -> (Arc<Spy>, Windlass) {
    let spy = Spy::on(memory());
    (spy.clone(), Windlass::new(spy))
}

/// A worker to be whose heartbeat is on the clock of the test.
pub(crate) fn worker(windlass: &Windlass) -> WorkerBuilder {
    windlass.worker().simulated(task_id)
}

/// Lets time pass. The clock of a test is moved by waiting: it jumps to the next moment that anything waits for.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // tidy: sleep: this is how tokio's paused clock is moved
}

/// Runs a test on a thread of its own with a paused clock and gives up on it after a time that no clock can be kept from telling. For
/// tests that would never end if what they look for were there: a loop that does not wait keeps a paused clock from moving.
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
