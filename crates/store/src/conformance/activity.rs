//! What is counted about workflows, and which of them have something to claim.

use std::time::Duration;

use serde_json::json;
use windlass_core::{
    Activity, Command, Execution, ExecutionContext, Executions, Name, NewWorkflow, Outcome, Retention,
    Source, State, Steering, Timestamp, WorkflowState, limits,
};

use super::{
    Case, ad_hoc, claim_of, completed, definition, definition_of, failed_for_good, finish, scenarios, token,
};
use crate::{Claim, Filter, Page, WorkflowCount};

scenarios![
    workflows_are_counted_by_name_and_state,
    what_happens_is_counted_by_the_minute,
    what_happens_is_counted_by_namespace,
    what_is_long_ago_is_forgotten,
    those_with_steps_to_claim_are_ready,
    what_has_come_due_is_ready,
    ready_workflows_are_in_the_order_of_their_computed_priority,
    ready_workflows_are_found_by_namespace_and_name,
    the_slowest_come_first,
    the_slowest_are_found_by_definition_and_moment,
];

/// Keeps nothing that is over.
fn everything() -> Retention {
    let all = [State::Completed, State::Failed, State::Cancelled];
    let none = |kept: Retention, state| kept.keep(state, Duration::ZERO).unwrap();
    all.into_iter().fold(Retention::default(), none)
}

/// I20.
async fn workflows_are_counted_by_name_and_state(case: &Case) {
    let (first, second) = (case.start(1, json!({ "a": {} })).await, case.start(2, json!({ "a": {} })).await);
    let of = async |state| {
        let counts = case.store().workflow_counts().await.unwrap();
        counts.iter().filter(|count| count.state == state).map(|count| count.workflows).sum::<u64>()
    };
    assert_eq!(of(WorkflowState::StepsInProcess).await, 2);
    case.steer(first, Steering::Cancel).await;
    assert_eq!((of(WorkflowState::StepsInProcess).await, of(WorkflowState::Cancelled).await), (1, 1));
    let worker = case.worker("w").await;
    case.complete(&case.claim(&worker, 1).await[0]).await;
    assert_eq!(of(WorkflowState::Complete).await, 1);
    let record = case.workflow(second).await;
    let (namespace, name) = (Name::default(), record.workflow.name);
    let count =
        |state| WorkflowCount { namespace: namespace.clone(), name: name.clone(), state, workflows: 1 };
    let expected = [count(WorkflowState::Complete), count(WorkflowState::Cancelled)];
    assert_eq!(case.store().workflow_counts().await.unwrap(), expected, "in order, and none of nothing");
    case.pass(3600);
    case.store().prune(everything(), 10).await.unwrap();
    assert_eq!(case.store().workflow_counts().await.unwrap(), []);
}

async fn what_happens_is_counted_by_the_minute(case: &Case) {
    let since = case.now();
    let worker = case.worker("w").await;
    case.start(1, json!({ "a": {}, "b": { "needs": ["a"] } })).await;
    let one = case.claim(&worker, 1).await.remove(0);
    case.apply(Command::Start { token: token(&one), at: None }).await.unwrap();
    case.pass(3);
    case.complete(&one).await;
    let activity = case.store().activity(since, None).await.unwrap();
    let expected = Activity { started: 1, steps: 1, steps_lasted: 3_000_000, ..Activity::default() };
    assert_eq!(activity, expected, "what has not ended has not lasted");
    case.pass(7);
    case.complete(&case.claim(&worker, 1).await[0]).await;
    let activity = case.store().activity(since, None).await.unwrap();
    assert_eq!((activity.completed, activity.lasted, activity.steps), (1, 10_000_000, 2));
    let other = case.start(2, json!({ "a": {} })).await;
    case.finish(&case.claim(&worker, 1).await[0], failed_for_good("no")).await.unwrap();
    case.steer(other, Steering::GiveUp).await;
    let activity = case.store().activity(since, None).await.unwrap();
    assert_eq!((activity.started, activity.failed, activity.failed_steps), (2, 1, 1));
    let later = case.now().plus(Activity::MINUTE);
    assert_eq!(case.store().activity(later, None).await.unwrap(), Activity::default());
    case.store().prune(everything(), 10).await.unwrap();
    assert_eq!(case.store().activity(since, None).await.unwrap(), activity, "it outlives the workflows");
}

/// Each namespace has numbers of its own, and the sum is that of all.
async fn what_happens_is_counted_by_namespace(case: &Case) {
    let since = case.now();
    let name = |name: &str| Name::new("namespace", name).unwrap();
    let start = async |n, namespace: &str, steps| {
        let workflow = ad_hoc(n, definition(steps));
        case.begin(NewWorkflow { namespace: name(namespace), ..workflow }).await.id
    };
    let of = async |namespace: Option<&str>| case.store().activity(since, namespace.map(name)).await.unwrap();
    start(1, "acme", json!({ "a": {} })).await;
    start(2, "other", json!({ "a": {} })).await;
    start(3, "other", json!({ "a": {} })).await;
    let worker = case.worker("w").await;
    let claim = async |namespace| {
        let claim = Claim { namespace: name(namespace), ..claim_of(&worker, 1) };
        case.store().claim(claim).await.unwrap().remove(0)
    };
    let (done, failing) = (claim("acme").await, claim("other").await);
    let both = vec![finish(&failing, failed_for_good("no")), finish(&done, completed("1"))];
    case.store().apply(both).await.unwrap();
    case.steer(failing.task.spec.workflow.unwrap(), Steering::GiveUp).await;
    let acme = of(Some("acme")).await;
    assert_eq!((acme.started, acme.completed, acme.steps), (1, 1, 1));
    assert_eq!((acme.failed, acme.failed_steps), (0, 0), "of another namespace");
    let other = of(Some("other")).await;
    assert_eq!((other.started, other.failed, other.failed_steps), (2, 1, 1));
    assert_eq!((other.completed, other.steps), (0, 0), "of another namespace");
    let mut both = acme;
    both.add(&other);
    assert_eq!(of(None).await, both, "the sum of all");
    assert_eq!(of(Some("nobody")).await, Activity::default());
    case.pass(60);
    start(4, "acme", json!({ "a": {} })).await;
    assert_eq!(of(Some("acme")).await.started, 2, "of several minutes");
    assert_eq!(of(Some("other")).await, other);
    let later = case.store().activity(case.now(), Some(name("acme"))).await.unwrap();
    assert_eq!(later, Activity { started: 1, ..Activity::default() }, "and since the last of them");
}

async fn what_is_long_ago_is_forgotten(case: &Case) {
    let since = case.now();
    case.start(1, json!({ "a": {} })).await;
    case.pass(limits::ACTIVITY.as_secs() + 60);
    case.store().prune(Retention::default(), 10).await.unwrap();
    assert_eq!(case.store().activity(since, None).await.unwrap(), Activity::default());
}

async fn those_with_steps_to_claim_are_ready(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.start(1, json!({ "a": {}, "b": {}, "c": { "needs": ["a"] } })).await;
    let ready = async || {
        let ready = case.store().ready_workflows(None, None, 10).await.unwrap();
        ready.into_iter().map(|one| (one.workflow.id, one.ready)).collect::<Vec<_>>()
    };
    assert_eq!(ready().await, [(id, 2)]);
    let held = case.claim(&worker, 1).await;
    assert_eq!(ready().await, [(id, 1)], "what is claimed is not to be claimed");
    case.complete(&held[0]).await;
    assert_eq!(ready().await, [(id, 2)]);
    case.steer(id, Steering::Pause).await;
    assert_eq!(ready().await, [], "nothing of a paused one");
    case.steer(id, Steering::Resume).await;
    let held = case.claim(&worker, 2).await;
    assert_eq!(ready().await, [], "workers have all of them");
    case.fail(&held[0], "once").await;
    assert_eq!(ready().await, [], "what waits for a retry is not ready");
    assert_eq!(case.state(held[0].task.id).await, State::WaitingForRetry);
    assert_eq!(case.workflow(id).await.workflow.retries, 1);
    assert_eq!(case.store().ready_workflows(None, None, 0).await.unwrap(), []);
}

/// 2.9: a wait that is over is one, whether anybody has promoted the step or not; but not in a workflow that
/// is paused.
async fn what_has_come_due_is_ready(case: &Case) {
    let worker = case.worker("w").await;
    let lane = json!({ "key": "narrow", "limit": 1 });
    let id = case
        .start(1, json!({ "a": {}, "b": {}, "c": {}, "d": { "lane": lane }, "e": { "lane": lane } }))
        .await;
    let ready = async || {
        let ready = case.store().ready_workflows(None, None, 10).await.unwrap();
        ready.into_iter().map(|one| one.ready).collect::<Vec<u64>>()
    };
    assert_eq!(ready().await, [4], "one waits for a place in its lane");
    let held = case.claim(&worker, 3).await;
    assert_eq!(ready().await, [1]);
    let hour = Duration::from_secs(3600);
    let failed = Outcome::Failed { error: "no".into(), retryable: true, retry_after: Some(hour) };
    case.finish(&held[0], failed).await.unwrap();
    case.finish(&held[1], Outcome::Snoozed { delay: 2 * hour }).await.unwrap();
    assert_eq!(ready().await, [1]);
    case.pass(3600);
    assert_eq!(ready().await, [2], "the retry");
    case.pass(3600);
    assert_eq!(ready().await, [3], "and what was snoozed");
    let tasks = case.store().tasks(Filter { workflow: Some(id), ..Filter::default() }, Page::default()).await;
    let tasks = tasks.unwrap().tasks;
    assert_eq!(ExecutionContext::of(&tasks, false, case.now()).ready, 3, "the core says so, too");
    case.steer(id, Steering::Pause).await;
    assert_eq!(case.flow(id).await, WorkflowState::StepsInProcess, "a worker has one");
    assert!(ready().await.is_empty(), "it goes on waiting");
    assert_eq!(ExecutionContext::of(&tasks, true, case.now()).ready, 0);
    case.steer(id, Steering::Resume).await;
    assert_eq!(ready().await, [3]);
    for one in &held[..2] {
        case.apply(Command::Promote { task: one.task.id }).await.unwrap();
    }
    assert_eq!(ready().await, [3], "promoted, they are as ready as before");
}

/// C44: priority, then age: ten hours are a point, and so are ten retries.
async fn ready_workflows_are_in_the_order_of_their_computed_priority(case: &Case) {
    let start = async |n, priority| {
        case.begin(NewWorkflow { priority, ..ad_hoc(n, definition(json!({ "a": {} }))) }).await.id
    };
    let (old, high) = (start(1, 0).await, start(2, 1).await);
    case.pass(11 * 3600);
    let (new, newer) = (start(3, 1).await, start(4, 0).await);
    let ready = case.store().ready_workflows(None, None, 10).await.unwrap();
    let ids: Vec<_> = ready.iter().map(|one| one.workflow.id).collect();
    assert_eq!(ids, [high, old, new, newer], "eleven hours are more than a point");
    let now = case.now();
    let points: Vec<f64> = ready.iter().map(|one| one.workflow.computed_priority(now)).collect();
    assert!(points.is_sorted_by(|a, b| a >= b), "{points:?}");
    assert!((points[1] - 1.1).abs() < 1e-6 && (points[2] - 1.0).abs() < 1e-6, "{points:?}");
    assert_eq!(case.store().ready_workflows(None, None, 2).await.unwrap(), ready[..2]);
}

/// However many others come before them.
async fn ready_workflows_are_found_by_namespace_and_name(case: &Case) {
    let name = |name: &str| Name::new("definition", name).unwrap();
    let start = async |n, namespace: &str, flow: &str, priority| {
        let definition = definition_of(json!({ "name": flow, "steps": { "a": {} } }));
        let namespace = name(namespace);
        case.begin(NewWorkflow { namespace, priority, ..ad_hoc(n, definition) }).await.id
    };
    for n in 0..5 {
        start(n, "default", "loud", 100).await;
    }
    let (first, second) = (start(10, "tenant", "one", 1).await, start(11, "tenant", "two", 0).await);
    let third = start(12, "default", "one", 0).await;
    let (tenant, one, nobody) = (name("tenant"), name("one"), name("nobody"));
    for (namespace, flow, limit, expected) in [
        (Some(&tenant), None, 10, vec![first, second]),
        (Some(&tenant), None, 1, vec![first]),
        (Some(&tenant), Some(&one), 10, vec![first]),
        (None, Some(&one), 10, vec![first, third]),
        (Some(&nobody), None, 10, vec![]),
        (None, Some(&nobody), 10, vec![]),
    ] {
        let ready = case.store().ready_workflows(namespace.cloned(), flow.cloned(), limit).await.unwrap();
        let ids: Vec<_> = ready.iter().map(|one| one.workflow.id).collect();
        assert_eq!(ids, expected, "{namespace:?} {flow:?} {limit}");
    }
    assert_eq!(case.store().ready_workflows(None, None, 100).await.unwrap().len(), 8);
}

fn slowest(of_steps: bool, together: Option<u64>) -> Executions {
    let since = Timestamp::from_micros(0);
    Executions { of_steps, since, limit: 10, namespace: None, name: None, version: None, together }
}

async fn the_slowest_come_first(case: &Case) {
    let worker = case.worker("w").await;
    let run = async |n: u64, seconds: u64, outcome| {
        case.start(n, json!({ "a": {}, "b": {} })).await;
        for (number, held) in case.claim(&worker, 2).await.iter().enumerate() {
            case.apply(Command::Start { token: token(held), at: None }).await.unwrap();
            case.pass(seconds);
            let outcome = if number == 0 { completed("1") } else { Outcome::clone(&outcome) };
            case.finish(held, outcome).await.unwrap();
        }
    };
    run(1, 1, completed("1")).await;
    run(2, 5, completed("1")).await;
    run(3, 2, failed_for_good("no")).await;
    let ask = async |wanted| case.store().executions(wanted).await.unwrap();
    let each = ask(slowest(true, None)).await;
    let took: Vec<_> = each.iter().map(|one| (one.max.as_secs(), one.step.as_deref(), one.errors)).collect();
    let expected = [(5, "a", 0), (5, "b", 0), (2, "a", 0), (2, "b", 1), (1, "a", 0), (1, "b", 0)];
    assert_eq!(took, expected.map(|(seconds, step, errors)| (seconds, Some(step), errors)));
    assert!(each.iter().all(|one| one.executions == 1 && one.task.is_some() && one.version.is_empty()));
    assert_eq!(ask(Executions { limit: 2, ..slowest(true, None) }).await, each[..2]);
    let steps = ask(slowest(true, Some(3))).await;
    let told: Vec<_> = steps.iter().map(|one| (one.step.as_deref(), one.executions, one.errors)).collect();
    assert_eq!(told, [(Some("a"), 3, 0), (Some("b"), 3, 1)]);
    assert_eq!(steps[0].average, Duration::from_secs(8) / 3);
    assert_eq!((steps[0].max.as_secs(), steps[0].min.as_secs(), steps[1].error_rate()), (5, 1, 33.33));
    assert_eq!(ask(slowest(true, Some(4))).await, [], "there are not so many");
    let workflows = ask(slowest(false, None)).await;
    assert_eq!(workflows.iter().map(|one| one.max.as_secs()).collect::<Vec<_>>(), [10, 2], "one is not over");
    let together = ask(slowest(false, Some(1))).await;
    assert_eq!((together.len(), together[0].executions, together[0].average.as_secs()), (1, 2, 6));
    assert_eq!((together[0].steps, together[0].last_at), (2.0, workflows[0].last_at));
    let other = Name::new("definition", "other").unwrap();
    for nothing in [
        Executions { name: Some(other.clone()), ..slowest(true, None) },
        Executions { namespace: Some(other), ..slowest(false, Some(1)) },
        Executions { version: Some("7".into()), ..slowest(true, Some(1)) },
        Executions { since: case.now().plus(Activity::MINUTE), ..slowest(true, None) },
        Executions { limit: 0, ..slowest(false, None) },
    ] {
        assert_eq!(ask(nothing).await, []);
    }
}

/// 2.18, C40: each filter lets through what it should.
async fn the_slowest_are_found_by_definition_and_moment(case: &Case) {
    let name = |name: &str| Name::new("definition", name).unwrap();
    let mut moments = Vec::new();
    for (n, namespace, flow, version) in [
        (1, "default", "one", "1"),
        (2, "default", "one", "2"),
        (3, "default", "two", "1"),
        (4, "default", "one", "1"),
        (5, "tenant", "one", "1"),
    ] {
        let definition = definition_of(json!({ "name": flow, "version": version, "steps": { "a": {} } }));
        let namespace = name(namespace);
        case.store().define(namespace.clone(), definition.clone()).await.unwrap();
        let source = Source::Named { name: name(flow), version: Some(version.into()) };
        case.begin(NewWorkflow { source, namespace: namespace.clone(), ..ad_hoc(n, definition) }).await;
        // Anew each time: it sends no heartbeats.
        let worker = case.worker("w").await;
        let claim = Claim { namespace, ..claim_of(&worker, 1) };
        let held = case.store().claim(claim).await.unwrap().remove(0);
        case.apply(Command::Start { token: token(&held), at: None }).await.unwrap();
        case.pass(n);
        case.complete(&held).await;
        moments.push(case.now());
        case.pass(60);
    }
    let (default, tenant, one, two) = (name("default"), name("tenant"), name("one"), name("two"));
    let version = |version: &str| Some(version.to_owned());
    for of_steps in [true, false] {
        // How long each of those that are found took, slowest first: it says which one it is.
        let each = async |wanted: Executions| {
            let found =
                case.store().executions(Executions { of_steps, together: None, ..wanted }).await.unwrap();
            found.iter().map(|one| one.max.as_secs()).collect::<Vec<_>>()
        };
        let all = || slowest(of_steps, None);
        assert_eq!(each(all()).await, [5, 4, 3, 2, 1]);
        assert_eq!(each(Executions { namespace: Some(default.clone()), ..all() }).await, [4, 3, 2, 1]);
        assert_eq!(each(Executions { namespace: Some(tenant.clone()), ..all() }).await, [5]);
        assert_eq!(each(Executions { name: Some(one.clone()), ..all() }).await, [5, 4, 2, 1]);
        assert_eq!(each(Executions { name: Some(two.clone()), ..all() }).await, [3]);
        assert_eq!(each(Executions { version: version("1"), ..all() }).await, [5, 4, 3, 1]);
        assert_eq!(each(Executions { version: version("2"), ..all() }).await, [2]);
        assert_eq!(each(Executions { since: moments[3], ..all() }).await, [5, 4], "and what ended then");
        let since = moments[3].plus(Duration::from_micros(1));
        assert_eq!(each(Executions { since, ..all() }).await, [5]);
        let several = Executions {
            namespace: Some(default.clone()),
            name: Some(one.clone()),
            version: version("1"),
            since: moments[1],
            ..all()
        };
        assert_eq!(each(several).await, [4], "all of them at once");
        // Several together, and only what there were enough of.
        let together = async |least, wanted: Executions| {
            let wanted = Executions { of_steps, together: Some(least), ..wanted };
            let found = case.store().executions(wanted).await.unwrap();
            let told = |one: &Execution| (one.name.to_string(), one.version.clone(), one.executions);
            found.iter().map(told).collect::<Vec<_>>()
        };
        let told = |name: &str, version: &str, many| (name.to_owned(), version.to_owned(), many);
        assert_eq!(together(1, all()).await.len(), 4);
        assert_eq!(together(2, all()).await, [told("one", "1", 2)]);
        assert_eq!(together(3, all()).await, []);
        let of = |namespace: &Name| Executions { namespace: Some(namespace.clone()), ..all() };
        assert_eq!(together(1, of(&tenant)).await, [told("one", "1", 1)]);
        assert_eq!(together(2, of(&tenant)).await, []);
        let late = Executions { since: moments[1], name: Some(one.clone()), ..of(&default) };
        assert_eq!(together(1, late.clone()).await, [told("one", "1", 1), told("one", "2", 1)]);
        assert_eq!(together(2, late).await, [], "what ended before does not count");
    }
}
