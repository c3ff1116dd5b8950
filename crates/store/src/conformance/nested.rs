//! Workflows that are steps of others.

use serde_json::{Value, json};
use windlass_core::{
    Json, Name, NewWorker, NewWorkflow, Place, Reason, Rejected, State, Steering, TaskId, Token, WORKFLOW,
    Waits, WorkerId, WorkflowId, WorkflowState, limits,
};

use super::{
    Case, KIND, ad_hoc, completed, definition, expanded, failed_for_good, ids, scenarios, token, workflow_id,
};
use crate::{Claimed, Page, Started, WorkflowFilter};

scenarios![
    a_workflow_may_be_a_step,
    a_workflow_that_fails_fails_its_step,
    a_workflow_that_is_blocked_lets_its_step_wait,
    a_workflow_that_is_cancelled_cancels_its_step,
    a_workflow_that_is_resolved_completes_its_step,
    cancelling_reaches_what_is_within,
    a_step_that_is_settled_stops_its_workflow,
    starting_twice_is_starting_once,
    a_stale_token_starts_nothing,
    only_steps_have_workflows,
    a_workflow_of_nothing_completes_its_step,
    a_retried_step_starts_another,
    workflows_are_found_by_their_step,
    what_was_reopened_does_not_come_back,
    depth_is_bounded,
    a_pause_does_not_reach_what_is_within,
    the_workflow_of_an_item_is_cancelled_with_it,
    a_map_at_the_end_of_a_workflow_is_in_its_result,
    results_that_are_carried_over_are_in_the_result,
    a_crash_between_the_two_loses_nothing,
    a_start_that_is_refused_leaves_its_step_alone,
];

async fn worker(case: &Case) -> WorkerId {
    let id = WorkerId::new("w").unwrap();
    let kinds = vec![Name::kind(KIND).unwrap(), Name::stored(WORKFLOW)];
    case.store().register(NewWorker { kinds, ..NewWorker::new(id.clone()) }).await.unwrap();
    id
}

fn within(parent: &Claimed, n: u64, steps: Value) -> NewWorkflow {
    NewWorkflow { parent: Some(token(parent)), ..ad_hoc(n, definition(steps)) }
}

/// A workflow of `a`, which is a workflow, and `b`, which needs it; `a` has started the one numbered 2 with
/// these steps.
async fn nested(case: &Case, worker: &WorkerId, steps: Value) -> (WorkflowId, WorkflowId) {
    let outer = case.start(1, json!({ "a": { "workflow": "inner" }, "b": { "needs": ["a"] } })).await;
    let a = case.claim_nested(worker).await;
    assert_eq!(a.task.id, outer.step(0));
    let started = case.begin(within(&a, 2, steps)).await;
    assert!(started.created);
    (outer, started.id)
}

/// It waits while its workflow runs, and has the results of its last steps, by name.
async fn a_workflow_may_be_a_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) =
        nested(case, &worker, json!({ "w": {}, "x": { "needs": ["w"] }, "y": {}, "z": {} })).await;
    assert_eq!(case.flow(outer).await, WorkflowState::WaitingForDependencies);
    let step = case.record(outer.step(0)).await;
    assert_eq!((step.task.status.state, step.task.status.waits), (State::Waiting, Waits::Workflow));
    assert_eq!(step.history.last().unwrap().reason, Reason::Nested);
    let row = case.workflow(inner).await.workflow;
    assert_eq!((row.parent, row.nesting), (Some(outer.step(0)), 1));
    let held = case.claim(&worker, 10).await;
    assert_eq!(ids(&held), [inner.step(0), inner.step(2), inner.step(3)]);
    case.finish(&held[0], completed("\"w\"")).await.unwrap();
    case.finish(&held[1], completed("\"y\"")).await.unwrap();
    case.skip(inner.step(3)).await.unwrap();
    case.work(&worker, completed("\"x\"")).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    let step = case.record(outer.step(0)).await;
    assert_eq!(step.result.unwrap().as_str(), r#"{"x":"x","y":"y"}"#, "of those that nobody needs");
    assert_eq!(case.work(&worker, completed("1")).await, outer.step(1));
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

async fn a_workflow_that_fails_fails_its_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {} })).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(inner, Steering::GiveUp).await;
    assert_eq!(case.steps(outer).await, [State::Failed, State::Waiting]);
    let error = case.record(outer.step(0)).await.task.status.error.unwrap();
    assert!(error.contains(&inner.to_string()), "{error}");
    assert_eq!(case.flow(outer).await, WorkflowState::BlockedByFailures);
}

/// Failures within are no failures without until somebody takes them as final.
async fn a_workflow_that_is_blocked_lets_its_step_wait(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {} })).await;
    let x = case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.flow(inner).await, WorkflowState::BlockedByFailures);
    assert_eq!(case.flow(outer).await, WorkflowState::WaitingForDependencies);
    case.retry(x, true).await.unwrap();
    case.work(&worker, completed("1")).await;
    assert_eq!(case.steps(outer).await, [State::Completed, State::Pending]);
}

async fn a_workflow_that_is_cancelled_cancels_its_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {} })).await;
    case.steer(inner, Steering::Cancel).await;
    assert_eq!(case.steps(outer).await, [State::Cancelled, State::Skipped]);
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

async fn a_workflow_that_is_resolved_completes_its_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {}, "y": {} })).await;
    case.work(&worker, completed("1")).await;
    case.steer(inner, Steering::Resolve).await;
    assert_eq!(case.state(inner.step(1)).await, State::Cancelled);
    assert_eq!(case.record(outer.step(0)).await.result.unwrap().as_str(), r#"{"x":1}"#);
    assert_eq!(case.state(outer.step(1)).await, State::Pending);
}

/// Down to the handlers of the innermost.
async fn cancelling_reaches_what_is_within(case: &Case) {
    let worker = worker(case).await;
    let (outer, middle) = nested(case, &worker, json!({ "x": { "workflow": "deeper" }, "y": {} })).await;
    let x = case.claim_nested(&worker).await;
    let inner = case.begin(within(&x, 3, json!({ "z": {} }))).await.id;
    let held = case.claim(&worker, 10).await;
    assert_eq!(ids(&held), [middle.step(1), inner.step(0)]);
    case.steer(outer, Steering::Cancel).await;
    for id in [outer, middle, inner] {
        assert_eq!(case.flow(id).await, WorkflowState::Cancelled);
        assert!(case.steps(id).await.iter().all(|state| *state == State::Cancelled));
    }
    let leases = held.iter().map(|one| (one.task.id, one.task.status.lease)).collect();
    let mut told = case.store().heartbeat(worker.clone(), leases).await.unwrap().cancelled;
    told.sort_unstable();
    assert_eq!(told, [middle.step(1), inner.step(0)]);
}

async fn a_step_that_is_settled_stops_its_workflow(case: &Case) {
    let worker = worker(case).await;
    for n in 0..3 {
        let outer = case.start(10 + n, json!({ "a": { "workflow": "inner" } })).await;
        let a = case.claim_nested(&worker).await;
        let inner = case.begin(within(&a, 20 + n, json!({ "x": {} }))).await.id;
        let step = outer.step(0);
        match n {
            0 => case.cancel(step).await.unwrap(),
            1 => case.skip(step).await.unwrap(),
            _ => case.resolve(step, Some("\"by hand\"")).await.unwrap(),
        };
        assert_eq!(case.flow(inner).await, WorkflowState::Cancelled);
        assert_eq!(case.state(inner.step(0)).await, State::Cancelled);
        assert_eq!(case.flow(outer).await, WorkflowState::Complete);
        let state = [State::Cancelled, State::Skipped, State::ResolvedManually];
        assert_eq!(case.state(step).await, state[usize::try_from(n).unwrap()], "its end stays what it was");
    }
}

/// An answer can be lost: with the same token it is the same workflow, whatever id it was to have.
async fn starting_twice_is_starting_once(case: &Case) {
    let worker = worker(case).await;
    case.start(1, json!({ "a": { "workflow": "inner" } })).await;
    let a = case.claim_nested(&worker).await;
    let first = case.begin(within(&a, 2, json!({ "x": {} }))).await;
    let before = case.snapshot().await;
    for n in [2, 3] {
        let again = case.begin(within(&a, n, json!({ "x": {} }))).await;
        assert_eq!(again, Started { created: false, ..first });
    }
    assert_eq!(case.snapshot().await, before);
}

async fn a_stale_token_starts_nothing(case: &Case) {
    let worker = worker(case).await;
    let outer = case.start(1, json!({ "a": { "workflow": "inner" } })).await;
    let old = case.claim_nested(&worker).await;
    case.retry(outer.step(0), false).await.unwrap();
    let refusal = case.start_refusal(within(&old, 2, json!({ "x": {} }))).await;
    assert_eq!(refusal.code(), "lease_lost");
    let new = case.claim_nested(&worker).await;
    assert_eq!(case.start_refusal(within(&old, 2, json!({ "x": {} }))).await.code(), "lease_lost");
    let stranger = Token { worker: WorkerId::new("other").unwrap(), ..token(&new) };
    let theirs = NewWorkflow { parent: Some(stranger), ..ad_hoc(2, definition(json!({}))) };
    assert_eq!(case.start_refusal(theirs).await.code(), "wrong_worker");
    case.begin(within(&new, 2, json!({ "x": {} }))).await;
    assert_eq!(case.start_refusal(within(&old, 3, json!({ "x": {} }))).await.code(), "lease_lost");
}

async fn only_steps_have_workflows(case: &Case) {
    let worker = worker(case).await;
    let lone = case.submit(case.task()).await;
    let held = case.claim_one(&worker).await;
    assert_eq!(case.start_refusal(within(&held, 1, json!({}))).await, Rejected::NotStep { task: lone });
    let token = Token { task: super::id(99), lease: 1, worker };
    let new = NewWorkflow { parent: Some(token), ..ad_hoc(1, definition(json!({}))) };
    assert_eq!(case.start_refusal(new).await, Rejected::NotFound { task: super::id(99) });
}

async fn a_workflow_of_nothing_completes_its_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({})).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    assert_eq!(case.record(outer.step(0)).await.result.unwrap().as_str(), "{}");
    assert_eq!(case.work(&worker, completed("1")).await, outer.step(1));
}

async fn a_retried_step_starts_another(case: &Case) {
    let worker = worker(case).await;
    let (outer, first) = nested(case, &worker, json!({ "x": {} })).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(first, Steering::GiveUp).await;
    case.retry(outer.step(0), true).await.unwrap();
    let a = case.claim_nested(&worker).await;
    let second = case.begin(within(&a, 3, json!({ "x": {} }))).await.id;
    assert_ne!(first, second);
    case.work(&worker, completed("2")).await;
    assert_eq!(case.record(outer.step(0)).await.result.unwrap().as_str(), r#"{"x":2}"#);
    assert_eq!(case.flow(first).await, WorkflowState::Error, "the first stays what it was");
}

/// All that a step was, and no others.
async fn workflows_are_found_by_their_step(case: &Case) {
    let worker = worker(case).await;
    let (outer, first) = nested(case, &worker, json!({ "x": {} })).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(first, Steering::GiveUp).await;
    case.retry(outer.step(0), true).await.unwrap();
    let second = case.begin(within(&case.claim_nested(&worker).await, 3, json!({ "x": {} }))).await.id;
    let other = case.start(4, json!({ "a": { "workflow": "inner" } })).await;
    let third = case.begin(within(&case.claim_nested(&worker).await, 5, json!({ "x": {} }))).await.id;
    let found = async |filter: WorkflowFilter, limit, oldest_first| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = Page { limit, after, oldest_first };
            let listing = case.store().workflows(filter.clone(), page).await.unwrap();
            found.extend(listing.workflows.iter().map(|workflow| workflow.id));
            after = listing.next;
            if after.is_none() {
                return found;
            }
        }
    };
    let of = |parent: TaskId| WorkflowFilter { parent: Some(parent), ..WorkflowFilter::default() };
    for limit in [1, 2, 100] {
        assert_eq!(found(of(outer.step(0)), limit, false).await, [second, first]);
        assert_eq!(found(of(outer.step(0)), limit, true).await, [first, second]);
        assert_eq!(found(of(other.step(0)), limit, true).await, [third]);
        assert_eq!(found(of(outer.step(1)), limit, true).await, [], "it is none");
        let failed = WorkflowFilter { states: vec![WorkflowState::Error], ..of(outer.step(0)) };
        assert_eq!(found(failed, limit, false).await, [first]);
    }
}

/// C51: a workflow in error may be opened again, but its step has moved on.
async fn what_was_reopened_does_not_come_back(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {} })).await;
    let x = case.work(&worker, failed_for_good("no")).await;
    case.steer(inner, Steering::GiveUp).await;
    case.resolve(outer.step(0), Some("7")).await.unwrap();
    case.retry(x, true).await.unwrap();
    assert_eq!(case.flow(inner).await, WorkflowState::StepsInProcess);
    case.take(x, &worker).await;
    case.complete(&case.held(x).await).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    let step = case.record(outer.step(0)).await;
    assert_eq!((step.task.status.state, step.result.unwrap().as_str()), (State::ResolvedManually, "7"));
}

async fn depth_is_bounded(case: &Case) {
    let worker = worker(case).await;
    case.start(0, json!({ "a": { "workflow": "deeper" } })).await;
    for n in 1..=u64::from(limits::NESTING) {
        let a = case.claim_nested(&worker).await;
        let id = case.begin(within(&a, n, json!({ "a": { "workflow": "deeper" } }))).await.id;
        assert_eq!(u64::from(case.workflow(id).await.workflow.nesting), n);
    }
    let a = case.claim_nested(&worker).await;
    let refusal = case.start_refusal(within(&a, 99, json!({ "x": {} }))).await;
    assert_eq!(refusal, Rejected::TooDeep { workflow: workflow_id(99) });
    case.finish(&a, completed("\"deep\"")).await.unwrap();
    assert_eq!(case.flow(workflow_id(0)).await, WorkflowState::Complete, "all the way up");
    let top = case.record(workflow_id(0).step(0)).await.result.unwrap();
    assert!(top.as_str().starts_with(r#"{"a":{"a":"#) && top.as_str().contains("deep"), "{top}");
}

/// What is running goes on; what is within was started.
async fn a_pause_does_not_reach_what_is_within(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {} })).await;
    case.steer(outer, Steering::Pause).await;
    case.work(&worker, completed("1")).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    assert_eq!(case.record(outer.step(1)).await.task.status.waits, Waits::Resume);
    case.steer(outer, Steering::Resume).await;
    assert_eq!(case.work(&worker, completed("1")).await, outer.step(1));
}

async fn the_workflow_of_an_item_is_cancelled_with_it(case: &Case) {
    let worker = worker(case).await;
    let outer = case.start(1, json!({ "a": { "workflow": "inner" } })).await;
    let a = case.claim_nested(&worker).await;
    case.finish(&a, expanded(&["0", "1", "2"], None)).await.unwrap();
    for n in 2..5 {
        let item = case.claim_nested(&worker).await;
        case.begin(within(&item, n, json!({ "x": {} }))).await;
    }
    let item = |n| -> TaskId { outer.task(Place { step: 0, item: Some(n) }) };
    case.work(&worker, completed("1")).await;
    assert_eq!(case.record(item(0)).await.result.unwrap().as_str(), r#"{"x":1}"#);
    case.cancel(item(1)).await.unwrap();
    assert_eq!(case.flow(workflow_id(3)).await, WorkflowState::Cancelled);
    case.steer(outer, Steering::Cancel).await;
    assert_eq!(case.flow(workflow_id(4)).await, WorkflowState::Cancelled);
    assert!(case.claim(&worker, 9).await.is_empty());
}

async fn a_map_at_the_end_of_a_workflow_is_in_its_result(case: &Case) {
    let worker = worker(case).await;
    let (outer, _) = nested(case, &worker, json!({ "x": {} })).await;
    let x = case.claim_one(&worker).await;
    case.finish(&x, expanded(&["1", "2"], None)).await.unwrap();
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("2")).await;
    assert_eq!(case.record(outer.step(0)).await.result.unwrap().as_str(), r#"{"x":[1,2]}"#);
}

async fn results_that_are_carried_over_are_in_the_result(case: &Case) {
    let worker = worker(case).await;
    let outer = case.start(1, json!({ "a": { "workflow": "inner" } })).await;
    let a = case.claim_nested(&worker).await;
    let carried = vec![(0, Json::result("1").unwrap()), (1, Json::result("2").unwrap())];
    let new = within(&a, 2, json!({ "x": {}, "y": { "needs": ["x"] } }));
    case.begin(NewWorkflow { carried, ..new }).await;
    assert_eq!(case.record(outer.step(0)).await.result.unwrap().as_str(), r#"{"y":2}"#);
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

async fn a_crash_between_the_two_loses_nothing(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = nested(case, &worker, json!({ "x": {}, "y": { "needs": ["x"] } })).await;
    case.crash().await;
    case.work(&worker, completed("1")).await;
    case.crash().await;
    case.work(&worker, completed("2")).await;
    case.crash().await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    assert_eq!(case.state(outer.step(1)).await, State::Pending);
}

/// All or nothing: a step waits only for a workflow that is there.
async fn a_start_that_is_refused_leaves_its_step_alone(case: &Case) {
    let worker = worker(case).await;
    case.start(1, json!({ "a": { "workflow": "inner" } })).await;
    let a = case.claim_nested(&worker).await;
    let refusal = case.start_refusal(within(&a, 1, json!({ "x": {} }))).await;
    assert_eq!(refusal.code(), "workflow_id_conflict");
    let source = windlass_core::Source::Named { name: Name::stored("nobody"), version: None };
    let unknown = NewWorkflow { source, ..within(&a, 2, json!({})) };
    assert_eq!(case.start_refusal(unknown).await.code(), "definition_not_found");
    // Still held: it may finish in another way.
    case.finish(&a, completed("1")).await.unwrap();
}
