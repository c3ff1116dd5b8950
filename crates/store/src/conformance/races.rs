//! Real races: sixteen OS threads let go at once, half of them through a second handle to the same data.
//!
//! A race is run again and again, because each run is only one of many interleavings; it stops after a number
//! of rounds or of seconds, whichever comes first, so that a slow disk makes fewer rounds and not a longer
//! test. Nothing sleeps: threads wait for each other at a barrier, and the clock is moved by hand.

mod everything;
mod lanes;
mod workflows;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use windlass_core::{
    By, Command, Json, NewTask, OnConflict, Outcome, Reason, Rejected, State, TaskId, Token, WorkerId,
    history,
};

use self::everything::counts_equal_rows_after_everything_at_once;
use self::lanes::{
    a_child_ends_while_its_step_is_cancelled, a_lane_is_never_overfull,
    a_lane_of_workflows_is_never_overfull, an_entity_is_worked_on_by_one,
};
use self::workflows::{
    a_cancel_among_finishes, a_step_starts_one_workflow, one_id_is_started_once, one_key_makes_one_workflow,
    pauses_among_everything, the_items_of_a_step_end_at_once, the_parents_of_a_step_end_at_once,
};
use super::{Case, claim_of, finish, id, scenarios, token};
use crate::{Claimed, Error, Receipt, Store, Turn};

scenarios![
    one_key_makes_one_task,
    each_task_is_claimed_once,
    a_claim_by_name_has_one_winner,
    a_finish_and_an_expiry_have_one_winner,
    a_heartbeat_and_an_expiry_agree,
    no_attempt_starts_after_a_cancel,
    an_entity_is_worked_on_by_one,
    a_lane_is_never_overfull,
    a_lane_of_workflows_is_never_overfull,
    a_child_ends_while_its_step_is_cancelled,
    a_term_has_one_leader,
    two_handles_are_one_store,
    a_bad_batch_fails_alone,
    a_bad_command_fails_alone,
    counts_equal_rows_after_everything_at_once,
    the_parents_of_a_step_end_at_once,
    the_items_of_a_step_end_at_once,
    one_key_makes_one_workflow,
    one_id_is_started_once,
    a_cancel_among_finishes,
    pauses_among_everything,
    a_step_starts_one_workflow,
];

const THREADS: usize = 16;

/// How long threads may wait for each other's progress before a race counts as stuck.
const STUCK: Duration = Duration::from_secs(30);

/// The rounds of one race: at most thirty, and no new one after three seconds.
fn rounds() -> impl Iterator<Item = usize> {
    let begun = Instant::now();
    (0..30).take_while(move |round| *round == 0 || begun.elapsed() < Duration::from_secs(3))
}

/// The case's store and another one at the same data.
async fn handles(case: &Case) -> [Arc<dyn Store>; 2] {
    [case.store(), case.second().await]
}

/// Lets all threads go at once and gathers what each of them returns. Odd ones use the second handle.
fn race<T: Send>(handles: &[Arc<dyn Store>; 2], run: impl AsyncFn(usize, &dyn Store) -> T + Sync) -> Vec<T> {
    let (runtime, gate, run) = (Handle::current(), Barrier::new(THREADS), &run);
    std::thread::scope(|scope| {
        let (runtime, gate) = (&runtime, &gate);
        let start = |n: usize| {
            scope.spawn(move || {
                gate.wait();
                runtime.block_on(run(n, &*handles[n % 2]))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, T>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// One worker for each thread, fresh in each round.
async fn workers(case: &Case, round: usize) -> Vec<WorkerId> {
    let mut workers = Vec::new();
    for n in 0..THREADS {
        workers.push(case.worker(&format!("{round}-{n}")).await);
    }
    workers
}

/// Submits `count` tasks made by `make` in one batch.
async fn submit(case: &Case, count: usize, make: impl Fn(usize, NewTask) -> NewTask) -> Vec<TaskId> {
    let tasks: Vec<_> = (0..count).map(|n| make(n, case.task())).collect();
    let ids = tasks.iter().map(|task| task.id).collect();
    case.store().submit(tasks).await.unwrap();
    ids
}

/// `all`, beginning at another place for each thread, so that they meet in different orders.
fn from<T>(n: usize, all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().cycle().skip(n * 5 % all.len()).take(all.len())
}

async fn apply(store: &dyn Store, command: Command) -> Result<Receipt, Rejected> {
    store.apply(vec![command]).await.unwrap().remove(0)
}

fn done() -> Outcome {
    Outcome::Completed { result: Json::default() }
}

fn changed(answer: &Result<Receipt, Rejected>) -> bool {
    answer.as_ref().is_ok_and(|receipt| receipt.changed)
}

/// I8: sixteen submits of one key make one task; one of them is told that it made it, and all of them its id.
async fn one_key_makes_one_task(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let task = |n: usize| NewTask {
            key: Some(format!("key {round}")),
            on_conflict: if n.is_multiple_of(3) { OnConflict::Reject } else { OnConflict::Return },
            ..case.task()
        };
        let tasks: Vec<_> = (0..THREADS).map(task).collect();
        let answers = race(&handles, async |n, store| store.submit(vec![tasks[n].clone()]).await);
        let accepted = answers.iter().flatten().flatten();
        let created: Vec<_> = accepted.filter(|one| one.created).map(|one| one.id).collect();
        assert_eq!(created.len(), 1, "I8: created exactly once: {answers:?}");
        for (task, answer) in tasks.iter().zip(&answers) {
            match answer {
                Ok(submitted) => assert_eq!(submitted[0].id, created[0], "I8: one id"),
                Err(error) => {
                    let (key, existing) = (format!("key {round}"), created[0]);
                    assert_eq!(error.rejected(), Some(&Rejected::KeyConflict { key, existing }));
                    assert_eq!(task.on_conflict, OnConflict::Reject);
                }
            }
            let row = case.store().task(task.id).await.unwrap();
            assert_eq!(row.is_some(), task.id == created[0], "I8: one task");
        }
    }
}

/// I4: sixteen workers that empty one queue in batches get every task, each one once.
async fn each_task_is_claimed_once(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let submitted = submit(case, 64, |_, task| task).await;
        let claimed = race(&handles, async |n, store| {
            let mut mine: Vec<Claimed> = Vec::new();
            loop {
                let some = store.claim(claim_of(&workers[n], 1 + n % 5)).await.unwrap();
                if some.is_empty() {
                    return mine;
                }
                mine.extend(some);
            }
        });
        let taken: Vec<_> = claimed.iter().flatten().map(|one| one.task.id).collect();
        let distinct: HashSet<_> = taken.iter().copied().collect();
        assert_eq!(taken.len(), distinct.len(), "I4: nothing is handed out twice");
        assert_eq!(distinct, submitted.into_iter().collect(), "I1: everything is handed out");
        for (worker, mine) in workers.iter().zip(&claimed) {
            for one in mine {
                let task = case.record(one.task.id).await.task;
                assert_eq!(task, one.task, "what was handed out is the row");
                let holder = (task.status.worker.as_ref(), task.status.lease);
                assert_eq!(holder, (Some(worker), 1), "I4: one holder");
            }
        }
    }
}

/// I4: a task that sixteen workers claim by name, together with others and in different orders, goes to one
/// of them.
async fn a_claim_by_name_has_one_winner(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let tasks = submit(case, 8, |_, task| task).await;
        let answers = race(&handles, async |n, store| {
            let claim = |task: &TaskId| Command::Claim { task: *task, worker: workers[n].clone() };
            let commands: Vec<_> = from(n, &tasks).map(claim).collect();
            let named: Vec<_> = commands.iter().map(Command::task).collect();
            named.into_iter().zip(store.apply(commands).await.unwrap()).collect::<Vec<_>>()
        });
        for task in tasks {
            let all = answers.iter().flatten().filter(|(id, _)| *id == task).map(|(_, answer)| answer);
            let (won, lost): (Vec<_>, Vec<_>) = all.partition(|answer| changed(answer));
            let holder = case.record(task).await.task.status.worker.unwrap();
            assert_eq!((won.len(), lost.len()), (1, THREADS - 1), "I4: one winner");
            let taken = Err(Rejected::AlreadyClaimed { task, by: holder });
            assert!(lost.into_iter().all(|answer| *answer == taken), "the others are told by whom");
        }
    }
}

/// I3, I5: when a dead worker reports its end while leaders expire its lease, one of them counts and the
/// others are refused; the history tells which.
async fn a_finish_and_an_expiry_have_one_winner(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let attempts = std::num::NonZeroU32::new(if round % 2 == 0 { 3 } else { 1 });
        let tasks = submit(case, 8, |_, task| NewTask { max_attempts: attempts, ..task }).await;
        let worker = case.worker(&format!("slow {round}")).await;
        let claimed = case.claim(&worker, tasks.len()).await;
        assert_eq!(claimed.len(), tasks.len());
        for one in claimed.iter().filter(|_| round % 4 < 2) {
            case.apply(Command::Start { token: token(one), at: None }).await.unwrap();
        }
        case.pass(31);
        let answers = race(&handles, async |n, store| {
            let mut answers = Vec::new();
            for one in from(n, &claimed) {
                let Token { task, lease, .. } = token(one);
                let late = n / 2 % 2 == 0;
                let command = if late { finish(one, done()) } else { Command::Expire { task, lease } };
                answers.push((task, late, apply(store, command).await));
            }
            answers
        });
        for task in tasks {
            let of_task = answers.iter().flatten().filter(|(id, ..)| *id == task);
            let (won, lost): (Vec<_>, Vec<_>) = of_task.partition(|(.., answer)| changed(answer));
            assert_eq!(won.len(), 1, "I3: one of them counts: {won:?}");
            check_end(case, task, won[0].1).await;
            let state = case.state(task).await;
            for (_, late, answer) in lost {
                let fits = match (answer, state) {
                    (Ok(_), state) => *late && state == State::Completed,
                    (Err(Rejected::TaskCompleted { .. }), state) => state == State::Completed,
                    (Err(Rejected::LeaseLost { .. }), state) => state == State::Pending,
                    (Err(Rejected::TaskFailed { .. }), state) => state == State::DeadLetter,
                    (Err(_), _) => false,
                };
                assert!(fits, "I5: {answer:?} beside {state}");
            }
            apply(&*handles[0], Command::Cancel { task, by: By::default() }).await.ok();
        }
    }
}

/// The first attempt ended once, in the way of the winner.
async fn check_end(case: &Case, task: TaskId, finished: bool) {
    let history = case.record(task).await.history;
    assert_eq!(history::fault(&history), None, "I9");
    let attempts = history::attempts(&history);
    let never_started = attempts[0].started_at.is_none() && case.record(task).await.task.status.attempt == 0;
    let reason = match (finished, never_started) {
        (true, _) => Reason::Completed,
        (false, false) => Reason::LeaseExpired,
        (false, true) => Reason::NotStarted,
    };
    assert_eq!(attempts.iter().map(|one| one.ended).collect::<Vec<_>>(), [Some(reason)], "I3");
}

/// I5: a worker that was silent for too long either comes back in time and keeps everything, or is told what
/// it lost.
async fn a_heartbeat_and_an_expiry_agree(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let tasks = submit(case, 8, |_, task| task).await;
        let worker = case.worker(&format!("silent {round}")).await;
        let claimed = case.claim(&worker, tasks.len()).await;
        let held: Vec<_> = claimed.iter().map(|one| (one.task.id, one.task.status.lease)).collect();
        case.pass(31);
        let answers = race(&handles, async |n, store| {
            if n / 2 % 4 == 3 {
                return (Some(store.heartbeat(worker.clone(), held.clone()).await.unwrap()), Vec::new());
            }
            let mut expired = Vec::new();
            for (task, lease) in from(n, &held) {
                let answer = apply(store, Command::Expire { task: *task, lease: *lease }).await;
                expired.extend(changed(&answer).then_some(*task));
            }
            (None, expired)
        });
        let expired: Vec<_> = answers.iter().flat_map(|(_, expired)| expired).copied().collect();
        let distinct: BTreeSet<_> = expired.iter().copied().collect();
        assert_eq!(expired.len(), distinct.len(), "I3: a lease expires once");
        for pulse in answers.into_iter().filter_map(|(pulse, _)| pulse) {
            let told: BTreeSet<_> = pulse.lost.into_iter().collect();
            assert_eq!(told, distinct, "I5: what a heartbeat kept alive does not expire");
        }
        for task in tasks {
            let state = if distinct.contains(&task) { State::Pending } else { State::Claimed };
            assert_eq!(case.state(task).await, state);
            apply(&*handles[0], Command::Cancel { task, by: By::default() }).await.unwrap();
        }
    }
}

/// I19, I3: what is claimed while it is being cancelled was not cancelled before, and ends once.
async fn no_attempt_starts_after_a_cancel(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let tasks = submit(case, 32, |_, task| task).await;
        let acknowledged: Vec<_> = tasks.iter().map(|_| AtomicBool::new(false)).collect();
        let place = |id: TaskId| tasks.iter().position(|task| *task == id).unwrap();
        let finished = race(&handles, async |n, store| {
            let mut finished = Vec::new();
            if n / 2 % 2 == 0 {
                for task in from(n, &tasks) {
                    let cancel = Command::Cancel { task: *task, by: By::default() };
                    let answer = apply(store, cancel).await;
                    acknowledged[place(*task)].fetch_or(answer.is_ok(), SeqCst);
                }
                return finished;
            }
            loop {
                let over: Vec<_> = acknowledged.iter().map(|flag| flag.load(SeqCst)).collect();
                let claimed = store.claim(claim_of(&workers[n], 2)).await.unwrap();
                if claimed.is_empty() {
                    return finished;
                }
                for one in claimed {
                    assert!(!over[place(one.task.id)], "I19: claimed after an acknowledged cancel");
                    let answer = apply(store, finish(&one, done())).await;
                    finished.extend(answer.is_ok().then_some(one.task.id));
                }
            }
        });
        let finished: HashSet<_> = finished.into_iter().flatten().collect();
        for (task, flag) in tasks.iter().zip(&acknowledged) {
            let record = case.record(*task).await;
            let last = if finished.contains(task) { State::Completed } else { State::Cancelled };
            assert_eq!(record.task.status.state, last, "I3: one end");
            assert_eq!(flag.load(SeqCst), last == State::Cancelled, "I3: one is told of it");
            let ends = record.history.iter().filter(|entry| entry.to.is_final()).count();
            assert_eq!(ends, 1, "I19: nothing after the end: {:?}", record.history);
        }
    }
}

/// I15: sixteen candidates, again and again: no term has two leaders, and the one of a term may work in it.
async fn a_term_has_one_leader(case: &Case) {
    let (handles, lease) = (handles(case).await, Duration::from_secs(30));
    for _ in rounds() {
        case.pass(31);
        let wins = race(&handles, async |n, store| {
            let (me, mut terms) = (WorkerId::new(format!("candidate {n}")).unwrap(), Vec::new());
            for _ in 0..5 {
                if let Some(won) = store.campaign(me.clone(), lease).await.unwrap() {
                    assert_eq!(won.holder, me);
                    terms.push(won.term);
                    let turn = Turn { term: Some(won.term), ..Turn::default() };
                    store.turn(turn).await.expect("I15: a leader may work in its term");
                    store.resign(me.clone(), won.term).await.unwrap();
                }
            }
            terms
        });
        let terms: Vec<_> = wins.into_iter().flatten().collect();
        let distinct: HashSet<_> = terms.iter().collect();
        assert_eq!(terms.len(), distinct.len(), "I15: a term is given once: {terms:?}");
        let last = race(&handles, async |n, store| {
            store.campaign(WorkerId::new(format!("candidate {n}")).unwrap(), lease).await.unwrap()
        });
        let last: Vec<_> = last.into_iter().flatten().collect();
        assert_eq!(last.len(), 1, "I15: one leader: {last:?}");
        assert!(terms.iter().all(|term| *term < last[0].term), "I15: terms only grow");
        assert_eq!(case.store().leader().await.unwrap().as_ref(), last.first());
    }
}

/// I1, I4: what is submitted through one handle is done once through the other.
async fn two_handles_are_one_store(case: &Case) {
    let (handles, total) = (handles(case).await, THREADS / 2 * 6);
    for round in rounds() {
        let workers = workers(case, round).await;
        let left = AtomicUsize::new(total);
        let ran = race(&handles, async |n, store| {
            let (mut ran, begun) = (Vec::new(), Instant::now());
            if n % 2 == 0 {
                for _ in 0..6 {
                    store.submit(vec![case.task()]).await.unwrap();
                }
                return ran;
            }
            while left.load(SeqCst) > 0 {
                assert!(begun.elapsed() < STUCK, "I1: what was submitted is claimed");
                for one in store.claim(claim_of(&workers[n], 3)).await.unwrap() {
                    let receipt = apply(store, finish(&one, done())).await.unwrap();
                    assert!(receipt.changed && receipt.attempt == 1, "I4: run once: {receipt:?}");
                    ran.push(one.task.id);
                    left.fetch_sub(1, SeqCst);
                }
            }
            ran
        });
        let ran: HashSet<_> = ran.into_iter().flatten().collect();
        assert_eq!(ran.len(), total, "I4: each one once");
        for task in ran {
            assert_eq!(case.state(task).await, State::Completed, "both handles see the same");
        }
    }
}

/// I18: a batch with a bad task is refused whole and says which one; batches beside it are not touched.
async fn a_bad_batch_fails_alone(case: &Case) {
    let handles = handles(case).await;
    let taken = NewTask { key: Some("taken".into()), ..case.task() };
    let existing = case.submit(taken.clone()).await;
    for _ in rounds() {
        let batch = || (0..5).map(|_| case.task()).collect::<Vec<_>>();
        let answers = race(&handles, async |n, store| {
            let mut answers = Vec::new();
            for turn in 0..4 {
                let (mut tasks, bad) = (batch(), 1 + (n + turn) % 4);
                match (n + turn) % 6 {
                    0 => tasks[bad].timeout = Some(Duration::ZERO),
                    1 => tasks[bad].id = tasks[0].id,
                    2 => (tasks[bad].key, tasks[bad].on_conflict) = (taken.key.clone(), OnConflict::Reject),
                    3 => tasks[bad].id = existing,
                    _ => {}
                }
                let good = (n + turn) % 6 > 3;
                let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
                answers.push((good, bad, ids, store.submit(tasks).await));
            }
            answers
        });
        for (good, bad, ids, answer) in answers.into_iter().flatten() {
            match answer {
                Ok(submitted) => assert!(good && submitted.iter().all(|one| one.created), "I18"),
                Err(Error::InBatch { index, .. }) => assert!(!good && index == bad, "I18: {index} is bad"),
                Err(other) => panic!("I18: {other}"),
            }
            for id in ids.into_iter().filter(|id| *id != existing) {
                let there = case.store().task(id).await.unwrap().is_some();
                assert_eq!(there, good, "I18, I1: all of a good batch, nothing of a bad one");
            }
        }
    }
}

/// I18: in a turn, and in turns beside it, bad commands are refused and good ones carried out.
async fn a_bad_command_fails_alone(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let tasks = submit(case, THREADS * 4, |_, task| task).await;
        let forger = WorkerId::new(format!("forger {round}")).unwrap();
        race(&handles, async |n, store| {
            for two in tasks[n * 4..][..4].chunks(2) {
                let cancel = |task: TaskId| Command::Cancel { task, by: By::default() };
                let forged = Token { task: two[1], lease: 1, worker: forger.clone() };
                let commands = vec![
                    cancel(two[0]),
                    cancel(id(u64::MAX)),
                    Command::Finish { token: forged, outcome: done(), started_at: None },
                    Command::Delete { task: two[1] },
                    Command::Promote { task: two[0] },
                    cancel(two[1]),
                ];
                let answers = store.apply(commands).await.unwrap();
                let good: Vec<_> = answers.iter().map(changed).collect();
                assert_eq!(good, [true, false, false, false, false, true], "I18: {answers:?}");
            }
        });
        for task in tasks {
            assert_eq!(case.state(task).await, State::Cancelled, "I18");
        }
    }
}
