//! The schema by itself: its statements, their plans, and what the database refuses even if the program errs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, params};
use support::{file, open, place};
use tempfile::TempDir;
use windlass_core::{Activity, Json, Name, NewTask, TaskId, Timestamp, TraceParent};
use windlass_store::{Reads, Store, Writes};

/// A migrated database, without the store.
fn migrated() -> (TempDir, Connection) {
    let directory = place();
    drop(open(&file(&directory)));
    let connection = Connection::open(file(&directory)).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    (directory, connection)
}

/// The statements of `src/sqlite/sql`, by name.
fn statements() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/sql");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// Payloads may be secret: the files are the owner's alone, whatever the umask; a file that is there keeps
/// its mode.
#[cfg(unix)]
#[test]
fn files_are_created_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let with = |path: &Path, end: &str| std::path::PathBuf::from(format!("{}{end}", path.display()));
    let directory = place();
    let created = file(&directory);
    let store = open(&created);
    for end in ["", "-wal", "-shm"] {
        assert_eq!(mode(&with(&created, end)), 0o600, "{end}");
    }
    drop(store);
    let shared = directory.path().join("shared.db");
    std::fs::write(&shared, "").unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o664)).unwrap();
    let store = open(&shared);
    assert_eq!((mode(&shared), mode(&with(&shared, "-wal"))), (0o664, 0o664));
    drop(store);
}

#[test]
fn every_statement_prepares() {
    let (_directory, connection) = migrated();
    let statements = statements();
    assert!(statements.len() > 40, "only {} statements were found", statements.len());
    for (name, sql) in statements {
        if let Err(error) = connection.prepare(&sql) {
            panic!("{name}.sql: {error}");
        }
    }
}

/// Fills `tasks` with `count` rows of all sorts, by hand: a backlog, lanes with one slot, and mostly finished
/// work.
fn fill(connection: &Connection, count: i64) {
    let states = [
        "completed",
        "completed",
        "completed",
        "pending",
        "pending",
        "claimed",
        "running",
        "scheduled",
        "waiting_for_retry",
        "failed",
        "dead_letter",
        "cancelled",
        "resolved_manually",
        "completed",
        "completed",
        "completed",
    ];
    let mut insert = connection
        .prepare(
            "INSERT INTO tasks (seq, id, namespace, queue, kind, state, priority, per_hour, per_retry, key, lane,
                lane_limit, lane_strict, created_at, attempt, lease, worker, claimed_at, due_at, finished_at, updated_at, error, slot,
                rank, entries, result)
             SELECT ?1, randomblob(16), 'default', 'q' || (?1 % 3), 'k' || (?1 % 5), ?2, 0, 0, 0,
                iif(?1 % 7 = 0, 'key' || ?1, NULL), iif(?3, 'lane' || (?1 % 50), NULL), iif(?3, 1, NULL),
                iif(?3, 0, NULL), ?1, 0, 0, iif(?2 IN ('claimed', 'running', 'completed'), 'w' || (?1 % 9), NULL),
                iif(?2 IN ('claimed', 'running', 'completed'), ?1, NULL),
                iif(?2 IN ('scheduled', 'waiting_for_retry'), ?1, NULL),
                iif(?2 IN ('completed', 'failed', 'dead_letter', 'cancelled', 'resolved_manually'), ?1, NULL), ?1,
                iif(?2 IN ('waiting_for_retry', 'failed', 'dead_letter'), 'error', NULL),
                ?3 AND ?2 IN ('claimed', 'running'), ?1 % 11, 1, iif(?2 = 'completed', 'null', NULL)",
        )
        .unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for (seq, state) in (1..=count).zip(states.into_iter().cycle()) {
        insert.execute(params![seq, state, seq % 13 == 0]).unwrap();
    }
    connection
        .execute_batch(
            "INSERT INTO notes SELECT seq, 1 + value, NULL, NULL, 0, '[]' FROM tasks, (SELECT 1 AS value UNION ALL SELECT 2)
                WHERE seq % 3 = 0;
             INSERT INTO schedules SELECT 'default', 's' || seq, '* * * * *', 'UTC', '{}', 'one', 'allow', seq % 4 = 0,
                seq, NULL, NULL, 0, 0, NULL, 0, NULL FROM tasks WHERE seq % 20 = 0;
             INSERT INTO entities SELECT 'default', 'planner:' || seq FROM tasks WHERE seq % 2 = 0",
        )
        .unwrap();
    let workers = "INSERT INTO workers SELECT 'w' || value, 'default', '', '', 1, '[]', '[]', 30, 0, 0, NULL
        FROM (SELECT 1 AS value UNION ALL SELECT 2 UNION ALL SELECT 3)";
    connection.execute_batch(&format!("{workers}; COMMIT")).unwrap();
}

/// The statements of the hot paths, with the index each is to use. Those marked may sort what the index
/// found.
const PLANS: &[(&str, &str, bool)] = &[
    ("claimable", "tasks_claimable", false),
    ("task_by_id", "sqlite_autoindex_tasks_1", false),
    ("task_by_key", "tasks_key", false),
    ("lane_head", "tasks_parked", false),
    ("lane_taken", "tasks_slots", false),
    ("lane_holders", "tasks_slots", false),
    ("due", "tasks_due (due_at<?)", false),
    ("next_due", "tasks_due (due_at>?)", false),
    ("due_to_claim", "tasks_due_to_claim (namespace=? AND queue=? AND kind=? AND due_at<?)", false),
    ("orphans", "tasks_held", true),
    ("expired", "tasks_finished", false),
    ("list_oldest", "INTEGER PRIMARY KEY", false),
    ("list_newest", "INTEGER PRIMARY KEY", false),
    ("list_state_oldest", "tasks_unusual", false),
    ("list_state_newest", "tasks_unusual", false),
    ("list_pending_oldest", "tasks_claimable", true),
    ("list_pending_oldest", "tasks_parked", true),
    ("list_pending_newest", "tasks_claimable", true),
    ("list_pending_newest", "tasks_parked", true),
    ("list_held_oldest", "tasks_held", true),
    ("list_held_newest", "tasks_held", true),
    ("update_status", "INTEGER PRIMARY KEY", false),
    ("give_slot", "INTEGER PRIMARY KEY", false),
    ("delete_task", "INTEGER PRIMARY KEY", false),
    ("result", "INTEGER PRIMARY KEY", false),
    ("payload", "INTEGER PRIMARY KEY", false),
    ("history", "PRIMARY KEY (task=?)", false),
    ("notes", "sqlite_autoindex_notes_1 (task=?)", false),
    ("attempt_notes", "sqlite_autoindex_notes_1 (task=? AND lease=?)", false),
    ("last_details", "sqlite_autoindex_notes_1 (task=?)", false),
    ("next_parked_lane", "tasks_parked ((namespace,lane)>(?,?))", false),
    ("schedule", "sqlite_autoindex_schedules_1 (namespace=? AND name=?)", false),
    ("delete_schedule", "sqlite_autoindex_schedules_1 (namespace=? AND name=?)", false),
    ("schedules", "sqlite_autoindex_schedules_1", false),
    ("due_schedules", "schedules_due (next_at<?)", false),
    ("next_slot", "schedules_due (next_at>? AND next_at<?)", false),
    ("workflows_of_step_newest", "workflows_parent (parent=? AND rowid<?)", false),
    ("workflows_of_step_oldest", "workflows_parent (parent=? AND rowid>?)", false),
    ("entities", "PRIMARY KEY (namespace=? AND entity>?)", false),
];

/// What is wrong with the plan of a statement, as a line for people.
fn fault(connection: &Connection, name: &str, sql: &str, index: &str, may_sort: bool) -> Option<String> {
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps =
        plan.raw_query().mapped(|row| row.get::<_, String>(3)).map(Result::unwrap).collect::<Vec<_>>();
    let uses = steps.iter().any(|step| step.contains(index));
    // Walking an index that holds nothing but what is wanted is fine; walking the table is not.
    let narrow = ["tasks_held", "tasks_claimable", "tasks_parked"];
    let is_walk = |step: &String| {
        step.starts_with("SCAN tasks") && !narrow.iter().any(|index| step.contains(index))
            || step.starts_with("SCAN t ") && !step.contains("tasks_held")
    };
    let sorts = steps.iter().any(|step| step.contains("TEMP B-TREE"));
    let fine = uses && !steps.iter().any(is_walk) && (may_sort || !sorts);
    (!fine).then(|| format!("{name}.sql was to use {index}, but: {}", steps.join("; ")))
}

/// The hot paths read no more than they need, whatever the tables hold and whether or not somebody ran
/// ANALYZE.
#[test]
fn hot_statements_use_their_indexes() {
    let (statements, mut faults) = (statements(), Vec::new());
    for (rows, analyzed) in [(0, false), (0, true), (40, false), (40, true), (20_000, false), (20_000, true)]
    {
        let (directory, connection) = migrated();
        fill(&connection, rows);
        if analyzed {
            connection.execute_batch("ANALYZE").unwrap();
        }
        // Statistics are read when a connection is opened.
        let connection = Connection::open(file(&directory)).unwrap();
        for (name, index, may_sort) in PLANS {
            let fault = fault(&connection, name, &statements[*name], index, *may_sort);
            faults.extend(fault.map(|fault| format!("{rows} rows, analyzed: {analyzed}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A task as the store would insert it, and the columns that a test sets otherwise.
fn insert(connection: &Connection, changes: &[(&str, &str)]) -> rusqlite::Result<usize> {
    let mut row: BTreeMap<&str, &str> = [
        ("id", "randomblob(16)"),
        ("namespace", "'default'"),
        ("queue", "'default'"),
        ("kind", "'k'"),
        ("state", "'pending'"),
        ("priority", "0"),
        ("per_hour", "0"),
        ("per_retry", "0"),
        ("max_attempts", "3"),
        ("created_at", "0"),
        ("attempt", "0"),
        ("lease", "0"),
        ("updated_at", "0"),
        ("slot", "0"),
        ("rank", "0"),
        ("entries", "1"),
    ]
    .into();
    row.extend(changes.iter().copied());
    let (columns, values): (Vec<&str>, Vec<&str>) = row.into_iter().unzip();
    connection
        .execute(&format!("INSERT INTO tasks ({}) VALUES ({})", columns.join(", "), values.join(", ")), [])
}

/// States that a worker is or was needed for; [`impossible_tasks_are_refused_by_the_database`] gives them
/// one.
const HELD: &[&str] = &["claimed", "running", "completed"];

type Example = (&'static str, &'static [(&'static str, &'static str)]);

/// What is to be accepted: a state, and the columns beside it.
const POSSIBLE: &[Example] = &[
    ("pending", &[]),
    ("waiting", &[("waits", "'parents'"), ("is_step", "1")]),
    (
        "completed",
        &[
            ("worker", "NULL"),
            ("claimed_at", "NULL"),
            ("finished_at", "1"),
            ("result", "'1'"),
            ("is_step", "1"),
        ],
    ),
    ("scheduled", &[("due_at", "1")]),
    ("claimed", &[]),
    ("running", &[("started_at", "1"), ("attempt", "3"), ("lease", "9")]),
    ("waiting_for_retry", &[("due_at", "1"), ("error", "'e'")]),
    ("completed", &[("finished_at", "1"), ("result", "'null'")]),
    ("failed", &[("finished_at", "1"), ("error", "'e'")]),
    ("dead_letter", &[("finished_at", "1"), ("error", "'e'")]),
    ("cancelled", &[("finished_at", "1")]),
    ("skipped", &[("finished_at", "1")]),
    ("resolved_manually", &[("finished_at", "1")]),
    ("resolved_manually", &[("finished_at", "1"), ("result", "'1'")]),
    ("pending", &[("lane", "'l'"), ("lane_limit", "1"), ("lane_strict", "0"), ("slot", "1")]),
    ("pending", &[("max_attempts", "NULL"), ("attempt", "9"), ("lease", "9")]),
    ("pending", &[("key", "'k'")]),
];

/// What is to be refused: each differs in one thing from what is accepted.
const IMPOSSIBLE: &[Example] = &[
    ("waiting", &[]),
    ("pending", &[("waits", "'parents'")]),
    ("pending", &[("is_step", "2")]),
    ("sleeping", &[]),
    ("PENDING", &[]),
    ("pending", &[("state", "NULL")]),
    ("pending", &[("result", "'1'")]),
    ("running", &[("result", "'1'")]),
    ("failed", &[("finished_at", "1"), ("error", "'e'"), ("result", "'1'")]),
    ("cancelled", &[("finished_at", "1"), ("result", "'1'")]),
    ("completed", &[("finished_at", "1")]),
    ("completed", &[("result", "'1'")]),
    ("completed", &[("finished_at", "1"), ("result", "'1'"), ("error", "'e'")]),
    ("cancelled", &[]),
    ("skipped", &[]),
    ("resolved_manually", &[]),
    ("failed", &[("error", "'e'")]),
    ("dead_letter", &[("error", "'e'")]),
    ("pending", &[("finished_at", "1")]),
    ("running", &[("finished_at", "1")]),
    ("failed", &[("finished_at", "1")]),
    ("failed", &[("finished_at", "1"), ("error", "''")]),
    ("dead_letter", &[("finished_at", "1")]),
    ("pending", &[("error", "'e'")]),
    ("running", &[("error", "'e'")]),
    ("waiting_for_retry", &[("due_at", "1")]),
    ("waiting_for_retry", &[("error", "'e'")]),
    ("scheduled", &[]),
    ("pending", &[("due_at", "1")]),
    ("claimed", &[("worker", "NULL"), ("claimed_at", "NULL")]),
    ("running", &[("worker", "NULL"), ("claimed_at", "NULL")]),
    ("pending", &[("attempt", "-1")]),
    ("pending", &[("attempt", "4"), ("lease", "4")]),
    ("pending", &[("attempt", "1")]),
    ("pending", &[("max_attempts", "0")]),
    ("pending", &[("slot", "1")]),
    ("pending", &[("slot", "2"), ("lane", "'l'"), ("lane_limit", "1"), ("lane_strict", "0")]),
    ("pending", &[("lane", "'l'")]),
    ("pending", &[("lane_limit", "1")]),
    ("pending", &[("lane", "''"), ("lane_limit", "1"), ("lane_strict", "0")]),
    ("pending", &[("key", "'k'")]),
    ("pending", &[("key", "''")]),
    ("pending", &[("id", "x'00'")]),
    ("pending", &[("id", "'0123456789abcdef'")]),
    ("pending", &[("id", "(SELECT id FROM tasks LIMIT 1)")]),
    ("pending", &[("namespace", "''")]),
    ("pending", &[("queue", "''")]),
    ("pending", &[("kind", "''")]),
    ("pending", &[("timeout", "0")]),
    ("pending", &[("traceparent", "'00-0af7'")]),
    ("pending", &[("per_hour", "-1")]),
    ("pending", &[("entries", "0")]),
    ("pending", &[("priority", "'high'")]),
];

/// What was there before tasks could be part of a trace is there after, and part of none.
#[test]
fn a_file_from_before_traces_is_brought_up_to_date() {
    let directory = place();
    let path = file(&directory);
    let task = |n: u8| NewTask::new(TaskId::from_bytes([n; 16]), Name::kind("k").unwrap(), Json::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = open(&path);
        store.submit(vec![task(1)]).await.unwrap();
        store.close().await.unwrap();
        let first = include_str!("../src/sqlite/migrations/001_tasks.sql");
        let view =
            &first[first.find("CREATE VIEW task_rows").unwrap()..first.find("-- Apart from tasks").unwrap()];
        let limits = ["namespaces", "groups", "previous", "last_used_at"];
        let limits =
            limits.map(|column| format!("ALTER TABLE access_tokens DROP COLUMN {column};")).join(" ");
        let fourth = include_str!("../src/sqlite/migrations/004_workflows.sql");
        let activity = &fourth[fourth.find("CREATE TABLE activity").unwrap()..];
        let activity = &activity[..=activity.find(';').unwrap()];
        let older = format!(
            "DROP TABLE activity; {activity} INSERT INTO activity VALUES (60000000, 5, 4, 1, 0, 0, 0, 0);
            {limits} DROP TABLE had_access_tokens; ALTER TABLE audit DROP COLUMN namespace; DROP INDEX tasks_due_to_claim; ALTER TABLE workers DROP COLUMN secret; ALTER TABLE schedules DROP COLUMN left_out;
            DROP VIEW task_rows; ALTER TABLE tasks DROP COLUMN traceparent; {view} DELETE FROM migrations WHERE version >= 7"
        );
        Connection::open(&path).unwrap().execute_batch(&older).unwrap();
        let store = open(&path);
        let traceparent = TraceParent::new([1; 16], [2; 8], 1);
        store.submit(vec![NewTask { traceparent, ..task(2) }]).await.unwrap();
        for (n, expected) in [(1, None), (2, traceparent)] {
            let record = store.task(task(n).id).await.unwrap().unwrap();
            assert_eq!(record.task.spec.traceparent, expected);
        }
        let activity = store.activity(Timestamp::MIN, None).await.unwrap();
        assert_eq!((activity.started, activity.completed, activity.failed), (5, 4, 1), "of no known namespace");
        let of_one = store.activity(Timestamp::MIN, Some(Name::default())).await.unwrap();
        assert_eq!(of_one, Activity::default());
        store.close().await.unwrap();
    });
}

/// 0.15, 3.2: what must never be stored is refused by the database itself.
#[test]
fn impossible_tasks_are_refused_by_the_database() {
    let (_directory, connection) = migrated();
    let accepts = |state: &str, more: &[(&str, &str)]| {
        let state = format!("'{state}'");
        let held = [("worker", "'w'"), ("claimed_at", "1"), ("attempt", "1"), ("lease", "1")];
        let held = &held[..if HELD.contains(&state.trim_matches('\'')) { 4 } else { 0 }];
        insert(&connection, &[&[("state", &*state)], held, more].concat()).is_ok()
    };
    for (state, more) in POSSIBLE {
        assert!(accepts(state, more), "the database refused {state} with {more:?}");
    }
    let accepted: Vec<_> = IMPOSSIBLE.iter().filter(|(state, more)| accepts(state, more)).collect();
    assert!(accepted.is_empty(), "the database accepted {accepted:#?}");
}

/// 3.3, I9: rows of the history are never altered and go only with their task, which takes its payload too.
#[test]
fn history_is_append_only_and_goes_with_its_task() {
    let (_directory, connection) = migrated();
    insert(&connection, &[("seq", "1")]).unwrap();
    let entry = "INSERT INTO history VALUES (1, ?, 'pending', 0, 'submitted', NULL, NULL)";
    connection.execute(entry, [1]).unwrap();
    connection.execute(entry, [2]).unwrap();
    connection.execute("INSERT INTO payloads VALUES (1, '{}')", []).unwrap();
    connection.execute("INSERT INTO notes VALUES (1, 1, NULL, NULL, 0, '[]')", []).unwrap();
    for (sql, says) in [
        ("UPDATE history SET note = 'forged'", "append-only"),
        ("UPDATE history SET n = 7 WHERE n = 2", "append-only"),
        ("DELETE FROM history WHERE n = 2", "deleted only with its task"),
        ("DELETE FROM history", "deleted only with its task"),
        ("INSERT INTO history VALUES (1, 2, 'pending', 0, 'submitted', NULL, NULL)", "UNIQUE"),
        ("INSERT INTO history VALUES (1, 0, 'pending', 0, 'submitted', NULL, NULL)", "CHECK"),
        ("INSERT INTO history VALUES (2, 1, 'pending', 0, 'submitted', NULL, NULL)", "FOREIGN KEY"),
        ("INSERT INTO payloads VALUES (2, '{}')", "FOREIGN KEY"),
        ("INSERT INTO notes VALUES (2, 1, NULL, NULL, 0, '[]')", "FOREIGN KEY"),
        ("INSERT INTO notes VALUES (1, 1, NULL, NULL, 0, '[]')", "UNIQUE"),
    ] {
        let error = connection.execute(sql, []).expect_err(sql).to_string();
        assert!(error.contains(says), "{sql}: {error}");
    }
    let left = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((left("history"), left("payloads"), left("notes")), (2, 1, 1), "refusals change nothing");
    connection.execute("DELETE FROM tasks", []).unwrap();
    assert_eq!(
        (left("history"), left("payloads"), left("notes")),
        (0, 0, 0),
        "a task takes along what belongs to it"
    );
}

/// The counts, the leader, the sequence, notes and schedules refuse what would break them.
#[test]
fn the_other_tables_refuse_nonsense_too() {
    let (_directory, connection) = migrated();
    insert(&connection, &[("seq", "1")]).unwrap();
    let schedule = |values: &str| format!("INSERT INTO schedules VALUES ({values}, 0, 0, NULL, 0, NULL)");
    let good = schedule("'n', 's', '@daily', 'UTC', '{}', 'one', 'allow', 0, 0, NULL, NULL");
    connection.execute(&good, []).unwrap();
    for sql in [
        &*good,
        &schedule("'n', '', '@daily', 'UTC', '{}', 'one', 'allow', 0, 0, NULL, NULL"),
        &schedule("'n', 't', '', 'UTC', '{}', 'one', 'allow', 0, 0, NULL, NULL"),
        &schedule("'n', 't', '@daily', 'UTC', '{}', 'one', 'allow', 2, 0, NULL, NULL"),
        &schedule("'n', 't', '@daily', 'UTC', '{}', 'one', 'allow', 0, NULL, NULL, NULL"),
        &schedule("'n', 't', '@daily', 'UTC', '{}', 'one', 'allow', 0, 0, NULL, x'00'"),
        "UPDATE schedules SET fired = -1",
        "INSERT INTO notes VALUES (1, 0, NULL, NULL, 0, '[]')",
        "INSERT INTO notes VALUES (1, 1, NULL, NULL, -1, '[]')",
        "INSERT INTO notes VALUES (1, 1, NULL, NULL, 0, NULL)",
        "INSERT INTO counts VALUES ('n', 'q', 'k', 'pending', -1)",
        "INSERT INTO leader VALUES (2, 'w', 1, 0)",
        "INSERT INTO sequence VALUES (2, 0)",
        "INSERT INTO workers (id) VALUES ('w')",
        "INSERT INTO workers VALUES ('w', 'n', 'h', '', 1, '[]', '[]', 30, 0, 0, x'00')",
        "INSERT INTO history VALUES (1, 1, 'pending', 'noon', 'submitted', NULL, NULL)",
    ] {
        assert!(connection.execute(sql, []).is_err(), "accepted: {sql}");
    }
}
