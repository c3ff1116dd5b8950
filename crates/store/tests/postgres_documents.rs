//! The relations that the source documents name, as views over the store's own rows, each document's in a
//! schema of its own: their columns and their words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};
use uuid::Uuid;
use windlass_core::{
    By, Command, Json, Lane, Name, NewTask, NewWorker, Outcome, Start, State, TaskId, WorkerId,
};
use windlass_store::conformance::{
    KIND, START, STATES, claim_of, completed, entity, failed, failed_for_good, finish, id, token,
};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{Claimed, ManualClock, PostgresStore, Reads, Store, Writes};
use windlass_testbed::postgres::Server;

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store with one worker, and a connection past it.
struct Desk {
    schema: String,
    clock: Arc<ManualClock>,
    store: PostgresStore,
    worker: WorkerId,
    client: Client,
}

impl Desk {
    /// With time in the hand of the test.
    async fn new() -> Self {
        Self::open(true).await
    }

    async fn open(by_hand: bool) -> Self {
        static DESKS: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("desk_{}", DESKS.fetch_add(1, Ordering::Relaxed));
        let clock = Arc::new(ManualClock::new(START));
        let mut options = Options::new(&server().url()).unwrap().schema(Schema::new(&schema).unwrap());
        if by_hand {
            options = options.clock(clock.clone());
        }
        let store = options.open().await.unwrap();
        let kinds = vec![Name::kind(KIND).unwrap()];
        let new = NewWorker { kinds, ..NewWorker::new(WorkerId::new("worker").unwrap()) };
        let worker = store.register(new).await.unwrap().id;
        let (client, connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { schema, clock, store, worker, client }
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

    async fn submit(&self, new: NewTask) -> TaskId {
        let id = new.id;
        self.store.submit(vec![new]).await.unwrap();
        self.clock.advance(Duration::from_millis(1));
        id
    }

    /// Submits a task for `planner:<n>` and brings it to `state`.
    async fn bring(&self, n: u64, state: State) -> TaskId {
        let lane = Some(Lane::of(&entity(&format!("planner:{n}"))));
        let mut new = NewTask { lane, priority: 9, key: Some(format!("key {n}")), ..task(n) };
        match state {
            State::Scheduled => new.start = Start::After(Duration::from_secs(3600)),
            State::Pending => new.priority = 0,
            State::DeadLetter => new.max_attempts = NonZeroU32::new(1),
            _ => {}
        }
        let id = self.submit(new).await;
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

    /// Rows of a view, named as in the document; this store's schema is put before it.
    async fn read(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let sql = ["agents.", "orchestrator.", "circuits."]
            .iter()
            .fold(sql.to_owned(), |sql, name| sql.replace(name, &format!("{}_{name}", self.schema)));
        self.client.query(&sql, values).await.unwrap()
    }

    async fn row(&self, sql: &str, id: TaskId) -> Row {
        let mut rows = self.read(sql, &[&Uuid::from_bytes(*id.as_bytes())]).await;
        assert_eq!(rows.len(), 1, "one row");
        rows.remove(0)
    }

    /// Names and types of the columns of a view, and that it is one.
    async fn columns(&self, schema: &str, view: &str) -> Vec<(String, String)> {
        let sql = "SELECT c.column_name::text, c.data_type::text FROM information_schema.columns c
            JOIN information_schema.views v USING (table_schema, table_name)
            WHERE c.table_schema = $1 AND c.table_name = $2 ORDER BY c.ordinal_position";
        let schema = format!("{}_{schema}", self.schema);
        let rows = self.client.query(sql, &[&schema, &view]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Status and note of each row of `status_history`, after checking what holds for all of them.
    async fn history(&self, id: TaskId) -> Vec<(String, String)> {
        let sql = "SELECT status, notes, transitioned_at > lag(transitioned_at) OVER (ORDER BY id),
            status <> lag(status) OVER (ORDER BY id) FROM circuits.status_history WHERE task_id = $1 ORDER BY id";
        let rows = self.read(sql, &[&Uuid::from_bytes(*id.as_bytes())]).await;
        for row in rows.iter().skip(1) {
            assert!(row.get::<_, bool>(2), "3.3: each is later than the one before");
            assert!(row.get::<_, bool>(3), "3.3: one row per change of status");
        }
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

fn task(n: u64) -> NewTask {
    NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::payload(&format!("{{\"n\":{n}}}")).unwrap())
}

/// A document's schema, its relation, and the columns of that with their types.
type View = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const TIME: &str = "timestamp with time zone";

/// 0.1, 1.1, 1.5, 3.1, 3.3, C27: the columns of the compatible views, with their types; times have zones.
#[test]
fn columns_are_those_of_the_documents() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let views: [View; 5] = [
            (
                "agents",
                "task_queue",
                &[
                    ("task_id", "text"),
                    ("entity_type", "text"),
                    ("entity_id", "text"),
                    ("function_name", "text"),
                    ("payload", "json"),
                    ("status", "text"),
                    ("error_message", "text"),
                    ("retry_count", "integer"),
                    ("max_retries", "integer"),
                    ("created_at", TIME),
                    ("updated_at", TIME),
                ],
            ),
            (
                "orchestrator",
                "tasks",
                &[
                    ("id", "uuid"),
                    ("type", "text"),
                    ("payload", "jsonb"),
                    ("status", "text"),
                    ("priority", "integer"),
                    ("idempotency_key", "text"),
                    ("worker_id", "text"),
                    ("created_at", TIME),
                    ("claimed_at", TIME),
                    ("started_at", TIME),
                    ("completed_at", TIME),
                    ("updated_at", TIME),
                    ("attempts", "integer"),
                    ("max_retries", "integer"),
                    ("last_error", "text"),
                    ("next_retry_at", TIME),
                ],
            ),
            (
                "orchestrator",
                "workers",
                &[
                    ("id", "text"),
                    ("hostname", "text"),
                    ("started_at", TIME),
                    ("last_heartbeat", TIME),
                    ("pool_size", "integer"),
                    ("version", "text"),
                    ("is_leader", "boolean"),
                    ("leader_until", TIME),
                ],
            ),
            (
                "circuits",
                "tasks",
                &[
                    ("task_id", "uuid"),
                    ("circuit", "text"),
                    ("submitted_at", TIME),
                    ("current_status", "text"),
                    ("completed_at", TIME),
                    ("result", "jsonb"),
                    ("error_message", "text"),
                ],
            ),
            (
                "circuits",
                "status_history",
                &[
                    ("id", "bigint"),
                    ("task_id", "uuid"),
                    ("status", "text"),
                    ("transitioned_at", TIME),
                    ("notes", "text"),
                ],
            ),
        ];
        for (schema, view, expected) in views {
            let found = desk.columns(schema, view).await;
            let found: Vec<(&str, &str)> = found.iter().map(|(name, kind)| (&**name, &**kind)).collect();
            assert_eq!(found, expected, "{schema}.{view}");
        }
    });
}

/// 0.1, 0.2: `task_queue` has its word for every state, and its constraints hold.
#[test]
fn task_queue_speaks_the_words_of_document_000() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        for (n, state) in (1..).zip(STATES) {
            let id = desk.bring(n, state).await;
            let sql = "SELECT entity_type, entity_id, function_name, payload::text, status, error_message, retry_count,
                max_retries FROM agents.task_queue WHERE task_id = $1";
            let hex = id.to_string().replace('-', "");
            assert_eq!(hex.len(), 32, "0.1: ids are 32 digits without dashes");
            let rows = desk.read(sql, &[&hex]).await;
            let [row] = &rows[..] else { panic!("{state}: one row, not {}", rows.len()) };
            let text = |column| row.get::<_, &str>(column);
            assert_eq!((text(0), text(1)), ("planner", &*n.to_string()));
            assert_eq!((text(2), text(3)), (KIND, &*format!("{{\"n\":{n}}}")));
            let expected = match state {
                State::Claimed | State::Running => ("IN_PROGRESS", None, 0, 3),
                State::Completed | State::ResolvedManually => ("COMPLETED", None, 0, 3),
                State::WaitingForRetry | State::Failed => ("FAILED", Some("broken"), 1, 3),
                State::DeadLetter => ("FAILED", Some("broken"), 1, 1),
                State::Cancelled => ("FAILED", Some("cancelled"), 0, 3),
                _ => ("PENDING", None, 0, 3),
            };
            let found = (text(4), row.get::<_, Option<&str>>(5), row.get::<_, i32>(6), row.get::<_, i32>(7));
            assert_eq!(found, expected, "{state}");
            assert!((0..=found.3).contains(&found.2), "0.2: {state}");
        }
    });
}

/// 1.1, 1.2, C25: `orchestrator.tasks` has its word for every state, and the values beside it.
#[test]
fn tasks_speak_the_words_of_document_001() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        for (n, state) in (1..).zip(STATES) {
            let id = desk.bring(n, state).await;
            let sql = "SELECT type, payload->>'n', priority, idempotency_key, status, attempts, max_retries, last_error,
                worker_id, claimed_at IS NOT NULL, started_at IS NOT NULL, completed_at IS NOT NULL,
                next_retry_at IS NOT NULL, updated_at >= created_at FROM orchestrator.tasks WHERE id = $1";
            let row = desk.row(sql, id).await;
            let text = |column| row.get::<_, &str>(column);
            let is = |column| row.get::<_, bool>(column);
            assert_eq!((text(0), text(1)), (KIND, &*n.to_string()));
            assert_eq!(row.get::<_, i32>(2), if state == State::Pending { 0 } else { 9 });
            assert_eq!(text(3), format!("key {n}"));
            let (status, attempts, error) = match state {
                State::Claimed => ("claimed", 1, None),
                State::Running => ("running", 1, None),
                State::WaitingForRetry => ("pending", 1, Some("broken")),
                State::Completed => ("completed", 1, None),
                State::Failed => ("failed", 1, Some("broken")),
                State::DeadLetter => ("dead_letter", 1, Some("broken")),
                State::Cancelled => ("failed", 0, Some("cancelled")),
                State::ResolvedManually => ("completed", 0, None),
                _ => ("pending", 0, None),
            };
            let found = (text(4), row.get::<_, i32>(5), row.get::<_, Option<&str>>(7));
            assert_eq!(found, (status, attempts, error), "{state}");
            assert_eq!(row.get::<_, i32>(6), if state == State::DeadLetter { 1 } else { 3 }, "{state}");
            let was_held = row.get::<_, Option<&str>>(8).is_some();
            assert_eq!(was_held, is(9), "{state}: who holds it claimed it");
            assert_eq!(is(11), state.is_final(), "C25: every end has its time ({state})");
            let waits = matches!(state, State::Scheduled | State::WaitingForRetry);
            assert_eq!(is(12), waits, "1.4: only who waits is not due ({state})");
            assert!(is(13), "{state}");
        }
    });
}

/// What went wrong last is still told when the task is tried again, and by how much the payload is more than
/// jsonb can hold.
#[test]
fn document_001_shows_the_last_error_and_any_payload() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let id = desk.submit(task(1)).await;
        let claimed = desk.claim(id).await;
        desk.apply(finish(&claimed, failed("no answer"))).await;
        desk.apply(Command::Retry { task: id, force: false, by: By::default() }).await;
        let row = desk.row("SELECT status, last_error FROM orchestrator.tasks WHERE id = $1", id).await;
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("pending", "no answer"));

        let digits = "1".repeat(200_000);
        for (n, text) in (2..).zip([r#"{"a":"\u0000"}"#, r#"["\ud800"]"#, "1e999999", &*digits]) {
            let id = desk.submit(NewTask { payload: Json::payload(text).unwrap(), ..task(n) }).await;
            let sql = "SELECT payload #>> '{}', jsonb_typeof(payload) FROM orchestrator.tasks WHERE id = $1";
            let row = desk.row(sql, id).await;
            assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), (text, "string"));
        }
        let all = desk.read("SELECT count(payload) FROM orchestrator.tasks", &[]).await;
        assert_eq!(all[0].get::<_, i64>(0), 5, "no row stops a reader");
    });
}

/// 1.5, 1.6: workers, and which of them leads for how long.
#[test]
fn workers_are_those_of_document_001() {
    runtime().block_on(async {
        let desk = Desk::open(false).await;
        let other = NewWorker { pool_size: 7, ..NewWorker::new(WorkerId::new("other").unwrap()) };
        desk.store.register(other).await.unwrap();
        let sql = "SELECT id, is_leader, leader_until > now(), pool_size, last_heartbeat >= started_at, hostname IS NOT NULL,
            version IS NOT NULL FROM orchestrator.workers ORDER BY id";
        let leaders = async || -> Vec<(String, bool, Option<bool>)> {
            let rows = desk.read(sql, &[]).await;
            assert!(rows.iter().all(|row| row.get(4) && row.get(5) && row.get(6)));
            assert_eq!(rows[0].get::<_, i32>(3), 7);
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
        };
        let row = |id: &str, leads, until| (id.to_owned(), leads, until);
        assert_eq!(leaders().await, [row("other", false, None), row("worker", false, None)]);
        let term = desk.store.campaign(desk.worker.clone(), Duration::from_secs(600)).await.unwrap().unwrap().term;
        assert_eq!(leaders().await, [row("other", false, None), row("worker", true, Some(true))]);
        desk.store.resign(desk.worker.clone(), term).await.unwrap();
        let after = leaders().await;
        assert!(after.iter().all(|(_, leads, _)| !leads), "C17: a lease that is over leads nobody: {after:?}");
    });
}

/// 3.1, 3.2, C65: `circuits.tasks` has its word for every state, and the values that are allowed beside it.
#[test]
fn tasks_speak_the_words_of_document_003() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        for (n, state) in (1..).zip(STATES) {
            let id = desk.bring(n, state).await;
            let sql = "SELECT current_status, circuit, result::text, error_message, completed_at IS NOT NULL
                FROM circuits.tasks WHERE task_id = $1";
            let row = desk.row(sql, id).await;
            let expected = match state {
                State::Claimed | State::Running => ("processing", None, None),
                State::Completed => ("completed", Some("[1]"), None),
                State::ResolvedManually => ("completed", Some("null"), None),
                State::Failed | State::DeadLetter => ("failed", None, Some("broken")),
                State::Cancelled => ("failed", None, Some("cancelled")),
                _ => ("pending", None, None),
            };
            assert_eq!((row.get::<_, &str>(0), row.get(2), row.get(3)), expected, "{state}");
            assert_eq!(row.get::<_, &str>(1), format!("{{\"n\":{n}}}"), "{state}");
            assert_eq!(row.get::<_, bool>(4), state.is_final(), "3.2: {state}");
        }
        for (n, payload, circuit) in [
            (50, r#""OPENQASM 3;\nqubit q;""#, "OPENQASM 3;\nqubit q;"),
            (51, r#"{"circuit":"h q;","shots":9}"#, "h q;"),
            (52, r#""""#, "\"\""),
            (53, r#""a\u0000b""#, r#""a\u0000b""#),
        ] {
            let id = desk.submit(NewTask { payload: Json::payload(payload).unwrap(), ..task(n) }).await;
            let row = desk.row("SELECT circuit FROM circuits.tasks WHERE task_id = $1", id).await;
            assert_eq!(row.get::<_, &str>(0), circuit, "{payload}");
        }
    });
}

/// 3.3, 3.6: a first row, one row per change in the view's words, and default notes.
#[test]
fn status_history_speaks_the_words_of_document_003() {
    runtime().block_on(async {
        let desk = Desk::new().await;
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
            let found = desk.history(id).await;
            let found: Vec<_> = found.iter().map(|(status, note)| (&**status, &**note)).collect();
            assert_eq!(found, expected, "{state}");
        }
        let ids = desk.read("SELECT count(*), count(DISTINCT id) FROM circuits.status_history", &[]).await;
        assert_eq!(ids[0].get::<_, i64>(0), ids[0].get::<_, i64>(1), "3.3: ids are unique");
    });
}

/// 3.3 over a whole life: changes that four words cannot tell apart are one row; all others are rows in
/// order.
#[test]
fn status_history_follows_a_long_life() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let id = desk.submit(NewTask { start: Start::After(Duration::from_millis(1)), ..task(1) }).await;
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
        let found = desk.history(id).await;
        let words: Vec<&str> = found.iter().map(|(status, _)| &**status).collect();
        assert_eq!(
            words,
            ["pending", "processing", "pending", "processing", "pending", "processing", "completed"]
        );
        assert_eq!(found[2].1, "shutdown", "3.6: a note that was given is kept");
        assert_eq!(found[4].1, "Transitioned from processing to pending");
    });
}

/// One task's rows are found by keys, however many others there are.
#[test]
fn views_are_read_by_index() {
    runtime().block_on(async {
        let desk = Desk::new().await;
        let schema = &desk.schema;
        for view in [
            "orchestrator.tasks WHERE id",
            "circuits.tasks WHERE task_id",
            "circuits.status_history WHERE task_id",
        ] {
            // Small tables are scanned where that is cheaper; whether they must be shows when it is not.
            let sql = format!(
                "SET enable_seqscan = off; SET enable_bitmapscan = off;
                EXPLAIN (FORMAT TEXT) SELECT * FROM {schema}_{view} = '01900000-0000-7000-8000-000000000001'"
            );
            let plan = server().sql(&sql).unwrap();
            assert!(plan.contains("Index Scan using tasks_id"), "{view}:\n{plan}");
            assert!(!plan.contains("Seq Scan"), "{view}:\n{plan}");
        }
    });
}
