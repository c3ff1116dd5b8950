//! What is read outside the writer: snapshots that never wait for it and never hold it up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};
use tokio::sync::Semaphore;
use windlass_core::{
    Command, Entity, Facts, Json, LaneHolder, Leadership, Name, Schedule, State, Task, TaskId, Timestamp,
    Worker, limits,
};

use super::failure::{failure, is_unreadable};
use super::identity::Identity;
use super::{migrate, row};
use crate::error::{Error, Result};
use crate::request::{Count, Cursor, Due, Filter, Listing, Page, Record};

/// A pool of connections that only read.
pub(super) struct Readers {
    path: PathBuf,
    identity: Identity,
    idle: Arc<Mutex<Vec<Connection>>>,
    room: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, identity: Identity, size: usize) -> Self {
        Self { path, identity, idle: Arc::default(), room: Arc::new(Semaphore::new(size.max(1))) }
    }

    /// Has `read` done on one snapshot, on a thread where waiting is allowed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let room = self.room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let (path, identity, idle) = (self.path.clone(), self.identity.clone(), self.idle.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _room = room;
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = pooled.map_or_else(|| open(&path, &identity), Ok)?;
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

/// A new connection to the file that was opened, and to no other that has taken its place.
fn open(path: &Path, identity: &Identity) -> Result<Connection> {
    let is_same = || identity.change().map_or(Ok(()), |what| Err(Error::Moved(what)));
    is_same()?;
    let connection = migrate::reader(path)?;
    is_same()?;
    Ok(connection)
}

/// An index, or the table, in which tasks of some states are found in the order of submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    All,
    Pending,
    Held,
    In(State),
}

impl Source {
    fn sql(self, oldest_first: bool) -> &'static str {
        match (self, oldest_first) {
            (Self::All, true) => include_str!("sql/list_oldest.sql"),
            (Self::All, false) => include_str!("sql/list_newest.sql"),
            (Self::Pending, true) => include_str!("sql/list_pending_oldest.sql"),
            (Self::Pending, false) => include_str!("sql/list_pending_newest.sql"),
            (Self::Held, true) => include_str!("sql/list_held_oldest.sql"),
            (Self::Held, false) => include_str!("sql/list_held_newest.sql"),
            (Self::In(_), true) => include_str!("sql/list_state_oldest.sql"),
            (Self::In(_), false) => include_str!("sql/list_state_newest.sql"),
        }
    }
}

/// The database at one moment.
pub(super) struct Snapshot<'c>(&'c Connection);

impl<'c> Snapshot<'c> {
    /// Of a connection that is in a transaction.
    pub(super) fn of(connection: &'c Connection) -> Self {
        Self(connection)
    }
}

impl Snapshot<'_> {
    pub(super) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.0.prepare_cached(sql)
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statement(sql)?.query_row(values, decode).optional()
    }

    pub(super) fn all<T>(
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
        let notes = self.all(include_str!("sql/notes.sql"), [seq], row::notes)?;
        Ok(Some(Record { task, payload: payload.unwrap_or_default(), result, history, notes }))
    }

    pub(super) fn find(&self, namespace: &Name, kind: &Name, key: &str) -> rusqlite::Result<Option<TaskId>> {
        let values = [&**namespace, &**kind, key];
        self.one(include_str!("sql/task_by_key.sql"), values, |row| row::id(row, 0))
    }

    /// A page: what the filter wants, merged from the narrowest indexes that hold the wanted states.
    pub(super) fn tasks(&self, filter: &Filter, page: Page) -> rusqlite::Result<Listing> {
        if let Some(workflow) = filter.workflow {
            return self.steps(workflow, filter, page);
        }
        // Places count up in the order of the page, whichever that is.
        let place = |seq: i64| if page.oldest_first { seq } else { -seq };
        let (mut found, mut horizon) = (Vec::new(), None);
        for source in self.sources(filter)? {
            let seen_to = self.scan(source, filter, page, &mut found)?;
            horizon = [horizon, seen_to.map(place)].into_iter().flatten().min();
        }
        found.retain(|(seq, _)| horizon.is_none_or(|horizon| place(*seq) <= horizon));
        found.sort_unstable_by_key(|(seq, _)| place(*seq));
        let next = if found.len() > page.limit {
            found.truncate(page.limit);
            found.last().map(|(seq, _)| *seq)
        } else {
            horizon.map(i64::abs)
        };
        let next = next.and_then(|seq| u64::try_from(seq).ok()).map(Cursor);
        Ok(Listing { tasks: found.into_iter().map(|(_, task)| task).collect(), next })
    }

    /// Where tasks of the wanted states are found. Completed ones are in no index of their own, and many
    /// pending ones are found soonest among all.
    fn sources(&self, filter: &Filter) -> rusqlite::Result<BTreeSet<Source>> {
        let most = i64::try_from(limits::PAGE_SCAN).unwrap_or(i64::MAX);
        let pending = self.one(include_str!("sql/pending.sql"), [], |row| row.get::<_, i64>(0))?.unwrap_or(0);
        let source = |state: &State| match state {
            State::Completed => Source::All,
            State::Pending if pending > most => Source::All,
            State::Pending => Source::Pending,
            State::Claimed | State::Running => Source::Held,
            state => Source::In(*state),
        };
        let sources: BTreeSet<Source> = filter.states.iter().map(source).collect();
        let all = sources.is_empty() || sources.contains(&Source::All);
        Ok(if all { BTreeSet::from([Source::All]) } else { sources })
    }

    /// Adds what the filter wants to `found`, until that is more than a page. Looks at [`limits::PAGE_SCAN`]
    /// rows at most and says where it stopped if there may be more behind them.
    fn scan(
        &self,
        source: Source,
        filter: &Filter,
        page: Page,
        found: &mut Vec<(i64, Task)>,
    ) -> rusqlite::Result<Option<i64>> {
        let start = if page.oldest_first { 0 } else { i64::MAX };
        let after = page.after.map_or(start, |Cursor(place)| i64::try_from(place).unwrap_or(start));
        let mut statement = self.statement(source.sql(page.oldest_first))?;
        let mut rows = match source {
            Source::In(state) => statement.query(params![after, state.word()])?,
            Source::All | Source::Pending | Source::Held => statement.query([after])?,
        };
        let (mut looked_at, mut wanted) = (0, 0);
        while let Some(row) = rows.next()?
            && wanted <= page.limit
        {
            let (seq, task) = row::task(row)?;
            if filter.wants(&task) {
                wanted += 1;
                found.push((seq, task));
            }
            looked_at += 1;
            if looked_at == limits::PAGE_SCAN {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    pub(super) fn counts(&self) -> rusqlite::Result<Vec<Count>> {
        let mut counts = self.all(include_str!("sql/counts.sql"), [], |row| {
            Ok(Count {
                namespace: row::name(row, 0)?,
                queue: row::name(row, 1)?,
                kind: row::name(row, 2)?,
                is_step: row.get(3)?,
                state: row::state(row, 4)?,
                tasks: row::unsigned(row, 5)?,
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
        let schedules = self.due_schedules(now, limit)?;
        let task = self.moment(include_str!("sql/next_due.sql"), [now.as_micros()])?;
        let until = [now.as_micros(), Timestamp::MAX.as_micros()];
        let slot = self.moment(include_str!("sql/next_slot.sql"), until)?;
        let next = task.into_iter().chain(slot).min();
        let next = next.filter(|_| commands.len() < limit && schedules.len() < limit);
        let silent_at = self.moment(include_str!("sql/silent_at.sql"), [now.as_micros()])?;
        let silent_at = silent_at.filter(|at| *at > now);
        Ok(Due { now, commands, schedules, next, silent_at })
    }

    /// The one moment that a statement finds.
    fn moment(&self, sql: &str, values: impl Params) -> rusqlite::Result<Option<Timestamp>> {
        let found = self.one(sql, values, |row| row.get::<_, Option<i64>>(0))?;
        Ok(found.flatten().map(Timestamp::from_micros))
    }

    /// Schedules whose slot has come. One that cannot be read is passed over, so that it holds up only
    /// itself.
    fn due_schedules(&self, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<Schedule>> {
        let mut statement = self.statement(include_str!("sql/due_schedules.sql"))?;
        let rows = statement.query_map([now.as_micros()], row::schedule)?;
        rows.filter(|row| !row.as_ref().is_err_and(is_unreadable)).take(limit).collect()
    }

    pub(super) fn schedules(&self) -> rusqlite::Result<Vec<Schedule>> {
        self.all(include_str!("sql/schedules.sql"), [], row::schedule)
    }

    pub(super) fn entities(
        &self,
        namespace: &Name,
        after: Option<&Entity>,
        limit: usize,
    ) -> rusqlite::Result<Vec<Entity>> {
        let values =
            params![&**namespace, after.map_or("", Entity::as_str), i64::try_from(limit).unwrap_or(i64::MAX)];
        self.all(include_str!("sql/entities.sql"), values, |row| Ok(Entity::stored(row.get(0)?)))
    }

    /// What there is to say about the file.
    pub(super) fn describe(&self) -> rusqlite::Result<Vec<(&'static str, String)>> {
        let pragma = |name| self.0.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let journal = self.0.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))?;
        let (page, pages) = (pragma("page_size")?, pragma("page_count")?);
        let schema =
            self.0.query_row("SELECT max(version) FROM migrations", [], |row| row.get::<_, i64>(0))?;
        Ok(vec![
            ("sqlite version", rusqlite::version().into()),
            ("schema version", schema.to_string()),
            ("journal mode", journal),
            ("page size", format!("{page} bytes")),
            ("file size", format!("{} bytes", page * pages)),
        ])
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
