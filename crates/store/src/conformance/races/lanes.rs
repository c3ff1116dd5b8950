//! Races for the slots of lanes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use windlass_core::{Backoff, Command, Entity, Lane, NewTask, Outcome, RetryPolicy, State, TaskId};

use super::{STUCK, apply, done, handles, race, rounds, submit, workers};
use crate::Claimed;
use crate::conformance::{Case, claim_of, finish, token};

/// I7: of each entity one task at a time is in progress, in the order of submission.
pub(super) async fn an_entity_is_worked_on_by_one(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let entities: Vec<Entity> = (0..4).map(|n| format!("planner:{round}-{n}").parse().unwrap()).collect();
        let tasks = submit(case, 32, |n, task| {
            let lane = Some(Lane::of(&entities[n % entities.len()]));
            NewTask { lane, ..task }
        });
        let tasks = tasks.await;
        let busy: Vec<_> = entities.iter().map(|_| (AtomicUsize::new(0), Mutex::new(Vec::new()))).collect();
        let left = AtomicUsize::new(tasks.len());
        race(&handles, async |n, store| {
            let begun = Instant::now();
            while left.load(SeqCst) > 0 {
                assert!(begun.elapsed() < STUCK, "I7: a free slot is given to the next");
                let claimed = store.claim(claim_of(&workers[n], 2)).await.unwrap();
                for one in &claimed {
                    let (running, log) = &busy[place_of(&tasks, one) % entities.len()];
                    assert_eq!(running.fetch_add(1, SeqCst), 0, "I7: two at once");
                    log.lock().unwrap().push(one.task.id);
                    apply(store, Command::Start { token: token(one), at: None }).await.unwrap();
                }
                for one in &claimed {
                    // Counted before the call: from its commit on, the next may begin.
                    busy[place_of(&tasks, one) % entities.len()].0.fetch_sub(1, SeqCst);
                    apply(store, finish(one, done())).await.unwrap();
                    left.fetch_sub(1, SeqCst);
                }
            }
        });
        for (n, (_, log)) in busy.iter().enumerate() {
            let order: Vec<_> = tasks.iter().skip(n).step_by(entities.len()).copied().collect();
            assert_eq!(*log.lock().unwrap(), order, "I7: in the order of submission");
        }
        for task in tasks {
            let states: Vec<_> = case.record(task).await.history.iter().map(|entry| entry.to).collect();
            assert_eq!(states, [State::Pending, State::Claimed, State::Running, State::Completed]);
        }
    }
}

fn place_of(tasks: &[TaskId], claimed: &Claimed) -> usize {
    tasks.iter().position(|task| *task == claimed.task.id).unwrap()
}

/// I7: a lane of three has at most three in progress, while tasks fail, come back and are promoted by many leaders.
pub(super) async fn a_lane_is_never_overfull(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let tasks = submit(case, 24, |_, task| {
            let lane = Some(Lane::new(&format!("lane {round}"), 3).unwrap());
            let retry = RetryPolicy { backoff: Backoff::None, ..RetryPolicy::default() };
            NewTask { lane, retry, ..task }
        });
        let (tasks, busy) = (tasks.await, AtomicUsize::new(0));
        let left = AtomicUsize::new(tasks.len());
        race(&handles, async |n, store| {
            let begun = Instant::now();
            while left.load(SeqCst) > 0 {
                assert!(begun.elapsed() < STUCK, "I7: a free slot is given to the next");
                if n % 4 == 0 {
                    // All leaders see the same commands; who comes late is refused, which is fine.
                    let due = store.due(10).await.unwrap().commands;
                    store.apply(due).await.unwrap();
                }
                let claimed = store.claim(claim_of(&workers[n], 2)).await.unwrap();
                for one in &claimed {
                    assert!(busy.fetch_add(1, SeqCst) < 3, "I7: more than the limit");
                    apply(store, Command::Start { token: token(one), at: None }).await.unwrap();
                }
                for one in &claimed {
                    let first = one.task.status.attempt == 1;
                    let error = "the first attempt fails".into();
                    let failed = Outcome::Failed { error, retryable: true, retry_after: None };
                    busy.fetch_sub(1, SeqCst);
                    apply(store, finish(one, if first { failed } else { done() })).await.unwrap();
                    left.fetch_sub(usize::from(!first), SeqCst);
                }
            }
        });
        for task in tasks {
            let task = case.record(task).await.task.status;
            assert_eq!((task.state, task.attempt, task.lease), (State::Completed, 2, 2), "I13");
        }
    }
}
