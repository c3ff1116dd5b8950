//! Counters by hand on SQLite, on the same tables, with the edges in one more.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use rusqlite::{Connection, Statement, params};
use uuid::Uuid;
use windlass_store::SqliteStore;

use super::{BATCH, Shape};
use crate::through_store::RESULT;

const KIND: &str = "bench:nothing";
const WORKER: &str = "bench-0190a5dac96774bbcceb302099a8057";

/// Starts and works off one workflow; steps per second.
pub(super) fn measure(file: &Path, durability: &str, shape: Shape) -> Result<f64> {
    drop(SqliteStore::open(file)?);
    let connection = Connection::open(file)?;
    for (setting, value) in [
        ("synchronous", durability),
        ("foreign_keys", "on"),
        ("temp_store", "memory"),
        ("wal_autocheckpoint", "2048"),
        ("cache_size", "-32768"),
    ] {
        connection.pragma_update(None, setting, value)?;
    }
    define(&connection, shape)?;
    let mut hand = HandWorkflows::prepare(&connection)?;
    let begun = Instant::now();
    connection.execute_batch("BEGIN IMMEDIATE")?;
    hand.start(shape)?;
    connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
    let mut held = hand.claim()?;
    connection.execute_batch("COMMIT")?;
    let mut done = 0;
    while !held.is_empty() {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let opened = hand.finish(&held)?;
        done += held.len();
        hand.count_workflow(held.len(), opened, done == shape.steps())?;
        held = hand.claim()?;
        connection.execute_batch("COMMIT")?;
    }
    ensure!(done == shape.steps(), "{done} steps were done");
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

/// What is known of every workflow of this shape.
fn define(connection: &Connection, shape: Shape) -> Result<()> {
    connection.execute_batch(
        "CREATE TABLE edges (parent INTEGER, child INTEGER, PRIMARY KEY (parent, child)) WITHOUT ROWID; BEGIN;
         INSERT INTO definitions (namespace, name, version, content, steps, created_at) VALUES ('default', 'bench', '1', '{}', 0, 0)",
    )?;
    let mut insert = connection.prepare("INSERT INTO edges VALUES (?, ?)")?;
    for child in 0..shape.steps() {
        for parent in shape.needs(child) {
            insert.execute([i64::try_from(parent)? + 1, i64::try_from(child)? + 1])?;
        }
    }
    Ok(connection.execute_batch("COMMIT")?)
}

struct HandWorkflows<'c> {
    workflow: Statement<'c>,
    insert: Statement<'c>,
    history: Statement<'c>,
    best: Statement<'c>,
    claim: Statement<'c>,
    finish: Statement<'c>,
    children: Statement<'c>,
    met: Statement<'c>,
    open: Statement<'c>,
    count: Statement<'c>,
    sequence: Statement<'c>,
    counters: Statement<'c>,
    over: Statement<'c>,
}

struct Held {
    seq: i64,
    id: [u8; 16],
    lease: i64,
    entries: i64,
}

impl<'c> HandWorkflows<'c> {
    fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            workflow: connection.prepare(
                "INSERT INTO workflows (seq, id, namespace, name, version, definition, priority, nesting, created_at, state, paused,
                    waiting, nested, active, timed, done, skipped, cancelled, failed, updated_at, entries, retries, rank)
                 VALUES (1, ?1, 'default', 'bench', '1', 1, 0, 0, ?2, 'steps_in_process', 0, ?3, 0, ?4, 0, 0, 0, 0, 0, ?2, 1, 0, 0)",
            )?,
            insert: connection.prepare(
                "INSERT INTO tasks (seq, id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, state,
                    attempt, lease, updated_at, slot, rank, entries, is_step, waits, met, others)
                 VALUES (?1, ?2, 'default', 'default', ?3, 0, 0, 0, 3, ?4, ?5, 0, 0, ?4, 0, 0, 1, 1, ?6, ?7, ?8)",
            )?,
            history: connection
                .prepare("INSERT INTO history (task, n, state, at, reason, actor) VALUES (?, ?, ?, ?, ?, ?)")?,
            best: connection.prepare(
                "SELECT seq, id, lease + 1, entries + 1, attempt + 1, max_attempts, timeout, kind FROM tasks
                 WHERE namespace = 'default' AND queue = 'default' AND kind = ? AND state = 'pending'
                    AND (lane IS NULL OR slot = 1)
                 ORDER BY rank DESC, seq LIMIT ?",
            )?,
            claim: connection.prepare(
                "UPDATE tasks SET state = 'claimed', attempt = attempt + 1, lease = lease + 1, worker = ?2,
                    claimed_at = ?3, updated_at = ?3, entries = entries + 1 WHERE seq = ?1",
            )?,
            finish: connection.prepare(
                "UPDATE tasks SET state = 'completed', started_at = ?4, finished_at = ?4, updated_at = ?4,
                    entries = entries + 2, result = ?5
                 WHERE id = ?1 AND lease = ?2 AND worker = ?3 AND finished_at IS NULL",
            )?,
            children: connection.prepare("SELECT child FROM edges WHERE parent = ?")?,
            met: connection.prepare("UPDATE tasks SET met = met + ?2 WHERE seq = ?1 RETURNING met = others")?,
            open: connection.prepare(
                "UPDATE tasks SET state = 'pending', waits = NULL, met = NULL, others = NULL, updated_at = ?2,
                    entries = entries + 1 WHERE seq = ?1",
            )?,
            count: connection.prepare(
                "INSERT INTO counts VALUES ('default', 'default', ?1, 1, ?2, max(?3, 0))
                 ON CONFLICT DO UPDATE SET tasks = tasks + ?3",
            )?,
            sequence: connection.prepare("UPDATE sequence SET last = last + ?")?,
            counters: connection.prepare(
                "UPDATE workflows SET waiting = waiting - ?1, active = active + ?1 - ?2, done = done + ?2, updated_at = ?3",
            )?,
            over: connection.prepare("UPDATE workflows SET state = 'complete', finished_at = ?1, entries = 2")?,
        })
    }

    fn add(&mut self, state: &str, tasks: usize, sign: i64) -> Result<()> {
        self.count.execute(params![KIND, state, sign * i64::try_from(tasks)?])?;
        Ok(())
    }

    fn start(&mut self, shape: Shape) -> Result<()> {
        let (now, steps) = (now()?, shape.steps());
        let mut first = 0;
        for at in 0..steps {
            let (seq, needs) = (i64::try_from(at)? + 1, shape.needs(at).len());
            let (state, waits) = if needs == 0 { ("pending", None) } else { ("waiting", Some("parents")) };
            let met = waits.map(|_| 0);
            let needed = waits.map(|_| i64::try_from(needs)).transpose()?;
            first += usize::from(needs == 0);
            self.insert.execute(params![
                seq,
                Uuid::now_v7().as_bytes(),
                KIND,
                now,
                state,
                waits,
                met,
                needed
            ])?;
            self.history.execute(params![seq, 1, state, now, "submitted", None::<&str>])?;
        }
        let (waiting, active) = (i64::try_from(steps - first)?, i64::try_from(first)?);
        self.workflow.execute(params![Uuid::now_v7().as_bytes(), now, waiting, active])?;
        self.add("pending", first, 1)?;
        self.add("waiting", steps - first, 1)?;
        self.sequence.execute([i64::try_from(steps)?])?;
        Ok(())
    }

    fn claim(&mut self) -> Result<Vec<Held>> {
        let held = self.best.query_map(params![KIND, i64::try_from(BATCH)?], |row| {
            let _for_the_handler: (u32, Option<u32>, Option<i64>, String) =
                (row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?);
            Ok(Held { seq: row.get(0)?, id: row.get(1)?, lease: row.get(2)?, entries: row.get(3)? })
        })?;
        let held: Vec<Held> = held.collect::<rusqlite::Result<_>>()?;
        let now = now()?;
        for task in &held {
            self.claim.execute(params![task.seq, WORKER, now])?;
            self.history.execute(params![task.seq, task.entries, "claimed", now, "claimed", WORKER])?;
        }
        self.add("pending", held.len(), -1)?;
        self.add("claimed", held.len(), 1)?;
        Ok(held)
    }

    /// Says how many steps have become claimable.
    fn finish(&mut self, held: &[Held]) -> Result<usize> {
        let now = now()?;
        let mut told: HashMap<i64, i64> = HashMap::new();
        for task in held {
            let done = self.finish.execute(params![task.id, task.lease, WORKER, now, RESULT])?;
            ensure!(done == 1, "a lease was lost");
            self.history.execute(params![task.seq, task.entries + 1, "running", now, "started", WORKER])?;
            self.history.execute(params![
                task.seq,
                task.entries + 2,
                "completed",
                now,
                "completed",
                WORKER
            ])?;
            for child in self.children.query_map([task.seq], |row| row.get(0))? {
                *told.entry(child?).or_default() += 1;
            }
        }
        let mut opened = 0;
        for (child, by) in told {
            if self.met.query_row([child, by], |row| row.get(0))? {
                self.open.execute(params![child, now])?;
                self.history.execute(params![child, 2, "pending", now, "ready", None::<&str>])?;
                opened += 1;
            }
        }
        self.add("claimed", held.len(), -1)?;
        self.add("completed", held.len(), 1)?;
        self.add("waiting", opened, -1)?;
        self.add("pending", opened, 1)?;
        Ok(opened)
    }

    fn count_workflow(&mut self, done: usize, opened: usize, is_over: bool) -> Result<()> {
        self.counters.execute([i64::try_from(opened)?, i64::try_from(done)?, now()?])?;
        if is_over {
            self.over.execute([now()?])?;
        }
        Ok(())
    }
}

fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}
