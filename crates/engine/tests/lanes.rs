//! Lanes of steps: held while the workflow that a step is runs, and chosen by expressions.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::{Value, json};
use windlass::{
    By, Client, Definition, Filter, Page, RunningWorker, State, Windlass, WorkflowId, WorkflowRecord,
    WorkflowState, flow,
};

fn definition(text: &str) -> Definition {
    flow::check(text).unwrap().0.definition().clone()
}

/// How many workflows run at once, told by their first and last steps.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn worker(windlass: &Windlass, gauge: &Arc<Gauge>) -> RunningWorker {
    let (enter, leave) = (gauge.clone(), gauge.clone());
    let worker = windlass
        .worker()
        .starts_workflows()
        .handle_kind("enter", move |_| {
            enter.most.fetch_max(enter.now.fetch_add(1, SeqCst) + 1, SeqCst);
            async { Ok(()) }
        })
        .handle_kind("leave", move |_| {
            leave.now.fetch_sub(1, SeqCst);
            async { Ok(()) }
        })
        .handle_kind("echo", |context| async move {
            Ok(serde_json::from_str::<Value>(context.payload().as_str())?)
        });
    worker.start().await.unwrap()
}

async fn run(windlass: &Windlass, gauge: &Arc<Gauge>, text: &str, input: &Value) -> WorkflowRecord {
    let worker = worker(windlass, gauge).await;
    let client = windlass.client();
    let started = client.start_ad_hoc(definition(text)).input(input).await.unwrap();
    let record = client.wait_for_workflow(started.id).await.unwrap();
    worker.stop().await.unwrap();
    record
}

/// The keys of the lanes of a workflow's steps and items, by their names.
async fn lanes(client: &Client, id: WorkflowId) -> Vec<(String, Option<String>)> {
    let inspection = client.inspect(id).await.unwrap().unwrap();
    let key = |task: &windlass::Task| task.spec.lane.as_ref().map(|lane| lane.key().to_owned());
    inspection.tasks.iter().map(|task| (inspection.name(task), key(task))).collect()
}

const INNER: &str = "name: inner\nsteps:\n  first: { task: enter }\n  last: { task: leave, needs: first }\n";

/// A rollout in waves, on every store that needs no server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_in_waves() {
    let directory = tempfile::tempdir().unwrap();
    let step = "{ workflow: inner, lane: { key: x, limit: 1 } }";
    for address in ["memory:".to_owned(), format!("sqlite:{}", directory.path().join("w.db").display())] {
        let windlass = Windlass::open(&address).await.unwrap();
        windlass.client().define(definition(INNER)).await.unwrap();
        for (text, most) in [
            ("name: waves\nsteps:\n  each: { workflow: inner, map: { over: [1, 2, 3, 4], max_parallel: 1 } }\n".into(), 1),
            ("name: waves\nsteps:\n  each: { workflow: inner, map: { over: [1, 2, 3, 4], max_parallel: 2 } }\n".into(), 2),
            (format!("name: waves\nsteps:\n  a: {step}\n  b: {step}\n  c: {step}\n"), 1),
        ] {
            let gauge = Arc::default();
            let record = run(&windlass, &gauge, &text, &Value::Null).await;
            assert_eq!(record.workflow.state, WorkflowState::Complete, "{text}");
            let seen = gauge.most.load(SeqCst);
            assert!((1..=most).contains(&seen), "{seen} at once on {address}: {text}");
        }
        windlass.close().await.unwrap();
    }
}

/// A key reads the input of its own workflow; that of an item also the item and its number. A rerun has the
/// same keys.
#[tokio::test]
async fn keys_are_evaluated() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let inner = r#"
name: inner
steps:
  write: { task: echo, lane: { key: "db-${input.tenant}", limit: 1 } }
"#;
    client.define(definition(inner)).await.unwrap();
    let text = r#"
name: outer
steps:
  plain: { task: echo, lane: { key: plain, limit: 2 } }
  whole: { task: echo, lane: { key: "${input.n}", limit: 2 } }
  text: { task: echo, lane: { key: "$${a}-${input.t + '!'}-${input.n > 1}", limit: 2 } }
  list: { task: echo, map: { over: [1, 2] }, lane: { key: "list-${input.t}", limit: 2 } }
  items: { task: echo, map: { over: [{ at: eu }, { at: us }] }, lane: { key: "${input.t}-${item.at}-${index}", limit: 1 } }
  call: { workflow: inner, input: { tenant: "${input.t + '2'}" } }
"#;
    let record = run(&windlass, &Arc::default(), text, &json!({ "t": "a", "n": 7 })).await;
    assert_eq!(record.workflow.state, WorkflowState::Complete);
    let id = record.workflow.id;
    let expected = [
        ("plain", Some("plain")),
        ("whole", Some("7")),
        ("text", Some("${a}-a!-true")),
        ("list", Some("list-a")),
        ("list[0]", Some("list-a")),
        ("list[1]", Some("list-a")),
        ("items", None),
        ("items[0]", Some("a-eu-0")),
        ("items[1]", Some("a-us-1")),
        ("call", None),
    ];
    let expected = expected.map(|(step, key)| (step.to_owned(), key.map(ToOwned::to_owned)));
    assert_eq!(lanes(&client, id).await, expected);
    let tasks = client.list(Filter::default(), Page::default()).await.unwrap().tasks;
    let written = tasks.iter().find(|task| task.spec.workflow != Some(id)).unwrap();
    assert_eq!(
        written.spec.lane.as_ref().unwrap().key(),
        "db-a2",
        "of the input of the workflow that it is in"
    );
    let again = client.rerun(id, "whole", By::default()).await.unwrap();
    assert_eq!(lanes(&client, again.id).await[1].1.as_deref(), Some("7"));
}

/// An input that gives no key starts nothing.
#[tokio::test]
async fn an_input_without_a_key_is_refused() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let text = "name: x\nsteps:\n  a: { task: echo, lane: { key: \"db-${input.t}\", limit: 1 } }\n";
    for input in [json!({}), json!({ "t": null }), json!({ "t": [] }), json!({ "t": "x".repeat(600) })] {
        let error = client.start_ad_hoc(definition(text)).input(&input).await.unwrap_err().to_string();
        assert!(error.contains("lane key of the step \"a\""), "{error}");
    }
    let error =
        client.start_ad_hoc(definition(text)).input(&json!({ "t": null })).await.unwrap_err().to_string();
    assert!(error.contains("it gives null, not a text or a number"), "{error}");
    assert!(client.list(Filter::default(), Page::default()).await.unwrap().tasks.is_empty());
}

/// Where the keys are literal, before anything is started.
#[tokio::test]
async fn a_lane_that_is_held_above_is_refused_at_once() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let inner = "name: inner\nsteps:\n  write: { task: echo, lane: { key: db-a, limit: 1 } }\n";
    client.define(definition(inner)).await.unwrap();
    client.define(definition("name: middle\nsteps:\n  down: { workflow: inner }\n")).await.unwrap();
    let literal =
        definition("name: outer\nsteps:\n  call: { workflow: middle, lane: { key: db-a, limit: 3 } }\n");
    let error = client.define(literal.clone()).await.unwrap_err().to_string();
    for part in ["steps.call.lane.key", "\"write\"", "\"inner\"", "\"db-a\"", "\"call\""] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let evaluated = definition(
        "name: outer\nsteps:\n  call: { workflow: middle, lane: { key: \"db-${input}\", limit: 3 } }\n",
    );
    client.define(evaluated.clone()).await.unwrap();
    for (definition, input) in [(literal, "b"), (evaluated.clone(), "a")] {
        let error = client.start_ad_hoc(definition).input(&input).await.unwrap_err();
        assert_eq!(error.code(), "lane_held_above");
        let error = error.to_string();
        assert!(error.contains("\"inner/write\"") && error.contains("\"call\""), "{error}");
    }
    assert!(client.start_ad_hoc(evaluated).input(&"b").await.unwrap().created);
}

/// Where they are not, as the failure of the step: of the one above when the workflow below it is started, or
/// of the list.
#[tokio::test]
async fn a_lane_that_is_held_above_fails_a_step() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let inner = "name: inner\nsteps:\n  write: { task: echo, lane: { key: \"db-${input}\", limit: 1 } }\n";
    client.define(definition(inner)).await.unwrap();
    let list = "name: list\non_failure: fail_fast\nsteps:\n  each: { task: echo, map: { over: \"${input}\" }, lane: { key: \"${item}\", limit: 1 } }\n";
    client.define(definition(list)).await.unwrap();
    let text = r#"
name: outer
steps:
  call: { workflow: inner, input: a, lane: { key: db-a, limit: 1 } }
  list: { workflow: list, input: [x, y], lane: { key: y, limit: 1 } }
"#;
    let record = run(&windlass, &Arc::default(), text, &Value::Null).await;
    assert_eq!(record.workflow.state, WorkflowState::BlockedByFailures);
    let call = client.step(record.workflow.id, "call").await.unwrap();
    let call = client.get(call).await.unwrap().unwrap().task;
    assert_eq!((call.status.state, call.status.slot), (State::Failed, false));
    let error = call.status.error.unwrap();
    assert!(
        error.contains("\"write\"") && error.contains("\"call\"") && error.contains("\"db-a\""),
        "{error}"
    );
    let failed = Filter { states: vec![State::Failed], ..Filter::default() };
    let failed = client.list(failed, Page::default()).await.unwrap().tasks;
    let each = failed.iter().find(|task| task.spec.workflow != Some(record.workflow.id)).unwrap();
    let error = each.status.error.as_ref().unwrap();
    assert!(error.contains("\"each\"") && error.contains("\"list\"") && error.contains("\"y\""), "{error}");
}
