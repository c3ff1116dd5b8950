//! Races for the slots of lanes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use serde_json::{Map, Value, json};
use windlass_core::{
    Backoff, By, Command, Entity, Lane, Name, NewTask, NewWorkflow, Outcome, RetryPolicy, State, Steering,
    TaskId, WORKFLOW, WorkflowId, WorkflowState,
};

use super::{STUCK, apply, done, handles, race, rounds, submit, workers};
use crate::conformance::{Case, ad_hoc, claim_of, definition, finish, invariants, token};
use crate::{Claim, Claimed};

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

/// I7: a lane of three has at most three in progress, while tasks fail, come back and are promoted by many
/// leaders.
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

/// Twelve steps that are workflows, in a lane of so many.
fn rollout(round: usize, limit: u32) -> Value {
    let step = json!({ "workflow": "inner", "lane": { "key": format!("rollout {round}"), "limit": limit } });
    let steps: Map<String, Value> = (0..12).map(|n| (format!("s{n:02}"), step.clone())).collect();
    Value::Object(steps)
}

fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap()
}

/// I7: of twelve workflows two run at a time, while sixteen workers start them, work on them, give them back
/// and fail. A worker that stops between the claim and the start gives nothing away.
pub(super) async fn a_lane_of_workflows_is_never_overfull(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let base = 10_000 * number(round) + 1;
        let outer = case.start(base, rollout(round, 2)).await;
        let (busy, next) = (AtomicUsize::new(0), AtomicUsize::new(1));
        race(&handles, async |n, store| {
            let begun = Instant::now();
            let claim = |kind: &str| Claim { kinds: vec![Name::stored(kind)], ..claim_of(&workers[n], 1) };
            while !store.workflow(outer).await.unwrap().unwrap().workflow.state.is_final() {
                assert!(begun.elapsed() < STUCK, "I7: a free slot is given to the next");
                for step in store.claim(claim(WORKFLOW)).await.unwrap() {
                    let id = base + number(next.fetch_add(1, SeqCst));
                    if n % 5 == 0 && step.task.status.lease == 1 {
                        apply(store, Command::Release { token: token(&step), note: None }).await.unwrap();
                        continue;
                    }
                    assert!(busy.fetch_add(1, SeqCst) < 2, "I7: more workflows than the limit");
                    let steps = json!({ "x": {}, "y": { "needs": ["x"] } });
                    let new = NewWorkflow { parent: Some(token(&step)), ..ad_hoc(id, definition(steps)) };
                    assert!(store.start(new).await.unwrap().created);
                }
                for one in store.claim(claim_of(&workers[n], 1)).await.unwrap() {
                    let id = WorkflowId::of(one.task.id);
                    let is_last = one.task.id == id.step(1);
                    // Counted before the call: from its commit on, the next may begin.
                    busy.fetch_sub(usize::from(is_last), SeqCst);
                    apply(store, finish(&one, done())).await.unwrap();
                }
            }
        });
        assert_eq!(busy.load(SeqCst), 0);
        assert_eq!(case.flow(outer).await, WorkflowState::Complete);
        invariants::check(&*handles[round % 2], &*case.clock).await;
    }
}

/// I7: workflows end at the very moment at which their steps are cancelled, or all of them with the workflow
/// that they are in; every slot is given to the next, once.
pub(super) async fn a_child_ends_while_its_step_is_cancelled(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workers = workers(case, round).await;
        let base = 10_000 * number(round) + 1;
        let outer = case.start(base, rollout(round, 4)).await;
        let next = case.start(base + 100, rollout(round, 4)).await;
        let claim = Claim { kinds: vec![Name::stored(WORKFLOW)], ..claim_of(&workers[0], 10) };
        let steps = case.store().claim(claim.clone()).await.unwrap();
        assert_eq!(steps.len(), 4);
        for (n, step) in steps.iter().enumerate() {
            let new = NewWorkflow {
                parent: Some(token(step)),
                ..ad_hoc(base + 1 + number(n), definition(json!({ "x": {} })))
            };
            case.begin(new).await;
        }
        let held = case.claim(&workers[1], 10).await;
        assert_eq!(held.len(), 4);
        race(&handles, async |n, store| {
            match n / 4 {
                // It may be cancelled already.
                0 => drop(apply(store, finish(&held[n], done())).await),
                // It may be complete already.
                1 => {
                    let task = steps[n % 4].task.id;
                    apply(store, Command::Cancel { task, by: By::default() }).await.ok();
                }
                2 if round % 3 == 0 && n == 8 => {
                    drop(store.steer(outer, Steering::Cancel, By::default()).await);
                }
                _ => drop(store.reconcile(None, 10).await.unwrap()),
            }
        });
        invariants::check(&*handles[round % 2], &*case.clock).await;
        let free = case.store().claim(claim).await.unwrap();
        assert_eq!(free.len(), 4, "four have ended, and four may begin");
        for id in [outer, next] {
            if !case.flow(id).await.is_final() {
                case.steer(id, Steering::Cancel).await;
            }
        }
        for step in steps {
            assert!(matches!(case.state(step.task.id).await, State::Completed | State::Cancelled));
        }
    }
}
