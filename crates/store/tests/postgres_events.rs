//! The feed of changes where only PostgreSQL can get it wrong: transactions that end in another order than
//! they began, changes that SQL makes, old snapshots, those who were at work when somebody began to listen,
//! and roles with few rights.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};
use windlass_core::{Change, EventId, Json, Name, NewTask, Retention, State, TaskId};
use windlass_store::postgres::{Options, PostgresStore, Schema};
use windlass_store::{Error, Reads, Store, Writes};
use windlass_testbed::postgres;

async fn open(schema: &str) -> PostgresStore {
    let options = Options::new(&postgres::shared().url()).unwrap();
    options.schema(Schema::new(schema).unwrap()).open().await.unwrap()
}

/// A connection of somebody else, whose statements find the schema.
async fn connect(schema: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&postgres::shared().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    client
}

fn task(n: u8) -> NewTask {
    NewTask::new(TaskId::from_bytes([n; 16]), Name::kind("k").unwrap(), Json::default())
}

fn id(n: u8) -> TaskId {
    TaskId::from_bytes([n; 16])
}

/// The tasks that are told after `last`, once `until` is among them.
async fn told(store: &PostgresStore, last: &mut EventId, until: TaskId) -> Vec<(TaskId, State)> {
    let (mut all, begun) = (Vec::new(), Instant::now());
    while !all.iter().any(|(task, _)| *task == until) {
        let told = store.events(Some(*last), 100).await.unwrap();
        assert!(told.complete);
        *last = told.last;
        all.extend(told.events.into_iter().map(|event| match event.change {
            Change::Task { task, state, .. } => (task, state),
            Change::Workflow { .. } => panic!("{event:?}"),
        }));
        assert!(begun.elapsed() < Duration::from_secs(20), "{until} is told; so far {all:?}");
    }
    all
}

async fn submit_sql(client: &Client, n: u8) {
    client.batch_execute(&format!("SELECT submit('k', id => '{}')", id(n))).await.unwrap();
}

/// Whoever is given the lower number may commit later. Nothing is told past it until it has ended, and then
/// both are.
#[tokio::test]
async fn an_open_transaction_delays_and_loses_nothing() {
    let store = open("events_open").await;
    let mut last = store.events(None, 1).await.unwrap().last;
    let slow = connect("events_open").await;
    slow.batch_execute("BEGIN").await.unwrap();
    submit_sql(&slow, 1).await;
    store.submit(vec![task(2)]).await.unwrap();
    let early = store.events(Some(last), 100).await.unwrap();
    assert_eq!(
        (early.events.len(), early.complete, early.last),
        (0, true, last),
        "the first is not there yet"
    );
    slow.batch_execute("COMMIT").await.unwrap();
    assert_eq!(told(&store, &mut last, id(2)).await, [(id(1), State::Pending), (id(2), State::Pending)]);
    let undone = connect("events_open").await;
    undone.batch_execute("BEGIN").await.unwrap();
    submit_sql(&undone, 3).await;
    undone.batch_execute("ROLLBACK").await.unwrap();
    store.submit(vec![task(4)]).await.unwrap();
    assert_eq!(
        told(&store, &mut last, id(4)).await,
        [(id(4), State::Pending)],
        "what was undone is not told"
    );
}

/// Who was given the lower number may change what one with a higher number has made, if that one was quicker.
/// What comes last is told last.
#[tokio::test]
async fn changes_of_a_task_are_told_in_their_order() {
    let store = open("events_order").await;
    let mut last = store.events(None, 1).await.unwrap().last;
    let slow = connect("events_order").await;
    slow.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    store.submit(vec![task(1)]).await.unwrap();
    store.submit(vec![task(2)]).await.unwrap();
    let claim = "UPDATE live SET state = 'claimed', attempt = 1, lease = 1, worker = 'w', claimed_at = updated_at, entries = 2
        WHERE seq = (SELECT min(seq) FROM live)";
    slow.batch_execute(claim).await.unwrap();
    slow.batch_execute("COMMIT").await.unwrap();
    let all = [(id(1), State::Pending), (id(2), State::Pending), (id(1), State::Claimed)];
    let mut heard = Vec::new();
    while heard.len() < all.len() {
        heard.extend(told(&store, &mut last, id(1)).await);
    }
    assert_eq!(heard, all);
}

/// Any language may submit, and whoever listens does not care which.
#[tokio::test]
async fn what_sql_does_is_told() {
    let store = open("events_sql").await;
    let client = connect("events_sql").await;
    submit_sql(&client, 1).await;
    let mut last = store.events(None, 1).await.unwrap().last;
    submit_sql(&client, 2).await;
    assert_eq!(told(&store, &mut last, id(2)).await, [(id(2), State::Pending)]);
    let cancelled = windlass_core::Command::Cancel { task: id(1), by: windlass_core::By::default() };
    store.apply(vec![cancelled]).await.unwrap().remove(0).unwrap();
    assert_eq!(told(&store, &mut last, id(1)).await, [(id(1), State::Cancelled)]);
}

/// A transaction that began to look before anybody listened tells nevertheless.
#[tokio::test]
async fn an_old_snapshot_does_not_keep_it_silent() {
    let store = open("events_snapshot").await;
    let old = connect("events_snapshot").await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tasks").await.unwrap();
    let mut last = store.events(None, 1).await.unwrap().last;
    submit_sql(&old, 1).await;
    old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(told(&store, &mut last, id(1)).await, [(id(1), State::Pending)]);
}

/// One that had changed tasks already may not have known: who begins to listen waits for it. One that only
/// looks is not waited for.
#[tokio::test]
async fn who_begins_waits_for_those_at_work() {
    let store = std::sync::Arc::new(open("events_begin").await);
    let (busy, idle) = (connect("events_begin").await, connect("events_begin").await);
    idle.batch_execute("BEGIN; SELECT count(*) FROM live").await.unwrap();
    busy.batch_execute("BEGIN").await.unwrap();
    submit_sql(&busy, 1).await;
    let listening = tokio::spawn({
        let store = store.clone();
        async move { store.events(None, 1).await }
    });
    // Others are not held up meanwhile, and know that it begins as soon as it has.
    let begun = Instant::now();
    let is_on = "SELECT until > now() FROM listening";
    let looker = connect("events_begin").await;
    while !looker.query_one(is_on, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is switched on");
    }
    store.submit(vec![task(2)]).await.unwrap();
    assert!(!listening.is_finished(), "the one at work has not ended");
    submit_sql(&busy, 3).await;
    busy.batch_execute("COMMIT").await.unwrap();
    let mut last = listening.await.unwrap().unwrap().last;
    store.submit(vec![task(4)]).await.unwrap();
    let all = told(&store, &mut last, id(4)).await;
    assert!(!all.contains(&(id(1), State::Pending)), "it was before: {all:?}");
}

/// Off, on, and off again when nobody has asked for long.
#[tokio::test]
async fn pruning_switches_off_what_nobody_listens_to() {
    let clock = std::sync::Arc::new(windlass_store::ManualClock::new(windlass_store::conformance::START));
    let options = Options::new(&postgres::shared().url()).unwrap();
    let options = options.schema(Schema::new("events_off").unwrap()).clock(clock.clone());
    let store = options.open().await.unwrap();
    let client = connect("events_off").await;
    let switch =
        async || client.query_one("SELECT last_value FROM listened", &[]).await.unwrap().get::<_, i64>(0);
    let written =
        async || client.query_one("SELECT count(*) FROM events", &[]).await.unwrap().get::<_, i64>(0);
    store.submit(vec![task(1)]).await.unwrap();
    assert_eq!((switch().await, written().await), (1, 0), "nothing is written if nobody listens");
    store.events(None, 1).await.unwrap();
    store.submit(vec![task(2)]).await.unwrap();
    assert_eq!((switch().await, written().await), (2, 1));
    clock.advance(windlass_core::limits::LISTENED);
    store.prune(Retention::default(), 1).await.unwrap();
    assert_eq!(switch().await, 2, "not before it is over for sure");
    clock.advance(Duration::from_secs(60));
    store.submit(vec![task(3)]).await.unwrap();
    assert_eq!(written().await, 1, "it is over");
    store.prune(Retention::default(), 1).await.unwrap();
    assert_eq!(switch().await, 1);
    store.events(None, 1).await.unwrap();
    store.submit(vec![task(4)]).await.unwrap();
    assert_eq!((switch().await, written().await), (2, 2));
}

/// The rights that the documentation gives to an application are enough.
#[tokio::test]
async fn a_role_with_few_rights_may_listen() {
    let server = postgres::shared();
    open("events_role").await.close().await.unwrap();
    let grants = "CREATE ROLE listener LOGIN; GRANT USAGE ON SCHEMA events_role TO listener;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA events_role TO listener;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA events_role TO listener";
    server.sql(grants).unwrap();
    let url = server.url();
    let (_, place) = url.split_once('@').expect("the address names a user");
    let options = Options::new(&format!("postgres://listener@{place}")).unwrap();
    let store = options.schema(Schema::new("events_role").unwrap()).open().await.unwrap();
    let mut last = store.events(None, 1).await.unwrap().last;
    store.submit(vec![task(1)]).await.unwrap();
    assert_eq!(told(&store, &mut last, id(1)).await, [(id(1), State::Pending)]);
    assert!(!matches!(store.prune(Retention::default(), 1).await, Err(Error::Unusable(_))));
}
