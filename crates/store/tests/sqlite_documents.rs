//! The relations that the source documents name, as views over the store's own rows: their columns and their
//! words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use support::{file, place, runtime, task};
use tempfile::TempDir;
use windlass_core::{By, Command, Lane, NewTask, Outcome, Start, State, TaskId, WorkerId};
use windlass_store::conformance::{
    START, STATES, claim_of, completed, entity, failed, failed_for_good, finish, token,
};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{Claimed, ManualClock, Reads, SqliteStore, Store, Writes};

/// A store with hand-moved time and one worker.
struct Desk {
    _directory: TempDir,
    path: PathBuf,
    clock: Arc<ManualClock>,
    store: SqliteStore,
    worker: WorkerId,
}

impl Desk {
    async fn new() -> Self {
        let directory = place();
        let (path, clock) = (file(&directory), Arc::new(ManualClock::new(START)));
        let options = Options::new(&path).durability(Durability::Normal).clock(clock.clone());
        let store = options.open().unwrap();
        let worker = support::worker(&store, "worker").await;
        Self { _directory: directory, path, clock, store, worker }
    }

    async fn apply(&self, command: Command) {
        self.store.apply(vec![command]).await.unwrap().remove(0).unwrap();
        self.clock.advance(Duration::from_millis(1));
    }

    async fn claim(&self, id: TaskId) -> Claimed {
        let mut claimed = self.store.claim(claim_of(&self.worker, 1)).await.unwrap();
        assert_eq!(claimed[0].task.id, id);
        self.clock.advance(Duration::from_millis(1));
        claimed.remove(0)
    }

    /// Submits a task for `planner:<n>` and brings it to `state`.
    async fn bring(&self, n: u64, state: State) -> TaskId {
        let mut new =
            NewTask { lane: Some(Lane::of(&entity(&format!("planner:{n}")))), priority: 9, ..task(n) };
        let id = new.id;
        match state {
            State::Scheduled => new.start = Start::After(Duration::from_secs(3600)),
            State::Pending => new.priority = 0,
            State::DeadLetter => new.max_attempts = NonZeroU32::new(1),
            _ => {}
        }
        self.store.submit(vec![new]).await.unwrap();
        self.clock.advance(Duration::from_millis(1));
        let by = By { actor: Some("ada".into()), note: None };
        let end = match state {
            State::Scheduled | State::Pending => return id,
            State::Cancelled => Command::Cancel { task: id, by },
            State::ResolvedManually => Command::Resolve { task: id, result: None, by },
            _ => {
                let claimed = self.claim(id).await;
                match state {
                    State::Claimed => return id,
                    State::Running => Command::Start { token: token(&claimed), at: None },
                    State::Completed => finish(&claimed, completed("[1]")),
                    State::Failed => finish(&claimed, failed_for_good("broken")),
                    _ => finish(&claimed, failed("broken")),
                }
            }
        };
        self.apply(end).await;
        assert_eq!(self.store.task(id).await.unwrap().unwrap().task.status.state, state);
        id
    }

    fn read<T>(
        &self,
        sql: &str,
        id: &str,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let connection = Connection::open(&self.path).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([id], row).unwrap().map(Result::unwrap).collect()
    }

    fn columns(&self, view: &str) -> Vec<String> {
        let sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid";
        self.read(sql, view, |row| row.get(0))
    }

    /// Status and note of each row of `status_history`, after checking what holds for all of them.
    fn history(&self, id: TaskId) -> Vec<(String, String)> {
        let sql =
            "SELECT id, transitioned_at, status, notes FROM status_history WHERE task_id = ? ORDER BY id";
        let rows = self.read(sql, &id.to_string(), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, (row.get(2)?, row.get(3)?)))
        });
        assert!(
            rows.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
            "3.3: each is later than the one before: {rows:?}"
        );
        assert!(rows.iter().all(|(_, at, _)| at.starts_with("2026-01-01 00:00:0")), "{rows:?}");
        let rows: Vec<(String, String)> = rows.into_iter().map(|(_, _, row)| row).collect();
        assert!(
            rows.windows(2).all(|pair| pair[0].0 != pair[1].0),
            "3.3: one row per change of status: {rows:?}"
        );
        rows
    }
}

/// 0.1, 0.2: `task_queue` has its columns and its word for every state, and its constraints hold.
#[test]
fn task_queue_speaks_the_words_of_document_000() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let columns = [
            "task_id",
            "entity_type",
            "entity_id",
            "function_name",
            "payload",
            "status",
            "error_message",
            "retry_count",
            "max_retries",
            "created_at",
            "updated_at",
        ];
        assert_eq!(desk.columns("task_queue"), columns);
        for (n, state) in (1..).zip(STATES) {
            let id = desk.bring(n, state).await;
            let sql =
                "SELECT entity_type, entity_id, function_name, payload, created_at, status, error_message,
                retry_count, max_retries FROM task_queue WHERE task_id = ?";
            let hex = id.to_string().replace('-', "");
            assert_eq!(hex.len(), 32, "0.1: ids are 32 digits without dashes");
            let text = |row: &rusqlite::Row<'_>, column| row.get::<_, String>(column);
            let found = desk.read(sql, &hex, |row| {
                assert_eq!((text(row, 0)?, text(row, 1)?), ("planner".into(), n.to_string()));
                assert_eq!((text(row, 2)?, text(row, 3)?), ("test:work".into(), format!("{{\"n\":{n}}}")));
                assert!(text(row, 4)?.starts_with("2026-01-01 00:00:0"), "{}", text(row, 4)?);
                Ok((
                    text(row, 5)?,
                    row.get::<_, Option<String>>(6)?,
                    row.get::<_, i64>(7)?,
                    row.get::<_, i64>(8)?,
                ))
            });
            let [(status, error, retries, most)] = &found[..] else {
                panic!("{state}: one row, not {found:?}")
            };
            let expected = match state {
                State::Claimed | State::Running => ("IN_PROGRESS", None, 0, 3),
                State::Completed | State::ResolvedManually => ("COMPLETED", None, 0, 3),
                State::WaitingForRetry | State::Failed => ("FAILED", Some("broken"), 1, 3),
                State::DeadLetter => ("FAILED", Some("broken"), 1, 1),
                State::Cancelled => ("FAILED", Some("cancelled"), 0, 3),
                _ => ("PENDING", None, 0, 3),
            };
            assert_eq!((&**status, error.as_deref(), *retries, *most), expected, "{state}");
            assert!((0..=*most).contains(retries), "0.2: {state}");
        }
    });
}

/// 0.9, 0.10: a failure counts once, and going back to pending leaves the count and clears the message.
#[test]
fn task_queue_counts_retries_as_document_000_does() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let new = task(1);
        let hex = new.id.to_string().replace('-', "");
        let row = || {
            let sql = "SELECT status, retry_count, error_message FROM task_queue WHERE task_id = ?";
            let row = |row: &rusqlite::Row<'_>| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<String>>(2)?))
            };
            desk.read(sql, &hex, row).remove(0)
        };
        let id = new.id;
        desk.store.submit(vec![new]).await.unwrap();
        for failures in 1..=3 {
            assert_eq!(row(), ("PENDING".into(), failures - 1, None));
            let claimed = desk.claim(id).await;
            assert_eq!(row(), ("IN_PROGRESS".into(), failures - 1, None));
            desk.apply(finish(&claimed, failed("no answer"))).await;
            assert_eq!(row(), ("FAILED".into(), failures, Some("no answer".into())));
            if failures < 3 {
                desk.apply(Command::Retry { task: id, force: false, by: By::default() }).await;
            }
        }
    });
}

/// 3.3, 3.6: `status_history` has its columns, a first row, one row per change in its words, and default
/// notes.
#[test]
fn status_history_speaks_the_words_of_document_003() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        assert_eq!(desk.columns("status_history"), ["id", "task_id", "status", "transitioned_at", "notes"]);
        let (created, taken) =
            (("pending", "Task created"), ("processing", "Transitioned from pending to processing"));
        for (n, state) in (1..).zip(STATES) {
            let id = desk.bring(n, state).await;
            let end = match state {
                State::Scheduled | State::Pending => None,
                State::Claimed | State::Running => Some(vec![taken]),
                State::Completed => {
                    Some(vec![taken, ("completed", "Transitioned from processing to completed")])
                }
                State::Failed | State::DeadLetter => Some(vec![taken, ("failed", "broken")]),
                State::WaitingForRetry => Some(vec![taken, ("pending", "broken")]),
                State::Cancelled => Some(vec![("failed", "Transitioned from pending to failed")]),
                _ => Some(vec![("completed", "Transitioned from pending to completed")]),
            };
            let expected: Vec<_> = std::iter::once(created).chain(end.into_iter().flatten()).collect();
            let found = desk.history(id);
            let found: Vec<_> = found.iter().map(|(status, note)| (&**status, &**note)).collect();
            assert_eq!(found, expected, "{state}");
        }
        let ids: Vec<i64> = desk.read("SELECT id FROM status_history WHERE ? <> ''", "all", |row| row.get(0));
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "3.3: ids are unique");
    });
}

/// 3.3 over a whole life: changes that four words cannot tell apart are one row; all others are rows in
/// order.
#[test]
fn status_history_follows_a_long_life() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let new = NewTask { start: Start::After(Duration::from_millis(1)), ..task(1) };
        let id = new.id;
        desk.store.submit(vec![new]).await.unwrap();
        desk.clock.advance(Duration::from_millis(2));
        desk.apply(Command::Promote { task: id }).await;
        let claimed = desk.claim(id).await;
        desk.apply(Command::Start { token: token(&claimed), at: None }).await;
        desk.apply(Command::Release { token: token(&claimed), note: Some("shutdown".into()) }).await;
        let claimed = desk.claim(id).await;
        desk.apply(finish(&claimed, Outcome::Snoozed { delay: Duration::from_millis(1) })).await;
        desk.apply(Command::Retry { task: id, force: false, by: By::default() }).await;
        let claimed = desk.claim(id).await;
        desk.apply(finish(&claimed, completed("1"))).await;
        let found = desk.history(id);
        let words: Vec<&str> = found.iter().map(|(status, _)| &**status).collect();
        assert_eq!(
            words,
            ["pending", "processing", "pending", "processing", "pending", "processing", "completed"]
        );
        assert_eq!(found[2].1, "shutdown", "3.6: a note that was given is kept");
        assert_eq!(found[4].1, "Transitioned from processing to pending");
    });
}
