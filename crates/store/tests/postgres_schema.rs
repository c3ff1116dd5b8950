//! The schema: made once whoever starts first, refused when it is newer or was edited, several in one
//! database, applied by hand, on every version of the server that can be had; over TLS; through skewed
//! clocks.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_core::{Activity, Json, Name, NewTask, NewWorker, TaskId, Timestamp, TraceParent, WorkerId};
use windlass_store::postgres::{Options, PostgresStore, Schema, migrations_sql};
use windlass_store::{Claim, Error, Reads, Store, Writes};
use windlass_testbed::postgres::{self, Server};

fn options(server: &Server, schema: &str) -> Options {
    Options::new(&server.url()).unwrap().schema(Schema::new(schema).unwrap())
}

async fn open(server: &Server, schema: &str) -> PostgresStore {
    options(server, schema).open().await.unwrap()
}

fn task(n: u8, kind: &str) -> NewTask {
    NewTask::new(TaskId::from_bytes([n; 16]), Name::kind(kind).unwrap(), Json::payload("{\"a\": 1}").unwrap())
}

fn claim(worker: &WorkerId, kind: &str) -> Claim {
    Claim {
        worker: worker.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![Name::kind(kind).unwrap()],
        limit: 10,
    }
}

async fn refusal(server: &Server, schema: &str) -> String {
    match options(server, schema).open().await {
        Err(Error::Unusable(why)) => why,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[tokio::test]
async fn ten_that_start_at_once_make_one_schema() {
    let server = postgres::shared();
    let starting: Vec<_> = (0..10).map(|_| tokio::spawn(options(server, "at_once").open())).collect();
    for store in starting {
        store.await.unwrap().unwrap().close().await.unwrap();
    }
    let applied = server.sql("SELECT count(*), count(DISTINCT version) FROM at_once.migrations").unwrap();
    let known = options(server, "at_once").migrations().await.unwrap();
    assert_eq!(applied.trim(), format!("{0}|{0}", known.len()));
    assert!(known.iter().all(|migration| migration.applied_at.is_some()), "{known:?}");
}

#[tokio::test]
async fn looking_at_migrations_applies_none() {
    let server = postgres::shared();
    let found = options(server, "only_looked_at").migrations().await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|migration| migration.applied_at.is_none()), "{found:?}");
    assert!(found.iter().map(|migration| migration.version).eq(1..=i64::try_from(found.len()).unwrap()));
    let made = server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'only_looked_at'").unwrap();
    assert_eq!(made.trim(), "0");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let server = postgres::shared();
    open(server, "newer").await.close().await.unwrap();
    server.sql("INSERT INTO newer.migrations VALUES (999, 'tomorrow', 'x', now())").unwrap();
    let why = refusal(server, "newer").await;
    assert!(why.contains("version 999") && why.contains("use a newer windlass"), "{why}");
}

#[tokio::test]
async fn an_edited_migration_is_refused() {
    let server = postgres::shared();
    open(server, "edited").await.close().await.unwrap();
    server.sql("UPDATE edited.migrations SET checksum = 'x' WHERE version = 1").unwrap();
    let why = refusal(server, "edited").await;
    assert!(why.contains("migration 1"), "{why}");
}

#[tokio::test]
async fn what_a_hand_applied_is_accepted() {
    let server = postgres::shared();
    // From a file, as hands do: it is too long for an argument.
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), migrations_sql(&Schema::new("by_hand").unwrap())).unwrap();
    server.sql(&format!("\\i {}", script.path().display())).unwrap();
    let store = open(server, "by_hand").await;
    assert!(store.submit(vec![task(1, "k")]).await.unwrap()[0].created);
    store.close().await.unwrap();
}

/// What is there stays, and a function that got another parameter may be called by who might call it before.
#[tokio::test]
async fn a_schema_from_before_traces_is_brought_up_to_date() {
    let server = postgres::shared();
    let all = migrations_sql(&Schema::new("older").unwrap());
    let (before, _) = all.split_once("-- Migration 8: traces").unwrap();
    server
        .sql(&format!(
            "{before} COMMIT; CREATE ROLE courier; CREATE ROLE foreman; CREATE ROLE passer_by;
            GRANT EXECUTE ON FUNCTION older.submit TO courier;
            GRANT EXECUTE ON FUNCTION older.submit TO foreman WITH GRANT OPTION;
            INSERT INTO older.activity VALUES ('2026-01-01', 3, 5, 4, 1, 0, 0, 0, 0);
            SELECT older.submit('old', id => '{}')",
            task(1, "old").id
        ))
        .unwrap();
    let store = open(server, "older").await;
    let found = store.task(task(1, "old").id).await.unwrap().unwrap();
    assert_eq!(found.task.spec.traceparent, None);
    let traceparent = TraceParent::new([1; 16], [2; 8], 1);
    store.submit(vec![NewTask { traceparent, ..task(2, "new") }]).await.unwrap();
    assert_eq!(store.task(task(2, "new").id).await.unwrap().unwrap().task.spec.traceparent, traceparent);
    let activity = store.activity(Timestamp::MIN, None).await.unwrap();
    assert_eq!((activity.started, activity.completed, activity.failed), (5, 4, 1), "of no known namespace");
    let of_one = store.activity(Timestamp::MIN, Some(Name::default())).await.unwrap();
    assert_eq!(of_one, Activity::default());
    let may = |role: &str, what: &str| {
        let sql = format!(
            "SELECT has_function_privilege('{role}', oid, '{what}') FROM pg_proc
            WHERE proname = 'submit' AND pronamespace = 'older'::regnamespace"
        );
        server.sql(&sql).unwrap().trim().to_owned()
    };
    assert_eq!((may("courier", "EXECUTE"), may("passer_by", "EXECUTE")), ("t".into(), "f".into()));
    let grant = "EXECUTE WITH GRANT OPTION";
    assert_eq!((may("foreman", grant), may("courier", grant)), ("t".into(), "f".into()));
    store.close().await.unwrap();
}

/// A function that runs with its owner's rights is closed to everybody who was not let in.
#[tokio::test]
async fn functions_with_the_rights_of_their_owner_are_closed_to_the_public() {
    let server = postgres::shared();
    let all = migrations_sql(&Schema::new("guarded").unwrap());
    let (before, _) = all.split_once("-- Migration 10: feed_rights").unwrap();
    server
        .sql(&format!(
            "{before} COMMIT; CREATE ROLE server; CREATE ROLE submitter; GRANT UPDATE ON guarded.listening TO server"
        ))
        .unwrap();
    open(server, "guarded").await.close().await.unwrap();
    let functions = server
        .sql(
            "SELECT p.proname || ' ' || has_function_privilege('submitter', p.oid, 'EXECUTE')
            FROM pg_proc p WHERE p.prosecdef AND p.pronamespace = 'guarded'::regnamespace ORDER BY p.proname",
        )
        .unwrap();
    let found: Vec<&str> = functions.lines().filter(|line| !line.is_empty()).collect();
    assert!(found.contains(&"submit false") && found.contains(&"follow_listening false"), "{found:?}");
    let open: Vec<_> = found.iter().filter(|line| !line.ends_with(" false")).collect();
    assert!(open.is_empty(), "everybody may call {open:?}");
    let may = "SELECT has_function_privilege('server', 'guarded.switch_feed(boolean)', 'EXECUTE')";
    assert_eq!(server.sql(may).unwrap().trim(), "t", "who used the feed before may go on");
}

#[tokio::test]
async fn two_in_one_database_do_not_meet() {
    let server = postgres::shared();
    let (one, other) = (open(server, "tenant_one").await, open(server, "tenant_two").await);
    one.submit(vec![task(1, "k")]).await.unwrap();
    assert_eq!(other.task(TaskId::from_bytes([1; 16])).await.unwrap(), None);
    let worker = WorkerId::new("w").unwrap();
    other.register(NewWorker::new(worker.clone())).await.unwrap();
    assert!(other.claim(claim(&worker, "k")).await.unwrap().is_empty());
    assert!(one.workers().await.unwrap().is_empty());
    other.submit(vec![task(1, "k")]).await.unwrap();
    assert_eq!(other.claim(claim(&worker, "k")).await.unwrap().len(), 1, "the same id is another task");
}

#[tokio::test]
async fn every_version_that_is_here_will_do() {
    let installations = postgres::installations();
    assert!(!installations.is_empty());
    for installation in installations {
        let server = Server::start_with(&installation).unwrap();
        let store = Arc::new(open(&server, "windlass").await);
        let worker = WorkerId::new("w").unwrap();
        store.register(NewWorker::new(worker.clone())).await.unwrap();
        store.submit(vec![task(1, "k")]).await.unwrap();
        assert_eq!(store.claim(claim(&worker, "k")).await.unwrap().len(), 1, "{}", server.version());
        let told = store.describe().await.unwrap();
        assert!(told.contains(&("wake-up".into(), "notifications".into())), "{told:?}");
        assert!(
            told.iter()
                .any(|(name, value)| *name == "postgresql version" && value.starts_with(server.version()))
        );
        store.close().await.unwrap();
    }
}

/// C27, "the database's clock decides": moments are the server's, whatever this machine believes. There is no
/// second machine to set wrong, so the server's clock is compared with what is stored.
#[tokio::test]
async fn moments_are_the_servers() {
    let server = postgres::shared();
    let store = open(server, "moments").await;
    let before = server.sql("SELECT extract(epoch FROM clock_timestamp()) * 1000000").unwrap();
    store.submit(vec![task(1, "k")]).await.unwrap();
    let now = store.now().await.unwrap().as_micros();
    let created =
        store.task(TaskId::from_bytes([1; 16])).await.unwrap().unwrap().task.spec.created_at.as_micros();
    let before = before.trim().split('.').next().unwrap().parse::<i64>().unwrap();
    // What was told last may be a moment behind, by the time that an answer took.
    let slack = i64::try_from(Duration::from_secs(1).as_micros()).unwrap();
    assert!(before - slack <= created && created <= now + slack, "{before} {created} {now}");
    assert!(SystemTime::now() > SystemTime::UNIX_EPOCH);
}

#[tokio::test]
async fn addresses_that_cannot_be_used_say_why() {
    for (address, why) in [
        ("postgres://127.0.0.1:1/x?user=u", "cannot be reached"),
        ("postgres://u:secret@127.0.0.1:1/x", "cannot be reached"),
        ("postgres://u:secret@127.0.0.1/x?schema=Bad-Name", "schema"),
        ("postgres://u:secret@127.0.0.1/x?connections=0", "connections"),
        ("postgres://u:secret@127.0.0.1/x?nonsense=1", "store address"),
        ("postgres://u:secret@127.0.0.1/x?sslrootcert=/nowhere", "sslrootcert"),
    ] {
        let error = match Options::new(address) {
            Ok(options) => options.open().await.expect_err("not opened").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(why), "{address}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
