//! Between rows of the database and values of the core.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Row, Statement, params};
use serde::de::DeserializeOwned;
use windlass_core::{
    Ageing, Entry, Json, Lane, Leadership, Name, Notes, RetryPolicy, Schedule, SecretDigest, Spec, State,
    Status, Task, TaskId, Template, Timestamp, TraceParent, Waits, Worker, WorkerId, WorkflowId,
};

use crate::text::{
    from_json, lines_from_json, lines_to_json, names_from_json, names_to_json, progress_from_json,
    progress_to_json, to_json,
};

/// A value that this version did not write: a newer one did, or a hand.
pub(super) fn foreign(
    column: usize,
    what: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(what))
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|error| foreign(column, error))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp::from_micros(row.get(column)?))
}

pub(super) fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    Ok(Name::stored(row.get_ref(column)?.as_str()?))
}

fn worker_id(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkerId> {
    Ok(WorkerId::stored(row.get_ref(column)?.as_str()?))
}

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => {
            let bytes = <[u8; 16]>::try_from(bytes).map_err(|error| foreign(column, error))?;
            Ok(TaskId::from_bytes(bytes))
        }
        _ => Err(foreign(column, FromSqlError::InvalidType)),
    }
}

/// What is stored as a word, or in words.
pub(super) fn parse<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|error| foreign(column, error))
}

pub(super) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    parse(row, column)
}

fn json<T: DeserializeOwned + Default>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    from_json(row.get_ref(column)?.as_str_or_null()?).map_err(|error| foreign(column, error))
}

fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Name>> {
    names_from_json(row.get_ref(column)?.as_str_or_null()?).map_err(|error| foreign(column, error))
}

/// A row of the view `task_rows`: its place in the order of submission, and the task.
pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<(i64, Task)> {
    let task = id(row, 1)?;
    let spec = Spec {
        namespace: name(row, 2)?,
        queue: name(row, 3)?,
        kind: name(row, 4)?,
        priority: row.get(5)?,
        ageing: Ageing { per_hour: row.get(6)?, per_retry: row.get(7)? },
        key: row.get(8)?,
        lane: lane(row, 9)?,
        timeout: row.get::<_, Option<i64>>(12)?.map(duration),
        tags: json(row, 13)?,
        max_attempts: row.get::<_, Option<u32>>(14)?.and_then(NonZeroU32::new),
        retry: json::<RetryPolicy>(row, 15)?,
        created_at: time(row, 16)?,
        workflow: if row.get(30)? { Some(WorkflowId::of(task)) } else { None },
        traceparent: traceparent(row, 34)?,
    };
    let status = Status {
        state: state(row, 17)?,
        attempt: row.get(18)?,
        lease: row.get(19)?,
        worker: row.get_ref(20)?.as_str_or_null()?.map(WorkerId::stored),
        due_at: optional_time(row, 21)?,
        claimed_at: optional_time(row, 22)?,
        started_at: optional_time(row, 23)?,
        finished_at: optional_time(row, 24)?,
        updated_at: time(row, 25)?,
        error: row.get(26)?,
        slot: row.get(27)?,
        rank: row.get(28)?,
        entries: row.get(29)?,
        waits: waits(row, 31)?,
    };
    Ok((row.get(0)?, Task { id: task, spec, status }))
}

fn traceparent(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TraceParent>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(str::parse).transpose().map_err(|error| foreign(column, error))
}

/// What a step waits for, from its three columns, beginning at `column`.
fn waits(row: &Row<'_>, column: usize) -> rusqlite::Result<Waits> {
    let Some(word) = row.get_ref(column)?.as_str_or_null()? else { return Ok(Waits::Nothing) };
    let numbers = (row.get::<_, Option<u32>>(column + 1)?, row.get::<_, Option<u32>>(column + 2)?);
    Waits::stored(word, numbers.0, numbers.1).map_err(|error| foreign(column, error))
}

/// A lane from its three columns, beginning at `column`.
pub(super) fn lane(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Lane>> {
    let Some(key) = row.get(column)? else { return Ok(None) };
    Ok(Some(Lane::stored(key, row.get(column + 1)?, row.get(column + 2)?)))
}

pub(super) fn insert_task(
    statement: &mut Statement<'_>,
    seq: i64,
    task: &Task,
    result: Option<&str>,
) -> rusqlite::Result<usize> {
    let Task { id, spec, status } = task;
    let lane = spec.lane.as_ref();
    let (waits, met, others) = status.waits.columns();
    statement.execute(params![
        seq,
        id.as_bytes(),
        &*spec.namespace,
        &*spec.queue,
        &*spec.kind,
        spec.priority,
        spec.ageing.per_hour,
        spec.ageing.per_retry,
        spec.key,
        lane.map(Lane::key),
        lane.map(Lane::limit),
        lane.map(Lane::is_strict),
        spec.timeout.map(micros),
        to_json(&spec.tags),
        spec.max_attempts.map(NonZeroU32::get),
        to_json(&spec.retry),
        spec.created_at.as_micros(),
        status.state.word(),
        status.attempt,
        status.lease,
        status.due_at.map(Timestamp::as_micros),
        status.updated_at.as_micros(),
        status.slot,
        status.rank,
        status.entries,
        status.finished_at.map(Timestamp::as_micros),
        spec.workflow.is_some(),
        waits,
        met,
        others,
        result,
        spec.traceparent.map(|traceparent| traceparent.to_string()),
    ])
}

/// A step goes on waiting, for something else or with other numbers.
pub(super) fn set_waits(statement: &mut Statement<'_>, seq: i64, waits: Waits) -> rusqlite::Result<usize> {
    let (word, met, others) = waits.columns();
    statement.execute(params![seq, word, met, others])
}

pub(super) fn update_status(
    statement: &mut Statement<'_>,
    seq: i64,
    status: &Status,
    result: Option<&str>,
) -> rusqlite::Result<usize> {
    let (waits, met, others) = status.waits.columns();
    statement.execute(params![
        seq,
        status.state.word(),
        status.attempt,
        status.lease,
        status.worker.as_ref().map(WorkerId::as_str),
        status.due_at.map(Timestamp::as_micros),
        status.claimed_at.map(Timestamp::as_micros),
        status.started_at.map(Timestamp::as_micros),
        status.finished_at.map(Timestamp::as_micros),
        status.updated_at.as_micros(),
        status.error,
        status.slot,
        status.rank,
        status.entries,
        waits,
        met,
        others,
        result,
    ])
}

/// Which statement writes a change: the narrower, the fewer indexes SQLite has to look at.
pub(super) enum Width {
    /// What a claim changes.
    Claim,
    /// What a success changes.
    End,
    /// Everything that can change.
    Full,
}

impl Width {
    /// The narrowest statement that writes all differences. Destructured, so that a new field must be placed.
    pub(super) fn of(before: &Status, after: &Status) -> Self {
        let Status {
            state: _,
            attempt,
            lease,
            worker,
            due_at,
            claimed_at,
            started_at,
            finished_at,
            updated_at: _,
            error,
            slot,
            rank,
            entries: _,
            waits,
        } = before;
        let claim = (attempt, lease, worker, claimed_at)
            == (&after.attempt, &after.lease, &after.worker, &after.claimed_at);
        let end = (started_at, finished_at) == (&after.started_at, &after.finished_at);
        let rest = (due_at, error, slot, rank, waits)
            == (&after.due_at, &after.error, &after.slot, &after.rank, &after.waits);
        match (claim, end, rest) {
            (_, true, true) => Self::Claim,
            (true, false, true) => Self::End,
            _ => Self::Full,
        }
    }
}

pub(super) fn claim_task(
    statement: &mut Statement<'_>,
    seq: i64,
    status: &Status,
) -> rusqlite::Result<usize> {
    statement.execute(params![
        seq,
        status.state.word(),
        status.attempt,
        status.lease,
        status.worker.as_ref().map(WorkerId::as_str),
        status.claimed_at.map(Timestamp::as_micros),
        status.updated_at.as_micros(),
        status.entries,
    ])
}

pub(super) fn end_task(
    statement: &mut Statement<'_>,
    seq: i64,
    status: &Status,
    result: Option<&str>,
) -> rusqlite::Result<usize> {
    statement.execute(params![
        seq,
        status.state.word(),
        status.started_at.map(Timestamp::as_micros),
        status.finished_at.map(Timestamp::as_micros),
        status.updated_at.as_micros(),
        status.entries,
        result,
    ])
}

pub(super) fn insert_history(
    statement: &mut Statement<'_>,
    seq: i64,
    entry: &Entry,
) -> rusqlite::Result<usize> {
    let Entry { seq: n, from: _, to, at, actor, reason, note } = entry;
    statement.execute(params![seq, n, to.word(), at.as_micros(), reason.word(), actor, note])
}

/// A row of the history; `from` is the entry before it, which is not stored twice.
pub(super) fn entry(row: &Row<'_>, from: Option<State>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        from,
        to: state(row, 1)?,
        at: time(row, 2)?,
        reason: parse(row, 3)?,
        actor: row.get(4)?,
        note: row.get(5)?,
    })
}

pub(super) fn worker(row: &Row<'_>) -> rusqlite::Result<Worker> {
    Ok(Worker {
        id: worker_id(row, 0)?,
        namespace: name(row, 1)?,
        host: row.get(2)?,
        version: row.get(3)?,
        pool_size: row.get(4)?,
        queues: names(row, 5)?,
        kinds: names(row, 6)?,
        dead_after: duration(row.get(7)?),
        started_at: time(row, 8)?,
        heartbeat_at: time(row, 9)?,
        secret: row.get::<_, Option<[u8; 32]>>(10)?.and_then(|bytes| SecretDigest::stored(&bytes)),
    })
}

/// Until when a worker is alive, from its last heartbeat and how long it may be silent.
pub(super) fn alive_until(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    Ok(time(row, 0)?.plus(duration(row.get(1)?)))
}

pub(super) fn put_worker(statement: &mut Statement<'_>, worker: &Worker) -> rusqlite::Result<usize> {
    statement.execute(params![
        worker.id.as_str(),
        &*worker.namespace,
        worker.host,
        worker.version,
        worker.pool_size,
        names_to_json(&worker.queues),
        names_to_json(&worker.kinds),
        micros(worker.dead_after),
        worker.started_at.as_micros(),
        worker.heartbeat_at.as_micros(),
        worker.secret.as_ref().map(SecretDigest::bytes),
    ])
}

pub(super) fn leadership(row: &Row<'_>) -> rusqlite::Result<Leadership> {
    Ok(Leadership { holder: worker_id(row, 0)?, term: unsigned(row, 1)?, until: time(row, 2)? })
}

/// What one attempt has told.
pub(super) fn notes(row: &Row<'_>) -> rusqlite::Result<Notes> {
    let text = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?);
    Ok(Notes {
        lease: row.get(0)?,
        progress: progress_from_json(text(1)?).map_err(|error| foreign(1, error))?,
        details: text(2)?.map(Json::stored),
        dropped: unsigned(row, 3)?,
        lines: lines_from_json(text(4)?).map_err(|error| foreign(4, error))?,
    })
}

pub(super) fn put_notes(statement: &mut Statement<'_>, seq: i64, notes: &Notes) -> rusqlite::Result<usize> {
    statement.execute(params![
        seq,
        notes.lease,
        progress_to_json(notes),
        notes.details.as_ref().map(Json::as_str),
        signed(notes.dropped),
        lines_to_json(notes),
    ])
}

pub(super) fn schedule(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    let template = row.get_ref(4)?.as_str()?;
    let last_task = match row.get_ref(10)? {
        ValueRef::Null => None,
        _ => Some(id(row, 10)?),
    };
    Ok(Schedule {
        namespace: name(row, 0)?,
        name: name(row, 1)?,
        cron: row.get(2)?,
        zone: row.get(3)?,
        template: Template::stored(template).map_err(|error| foreign(4, error))?,
        missed: parse(row, 5)?,
        overlap: parse(row, 6)?,
        paused: row.get(7)?,
        next_at: time(row, 8)?,
        last_at: optional_time(row, 9)?,
        last_task,
        fired: unsigned(row, 11)?,
        skipped: unsigned(row, 12)?,
        error: row.get(13)?,
        updated_at: time(row, 14)?,
        left_out: row.get(15)?,
    })
}

pub(super) fn put_schedule(statement: &mut Statement<'_>, schedule: &Schedule) -> rusqlite::Result<usize> {
    statement.execute(params![
        &*schedule.namespace,
        &*schedule.name,
        schedule.cron,
        schedule.zone,
        schedule.template.to_text(),
        schedule.missed.to_string(),
        schedule.overlap.word(),
        schedule.paused,
        schedule.next_at.as_micros(),
        schedule.last_at.map(Timestamp::as_micros),
        schedule.last_task.as_ref().map(TaskId::as_bytes),
        signed(schedule.fired),
        signed(schedule.skipped),
        schedule.error,
        schedule.updated_at.as_micros(),
        schedule.left_out,
    ])
}
