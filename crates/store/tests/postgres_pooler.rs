//! The PostgreSQL store through PgBouncer in transaction mode, where each transaction may run on another
//! connection of the server.
#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::timeout;
use windlass_core::{Json, Name, NewTask, NewWorker, State, TaskId, WorkerId};
use windlass_store::conformance::{
    KIND, claim_of, completed, entity, failed_for_good, finish, hourly, id, ids,
};
use windlass_store::{Catalog, Claimed, Filter, Page, PostgresStore, Reads, Store, Turn, Writes};
use windlass_testbed::pgbouncer::{self, PgBouncer};
use windlass_testbed::postgres::Server;

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections to the server, fewer than one store holds to the pooler.
const POOL: usize = 3;

/// A server that writes down each statement and who sent it, and a pooler in front.
struct Bed {
    server: Server,
    pooler: PgBouncer,
}

/// The one of this process; none where it is known that there is no pooler.
fn bed() -> Option<&'static Bed> {
    static BED: OnceLock<Bed> = OnceLock::new();
    if pgbouncer::is_done_without() {
        eprintln!("WINDLASS_NO_POOLER=1: nothing is tested through a pooler");
        return None;
    }
    Some(BED.get_or_init(|| {
        let server = Server::builder().setting("fsync", "off").setting("log_statement", "all");
        let server = server.setting("log_line_prefix", "<%a> ").start().unwrap();
        let pooler = PgBouncer::start(server.addr(), POOL).unwrap_or_else(|error| panic!("{error}"));
        Bed { server, pooler }
    }))
}

impl Bed {
    async fn near(&self, schema: &str) -> PostgresStore {
        let url = format!("{}?schema={schema}&application_name=near_{schema}", self.server.url());
        PostgresStore::open(&url).await.unwrap()
    }

    async fn pooled(&self, schema: &str) -> PostgresStore {
        let address = self.pooler.addr();
        let url = format!(
            "postgres://postgres@{address}/postgres?schema={schema}&application_name=pooled_{schema}"
        );
        match PostgresStore::open(&url).await {
            Ok(store) => store,
            Err(error) => panic!("{error}\nThe pooler says:\n{}", self.pooler.log().unwrap()),
        }
    }

    /// Every line in which the server says that it carried out a statement with a name, or one without.
    fn statements(&self, application: &str) -> (usize, Vec<String>) {
        let log = self.server.log().unwrap();
        let mine = log.lines().filter(|line| line.starts_with(&format!("<{application}> ")));
        let executed: Vec<&str> = mine.filter(|line| line.contains("LOG:  execute ")).collect();
        let named = executed.iter().filter(|line| !line.contains("LOG:  execute <unnamed>: "));
        (executed.len(), named.map(|line| (*line).to_owned()).collect())
    }
}

fn task(n: u64) -> NewTask {
    NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::payload(&format!("{{\"n\": {n}}}")).unwrap())
}

async fn register(store: &PostgresStore, name: &str) -> WorkerId {
    let worker = WorkerId::new(name).unwrap();
    let kinds = vec![Name::kind(KIND).unwrap()];
    store.register(NewWorker { kinds, ..NewWorker::new(worker.clone()) }).await.unwrap();
    worker
}

async fn state(store: &PostgresStore, task: TaskId) -> State {
    store.task(task).await.unwrap().unwrap().task.status.state
}

async fn listed(store: &PostgresStore) -> Vec<TaskId> {
    let mut page = Page { limit: 1000, oldest_first: true, ..Page::default() };
    let mut all = Vec::new();
    loop {
        let listing = store.tasks(Filter::default(), page).await.unwrap();
        all.extend(listing.tasks.iter().map(|task| task.id));
        match listing.next {
            Some(next) => page = Page { after: Some(next), ..page },
            None => return all,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_that_notifications_do_not_arrive_and_wakes_all_the_same() {
    let Some(bed) = bed() else { return };
    let (pooled, near) = (bed.pooled("waking").await, bed.near("waking").await);
    let told = pooled.describe().await.unwrap();
    let wake = told.iter().find(|(name, _)| *name == "wake-up").map(|(_, value)| value.as_str());
    assert!(wake.is_some_and(|wake| wake.starts_with("looks every 1s")), "{told:?}");
    let told = near.describe().await.unwrap();
    assert!(told.contains(&("wake-up".into(), "notifications".into())), "{told:?}");
    // From one that is listened to, to one that looks; and back.
    for (n, from, to) in [(1, &near, &pooled), (2, &pooled, &near)] {
        let mut bells = to.watch();
        let before = bells.borrow_and_update().claimable;
        from.submit(vec![task(n)]).await.unwrap();
        let rung = timeout(PATIENCE, bells.wait_for(|bells| bells.claimable > before)).await;
        assert!(rung.expect("it is woken").is_ok());
        assert!(to.task(id(n)).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_tasks_is_the_same_through_a_pooler() {
    let Some(bed) = bed() else { return };
    let (pooled, near) = (bed.pooled("lives").await, bed.near("lives").await);
    let keyed = |n| NewTask { key: Some(format!("key {n}")), ..task(n) };
    let submitted = pooled.submit((1..=3).map(keyed).collect()).await.unwrap();
    assert!(submitted.iter().all(|it| it.created), "{submitted:?}");
    let again = pooled.submit(vec![NewTask { id: id(9), ..keyed(1) }]).await.unwrap();
    assert!(!again[0].created && again[0].id == id(1), "{again:?}");
    let worker = register(&pooled, "pooled").await;
    assert_eq!(near.workers().await.unwrap().len(), 1);

    let claimed = pooled.claim(claim_of(&worker, 10)).await.unwrap();
    assert_eq!(ids(&claimed), [id(1), id(2), id(3)]);
    assert_eq!(claimed[1].payload.as_str(), "{\"n\": 2}");
    let held = |claimed: &[Claimed]| claimed.iter().map(|it| (it.task.id, it.task.status.lease)).collect();
    let pulse = pooled.heartbeat(worker.clone(), held(&claimed)).await.unwrap();
    assert!(pulse.lost.is_empty() && pulse.cancelled.is_empty(), "{pulse:?}");

    let finished = pooled
        .apply(vec![finish(&claimed[0], completed("{\"a\": 1}")), finish(&claimed[1], failed_for_good("no"))])
        .await
        .unwrap();
    assert!(finished.iter().all(Result::is_ok), "{finished:?}");
    let again = pooled.apply(vec![finish(&claimed[0], completed("{\"a\": 1}"))]).await.unwrap();
    assert!(again[0].as_ref().is_ok_and(|receipt| !receipt.changed), "{again:?}");
    let pulse = pooled.heartbeat(worker.clone(), held(&claimed)).await.unwrap();
    assert_eq!(pulse.lost, [id(1), id(2)]);
    for store in [&pooled, &near] {
        assert_eq!(state(store, id(1)).await, State::Completed);
        assert_eq!(state(store, id(2)).await, State::Failed);
        assert!(state(store, id(3)).await.is_held());
        assert_eq!(listed(store).await, [id(1), id(2), id(3)]);
    }
    assert_eq!(pooled.counts().await.unwrap(), near.counts().await.unwrap());
    assert_eq!(pooled.task(id(1)).await.unwrap(), near.task(id(1)).await.unwrap());
    pooled.deregister(worker.clone()).await.unwrap();
    assert!(near.workers().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_leader_on_both_sides_of_a_pooler() {
    let Some(bed) = bed() else { return };
    let (pooled, near) = (bed.pooled("leading").await, bed.near("leading").await);
    let (one, other) = (register(&pooled, "one").await, register(&near, "other").await);
    let led = pooled.campaign(one.clone(), PATIENCE).await.unwrap().expect("nobody else leads");
    assert_eq!(near.campaign(other.clone(), PATIENCE).await.unwrap(), None);
    let again = pooled.campaign(one.clone(), PATIENCE).await.unwrap().expect("it still leads");
    assert_eq!((again.term, &again.holder), (led.term, &one));
    assert_eq!(near.leader().await.unwrap(), pooled.leader().await.unwrap());
    pooled.resign(one.clone(), led.term).await.unwrap();
    let next = near.campaign(other.clone(), PATIENCE).await.unwrap().expect("the place is free");
    assert!(next.term > led.term);
    assert_eq!(pooled.leader().await.unwrap().unwrap().holder, other);
    // What only leaders and operators do.
    let (space, queue) = (Name::default(), Name::default());
    pooled.pause(space.clone(), queue.clone(), true).await.unwrap();
    assert_eq!(near.paused().await.unwrap(), [(space.clone(), queue.clone())]);
    assert!(pooled.set_entity(space.clone(), entity("ship:1"), true).await.unwrap());
    assert!(near.has_entity(space.clone(), entity("ship:1")).await.unwrap());
    let schedule = pooled.set_schedule(hourly("tick", pooled.now().await.unwrap())).await.unwrap();
    assert_eq!(near.schedules().await.unwrap(), [schedule]);
    assert!(pooled.due(10).await.is_ok());
}

/// Two stores with eight connections each share three of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_through_a_pooler_is_done_once_and_without_named_statements() {
    const SUBMITTERS: u64 = 4;
    const EACH: u64 = 100;
    let Some(bed) = bed() else { return };
    let near = bed.near("load").await;
    let stores = [Arc::new(bed.pooled("load").await), Arc::new(bed.pooled("load").await)];
    let mut at_work = Vec::new();
    for submitter in 0..SUBMITTERS {
        let store = stores[usize::try_from(submitter % 2).unwrap()].clone();
        at_work.push(tokio::spawn(async move {
            for n in 0..EACH {
                store.submit(vec![task(submitter * EACH + n)]).await.unwrap();
            }
            Vec::new()
        }));
    }
    let total = usize::try_from(SUBMITTERS * EACH).unwrap();
    let finished = Arc::new(AtomicUsize::new(0));
    for number in 0..4 {
        let (store, finished) = (stores[number % 2].clone(), finished.clone());
        at_work.push(tokio::spawn(async move {
            let worker = register(&store, &format!("worker-{number}")).await;
            let (mut done, mut commands) = (Vec::new(), Vec::new());
            let mut bells = store.watch();
            while finished.load(Ordering::SeqCst) < total {
                bells.mark_unchanged();
                let turn = Turn {
                    commands: std::mem::take(&mut commands),
                    claim: Some(claim_of(&worker, 7)),
                    ..Turn::default()
                };
                let ended = turn.commands.len();
                let turned = store.turn(turn).await.unwrap();
                assert!(turned.receipts.iter().all(Result::is_ok), "{turned:?}");
                finished.fetch_add(ended, Ordering::SeqCst);
                let claimed = turned.claimed.unwrap();
                done.extend(ids(&claimed));
                commands.extend(claimed.iter().map(|claimed| finish(claimed, completed("null"))));
                if commands.is_empty() {
                    // Everybody is woken once a second here.
                    let _ = timeout(PATIENCE, bells.changed()).await.expect("it is woken");
                }
            }
            done
        }));
    }
    let mut done = Vec::new();
    for working in at_work {
        done.extend(timeout(PATIENCE, working).await.expect("it ends").unwrap());
    }
    assert_eq!(done.len(), total, "each was claimed once");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), total, "and none twice");
    let counts = near.counts().await.unwrap();
    assert!(counts.len() == 1 && counts[0].state == State::Completed, "{counts:?}");
    assert_eq!(counts[0].tasks, SUBMITTERS * EACH);
    assert_eq!(listed(&near).await.len(), total);
    let connections = bed.server.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name LIKE 'pooled_%'",
    );
    assert!(connections.unwrap().parse::<usize>().unwrap() <= POOL, "the pooler was in between");
    let (executed, named) = bed.statements("pooled_load");
    assert!(executed > 100 && named.is_empty(), "{executed} executed, with names: {named:#?}");
}

/// The look at the server's log would find named statements: where no pooler is in between, the hot ones have
/// names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn named_statements_would_be_seen() {
    let Some(bed) = bed() else { return };
    let near = bed.near("named").await;
    near.submit(vec![task(1)]).await.unwrap();
    let (executed, named) = bed.statements("near_named");
    assert!(!named.is_empty(), "{executed} executed and none of them with a name");
}

/// What a transaction sets must be gone with it: the next on the connection may be anybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_set_stays_on_the_connections_of_the_server() {
    let Some(bed) = bed() else { return };
    let pooled = bed.pooled("settings").await;
    let worker = register(&pooled, "worker").await;
    pooled.submit((1..=20).map(task).collect()).await.unwrap();
    pooled.claim(claim_of(&worker, 20)).await.unwrap();
    listed(&pooled).await;
    let through = format!("postgres://postgres@{}/postgres", bed.pooler.addr());
    // More often than there are connections. What the pooler itself sets is the client's.
    for _ in 0..3 * POOL {
        let set = bed.server.psql(
            &through,
            "SELECT coalesce(string_agg(name || '=' || setting, ' '), '') FROM pg_settings WHERE source = 'session' \
             AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')",
        );
        let set = set.unwrap();
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        // `psql` also prints what a connection hears on which somebody has tried to listen.
        let said = String::from_utf8_lossy(&set.stdout);
        let set: Vec<&str> =
            said.lines().filter(|line| !line.starts_with("Asynchronous notification")).collect();
        assert_eq!(set.concat(), "");
    }
}
