//! What a handler is given beside its input.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Definition, Json, Lease, Line, Name, Place, Progress, Report, Step, Task, TaskId, Timestamp, Token,
    TraceParent, WorkerId, Workflow, WorkflowId, limits,
};

use crate::client::Client;
use crate::error::TaskError;
use crate::handler::Handlers;
use crate::steps::Flow;
use crate::stop::{Stop, StopReason};
use crate::worker::fence::Hold;

/// The attempt that a handler runs: which task it is, how long it has, whether to stop, and a way to tell how
/// far it is. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Attempt>);

/// What a [`Context`] points to.
pub(crate) struct Attempt {
    pub(crate) task: Task,
    pub(crate) payload: Json,
    /// Of a step: its workflow, what it is given there, and since when that is known.
    pub(crate) place: OnceLock<(Arc<Flow>, Json, Instant)>,
    pub(crate) details: Option<Json>,
    pub(crate) worker: WorkerId,
    pub(crate) client: Client,
    pub(crate) handlers: Arc<Handlers>,
    /// When the claim arrived here, which was at `claimed_at` by the store's clock.
    pub(crate) received: Instant,
    pub(crate) started: Instant,
    /// What the attempt's own span is, if it is recorded.
    pub(crate) trace: OnceLock<TraceParent>,
    pub(crate) stop: Stop,
    /// Until when the lease is sure; always, in a test.
    pub(crate) hold: Option<Hold>,
    pub(crate) notebook: Notebook,
}

impl Attempt {
    /// The payload that came with the claim.
    pub(crate) fn claimed_payload(&self) -> &Json {
        &self.payload
    }

    /// Proof of the claim.
    pub(crate) fn token(&self) -> Token {
        Token { task: self.task.id, lease: self.task.status.lease, worker: self.worker.clone() }
    }

    /// It is known what the step is given.
    pub(crate) fn enter(&self, flow: Arc<Flow>, payload: Json) {
        // A second time it is the same.
        let _ = self.place.set((flow, payload, Instant::now()));
    }

    /// Since when the handler's time runs. That of a step's handler begins when its expressions are
    /// evaluated: how long that takes is no matter of the handler's.
    pub(crate) fn begun(&self) -> Instant {
        self.place.get().map_or(self.started, |(_, _, since)| *since)
    }

    /// A moment as the store's clock would tell it, however this machine's is set.
    pub(crate) fn store_time(&self, moment: Instant) -> Timestamp {
        let claimed_at = self.task.status.claimed_at.unwrap_or_default();
        claimed_at.plus(moment.saturating_duration_since(self.received))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.task.id).field(&self.0.task.status.attempt).finish()
    }
}

impl Context {
    pub(crate) fn new(attempt: Attempt) -> Self {
        Self(Arc::new(attempt))
    }

    pub(crate) fn attempt_row(&self) -> &Attempt {
        &self.0
    }

    /// The task as it was claimed.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// The task's id. With [`Context::attempt`] it is an idempotency key for what the handler does elsewhere.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.0.task.id
    }

    /// Which attempt this is: 1, 2, 3 …
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.task.status.attempt
    }

    /// Whether the lease is surely still this attempt's: it was not told to stop, and the worker's last
    /// heartbeat was confirmed recently enough. If not, the attempt is told to stop. Handlers are started
    /// only if this is so; ask again before something that must not be done twice. A process may be stopped
    /// right after the question: what must never happen twice needs [`Context::lease`] as well.
    #[must_use]
    pub fn holds_lease(&self) -> bool {
        if self.0.hold.as_ref().is_some_and(|hold| !hold.is_sure()) {
            self.0.stop.tell(StopReason::Fenced);
        }
        self.0.stop.reason().is_none()
    }

    /// The number of this claim: the fencing token. It goes up with every claim of the task and is never used
    /// again. Something outside that keeps the highest number it has seen of a task, and refuses lower ones,
    /// is safe from a worker that comes too late.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.0.task.status.lease
    }

    /// Who runs it.
    #[must_use]
    pub fn worker(&self) -> &WorkerId {
        &self.0.worker
    }

    /// The input as it was sent.
    #[must_use]
    pub fn payload(&self) -> &Json {
        self.0.place.get().map_or(&self.0.payload, |(_, payload, _)| payload)
    }

    /// What whatever the handler does elsewhere is to be part of: the attempt's own span, if the program has
    /// a [tracer](crate::trace) that records it, or what the task was submitted with. To be sent along as the
    /// header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.0.trace.get().copied().or(self.0.task.spec.traceparent)
    }

    /// The workflow that the task is a step of, if it is one.
    #[must_use]
    pub fn workflow(&self) -> Option<WorkflowId> {
        self.0.task.spec.workflow
    }

    /// Whether it is a step of a workflow that was started with a definition of its own, instead of one that
    /// the store has.
    #[must_use]
    pub fn is_ad_hoc(&self) -> bool {
        self.0.place.get().is_some_and(|(flow, ..)| Workflow::is_own_version(&flow.version))
    }

    /// What the definition of the workflow says about the step.
    #[must_use]
    pub fn step(&self) -> Option<&Step> {
        self.0.place.get()?.0.step(self.0.task.id)
    }

    /// The definition of the workflow that the task is a step of.
    #[must_use]
    pub fn definition(&self) -> Option<&Definition> {
        Some(self.0.place.get()?.0.blueprint.definition())
    }

    /// All steps that come before this one, nearest first, with what they have returned; none if the task is
    /// not a step.
    pub async fn ancestors(&self) -> Result<Vec<Ancestor>, TaskError> {
        let Some((flow, ..)) = self.0.place.get() else { return Ok(Vec::new()) };
        let before = flow.blueprint.graph().ancestors(Place::of(self.0.task.id).step);
        let ids = before.iter().map(|(step, _)| flow.id.step(*step)).collect();
        let results = self.0.client.store.results(ids).await.map_err(TaskError::retry)?;
        let all = before.into_iter().zip(results).filter_map(|((step, distance), result)| {
            let name = flow.blueprint.step(step)?.name.clone();
            Some(Ancestor { name, distance, result })
        });
        Ok(all.collect())
    }

    /// What a step that comes before this one has returned; nothing, if it has returned nothing.
    pub async fn result_of<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, TaskError> {
        let unknown = || TaskError::fail(format!("{step:?} is not a step that comes before this one"));
        let (flow, ..) = self.0.place.get().ok_or_else(unknown)?;
        let number = flow.blueprint.number(step).ok_or_else(unknown)?;
        if !flow.blueprint.graph().is_ancestor(number, Place::of(self.0.task.id).step) {
            return Err(unknown());
        }
        let mut results =
            self.0.client.store.results(vec![flow.id.step(number)]).await.map_err(TaskError::retry)?;
        let Some(result) = results.pop().flatten() else { return Ok(None) };
        Ok(Some(serde_json::from_str(result.as_str())?))
    }

    /// A client of the same store, to submit what follows.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// How much time is left, if the task has a time limit.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        Some(self.0.task.spec.timeout?.saturating_sub(self.0.begun().elapsed()))
    }

    /// When the attempt must be over, by the store's clock, if the task has a time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        Some(self.0.store_time(self.0.begun()).plus(self.0.task.spec.timeout?))
    }

    /// Comes when the handler is to stop: it was cancelled, ran out of time, lost its lease, or the worker
    /// shuts down. A handler that does not end soon after is dropped at its next `.await`.
    pub async fn stopped(&self) -> StopReason {
        self.0.stop.stopped().await
    }

    /// Why the handler is to stop, if it is.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.0.stop.reason()
    }

    /// What the worker shares with all its handlers, of this type.
    pub fn shared<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, TaskError> {
        self.0.handlers.shared().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            TaskError::fail(format!("the worker shares no {name}; give it one with `share`"))
        })
    }

    /// Tells how far the attempt is. Kept with it and shown to operators; only the last one counts.
    pub fn progress(&self, done: u64, total: impl Into<Option<u64>>, note: impl Into<Option<String>>) {
        let progress = Progress { done, total: total.into(), note: note.into() };
        self.0.notebook.write(|page| page.report.progress = Some(progress));
    }

    /// Keeps a line of log with the attempt. The newest [`limits::LOG_LINES`] are kept.
    pub fn log(&self, text: impl Into<String>) {
        let line = Line { at: self.0.store_time(Instant::now()), text: text.into() };
        self.0.notebook.write(|page| page.add(line));
    }

    /// Leaves something for the next attempt, if there has to be one: where to go on. Only the last one
    /// counts.
    pub fn checkpoint(&self, details: &impl Serialize) -> Result<(), TaskError> {
        let text = serde_json::to_string(details)?;
        let details = Json::new("checkpoint", &text)?;
        self.0.notebook.write(|page| page.report.details = Some(details));
        Ok(())
    }

    /// What an earlier attempt left with [`Context::checkpoint`].
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, TaskError> {
        let Some(details) = &self.0.details else { return Ok(None) };
        Ok(Some(serde_json::from_str(details.as_str())?))
    }
}

/// A step that comes before another.
#[derive(Clone, PartialEq, Debug)]
pub struct Ancestor {
    /// Its name.
    pub name: Name,
    /// How many steps before, on the shortest way.
    pub distance: u32,
    /// What it has returned.
    pub result: Option<Json>,
}

/// What a handler has told and the store does not know yet.
#[derive(Debug)]
pub(crate) struct Notebook {
    page: Mutex<Page>,
    /// Tells the worker that there is something to send.
    bell: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Page {
    report: Report,
    is_dirty: bool,
}

impl Page {
    /// Adds a line; what the store would not keep is not kept here either.
    fn add(&mut self, mut line: Line) {
        // A character more than is kept, so that the store sees that there was more and marks the cut.
        line.text.truncate(line.text.floor_char_boundary(limits::LINE_BYTES + 4));
        self.report.lines.push(line);
        if self.report.lines.len() > limits::LOG_LINES {
            self.report.lines.remove(0);
            self.report.first_line += 1;
        }
    }
}

impl Notebook {
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self { page: Mutex::default(), bell }
    }

    fn write(&self, change: impl FnOnce(&mut Page)) {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut page);
        if !page.is_dirty {
            page.is_dirty = true;
            self.bell.notify_one();
        }
    }

    /// What there is to send, which then counts as sent.
    pub(crate) fn take(&self) -> Option<Report> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut page.is_dirty) {
            return None;
        }
        let first_line = page.report.first_line + u64::try_from(page.report.lines.len()).unwrap_or(u64::MAX);
        Some(std::mem::replace(&mut page.report, Report { first_line, ..Report::default() }))
    }
}
