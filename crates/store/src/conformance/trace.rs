//! The trace that a task is part of: carried from the submit to whoever runs it.
//!
//! A text that is not one never comes this far: [`TraceParent`] is checked when it is made.

use std::num::NonZeroU32;

use serde_json::json;
use windlass_core::{
    Name, NewSchedule, NewTask, NewWorker, NewWorkflow, Place, State, TaskId, Template, TraceParent,
    WORKFLOW, WorkerId,
};

use super::{
    Case, KIND, STATES, ad_hoc, completed, definition, expanded, failed, failed_for_good, firing, hourly,
    scenarios, token,
};
use crate::{Filter, Page};

scenarios![
    a_trace_is_kept_to_the_last_bit,
    tasks_of_one_batch_have_traces_of_their_own,
    a_trace_is_told_wherever_a_task_is,
    every_attempt_is_part_of_the_same_trace,
    a_second_submit_of_a_key_keeps_the_first_trace,
    steps_and_items_are_part_of_the_trace_of_their_workflow,
    a_workflow_within_is_part_of_the_trace_of_its_step,
    a_repeated_workflow_is_part_of_what_it_is_told,
    runs_of_a_schedule_are_part_of_no_trace,
    a_trace_outlives_a_crash,
];

/// The trace numbered `n`: the same in every store.
fn trace(n: u8) -> TraceParent {
    TraceParent::new([n; 16], [0xf0 | n; 8], n & 1).unwrap()
}

fn traced(case: &Case, n: u8) -> NewTask {
    NewTask { traceparent: Some(trace(n)), ..case.task() }
}

async fn trace_of(case: &Case, task: TaskId) -> Option<TraceParent> {
    case.record(task).await.task.spec.traceparent
}

/// A worker that may also claim steps that are workflows.
async fn worker(case: &Case) -> WorkerId {
    let id = WorkerId::new("w").unwrap();
    let kinds = vec![Name::kind(KIND).unwrap(), Name::stored(WORKFLOW)];
    case.store().register(NewWorker { kinds, ..NewWorker::new(id.clone()) }).await.unwrap();
    id
}

/// All flags, known or not, and ids that begin and end with zeros.
async fn a_trace_is_kept_to_the_last_bit(case: &Case) {
    let worker = case.worker("w").await;
    let (mut thin, mut narrow) = ([0; 16], [0; 8]);
    (thin[8], narrow[3]) = (0x0a, 0xb0);
    for flags in [0, 1, 2, 0x80, 0xff] {
        for given in [
            TraceParent::new([0xff; 16], [0xff; 8], flags).unwrap(),
            TraceParent::new(thin, narrow, flags).unwrap(),
        ] {
            let id = case.submit(NewTask { traceparent: Some(given), ..case.task() }).await;
            assert_eq!(trace_of(case, id).await, Some(given), "as read");
            let claimed = case.claim_one(&worker).await;
            assert_eq!(claimed.task.spec.traceparent, Some(given), "as claimed");
            case.complete(&claimed).await;
            assert_eq!(trace_of(case, id).await, Some(given), "as read when all is done");
        }
    }
}

async fn tasks_of_one_batch_have_traces_of_their_own(case: &Case) {
    let worker = case.worker("w").await;
    let given = [None, Some(1), None, Some(2), Some(1), None].map(|n: Option<u8>| n.map(trace));
    let tasks = given.map(|traceparent| NewTask { traceparent, ..case.task() });
    let submitted = case.store().submit(tasks.to_vec()).await.unwrap();
    for (one, given) in submitted.iter().zip(given) {
        assert_eq!(trace_of(case, one.id).await, given);
    }
    let claimed = case.claim(&worker, 10).await;
    assert!(claimed.iter().map(|one| one.task.spec.traceparent).eq(given));
    let plain = case.store().submit(vec![case.task(), case.task()]).await.unwrap();
    assert_eq!(trace_of(case, plain[1].id).await, None, "a batch of none");
}

/// In every state, by every reading.
async fn a_trace_is_told_wherever_a_task_is(case: &Case) {
    for (n, state) in (1..).zip(STATES) {
        let id = case.bring(traced(case, n), state).await;
        assert_eq!(trace_of(case, id).await, Some(trace(n)), "{state}");
        let facts = case.store().facts(id).await.unwrap().unwrap();
        assert_eq!(facts.task.spec.traceparent, Some(trace(n)), "{state}");
        let filter = Filter { states: vec![state], ..Filter::default() };
        let listing = case.store().tasks(filter, Page::default()).await.unwrap();
        assert_eq!(listing.tasks[0].spec.traceparent, Some(trace(n)), "{state}");
    }
}

/// After a failure, a lost lease, and an operator's new beginning.
async fn every_attempt_is_part_of_the_same_trace(case: &Case) {
    let worker = case.worker("w").await;
    let two = NewTask { max_attempts: NonZeroU32::new(2), ..traced(case, 1) };
    let id = case.submit(two).await;
    case.fail(&case.claim_one(&worker).await, "not yet").await;
    case.pass(60);
    case.chores().await;
    let worker = case.worker("v").await;
    let again = case.claim_one(&worker).await;
    assert_eq!((again.task.status.attempt, again.task.spec.traceparent), (2, Some(trace(1))));
    case.finish(&again, failed_for_good("never")).await.unwrap();
    case.retry(id, true).await.unwrap();
    let opened = case.claim_one(&worker).await;
    assert_eq!((opened.task.status.lease, opened.task.spec.traceparent), (3, Some(trace(1))));
    case.pass(60);
    case.chores().await;
    assert_eq!(case.state(id).await, State::Pending, "the lease is lost");
    let worker = case.worker("u").await;
    assert_eq!(case.claim_one(&worker).await.task.spec.traceparent, Some(trace(1)));
}

async fn a_second_submit_of_a_key_keeps_the_first_trace(case: &Case) {
    let first = NewTask { key: Some("k".into()), ..traced(case, 1) };
    let id = case.submit(first).await;
    for traceparent in [Some(trace(2)), None] {
        let again = NewTask { traceparent, ..case.task_with_key("k") };
        assert_eq!(case.submit(again).await, id);
        assert_eq!(trace_of(case, id).await, Some(trace(1)));
    }
}

async fn steps_and_items_are_part_of_the_trace_of_their_workflow(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": { "map": { "over": "x" } }, "b": { "needs": ["a"] } });
    let new = NewWorkflow { traceparent: Some(trace(1)), ..ad_hoc(1, definition(steps.clone())) };
    let id = case.begin(new).await.id;
    for step in [0, 1] {
        assert_eq!(trace_of(case, id.step(step)).await, Some(trace(1)), "{step}");
    }
    let map = case.claim_one(&worker).await;
    assert_eq!(map.task.spec.traceparent, Some(trace(1)));
    case.finish(&map, expanded(&["1", "2"], Some(1))).await.unwrap();
    for item in [0, 1] {
        let task = id.task(Place { step: 0, item: Some(item) });
        assert_eq!(trace_of(case, task).await, Some(trace(1)), "{item}");
    }
    let item = case.claim_one(&worker).await;
    case.finish(&item, failed("not yet")).await.unwrap();
    case.pass(60);
    case.chores().await;
    for _ in 0..3 {
        let claimed = case.claim_one(&case.worker("v").await).await;
        assert_eq!(claimed.task.spec.traceparent, Some(trace(1)), "{:?}", claimed.task.id);
        case.complete(&claimed).await;
    }
    let plain = case.begin(ad_hoc(2, definition(steps))).await.id;
    assert_eq!(trace_of(case, plain.step(0)).await, None);
}

/// Unless it is told another one.
async fn a_workflow_within_is_part_of_the_trace_of_its_step(case: &Case) {
    let worker = worker(case).await;
    let steps = json!({ "a": { "workflow": "inner" }, "b": { "workflow": "inner" } });
    let outer = NewWorkflow { traceparent: Some(trace(1)), ..ad_hoc(1, definition(steps)) };
    let outer = case.begin(outer).await.id;
    for (step, told, expected) in [(0, None, trace(1)), (1, Some(trace(2)), trace(2))] {
        let held = case.take(outer.step(step), &worker).await;
        let steps = json!({ "x": { "workflow": "inmost" } });
        let inner = ad_hoc(2 + u64::from(step), definition(steps));
        let inner = NewWorkflow { parent: Some(token(&held)), traceparent: told, ..inner };
        let inner = case.begin(inner).await.id;
        assert_eq!(trace_of(case, inner.step(0)).await, Some(expected), "within a step");
        let held = case.take(inner.step(0), &worker).await;
        let inmost = ad_hoc(4 + u64::from(step), definition(json!({ "y": {} })));
        let inmost = case.begin(NewWorkflow { parent: Some(token(&held)), ..inmost }).await.id;
        assert_eq!(trace_of(case, inmost.step(0)).await, Some(expected), "within that");
    }
}

/// What was taken over is part of it too.
async fn a_repeated_workflow_is_part_of_what_it_is_told(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": {}, "b": { "needs": ["a"] } });
    let first = NewWorkflow { traceparent: Some(trace(1)), ..ad_hoc(1, definition(steps.clone())) };
    let first = case.begin(first).await.id;
    case.work(&worker, completed("1")).await;
    let again = NewWorkflow {
        origin: Some(first),
        carried: vec![(0, windlass_core::Json::default())],
        traceparent: Some(trace(2)),
        ..ad_hoc(2, definition(steps))
    };
    let again = case.begin(again).await.id;
    assert_eq!(trace_of(case, again.step(0)).await, Some(trace(2)));
    assert_eq!(trace_of(case, again.step(1)).await, Some(trace(2)));
    assert_eq!(trace_of(case, first.step(1)).await, Some(trace(1)));
}

/// Each is a story of its own, whoever set the schedule.
async fn runs_of_a_schedule_are_part_of_no_trace(case: &Case) {
    let template = Template::new(traced(case, 1));
    let set = case.schedule(NewSchedule { template, ..hourly("s", case.now()) }).await;
    assert_eq!(set.template.task().traceparent, None);
    let run = case.task().id;
    case.store().fire(firing(&set, run), None).await.unwrap();
    assert_eq!(trace_of(case, run).await, None);
}

async fn a_trace_outlives_a_crash(case: &Case) {
    let worker = case.worker("w").await;
    let over = case.submit(traced(case, 1)).await;
    case.complete(&case.claim_one(&worker).await).await;
    let open = case.submit(traced(case, 2)).await;
    let flow = NewWorkflow { traceparent: Some(trace(3)), ..ad_hoc(1, definition(json!({ "a": {} }))) };
    let flow = case.begin(flow).await.id;
    case.crash().await;
    for (id, n) in [(over, 1), (open, 2), (flow.step(0), 3)] {
        assert_eq!(trace_of(case, id).await, Some(trace(n)));
    }
    let claimed = case.claim(&worker, 2).await;
    assert!(claimed.iter().map(|one| one.task.spec.traceparent).eq([Some(trace(2)), Some(trace(3))]));
}
