//! The floor: hand-written statements on the same schema that do the same writes, with no store in between.
//!
//! One connection, statements prepared once, one transaction per batch and stage, counts kept once per
//! transaction. What a careful engineer would write for this workload and nothing else: no lanes, keys,
//! delays, retries, or refusals.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rusqlite::{Connection, Statement, params};
use uuid::Uuid;
use windlass_store::SqliteStore;
use windlass_store::sqlite::Durability;

use crate::Case;
use crate::through_store::{PAYLOAD, RESULT};

const NAMESPACE: &str = "default";
const QUEUE: &str = "default";
const KIND: &str = "bench:noop";
const WORKER: &str = "bench-0190a5dac96774bbcceb302099a8057";

/// Submits, claims and finishes `case.tasks` tasks in batches; tasks per second.
pub(crate) fn cycle(file: &Path, case: Case) -> Result<f64> {
    drop(SqliteStore::open(file)?);
    let connection = Connection::open(file)?;
    let synchronous = if case.durability == Durability::Full { "full" } else { "normal" };
    for (setting, value) in [
        ("synchronous", synchronous),
        ("foreign_keys", "on"),
        ("temp_store", "memory"),
        ("wal_autocheckpoint", "2048"),
        ("cache_size", "-32768"),
    ] {
        connection.pragma_update(None, setting, value)?;
    }
    let mut hand = Hand::prepare(&connection)?;
    let start = Instant::now();
    for turn in 0..case.tasks / case.batch {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        hand.submit(i64::try_from(turn * case.batch)?, case.batch)?;
        connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        let claimed = hand.claim(case.batch)?;
        connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        hand.finish(&claimed)?;
        connection.execute_batch("COMMIT")?;
    }
    Ok(case.tasks as f64 / start.elapsed().as_secs_f64())
}

struct Hand<'c> {
    insert: Statement<'c>,
    payload: Statement<'c>,
    history: Statement<'c>,
    best: Statement<'c>,
    claim: Statement<'c>,
    finish: Statement<'c>,
    count: Statement<'c>,
    sequence: Statement<'c>,
}

struct Held {
    seq: i64,
    id: [u8; 16],
    lease: i64,
}

impl<'c> Hand<'c> {
    fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            insert: connection.prepare(
                "INSERT INTO tasks (seq, id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts,
                    created_at, state, attempt, lease, updated_at, slot, rank, entries)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, 'pending', 0, 0, ?8, 0, ?6 * 1000000, 1)",
            )?,
            payload: connection.prepare("INSERT INTO payloads (task, payload) VALUES (?, ?)")?,
            history: connection.prepare(
                "INSERT INTO history (task, n, state, at, reason, actor) VALUES (?, ?, ?, ?, ?, ?)",
            )?,
            best: connection.prepare(
                "SELECT t.seq, t.id, t.lease + 1, t.attempt + 1, t.max_attempts, t.timeout, t.kind, p.payload
                 FROM tasks t JOIN payloads p ON p.task = t.seq
                 WHERE t.namespace = ? AND t.queue = ? AND t.kind = ? AND t.state = 'pending'
                    AND (t.lane IS NULL OR t.slot = 1)
                 ORDER BY t.rank DESC, t.seq LIMIT ?",
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
            count: connection.prepare(
                "INSERT INTO counts VALUES (?1, ?2, ?3, 0, ?4, max(?5, 0))
                 ON CONFLICT DO UPDATE SET tasks = tasks + ?5",
            )?,
            sequence: connection.prepare("UPDATE sequence SET last = last + ?")?,
        })
    }

    fn add(&mut self, state: &str, tasks: i64) -> Result<()> {
        self.count.execute(params![NAMESPACE, QUEUE, KIND, state, tasks])?;
        Ok(())
    }

    fn submit(&mut self, after: i64, batch: usize) -> Result<()> {
        for seq in (after + 1..).take(batch) {
            let now = now()?;
            self.insert.execute(params![
                seq,
                Uuid::now_v7().as_bytes(),
                NAMESPACE,
                QUEUE,
                KIND,
                0,
                3,
                now
            ])?;
            self.payload.execute(params![seq, PAYLOAD])?;
            self.history.execute(params![seq, 1, "pending", now, "submitted", None::<&str>])?;
        }
        self.add("pending", i64::try_from(batch)?)?;
        self.sequence.execute([i64::try_from(batch)?])?;
        Ok(())
    }

    fn claim(&mut self, batch: usize) -> Result<Vec<Held>> {
        let wanted = params![NAMESPACE, QUEUE, KIND, i64::try_from(batch)?];
        let held = self.best.query_map(wanted, |row| {
            let _for_the_handler: (u32, Option<u32>, Option<i64>, String, String) =
                (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?);
            Ok(Held { seq: row.get(0)?, id: row.get(1)?, lease: row.get(2)? })
        })?;
        let held: Vec<Held> = held.collect::<rusqlite::Result<_>>()?;
        let now = now()?;
        for task in &held {
            self.claim.execute(params![task.seq, WORKER, now])?;
            self.history.execute(params![task.seq, 2, "claimed", now, "claimed", WORKER])?;
        }
        self.add("pending", -i64::try_from(held.len())?)?;
        self.add("claimed", i64::try_from(held.len())?)?;
        Ok(held)
    }

    fn finish(&mut self, held: &[Held]) -> Result<()> {
        let now = now()?;
        for task in held {
            let done = self.finish.execute(params![task.id, task.lease, WORKER, now, RESULT])?;
            anyhow::ensure!(done == 1, "a lease was lost");
            self.history.execute(params![task.seq, 3, "running", now, "started", WORKER])?;
            self.history.execute(params![task.seq, 4, "completed", now, "completed", WORKER])?;
        }
        self.add("claimed", -i64::try_from(held.len())?)?;
        self.add("completed", i64::try_from(held.len())?)?;
        Ok(())
    }
}

fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}
