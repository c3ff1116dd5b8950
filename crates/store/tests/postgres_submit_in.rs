//! Submitting inside a transaction of the caller's.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_core::{
    Ageing, Entity, Json, Lane, Name, NewTask, OnConflict, Rejected, Start, TaskId, TraceParent, WorkflowId,
};
use windlass_store::conformance::{ad_hoc, definition, workflow_id};
use windlass_store::postgres::{Options, PostgresStore, Schema};
use windlass_store::{Error, Reads, Store, Writes};
use windlass_testbed::postgres;

async fn open(schema: &str) -> (PostgresStore, Client) {
    let server = postgres::shared();
    let options = Options::new(&server.url()).unwrap().schema(Schema::new(schema).unwrap());
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    (options.open().await.unwrap(), client)
}

fn id(n: u8) -> TaskId {
    TaskId::from_bytes([n; 16])
}

fn task(n: u8) -> NewTask {
    NewTask::new(id(n), Name::kind("k").unwrap(), Json::payload("{\"a\" :  1}").unwrap())
}

#[tokio::test]
async fn rolled_back_means_never_there() {
    let (store, mut client) = open("rolled_back").await;
    let rings = store.watch();
    let transaction = client.transaction().await.unwrap();
    assert!(store.submit_in(&transaction, vec![task(1)]).await.unwrap()[0].created);
    assert_eq!(store.task(id(1)).await.unwrap(), None, "nobody sees it before the commit");
    transaction.rollback().await.unwrap();
    assert_eq!(store.task(id(1)).await.unwrap(), None);
    assert!(store.counts().await.unwrap().is_empty());
    assert!(!rings.has_changed().unwrap(), "nobody was woken");
}

#[tokio::test]
async fn committed_means_woken() {
    let (store, mut client) = open("committed").await;
    let mut rings = store.watch();
    let before = *rings.borrow_and_update();
    let transaction = client.transaction().await.unwrap();
    transaction
        .batch_execute("CREATE TABLE committed.orders (n integer); INSERT INTO committed.orders VALUES (1)")
        .await
        .unwrap();
    store.submit_in(&transaction, vec![task(1)]).await.unwrap();
    transaction.commit().await.unwrap();
    rings.wait_for(|rings| rings.claimable > before.claimable).await.unwrap();
    assert!(store.task(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_refused_task_leaves_the_transaction_usable() {
    let (store, mut client) = open("refused").await;
    let keyed = |n: u8| NewTask { key: Some("once".into()), ..task(n) };
    store.submit(vec![keyed(1)]).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let reject = NewTask { on_conflict: OnConflict::Reject, ..keyed(2) };
    let error = store.submit_in(&transaction, vec![task(3), reject]).await.unwrap_err();
    let Error::InBatch { index: 1, rejected: Rejected::KeyConflict { existing, .. } } = error else {
        panic!("{error}")
    };
    assert_eq!(existing, id(1));
    let error = store.submit_in(&transaction, vec![task(1)]).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(Rejected::IdConflict { .. })), "{error}");
    let entity = "planner:42".parse::<Entity>().unwrap();
    let stranger = NewTask { lane: Some(Lane::of(&entity)), require_entity: true, ..task(4) };
    let error = store.submit_in(&transaction, vec![stranger]).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(Rejected::UnknownEntity { .. })), "{error}");
    let again = store.submit_in(&transaction, vec![keyed(5), task(6)]).await.unwrap();
    assert_eq!((again[0].id, again[0].created), (id(1), false));
    assert_eq!((again[1].id, again[1].created), (id(6), true));
    transaction.commit().await.unwrap();
    assert!(store.task(id(6)).await.unwrap().is_some());
    assert_eq!(store.task(id(3)).await.unwrap(), None);
}

/// The same for SQL functions as for programs.
#[tokio::test]
async fn an_id_that_a_workflow_reserves_is_refused() {
    let (store, mut client) = open("reserved").await;
    let flow = store.start(ad_hoc(1, definition(json!({ "a": {}, "b": {} })))).await.unwrap().id;
    let lone = |id| NewTask { id, ..task(1) };
    let many = async |client: &Client, id: TaskId| {
        let tasks = format!(r#"[{{"kind": "k"}}, {{"kind": "k", "id": "{id}"}}]"#);
        client.query(&format!("SELECT reserved.submit_many('{tasks}'::json)"), &[]).await
    };
    let said = |error: &tokio_postgres::Error| {
        let error = error.as_db_error().unwrap();
        (error.code().code().to_owned(), error.message().to_owned())
    };
    let before = store.counts().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    for id in [flow.step(0), *flow.items(0).start(), *flow.items(1).end(), *flow.reserved().end()] {
        let refused = store.submit_in(&transaction, vec![lone(id)]).await;
        assert_eq!(refused, Err(Rejected::IdReserved { task: id, workflow: flow }.into()));
    }
    transaction.commit().await.unwrap();
    for id in [*flow.items(0).start(), *flow.items(1).end(), *flow.reserved().end()] {
        let refused = client.query(&format!("SELECT reserved.submit('k', id => '{id}')"), &[]).await;
        let why = Rejected::IdReserved { task: id, workflow: flow };
        assert_eq!(said(&refused.unwrap_err()), ("23505".into(), why.to_string()));
        let refused = store.submit(vec![task(8), lone(id)]).await.unwrap_err().to_string();
        assert_eq!(said(&many(&client, id).await.unwrap_err()), ("23505".into(), refused));
    }
    assert_eq!(store.counts().await.unwrap(), before);
    // Those that it does not reserve, and those that a workflow would if it existed.
    for id in [flow.at(0), flow.at(u64::MAX), workflow_id(2).step(0)] {
        many(&client, id).await.unwrap();
    }
    let transaction = client.transaction().await.unwrap();
    store.submit_in(&transaction, vec![lone(workflow_id(3).step(7))]).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn sql_knows_which_ids_are_reserved() {
    let (_store, client) = open("reserving").await;
    let places = [0, 1, (1 << 17) - 1, 1 << 17, (100_001 << 17) - 1, 100_001 << 17, (1 << 34) - 1];
    let flows = [[0xff; 16], [0; 16], *workflow_id(1).as_bytes()].map(TaskId::from_bytes).map(WorkflowId::of);
    let mut ids: Vec<_> = flows.iter().flat_map(|flow| places.map(|place| flow.at(place))).collect();
    let fresh = client.query("SELECT reserving.fresh_id(now()) FROM generate_series(1, 1000)", &[]).await;
    let fresh: Vec<Uuid> = fresh.unwrap().iter().map(|row| row.get(0)).collect();
    for id in &fresh {
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122), "{id}");
        assert_eq!(WorkflowId::reserving(TaskId::new(*id)), None, "{id}");
    }
    let random = client.query("SELECT gen_random_uuid() FROM generate_series(1, 1000)", &[]).await.unwrap();
    ids.extend(random.iter().map(|row| TaskId::new(row.get(0))));
    for id in ids {
        let uuid = Uuid::from_bytes(*id.as_bytes());
        let row = client.query_one("SELECT reserving.reserving($1)", &[&uuid]).await.unwrap();
        let reserving = row.get::<_, Option<Uuid>>(0).map(WorkflowId::new);
        assert_eq!(reserving, WorkflowId::reserving(id), "{id}");
    }
}

#[tokio::test]
async fn everything_that_was_asked_for_is_there() {
    let (store, mut client) = open("everything").await;
    let all = |n: u8| NewTask {
        namespace: Name::namespace("tenant").unwrap(),
        queue: Name::queue("bulk").unwrap(),
        priority: -7,
        ageing: Ageing { per_hour: 5, per_retry: 6 },
        key: Some(format!("key \"{n}\" ü")),
        lane: Some(Lane::new("reports", 3).unwrap().strict()),
        start: Start::After(Duration::from_secs(3600)),
        timeout: Some(Duration::from_millis(1_500)),
        tags: vec!["a".into(), "b \"c\"".into()],
        max_attempts: NonZeroU32::new(9),
        traceparent: TraceParent::new([7; 16], [1; 8], 3),
        actor: Some("ada".into()),
        ..task(n)
    };
    let endless = |n: u8| NewTask { max_attempts: None, ..task(n) };
    let transaction = client.transaction().await.unwrap();
    store.submit_in(&transaction, vec![all(1), endless(2)]).await.unwrap();
    transaction.commit().await.unwrap();
    store.submit(vec![all(3), endless(4)]).await.unwrap();
    for (one, other) in [(1, 3), (2, 4)] {
        let (one, other) =
            (store.task(id(one)).await.unwrap().unwrap(), store.task(id(other)).await.unwrap().unwrap());
        let mut spec = other.task.spec.clone();
        (spec.key, spec.created_at) = (one.task.spec.key.clone(), one.task.spec.created_at);
        assert_eq!(one.task.spec, spec);
        assert_eq!(one.payload.as_str(), other.payload.as_str());
        assert_eq!(one.task.status.state, other.task.status.state);
        assert_eq!(one.history.len(), other.history.len());
        assert_eq!(one.history[0].actor, other.history[0].actor);
    }
}
