//! What becomes of claims while somebody holds a transaction open, so that the server keeps the index entries
//! of all that was claimed: they do not walk over these, and nothing is missed. While nobody does, their
//! order is exact.
#![cfg(all(unix, feature = "postgres", feature = "conformance"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{interval, timeout};
use tokio_postgres::{Client, NoTls};
use windlass_core::{Command, Json, Name, NewTask, NewWorker, Start, TaskId, Token, WorkerId};
use windlass_store::conformance::{KIND, claim_of, id};
use windlass_store::{Claim, PostgresStore, Reads, Store, Writes};
use windlass_testbed::postgres::Server;

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server of the tests that hold a transaction open. It would be in the way of others.
fn held() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().unwrap())
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(server: &Server, schema: &str) -> PostgresStore {
    let store = PostgresStore::open(&format!("{}?schema={schema}", server.url())).await.unwrap();
    let worker = NewWorker { kinds: vec![Name::kind(KIND).unwrap()], ..NewWorker::new(worker()) };
    store.register(worker).await.unwrap();
    store
}

fn worker() -> WorkerId {
    WorkerId::new("worker").unwrap()
}

fn task(n: u64, priority: i32) -> NewTask {
    NewTask { priority, ..NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::default()) }
}

fn release(n: u64, lease: u32) -> Vec<Command> {
    vec![Command::Release { token: Token { task: id(n), lease, worker: worker() }, note: None }]
}

async fn claim(store: &PostgresStore, limit: usize) -> Vec<TaskId> {
    let claimed = store.claim(claim_of(&worker(), limit)).await.unwrap();
    claimed.into_iter().map(|claimed| claimed.task.id).collect()
}

fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<TaskId> {
    numbers.into_iter().map(id).collect()
}

async fn is_hindered(store: &PostgresStore) -> bool {
    store.describe().await.unwrap().iter().any(|(what, _)| *what == "in the way")
}

/// Waits until a store that claims has noticed that there is something in the way, or that there is not any
/// more.
async fn until_hindered(store: &PostgresStore, wanted: bool) {
    let look = async {
        let mut ticks = interval(Duration::from_millis(20));
        while is_hindered(store).await != wanted {
            assert_eq!(claim(store, 1).await, [], "there is nothing to claim yet");
            ticks.tick().await;
        }
    };
    timeout(PATIENCE, look).await.expect("it is noticed");
}

/// Claims one at a time until it is this one. Says which others came before it.
async fn until_claimed(store: &PostgresStore, wanted: TaskId) -> Vec<TaskId> {
    let mut others = Vec::new();
    let mut rings = store.watch();
    let look = async {
        loop {
            rings.mark_unchanged();
            match claim(store, 1).await.first() {
                Some(claimed) if *claimed == wanted => return,
                Some(other) => others.push(*other),
                // It may be before the floor: then somebody says so.
                None => rings.changed().await.unwrap(),
            }
        }
    };
    timeout(PATIENCE, look).await.expect("it is claimed");
    others
}

/// Holds a snapshot without a number of its own, as a dump does.
async fn hold(server: &Server) -> Client {
    let reader = connect(server).await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class";
    reader.batch_execute(begin).await.unwrap();
    reader
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_do_not_walk_over_what_was_claimed() {
    let server = held();
    let store = open(server, "walk").await;
    let _reader = hold(server).await;
    until_hindered(&store, true).await;
    let many: u64 = 4_000;
    for first in (0..many).step_by(1_000) {
        store.submit((first..first + 1_000).map(|n| task(n, 0)).collect()).await.unwrap();
    }
    let mut claimed = Vec::new();
    while claimed.len() < 4_000 {
        claimed.extend(claim(&store, 100).await);
    }
    assert_eq!(claimed, ids(0..many));
    store.close().await.unwrap();
    drop(store);
    // A connection says what it has read when it ends.
    let client = connect(server).await;
    let look = async {
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            ticks.tick().await;
            let read = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes \
                WHERE schemaname = 'walk' AND indexrelname = 'live_claimable'";
            let left = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%walk.%' AND pid <> pg_backend_pid()";
            let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
            let read: i64 = client.query_one(read, &[]).await.unwrap().get(0);
            if left == 0 && read >= 4_000 {
                return read;
            }
        }
    };
    let read = timeout(PATIENCE, look).await.expect("all connections have ended");
    // Each claim from the beginning: 82,000.
    assert!(read < 41_000, "{read} entries were read to claim 4,000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_becomes_claimable_before_a_floor_is_claimed() {
    let server = held();
    let (store, other) = (open(server, "before").await, open(server, "before").await);
    let _reader = hold(server).await;
    until_hindered(&store, true).await;
    store.submit((1..=100).map(|n| task(n, 0)).collect()).await.unwrap();
    assert_eq!(claim(&store, 20).await, ids(1..=20));
    let mut next = 21;
    let mut came = |others: Vec<TaskId>| {
        let after = next + others.len() as u64;
        assert_eq!(others, ids(next..after), "the others come in their order");
        next = after;
    };

    // By this process, and by another; released, and of a higher priority.
    store.apply(release(3, 1)).await.unwrap().remove(0).unwrap();
    came(until_claimed(&store, id(3)).await);
    store.submit(vec![task(201, 5)]).await.unwrap();
    came(until_claimed(&store, id(201)).await);
    other.apply(release(4, 1)).await.unwrap().remove(0).unwrap();
    came(until_claimed(&store, id(4)).await);
    other.submit(vec![task(202, 5)]).await.unwrap();
    came(until_claimed(&store, id(202)).await);

    // When all the rest has been claimed, whoever finds nothing is woken, though nobody has rung.
    while let Some(one) = claim(&store, 1).await.first() {
        came(vec![*one]);
    }
    let reopen = "UPDATE before.live SET state = 'pending', worker = NULL, claimed_at = NULL WHERE seq = \
        (SELECT seq FROM before.tasks WHERE id = $1)";
    let client = connect(server).await;
    for n in [7, 5, 90] {
        let reopen = reopen.replace("$1", &format!("'{}'", id(n)));
        assert_eq!(client.execute(&reopen, &[]).await.unwrap(), 1);
        assert_eq!(until_claimed(&store, id(n)).await, []);
    }
}

/// Claims from several queues have a floor for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_queue_has_its_own_floor() {
    let server = held();
    let store = open(server, "queues").await;
    let _reader = hold(server).await;
    until_hindered(&store, true).await;
    let queue = |n: u64| Name::queue(if n.is_multiple_of(2) { "even" } else { "odd" }).unwrap();
    let in_queue = |n: u64, priority| NewTask { queue: queue(n), ..task(n, priority) };
    store.submit((1..=40).map(|n| in_queue(n, 0)).collect()).await.unwrap();
    let both = |limit| Claim { queues: vec![queue(1), queue(2)], ..claim_of(&worker(), limit) };
    let claim = async |limit| -> Vec<TaskId> {
        let claimed = store.claim(both(limit)).await.unwrap();
        claimed.into_iter().map(|claimed| claimed.task.id).collect()
    };
    assert_eq!(claim(7).await, ids(1..=7));
    assert_eq!(claim(7).await, ids(8..=14));
    // What is behind both floors comes in the order of both.
    store.submit(vec![in_queue(41, -1), in_queue(42, -1)]).await.unwrap();
    assert_eq!(claim(40).await, ids(15..=42));
}

/// What is due before the last that was, and what nobody holds any more, is found as well, by whoever looks
/// when told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_time_asks_for_is_found() {
    let server = held();
    let store = open(server, "due").await;
    let _reader = hold(server).await;
    until_hindered(&store, true).await;
    let later = |n, delay| NewTask { start: Start::After(Duration::from_millis(delay)), ..task(n, 0) };
    store.submit(vec![later(1, 50), later(2, 3_600_000), task(3, 0)]).await.unwrap();
    assert_eq!(claim(&store, 1).await, ids([3]));
    let until_due = async |wanted: &Command| {
        let look = async {
            loop {
                let due = store.due(100).await.unwrap();
                if due.commands.contains(wanted) {
                    return store
                        .apply(due.commands)
                        .await
                        .unwrap()
                        .into_iter()
                        .for_each(|done| drop(done.unwrap()));
                }
                let next = due.next.expect("another look is asked for");
                tokio::time::sleep(next.since(due.now)).await; // tidy: sleep, as the store's clock says
            }
        };
        timeout(PATIENCE, look).await.expect("it is found");
    };
    until_due(&Command::Promote { task: id(1) }).await;
    let client = connect(server).await;
    let long_ago = "UPDATE due.live SET due_at = now() - interval '1 hour' WHERE due_at IS NOT NULL";
    assert_eq!(client.execute(long_ago, &[]).await.unwrap(), 1);
    until_due(&Command::Promote { task: id(2) }).await;
    store.deregister(worker()).await.unwrap();
    until_due(&Command::Expire { task: id(3), lease: 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_exact_while_nothing_is_held_any_more() {
    let server = Server::builder().setting("fsync", "off").start().unwrap();
    let (store, other) = (open(&server, "exact").await, open(&server, "exact").await);
    let reader = hold(&server).await;
    until_hindered(&store, true).await;
    drop(reader);
    until_hindered(&store, false).await;
    for round in 0..20 {
        let n = round * 10;
        store.submit((n..n + 6).map(|n| task(n, 0)).collect()).await.unwrap();
        assert_eq!(claim(&store, 4).await, ids(n..n + 4));
        other.submit(vec![task(n + 6, 1)]).await.unwrap();
        other.apply(release(n + 1, 1)).await.unwrap().remove(0).unwrap();
        assert_eq!(claim(&store, 10).await, ids([n + 6, n + 1, n + 4, n + 5]));
        assert!(!is_hindered(&store).await);
    }
}
