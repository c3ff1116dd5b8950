//! Between rows of the database and values of the core.

use std::num::NonZeroU32;
use std::time::Duration;

use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Row, Statement, params};
use windlass_core::{
    Ageing, Entry, Lane, Leadership, Name, RetryPolicy, Spec, State, Status, Task, TaskId, Timestamp, Worker,
    WorkerId,
};

/// A value that this version did not write: a newer one did, or a hand.
fn foreign(column: usize, what: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(what))
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

fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
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

pub(super) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error| foreign(column, error))
}

fn json<T: serde::de::DeserializeOwned + Default>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    match row.get_ref(column)?.as_str_or_null()? {
        Some(text) => serde_json::from_str(text).map_err(|error| foreign(column, error)),
        None => Ok(T::default()),
    }
}

/// A list or a policy as JSON; nothing if it is the default.
pub(super) fn to_json<T: serde::Serialize + Default + PartialEq>(value: &T) -> Option<String> {
    (*value != T::default()).then(|| serde_json::to_string(value).unwrap_or_default())
}

fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Name>> {
    let names: Vec<String> = json(row, column)?;
    Ok(names.iter().map(|name| Name::stored(name)).collect())
}

fn names_json(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

/// A row of the view `task_rows`: its place in the order of submission, and the task.
pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<(i64, Task)> {
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
    };
    Ok((row.get(0)?, Task { id: id(row, 1)?, spec, status }))
}

/// A lane from its three columns, beginning at `column`.
pub(super) fn lane(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Lane>> {
    let Some(key) = row.get(column)? else { return Ok(None) };
    Ok(Some(Lane::stored(key, row.get(column + 1)?, row.get(column + 2)?)))
}

pub(super) fn insert_task(statement: &mut Statement<'_>, seq: i64, task: &Task) -> rusqlite::Result<usize> {
    let Task { id, spec, status } = task;
    let lane = spec.lane.as_ref();
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
    ])
}

pub(super) fn update_status(
    statement: &mut Statement<'_>,
    seq: i64,
    status: &Status,
    result: Option<&str>,
) -> rusqlite::Result<usize> {
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
        } = before;
        let claim = (attempt, lease, worker, claimed_at)
            == (&after.attempt, &after.lease, &after.worker, &after.claimed_at);
        let end = (started_at, finished_at) == (&after.started_at, &after.finished_at);
        let rest = (due_at, error, slot, rank) == (&after.due_at, &after.error, &after.slot, &after.rank);
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
    let reason = row.get_ref(3)?.as_str()?.parse().map_err(|error| foreign(3, error))?;
    Ok(Entry {
        seq: row.get(0)?,
        from,
        to: state(row, 1)?,
        at: time(row, 2)?,
        reason,
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
        names_json(&worker.queues),
        names_json(&worker.kinds),
        micros(worker.dead_after),
        worker.started_at.as_micros(),
        worker.heartbeat_at.as_micros(),
    ])
}

pub(super) fn leadership(row: &Row<'_>) -> rusqlite::Result<Leadership> {
    let term = u64::try_from(row.get::<_, i64>(1)?).map_err(|error| foreign(1, error))?;
    Ok(Leadership { holder: worker_id(row, 0)?, term, until: time(row, 2)? })
}
