//! Workflows: who may start when, and what becomes of the whole.

use serde_json::{Value, json};
use windlass_core::{
    Command, Json, Name, NewWorkflow, OnConflict, Parents, Place, Reason, Rejected, State, Steering, TaskId,
    Waits, WorkflowId, WorkflowState, limits,
};

use super::{
    Case, ad_hoc, claim_of, completed, definition, definition_of, expanded, failed, failed_for_good, finish,
    ids, scenarios, workflow_id,
};
use crate::{Cursor, Filter, Page, Started, Turn, WorkflowFilter};

scenarios![
    a_diamond_runs_in_order,
    the_parents_of_one_step_may_end_together,
    a_child_is_started_by_the_last_of_many_parents,
    all_waits_for_every_parent,
    any_is_started_by_the_first_and_only_once,
    at_least_is_started_when_enough_are_done,
    all_done_is_started_however_its_parents_end,
    skips_go_down_with_their_reasons,
    what_can_still_get_enough_is_not_skipped,
    a_failed_parent_may_be_retried,
    a_failed_parent_may_be_settled,
    independent_branches_go_on,
    one_that_fails_fast_stops_the_rest,
    one_that_failed_fast_is_opened_again_by_a_retry,
    a_backoff_is_a_state_of_the_whole,
    one_key_is_one_workflow,
    a_key_may_be_refused,
    an_id_is_used_once,
    an_id_with_a_place_in_it_is_refused,
    a_lone_task_with_an_id_in_its_range_is_left_alone,
    priority_is_added_to_that_of_its_steps,
    what_a_definition_says_is_what_its_steps_are,
    results_are_carried_over,
    everything_may_be_carried_over,
    nothing_to_do_is_done,
    a_thousand_steps_fan_out_and_in,
    a_step_is_not_deleted_alone,
    the_history_says_what_happened_and_why,
    tasks_are_listed_in_the_order_of_places,
    workflows_are_listed,
    results_come_in_the_order_that_is_asked_for,
    a_crash_in_the_middle_loses_nothing,
    counts_know_steps,
    a_step_waits_for_its_parents_when_it_is_asked_for,
    two_workflows_end_in_one_turn,
];

const FREE: [State; 1] = [State::Pending];

async fn diamond(case: &Case, n: u64) -> WorkflowId {
    let steps =
        json!({ "a": {}, "b": { "needs": ["a"] }, "c": { "needs": "a" }, "d": { "needs": ["b", "c"] } });
    case.start(n, steps).await
}

/// A workflow in which `p0`, `p1` … are parents of a last step with this join.
async fn fan_in(case: &Case, parents: usize, join: Value) -> (WorkflowId, TaskId) {
    let mut steps: serde_json::Map<String, Value> =
        (0..parents).map(|n| (format!("p{n}"), json!({}))).collect();
    let needs: Vec<String> = steps.keys().cloned().collect();
    steps.insert("z".into(), json!({ "needs": needs, "join": join }));
    let id = case.start(1, Value::Object(steps)).await;
    (id, id.step(u32::try_from(parents).unwrap()))
}

/// 2.7, I10: a step starts when its parents are done, and the workflow is complete when its steps are.
async fn a_diamond_runs_in_order(case: &Case) {
    let worker = case.worker("w").await;
    let id = diamond(case, 1).await;
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
    let a = case.claim(&worker, 10).await;
    assert_eq!(ids(&a), [id.step(0)]);
    case.complete(&a[0]).await;
    let middle = case.claim(&worker, 10).await;
    assert_eq!(ids(&middle), [id.step(1), id.step(2)]);
    case.complete(&middle[0]).await;
    assert!(case.claim(&worker, 10).await.is_empty());
    case.complete(&middle[1]).await;
    assert_eq!(case.work(&worker, completed("4")).await, id.step(3));
    let record = case.workflow(id).await;
    assert_eq!((record.workflow.state, record.workflow.counts.done), (WorkflowState::Complete, 4));
    let words: Vec<_> = record.history.iter().map(|entry| entry.to.word()).collect();
    let way =
        ["pending", "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results", "complete"];
    assert_eq!(words, way, "a state that lasts no time is recorded once, not once for each step");
}

/// One turn that ends all parents starts the child once, and the same turn may claim it.
async fn the_parents_of_one_step_may_end_together(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 5, json!("all")).await;
    let held = case.claim(&worker, 10).await;
    let commands = held.iter().map(|claimed| finish(claimed, completed("1"))).collect();
    let turn = Turn { commands, claim: Some(claim_of(&worker, 9)), term: None };
    let claimed = case.store().turn(turn).await.unwrap().claimed.unwrap();
    assert_eq!(ids(&claimed), [child]);
    let reasons: Vec<_> = case.record(child).await.history.iter().map(|entry| entry.reason).collect();
    assert_eq!(reasons, [Reason::Submitted, Reason::Ready, Reason::Claimed]);
    assert_eq!(case.workflow(id).await.workflow.counts.done, 5);
}

async fn a_child_is_started_by_the_last_of_many_parents(case: &Case) {
    let worker = case.worker("w").await;
    let (_, child) = fan_in(case, 4, json!("all")).await;
    for (met, claimed) in (1..).zip(case.claim(&worker, 10).await) {
        assert_eq!(case.state(child).await, State::Waiting);
        case.pass(1);
        case.complete(&claimed).await;
        let waits = case.record(child).await.task.status.waits;
        assert_eq!(waits == Waits::Parents(Parents { met, lost: 0 }), met < 4, "{waits:?}");
    }
    assert_eq!(case.claim_one(&worker).await.task.id, child);
}

/// 2.7: completed and settled by hand are done; anything else is not.
async fn all_waits_for_every_parent(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 3, json!("all")).await;
    case.work(&worker, completed("1")).await;
    case.resolve(id.step(1), Some("2")).await.unwrap();
    assert_eq!(case.state(child).await, State::Waiting);
    let last = case.claim_one(&worker).await;
    case.fail(&last, "once").await;
    assert_eq!(case.state(child).await, State::Waiting);
    case.retry(last.task.id, false).await.unwrap();
    case.work(&worker, completed("3")).await;
    assert_eq!(case.state(child).await, State::Pending);
}

async fn any_is_started_by_the_first_and_only_once(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 3, json!("any")).await;
    case.cancel(id.step(0)).await.unwrap();
    assert_eq!(case.state(child).await, State::Waiting);
    case.work(&worker, completed("1")).await;
    assert_eq!(case.state(child).await, State::Pending);
    let held = case.claim(&worker, 10).await;
    assert_eq!(ids(&held), [id.step(2), child]);
    case.complete(&held[1]).await;
    case.complete(&held[0]).await;
    assert_eq!(case.record(child).await.task.status.lease, 1, "it ran once");
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

async fn at_least_is_started_when_enough_are_done(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 4, json!({ "at_least": 2 })).await;
    case.work(&worker, completed("1")).await;
    case.skip(id.step(1)).await.unwrap();
    case.cancel(id.step(2)).await.unwrap();
    assert_eq!(case.state(child).await, State::Waiting, "two may still be done");
    case.work(&worker, completed("1")).await;
    assert_eq!(case.state(child).await, State::Pending);
}

/// C49: cancelled and skipped count as over.
async fn all_done_is_started_however_its_parents_end(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 5, json!("all_done")).await;
    case.cancel(id.step(0)).await.unwrap();
    case.skip(id.step(1)).await.unwrap();
    case.resolve(id.step(2), None).await.unwrap();
    case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.state(child).await, State::Waiting);
    case.work(&worker, completed("1")).await;
    assert_eq!(case.work(&worker, completed("1")).await, child);
    assert_eq!(case.flow(id).await, WorkflowState::BlockedByFailures, "what failed is still failed");
}

/// A step for which there can never be enough parents is skipped at once, and so is all that needs it; each
/// says why.
async fn skips_go_down_with_their_reasons(case: &Case) {
    let steps = json!({
        "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["b"] },
        "d": { "needs": ["c", "x"], "join": "any" }, "e": { "needs": ["c"], "join": "all_done" }, "x": {},
    });
    let id = case.start(1, steps).await;
    case.skip(id.step(0)).await.unwrap();
    let skipped = State::Skipped;
    let states = [skipped, skipped, skipped, State::Waiting, State::Pending, State::Pending];
    assert_eq!(case.steps(id).await, states);
    let last = case.record(id.step(2)).await.history.pop().unwrap();
    assert_eq!((last.reason, last.actor.as_ref()), (Reason::Skipped, None));
    assert!(last.note.as_ref().is_some_and(|note| note.contains("\"b\"")), "{last:?}");
    case.cancel(id.step(5)).await.unwrap();
    let last = case.record(id.step(3)).await.history.pop().unwrap();
    assert!(last.note.as_ref().is_some_and(|note| note.contains("\"x\"")), "{last:?}");
    assert_eq!(last.to, State::Skipped);
    case.work(&case.worker("w").await, completed("1")).await;
    let workflow = case.workflow(id).await.workflow;
    assert_eq!((workflow.state, workflow.counts.skipped), (WorkflowState::Complete, 4), "C49");
}

async fn what_can_still_get_enough_is_not_skipped(case: &Case) {
    let (id, child) = fan_in(case, 3, json!({ "at_least": 2 })).await;
    case.skip(id.step(0)).await.unwrap();
    assert_eq!(case.state(child).await, State::Waiting);
    case.skip(id.step(1)).await.unwrap();
    assert_eq!(case.state(child).await, State::Skipped, "one is too few");
    case.retry(id.step(2), false).await.unwrap();
    case.work(&case.worker("w").await, completed("1")).await;
    assert_eq!(case.state(child).await, State::Skipped, "that never changes");
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// C50: what needs it waits, and goes on when an operator retries it.
async fn a_failed_parent_may_be_retried(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 1, json!("all")).await;
    let parent = case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.steps(id).await, [State::Failed, State::Waiting]);
    assert_eq!(case.flow(id).await, WorkflowState::BlockedByFailures);
    case.retry(parent, true).await.unwrap();
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
    case.work(&worker, completed("1")).await;
    assert_eq!(case.work(&worker, completed("2")).await, child);
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// A step settled by hand is done for its children, with its result; a skipped one is not.
async fn a_failed_parent_may_be_settled(case: &Case) {
    let worker = case.worker("w").await;
    let (id, child) = fan_in(case, 1, json!("all")).await;
    let parent = case.work(&worker, failed_for_good("no")).await;
    case.resolve(parent, Some("[1]")).await.unwrap();
    assert_eq!(case.state(child).await, State::Pending);
    let results = case.store().results(vec![parent]).await.unwrap();
    assert_eq!(results, [Some(Json::result("[1]").unwrap())]);
    let other = case.start(2, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    case.take(other.step(0), &worker).await;
    case.finish(&case.held(other.step(0)).await, failed_for_good("no")).await.unwrap();
    case.skip(other.step(0)).await.unwrap();
    assert_eq!(case.steps(other).await, [State::Skipped, State::Skipped]);
    assert_eq!(case.flow(other).await, WorkflowState::Complete);
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
}

/// C50, `finish_independent`: branches that do not need it go on to their end, then the whole waits for an
/// operator.
async fn independent_branches_go_on(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": {}, "b": {}, "c": { "needs": ["a"] }, "d": { "needs": ["b"] } });
    let id = case.start(1, steps).await;
    case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
    case.work(&worker, completed("1")).await;
    assert_eq!(case.work(&worker, completed("1")).await, id.step(3));
    assert_eq!(case.flow(id).await, WorkflowState::BlockedByFailures);
    assert!(case.claim(&worker, 9).await.is_empty());
    let workflow = case.workflow(id).await.workflow;
    assert_eq!((workflow.counts.waiting, workflow.counts.failed, workflow.finished_at), (1, 1, None));
}

async fn fail_fast(case: &Case) -> WorkflowId {
    let text = json!({
        "name": "fast", "on_failure": "fail_fast",
        "steps": { "a": {}, "b": {}, "c": {}, "d": { "needs": ["a"] }, "e": { "needs": ["b"], "join": "all_done" } },
    });
    case.begin(ad_hoc(1, definition_of(text))).await.id
}

/// `fail_fast`: the rest is cancelled, running handlers included, and the workflow is over.
async fn one_that_fails_fast_stops_the_rest(case: &Case) {
    let worker = case.worker("w").await;
    let id = fail_fast(case).await;
    let held = case.claim(&worker, 2).await;
    case.fail(&held[1], "once").await;
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess, "an attempt is not the end");
    let a = held[0].clone();
    case.retry(id.step(1), false).await.unwrap();
    let b = case.take(id.step(1), &worker).await;
    case.finish(&b, failed_for_good("no")).await.unwrap();
    let cancelled = State::Cancelled;
    assert_eq!(case.steps(id).await, [cancelled, State::Failed, cancelled, cancelled, cancelled]);
    let pulse = case.store().heartbeat(worker.clone(), vec![(a.task.id, a.task.status.lease)]).await.unwrap();
    assert_eq!(pulse.cancelled, [a.task.id], "its handler is told");
    assert_eq!(case.finish(&a, completed("1")).await.unwrap_err().code(), "task_settled");
    let record = case.workflow(id).await;
    assert_eq!(record.workflow.state, WorkflowState::Error);
    let note = record.history.last().unwrap().note.clone().unwrap();
    assert!(note.contains("\"b\""), "{note}");
    assert!(case.claim(&worker, 9).await.is_empty());
}

/// C51: error is not the end if an operator thinks otherwise.
async fn one_that_failed_fast_is_opened_again_by_a_retry(case: &Case) {
    let worker = case.worker("w").await;
    let id = fail_fast(case).await;
    case.work(&worker, failed_for_good("no")).await;
    assert_eq!(case.flow(id).await, WorkflowState::Error);
    for step in 0..5 {
        case.retry(id.step(step), true).await.unwrap();
    }
    assert_eq!(case.steps(id).await, [State::Pending; 5], "also those that would not have been ready");
    assert_eq!(case.workflow(id).await.workflow.finished_at, None);
    for claimed in case.claim(&worker, 9).await {
        case.complete(&claimed).await;
    }
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

async fn a_backoff_is_a_state_of_the_whole(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    case.work(&worker, failed("once")).await;
    assert_eq!(case.flow(id).await, WorkflowState::WaitingForRetry);
    assert_eq!(case.workflow(id).await.workflow.counts.timed, 1);
    case.pass(20);
    assert_eq!(case.chores().await, 1);
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess);
    let words: Vec<_> = case.workflow(id).await.history.iter().map(|entry| entry.to.word()).collect();
    assert_eq!(words[3..], ["steps_in_process", "waiting_for_retry", "enqueuing_steps", "steps_in_process"]);
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("1")).await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

fn keyed(n: u64, key: &str) -> NewWorkflow {
    NewWorkflow { key: Some(key.into()), ..ad_hoc(n, definition(json!({ "a": {} }))) }
}

/// A second start of a key answers with the first workflow, wherever it is, whatever it would have been.
async fn one_key_is_one_workflow(case: &Case) {
    let first = case.begin(keyed(1, "order 7")).await;
    assert_eq!(first, Started { id: workflow_id(1), state: WorkflowState::StepsInProcess, created: true });
    let before = case.snapshot().await;
    let second = ad_hoc(2, definition(json!({ "x": {}, "y": {} })));
    let second = case.begin(NewWorkflow { key: Some("order 7".into()), ..second }).await;
    assert_eq!(second, Started { created: false, ..first });
    assert_eq!(case.snapshot().await, before, "nothing was made");
    let store = case.store();
    let found = store.find_workflow(Name::default(), Name::stored("test"), "order 7".into()).await.unwrap();
    assert_eq!(found, Some(first.id));
    assert_eq!(
        store.find_workflow(Name::default(), Name::stored("test"), "order 8".into()).await.unwrap(),
        None
    );
    // Keys are apart by namespace, name, and from those of tasks.
    let tenant = NewWorkflow { namespace: Name::stored("tenant"), ..keyed(3, "order 7") };
    assert!(case.begin(tenant).await.created);
    let other = definition_of(json!({ "name": "other", "steps": {} }));
    assert!(case.begin(NewWorkflow { key: Some("order 7".into()), ..ad_hoc(4, other) }).await.created);
    case.submit(case.task_with_key("order 7")).await;
    case.work(&case.worker("w").await, completed("1")).await;
    let again = case.begin(keyed(5, "order 7")).await;
    assert_eq!(again, Started { id: first.id, state: WorkflowState::Complete, created: false });
}

async fn a_key_may_be_refused(case: &Case) {
    case.begin(keyed(1, "k")).await;
    let refusal = case.start_refusal(NewWorkflow { on_conflict: OnConflict::Reject, ..keyed(2, "k") }).await;
    assert_eq!(refusal, Rejected::WorkflowKeyConflict { key: "k".into(), existing: workflow_id(1) });
    for bad in [String::new(), "a\0b".into(), "x".repeat(limits::KEY_BYTES + 1)] {
        assert_eq!(case.start_refusal(keyed(2, &bad)).await.code(), "invalid_task", "{bad:?}");
    }
}

async fn an_id_is_used_once(case: &Case) {
    let id = diamond(case, 1).await;
    let refusal = case.start_refusal(ad_hoc(1, definition(json!({ "x": {} })))).await;
    assert_eq!(refusal, Rejected::WorkflowIdConflict { workflow: id });
    assert_eq!(case.start_refusal(ad_hoc(1, definition(json!({})))).await.code(), "workflow_id_conflict");
}

/// Its last bits number its tasks.
async fn an_id_with_a_place_in_it_is_refused(case: &Case) {
    for bytes in [[0xff; 16], *workflow_id(1).step(0).as_bytes()] {
        let id = WorkflowId::from_bytes(bytes);
        let new = NewWorkflow { id, ..ad_hoc(1, definition(json!({ "a": {}, "b": {} }))) };
        assert_eq!(case.start_refusal(new).await.code(), "invalid_task");
    }
}

/// Ids are chosen by whoever submits: one that lies behind those of a workflow's steps makes no step.
async fn a_lone_task_with_an_id_in_its_range_is_left_alone(case: &Case) {
    let id = case.start(1, json!({ "a": {} })).await;
    let mut task = case.task();
    task.id = id.at(u64::MAX);
    let lone = case.submit(task).await;
    let filter = Filter { workflow: Some(id), ..Filter::default() };
    let listed = case.store().tasks(filter, Page::default()).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), [id.step(0)]);
    case.steer(id, Steering::Cancel).await;
    assert_eq!((case.state(lone).await, case.state(id.step(0)).await), (State::Pending, State::Cancelled));
}

async fn priority_is_added_to_that_of_its_steps(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": { "priority": -1 }, "b": {}, "c": { "priority": 5 } });
    let first = case.start(1, steps.clone()).await;
    let second = NewWorkflow { priority: 3, ..ad_hoc(2, definition(steps)) };
    let second = case.begin(second).await.id;
    let order = [second.step(2), first.step(2), second.step(1), second.step(0), first.step(1), first.step(0)];
    assert_eq!(ids(&case.claim(&worker, 9).await), order);
    let most = NewWorkflow { priority: i32::MAX, ..ad_hoc(3, definition(json!({ "a": { "priority": 9 } }))) };
    let most = case.begin(most).await.id;
    assert_eq!(case.record(most.step(0)).await.task.spec.priority, i32::MAX, "saturated");
}

async fn what_a_definition_says_is_what_its_steps_are(case: &Case) {
    let text = json!({
        "name": "rich",
        "defaults": { "retry": { "max_attempts": 7, "initial": "3s" }, "timeout": "2m", "queue": "bulk", "priority": 2 },
        "steps": {
            "a": {},
            "b": { "task": "mail:send", "queue": "mail", "timeout": "5s", "retry": { "max_attempts": 1 },
                   "lane": { "key": "smtp", "limit": 2 }, "priority": 1 },
            "c": { "run": "true" }, "d": { "workflow": "inner" },
        },
    });
    let id = case.begin(ad_hoc(1, definition_of(text))).await.id;
    let mut specs = Vec::new();
    for step in 0..4 {
        let record = case.record(id.step(step)).await;
        assert_eq!((record.payload, record.result), (Json::default(), None));
        assert_eq!(record.task.place(), Some(Place { step, item: None }));
        specs.push(record.task.spec);
    }
    let told = |n: usize| {
        let spec = &specs[n];
        let seconds = spec.timeout.map(|timeout| timeout.as_secs());
        (&*spec.queue, &*spec.kind, spec.max_attempts.map(|max| max.get()), seconds, spec.priority)
    };
    assert_eq!(told(0), ("bulk", super::KIND, Some(7), Some(120), 2));
    assert_eq!(told(1), ("mail", "mail:send", Some(1), Some(5), 1));
    assert_eq!(told(2), ("bulk", "windlass.run_ad_hoc", Some(7), Some(120), 2));
    assert_eq!(told(3), ("bulk", "windlass.workflow", Some(7), Some(120), 2));
    assert_eq!(specs[1].lane.as_ref().map(|lane| (lane.key(), lane.limit())), Some(("smtp", 2)));
    assert_eq!(specs[0].retry.base.as_secs(), 3);
    assert!(specs.iter().all(|spec| spec.workflow == Some(id)));
}

/// A workflow that repeats another from a step on takes over the results before it, and knows where they come
/// from.
async fn results_are_carried_over(case: &Case) {
    let origin = diamond(case, 1).await;
    let new = ad_hoc(2, case.workflow(origin).await.blueprint.definition().clone());
    let carried = vec![(0, Json::result("\"a\"").unwrap()), (1, Json::result("\"b\"").unwrap())];
    let id = case.begin(NewWorkflow { origin: Some(origin), carried, ..new }).await.id;
    let (settled, waiting) = (State::ResolvedManually, State::Waiting);
    assert_eq!(case.steps(id).await, [settled, settled, State::Pending, waiting]);
    let record = case.record(id.step(1)).await;
    assert_eq!(record.result.unwrap().as_str(), "\"b\"");
    assert_eq!((record.history.len(), record.history[0].reason), (1, Reason::Submitted));
    assert!(record.history[0].note.as_ref().unwrap().contains(&origin.to_string()));
    assert!(record.task.status.finished_at.is_some());
    let workflow = case.workflow(id).await;
    assert_eq!(workflow.workflow.origin, Some(origin));
    assert!(workflow.history[0].note.as_ref().unwrap().contains(&origin.to_string()));
    let worker = case.worker("w").await;
    case.take(id.step(2), &worker).await;
    case.complete(&case.held(id.step(2)).await).await;
    assert_eq!(case.state(id.step(3)).await, State::Pending, "it knows of those that were carried over");
    case.crash().await;
    case.take(id.step(3), &worker).await;
    case.complete(&case.held(id.step(3)).await).await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

async fn everything_may_be_carried_over(case: &Case) {
    let carried = vec![(0, Json::default()), (1, Json::default())];
    let new = ad_hoc(1, definition(json!({ "a": {}, "b": { "needs": ["a"] } })));
    let started = case.begin(NewWorkflow { carried, ..new }).await;
    assert_eq!(started.state, WorkflowState::Complete);
}

/// C49: zero steps are all complete.
async fn nothing_to_do_is_done(case: &Case) {
    let rings = *case.store().watch().borrow();
    let started = case.begin(ad_hoc(1, definition(json!({})))).await;
    assert_eq!(started.state, WorkflowState::Complete);
    let record = case.workflow(started.id).await;
    assert_eq!(record.workflow.finished_at, Some(case.now()));
    let words: Vec<_> = record.history.iter().map(|entry| entry.to.word()).collect();
    assert_eq!(words, ["pending", "initializing", "complete"]);
    let settled = case.store().watch().borrow().settled;
    assert!(settled > rings.settled, "whoever waits for it is told");
    assert_eq!(case.steer_refusal(started.id, Steering::Cancel).await.code(), "workflow_over");
}

async fn a_thousand_steps_fan_out_and_in(case: &Case) {
    let worker = case.worker("w").await;
    let mut steps = serde_json::Map::new();
    let names: Vec<String> = (0..1000).map(|n| format!("s{n}")).collect();
    steps.insert("first".into(), json!({}));
    steps.extend(names.iter().map(|name| (name.clone(), json!({ "needs": ["first"] }))));
    steps.insert("last".into(), json!({ "needs": names }));
    let id = case.start(1, Value::Object(steps)).await;
    let first = id.step(case.workflow(id).await.blueprint.number("first").unwrap());
    assert_eq!(case.work(&worker, completed("0")).await, first);
    let held = case.claim(&worker, 1000).await;
    assert_eq!(held.len(), 1000);
    let mut commands: Vec<Command> = held.iter().map(|claimed| finish(claimed, completed("1"))).collect();
    let rest = commands.split_off(999);
    assert!(case.store().apply(commands).await.unwrap().iter().all(Result::is_ok));
    assert!(case.claim(&worker, 9).await.is_empty());
    case.store().apply(rest).await.unwrap();
    case.work(&worker, completed("2")).await;
    let workflow = case.workflow(id).await.workflow;
    assert_eq!((workflow.state, workflow.counts.done), (WorkflowState::Complete, 1002));
}

async fn a_step_is_not_deleted_alone(case: &Case) {
    let id = case.start(1, json!({ "a": {} })).await;
    let step = id.step(0);
    assert_eq!(case.refusal(Command::Delete { task: step }).await, Rejected::IsStep { task: step });
    case.work(&case.worker("w").await, completed("1")).await;
    assert_eq!(case.refusal(Command::Delete { task: step }).await, Rejected::IsStep { task: step });
    let lone = case.submit(case.task()).await;
    let by = windlass_core::By::default();
    assert_eq!(case.refusal(Command::Skip { task: lone, by }).await, Rejected::NotStep { task: lone });
    let worker = case.worker("w").await;
    let held = case.claim_one(&worker).await;
    let refusal = case.refusal(finish(&held, expanded(&["1"], None))).await;
    assert_eq!(refusal, Rejected::NotStep { task: lone });
}

/// I9 for workflows: who did what, when and why.
async fn the_history_says_what_happened_and_why(case: &Case) {
    let new = ad_hoc(1, definition(json!({ "a": {} })));
    let id = case.begin(NewWorkflow { actor: Some("ada".into()), ..new }).await.id;
    assert_eq!(case.record(id.step(0)).await.history[0].actor.as_deref(), Some("ada"));
    case.pass(5);
    let by = windlass_core::By { actor: Some("grace".into()), note: Some("wrong day".into()) };
    case.store().steer(id, Steering::Cancel, by).await.unwrap();
    let history = case.workflow(id).await.history;
    assert_eq!(history[0].actor.as_deref(), Some("ada"));
    let last = history.last().unwrap();
    assert_eq!((last.actor.as_deref(), last.note.as_deref()), (Some("grace"), Some("wrong day")));
    assert_eq!((last.at, last.from), (case.now(), Some(WorkflowState::StepsInProcess)));
    let step = case.record(id.step(0)).await.history.pop().unwrap();
    assert_eq!((step.actor.as_deref(), step.note.as_deref()), (Some("grace"), Some("wrong day")));
}

/// Pages of a workflow go by place, in both directions, and other filters hold beside it.
async fn tasks_are_listed_in_the_order_of_places(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {}, "c": { "needs": ["a"] } })).await;
    case.start(2, json!({ "x": {} })).await;
    case.submit(case.task()).await;
    let held = case.claim(&worker, 2).await;
    case.finish(&held[1], expanded(&["1", "2", "3"], None)).await.unwrap();
    case.finish(&held[0], expanded(&["4", "5"], None)).await.unwrap();
    let place = |step, item| id.task(Place { step, item });
    let all = [
        place(0, None),
        place(0, Some(0)),
        place(0, Some(1)),
        place(1, None),
        place(1, Some(0)),
        place(1, Some(1)),
        place(1, Some(2)),
        place(2, None),
    ];
    let filter = Filter { workflow: Some(id), ..Filter::default() };
    for limit in [1, 3, 8, 100] {
        for oldest_first in [true, false] {
            let mut wanted = all.to_vec();
            if !oldest_first {
                wanted.reverse();
            }
            assert_eq!(listed(case, &filter, limit, oldest_first).await, wanted, "{limit} {oldest_first}");
        }
    }
    let waiting = Filter { states: vec![State::Waiting], ..filter.clone() };
    assert_eq!(listed(case, &waiting, 2, true).await, [all[0], all[3], all[7]]);
    let nobody = Filter { workflow: Some(workflow_id(9)), ..Filter::default() };
    assert!(listed(case, &nobody, 2, true).await.is_empty());
}

async fn listed(case: &Case, filter: &Filter, limit: usize, oldest_first: bool) -> Vec<TaskId> {
    let (mut found, mut after): (Vec<TaskId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = Page { limit, after, oldest_first };
        let listing = case.store().tasks(filter.clone(), page).await.unwrap();
        assert!(listing.tasks.len() <= limit);
        found.extend(listing.tasks.iter().map(|task| task.id));
        after = listing.next;
        if after.is_none() {
            return found;
        }
    }
}

/// In the order of their starts, with filters, page by page in both directions.
async fn workflows_are_listed(case: &Case) {
    let worker = case.worker("w").await;
    for n in [5, 3, 9, 1] {
        case.start(n, json!({ "a": {} })).await;
    }
    case.submit(case.task()).await;
    let other = definition_of(json!({ "name": "other", "steps": {} }));
    case.begin(NewWorkflow { namespace: Name::stored("tenant"), ..ad_hoc(2, other) }).await;
    case.work(&worker, completed("1")).await;
    let found = async |filter: WorkflowFilter, limit, oldest_first| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = Page { limit, after, oldest_first };
            let listing = case.store().workflows(filter.clone(), page).await.unwrap();
            assert!(listing.workflows.len() <= limit);
            found.extend(listing.workflows.iter().map(|workflow| workflow.id));
            after = listing.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 3, 100] {
        let all = [5, 3, 9, 1, 2].map(workflow_id);
        assert_eq!(found(WorkflowFilter::default(), limit, true).await, all);
        assert_eq!(found(WorkflowFilter::default(), limit, false).await, [2, 1, 9, 3, 5].map(workflow_id));
        let complete = WorkflowFilter { states: vec![WorkflowState::Complete], ..WorkflowFilter::default() };
        assert_eq!(found(complete, limit, true).await, [5, 2].map(workflow_id));
        let named = WorkflowFilter { name: Some(Name::stored("test")), ..WorkflowFilter::default() };
        assert_eq!(found(named.clone(), limit, true).await, [5, 3, 9, 1].map(workflow_id));
        let theirs = WorkflowFilter { namespace: Some(Name::stored("tenant")), ..WorkflowFilter::default() };
        assert_eq!(found(theirs.clone(), limit, true).await, [workflow_id(2)]);
        let neither = WorkflowFilter { namespace: theirs.namespace, ..named };
        assert!(found(neither, limit, true).await.is_empty());
    }
    for limit in [0, limits::PAGE + 1] {
        let page = Page { limit, ..Page::default() };
        let error = case.error(case.store().workflows(WorkflowFilter::default(), page)).await;
        assert_eq!(error.code(), "invalid_task");
    }
}

async fn results_come_in_the_order_that_is_asked_for(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {}, "c": {} })).await;
    case.work(&worker, completed("\"a\"")).await;
    case.resolve(id.step(1), None).await.unwrap();
    let lone = case.bring(case.task(), State::Completed).await;
    let asked = vec![id.step(2), lone, id.step(0), super::id(999), id.step(1), id.step(0)];
    let results = case.store().results(asked).await.unwrap();
    let texts: Vec<_> = results.iter().map(|result| result.as_ref().map(Json::as_str)).collect();
    assert_eq!(texts, [None, Some("null"), Some("\"a\""), None, None, Some("\"a\"")]);
    assert!(case.store().results(Vec::new()).await.unwrap().is_empty());
}

/// I1: what was acknowledged is there, and what has to follow from it too.
async fn a_crash_in_the_middle_loses_nothing(case: &Case) {
    let worker = case.worker("w").await;
    let id = diamond(case, 1).await;
    case.crash().await;
    case.work(&worker, completed("1")).await;
    case.crash().await;
    let b = case.claim_one(&worker).await;
    case.crash().await;
    case.complete(&b).await;
    case.crash().await;
    assert_eq!(case.state(id.step(3)).await, State::Waiting);
    case.work(&worker, completed("1")).await;
    case.crash().await;
    assert_eq!(case.work(&worker, completed("1")).await, id.step(3));
    case.crash().await;
    assert_eq!(case.flow(id).await, WorkflowState::Complete);
}

/// I20: steps are counted with all others.
async fn counts_know_steps(case: &Case) {
    let worker = case.worker("w").await;
    diamond(case, 1).await;
    case.submit(case.task()).await;
    let sum = async |state: State| {
        let counts = case.store().counts().await.unwrap();
        counts.iter().filter(|count| count.state == state).map(|count| count.tasks).sum::<u64>()
    };
    assert_eq!((sum(State::Waiting).await, sum(State::Pending).await), (3, 2));
    case.work(&worker, completed("1")).await;
    assert_eq!(
        (sum(State::Waiting).await, sum(State::Pending).await, sum(State::Completed).await),
        (1, 3, 1)
    );
    case.steer(workflow_id(1), Steering::Cancel).await;
    assert_eq!((sum(State::Waiting).await, sum(State::Cancelled).await), (0, 3));
}

/// I10: nobody gets at a step before its time, by no way.
async fn a_step_waits_for_its_parents_when_it_is_asked_for(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    let step = id.step(1);
    for command in [
        Command::Claim { task: step, worker: worker.clone() },
        Command::Retry { task: step, force: false, by: windlass_core::By::default() },
        Command::Retry { task: step, force: true, by: windlass_core::By::default() },
    ] {
        assert_eq!(case.refusal(command).await, Rejected::Waiting { task: step });
    }
    assert_eq!(case.refusal(Command::Promote { task: step }).await.code(), "not_timed");
    let offered = Filter { states: FREE.to_vec(), ..Filter::default() };
    assert_eq!(listed(case, &offered, 10, true).await, [id.step(0)]);
}

async fn two_workflows_end_in_one_turn(case: &Case) {
    let worker = case.worker("w").await;
    let (one, two) =
        (diamond(case, 1).await, case.start(2, json!({ "a": {}, "b": { "needs": ["a"] } })).await);
    let lone = case.submit(case.task()).await;
    let commands = case.claim(&worker, 9).await.iter().map(|held| finish(held, completed("1"))).collect();
    let turn = Turn { commands, claim: Some(claim_of(&worker, 9)), term: None };
    let turned = case.store().turn(turn).await.unwrap();
    assert!(turned.receipts.iter().all(Result::is_ok));
    assert_eq!(ids(&turned.claimed.unwrap()), [one.step(1), one.step(2), two.step(1)]);
    assert_eq!(case.state(lone).await, State::Completed);
}
