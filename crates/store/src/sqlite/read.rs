//! What is read outside the writer: snapshots that never wait for it and never hold it up.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};
use tokio::sync::Semaphore;
use windlass_core::{
    Command, Entity, Facts, Json, LaneHolder, Leadership, Name, State, Task, TaskId, Timestamp, Worker,
    limits,
};

use super::failure::failure;
use super::{migrate, row};
use crate::error::{Error, Result};
use crate::request::{Count, Cursor, Due, Filter, Listing, Page, Record};

/// A pool of connections that only read.
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    room: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, size: usize) -> Self {
        Self { path, idle: Arc::default(), room: Arc::new(Semaphore::new(size.max(1))) }
    }

    /// Has `read` done on one snapshot, on a thread where waiting is allowed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let room = self.room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let (path, idle) = (self.path.clone(), self.idle.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _room = room;
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = pooled.map_or_else(|| migrate::reader(&path), Ok)?;
            let snapshot = connection.unchecked_transaction().map_err(failure)?;
            let done = read(&Snapshot(&connection)).map_err(failure);
            drop(snapshot);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            done
        });
        done.await
            .unwrap_or_else(|_| Err(Error::Unavailable("a bug stopped this read; it was printed".into())))
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.room.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// No more reads; those in progress end.
    pub(super) fn close(&self) {
        self.room.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The database at one moment.
pub(super) struct Snapshot<'c>(&'c Connection);

impl Snapshot<'_> {
    fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.0.prepare_cached(sql)
    }

    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statement(sql)?.query_row(values, decode).optional()
    }

    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.statement(sql)?.query_map(values, decode)?.collect()
    }

    pub(super) fn record(&self, id: TaskId) -> rusqlite::Result<Option<Record>> {
        let found = self.one(include_str!("sql/task_by_id.sql"), [id.as_bytes()], row::task)?;
        let Some((seq, task)) = found else { return Ok(None) };
        let json = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str_or_null()?.map(Json::stored));
        let payload = self.one(include_str!("sql/payload.sql"), [seq], json)?.flatten();
        let result = self.one(include_str!("sql/result.sql"), [seq], json)?.flatten();
        let mut from = None;
        let history = self.all(include_str!("sql/history.sql"), [seq], |row| {
            let entry = row::entry(row, from)?;
            from = Some(entry.to);
            Ok(entry)
        })?;
        Ok(Some(Record { task, payload: payload.unwrap_or_default(), result, history }))
    }

    pub(super) fn find(&self, namespace: &Name, kind: &Name, key: &str) -> rusqlite::Result<Option<TaskId>> {
        let values = [&**namespace, &**kind, key];
        self.one(include_str!("sql/task_by_key.sql"), values, |row| row::id(row, 0))
    }

    /// A page: rows from the narrowest index that holds all wanted states, in the order of submission, kept if the
    /// filter wants them.
    pub(super) fn tasks(&self, filter: &Filter, page: Page) -> rusqlite::Result<Listing> {
        let rows = self.candidates(filter, page)?;
        let looked_at_all = rows.len() < limits::PAGE_SCAN;
        let last = rows.last().map(|(seq, _)| *seq);
        let mut found: Vec<(i64, Task)> = rows.into_iter().filter(|(_, task)| filter.wants(task)).collect();
        let next = if found.len() > page.limit {
            found.truncate(page.limit);
            found.last().map(|(seq, _)| *seq)
        } else {
            last.filter(|_| !looked_at_all)
        };
        let next = next.and_then(|seq| u64::try_from(seq).ok()).map(Cursor);
        Ok(Listing { tasks: found.into_iter().map(|(_, task)| task).collect(), next })
    }

    /// At most [`limits::PAGE_SCAN`] rows after the cursor, among which are the first that the filter wants.
    fn candidates(&self, filter: &Filter, page: Page) -> rusqlite::Result<Vec<(i64, Task)>> {
        use State::{Claimed, Completed, Pending, Running};
        let only = |states: &[State]| {
            !filter.states.is_empty() && filter.states.iter().all(|state| states.contains(state))
        };
        let unusual = |state: &State| ![Pending, Claimed, Running, Completed].contains(state);
        let start = if page.oldest_first { 0 } else { i64::MAX };
        let after = page.after.map_or(start, |Cursor(place)| i64::try_from(place).unwrap_or(start));
        let most = i64::try_from(limits::PAGE_SCAN).unwrap_or(i64::MAX);
        let by_order = |oldest, newest| if page.oldest_first { oldest } else { newest };
        if only(&[Claimed, Running]) {
            let sql =
                by_order(include_str!("sql/list_held_oldest.sql"), include_str!("sql/list_held_newest.sql"));
            return self.all(sql, [after, most], row::task);
        }
        if filter.states.is_empty() || !filter.states.iter().all(unusual) {
            let sql = by_order(include_str!("sql/list_oldest.sql"), include_str!("sql/list_newest.sql"));
            return self.scan(sql, params![after, most], filter, page);
        }
        let sql =
            by_order(include_str!("sql/list_state_oldest.sql"), include_str!("sql/list_state_newest.sql"));
        let mut states = filter.states.clone();
        states.sort_unstable();
        states.dedup();
        let mut rows = Vec::new();
        for state in states {
            rows.extend(self.scan(sql, params![after, most, state.word()], filter, page)?);
        }
        rows.sort_by_key(|(seq, _)| if page.oldest_first { *seq } else { -*seq });
        Ok(rows)
    }

    /// Reads rows until one more than a page of them is wanted, or there are no more.
    fn scan(
        &self,
        sql: &str,
        values: impl Params,
        filter: &Filter,
        page: Page,
    ) -> rusqlite::Result<Vec<(i64, Task)>> {
        let mut statement = self.statement(sql)?;
        let (mut rows, mut read, mut wanted) = (statement.query(values)?, Vec::new(), 0);
        while let Some(row) = rows.next()?
            && wanted <= page.limit
        {
            let found = row::task(row)?;
            wanted += usize::from(filter.wants(&found.1));
            read.push(found);
        }
        Ok(read)
    }

    pub(super) fn counts(&self) -> rusqlite::Result<Vec<Count>> {
        let mut counts = self.all(include_str!("sql/counts.sql"), [], |row| {
            Ok(Count {
                namespace: row::name(row, 0)?,
                queue: row::name(row, 1)?,
                kind: row::name(row, 2)?,
                state: row::state(row, 3)?,
                tasks: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
            })
        })?;
        counts.sort();
        Ok(counts)
    }

    pub(super) fn workers(&self) -> rusqlite::Result<Vec<Worker>> {
        self.all(include_str!("sql/workers.sql"), [], row::worker)
    }

    pub(super) fn leader(&self) -> rusqlite::Result<Option<Leadership>> {
        self.one(include_str!("sql/leader.sql"), [], row::leadership)
    }

    pub(super) fn paused(&self) -> rusqlite::Result<Vec<(Name, Name)>> {
        self.all(include_str!("sql/paused_queues.sql"), [], |row| {
            Ok((row::name(row, 0)?, row::name(row, 1)?))
        })
    }

    pub(super) fn has_entity(&self, namespace: &Name, entity: &Entity) -> rusqlite::Result<bool> {
        let values = [&**namespace, entity.as_str()];
        Ok(self.one(include_str!("sql/has_entity.sql"), values, |_| Ok(()))?.is_some())
    }

    pub(super) fn due(&self, now: Timestamp, limit: usize) -> rusqlite::Result<Due> {
        let left = |commands: &Vec<Command>| i64::try_from(limit - commands.len()).unwrap_or(i64::MAX);
        let mut commands = Vec::new();
        let values = [now.as_micros(), left(&commands)];
        commands.extend(self.all(include_str!("sql/due.sql"), values, |row| {
            Ok(Command::Promote { task: row::id(row, 0)? })
        })?);
        let values = [now.as_micros(), left(&commands)];
        commands.extend(self.all(include_str!("sql/orphans.sql"), values, |row| {
            Ok(Command::Expire { task: row::id(row, 0)?, lease: row.get(1)? })
        })?);
        let next = self
            .one(include_str!("sql/next_due.sql"), [now.as_micros()], |row| row.get::<_, Option<i64>>(0))?;
        let next = next.flatten().map(Timestamp::from_micros).filter(|_| commands.len() < limit);
        Ok(Due { commands, next })
    }

    pub(super) fn facts(&self, id: TaskId, now: Timestamp) -> rusqlite::Result<Option<Facts>> {
        let found = self.one(include_str!("sql/task_by_id.sql"), [id.as_bytes()], row::task)?;
        let Some((_, task)) = found else { return Ok(None) };
        let spec = &task.spec;
        let queue = [&*spec.namespace, &*spec.queue];
        let paused = self.one(include_str!("sql/is_paused.sql"), queue, |_| Ok(()))?.is_some();
        let lane_holders = match spec.lane_key() {
            Some((namespace, lane)) => {
                let holders =
                    self.all(include_str!("sql/lane_holders.sql"), [&**namespace, lane], row::task)?;
                let others = holders.iter().filter(|(_, holder)| holder.id != id);
                others.map(|(_, holder)| LaneHolder::of(holder)).collect()
            }
            None => Vec::new(),
        };
        let workers = self.workers()?;
        let takers = workers.iter().filter(|worker| worker.is_alive(now));
        let takers = takers.filter(|worker| worker.takes(&spec.namespace, &spec.queue, &spec.kind));
        let live_workers = u32::try_from(takers.count()).unwrap_or(u32::MAX);
        let holder = workers.iter().find(|worker| Some(&worker.id) == task.status.worker.as_ref());
        let alive_until = holder.map(Worker::alive_until);
        Ok(Some(Facts { task, paused, lane_holders, live_workers, alive_until, now }))
    }
}
