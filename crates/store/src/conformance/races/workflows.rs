//! Races for workflows: their row is what serialises them.

use serde_json::{Map, Value, json};
use windlass_core::{
    By, Command, NewWorkflow, OnConflict, Reason, State, Steering, WorkflowId, WorkflowState,
};

use super::{THREADS, apply, changed, done, handles, race, rounds, workers};
use crate::conformance::{Case, ad_hoc, claim_of, definition, expanded, finish, invariants, token};
use crate::{Claimed, Error, Started};

/// As many parents as threads, and a last step that needs them all.
fn fan_in(join: &str) -> Value {
    let mut steps: Map<String, Value> = (0..THREADS).map(|n| (format!("p{n:02}"), json!({}))).collect();
    let needs: Vec<String> = steps.keys().cloned().collect();
    steps.insert("z".into(), json!({ "needs": needs, "join": join }));
    Value::Object(steps)
}

async fn claim_all(case: &Case, round: usize) -> Vec<Claimed> {
    let mut held = Vec::new();
    for worker in workers(case, round).await {
        held.push(case.claim_one(&worker).await);
    }
    held
}

fn number(round: usize) -> u64 {
    u64::try_from(round).unwrap() + 1
}

/// I10: sixteen parents of one step end at once; it is started once, by the last of them.
pub(super) async fn the_parents_of_a_step_end_at_once(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let join = ["all", "any", "all_done"][round % 3];
        let workflow = case.start(number(round), fan_in(join)).await;
        let child = workflow.step(u32::try_from(THREADS).unwrap());
        let held = claim_all(case, round).await;
        race(&handles, async |n, store| {
            assert!(changed(&apply(store, finish(&held[n], done())).await));
        });
        let record = case.record(child).await;
        let ready = record.history.iter().filter(|entry| entry.reason == Reason::Ready).count();
        assert_eq!((record.task.status.state, ready), (State::Pending, 1), "{join}");
        case.take(child, &held[0].task.status.worker.clone().unwrap()).await;
        case.complete(&case.held(child).await).await;
        assert_eq!(case.flow(workflow).await, WorkflowState::Complete);
    }
}

/// The same for the items of a list: gathered once, in order.
pub(super) async fn the_items_of_a_step_end_at_once(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workflow = case.start(number(round), json!({ "a": {}, "b": { "needs": ["a"] } })).await;
        let worker = case.worker(&format!("maker {round}")).await;
        let a = case.claim_one(&worker).await;
        case.finish(&a, expanded(&["0"; THREADS], None)).await.unwrap();
        let held = claim_all(case, round).await;
        race(&handles, async |n, store| {
            let result = crate::conformance::completed(&n.to_string());
            assert!(changed(&apply(store, finish(&held[n], result)).await));
        });
        let texts: Vec<String> = (0..THREADS).map(|n| n.to_string()).collect();
        let result = case.record(workflow.step(0)).await.result.unwrap();
        assert_eq!(result.as_str(), format!("[{}]", texts.join(",")));
        case.complete(&case.claim_one(&worker).await).await;
        assert_eq!(case.flow(workflow).await, WorkflowState::Complete);
    }
}

/// I8: sixteen starts of one key make one workflow; one of them is told that it made it, and all of them its
/// id.
pub(super) async fn one_key_makes_one_workflow(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let first = u64::try_from(round * THREADS).unwrap() + 1;
        let answers = race(&handles, async |n, store| {
            let new = ad_hoc(first + u64::try_from(n).unwrap(), definition(json!({ "a": {}, "b": {} })));
            let on_conflict = if n.is_multiple_of(3) { OnConflict::Reject } else { OnConflict::Return };
            store.start(NewWorkflow { key: Some(format!("key {round}")), on_conflict, ..new }).await
        });
        let made: Vec<&Started> = answers.iter().flatten().filter(|started| started.created).collect();
        assert_eq!(made.len(), 1, "{answers:?}");
        for answer in &answers {
            match answer {
                Ok(started) => assert_eq!(started.id, made[0].id),
                Err(Error::Rejected(rejected)) => assert_eq!(rejected.code(), "workflow_key_conflict"),
                Err(error) => panic!("{error}"),
            }
        }
        let tasks = invariants::dump(&*handles[round % 2]).await.len();
        assert_eq!(tasks, 2 * (round + 1), "two steps for each key");
    }
}

/// One id, sixteen starts: one of them wins.
pub(super) async fn one_id_is_started_once(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let answers = race(&handles, async |_, store| {
            store.start(ad_hoc(number(round), definition(json!({ "a": {} })))).await
        });
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
        assert!(refused.into_iter().all(|error| error.code() == "workflow_id_conflict"));
    }
}

/// I11, I19: a cancel among finishes: what ended before it has ended, the rest is cancelled, and the workflow
/// ends once.
pub(super) async fn a_cancel_among_finishes(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workflow = case.start(number(round), fan_in("all")).await;
        let held = claim_all(case, round).await;
        let won = race(&handles, async |n, store| {
            if n == round % THREADS {
                let cancelled = store.steer(workflow, Steering::Cancel, By::default()).await.unwrap();
                assert_eq!(cancelled.state, WorkflowState::Cancelled);
                return false;
            }
            let answer = apply(store, finish(&held[n], done())).await;
            assert!(answer.as_ref().err().is_none_or(|rejected| rejected.code() == "task_settled"));
            changed(&answer)
        });
        let states = case.steps(workflow).await;
        for (n, won) in won.iter().enumerate() {
            let wanted = if *won { State::Completed } else { State::Cancelled };
            assert_eq!(states[n], wanted);
        }
        assert_eq!(case.flow(workflow).await, WorkflowState::Cancelled);
        invariants::check(&*handles[round % 2], &*case.clock).await;
    }
}

/// Pauses and resumes among claims, finishes, retries and chores: afterwards the workflow can still be
/// brought to its end.
pub(super) async fn pauses_among_everything(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let workflow = case.start(number(round), fan_in("all")).await;
        let workers = workers(case, round).await;
        race(&handles, async |n, store| {
            for turn in 0..6 {
                match n {
                    0 => {
                        let steering = if turn % 2 == 0 { Steering::Pause } else { Steering::Resume };
                        // It may be over already.
                        store.steer(workflow, steering, By::default()).await.ok();
                    }
                    1 => {
                        let task = workflow.step(turn);
                        apply(store, Command::Retry { task, force: true, by: By::default() }).await.ok();
                    }
                    _ => {
                        for held in store.claim(claim_of(&workers[n], 1)).await.unwrap() {
                            let command = match turn {
                                0 => Command::Release { token: token(&held), note: None },
                                _ => finish(&held, done()),
                            };
                            // It may have been taken away in between.
                            apply(store, command).await.ok();
                        }
                    }
                }
            }
        });
        invariants::check(&*handles[round % 2], &*case.clock).await;
        if !case.flow(workflow).await.is_final() {
            case.steer(workflow, Steering::Resume).await;
        }
        drain(case, workflow, &workers[0]).await;
        assert_eq!(case.flow(workflow).await, WorkflowState::Complete);
    }
}

/// Does what there is to do until nothing is left.
async fn drain(case: &Case, workflow: WorkflowId, worker: &windlass_core::WorkerId) {
    let open = async || case.steps(workflow).await.iter().any(|state| !state.is_final());
    while open().await {
        let held = case.claim(worker, 100).await;
        assert!(!held.is_empty(), "nothing can be claimed of {:?}", case.steps(workflow).await);
        for one in held {
            case.complete(&one).await;
        }
    }
}

/// One step, sixteen starts of its workflow with the same token: one is made, and all are told the same.
pub(super) async fn a_step_starts_one_workflow(case: &Case) {
    let handles = handles(case).await;
    for round in rounds() {
        let base = 1_000 * number(round);
        let outer = case.start(base, json!({ "a": { "workflow": "inner" } })).await;
        let worker = case.worker(&format!("w {round}")).await;
        let a = case.take(outer.step(0), &worker).await;
        let answers = race(&handles, async |n, store| {
            let new = ad_hoc(base + 1 + u64::try_from(n).unwrap(), definition(json!({ "x": {} })));
            store.start(NewWorkflow { parent: Some(token(&a)), ..new }).await.unwrap()
        });
        let made: Vec<_> = answers.iter().filter(|started| started.created).collect();
        assert_eq!(made.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|started| started.id == made[0].id));
        case.complete(&case.claim_one(&worker).await).await;
        assert_eq!(case.flow(outer).await, WorkflowState::Complete);
    }
}
