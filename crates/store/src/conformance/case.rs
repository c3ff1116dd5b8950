//! What scenarios are written with: short words for the things every one of them does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::{
    Command, Json, Name, NewTask, NewWorker, Outcome, Rejected, State, TaskId, Timestamp, Token, WorkerId,
};

use super::Lab;
use crate::{Claim, Claimed, Error, ManualClock, Receipt, Record, Store};

/// The kind of tasks that do not care.
pub const KIND: &str = "test:work";

/// A store under test, with a clock in the scenario's hand.
pub struct Case {
    /// The store's clock. It stands still until it is moved.
    pub clock: Arc<ManualClock>,
    lab: Box<dyn Lab>,
    store: Mutex<Arc<dyn Store>>,
    ids: AtomicU64,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The id numbered `n`: the same in every store.
#[must_use]
pub fn id(n: u64) -> TaskId {
    TaskId::from_bytes(((0x0190_0000_0000_7000_8000_0000_0000_0000_u128) | u128::from(n)).to_be_bytes())
}

/// The proof of a claim.
#[must_use]
pub fn token(claimed: &Claimed) -> Token {
    let status = &claimed.task.status;
    Token { task: claimed.task.id, lease: status.lease, worker: status.worker.clone().unwrap() }
}

/// A finish with `outcome` of what was claimed.
#[must_use]
pub fn finish(claimed: &Claimed, outcome: Outcome) -> Command {
    Command::Finish { token: token(claimed), outcome, started_at: None }
}

/// A claim of up to `limit` tasks of kind [`KIND`] from the default queue.
#[must_use]
pub fn claim_of(worker: &WorkerId, limit: usize) -> Claim {
    Claim {
        worker: worker.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![Name::kind(KIND).unwrap()],
        limit,
    }
}

impl Case {
    /// A fresh store. The clock shows 2026-01-01.
    pub(super) async fn new(lab: Box<dyn Lab>) -> Self {
        let (clock, store) = (lab.clock(), Mutex::new(lab.open().await));
        Self { clock, lab, store, ids: AtomicU64::new(1) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone()
    }

    /// Another store at the same data, as a second process would open it.
    pub async fn second(&self) -> Arc<dyn Store> {
        self.lab.open().await
    }

    /// Drops the store as a crash would, and opens it again.
    pub async fn crash(&self) {
        let next = self.lab.open().await;
        *self.store.lock().unwrap() = next;
    }

    /// Moves the clock forward.
    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The store's present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        use crate::Clock;
        self.clock.now()
    }

    /// A task with a fresh id and all defaults.
    #[must_use]
    pub fn task(&self) -> NewTask {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::default())
    }

    /// Submits one task that is expected to be accepted.
    pub async fn submit(&self, task: NewTask) -> TaskId {
        self.store().submit(vec![task]).await.unwrap()[0].id
    }

    /// Submits one task that is expected to be refused.
    pub async fn refused(&self, task: NewTask) -> Rejected {
        let error = self.store().submit(vec![task]).await.unwrap_err();
        error.rejected().unwrap_or_else(|| panic!("refused for another reason: {error}")).clone()
    }

    /// Registers a worker of the default queue and [`KIND`].
    pub async fn worker(&self, name: &str) -> WorkerId {
        let id = WorkerId::new(name).unwrap();
        let kinds = vec![Name::kind(KIND).unwrap()];
        self.store().register(NewWorker { kinds, ..NewWorker::new(id.clone()) }).await.unwrap();
        id
    }

    /// Claims up to `limit` tasks of [`KIND`].
    pub async fn claim(&self, worker: &WorkerId, limit: usize) -> Vec<Claimed> {
        self.store().claim(claim_of(worker, limit)).await.unwrap()
    }

    /// Claims exactly one.
    pub async fn claim_one(&self, worker: &WorkerId) -> Claimed {
        let mut claimed = self.claim(worker, 1).await;
        assert_eq!(claimed.len(), 1, "nothing to claim");
        claimed.remove(0)
    }

    /// Carries out one command.
    pub async fn apply(&self, command: Command) -> Result<Receipt, Rejected> {
        self.store().apply(vec![command]).await.unwrap().remove(0)
    }

    /// Finishes what was claimed.
    pub async fn finish(&self, claimed: &Claimed, outcome: Outcome) -> Result<Receipt, Rejected> {
        self.apply(finish(claimed, outcome)).await
    }

    /// Completes what was claimed, with result `null`.
    pub async fn complete(&self, claimed: &Claimed) -> Receipt {
        self.finish(claimed, Outcome::Completed { result: Json::default() }).await.unwrap()
    }

    /// Fails what was claimed, retryably.
    pub async fn fail(&self, claimed: &Claimed, error: &str) -> Receipt {
        let outcome = Outcome::Failed { error: error.into(), retryable: true, retry_after: None };
        self.finish(claimed, outcome).await.unwrap()
    }

    /// Carries out everything that is due, as a leader would, and says how much that was.
    pub async fn chores(&self) -> usize {
        let mut done = 0;
        loop {
            let due = self.store().due(100).await.unwrap();
            if due.commands.is_empty() {
                return done;
            }
            done += due.commands.len();
            for receipt in self.store().apply(due.commands).await.unwrap() {
                receipt.unwrap();
            }
        }
    }

    /// The task with everything that belongs to it.
    pub async fn record(&self, id: TaskId) -> Record {
        self.store().task(id).await.unwrap().expect("the task is there")
    }

    /// Where the task is.
    pub async fn state(&self, id: TaskId) -> State {
        self.record(id).await.task.status.state
    }

    /// The error a call gives that is expected to fail.
    pub async fn error<T: std::fmt::Debug>(&self, call: impl Future<Output = Result<T, Error>>) -> Error {
        call.await.unwrap_err()
    }
}
