//! For tests of handlers: the whole engine in memory, on a clock in the test's hand, with nothing running in
//! the background.
//!
//! ```
//! use std::time::Duration;
//! use windlass::testing::TestEngine;
//! use windlass::{Context, Input, State, TaskError};
//!
//! #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
//! struct Remind {
//!     who: String,
//! }
//! impl Input for Remind {
//!     const KIND: &'static str = "remind";
//! }
//!
//! async fn remind(context: Context, input: Remind) -> Result<(), TaskError> {
//!     if context.attempt() == 1 {
//!         context.client().submit(&Remind { who: format!("{} again", input.who) }).delay(Duration::from_secs(60)).await?;
//!         return Err(TaskError::retry("the line is busy"));
//!     }
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = TestEngine::new(|worker| worker.handle(remind)).await?;
//! let task = engine.client().submit(&Remind { who: "Ada".into() }).await?.id;
//!
//! assert_eq!(engine.drain().await?.len(), 1);
//! assert_eq!(engine.state(task).await?, State::WaitingForRetry);
//! let submitted: Vec<Remind> = engine.submitted().await?;
//! assert_eq!(submitted[1], Remind { who: "Ada again".into() });
//!
//! engine.advance(Duration::from_secs(1)).await?;
//! engine.drain().await?;
//! assert_eq!(engine.state(task).await?, State::Completed);
//! # Ok(())
//! # }
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::{Command, Input, Json, Name, Rejected, State, TaskId, Timestamp, Token};
use windlass_store::{Claimed, Clock, Error, Filter, ManualClock, MemoryStore, Page, Record, Result};

use crate::client::Client;
use crate::context::{Attempt, Context, Notebook};
use crate::leader;
use crate::windlass::Windlass;
use crate::worker::WorkerBuilder;
use crate::worker::attempt::{self, Ended, Verdict};
use crate::worker::setup::Shared;

/// Where the clock of a test stands at first: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// An engine for one test. Handlers run when the test says so, one after another, on the test's own task.
#[derive(Debug)]
pub struct TestEngine {
    windlass: Windlass,
    clock: Arc<ManualClock>,
    shared: Shared,
}

impl TestEngine {
    /// With the handlers that `configure` gives to the worker.
    pub async fn new(configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(START));
        let windlass = Windlass::new(Arc::new(MemoryStore::new(clock.clone())));
        let setup = configure(windlass.worker()).prepare().await?;
        Ok(Self { windlass, clock, shared: Shared::new(setup) })
    }

    /// A client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.windlass.client()
    }

    /// The engine that is tested, to start real workers on.
    #[must_use]
    pub fn windlass(&self) -> &Windlass {
        &self.windlass
    }

    /// The present, which stands still until [`TestEngine::advance`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock forward and does what that asks for: what is due becomes claimable, schedules fire.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.clock.advance(by);
        self.shared.store().heartbeat(self.shared.setup.id.clone(), Vec::new()).await?;
        leader::once(&self.shared).await
    }

    /// Sets the clock back, as when one that was wrong is corrected, and does what that asks for.
    pub async fn set_back(&self, by: Duration) -> Result<()> {
        self.clock.set(self.clock.now().minus(by));
        leader::once(&self.shared).await
    }

    /// Runs the task that is first in line, if there is one, and says what became of it.
    pub async fn step(&self) -> Result<Option<Record>> {
        let claimed = self.shared.store().claim(self.shared.setup.claim(1)).await?.pop();
        match claimed {
            Some(claimed) => self.run_claimed(claimed).await.map(Some),
            None => Ok(None),
        }
    }

    /// Runs everything that can be claimed, and what follows from it, until nothing can. Says what became of
    /// each attempt, in order. A handler that submits itself again without delay never ends.
    pub async fn drain(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        while let Some(record) = self.step().await? {
            records.push(record);
        }
        Ok(records)
    }

    /// Submits a task for `input` and runs it before everything else.
    pub async fn run<I: Input>(&self, input: &I) -> Result<Record> {
        let task = self.client().submit(input).await?.id;
        let worker = self.shared.setup.id.clone();
        self.shared.store().apply(vec![Command::Claim { task, worker }]).await?.remove(0)?;
        let Record { task, payload, .. } = self.record(task).await?;
        self.run_claimed(Claimed { task, payload, details: None }).await
    }

    async fn run_claimed(&self, Claimed { task, payload, details }: Claimed) -> Result<Record> {
        let setup = &self.shared.setup;
        let (client, handlers) = (setup.client.clone(), setup.handlers.clone());
        let token = Token { task: task.id, lease: task.status.lease, worker: setup.id.clone() };
        let (now, notebook) = (Instant::now(), Notebook::new(Arc::default()));
        let attempt = Attempt {
            task,
            place: OnceLock::new(),
            payload,
            details,
            worker: setup.id.clone(),
            client,
            handlers,
            received: now,
            started: now,
            trace: OnceLock::new(),
            stop: crate::stop::Stop::default(),
            hold: None,
            notebook,
        };
        let Ended { report, verdict, .. } =
            attempt::run(setup.handlers.clone(), Context::new(attempt), setup.patience).await;
        let mut commands: Vec<_> =
            report.map(|report| Command::Report { token: token.clone(), report }).into_iter().collect();
        if let Verdict::Finished(outcome) = verdict {
            commands.push(Command::Finish { token: token.clone(), outcome, started_at: None });
        }
        for receipt in self.shared.store().apply(commands).await? {
            receipt?;
        }
        self.record(token.task).await
    }

    /// A task with all that belongs to it.
    pub async fn record(&self, task: TaskId) -> Result<Record> {
        let record = self.shared.store().task(task).await?;
        record.ok_or_else(|| Rejected::NotFound { task }.into())
    }

    /// Where a task is.
    pub async fn state(&self, task: TaskId) -> Result<State> {
        Ok(self.record(task).await?.task.status.state)
    }

    /// The inputs of all tasks of a kind, whatever became of them, in the order of submission.
    pub async fn submitted<I: Input>(&self) -> Result<Vec<I>> {
        let unfit = |payload: &Json, error: serde_json::Error| {
            let why = format!("a payload of {:?} is not its input ({error}): {payload}", I::KIND);
            Error::Unavailable(why)
        };
        let mut inputs = Vec::new();
        for record in self.tasks(I::KIND).await? {
            let input = serde_json::from_str(record.payload.as_str());
            inputs.push(input.map_err(|error| unfit(&record.payload, error))?);
        }
        Ok(inputs)
    }

    /// All tasks of a kind, in the order of submission.
    pub async fn tasks(&self, kind: &str) -> Result<Vec<Record>> {
        let filter = Filter { kind: Some(Name::kind(kind)?), ..Filter::default() };
        let (mut page, mut records) = (Page { oldest_first: true, ..Page::default() }, Vec::new());
        loop {
            let listing = self.shared.store().tasks(filter.clone(), page).await?;
            for task in listing.tasks {
                records.push(self.record(task.id).await?);
            }
            page.after = listing.next;
            if page.after.is_none() {
                return Ok(records);
            }
        }
    }
}
