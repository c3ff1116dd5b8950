//! Workers: registering, heartbeats, leaving.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    By, Command, DEAD_AFTER, Name, NewWorker, Rejected, Retention, State, Timestamp, Worker, WorkerId,
    WorkerSecret, limits,
};

use super::{Case, KIND, id, scenarios};
use crate::{Error, Pulse, Store};

scenarios![
    a_worker_is_known_as_it_registered,
    registering_again_replaces,
    a_worker_with_a_secret_is_replaced_with_that_secret_only,
    of_two_secrets_at_once_one_is_registered,
    workers_are_listed_by_id,
    a_heartbeat_is_recorded,
    a_heartbeat_never_goes_back,
    a_heartbeat_of_a_stranger_is_refused,
    a_heartbeat_tells_what_is_lost,
    a_heartbeat_tells_what_was_cancelled,
    a_worker_that_leaves_is_forgotten,
    dead_workers_stay_listed,
    pruning_forgets_the_long_dead,
    due_tells_when_the_first_falls_silent,
];

/// 1.5: everything about it comes back.
async fn a_worker_is_known_as_it_registered(case: &Case) {
    let new = NewWorker {
        id: WorkerId::new("host-1-abc").unwrap(),
        host: "host".into(),
        version: "1.2.3".into(),
        pool_size: 10,
        namespace: Name::namespace("tenant").unwrap(),
        queues: vec![Name::queue("b").unwrap(), Name::queue("a").unwrap()],
        kinds: vec![Name::kind("z").unwrap(), Name::kind(KIND).unwrap()],
        dead_after: Duration::from_nanos(1_500_000_001),
        secret: None,
    };
    let worker = case.store().register(new.clone()).await.unwrap();
    assert_eq!(worker, new.admit(case.now()));
    assert_eq!((worker.started_at, worker.heartbeat_at), (case.now(), case.now()));
    assert_eq!(case.store().workers().await.unwrap(), [worker]);
}

/// The same id again is the same worker, with what it says now.
async fn registering_again_replaces(case: &Case) {
    let id = case.worker("w").await;
    case.pass(10);
    let new = NewWorker { pool_size: 7, version: "2".into(), ..NewWorker::new(id) };
    case.store().register(new.clone()).await.unwrap();
    assert_eq!(case.store().workers().await.unwrap(), [new.admit(case.now())]);
}

/// A worker of this name, with a secret made of that number.
fn with_secret(name: &str, secret: Option<u8>) -> NewWorker {
    let secret = secret.map(|number| WorkerSecret::new([number; 32]).digest());
    NewWorker { secret, ..NewWorker::new(WorkerId::new(name).unwrap()) }
}

/// A worker is its id and its secret: whoever knows only the id cannot replace it, alive or dead.
async fn a_worker_with_a_secret_is_replaced_with_that_secret_only(case: &Case) {
    let register = async |secret: Option<u8>, pool_size: u32| {
        let new = NewWorker { pool_size, ..with_secret("w", secret) };
        case.store().register(new).await
    };
    let is_refused = |answer: Result<Worker, Error>| {
        let error = answer.unwrap_err();
        let worker = WorkerId::new("w").unwrap();
        assert_eq!(error.rejected(), Some(&Rejected::WrongWorkerSecret { worker }), "{error}");
    };
    register(Some(1), 1).await.unwrap();
    let registered_at = case.now();
    case.pass(5);
    is_refused(register(Some(2), 2).await);
    let row = only(case).await;
    assert_eq!((row.pool_size, row.heartbeat_at), (1, registered_at), "nothing has changed");
    // The answer was lost, or it was started again.
    register(Some(1), 3).await.unwrap();
    assert_eq!(only(case).await.pool_size, 3);
    case.pass(DEAD_AFTER.as_secs() + 1);
    is_refused(register(Some(2), 4).await);
    // Whoever has the store may do everything; then the worker has no secret, and nobody can have it.
    register(None, 5).await.unwrap();
    is_refused(register(Some(1), 6).await);
    register(None, 7).await.unwrap();
    // One that has left is forgotten with its secret.
    case.store().deregister(WorkerId::new("w").unwrap()).await.unwrap();
    register(Some(2), 8).await.unwrap();
    assert_eq!(only(case).await.pool_size, 8);
}

/// Two that choose the same id do not share it.
async fn of_two_secrets_at_once_one_is_registered(case: &Case) {
    for round in 0..20 {
        let name = format!("w{round}");
        let stores = [case.store(), case.second().await];
        let register = |store: &Arc<dyn Store>, secret| {
            let (store, new) = (store.clone(), with_secret(&name, Some(secret)));
            tokio::spawn(async move { store.register(new).await })
        };
        let racing = [register(&stores[0], 1), register(&stores[1], 2)];
        let mut winners = Vec::new();
        for (secret, racer) in (1..).zip(racing) {
            winners.extend(racer.await.unwrap().is_ok().then_some(secret));
        }
        let [winner] = winners[..] else { panic!("round {round}: {winners:?} are registered") };
        register(&stores[1], winner).await.unwrap().unwrap();
        register(&stores[0], 3 - winner).await.unwrap().unwrap_err();
    }
}

/// In the order of their bytes.
async fn workers_are_listed_by_id(case: &Case) {
    for name in ["b", "a", "é", "B", "aa", "10", "9"] {
        case.worker(name).await;
    }
    let listed = case.store().workers().await.unwrap();
    let names: Vec<_> = listed.iter().map(|worker| worker.id.as_str()).collect();
    assert_eq!(names, ["10", "9", "B", "a", "aa", "b", "é"]);
}

async fn only(case: &Case) -> Worker {
    case.store().workers().await.unwrap().remove(0)
}

/// 1.5 (last_heartbeat).
async fn a_heartbeat_is_recorded(case: &Case) {
    let worker = case.worker("w").await;
    let started = case.now();
    case.pass(10);
    assert_eq!(case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap(), Pulse::default());
    let row = only(case).await;
    assert_eq!((row.started_at, row.heartbeat_at), (started, case.now()));
    assert_eq!(row.alive_until(), case.now().plus(DEAD_AFTER));
}

/// A clock that goes back does not shorten a worker's life.
async fn a_heartbeat_never_goes_back(case: &Case) {
    let worker = case.worker("w").await;
    let then = case.now();
    case.clock.set(then.minus(Duration::from_secs(3600)));
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    assert_eq!(only(case).await.heartbeat_at, then);
}

/// 4.8: an unknown worker is told so, and is not made known by it.
async fn a_heartbeat_of_a_stranger_is_refused(case: &Case) {
    let stranger = WorkerId::new("stranger").unwrap();
    let error: Error = case.store().heartbeat(stranger.clone(), Vec::new()).await.unwrap_err();
    assert_eq!(error.code(), "invalid_worker");
    assert_eq!(case.store().workers().await.unwrap(), []);
}

/// I5, C21: of all it believes to hold, what it must let go: taken by others, over, or never there.
async fn a_heartbeat_tells_what_is_lost(case: &Case) {
    let (worker, other) = (case.worker("w").await, case.worker("other").await);
    let submitted = case.submit_many(5).await;
    for task in &submitted[..4] {
        case.take(*task, &worker).await;
    }
    case.retry(submitted[1], false).await.unwrap();
    case.take(submitted[1], &other).await;
    case.retry(submitted[2], false).await.unwrap();
    let resolve = Command::Resolve { task: submitted[3], result: None, by: By::default() };
    case.apply(resolve).await.unwrap();
    let unknown = id(999_999);
    let held = [submitted.clone(), vec![unknown]].concat().into_iter().map(|task| (task, 1)).collect();
    let mut pulse = case.store().heartbeat(worker.clone(), held).await.unwrap();
    pulse.lost.sort();
    let lost = vec![submitted[1], submitted[2], submitted[3], submitted[4], unknown];
    assert_eq!(pulse, Pulse { lost, cancelled: vec![] });
    let stale =
        case.store().heartbeat(worker.clone(), vec![(submitted[0], 2), (submitted[0], 0)]).await.unwrap();
    assert_eq!(stale.lost, [submitted[0]; 2], "another number is not this lease");
}

/// I19: a cancelled handler is told to stop.
async fn a_heartbeat_tells_what_was_cancelled(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(2).await;
    case.claim(&worker, 2).await;
    case.cancel(submitted[1]).await.unwrap();
    let held = submitted.iter().map(|task| (*task, 1)).collect();
    let pulse = case.store().heartbeat(worker.clone(), held).await.unwrap();
    assert_eq!(pulse, Pulse { lost: vec![], cancelled: vec![submitted[1]] });
}

/// 1.7, C20: its leases expire at once; leaving again, or never having been there, is fine.
async fn a_worker_that_leaves_is_forgotten(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    case.claim_one(&worker).await;
    case.store().deregister(worker.clone()).await.unwrap();
    assert_eq!(case.store().workers().await.unwrap(), []);
    assert_eq!(case.store().due(9).await.unwrap().commands, [Command::Expire { task, lease: 1 }]);
    case.chores().await;
    assert_eq!(case.state(task).await, State::Pending);
    case.store().deregister(worker.clone()).await.unwrap();
    assert_eq!(
        case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap_err().code(),
        "invalid_worker"
    );
}

/// 1.5: so that one can see who fell silent, and when.
async fn dead_workers_stay_listed(case: &Case) {
    case.worker("w").await;
    case.clock.set(Timestamp::MAX);
    assert!(!only(case).await.is_alive(case.now()));
}

/// After an hour, to the microsecond; one that came back in time is not among them, and what a forgotten one
/// held expires.
async fn pruning_forgets_the_long_dead(case: &Case) {
    let (gone, back) = (case.worker("gone").await, case.worker("back").await);
    let held = case.submit(case.task()).await;
    case.claim_one(&gone).await;
    let prune = || async { case.store().prune(Retention::default(), 10).await.unwrap() };
    case.clock.advance(DEAD_AFTER + limits::DEAD_WORKERS);
    assert_eq!((prune().await, case.store().workers().await.unwrap().len()), (0, 2));
    case.store().heartbeat(back.clone(), vec![]).await.unwrap();
    case.clock.advance(Duration::from_micros(1));
    assert_eq!(prune().await, 0, "workers are not counted");
    assert_eq!(only(case).await.id, back);
    assert!(
        matches!(case.store().due(9).await.unwrap().commands[..], [Command::Expire { task, .. }] if task == held)
    );
}

/// C54, 1.7: a leader's timer for the first live worker that may die; the dead are dead already.
async fn due_tells_when_the_first_falls_silent(case: &Case) {
    let silent_at = || async { case.store().due(0).await.unwrap().silent_at };
    assert_eq!(silent_at().await, None);
    let (now, patient) = (case.now(), WorkerId::new("patient").unwrap());
    let after = |seconds| Some(now.plus(Duration::from_secs(seconds)));
    let hour = Duration::from_secs(3600);
    case.store().register(NewWorker { dead_after: hour, ..NewWorker::new(patient.clone()) }).await.unwrap();
    assert_eq!(silent_at().await, after(3600));
    let worker = case.worker("w").await;
    assert_eq!(silent_at().await, after(30));
    case.pass(29);
    assert_eq!(silent_at().await, after(30));
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    assert_eq!(silent_at().await, after(59));
    case.pass(30);
    assert_eq!(silent_at().await, after(3600), "the other is dead now");
    case.store().deregister(patient.clone()).await.unwrap();
    assert_eq!(silent_at().await, None);
}
