//! A store under test, and what every scenario does with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use windlass_core::{
    By, Command, Entity, Json, Lane, Leadership, Name, NewSchedule, NewTask, NewWorker, NewWorkflow, Outcome,
    Rejected, Report, Schedule, Start, State, Steering, TaskId, Timestamp, WORKFLOW, Worker, WorkerId,
    Workflow, WorkflowId, WorkflowState, limits,
};

use super::words::{
    KIND, ad_hoc, claim_of, completed, definition, entity, failed, failed_for_good, finish, id, report, token,
};
use super::{Lab, invariants};
use crate::{
    Claimed, Count, DefinitionLine, Error, ManualClock, Receipt, Record, Started, Store, WorkflowRecord,
};

/// A store under test, with a clock in the scenario's hand.
pub struct Case {
    /// The store's clock. It stands still until it is moved.
    pub clock: Arc<ManualClock>,
    lab: Box<dyn Lab>,
    /// Empty only in the middle of [`Case::crash`].
    store: Mutex<Option<Arc<dyn Store>>>,
    ids: AtomicU64,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Everything that can be read from a store, to compare before and after.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    records: Vec<Record>,
    counts: Vec<Count>,
    workers: Vec<Worker>,
    leader: Option<Leadership>,
    paused: Vec<(Name, Name)>,
    entities: Vec<Entity>,
    schedules: Vec<Schedule>,
    workflows: Vec<WorkflowRecord>,
    definitions: Vec<DefinitionLine>,
}

impl Case {
    /// A fresh store. The clock shows 2026-01-01.
    pub(super) async fn new(lab: Box<dyn Lab>) -> Self {
        let (clock, store) = (lab.clock(), Mutex::new(Some(lab.open().await)));
        Self { clock, lab, store, ids: AtomicU64::new(1) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone().expect("a store is open")
    }

    /// How many random operations to compare.
    pub(super) fn operations(&self) -> usize {
        self.lab.operations()
    }

    /// Another store at the same data, as a second process would open it.
    pub async fn second(&self) -> Arc<dyn Store> {
        self.lab.open().await
    }

    /// Drops the store as a crash would, and opens it again.
    pub async fn crash(&self) {
        drop(self.store.lock().unwrap().take());
        let next = self.lab.open().await;
        *self.store.lock().unwrap() = Some(next);
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

    /// Reports about what was claimed.
    pub async fn report(&self, claimed: &Claimed, told: Report) -> Result<Receipt, Rejected> {
        self.apply(report(claimed, told)).await
    }

    /// Makes or changes a schedule that is expected to be accepted.
    pub async fn schedule(&self, schedule: NewSchedule) -> Schedule {
        self.store().set_schedule(schedule).await.unwrap()
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

    /// A task for an entity, written `type:id`.
    #[must_use]
    pub fn task_for(&self, text: &str) -> NewTask {
        NewTask { lane: Some(Lane::of(&entity(text))), ..self.task() }
    }

    /// A task with an idempotency key.
    #[must_use]
    pub fn task_with_key(&self, key: &str) -> NewTask {
        NewTask { key: Some(key.into()), ..self.task() }
    }

    /// Submits `n` tasks with all defaults in one batch.
    pub async fn submit_many(&self, n: usize) -> Vec<TaskId> {
        let tasks = std::iter::repeat_with(|| self.task()).take(n).collect();
        let submitted = self.store().submit(tasks).await.unwrap();
        submitted.into_iter().map(|submitted| submitted.id).collect()
    }

    /// Claims this very task, which is expected to be possible.
    pub async fn take(&self, task: TaskId, worker: &WorkerId) -> Claimed {
        self.apply(Command::Claim { task, worker: worker.clone() }).await.unwrap();
        self.held(task).await
    }

    /// What the holder of a task was given.
    pub async fn held(&self, task: TaskId) -> Claimed {
        let Record { task, payload, notes, .. } = self.record(task).await;
        let details = notes.into_iter().rev().find_map(|notes| notes.details);
        Claimed { task, payload, details }
    }

    /// Submits `task` and brings it to `state`, one of [`STATES`](super::STATES), by a worker of its own.
    pub async fn bring(&self, mut task: NewTask, state: State) -> TaskId {
        match state {
            State::Scheduled => task.start = Start::After(Duration::from_secs(3600)),
            State::DeadLetter => task.max_attempts = std::num::NonZeroU32::new(1),
            _ => {}
        }
        let id = self.submit(task).await;
        let end = match state {
            State::Scheduled | State::Pending => return id,
            State::Cancelled => Some(Command::Cancel { task: id, by: By::default() }),
            State::ResolvedManually => Some(Command::Resolve { task: id, result: None, by: By::default() }),
            _ => None,
        };
        if let Some(end) = end {
            self.apply(end).await.unwrap();
            return id;
        }
        let claimed = self.take(id, &self.worker("bringer").await).await;
        let end = match state {
            State::Claimed => return id,
            State::Running => Command::Start { token: token(&claimed), at: None },
            State::Completed => finish(&claimed, completed("null")),
            State::Failed => finish(&claimed, failed_for_good("broken")),
            State::WaitingForRetry | State::DeadLetter => finish(&claimed, failed("broken")),
            state => panic!("a task cannot be brought to {state}"),
        };
        self.apply(end).await.unwrap();
        assert_eq!(self.state(id).await, state, "a task can be brought to {state}");
        id
    }

    /// Carries out a command that is expected to be refused, and checks that it changed nothing.
    pub async fn refusal(&self, command: Command) -> Rejected {
        let before = self.snapshot().await;
        let words = format!("{command:?}");
        let Err(rejected) = self.apply(command).await else { panic!("not refused: {words}") };
        assert_eq!(self.snapshot().await, before, "what was refused changed something: {words}");
        rejected
    }

    /// An operator cancels a task.
    pub async fn cancel(&self, task: TaskId) -> Result<Receipt, Rejected> {
        self.apply(Command::Cancel { task, by: By::default() }).await
    }

    /// An operator wants a task to run now.
    pub async fn retry(&self, task: TaskId, force: bool) -> Result<Receipt, Rejected> {
        self.apply(Command::Retry { task, force, by: By::default() }).await
    }

    /// Everything that can be read from the store.
    pub async fn snapshot(&self) -> Snapshot {
        let store = self.store();
        let mut paused = store.paused().await.unwrap();
        paused.sort();
        Snapshot {
            records: invariants::dump(&*store).await,
            counts: store.counts().await.unwrap(),
            workers: store.workers().await.unwrap(),
            leader: store.leader().await.unwrap(),
            paused,
            entities: store.entities(Name::default(), None, limits::PAGE).await.unwrap(),
            schedules: store.schedules().await.unwrap(),
            workflows: invariants::dump_workflows(&*store).await,
            definitions: self.definitions().await,
        }
    }

    /// All versions of all definitions of the default namespace.
    pub async fn definitions(&self) -> Vec<DefinitionLine> {
        let (store, namespace, mut all) = (self.store(), Name::default(), Vec::new());
        for DefinitionLine { name, .. } in store.definitions(namespace.clone(), None).await.unwrap() {
            all.extend(store.definitions(namespace.clone(), Some(name.clone())).await.unwrap());
        }
        all
    }

    /// Starts the workflow numbered `n` with these steps.
    pub async fn start(&self, n: u64, steps: Value) -> WorkflowId {
        self.begin(ad_hoc(n, definition(steps))).await.id
    }

    /// Starts a workflow, which is expected to be possible.
    pub async fn begin(&self, new: NewWorkflow) -> Started {
        self.store().start(new).await.unwrap()
    }

    /// Starts a workflow, which is expected to be refused, and checks that it changed nothing.
    pub async fn start_refusal(&self, new: NewWorkflow) -> Rejected {
        let before = self.snapshot().await;
        let error = self.store().start(new).await.unwrap_err();
        assert_eq!(self.snapshot().await, before, "what was refused changed something: {error}");
        error.rejected().unwrap_or_else(|| panic!("refused for another reason: {error}")).clone()
    }

    /// The workflow with everything but its tasks.
    pub async fn workflow(&self, id: WorkflowId) -> WorkflowRecord {
        self.store().workflow(id).await.unwrap().expect("the workflow is there")
    }

    /// Where the workflow is.
    pub async fn flow(&self, id: WorkflowId) -> WorkflowState {
        self.workflow(id).await.workflow.state
    }

    /// Where the steps of a workflow are, in their order.
    pub async fn steps(&self, id: WorkflowId) -> Vec<State> {
        let mut states = Vec::new();
        for step in 0..self.workflow(id).await.blueprint.len() {
            states.push(self.state(id.step(step)).await);
        }
        states
    }

    /// Changes a workflow as a whole, which is expected to be possible.
    pub async fn steer(&self, id: WorkflowId, steering: Steering) -> Workflow {
        let after = self.store().steer(id, steering, By::default()).await.unwrap();
        assert_eq!(after, self.workflow(id).await.workflow, "the answer is the row");
        after
    }

    /// Changes a workflow as a whole, which is expected to be refused, and checks that it changed nothing.
    pub async fn steer_refusal(&self, id: WorkflowId, steering: Steering) -> Rejected {
        let (before, words) = (self.snapshot().await, format!("{steering:?}"));
        let error = self.store().steer(id, steering, By::default()).await.unwrap_err();
        assert_eq!(self.snapshot().await, before, "what was refused changed something: {words}");
        error.rejected().unwrap_or_else(|| panic!("refused for another reason: {error}")).clone()
    }

    /// Claims exactly one task and finishes it.
    pub async fn work(&self, worker: &WorkerId, outcome: Outcome) -> TaskId {
        let claimed = self.claim_one(worker).await;
        self.finish(&claimed, outcome).await.unwrap();
        claimed.task.id
    }

    /// An operator decides that a step is not needed.
    pub async fn skip(&self, task: TaskId) -> Result<Receipt, Rejected> {
        self.apply(Command::Skip { task, by: By::default() }).await
    }

    /// An operator settles a task.
    pub async fn resolve(&self, task: TaskId, result: Option<&str>) -> Result<Receipt, Rejected> {
        let result = result.map(|text| Json::result(text).unwrap());
        self.apply(Command::Resolve { task, result, by: By::default() }).await
    }

    /// Claims the next step that is a workflow.
    pub async fn claim_nested(&self, worker: &WorkerId) -> Claimed {
        let kinds = vec![Name::stored(WORKFLOW)];
        let claim = crate::Claim { kinds, ..claim_of(worker, 1) };
        self.store().claim(claim).await.unwrap().pop().expect("a step that is a workflow")
    }

    /// Whether the store was closed and cannot be opened again, as one that lives in its process only.
    pub(super) async fn is_gone(&self) -> bool {
        if self.store().leader().await == Err(Error::Closed) {
            self.crash().await;
        }
        self.store().leader().await == Err(Error::Closed)
    }
}
