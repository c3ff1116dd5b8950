//! Between rows of the database and values of the core.

use std::error::Error as _;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;
use windlass_core::{
    Ageing, Entry, Json, Lane, Leadership, Name, Notes, RetryPolicy, Schedule, SecretDigest, Spec, State,
    Status, Task, TaskId, Template, Timestamp, TraceParent, Waits, Worker, WorkerId, WorkflowId,
};

use crate::text::{from_json, lines_from_json, names_from_json, progress_from_json};

/// A value that this version did not write: a newer one did, or a hand.
#[derive(Debug)]
pub(super) struct Foreign(pub(super) String);

type Read<T> = Result<T, Foreign>;

/// Why the value of a column is not what it should be.
pub(super) fn foreign(row: &Row, column: usize, why: impl std::fmt::Display) -> Foreign {
    let name = row.columns().get(column).map_or("?", |column| column.name());
    Foreign(format!("column {name}: {why}"))
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| {
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        foreign(row, column, why)
    })
}

/// A moment as the driver writes it.
pub(super) fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}

/// A moment as the driver read it.
pub(super) fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::MIN.plus(at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

pub(super) fn time(row: &Row, column: usize) -> Read<Timestamp> {
    Ok(timestamp(get(row, column)?))
}

pub(super) fn optional_time(row: &Row, column: usize) -> Read<Option<Timestamp>> {
    Ok(get::<Option<SystemTime>>(row, column)?.map(timestamp))
}

pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub(super) fn unsigned<T: TryFrom<i64, Error: std::fmt::Display>>(row: &Row, column: usize) -> Read<T> {
    T::try_from(get(row, column)?).map_err(|error| foreign(row, column, error))
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn uuid(id: TaskId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(super) fn id(row: &Row, column: usize) -> Read<TaskId> {
    Ok(TaskId::from_bytes(*get::<Uuid>(row, column)?.as_bytes()))
}

pub(super) fn name(row: &Row, column: usize) -> Read<Name> {
    Ok(Name::stored(get(row, column)?))
}

pub(super) fn worker_id(row: &Row, column: usize) -> Read<WorkerId> {
    Ok(WorkerId::stored(get::<&str>(row, column)?))
}

/// What is stored as a word, or in words.
pub(super) fn parse<T: FromStr<Err: std::fmt::Display>>(row: &Row, column: usize) -> Read<T> {
    get::<&str>(row, column)?.parse().map_err(|error| foreign(row, column, error))
}

/// A task, from the columns of `task_rows`: its place in the order of submission, and the task.
pub(super) fn task(row: &Row) -> Read<(i64, Task)> {
    let json = |column, error: serde_json::Error| foreign(row, column, error);
    let lane = match get::<Option<String>>(row, 9)? {
        Some(key) => Some(Lane::stored(key, unsigned(row, 10)?, get(row, 11)?)),
        None => None,
    };
    let max_attempts: Option<i64> = get(row, 14)?;
    let spec = Spec {
        namespace: name(row, 2)?,
        queue: name(row, 3)?,
        kind: name(row, 4)?,
        priority: get(row, 5)?,
        ageing: Ageing { per_hour: unsigned(row, 6)?, per_retry: unsigned(row, 7)? },
        key: get(row, 8)?,
        lane,
        timeout: get::<Option<i64>>(row, 12)?.map(duration),
        tags: from_json(get(row, 13)?).map_err(|error| json(13, error))?,
        max_attempts: max_attempts.and_then(|most| NonZeroU32::new(u32::try_from(most).ok()?)),
        retry: from_json::<RetryPolicy>(get(row, 15)?).map_err(|error| json(15, error))?,
        created_at: time(row, 16)?,
        workflow: if get(row, 30)? { Some(WorkflowId::of(id(row, 1)?)) } else { None },
        traceparent: traceparent(row, 34)?,
    };
    let status = Status {
        state: parse(row, 17)?,
        attempt: unsigned(row, 18)?,
        lease: unsigned(row, 19)?,
        worker: get::<Option<&str>>(row, 20)?.map(WorkerId::stored),
        due_at: optional_time(row, 21)?,
        claimed_at: optional_time(row, 22)?,
        started_at: optional_time(row, 23)?,
        finished_at: optional_time(row, 24)?,
        updated_at: time(row, 25)?,
        error: get(row, 26)?,
        slot: get(row, 27)?,
        rank: get(row, 28)?,
        entries: u32::try_from(get::<i32>(row, 29)?).map_err(|error| foreign(row, 29, error))?,
        waits: waits(row, 31)?,
    };
    Ok((get(row, 0)?, Task { id: id(row, 1)?, spec, status }))
}

fn traceparent(row: &Row, column: usize) -> Read<Option<TraceParent>> {
    let text: Option<&str> = get(row, column)?;
    text.map(str::parse).transpose().map_err(|error| foreign(row, column, error))
}

/// What a step waits for, from its three columns, beginning at `column`.
fn waits(row: &Row, column: usize) -> Read<Waits> {
    let Some(word) = get::<Option<&str>>(row, column)? else { return Ok(Waits::Nothing) };
    let number = |column| get::<Option<i64>>(row, column).map(|it| it.and_then(|it| u32::try_from(it).ok()));
    Waits::stored(word, number(column + 1)?, number(column + 2)?).map_err(|error| foreign(row, column, error))
}

/// The column after those of [`task`].
pub(super) const AFTER_TASK: usize = 35;

pub(super) fn json(row: &Row, column: usize) -> Read<Option<Json>> {
    Ok(get::<Option<&str>>(row, column)?.map(Json::stored))
}

/// A row of the history; `from` is the entry before it, which is not stored twice.
pub(super) fn entry(row: &Row, from: Option<State>) -> Read<Entry> {
    Ok(Entry {
        seq: u32::try_from(get::<i32>(row, 0)?).map_err(|error| foreign(row, 0, error))?,
        from,
        to: parse(row, 1)?,
        at: time(row, 2)?,
        reason: parse(row, 3)?,
        actor: get(row, 4)?,
        note: get(row, 5)?,
    })
}

/// What one attempt has told, and the task's place.
pub(super) fn notes(row: &Row) -> Read<(i64, Notes)> {
    let json = |column, error: serde_json::Error| foreign(row, column, error);
    let notes = Notes {
        lease: unsigned(row, 1)?,
        progress: progress_from_json(get(row, 2)?).map_err(|error| json(2, error))?,
        details: self::json(row, 3)?,
        dropped: unsigned(row, 4)?,
        lines: lines_from_json(get(row, 5)?).map_err(|error| json(5, error))?,
    };
    Ok((get(row, 0)?, notes))
}

pub(super) fn worker(row: &Row) -> Read<Worker> {
    let names = |column| names_from_json(get(row, column)?).map_err(|error| foreign(row, column, error));
    Ok(Worker {
        id: worker_id(row, 0)?,
        namespace: name(row, 1)?,
        host: get(row, 2)?,
        version: get(row, 3)?,
        pool_size: unsigned(row, 4)?,
        queues: names(5)?,
        kinds: names(6)?,
        dead_after: duration(get(row, 7)?),
        started_at: time(row, 8)?,
        heartbeat_at: time(row, 9)?,
        secret: get::<Option<&[u8]>>(row, 10)?.and_then(SecretDigest::stored),
    })
}

/// Until when a worker is alive, from its last heartbeat and how long it may be silent.
pub(super) fn alive_until(row: &Row) -> Read<(WorkerId, Timestamp)> {
    Ok((worker_id(row, 0)?, time(row, 1)?.plus(duration(get(row, 2)?))))
}

/// The leader; nobody, before the first.
pub(super) fn leadership(row: &Row) -> Read<Option<Leadership>> {
    let Some(holder) = get::<Option<&str>>(row, 0)? else { return Ok(None) };
    Ok(Some(Leadership { holder: WorkerId::stored(holder), term: unsigned(row, 1)?, until: time(row, 2)? }))
}

pub(super) fn schedule(row: &Row) -> Read<Schedule> {
    let last_task: Option<Uuid> = get(row, 10)?;
    Ok(Schedule {
        namespace: name(row, 0)?,
        name: name(row, 1)?,
        cron: get(row, 2)?,
        zone: get(row, 3)?,
        template: Template::stored(get(row, 4)?).map_err(|error| foreign(row, 4, error))?,
        missed: parse(row, 5)?,
        overlap: parse(row, 6)?,
        paused: get(row, 7)?,
        next_at: time(row, 8)?,
        last_at: optional_time(row, 9)?,
        last_task: last_task.map(|id| TaskId::from_bytes(*id.as_bytes())),
        fired: unsigned(row, 11)?,
        skipped: unsigned(row, 12)?,
        error: get(row, 13)?,
        updated_at: time(row, 14)?,
        left_out: get(row, 15)?,
    })
}
