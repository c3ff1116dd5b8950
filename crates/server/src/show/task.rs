//! A task, with and without what belongs to it.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{
    Backoff, Entry, Jitter, Lane, Receipt, Record, RetryPolicy, Spec, State, Status, Submitted, Task,
    Timestamp, WorkerId,
};

use super::attempt::{self, AttemptJson};
use super::{Page, Seconds, Verbatim, json_text, time};
use crate::escape::{plain, short};
use crate::paint::Paint;
use crate::table::{Cell, Table};
use crate::{duration, moment};

/// The answer to a submit.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = SubmittedTask)]
pub(crate) struct SubmittedJson {
    id: String,
    state: &'static str,
    created: bool,
}

impl SubmittedJson {
    pub(crate) fn of(submitted: &Submitted) -> Self {
        let Submitted { id, state, created } = submitted;
        Self { id: id.to_string(), state: state.word(), created: *created }
    }
}

/// Where a task is after an operator's command.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Receipt)]
pub(crate) struct ReceiptJson {
    id: String,
    state: &'static str,
    changed: bool,
}

impl ReceiptJson {
    pub(crate) fn of(receipt: &Receipt) -> Self {
        Self { id: receipt.task.to_string(), state: receipt.state.word(), changed: receipt.changed }
    }
}

/// A retry policy.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = RetryPolicy)]
pub(crate) struct RetryJson {
    backoff: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    base_seconds: Seconds,
    cap_seconds: Seconds,
    jitter: String,
}

impl RetryJson {
    pub(crate) fn of(policy: &RetryPolicy) -> Self {
        let (backoff, factor) = match policy.backoff {
            Backoff::None => ("none", None),
            Backoff::Fixed => ("fixed", None),
            Backoff::Linear => ("linear", None),
            Backoff::Exponential { factor } => ("exponential", Some(factor)),
            Backoff::Fibonacci => ("fibonacci", None),
        };
        let jitter = match policy.jitter {
            Jitter::None => "none".into(),
            Jitter::Full => "full".into(),
            Jitter::Percent(percent) => format!("{percent}%"),
        };
        Self { backoff, factor, base_seconds: Seconds(policy.base), cap_seconds: Seconds(policy.cap), jitter }
    }
}

/// A concurrency key with a limit.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Lane)]
pub(crate) struct LaneJson {
    key: String,
    limit: u32,
    strict: bool,
}

impl LaneJson {
    /// An entity's lane is told by the entity.
    pub(crate) fn of(lane: &Lane) -> Option<Self> {
        let json = Self { key: lane.key().into(), limit: lane.limit(), strict: lane.is_strict() };
        lane.entity().is_none().then_some(json)
    }
}

/// A task without payload, result and history.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Task)]
pub(crate) struct TaskJson<'a> {
    id: String,
    namespace: &'a str,
    queue: &'a str,
    kind: &'a str,
    priority: i32,
    idempotency_key: Option<&'a str>,
    entity: Option<String>,
    lane: Option<LaneJson>,
    tags: &'a [String],
    workflow_id: Option<String>,
    max_attempts: Option<u32>,
    retry: RetryJson,
    timeout_seconds: Option<Seconds>,
    /// What it is part of: a W3C trace context.
    traceparent: Option<String>,
    state: &'static str,
    attempt: u32,
    lease: u32,
    worker_id: Option<&'a str>,
    error: Option<&'a str>,
    created_at: String,
    due_at: Option<String>,
    claimed_at: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    updated_at: String,
}

impl<'a> TaskJson<'a> {
    pub(crate) fn of(task: &'a Task) -> Self {
        let Task { id, spec, status } = task;
        let Spec {
            namespace,
            queue,
            kind,
            priority,
            key,
            lane,
            timeout,
            tags,
            max_attempts,
            retry,
            created_at,
            workflow,
            traceparent,
            ..
        } = spec;
        let Status {
            state,
            attempt,
            lease,
            worker,
            due_at,
            claimed_at,
            started_at,
            finished_at,
            updated_at,
            error,
            ..
        } = status;
        Self {
            id: id.to_string(),
            namespace,
            queue,
            kind,
            priority: *priority,
            idempotency_key: key.as_deref(),
            entity: lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string()),
            lane: lane.as_ref().and_then(LaneJson::of),
            tags,
            workflow_id: workflow.map(|id| id.to_string()),
            max_attempts: max_attempts.map(std::num::NonZero::get),
            retry: RetryJson::of(retry),
            timeout_seconds: timeout.map(Seconds),
            traceparent: traceparent.map(|traceparent| traceparent.to_string()),
            state: state.word(),
            attempt: *attempt,
            lease: *lease,
            worker_id: worker.as_ref().map(WorkerId::as_str),
            error: error.as_deref(),
            created_at: created_at.to_string(),
            due_at: time(*due_at),
            claimed_at: time(*claimed_at),
            started_at: time(*started_at),
            finished_at: time(*finished_at),
            updated_at: updated_at.to_string(),
        }
    }
}

/// One row of a history.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = HistoryEntry)]
struct EntryJson<'a> {
    seq: u32,
    from: Option<&'static str>,
    to: &'static str,
    at: String,
    reason: &'static str,
    actor: Option<&'a str>,
    note: Option<&'a str>,
}

impl<'a> EntryJson<'a> {
    fn of(entry: &'a Entry) -> Self {
        let Entry { seq, from, to, at, actor, reason, note } = entry;
        Self {
            seq: *seq,
            from: from.map(State::word),
            to: to.word(),
            at: at.to_string(),
            reason: reason.word(),
            actor: actor.as_deref(),
            note: note.as_deref(),
        }
    }
}

/// A task with everything that belongs to it.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = TaskRecord)]
pub(crate) struct RecordJson<'a> {
    #[serde(flatten)]
    task: TaskJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    payload: Verbatim<'a>,
    #[schema(value_type = serde_json::Value)]
    result: Option<Verbatim<'a>>,
    attempts: Vec<AttemptJson>,
    history: Vec<EntryJson<'a>>,
}

impl<'a> RecordJson<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        let Record { task, payload, result, history, notes } = record;
        Self {
            task: TaskJson::of(task),
            step: None,
            payload: Verbatim(payload),
            result: result.as_ref().map(Verbatim),
            attempts: attempt::all(history, notes).iter().map(AttemptJson::of).collect(),
            history: history.iter().map(EntryJson::of).collect(),
        }
    }

    /// With its name in its workflow, if it is part of one.
    pub(crate) fn at(self, step: Option<&'a str>) -> Self {
        Self { step, ..self }
    }
}

/// `2 of 3`.
fn attempts_text(task: &Task) -> String {
    let of = task.spec.max_attempts.map_or_else(|| "∞".into(), |max| max.to_string());
    format!("{} of {of}", task.status.attempt)
}

/// Characters of an error or note in a table.
const NOTE_SHOWN: usize = 80;

/// What is most worth knowing about where a task is.
fn remark(Task { status, .. }: &Task, now: Timestamp) -> String {
    match (&status.error, status.due_at, &status.worker) {
        (Some(error), Some(due), _) => {
            format!("retry {}: {}", moment::relative(due, now), short(error, NOTE_SHOWN))
        }
        (Some(error), None, _) => short(error, NOTE_SHOWN),
        (None, Some(due), _) => format!("due {}", moment::relative(due, now)),
        (None, None, Some(worker)) if status.state.is_held() => format!("by {worker}"),
        _ => String::new(),
    }
}

/// Tasks, one on each line.
pub(crate) fn table<'a>(tasks: impl IntoIterator<Item = &'a Task>, now: Timestamp, paint: Paint) -> String {
    let mut table = Table::new(&["ID", "STATE", "KIND", "NAMESPACE", "QUEUE", "ATTEMPTS", "UPDATED", "NOTE"]);
    for task in tasks {
        let Task { id, spec, status } = task;
        let namespace = Some(&*spec.namespace).filter(|namespace| *namespace != "default");
        table.row([
            id.to_string().into(),
            status.state.into(),
            (&*spec.kind).into(),
            namespace.unwrap_or_default().into(),
            (&*spec.queue).into(),
            attempts_text(task).into(),
            moment::relative(status.updated_at, now).into(),
            remark(task, now).into(),
        ]);
    }
    table.without_empty().render(paint, "")
}

/// `exponential, 1s ×2 up to 1m`.
pub(crate) fn retry_text(policy: &RetryPolicy) -> String {
    let (base, cap) = (duration::exact(policy.base), duration::exact(policy.cap));
    let jitter = match policy.jitter {
        Jitter::None => String::new(),
        Jitter::Full => ", anywhere below".into(),
        Jitter::Percent(percent) => format!(" ± {percent} %"),
    };
    match policy.backoff {
        Backoff::None => "at once".into(),
        Backoff::Fixed => format!("every {base}{jitter}"),
        Backoff::Linear => format!("linear, {base} more each time up to {cap}{jitter}"),
        Backoff::Exponential { factor } => format!("exponential, {base} ×{factor} up to {cap}{jitter}"),
        Backoff::Fibonacci => format!("fibonacci, {base} × 1, 1, 2, 3, 5 … up to {cap}{jitter}"),
    }
}

/// `reports, 3 at a time`.
pub(crate) fn lane_text(lane: &Lane) -> String {
    let strict = if lane.is_strict() { ", in strict order" } else { "" };
    format!("{}, {} at a time{strict}", plain(lane.key()), lane.limit())
}

/// A task with everything that belongs to it, as a page.
pub(crate) fn page(record: &Record, now: Timestamp, paint: Paint) -> String {
    page_of_step(record, None, now, paint)
}

/// The same, with its name in its workflow, if it is part of one.
pub(crate) fn page_of_step(record: &Record, step: Option<&str>, now: Timestamp, paint: Paint) -> String {
    let Record { task, payload, result, history, notes } = record;
    let Task { id, spec, status } = task;
    let when = |at: Option<Timestamp>| at.map(|at| moment::both(at, now));
    let entity = spec.lane.as_ref().and_then(Lane::entity);
    let lane = spec.lane.as_ref().filter(|_| entity.is_none());
    let mut page = Page::default();
    page.line("Task", id.to_string());
    page.line("State", paint.state(status.state));
    page.text("Kind", Some(&spec.kind));
    page.line("Workflow", spec.workflow.map(|id| id.to_string()));
    page.text("Step", step);
    page.text("Namespace", Some(&*spec.namespace).filter(|namespace| *namespace != "default"));
    page.text("Queue", Some(&spec.queue));
    page.line("Priority", Some(spec.priority.to_string()).filter(|_| spec.priority != 0));
    page.text("Key", spec.key.as_deref());
    page.text("Entity", entity.as_ref().map(windlass::Entity::as_str));
    page.line("Lane", lane.map(lane_text));
    page.line("Tags", Some(plain(&spec.tags.join(", ")).into_owned()).filter(|tags| !tags.is_empty()));
    page.line("Attempts", attempts_text(task));
    page.line("Retries", retry_text(&spec.retry));
    page.line("Timeout", spec.timeout.map(duration::exact));
    page.line("Trace", spec.traceparent.map(|traceparent| traceparent.to_string()));
    page.line("Created", when(Some(spec.created_at)));
    page.line("Due", when(status.due_at));
    page.line("Claimed", when(status.claimed_at));
    page.line("Started", when(status.started_at));
    page.line("Finished", when(status.finished_at));
    page.text("Worker", status.worker.as_ref().map(WorkerId::as_str));
    page.text("Error", status.error.as_deref());
    page.line("Payload", json_text(payload));
    page.line("Result", result.as_ref().map(json_text));
    let attempts = attempt::all(history, notes);
    page.line(
        "Progress",
        attempts.last().and_then(|last| last.notes?.progress.as_ref()).map(attempt::progress_text),
    );
    let mut text = page.render();
    if !attempts.is_empty() {
        text += &format!("\nAttempts\n{}", attempt::table(&attempts, paint));
    }
    text + &format!("\nHistory\n{}", history_table(history, paint))
}

/// A task and its history, in few lines.
pub(crate) fn story(record: &Record, paint: Paint) -> String {
    let Task { id, spec, status } = &record.task;
    let (state, attempts) = (paint.state(status.state), attempts_text(&record.task));
    let result = record.result.as_ref().map_or_else(String::new, |result| format!(": {}", json_text(result)));
    format!(
        "{id}  {}  {state}, attempt {attempts}{result}\n{}",
        spec.kind,
        history_table(&record.history, paint)
    )
}

fn history_table(history: &[Entry], paint: Paint) -> String {
    let mut table = Table::new(&["AT", "STATE", "REASON", "BY", "NOTE"]);
    for Entry { to, at, actor, reason, note, .. } in history {
        let optional = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or_default());
        let state = Cell::from(*to);
        table.row([
            moment::to_milli(*at).into(),
            state,
            reason.word().into(),
            optional(actor),
            optional(note),
        ]);
    }
    table.without_empty().render(paint, "  ")
}
