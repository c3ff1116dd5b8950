//! Submitting inside a transaction of the caller's.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass_core::{
    Ageing, Entity, Json, Lane, Name, NewTask, OnConflict, Rejected, Start, TaskId, TraceParent,
};
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
