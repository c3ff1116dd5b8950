//! Lanes of steps that are workflows: the slot is the step's until its workflow has ended. And keys of lanes
//! that hold expressions.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{
    EvaluatedLane, Json, Lane, Name, NewWorker, NewWorkflow, Outcome, Place, Rejected, Retention, State,
    Steering, TaskId, WORKFLOW, WorkerId, WorkflowId, WorkflowState,
};

use super::{
    Case, KIND, ad_hoc, completed, definition, expanded, failed_for_good, finish, ids, scenarios, token,
    workflow_id,
};
use crate::Claimed;

scenarios![
    a_step_keeps_its_slot_while_its_workflow_runs,
    max_parallel_holds_for_workflows,
    however_the_workflow_ends_the_slot_is_free,
    whoever_settles_the_step_frees_its_slot,
    a_blocked_workflow_keeps_the_slot,
    a_workflow_of_nothing_frees_the_slot_at_once,
    a_retried_step_waits_for_a_slot_again,
    a_step_without_a_slot_is_parked_beside_a_running_workflow,
    a_crash_loses_no_slot,
    a_pruned_workflow_holds_nothing,
    a_lane_that_is_held_above_is_refused,
    it_is_refused_through_all_levels,
    a_lane_of_another_namespace_is_another_lane,
    an_item_that_asks_for_a_held_lane_fails_its_step,
    evaluated_keys_are_the_lanes_of_steps,
    what_was_not_evaluated_is_refused,
    what_was_evaluated_from_another_definition_is_refused,
    an_evaluated_key_has_the_limits_of_keys,
    each_item_is_in_its_own_lane,
    lanes_of_items_are_checked,
];

/// A worker that takes tasks and workflows.
async fn worker(case: &Case) -> WorkerId {
    let id = WorkerId::new("w").unwrap();
    let kinds = vec![Name::kind(KIND).unwrap(), Name::stored(WORKFLOW)];
    case.store().register(NewWorker { kinds, ..NewWorker::new(id.clone()) }).await.unwrap();
    id
}

/// The steps that can be claimed, of those that are workflows.
async fn offered(case: &Case, worker: &WorkerId) -> Vec<Claimed> {
    let claim = crate::Claim { kinds: vec![Name::stored(WORKFLOW)], ..super::claim_of(worker, 10) };
    case.store().claim(claim).await.unwrap()
}

fn within(parent: &Claimed, n: u64, steps: Value) -> NewWorkflow {
    NewWorkflow { parent: Some(token(parent)), ..ad_hoc(n, definition(steps)) }
}

fn item(id: WorkflowId, n: u32) -> TaskId {
    id.task(Place { step: 0, item: Some(n) })
}

/// Two steps that are workflows, in a lane of one. The first has started the workflow numbered 2.
async fn two_in_a_lane(case: &Case, worker: &WorkerId, inner: Value) -> (WorkflowId, WorkflowId) {
    let step = json!({ "workflow": "inner", "lane": { "key": "x", "limit": 1 } });
    let outer = case.start(1, json!({ "a": step, "b": step })).await;
    let held = offered(case, worker).await;
    assert_eq!(ids(&held), [outer.step(0)], "a lane of one");
    let started = case.begin(within(&held[0], 2, inner)).await;
    (outer, started.id)
}

/// Whether the second of the two is offered.
async fn is_free(case: &Case, worker: &WorkerId, outer: WorkflowId) -> bool {
    let held = offered(case, worker).await;
    assert!(held.is_empty() || ids(&held) == [outer.step(1)], "nobody else is in the lane");
    !held.is_empty()
}

/// I7: a rollout in waves: the second begins when the first has ended.
async fn a_step_keeps_its_slot_while_its_workflow_runs(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = two_in_a_lane(case, &worker, json!({ "x": {}, "y": { "needs": ["x"] } })).await;
    assert!(case.record(outer.step(0)).await.task.status.slot);
    assert!(!is_free(case, &worker, outer).await);
    case.work(&worker, completed("1")).await;
    assert!(!is_free(case, &worker, outer).await, "it has not ended");
    let holders = case.store().facts(outer.step(1)).await.unwrap().unwrap().lane_holders;
    assert_eq!((holders[0].task, holders[0].state), (outer.step(0), State::Waiting), "and that can be told");
    case.work(&worker, completed("2")).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    assert!(!case.record(outer.step(0)).await.task.status.slot);
    assert!(is_free(case, &worker, outer).await);
}

/// I7: a list of workflows, one at a time and two at a time.
async fn max_parallel_holds_for_workflows(case: &Case) {
    let worker = worker(case).await;
    for (round, most) in [1_u32, 2].into_iter().enumerate() {
        let base = 100 * (u64::try_from(round).unwrap() + 1);
        let outer = case.start(base, json!({ "a": { "workflow": "inner" } })).await;
        let a = case.claim_nested(&worker).await;
        case.finish(&a, expanded(&["1", "2", "3"], Some(most))).await.unwrap();
        let mut started = 0;
        while case.state(outer.step(0)).await == State::Waiting {
            let held = offered(case, &worker).await;
            for one in &held {
                assert_eq!(one.task.id, item(outer, started), "in the order of the list");
                started += 1;
                case.begin(within(one, base + u64::from(started), json!({ "x": {} }))).await;
            }
            assert!(offered(case, &worker).await.is_empty());
            let open = case.claim(&worker, 10).await;
            assert_eq!(open.len(), usize::try_from(most.min(3)).unwrap().min(open.len().max(1)));
            for one in open {
                case.complete(&one).await;
            }
        }
        assert_eq!((started, case.state(outer.step(0)).await), (3, State::Completed));
    }
}

async fn however_the_workflow_ends_the_slot_is_free(case: &Case) {
    let worker = worker(case).await;
    for end in 0..4 {
        let step = json!({ "workflow": "inner", "lane": { "key": format!("x{end}"), "limit": 1 } });
        let outer = case.start(10 + end, json!({ "a": step, "b": step })).await;
        let a = offered(case, &worker).await.remove(0);
        let inner = case.begin(within(&a, 20 + end, json!({ "x": {} }))).await.id;
        assert!(!is_free(case, &worker, outer).await);
        let x = case.claim_one(&worker).await;
        match end {
            0 => drop(case.complete(&x).await),
            1 => {
                case.finish(&x, failed_for_good("no")).await.unwrap();
                assert!(!is_free(case, &worker, outer).await, "it may still be retried");
                case.steer(inner, Steering::GiveUp).await;
            }
            2 => drop(case.steer(inner, Steering::Cancel).await),
            _ => drop(case.steer(inner, Steering::Resolve).await),
        }
        let wanted = [State::Completed, State::Failed, State::Cancelled, State::Completed];
        assert_eq!(case.state(outer.step(0)).await, wanted[usize::try_from(end).unwrap()]);
        assert!(is_free(case, &worker, outer).await, "end {end}");
        case.steer(outer, Steering::Cancel).await;
    }
}

/// The workflow below it is cancelled in the same change.
async fn whoever_settles_the_step_frees_its_slot(case: &Case) {
    let worker = worker(case).await;
    for n in 0..4 {
        let step = json!({ "workflow": "inner", "lane": { "key": "x", "limit": 1 } });
        let outer = case.start(10 + n, json!({ "a": step })).await;
        let next = case.start(20 + n, json!({ "a": step })).await;
        let a = offered(case, &worker).await.remove(0);
        let inner = case.begin(within(&a, 30 + n, json!({ "x": {} }))).await.id;
        assert!(offered(case, &worker).await.is_empty());
        match n {
            0 => drop(case.cancel(outer.step(0)).await.unwrap()),
            1 => drop(case.skip(outer.step(0)).await.unwrap()),
            2 => drop(case.resolve(outer.step(0), None).await.unwrap()),
            _ => drop(case.steer(outer, Steering::Cancel).await),
        }
        assert_eq!(case.flow(inner).await, WorkflowState::Cancelled);
        assert_eq!(ids(&offered(case, &worker).await), [next.step(0)]);
        case.steer(next, Steering::Cancel).await;
    }
}

async fn a_blocked_workflow_keeps_the_slot(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = two_in_a_lane(case, &worker, json!({ "x": {} })).await;
    let x = case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.flow(inner).await, WorkflowState::BlockedByFailures);
    assert!(!is_free(case, &worker, outer).await);
    case.retry(x, true).await.unwrap();
    case.work(&worker, completed("1")).await;
    assert!(is_free(case, &worker, outer).await);
}

async fn a_workflow_of_nothing_frees_the_slot_at_once(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = two_in_a_lane(case, &worker, json!({})).await;
    assert_eq!(case.flow(inner).await, WorkflowState::Complete);
    assert!(is_free(case, &worker, outer).await);
}

/// C51: it goes to the end of its lane's line, as any task that is opened again.
async fn a_retried_step_waits_for_a_slot_again(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = two_in_a_lane(case, &worker, json!({ "x": {} })).await;
    case.work(&worker, failed_for_good("no")).await;
    case.steer(inner, Steering::GiveUp).await;
    case.retry(outer.step(0), true).await.unwrap();
    let b = offered(case, &worker).await;
    assert_eq!(ids(&b), [outer.step(1)], "it took the slot when the workflow had ended");
    case.begin(within(&b[0], 3, json!({ "x": {} }))).await;
    assert!(offered(case, &worker).await.is_empty());
    case.work(&worker, completed("1")).await;
    assert_eq!(ids(&offered(case, &worker).await), [outer.step(0)]);
}

/// Plain tasks are in the same line.
async fn a_step_without_a_slot_is_parked_beside_a_running_workflow(case: &Case) {
    let worker = worker(case).await;
    let (outer, _) = two_in_a_lane(case, &worker, json!({ "x": {} })).await;
    let mut task = case.task();
    task.lane = Some(Lane::new("x", 1).unwrap());
    let task = case.submit(task).await;
    case.work(&worker, completed("1")).await;
    let b = offered(case, &worker).await.remove(0);
    case.begin(within(&b, 3, json!({ "x": {} }))).await;
    assert_eq!(case.work(&worker, completed("1")).await, workflow_id(3).step(0));
    assert_eq!(case.work(&worker, completed("1")).await, task, "in the order of submission");
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

async fn a_crash_loses_no_slot(case: &Case) {
    let worker = worker(case).await;
    let (outer, _) = two_in_a_lane(case, &worker, json!({ "x": {} })).await;
    case.crash().await;
    assert!(!is_free(case, &worker, outer).await);
    case.work(&worker, completed("1")).await;
    case.crash().await;
    assert!(is_free(case, &worker, outer).await);
    // The worker that was to start the second is gone.
    case.pass(3600);
    case.chores().await;
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    assert!(is_free(case, &worker, outer).await, "the step has kept its slot, and is offered again");
}

async fn a_pruned_workflow_holds_nothing(case: &Case) {
    let worker = worker(case).await;
    let (outer, inner) = two_in_a_lane(case, &worker, json!({ "x": {} })).await;
    let retention = Retention::default().keep(State::Completed, Duration::ZERO).unwrap();
    case.pass(1);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 0, "it is not over");
    case.work(&worker, completed("1")).await;
    case.pass(1);
    assert_eq!(case.store().prune(retention, 100).await.unwrap(), 1);
    assert_eq!(case.store().workflow(inner).await.unwrap(), None);
    assert!(is_free(case, &worker, outer).await);
}

/// The step below would wait for the end of the step above, which waits for it.
async fn a_lane_that_is_held_above_is_refused(case: &Case) {
    let worker = worker(case).await;
    let step = json!({ "workflow": "inner", "lane": { "key": "x", "limit": 5 } });
    let outer = case.start(1, json!({ "rollout": step })).await;
    let a = case.claim_nested(&worker).await;
    let before = case.snapshot().await;
    let bad = json!({ "w": {}, "migrate": { "lane": { "key": "x", "limit": 2 }, "needs": ["w"] } });
    let refused = case.start_refusal(within(&a, 2, bad)).await;
    let wanted = Rejected::LaneHeldAbove {
        step: "migrate".into(),
        lane: "x".into(),
        holder: "rollout".into(),
        workflow: outer,
    };
    assert_eq!(refused, wanted);
    assert_eq!(case.snapshot().await, before, "and nothing has changed");
    case.begin(within(&a, 2, json!({ "migrate": { "lane": { "key": "y", "limit": 1 } } }))).await;
    case.work(&worker, completed("1")).await;
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

/// However many workflows are between the two; an item is named with its number.
async fn it_is_refused_through_all_levels(case: &Case) {
    let worker = worker(case).await;
    let step = json!({ "workflow": "inner", "lane": { "key": "x", "limit": 2 } });
    let outer = case.start(1, json!({ "a": step })).await;
    let a = case.claim_nested(&worker).await;
    case.finish(&a, expanded(&["1", "2"], None)).await.unwrap();
    let held = offered(case, &worker).await;
    case.begin(within(&held[1], 2, json!({ "b": { "workflow": "deeper" } }))).await;
    let b = case.claim_nested(&worker).await;
    let bad = json!({ "c": { "workflow": "deepest", "lane": { "key": "x", "limit": 1 } } });
    let refused = case.start_refusal(within(&b, 3, bad)).await;
    let Rejected::LaneHeldAbove { step, holder, workflow, .. } = refused else { panic!("{refused}") };
    assert_eq!((&*step, &*holder, workflow), ("c", "a[1]", outer));
}

async fn a_lane_of_another_namespace_is_another_lane(case: &Case) {
    let worker = worker(case).await;
    case.start(1, json!({ "a": { "workflow": "inner", "lane": { "key": "x", "limit": 1 } } })).await;
    let a = case.claim_nested(&worker).await;
    let new = within(&a, 2, json!({ "x": { "lane": { "key": "x", "limit": 1 } } }));
    let namespace = Name::namespace("tenant").unwrap();
    assert!(case.begin(NewWorkflow { namespace, ..new }).await.created);
}

/// The keys of items are known only when the list is made.
async fn an_item_that_asks_for_a_held_lane_fails_its_step(case: &Case) {
    let worker = worker(case).await;
    let outer =
        case.start(1, json!({ "a": { "workflow": "inner", "lane": { "key": "x", "limit": 1 } } })).await;
    let a = case.claim_nested(&worker).await;
    let inner = case.begin(within(&a, 2, json!({ "each": {} }))).await.id;
    let each = case.claim_one(&worker).await;
    let outcome = in_lanes(&["y", "x"]);
    case.finish(&each, outcome.clone()).await.unwrap();
    let record = case.record(inner.step(0)).await;
    assert_eq!(record.task.status.state, State::Failed);
    let error = record.task.status.error.unwrap();
    for named in ["\"each\"", "\"x\"", "\"a\"", &outer.to_string()] {
        assert!(error.contains(named), "{error}");
    }
    assert_eq!(case.workflow(inner).await.workflow.counts.total(), 1, "no items were made");
    assert!(!case.finish(&each, outcome).await.unwrap().changed, "an answer can be lost");
    // A retry with other keys is fine.
    case.retry(inner.step(0), true).await.unwrap();
    let again = case.claim_one(&worker).await;
    case.finish(&again, in_lanes(&["y", "z"])).await.unwrap();
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("2")).await;
    assert_eq!(case.flow(outer).await, WorkflowState::Complete);
}

/// A list of items, each in the lane of one with this key.
fn in_lanes(keys: &[&str]) -> Outcome {
    let lanes = keys.iter().map(|key| Lane::new(key, 1).unwrap()).collect();
    Outcome::Expanded { items: vec![Json::default(); keys.len()], max_parallel: None, lanes }
}

/// A workflow of one step in the lane of one `db-${input.t}`, of which the start says that it gives this.
fn for_tenant(n: u64, template: &str, key: &str) -> NewWorkflow {
    let step = json!({ "lane": { "key": "db-${input.t}", "limit": 1 } });
    let lanes = vec![EvaluatedLane { step: 0, template: template.into(), key: key.into() }];
    NewWorkflow { lanes, ..ad_hoc(n, definition(json!({ "a": step }))) }
}

async fn evaluated_keys_are_the_lanes_of_steps(case: &Case) {
    let worker = worker(case).await;
    for (n, key) in [(1, "db-a"), (2, "db-a"), (3, "db-b")] {
        case.begin(for_tenant(n, "db-${input.t}", key)).await;
    }
    let held = case.claim(&worker, 10).await;
    assert_eq!(
        ids(&held),
        [workflow_id(1).step(0), workflow_id(3).step(0)],
        "tenants do not wait for each other"
    );
    assert_eq!(held[0].task.spec.lane, Some(Lane::new("db-a", 1).unwrap()));
    case.complete(&held[0]).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [workflow_id(2).step(0)]);
}

/// One lane for all would be wrong, and none would be worse.
async fn what_was_not_evaluated_is_refused(case: &Case) {
    let before = case.snapshot().await;
    let lanes = Vec::new();
    let refused = case.start_refusal(NewWorkflow { lanes, ..for_tenant(1, "", "") }).await;
    let (step, key) = ("a".into(), "db-${input.t}".into());
    assert_eq!(refused, Rejected::LaneNotEvaluated { step, key });
    assert_eq!(case.snapshot().await, before);
}

async fn what_was_evaluated_from_another_definition_is_refused(case: &Case) {
    let refused = case.start_refusal(for_tenant(1, "db-${input.u}", "db-a")).await;
    assert_eq!(refused.code(), "lane_not_evaluated");
}

async fn an_evaluated_key_has_the_limits_of_keys(case: &Case) {
    for bad in ["", "@planner:1", "a\0b", &"x".repeat(600)] {
        let refused = case.start_refusal(for_tenant(1, "db-${input.t}", bad)).await;
        let text = refused.to_string();
        assert!(text.contains("lane key of the step \"a\""), "{text}");
    }
}

async fn each_item_is_in_its_own_lane(case: &Case) {
    let worker = worker(case).await;
    let id = case.start(1, json!({ "a": {} })).await;
    let a = case.claim_one(&worker).await;
    assert_eq!(a.task.spec.lane, None);
    case.finish(&a, in_lanes(&["eu", "us", "eu", "us", "us"])).await.unwrap();
    let held = case.claim(&worker, 10).await;
    assert_eq!(ids(&held), [item(id, 0), item(id, 1)]);
    case.complete(&held[1]).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [item(id, 3)]);
    case.complete(&held[0]).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [item(id, 2)]);
    case.complete(&case.held(item(id, 3)).await).await;
    assert_eq!(ids(&case.claim(&worker, 10).await), [item(id, 4)]);
}

/// One for each, and no other limit beside them.
async fn lanes_of_items_are_checked(case: &Case) {
    let worker = worker(case).await;
    case.start(1, json!({ "a": {} })).await;
    let a = case.claim_one(&worker).await;
    let Outcome::Expanded { items, lanes, .. } = in_lanes(&["x", "y"]) else { unreachable!() };
    let short = Outcome::Expanded { items: items.clone(), max_parallel: None, lanes: lanes[..1].to_vec() };
    let both = Outcome::Expanded { items, max_parallel: Some(1), lanes };
    for outcome in [short, both] {
        assert_eq!(case.refusal(finish(&a, outcome)).await.code(), "invalid_task");
    }
}
