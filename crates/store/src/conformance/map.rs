//! Steps that run over a list: an item for each element, gathered in order.

use serde_json::json;
use windlass_core::{
    By, Command, Counts, NewTask, Place, Reason, Rejected, State, Steering, TaskId, Token, Waits, WorkerId,
    WorkflowId, WorkflowState, limits,
};

use super::{
    Case, ad_hoc, claim_of, completed, definition, definition_of, expanded, failed, failed_for_good, finish,
    ids, scenarios, token, workflow_id,
};
use crate::{Claimed, Error, Turn};

scenarios![
    a_list_is_run_over_and_gathered_in_order,
    no_more_than_max_parallel_at_once,
    an_empty_list_is_done,
    expanding_twice_is_expanding_once,
    a_failing_item_holds_up_its_step,
    an_item_has_attempts_of_its_own,
    a_cancelled_or_skipped_item_is_null,
    results_that_are_too_large_fail_the_step,
    a_step_that_is_settled_leaves_no_items,
    a_retried_step_runs_over_its_list_again,
    one_turn_may_make_a_list_twice,
    a_pause_reaches_items,
    a_list_made_while_paused_waits,
    an_item_has_no_items,
    a_list_has_bounds,
    items_may_end_in_the_turn_that_makes_them,
    fail_fast_in_the_turn_of_the_last_item,
    a_step_in_a_lane_leaves_it_to_its_items,
    an_item_of_a_settled_step_does_not_run_again,
    a_crash_between_items_loses_nothing,
    a_stale_token_makes_no_items,
    a_lone_task_takes_no_id_of_an_item,
    a_lone_task_may_have_such_an_id_without_the_workflow,
];

/// The ids of items are known before the list is made.
async fn a_lone_task_takes_no_id_of_an_item(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": { "map": { "over": "x" } }, "b": { "needs": ["a"] } })).await;
    let (before, other) = (case.snapshot().await, case.task());
    let last = u32::try_from(limits::STEPS).unwrap() - 1;
    let places = [(0, None), (0, Some(0)), (0, Some(1)), (1, Some(7)), (9, None), (last, Some(last))];
    for (step, item) in places {
        let lone = NewTask { id: id.task(Place { step, item }), ..case.task() };
        let rejected = Rejected::IdReserved { task: lone.id, workflow: id };
        assert_eq!(case.refused(lone.clone()).await, rejected);
        let refused = case.store().submit(vec![other.clone(), lone]).await;
        assert_eq!(refused, Err(Error::InBatch { index: 1, rejected }));
        assert_eq!(case.snapshot().await, before);
    }
    case.submit(other).await;
    case.work(&worker, expanded(&["1", "2"], None)).await;
    while case.flow(id).await != WorkflowState::Complete {
        case.work(&worker, completed("1")).await;
    }
}

/// The workflow can then not be started.
async fn a_lone_task_may_have_such_an_id_without_the_workflow(case: &Case) {
    case.start(1, json!({ "a": {} })).await;
    for (n, place) in [(2, Place { step: 0, item: None }), (3, Place { step: 4, item: Some(7) })] {
        let id = workflow_id(n);
        let lone = NewTask { id: id.task(place), ..case.task() };
        assert_eq!(case.submit(lone.clone()).await, lone.id);
        assert_eq!(case.refused(lone.clone()).await, Rejected::IdConflict { task: lone.id });
        let before = case.snapshot().await;
        let refusal = case.start_refusal(ad_hoc(n, definition(json!({ "a": {} })))).await;
        assert_eq!(refusal, Rejected::WorkflowIdConflict { workflow: id });
        assert_eq!(case.snapshot().await, before);
    }
}

/// A workflow of a step with a list and one that needs it; the first is expanded to these items.
async fn mapped(case: &Case, worker: &WorkerId, items: &[&str], most: Option<u32>) -> WorkflowId {
    let id = case.start(1, json!({ "a": { "map": { "over": "x" } }, "b": { "needs": ["a"] } })).await;
    let a = case.claim_one(worker).await;
    case.finish(&a, expanded(items, most)).await.unwrap();
    id
}

fn item(id: WorkflowId, n: u32) -> TaskId {
    id.task(Place { step: 0, item: Some(n) })
}

fn payloads(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|one| one.payload.as_str()).collect()
}

async fn result(case: &Case, id: WorkflowId) -> String {
    case.record(id.step(0)).await.result.unwrap().as_str().into()
}

async fn a_list_is_run_over_and_gathered_in_order(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["10", "{\"x\": 20}", "30"], None).await;
    let step = case.record(id.step(0)).await;
    assert_eq!(step.task.status.waits, Waits::Items { settled: 0, of: 3 });
    assert_eq!(step.history.last().unwrap().reason, Reason::Expanded);
    assert_eq!(case.workflow(id).await.workflow.counts.total(), 5, "steps and items");
    let held = case.claim(&worker, 10).await;
    assert_eq!(payloads(&held), ["10", "{\"x\": 20}", "30"]);
    assert_eq!(ids(&held), [0, 1, 2].map(|n| item(id, n)));
    for n in [2, 0, 1] {
        assert_eq!(case.state(id.step(1)).await, State::Waiting);
        case.finish(&held[n], completed(&format!("\"r{n}\""))).await.unwrap();
    }
    assert_eq!(result(case, id).await, r#"["r0","r1","r2"]"#);
    let step = case.record(id.step(0)).await;
    let last = step.history.last().unwrap();
    assert_eq!((last.reason, last.actor.as_ref(), step.task.status.worker), (Reason::Completed, None, None));
    case.work(&worker, completed("1")).await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// The items of one step are a lane of their own.
async fn no_more_than_max_parallel_at_once(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1", "2", "3", "4"], Some(2)).await;
    let mut held = case.claim(&worker, 10).await;
    assert_eq!(payloads(&held), ["0", "1"]);
    let other = case.start(2, json!({ "a": {} })).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [other.step(0)], "others go on");
    case.finish(&held.remove(1), completed("1")).await.unwrap();
    held.extend(case.claim(&worker, 10).await);
    assert_eq!(payloads(&held), ["0", "2"]);
    case.finish(&held.remove(0), failed_for_good("no")).await.unwrap();
    held.extend(case.claim(&worker, 10).await);
    assert_eq!(payloads(&held), ["2", "3"], "one that failed gives its place away");
    case.retry(item(id, 0), true).await.unwrap();
    case.crash().await;
    assert!(case.claim(&worker, 10).await.is_empty());
    for claimed in &held {
        case.complete(claimed).await;
    }
    assert_eq!(payloads(&case.claim(&worker, 10).await), ["0", "4"]);
}

async fn an_empty_list_is_done(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &[], Some(1)).await;
    assert_eq!((case.state(id.step(0)).await, result(case, id).await), (State::Completed, "[]".into()));
    assert_eq!(case.work(&worker, completed("1")).await, id.step(1));
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// An answer can be lost: the same outcome for the same lease, again, is no error and makes nothing.
async fn expanding_twice_is_expanding_once(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {} })).await;
    let held = case.claim(&worker, 2).await;
    case.finish(&held[0], expanded(&["1"], None)).await.unwrap();
    let again = async |n: usize, items: &[&str]| {
        let before = case.snapshot().await;
        let receipt = case.finish(&held[n], expanded(items, None)).await.unwrap();
        assert!(!receipt.changed);
        assert_eq!(case.snapshot().await, before);
    };
    again(0, &["1"]).await;
    case.work(&worker, completed("1")).await;
    assert_eq!(case.state(id.step(0)).await, State::Completed);
    again(0, &["1"]).await;
    case.finish(&held[1], expanded(&[], None)).await.unwrap();
    again(1, &[]).await;
    // One that was given back is not one that was expanded.
    let id = case.start(2, json!({ "a": {} })).await;
    let held = case.claim_one(&worker).await;
    case.steer(id, Steering::Pause).await;
    case.apply(Command::Release { token: token(&held), note: None }).await.unwrap();
    assert_eq!(case.refusal(finish(&held, expanded(&["1"], None))).await.code(), "lease_lost");
}

/// The step waits, the workflow is blocked, and a retry of the item is enough.
async fn a_failing_item_holds_up_its_step(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1"], None).await;
    let held = case.claim(&worker, 10).await;
    case.finish(&held[0], failed_for_good("no")).await.unwrap();
    case.finish(&held[1], completed("1")).await.unwrap();
    let waits = case.record(id.step(0)).await.task.status.waits;
    assert_eq!(waits, Waits::Items { settled: 1, of: 2 });
    assert_eq!(case.flow(id).await, WorkflowState::BlockedByFailures);
    case.retry(item(id, 0), true).await.unwrap();
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
    assert_eq!(payloads(&case.claim(&worker, 1).await), ["0"]);
    case.finish(&case.held(item(id, 0)).await, failed_for_good("again")).await.unwrap();
    case.resolve(item(id, 0), Some("\"by hand\"")).await.unwrap();
    assert_eq!(result(case, id).await, "[\"by hand\",1]");
}

async fn an_item_has_attempts_of_its_own(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0"], None).await;
    for attempt in 1..=3 {
        case.work(&worker, failed("busy")).await;
        assert_eq!(case.record(item(id, 0)).await.task.status.attempt, attempt);
        let state =
            if attempt < 3 { WorkflowState::WaitingForRetry } else { WorkflowState::BlockedByFailures };
        assert_eq!(case.flow(id).await, state);
        case.pass(100);
        case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
        case.chores().await;
    }
    assert_eq!(case.state(item(id, 0)).await, State::DeadLetter);
    case.retry(item(id, 0), true).await.unwrap();
    case.work(&worker, completed("7")).await;
    assert_eq!(result(case, id).await, "[7]");
}

async fn a_cancelled_or_skipped_item_is_null(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1", "2", "3"], None).await;
    case.cancel(item(id, 0)).await.unwrap();
    case.skip(item(id, 2)).await.unwrap();
    case.resolve(item(id, 3), None).await.unwrap();
    assert_eq!(case.record(id.step(0)).await.task.status.waits, Waits::Items { settled: 3, of: 4 });
    case.work(&worker, completed("1")).await;
    assert_eq!(result(case, id).await, "[null,1,null,null]");
}

/// A result has bounds, and so has the list of many.
async fn results_that_are_too_large_fail_the_step(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1"], None).await;
    let large = format!("\"{}\"", "x".repeat(limits::JSON_BYTES / 2));
    for claimed in case.claim(&worker, 10).await {
        case.finish(&claimed, completed(&large)).await.unwrap();
    }
    let record = case.record(id.step(0)).await;
    assert_eq!((record.task.status.state, record.result), (State::Failed, None));
    assert!(record.task.status.error.unwrap().contains("1048576"));
    assert_eq!(case.flow(id).await, WorkflowState::BlockedByFailures);
    case.resolve(id.step(0), Some("[]")).await.unwrap();
    assert_eq!(case.state(id.step(1)).await, State::Pending);
}

/// Cancelled, skipped or settled by hand: what it has made is stopped, also in the hands of workers.
async fn a_step_that_is_settled_leaves_no_items(case: &Case) {
    let worker = case.worker("w").await;
    let by = By::default;
    for n in 0..3 {
        let id = case.start(n, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
        let (step, item) = (id.step(0), |n| id.task(Place { step: 0, item: Some(n) }));
        let a = case.take(step, &worker).await;
        case.finish(&a, expanded(&["0", "1", "2"], Some(2))).await.unwrap();
        let held = case.claim(&worker, 10).await;
        case.complete(&held[0]).await;
        let command = match n {
            0 => Command::Cancel { task: step, by: by() },
            1 => Command::Skip { task: step, by: by() },
            _ => Command::Resolve { task: step, result: None, by: by() },
        };
        case.apply(command).await.unwrap();
        let mut states = Vec::new();
        for n in 0..3 {
            states.push(case.state(item(n)).await);
        }
        assert_eq!(states, [State::Completed, State::Cancelled, State::Cancelled]);
        let lease = held[1].task.status.lease;
        let pulse = case.store().heartbeat(worker.clone(), vec![(held[1].task.id, lease)]).await.unwrap();
        assert_eq!(pulse.cancelled, [held[1].task.id]);
        let child = if n == 2 { State::Pending } else { State::Skipped };
        assert_eq!(case.state(id.step(1)).await, child);
        case.cancel(id.step(1)).await.ok();
        assert!(case.claim(&worker, 10).await.is_empty());
    }
}

/// A new life of the step makes a new list; the items of the life before are gone.
async fn a_retried_step_runs_over_its_list_again(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1", "2"], None).await;
    let held = case.claim(&worker, 2).await;
    case.complete(&held[0]).await;
    case.cancel(id.step(0)).await.unwrap();
    assert_eq!(case.flow(id).await, WorkflowState::Complete, "b is skipped");
    assert_eq!(case.retry(id.step(0), true).await.unwrap_err().code(), "workflow_over");

    let id = case.start(2, json!({ "a": {}, "b": { "needs": ["a"], "join": "all_done" }, "c": {} })).await;
    let a = case.take(id.step(0), &worker).await;
    case.finish(&a, expanded(&["0", "1", "2"], None)).await.unwrap();
    let old = case.take(item(id, 0), &worker).await;
    case.complete(&old).await;
    let late = case.take(item(id, 1), &worker).await;
    case.cancel(id.step(0)).await.unwrap();
    case.retry(id.step(0), true).await.unwrap();
    let a = case.take(id.step(0), &worker).await;
    case.finish(&a, expanded(&["8", "9"], None)).await.unwrap();
    assert_eq!(case.record(id.step(0)).await.task.status.waits, Waits::Items { settled: 0, of: 2 });
    assert_eq!(case.store().task(item(id, 2)).await.unwrap(), None, "the list is shorter");
    let refusal = case.finish(&late, completed("1")).await.unwrap_err();
    assert!(["not_claimed", "lease_lost"].contains(&refusal.code()), "{refusal}");
    for (n, payload) in [(0, "8"), (1, "9")] {
        let held = case.take(item(id, n), &worker).await;
        assert_eq!(held.payload.as_str(), payload);
        case.finish(&held, completed(payload)).await.unwrap();
    }
    assert_eq!(result(case, id).await, "[8,9]");
    assert_eq!(case.workflow(id).await.workflow.counts.total(), 5);
}

/// A list that is made, stopped and made again in one turn leaves nothing of the first: neither its items nor
/// their stop.
async fn one_turn_may_make_a_list_twice(case: &Case) {
    let worker = case.worker("w").await;
    for (n, is_worked) in [(1, false), (2, true)] {
        let id = case.start(n, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
        let a = case.take(id.step(0), &worker).await;
        let by = By::default;
        let take = |task: TaskId| Command::Claim { task, worker: worker.clone() };
        let end = |task: TaskId, lease, outcome| {
            let token = Token { task, lease, worker: worker.clone() };
            Command::Finish { token, outcome, started_at: None }
        };
        let mut commands = vec![finish(&a, expanded(&["0", "1", "2", "3"], Some(3)))];
        if is_worked {
            commands.extend([take(item(id, 0)), end(item(id, 0), 1, completed("0"))]);
            commands.extend([take(item(id, 1)), end(item(id, 1), 1, failed_for_good("no"))]);
            commands.push(take(item(id, 2)));
        }
        commands.push(Command::Cancel { task: id.step(0), by: by() });
        commands.push(Command::Retry { task: id.step(0), force: true, by: by() });
        commands.extend([take(id.step(0)), end(id.step(0), 2, expanded(&["8", "9"], None))]);
        if is_worked {
            commands.extend([take(item(id, 1)), end(item(id, 1), 1, completed("9"))]);
        }
        for receipt in case.store().apply(commands).await.unwrap() {
            receipt.unwrap();
        }
        let settled = u32::from(is_worked);
        assert_eq!(case.record(id.step(0)).await.task.status.waits, Waits::Items { settled, of: 2 });
        let counts = case.workflow(id).await.workflow.counts;
        let (waiting, active, done) = (2, 2 - settled, settled);
        assert_eq!(counts, Counts { waiting, active, done, ..Counts::default() });
        case.crash().await;
        for claimed in case.claim(&worker, 10).await {
            case.finish(&claimed, completed(claimed.payload.as_str())).await.unwrap();
        }
        assert_eq!(result(case, id).await, "[8,9]");
        case.work(&worker, completed("1")).await;
        assert_eq!(case.flow(id).await, WorkflowState::Complete);
    }
}

async fn a_pause_reaches_items(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1", "2"], Some(2)).await;
    let first = case.claim_one(&worker).await;
    case.steer(id, Steering::Pause).await;
    assert!(case.claim(&worker, 10).await.is_empty());
    case.finish(&first, completed("0")).await.unwrap();
    assert!(case.claim(&worker, 10).await.is_empty());
    assert_eq!(case.flow(id).await, WorkflowState::WaitingForDependencies);
    case.crash().await;
    case.steer(id, Steering::Resume).await;
    for claimed in case.claim(&worker, 10).await {
        case.finish(&claimed, completed(claimed.payload.as_str())).await.unwrap();
    }
    assert_eq!(result(case, id).await, "[0,1,2]");
}

async fn a_list_made_while_paused_waits(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {} })).await;
    let a = case.claim_one(&worker).await;
    case.steer(id, Steering::Pause).await;
    case.finish(&a, expanded(&["0", "1"], Some(1))).await.unwrap();
    assert!(case.claim(&worker, 10).await.is_empty());
    assert_eq!(case.record(item(id, 0)).await.task.status.waits, Waits::Resume);
    case.steer(id, Steering::Resume).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [item(id, 0)]);
}

async fn an_item_has_no_items(case: &Case) {
    let worker = case.worker("w").await;
    mapped(case, &worker, &["0"], None).await;
    let held = case.claim_one(&worker).await;
    assert_eq!(case.refusal(finish(&held, expanded(&["1"], None))).await.code(), "invalid_task");
    assert_eq!(case.refusal(finish(&held, expanded(&[], None))).await.code(), "invalid_task");
    case.complete(&held).await;
}

async fn a_list_has_bounds(case: &Case) {
    let worker = case.worker("w").await;
    case.start(1, json!({ "a": {} })).await;
    let a = case.claim_one(&worker).await;
    for most in [0, limits::LANE_LIMIT + 1] {
        assert_eq!(case.refusal(finish(&a, expanded(&["1"], Some(most)))).await.code(), "invalid_task");
    }
    let many = vec!["0"; limits::STEPS + 1];
    assert_eq!(case.refusal(finish(&a, expanded(&many, None))).await.code(), "invalid_task");
    case.finish(&a, expanded(&["1"], Some(limits::LANE_LIMIT))).await.unwrap();
}

/// Ids of items are known beforehand, and a turn has many commands.
async fn items_may_end_in_the_turn_that_makes_them(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    let a = case.claim_one(&worker).await;
    let claim = Command::Claim { task: item(id, 0), worker: worker.clone() };
    let token = Token { task: item(id, 0), lease: 1, worker: worker.clone() };
    let end = Command::Finish { token, outcome: completed("5"), started_at: None };
    let commands = vec![finish(&a, expanded(&["0"], None)), claim, end];
    let turn = Turn { commands, claim: Some(claim_of(&worker, 9)), term: None };
    let turned = case.store().turn(turn).await.unwrap();
    assert!(turned.receipts.iter().all(Result::is_ok), "{:?}", turned.receipts);
    assert_eq!(ids(&turned.claimed.unwrap()), [id.step(1)]);
    assert_eq!(result(case, id).await, "[5]");
    let counts = case.workflow(id).await.workflow.counts;
    assert_eq!((counts.done, counts.active), (2, 1));
}

async fn fail_fast_in_the_turn_of_the_last_item(case: &Case) {
    let worker = case.worker("w").await;
    let text = json!({ "name": "fast", "on_failure": "fail_fast", "steps": { "a": {}, "b": {} } });
    let id = case.begin(ad_hoc(1, definition_of(text))).await.id;
    let held = case.claim(&worker, 2).await;
    case.finish(&held[0], expanded(&["0"], None)).await.unwrap();
    let last = case.claim_one(&worker).await;
    let commands = vec![finish(&last, completed("1")), finish(&held[1], failed_for_good("no"))];
    case.store().apply(commands).await.unwrap();
    assert_eq!(case.flow(id).await, WorkflowState::Error);
    assert_eq!(case.state(item(id, 0)).await, State::Completed);
    let step = case.state(id.step(0)).await;
    assert!([State::Completed, State::Cancelled].contains(&step), "{step}");
}

/// A step that waits is not in progress: its slot is free for its items.
async fn a_step_in_a_lane_leaves_it_to_its_items(case: &Case) {
    let worker = case.worker("w").await;
    let lane = json!({ "key": "door", "limit": 1 });
    let id = case.start(1, json!({ "a": { "lane": lane } })).await;
    let a = case.claim_one(&worker).await;
    case.finish(&a, expanded(&["0", "1"], None)).await.unwrap();
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("2")).await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// I7: nor does it keep a slot that it was given for a moment.
async fn an_item_of_a_settled_step_does_not_run_again(case: &Case) {
    let worker = case.worker("w").await;
    for (n, most) in [(1, None), (2, Some(1))] {
        let id = case.start(n, json!({ "a": {}, "b": {} })).await;
        let a = case.take(id.step(0), &worker).await;
        case.finish(&a, expanded(&["0"], most)).await.unwrap();
        case.cancel(item(id, 0)).await.unwrap();
        assert_eq!(case.state(id.step(0)).await, State::Completed);
        case.retry(item(id, 0), true).await.ok();
        assert_eq!(ids(&case.claim(&worker, 9).await), [id.step(1)]);
        let status = case.record(item(id, 0)).await.task.status;
        assert_eq!((status.state, status.slot), (State::Cancelled, false));
    }
}

async fn a_crash_between_items_loses_nothing(case: &Case) {
    let worker = case.worker("w").await;
    let id = mapped(case, &worker, &["0", "1", "2"], Some(1)).await;
    for n in ["0", "1", "2"] {
        case.crash().await;
        case.work(&worker, completed(n)).await;
    }
    case.crash().await;
    assert_eq!(result(case, id).await, "[0,1,2]");
}

/// I5: a lease that is lost makes no list.
async fn a_stale_token_makes_no_items(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.begin(ad_hoc(1, definition(json!({ "a": {} })))).await.id;
    let old = case.claim_one(&worker).await;
    case.apply(Command::Release { token: token(&old), note: None }).await.unwrap();
    let new = case.claim_one(&worker).await;
    let refusal = case.refusal(finish(&old, expanded(&["1"], None))).await;
    assert!(matches!(refusal, Rejected::LeaseLost { .. }), "{refusal}");
    case.complete(&new).await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}
