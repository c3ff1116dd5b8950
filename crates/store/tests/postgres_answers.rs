//! What the PostgreSQL store answers when the server or the way to it fails: done, not done, or unknown, and
//! never the wrong one of these. It gets over all of it without being opened again.
#![cfg(all(unix, feature = "postgres", feature = "conformance"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::time::{interval, timeout};
use tokio_postgres::{Client, NoTls};
use windlass_core::{
    Command, Json, Lane, Name, NewTask, NewWorker, Retention, State, Timestamp, Token, WorkerId,
};
use windlass_store::conformance::{KIND, claim_of, completed, entity, firing, hourly, id};
use windlass_store::{Catalog, Error, PostgresStore, Reads, Result, Store, Turn, Writes};
use windlass_testbed::postgres::{Mode, Server};
use windlass_testbed::proxy::Proxy;

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a leader's term is.
const TERM: Duration = Duration::from_secs(60);

/// The server of the tests that do nothing to it. Its machine does not fail, so that nobody has to wait for
/// the disk.
fn unharmed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(start)
}

fn start() -> Server {
    Server::builder().setting("fsync", "off").start().unwrap()
}

/// One schema, seen through a proxy and past it.
struct Bed {
    server: &'static Server,
    schema: &'static str,
    proxy: Proxy,
    /// Through the proxy.
    far: Arc<PostgresStore>,
    near: PostgresStore,
}

impl Bed {
    async fn new(schema: &'static str) -> Self {
        Self::with(schema, "").await
    }

    /// With more settings of the far store.
    async fn with(schema: &'static str, settings: &str) -> Self {
        let server = unharmed();
        let proxy = Proxy::start(server.addr()).unwrap();
        let near = format!("{}?schema={schema}", server.url());
        let far = near.replace(&server.addr().to_string(), &proxy.addr().to_string()) + settings;
        let (near, far) =
            (PostgresStore::open(&near).await.unwrap(), PostgresStore::open(&far).await.unwrap());
        Self { server, schema, proxy, far: Arc::new(far), near }
    }

    /// Makes a call whose COMMIT reaches the server and whose answer does not come back. It must be unknown
    /// what became of it, and the next call must not suffer.
    async fn lose<T: Debug>(&self, verb: &str, call: impl Future<Output = Result<T>>) {
        let before = self.proxy.answers_dropped();
        self.proxy.drop_answer_after_commit(1);
        let answer = call.await;
        assert!(matches!(answer, Err(Error::Unknown(_))), "{verb}: {answer:?}");
        assert_eq!(self.proxy.answers_dropped(), before + 1, "{verb}: it was the answer that was lost");
        let next = self.far.now().await;
        assert!(next.is_ok(), "after {verb}: {next:?}");
    }

    /// Takes locks that last until the client is dropped.
    async fn lock(&self, statement: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let statement = statement.replace("{schema}", self.schema);
        client.batch_execute(&format!("BEGIN; {statement}")).await.unwrap();
        client
    }

    /// Waits until so many statements of this schema wait for locks.
    async fn until_waiting(&self, wanted: usize) {
        let (client, connection) = tokio_postgres::connect(&self.server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let waiting = "SELECT count(*) FROM pg_stat_activity \
            WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0";
        let look = async {
            let mut ticks = interval(Duration::from_millis(5));
            loop {
                ticks.tick().await;
                let count: i64 = client.query_one(waiting, &[&self.schema]).await.unwrap().get(0);
                if usize::try_from(count).unwrap() == wanted {
                    return;
                }
            }
        };
        timeout(PATIENCE, look).await.expect("so many wait");
    }

    fn names_the_proxy(&self, error: &Error) -> bool {
        names(error, &self.proxy.addr().to_string())
    }
}

/// Whether it says that nothing was done, and where.
fn names(error: &Error, server: &str) -> bool {
    matches!(error, Error::Unavailable(why) if why.contains(server))
}

fn task(n: u64) -> NewTask {
    NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::default())
}

fn keyed(n: u64) -> NewTask {
    NewTask { key: Some(format!("task {n}")), ..task(n) }
}

fn worker() -> WorkerId {
    WorkerId::new("worker").unwrap()
}

fn new_worker() -> NewWorker {
    NewWorker { kinds: vec![Name::kind(KIND).unwrap()], ..NewWorker::new(worker()) }
}

async fn state(store: &PostgresStore, n: u64) -> Option<State> {
    store.task(id(n)).await.unwrap().map(|record| record.task.status.state)
}

async fn heartbeat_at(store: &PostgresStore) -> Timestamp {
    store.workers().await.unwrap()[0].heartbeat_at
}

/// What the worker claims, starts and finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_answers_are_lost_does_not_know() {
    let bed = Bed::new("lost_work").await;
    let (far, near) = (&bed.far, &bed.near);
    bed.lose("submit", far.submit(vec![keyed(1), task(2)])).await;
    assert_eq!((state(near, 1).await, state(near, 2).await), (Some(State::Pending), Some(State::Pending)));
    let again = far.submit(vec![keyed(1)]).await.unwrap();
    assert_eq!((again[0].id, again[0].created), (id(1), false), "its key is taken");

    bed.lose("register", far.register(new_worker())).await;
    let before = heartbeat_at(near).await;
    bed.lose("heartbeat", far.heartbeat(worker(), Vec::new())).await;
    assert!(heartbeat_at(near).await > before, "it was heard");

    bed.lose("claim", far.claim(claim_of(&worker(), 1))).await;
    let status = near.task(id(1)).await.unwrap().unwrap().task.status;
    assert_eq!((status.state, status.worker, status.lease), (State::Claimed, Some(worker()), 1));
    let token = Token { task: id(1), lease: 1, worker: worker() };
    bed.lose("start", far.apply(vec![Command::Start { token: token.clone(), at: None }])).await;
    assert_eq!(state(near, 1).await, Some(State::Running));
    let finish = Command::Finish { token, outcome: completed("7"), started_at: None };
    let turn = Turn { commands: vec![finish.clone()], claim: Some(claim_of(&worker(), 1)), term: None };
    bed.lose("finish and claim", far.turn(turn)).await;
    assert_eq!((state(near, 1).await, state(near, 2).await), (Some(State::Completed), Some(State::Claimed)));
    let again = far.apply(vec![finish]).await.unwrap().remove(0).unwrap();
    assert_eq!((again.state, again.changed), (State::Completed, false), "the same once more is fine");
    let record = near.task(id(1)).await.unwrap().unwrap();
    assert_eq!(record.result.unwrap().as_str(), "7");

    bed.lose("deregister", far.deregister(worker())).await;
    assert_eq!(near.workers().await.unwrap(), []);
    bed.lose("delete", far.apply(vec![Command::Delete { task: id(1) }])).await;
    assert_eq!(state(near, 1).await, None);
}

/// What a leader and an operator do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_answers_are_lost_does_not_know() {
    let bed = Bed::new("lost_lead").await;
    let (far, near) = (&bed.far, &bed.near);
    bed.lose("campaign", far.campaign(worker(), TERM)).await;
    let leader = near.leader().await.unwrap().unwrap();
    assert_eq!(leader.holder, worker());
    let renewed = far.campaign(worker(), TERM).await.unwrap().unwrap();
    assert_eq!(renewed.term, leader.term, "it leads already");

    let slot = near.now().await.unwrap();
    bed.lose("set_schedule", far.set_schedule(hourly("hourly", slot))).await;
    let schedule = near.schedules().await.unwrap().remove(0);
    let firing = firing(&schedule, id(1));
    bed.lose("fire", far.fire(firing.clone(), Some(leader.term))).await;
    assert_eq!(state(near, 1).await, Some(State::Pending));
    let fired = near.schedules().await.unwrap().remove(0);
    assert_eq!((fired.fired, fired.next_at, fired.last_task), (1, firing.next_at, Some(id(1))));
    let again = far.fire(firing, Some(leader.term)).await;
    assert!(again.as_ref().is_err_and(|error| error.rejected().is_some()), "it has moved on: {again:?}");
    assert_eq!(near.schedules().await.unwrap(), std::slice::from_ref(&fired), "and stays there");
    bed.lose("remove_schedule", far.remove_schedule(fired.namespace.clone(), fired.name.clone())).await;
    assert_eq!(near.schedules().await.unwrap(), []);

    let (namespace, queue) = (Name::default(), Name::default());
    bed.lose("pause", far.pause(namespace.clone(), queue.clone(), true)).await;
    assert_eq!(near.paused().await.unwrap(), [(namespace.clone(), queue.clone())]);
    bed.lose("set_entity", far.set_entity(namespace.clone(), entity("planner:1"), true)).await;
    assert!(near.has_entity(namespace.clone(), entity("planner:1")).await.unwrap());

    let cancel = Command::Cancel { task: id(1), by: windlass_core::By::default() };
    bed.lose("cancel", far.apply(vec![cancel])).await;
    assert_eq!(state(near, 1).await, Some(State::Cancelled));
    let at_once = Retention::default().keep(State::Cancelled, Duration::ZERO).unwrap();
    bed.lose("prune", far.prune(at_once.clone(), 10)).await;
    assert_eq!(state(near, 1).await, None);

    bed.lose("resign", far.resign(worker(), leader.term)).await;
    let (last, now) = (near.leader().await.unwrap().unwrap(), near.now().await.unwrap());
    assert!(!last.is_current(leader.term, now), "nobody leads");
}

/// Before COMMIT is sent a lost connection is sure to have changed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_before_the_commit_changes_nothing() {
    let bed = Bed::new("cut_before").await;
    for _ in 0..5 {
        let lock = bed.lock("SELECT FROM {schema}.leader FOR UPDATE").await;
        let far = bed.far.clone();
        let call = tokio::spawn(async move { far.campaign(worker(), TERM).await });
        bed.until_waiting(1).await;
        bed.proxy.cut();
        let answer = timeout(PATIENCE, call).await.unwrap().unwrap();
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
        drop(lock);
        bed.until_waiting(0).await;
        assert_eq!(bed.near.leader().await.unwrap(), None, "nothing was changed");
    }
    let won = bed.far.campaign(worker(), TERM).await.unwrap();
    assert!(won.is_some(), "and then it works by itself");
}

/// With COMMIT on its way it is not known; but it is all or nothing, and doing it again does not double it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_with_the_commit_on_its_way_leaves_all_or_nothing() {
    let bed = Bed::new("cut_within").await;
    for round in 0..5 {
        let lane = Lane::of(&entity("planner:1"));
        let batch: Vec<NewTask> = (0..3)
            .map(|n| NewTask { lane: (n == 0).then(|| lane.clone()), ..keyed(10 * round + n) })
            .collect();
        let lock = bed.lock("LOCK TABLE {schema}.tasks IN ACCESS EXCLUSIVE MODE").await;
        let (far, tasks) = (bed.far.clone(), batch.clone());
        let call = tokio::spawn(async move { far.submit(tasks).await });
        bed.until_waiting(1).await;
        bed.proxy.cut();
        let answer = timeout(PATIENCE, call).await.unwrap().unwrap();
        assert!(matches!(answer, Err(Error::Unknown(_) | Error::Unavailable(_))), "{answer:?}");
        let unknown = matches!(answer, Err(Error::Unknown(_)));
        drop(lock);
        bed.until_waiting(0).await;
        let again = bed.far.submit(batch.clone()).await.unwrap();
        let created = again.iter().filter(|one| one.created).count();
        assert!(created == 3 || unknown && created == 0, "round {round}: {answer:?}, then {again:?}");
        for (one, task) in again.iter().zip(&batch) {
            assert_eq!(one.id, task.id);
        }
    }
    let tasks: u64 = bed.near.counts().await.unwrap().iter().map(|count| count.tasks).sum();
    assert_eq!(tasks, 15, "each is there once");
}

/// Connections that end while nobody uses them cost at most one call each an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_are_made_anew() {
    let bed = Bed::new("cut_idle").await;
    bed.far.register(new_worker()).await.unwrap();
    for round in 0..20_u64 {
        assert!(bed.proxy.cut() > 0, "there was a connection");
        let first = match round % 4 {
            0 => bed.far.submit(vec![keyed(round)]).await.map(drop),
            1 => bed.far.heartbeat(worker(), Vec::new()).await.map(drop),
            2 => bed.far.claim(claim_of(&worker(), 1)).await.map(drop),
            _ => bed.far.counts().await.map(drop),
        };
        assert!(matches!(first, Ok(()) | Err(Error::Unavailable(_) | Error::Unknown(_))), "{first:?}");
        let next = bed.far.submit(vec![keyed(round)]).await;
        assert!(next.is_ok(), "round {round}: {next:?}");
    }
}

/// A server that nobody can reach is named, by every verb, and found again by the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_server_is_named() {
    let bed = Bed::new("refused").await;
    let far = &bed.far;
    far.register(new_worker()).await.unwrap();
    bed.proxy.refuse(true);
    bed.proxy.cut();
    // The first may have got a connection that was about to end.
    drop(far.now().await);
    let answers = [
        ("submit", far.submit(vec![task(1)]).await.map(drop)),
        ("claim", far.claim(claim_of(&worker(), 1)).await.map(drop)),
        ("heartbeat", far.heartbeat(worker(), Vec::new()).await.map(drop)),
        ("campaign", far.campaign(worker(), TERM).await.map(drop)),
        ("due", far.due(10).await.map(drop)),
        ("task", far.task(id(1)).await.map(drop)),
        ("counts", far.counts().await.map(drop)),
    ];
    for (verb, answer) in answers {
        let error = answer.expect_err(verb);
        assert!(bed.names_the_proxy(&error), "{verb}: {error}");
    }
    bed.proxy.refuse(false);
    far.submit(vec![task(1)]).await.unwrap();
    assert_eq!(far.claim(claim_of(&worker(), 1)).await.unwrap().len(), 1, "it goes on");
}

/// A pool whose only connection gets no answer: who waits for it is told so after 10 s, and nothing is lost
/// when the answer comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_unavailable() {
    let bed = Bed::with("exhausted", "&connections=1").await;
    bed.far.now().await.unwrap();
    bed.proxy.stall(true);
    let since = Instant::now();
    // In the order in which they are polled: the first gets the connection.
    let both = async {
        let worker = worker();
        tokio::join!(biased; bed.far.campaign(worker.clone(), TERM), async {
            let counts = bed.far.counts().await;
            bed.proxy.stall(false);
            counts
        })
    };
    let (first, second) = timeout(PATIENCE, both).await.unwrap();
    let error = second.unwrap_err();
    assert!(bed.names_the_proxy(&error), "{error}");
    assert!(since.elapsed() < Duration::from_secs(20), "it does not wait for ever");
    assert!(first.unwrap().is_some(), "whoever had the connection gets an answer");
    assert_eq!(bed.far.counts().await.unwrap(), [], "and then there is a connection");
}

/// A row that somebody else keeps locked for longer than 20 s: given up, nothing changed, and others are not
/// held up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_not_given_up_is_unavailable() {
    let bed = Bed::new("row_locked").await;
    bed.far.submit(vec![task(1), task(2)]).await.unwrap();
    let lock = bed.lock(&format!("SELECT FROM {{schema}}.live l JOIN {{schema}}.tasks t USING (seq) WHERE t.id = '{}' FOR UPDATE OF l", id(1))).await;
    let far = bed.far.clone();
    let since = Instant::now();
    let cancel = |n| vec![Command::Cancel { task: id(n), by: windlass_core::By::default() }];
    let call = tokio::spawn({
        let commands = cancel(1);
        async move { far.apply(commands).await }
    });
    bed.until_waiting(1).await;
    bed.far.apply(cancel(2)).await.unwrap().remove(0).unwrap();
    assert!(!call.is_finished(), "another task is not held up");
    let error = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&error, Error::Unavailable(why) if why.contains("lock timeout")), "{error}");
    assert!(since.elapsed() > Duration::from_secs(19), "after {:?}", since.elapsed());
    assert_eq!(state(&bed.near, 1).await, Some(State::Pending), "nothing was changed");
    drop(lock);
    let done = timeout(PATIENCE, bed.far.apply(cancel(1))).await.unwrap().unwrap().remove(0).unwrap();
    assert!(done.changed, "and then it works");
}

/// A server that is stopped and comes back, by order or by a crash: the store is not opened again, what was
/// acknowledged is there, and bells ring as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_survived() {
    let server = start();
    let address = format!("{}?schema=restarted", server.url());
    let (one, other) =
        (PostgresStore::open(&address).await.unwrap(), PostgresStore::open(&address).await.unwrap());
    let mut sure = 0;
    for mode in [Mode::Fast, Mode::Immediate, Mode::Fast, Mode::Immediate] {
        one.submit(vec![task(sure)]).await.unwrap();
        sure += 1;
        tokio::task::block_in_place(|| server.stop(mode)).unwrap();
        let place = server.addr().to_string();
        // The first may have got a connection that was about to end.
        drop(one.now().await);
        for _ in 0..2 {
            let error = one.submit(vec![task(sure)]).await.unwrap_err();
            assert!(names(&error, &place), "{mode:?}: {error}");
            let error = one.counts().await.unwrap_err();
            assert!(names(&error, &place), "{mode:?}: {error}");
        }
        tokio::task::block_in_place(|| server.start_again()).unwrap();
        for store in [&one, &other] {
            let tasks: u64 = store.counts().await.unwrap().iter().map(|count| count.tasks).sum();
            assert_eq!(tasks, sure, "{mode:?}: what was acknowledged is there, and nothing else");
        }
        listens_again(&one, &other, &mut sure).await;
    }
}

/// Waits until a submit in one process wakes the other. It takes a moment until they listen again.
async fn listens_again(one: &PostgresStore, other: &PostgresStore, sure: &mut u64) {
    let hears = async {
        loop {
            let mut rings = other.watch();
            let before = rings.borrow_and_update().claimable;
            one.submit(vec![task(*sure)]).await.unwrap();
            *sure += 1;
            let heard = timeout(Duration::from_millis(500), rings.wait_for(|rings| rings.claimable > before));
            if heard.await.is_ok() && listens(other).await && listens(one).await {
                return;
            }
        }
    };
    timeout(PATIENCE, hears).await.expect("they hear one another again");
}

async fn listens(store: &PostgresStore) -> bool {
    store.describe().await.unwrap().contains(&("wake-up".into(), "notifications".into()))
}
/// A process that stands still in the middle of a transaction, or a machine that is cut off there, holds its
/// locks. I17: others get them before a worker's lease is over twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stands_still_in_a_transaction_gives_up_its_locks() {
    let bed = Bed::new("stands_still").await;
    let lock = bed.lock("SELECT FROM {schema}.leader FOR UPDATE").await;
    let far = bed.far.clone();
    let call = tokio::spawn(async move { far.campaign(worker(), TERM).await });
    bed.until_waiting(1).await;
    // It is given the lock, and never hears of it.
    bed.proxy.stall(true);
    drop(lock);
    bed.until_waiting(0).await;
    let (other, since) = (WorkerId::new("other").unwrap(), Instant::now());
    let leads = async {
        loop {
            match bed.near.campaign(other.clone(), TERM).await {
                Ok(won) => return won,
                Err(error) => assert!(matches!(error, Error::Unavailable(_)), "{error:?}"),
            }
        }
    };
    let won = timeout(Duration::from_secs(30), leads).await;
    assert_eq!(won.expect("the lock is given up").unwrap().holder, other, "after {:?}", since.elapsed());
    bed.proxy.stall(false);
    let answer = timeout(PATIENCE, call).await.unwrap().unwrap();
    assert!(matches!(answer, Err(Error::Unavailable(_) | Error::Unknown(_))), "{answer:?}");
    assert_eq!(bed.near.leader().await.unwrap().unwrap().holder, other, "nothing was changed");
}

/// C41: the load of a store is that of its own pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_those_of_the_pool() {
    let server = unharmed();
    let address = format!("{}?schema=pooled&connections=3", server.url());
    let store = Arc::new(PostgresStore::open(&address).await.unwrap());
    assert_eq!(store.connections().max, 3);
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE pooled.workflow_counts").await.unwrap();
    let held = tokio::spawn({
        let store = store.clone();
        async move { store.workflow_counts().await }
    });
    let mut looks = interval(Duration::from_millis(10));
    timeout(PATIENCE, async {
        while store.connections().active == 0 {
            looks.tick().await;
        }
        // It stays so, and is not one that just passed by.
        let sql = "SELECT count(*) FROM pg_locks WHERE relation = 'pooled.workflow_counts'::regclass AND NOT granted";
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            looks.tick().await;
        }
    })
    .await
    .expect("the call waits for the lock");
    let held_now = store.connections();
    assert!((1..=3).contains(&held_now.active) && held_now.max == 3, "{held_now:?}");
    client.batch_execute("ROLLBACK").await.unwrap();
    held.await.unwrap().unwrap();
    timeout(PATIENCE, async {
        while store.connections().active > 0 {
            looks.tick().await;
        }
    })
    .await
    .expect("it is given back");
}
