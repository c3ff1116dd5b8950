//! A memory store, a clock and some processes that write down what they do: runs to check are played here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::{
    Backoff, Command, Json, Name, NewTask, NewWorker, NewWorkflow, Outcome, RetryPolicy, Task, TaskId, Token,
    WorkerId, WorkflowId,
};

use crate::conformance::checker::{Event, Journal, Op, read};
use crate::conformance::{KIND, START, invariants};
use crate::{ManualClock, MemoryStore, Reads, Receipt, Record, Store, Submitted, Turn, Writes};

pub(super) struct Stage {
    pub(super) store: MemoryStore,
    pub(super) clock: Arc<ManualClock>,
    directory: TempDir,
    journals: Mutex<BTreeMap<String, Journal>>,
}

impl Stage {
    /// An empty store on which the workers `names` are registered.
    pub(super) async fn new(names: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = MemoryStore::new(clock.clone());
        let stage = Self { store, clock, directory: TempDir::new().unwrap(), journals: Mutex::default() };
        for name in names {
            stage.register(name).await;
        }
        stage
    }

    pub(super) async fn register(&self, name: &str) {
        let new = NewWorker { kinds: vec![Name::kind(KIND).unwrap()], ..NewWorker::new(worker(name)) };
        self.store.register(new).await.unwrap();
    }

    /// Moves the clock on, so that no two things happen at once.
    pub(super) fn tick(&self) {
        self.clock.advance(Duration::from_millis(1));
    }

    /// What `who` writes into.
    pub(super) fn journal(&self, who: &str) -> Journal {
        let mut journals = self.journals.lock().unwrap();
        let open = || Journal::with_clock(self.directory.path(), who, self.clock.clone()).unwrap();
        journals.entry(who.into()).or_insert_with(open).clone()
    }

    pub(super) async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Submitted> {
        self.tick();
        self.journal("client").submit(&self.store, tasks).await.unwrap()
    }

    /// Carries out a command, which may be refused, and logs it.
    pub(super) async fn apply(&self, who: &str, command: Command) -> Option<Receipt> {
        self.tick();
        let turn = Turn { commands: vec![command], ..Turn::default() };
        self.journal(who).turn(&self.store, turn).await.unwrap().receipts.remove(0).ok()
    }

    /// `who` starts a workflow.
    pub(super) async fn begin(&self, who: &str, workflow: NewWorkflow) -> WorkflowId {
        self.tick();
        self.journal(who).start(&self.store, workflow).await.unwrap().id
    }

    /// `who` claims a task by name.
    pub(super) async fn take(&self, who: &str, task: TaskId) -> Task {
        self.tick();
        self.apply(who, Command::Claim { task, worker: worker(who) }).await.expect("it can be claimed");
        self.store.task(task).await.unwrap().unwrap().task
    }

    /// The same, and starts its handler.
    pub(super) async fn start(&self, who: &str, task: TaskId) -> Task {
        let claimed = self.take(who, task).await;
        self.journal(who).handler_started(&claimed);
        claimed
    }

    /// `who` claims a step and decides about it without its handler.
    pub(super) async fn decide(&self, who: &str, task: TaskId, outcome: Outcome) {
        let claimed = self.take(who, task).await;
        self.apply(who, finish(&claimed, outcome)).await.expect("it can be finished");
    }

    /// The handler ends, and its worker reports that.
    pub(super) async fn finish(&self, claimed: &Task, outcome: Outcome) -> Option<Receipt> {
        let worker = claimed.status.worker.clone().unwrap();
        self.tick();
        self.journal(worker.as_str()).handler_ended(claimed.id, claimed.status.lease);
        self.apply(worker.as_str(), finish(claimed, outcome)).await
    }

    /// One whole attempt.
    pub(super) async fn work(&self, who: &str, task: TaskId, outcome: Outcome) {
        let claimed = self.start(who, task).await;
        self.finish(&claimed, outcome).await.expect("it can be finished");
    }

    /// `who` asks for something and is killed before it hears the answer; it may have been done or not.
    pub(super) async fn killed(&self, who: &str, command: Command, done: bool) {
        self.tick();
        drop(self.journal(who).invoke(Op::of(&command).unwrap()));
        if done {
            self.store.apply(vec![command]).await.unwrap().remove(0).unwrap();
        }
    }

    /// The same for a submit.
    pub(super) async fn killed_submitting(&self, task: NewTask, done: bool) {
        self.tick();
        drop(self.journal("client").invoke(Op::submit(std::slice::from_ref(&task))));
        if done {
            self.store.submit(vec![task]).await.unwrap();
        }
    }

    /// What a leader does.
    pub(super) async fn chores(&self) {
        self.tick();
        let due = self.store.due(100).await.unwrap();
        self.store.apply(due.commands).await.unwrap();
    }

    /// What was logged, and what is there.
    pub(super) async fn over(&self) -> (Vec<Event>, Vec<Record>) {
        (read(self.directory.path()).unwrap(), invariants::dump(&self.store).await)
    }
}

pub(super) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

/// A task whose retries are due at once.
pub(super) fn task(id: TaskId) -> NewTask {
    // As long as between two things that happen.
    let retry =
        RetryPolicy { backoff: Backoff::Fixed, base: Duration::from_millis(1), ..RetryPolicy::default() };
    NewTask { retry, ..NewTask::new(id, Name::kind(KIND).unwrap(), Json::default()) }
}

pub(super) fn token(claimed: &Task) -> Token {
    Token { task: claimed.id, lease: claimed.status.lease, worker: claimed.status.worker.clone().unwrap() }
}

pub(super) fn finish(claimed: &Task, outcome: Outcome) -> Command {
    Command::Finish { token: token(claimed), outcome, started_at: None }
}
