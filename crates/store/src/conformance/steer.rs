//! What is done to a workflow as a whole: cancel, pause, resume, settle, give up, move; and how long it is
//! kept.

use std::time::Duration;

use serde_json::json;
use windlass_core::{
    By, Command, Name, NewWorkflow, Reason, Rejected, Retention, State, Steering, Waits, WorkflowId,
    WorkflowState,
};

use super::{
    Case, ad_hoc, claim_of, completed, definition, expanded, failed, failed_for_good, finish, ids, scenarios,
    token, workflow_id,
};
use crate::Turn;

scenarios![
    cancelling_reaches_everything,
    what_was_cancelled_stays_so,
    a_pause_lets_nothing_start,
    what_is_running_goes_on_while_paused,
    what_comes_back_while_paused_waits,
    a_dead_worker_while_paused,
    a_retry_while_paused_waits,
    children_that_become_ready_while_paused_wait,
    pausing_twice_is_pausing_once,
    a_paused_workflow_leaves_its_lane,
    resolving_settles_the_rest,
    giving_up_takes_failures_as_final,
    only_what_is_blocked_is_given_up,
    what_is_in_error_is_opened_again,
    what_is_over_is_not_steered,
    what_does_not_exist_is_not_steered,
    a_move_compares_and_swaps,
    a_move_follows_arrows_and_steps,
    an_owner_is_the_only_one_to_move,
    an_owner_that_fell_silent_is_followed_by_another,
    a_move_by_hand_gives_way_to_what_happens,
    operators_need_no_ownership,
    old_workflows_are_pruned_with_all_they_have,
    each_state_of_workflows_has_its_own_age,
    the_limit_of_pruning_counts_workflows,
    steps_are_not_pruned_alone,
    pruning_frees_keys_and_ids,
];

use WorkflowState::{
    BlockedByFailures, Cancelled, Complete, EnqueuingSteps, Error, EvaluatingResults, ResolvedManually,
    StepsInProcess, WaitingForDependencies, WaitingForRetry,
};

const HOLD: Duration = Duration::from_secs(30);

fn to(from: WorkflowState, to: WorkflowState, owner: &str) -> Steering {
    Steering::Move { from, to, owner: owner.into(), hold: HOLD }
}

async fn chain(case: &Case, n: u64) -> WorkflowId {
    case.start(n, json!({ "a": {}, "b": { "needs": ["a"] } })).await
}

/// I19: after an acknowledged cancel no attempt starts, and handlers are told.
async fn cancelling_reaches_everything(case: &Case) {
    let worker = case.worker("w").await;
    let id =
        case.start(1, json!({ "a": {}, "b": {}, "c": {}, "d": { "needs": ["a"] }, "e": {}, "f": {} })).await;
    let held = case.claim(&worker, 4).await;
    assert_eq!(ids(&held), [id.step(0), id.step(1), id.step(2), id.step(4)]);
    case.apply(Command::Start { token: token(&held[1]), at: None }).await.unwrap();
    case.fail(&held[2], "once").await;
    case.complete(&held[3]).await;
    let after = case.steer(id, Steering::Cancel).await;
    assert_eq!((after.state, after.counts.cancelled, after.counts.done), (Cancelled, 5, 1));
    let states = case.steps(id).await;
    assert!(
        states.iter().enumerate().all(|(n, state)| (*state == State::Completed) == (n == 4)),
        "{states:?}"
    );
    let leases = held[..2].iter().map(|one| (one.task.id, one.task.status.lease)).collect();
    let mut told = case.store().heartbeat(worker.clone(), leases).await.unwrap().cancelled;
    told.sort_unstable();
    assert_eq!(told, [id.step(0), id.step(1)]);
    let refusal = case.refusal(finish(&held[0], completed("1"))).await;
    assert_eq!(refusal, Rejected::Settled { task: id.step(0), state: State::Cancelled });
    assert!(case.claim(&worker, 9).await.is_empty());
    case.pass(3600);
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    assert_eq!(case.chores().await, 0, "no backoff goes on");
}

async fn what_was_cancelled_stays_so(case: &Case) {
    let id = chain(case, 1).await;
    case.steer(id, Steering::Cancel).await;
    let before = case.snapshot().await;
    case.steer(id, Steering::Cancel).await;
    assert_eq!(case.snapshot().await, before, "again: nothing happens");
    let (task, by) = (id.step(0), By::default);
    for command in
        [Command::Retry { task, force: true, by: by() }, Command::Retry { task, force: false, by: by() }]
    {
        let over = Rejected::WorkflowOver { workflow: id, state: Cancelled };
        assert_eq!(case.refusal(command).await, over);
    }
    assert_eq!(case.refusal(Command::Resolve { task, result: None, by: by() }).await.code(), "task_settled");
    assert_eq!(case.refusal(Command::Skip { task, by: by() }).await.code(), "task_settled");
}

async fn a_pause_lets_nothing_start(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {} })).await;
    let after = case.steer(id, Steering::Pause).await;
    assert!(after.paused);
    assert_eq!(after.state, WaitingForDependencies);
    assert!(case.claim(&worker, 9).await.is_empty());
    let refusal = case.refusal(Command::Claim { task: id.step(0), worker: worker.clone() }).await;
    assert_eq!(refusal.code(), "waiting");
    let record = case.record(id.step(0)).await;
    assert_eq!(record.task.status.waits, Waits::Resume);
    assert_eq!(record.history.last().unwrap().reason, Reason::Paused);
    case.crash().await;
    let rings = case.store().watch().borrow().claimable;
    let after = case.steer(id, Steering::Resume).await;
    assert_eq!((after.paused, after.state), (false, StepsInProcess));
    assert!(case.store().watch().borrow().claimable > rings, "workers are told");
    assert_eq!(case.claim(&worker, 9).await.len(), 2);
    assert_eq!(case.record(id.step(0)).await.history[2].reason, Reason::Resumed);
}

async fn what_is_running_goes_on_while_paused(case: &Case) {
    let worker = case.worker("w").await;
    let id = chain(case, 1).await;
    let a = case.claim_one(&worker).await;
    let after = case.steer(id, Steering::Pause).await;
    assert_eq!((after.paused, after.state), (true, StepsInProcess));
    let pulse = case.store().heartbeat(worker.clone(), vec![(a.task.id, a.task.status.lease)]).await.unwrap();
    assert!(pulse.cancelled.is_empty() && pulse.lost.is_empty());
    case.complete(&a).await;
    assert_eq!(case.flow(id).await, WaitingForDependencies);
    case.steer(id, Steering::Resume).await;
    case.work(&worker, completed("1")).await;
    assert_eq!(case.flow(id).await, Complete);
}

/// Released, snoozed, failed with attempts left: nothing of that is offered before the workflow goes on.
async fn what_comes_back_while_paused_waits(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {}, "c": {} })).await;
    let held = case.claim(&worker, 3).await;
    case.steer(id, Steering::Pause).await;
    case.apply(Command::Release { token: token(&held[0]), note: None }).await.unwrap();
    case.fail(&held[1], "once").await;
    let snoozed = windlass_core::Outcome::Snoozed { delay: Duration::from_secs(5) };
    case.finish(&held[2], snoozed).await.unwrap();
    assert_eq!(case.flow(id).await, WaitingForRetry);
    case.pass(120);
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    assert_eq!(case.chores().await, 2);
    assert_eq!(case.steps(id).await, [State::Waiting; 3]);
    assert!(case.claim(&worker, 9).await.is_empty());
    case.steer(id, Steering::Resume).await;
    let attempts: Vec<_> = case.claim(&worker, 9).await.iter().map(|one| one.task.status.attempt).collect();
    assert_eq!(attempts, [1, 2, 1], "only the failure has cost an attempt");
}

async fn a_dead_worker_while_paused(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": { "retry": { "max_attempts": 1 } } })).await;
    let held = case.claim(&worker, 2).await;
    case.apply(Command::Start { token: token(&held[1]), at: None }).await.unwrap();
    case.steer(id, Steering::Pause).await;
    case.store().deregister(worker.clone()).await.unwrap();
    assert_eq!(case.chores().await, 2);
    assert_eq!(case.steps(id).await, [State::Waiting, State::DeadLetter]);
    let worker = case.worker("v").await;
    assert!(case.claim(&worker, 9).await.is_empty());
    case.steer(id, Steering::Resume).await;
    assert_eq!(case.claim_one(&worker).await.task.status.lease, 2);
}

async fn a_retry_while_paused_waits(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {} })).await;
    let held = case.claim(&worker, 2).await;
    case.finish(&held[0], failed_for_good("no")).await.unwrap();
    case.steer(id, Steering::Pause).await;
    case.retry(id.step(0), true).await.unwrap();
    case.retry(id.step(1), false).await.unwrap();
    assert_eq!(case.steps(id).await, [State::Waiting; 2]);
    let refusal = case.refusal(finish(&held[1], completed("1"))).await;
    assert_eq!(refusal.code(), "lease_lost", "it was taken away");
    case.steer(id, Steering::Resume).await;
    assert_eq!(case.claim(&worker, 9).await.len(), 2);
}

async fn children_that_become_ready_while_paused_wait(case: &Case) {
    let worker = case.worker("w").await;
    let id =
        case.start(1, json!({ "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["a"] }, "d": {} })).await;
    let held = case.claim(&worker, 2).await;
    case.steer(id, Steering::Pause).await;
    case.complete(&held[0]).await;
    assert_eq!(case.record(id.step(1)).await.task.status.waits, Waits::Resume);
    case.skip(id.step(2)).await.unwrap();
    case.complete(&held[1]).await;
    case.steer(id, Steering::Resume).await;
    assert_eq!(case.work(&worker, completed("1")).await, id.step(1));
    assert_eq!(case.flow(id).await, Complete);
}

async fn pausing_twice_is_pausing_once(case: &Case) {
    let id = chain(case, 1).await;
    for steering in [Steering::Resume, Steering::Pause, Steering::Pause] {
        let first = case.steer(id, steering.clone()).await;
        let before = case.snapshot().await;
        assert_eq!(case.steer(id, steering).await, first);
        assert_eq!(case.snapshot().await, before);
    }
}

/// I7: what waits for a resume does not keep others from their turn.
async fn a_paused_workflow_leaves_its_lane(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": { "lane": { "key": "door", "limit": 1 } } });
    let (first, second) = (case.start(1, steps.clone()).await, case.start(2, steps).await);
    case.steer(first, Steering::Pause).await;
    let held = case.claim(&worker, 9).await;
    assert_eq!(ids(&held), [second.step(0)]);
    case.steer(first, Steering::Resume).await;
    assert!(case.claim(&worker, 9).await.is_empty());
    case.complete(&held[0]).await;
    assert_eq!(case.work(&worker, completed("1")).await, first.step(0));
}

async fn resolving_settles_the_rest(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {}, "c": { "needs": ["b"] } })).await;
    case.work(&worker, failed_for_good("no")).await;
    let held = case.claim_one(&worker).await;
    let after = case.steer(id, Steering::Resolve).await;
    assert_eq!((after.state, after.finished_at), (ResolvedManually, Some(case.now())));
    assert_eq!(case.steps(id).await, [State::Failed, State::Cancelled, State::Cancelled]);
    let pulse =
        case.store().heartbeat(worker.clone(), vec![(held.task.id, held.task.status.lease)]).await.unwrap();
    assert_eq!(pulse.cancelled, [held.task.id]);
    let before = case.snapshot().await;
    case.steer(id, Steering::Resolve).await;
    assert_eq!(case.snapshot().await, before);
    assert_eq!(case.retry(id.step(0), true).await.unwrap_err().code(), "workflow_over");
}

async fn giving_up_takes_failures_as_final(case: &Case) {
    let worker = case.worker("w").await;
    let id = chain(case, 1).await;
    case.work(&worker, failed_for_good("no")).await;
    let by = By { actor: Some("ada".into()), note: Some("it will never work".into()) };
    let after = case.store().steer(id, Steering::GiveUp, by).await.unwrap();
    assert_eq!((after.state, after.finished_at), (Error, Some(case.now())));
    assert_eq!(case.steps(id).await, [State::Failed, State::Waiting], "retrying opens it again");
    let last = case.workflow(id).await.history.pop().unwrap();
    assert_eq!((last.from, last.actor.as_deref()), (Some(BlockedByFailures), Some("ada")));
    let before = case.snapshot().await;
    case.steer(id, Steering::GiveUp).await;
    assert_eq!(case.snapshot().await, before, "again: nothing happens");
}

async fn only_what_is_blocked_is_given_up(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {} })).await;
    let refused = async || case.steer_refusal(id, Steering::GiveUp).await.code();
    assert_eq!(refused().await, "workflow_moved");
    case.work(&worker, failed_for_good("no")).await;
    assert_eq!(refused().await, "workflow_moved", "something can still run");
    case.work(&worker, completed("1")).await;
    case.steer(id, Steering::GiveUp).await;
}

/// C51: retrying, settling or skipping a step of what is in error goes on with it.
async fn what_is_in_error_is_opened_again(case: &Case) {
    let worker = case.worker("w").await;
    for n in 0..4 {
        let id = chain(case, n).await;
        case.work(&worker, failed_for_good("no")).await;
        case.steer(id, Steering::GiveUp).await;
        case.pass(1);
        let (step, child) = (id.step(0), id.step(1));
        let wanted = match n {
            0 => case.retry(step, true).await.map(|_| StepsInProcess).unwrap(),
            1 => case.resolve(step, None).await.map(|_| StepsInProcess).unwrap(),
            2 => case.skip(step).await.map(|_| Complete).unwrap(),
            _ => case.cancel(child).await.map(|_| BlockedByFailures).unwrap(),
        };
        let workflow = case.workflow(id).await.workflow;
        assert_eq!(workflow.state, wanted, "{n}");
        let finished_at = (wanted == Complete).then(|| case.now());
        assert_eq!(workflow.finished_at, finished_at, "{n}: when it ended at last");
        if wanted == StepsInProcess {
            while case.flow(id).await != Complete {
                case.work(&worker, completed("1")).await;
            }
        }
    }
}

async fn what_is_over_is_not_steered(case: &Case) {
    let worker = case.worker("w").await;
    let ids = [case.start(1, json!({})).await, chain(case, 2).await, chain(case, 3).await];
    case.steer(ids[1], Steering::Cancel).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(ids[2], Steering::GiveUp).await;
    for id in ids {
        let state = case.flow(id).await;
        let all = [Steering::Cancel, Steering::Pause, Steering::Resume, Steering::Resolve, Steering::GiveUp];
        for steering in all.into_iter().chain([to(state, Cancelled, "o")]) {
            let repeats =
                matches!((&steering, state), (Steering::Cancel, Cancelled) | (Steering::GiveUp, Error));
            if !repeats {
                let over = Rejected::WorkflowOver { workflow: id, state };
                assert_eq!(case.steer_refusal(id, steering).await, over);
            }
        }
    }
}

async fn what_does_not_exist_is_not_steered(case: &Case) {
    let id = workflow_id(7);
    let refusal = case.steer_refusal(id, Steering::Pause).await;
    assert_eq!(refusal, Rejected::UnknownWorkflow { workflow: id });
    assert_eq!(case.store().workflow(id).await.unwrap(), None);
}

/// 2.4: from the state that it is in, or not at all.
async fn a_move_compares_and_swaps(case: &Case) {
    let id = chain(case, 1).await;
    let refusal = case.steer_refusal(id, to(EvaluatingResults, EnqueuingSteps, "o")).await;
    let Rejected::WorkflowMoved { state, wanted, why, .. } = refusal else { panic!("{refusal}") };
    assert_eq!((state, wanted), (StepsInProcess, EnqueuingSteps));
    assert!(why.contains("evaluating_results"), "{why}");
    let entries = case.workflow(id).await.workflow.entries;
    let after = case.steer(id, to(StepsInProcess, EvaluatingResults, "o")).await;
    assert_eq!((after.state, after.entries), (EvaluatingResults, entries + 1));
    assert_eq!(after.owner, Some(("o".into(), case.now().plus(HOLD))));
    let refusal = case.steer_refusal(id, to(StepsInProcess, EvaluatingResults, "o")).await;
    assert_eq!(refusal.code(), "workflow_moved", "once");
}

/// Only along arrows, and to rest only where its steps say.
async fn a_move_follows_arrows_and_steps(case: &Case) {
    let id = chain(case, 1).await;
    for wrong in [Complete, Error, EnqueuingSteps, StepsInProcess, BlockedByFailures, WaitingForRetry] {
        let refusal = case.steer_refusal(id, to(StepsInProcess, wrong, "o")).await;
        assert_eq!(refusal.code(), "workflow_moved", "to {wrong}");
    }
    case.steer(id, to(StepsInProcess, EvaluatingResults, "o")).await;
    for wrong in [Complete, BlockedByFailures, WaitingForDependencies] {
        let refusal = case.steer_refusal(id, to(EvaluatingResults, wrong, "o")).await;
        assert!(refusal.to_string().contains("steps_in_process"), "{refusal}");
    }
    case.steer(id, to(EvaluatingResults, EnqueuingSteps, "o")).await;
    let after = case.steer(id, to(EnqueuingSteps, StepsInProcess, "o")).await;
    assert_eq!(after.state, StepsInProcess);
    let after = case.steer(id, to(StepsInProcess, Cancelled, "o")).await;
    assert_eq!((after.state, after.owner, after.counts.cancelled), (Cancelled, None, 2));
}

/// 2.4, C36: nobody else moves it while its owner's lease lasts.
async fn an_owner_is_the_only_one_to_move(case: &Case) {
    let id = chain(case, 1).await;
    case.steer(id, to(StepsInProcess, EvaluatingResults, "one")).await;
    let until = case.now().plus(HOLD);
    let refusal = case.steer_refusal(id, to(EvaluatingResults, EnqueuingSteps, "two")).await;
    assert_eq!(refusal, Rejected::WorkflowOwned { workflow: id, owner: "one".into(), until });
    case.pass(10);
    let after = case.steer(id, to(EvaluatingResults, EnqueuingSteps, "one")).await;
    assert_eq!(after.owner, Some(("one".into(), case.now().plus(HOLD))), "each move holds it anew");
}

/// C36: a dead owner blocks nobody for ever.
async fn an_owner_that_fell_silent_is_followed_by_another(case: &Case) {
    let id = chain(case, 1).await;
    case.steer(id, to(StepsInProcess, EvaluatingResults, "one")).await;
    case.pass(29);
    assert_eq!(
        case.steer_refusal(id, to(EvaluatingResults, EnqueuingSteps, "two")).await.code(),
        "workflow_owned"
    );
    case.pass(1);
    let steer = async |from, next, owner: &str, note: Option<&str>| {
        let by = By { actor: Some(owner.into()), note: note.map(Into::into) };
        case.store().steer(id, to(from, next, owner), by).await.unwrap()
    };
    let after = steer(EvaluatingResults, EnqueuingSteps, "two", None).await;
    assert_eq!(after.owner.unwrap().0, "two");
    let last = async || {
        let entry = case.workflow(id).await.history.pop().unwrap();
        (entry.actor, entry.note)
    };
    assert_eq!(last().await, (Some("two".into()), Some("took over from one".into())), "both are named");
    assert_eq!(
        case.steer_refusal(id, to(EnqueuingSteps, StepsInProcess, "one")).await.code(),
        "workflow_owned"
    );
    steer(EnqueuingSteps, StepsInProcess, "two", None).await;
    assert_eq!(last().await, (Some("two".into()), None), "it was its own");
    case.pass(30);
    steer(StepsInProcess, EvaluatingResults, "three", Some("because")).await;
    assert_eq!(last().await, (Some("three".into()), Some("because".into())), "who has a note keeps it");
}

/// What happens to its steps moves it on, whoever holds it.
async fn a_move_by_hand_gives_way_to_what_happens(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {} })).await;
    case.steer(id, to(StepsInProcess, EvaluatingResults, "o")).await;
    case.work(&worker, completed("1")).await;
    let workflow = case.workflow(id).await.workflow;
    assert_eq!((workflow.state, workflow.owner), (Complete, None));
    assert_eq!(
        case.steer_refusal(id, to(EvaluatingResults, EnqueuingSteps, "o")).await.code(),
        "workflow_moved"
    );
}

async fn operators_need_no_ownership(case: &Case) {
    let id = chain(case, 1).await;
    case.steer(id, to(StepsInProcess, EvaluatingResults, "o")).await;
    case.steer(id, Steering::Pause).await;
    case.steer(id, Steering::Resume).await;
    case.steer(id, Steering::Cancel).await;
    assert_eq!(case.flow(id).await, Cancelled);
}

const DAY: Duration = Duration::from_secs(86_400);

fn keep(rules: &[(State, Duration)]) -> Retention {
    let all = Retention::default();
    rules.iter().fold(all, |retention, (state, age)| retention.keep(*state, *age).unwrap())
}

async fn old_workflows_are_pruned_with_all_they_have(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    let a = case.claim_one(&worker).await;
    case.report(&a, super::details("1")).await.unwrap();
    case.finish(&a, expanded(&["1", "2"], Some(1))).await.unwrap();
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("2")).await;
    let open = chain(case, 2).await;
    case.take(id.step(1), &worker).await;
    case.complete(&case.held(id.step(1)).await).await;
    case.clock.advance(8 * DAY);
    case.store().register(windlass_core::NewWorker::new(worker)).await.unwrap();
    assert_eq!(case.store().prune(keep(&[(State::Completed, 7 * DAY)]), 100).await.unwrap(), 1);
    assert_eq!(case.store().workflow(id).await.unwrap(), None);
    let left = super::invariants::dump(&*case.store()).await;
    assert!(left.iter().all(|record| record.task.spec.workflow == Some(open)), "only the other's");
    let counted: u64 = case.store().counts().await.unwrap().iter().map(|count| count.tasks).sum();
    assert_eq!(counted, 2);
}

async fn each_state_of_workflows_has_its_own_age(case: &Case) {
    let worker = case.worker("w").await;
    let done = case.start(1, json!({})).await;
    let cancelled = chain(case, 2).await;
    case.steer(cancelled, Steering::Cancel).await;
    let resolved = chain(case, 3).await;
    case.steer(resolved, Steering::Resolve).await;
    let error = chain(case, 4).await;
    case.work(&worker, failed_for_good("no")).await;
    let blocked = chain(case, 5).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(error, Steering::GiveUp).await;
    case.clock.advance(10 * DAY);
    let finals = State::ALL.into_iter().filter(|state| state.is_final());
    let mut gone = Vec::new();
    for state in finals {
        let before = super::invariants::dump_workflows(&*case.store()).await;
        case.store().prune(keep(&[(state, 9 * DAY)]), 100).await.unwrap();
        let after = super::invariants::dump_workflows(&*case.store()).await;
        let went = before.iter().filter(|one| !after.contains(one));
        gone.extend(went.map(|one| (state, one.workflow.id)));
    }
    let wanted = [
        (State::Completed, done),
        (State::Failed, error),
        (State::Cancelled, cancelled),
        (State::ResolvedManually, resolved),
    ];
    assert_eq!(gone, wanted);
    assert_eq!(case.flow(blocked).await, BlockedByFailures, "what is not over is kept");
}

/// A workflow counts as one, however many tasks it has; the oldest go first.
async fn the_limit_of_pruning_counts_workflows(case: &Case) {
    for n in 1..=3 {
        let id = case.start(n, json!({ "a": {}, "b": {}, "c": {} })).await;
        case.pass(1);
        case.steer(id, Steering::Cancel).await;
    }
    let lone = case.bring(case.task(), State::Cancelled).await;
    case.clock.advance(DAY);
    let rule = keep(&[(State::Cancelled, Duration::ZERO)]);
    assert_eq!(case.store().prune(rule.clone(), 0).await.unwrap(), 0);
    assert_eq!(case.store().prune(rule.clone(), 2).await.unwrap(), 2);
    assert_eq!(case.store().prune(rule.clone(), 1).await.unwrap(), 1);
    let left: Vec<_> = super::invariants::dump_workflows(&*case.store()).await;
    let left: Vec<_> = left.iter().map(|one| one.workflow.id).collect();
    let is_there = case.store().task(lone).await.unwrap().is_some();
    assert_eq!(left.len() + usize::from(is_there), 1);
    assert!(left.is_empty() || left == [workflow_id(3)], "the oldest go first: {left:?}");
    assert_eq!(case.store().prune(rule.clone(), 9).await.unwrap(), 1);
}

/// Steps that are over stay as long as their workflow.
async fn steps_are_not_pruned_alone(case: &Case) {
    let worker = case.worker("w").await;
    let id = chain(case, 1).await;
    case.work(&worker, completed("1")).await;
    case.clock.advance(10 * DAY);
    assert_eq!(case.store().prune(keep(&[(State::Completed, DAY)]), 100).await.unwrap(), 0);
    assert_eq!(case.state(id.step(0)).await, State::Completed);
}

async fn pruning_frees_keys_and_ids(case: &Case) {
    let new = || NewWorkflow { key: Some("k".into()), ..ad_hoc(1, definition(json!({ "a": {} }))) };
    let id = case.begin(new()).await.id;
    case.steer(id, Steering::Cancel).await;
    case.pass(1);
    assert!(!case.begin(new()).await.created);
    case.store().prune(keep(&[(State::Cancelled, Duration::ZERO)]), 9).await.unwrap();
    let found = case.store().find_workflow(Name::default(), Name::stored("test"), "k".into()).await.unwrap();
    assert_eq!(found, None);
    assert!(case.begin(new()).await.created);
    let worker = case.worker("w").await;
    let turn = Turn { claim: Some(claim_of(&worker, 1)), ..Turn::default() };
    let claimed = case.store().turn(turn).await.unwrap().claimed.unwrap();
    assert_eq!(claimed[0].task.status.lease, 1, "a new life");
    case.fail(&claimed[0], "once").await;
    assert_eq!(case.record(id.step(0)).await.history.len(), 4);
    let retryable = failed("again");
    case.finish(&claimed[0], retryable).await.unwrap();
}
