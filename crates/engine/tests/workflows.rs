//! Workflows from end to end: definitions, expressions, lists, workflows within workflows, handlers that read
//! what came before.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::{
    By, Definition, State, Steering, TaskError, Windlass, WorkerBuilder, WorkflowRecord, WorkflowState, flow,
};

fn definition(text: &str) -> Definition {
    flow::check(text).unwrap().0.definition().clone()
}

/// A worker whose handlers answer with what they were given, double it, or fail.
fn worker(windlass: &Windlass, log: &Arc<Mutex<Vec<String>>>) -> WorkerBuilder {
    let log = log.clone();
    windlass
        .worker()
        .starts_workflows()
        .handle_kind("echo", move |context| {
            let step = context.step().map(|step| step.name.to_string()).unwrap_or_default();
            log.lock().unwrap().push(step);
            async move { Ok(serde_json::from_str::<Value>(context.payload().as_str())?) }
        })
        .handle_kind("double", |context| async move {
            let number: i64 = serde_json::from_str(context.payload().as_str())?;
            Ok(number * 2)
        })
        .handle_kind("fail", |_| async { Err::<(), _>(TaskError::fail("as asked")) })
        .handle_kind("sum", |context| async move {
            let mut seen = Vec::new();
            for ancestor in context.ancestors().await? {
                seen.push(json!([
                    &*ancestor.name,
                    ancestor.distance,
                    ancestor.result.map(|it| it.to_string())
                ]));
            }
            let first: Option<Value> = context.result_of("first").await?;
            Ok(json!({ "seen": seen, "first": first }))
        })
}

async fn run(
    windlass: &Windlass,
    text: &str,
    input: Value,
) -> (WorkflowRecord, Vec<(String, State, Option<Value>)>) {
    let log = Arc::default();
    let worker = worker(windlass, &log).start().await.unwrap();
    let client = windlass.client();
    let started = client.start_ad_hoc(definition(text)).input(&input).await.unwrap();
    let record = client.wait_for_workflow(started.id).await.unwrap();
    worker.stop().await.unwrap();
    let inspection = client.inspect(started.id).await.unwrap().unwrap();
    let mut steps = Vec::new();
    for task in &inspection.tasks {
        let record = client.get(task.id).await.unwrap().unwrap();
        let result = record.result.map(|result| serde_json::from_str(result.as_str()).unwrap());
        steps.push((inspection.name(task), task.status.state, result));
    }
    (record, steps)
}

/// A condition, a list and a join, on every store that needs no server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_lists_and_joins() {
    let directory = tempfile::tempdir().unwrap();
    let text = r#"
name: all-of-it
steps:
  first: { task: echo, input: { n: "${input.n + 1}", text: "n is ${input.n}" } }
  small: { task: echo, needs: first, if: "first.n < 3" }
  large: { task: echo, needs: first, if: "first.n >= 3" }
  after-small: { task: echo, needs: small }
  each: { task: double, needs: first, map: { over: "[1, 2, first.n]", max_parallel: 2 }, input: "${item}" }
  end: { task: echo, needs: [small, large, each], join: all_done, input: { each: "${each}", small: "${small}" } }
"#;
    for address in ["memory:".to_owned(), format!("sqlite:{}", directory.path().join("w.db").display())] {
        let windlass = Windlass::open(&address).await.unwrap();
        let (record, steps) = run(&windlass, text, json!({ "n": 4 })).await;
        assert_eq!(record.workflow.state, WorkflowState::Complete, "{address}: {steps:?}");
        let of = |name: &str| steps.iter().find(|(step, ..)| step == name).unwrap();
        assert_eq!(of("first").2, Some(json!({ "n": 5, "text": "n is 4" })));
        assert_eq!(of("small").1, State::Skipped);
        assert_eq!(of("after-small").1, State::Skipped);
        assert_eq!(of("large").1, State::Completed);
        assert_eq!(of("each").2, Some(json!([2, 4, 10])));
        assert_eq!(of("each[2]").2, Some(json!(10)));
        assert_eq!(of("end").2, Some(json!({ "each": [2, 4, 10], "small": null })));
        windlass.close().await.unwrap();
    }
}

/// A handler sees what came before, near and far.
#[tokio::test]
async fn ancestors_are_seen_with_their_distance() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let text = r#"
name: chain
steps:
  first: { task: echo, input: 1 }
  second: { task: echo, needs: first, input: 2 }
  third: { task: sum, needs: second }
"#;
    let (_, steps) = run(&windlass, text, Value::Null).await;
    let expected = json!({ "seen": [["second", 1, "2"], ["first", 2, "1"]], "first": 1 });
    assert_eq!(steps[2].2, Some(expected));
}

/// Null is something to be given; what is not said is not null.
#[tokio::test]
async fn null_is_an_input() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let text = r#"
name: nulls
steps:
  null-given: { task: echo, input: null }
  nothing-said: { task: echo }
  each: { task: echo, map: { over: [1] }, input: ~ }
  filled-in: { task: echo, input: "${null}" }
"#;
    let (_, steps) = run(&windlass, text, json!({ "n": 1 })).await;
    let result = |name: &str| steps.iter().find(|(step, ..)| step == name).unwrap().2.clone();
    assert_eq!(result("null-given"), Some(Value::Null));
    assert_eq!(result("nothing-said"), Some(json!({ "n": 1 })));
    assert_eq!(result("each"), Some(json!([null])));
    assert_eq!(result("filled-in"), Some(Value::Null));
}

/// A workflow is a step, takes what it is given, and gives what its last steps give.
#[tokio::test]
async fn a_workflow_is_a_step() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let inner = definition(
        "name: inner\ninput: {type: object, required: [n]}\nsteps:\n  twice: { task: double, input: \"${input.n}\" }\n",
    );
    assert!(client.define(inner.clone()).await.unwrap().created);
    assert!(!client.define(inner).await.unwrap().created);
    let text = r#"
name: outer
steps:
  call: { workflow: inner, input: { n: "${input.n}" } }
  after: { task: echo, needs: call, input: "${call.twice + 1}" }
"#;
    let (record, steps) = run(&windlass, text, json!({ "n": 20 })).await;
    assert_eq!(record.workflow.state, WorkflowState::Complete, "{steps:?}");
    assert_eq!(steps[1].2, Some(json!(41)));
}

/// A failure blocks what needs it; an operator settles it; a rerun takes over what is done.
#[tokio::test]
async fn failures_are_settled_and_workflows_are_repeated() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let text = r#"
name: failing
steps:
  good: { task: echo, input: 7 }
  bad: { task: fail, needs: good }
  other: { task: echo, needs: good, input: "${good}" }
  last: { task: echo, needs: [bad, other], input: "${bad}" }
"#;
    let (record, steps) = run(&windlass, text, Value::Null).await;
    assert_eq!(record.workflow.state, WorkflowState::BlockedByFailures);
    assert_eq!(
        steps.iter().map(|(_, state, _)| *state).collect::<Vec<_>>(),
        [State::Completed, State::Failed, State::Completed, State::Waiting]
    );
    let id = record.workflow.id;
    let by = || By { actor: Some("ada".into()), note: Some("known".into()) };
    let again = client.rerun(id, "bad", by()).await.unwrap();
    let repeated = client.inspect(again.id).await.unwrap().unwrap();
    let states: Vec<_> = repeated.tasks.iter().map(|task| task.status.state).collect();
    assert_eq!(states, [State::ResolvedManually, State::Pending, State::ResolvedManually, State::Waiting]);
    assert_eq!(repeated.record.workflow.origin, Some(id));
    client.steer(again.id, Steering::Cancel, by()).await.unwrap();
    let bad = client.step(id, "bad").await.unwrap();
    client.resolve(bad, Some(windlass::Json::result("8").unwrap()), by()).await.unwrap();
    let log = Arc::default();
    let worker = worker(&windlass, &log).start().await.unwrap();
    let record = client.wait_for_workflow(id).await.unwrap();
    worker.stop().await.unwrap();
    assert_eq!(record.workflow.state, WorkflowState::Complete);
    let output = client.output(&record).await.unwrap();
    assert_eq!(output[0].1.as_ref().unwrap().as_str(), "8");
    assert_eq!(*log.lock().unwrap(), ["last"]);
}

/// Input that the schema refuses, identities, and what is not sound change nothing.
#[tokio::test]
async fn what_cannot_be_started_is_refused() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let mut strict = definition("name: strict\nidentity: strict\nsteps:\n  a: { task: echo }\n");
    client.define(strict.clone()).await.unwrap();
    let one = client.start("strict").input_json(r#"{"a": 1, "b": 2}"#).await.unwrap();
    let same = client.start("strict").input_json(r#"{"b":2,"a":1}"#).await.unwrap();
    let other = client.start("strict").input_json(r#"{"b":2,"a":2}"#).await.unwrap();
    assert!(one.created && !same.created && same.id == one.id && other.created);
    strict.name = windlass::Name::new("name", "keyed").unwrap();
    strict.identity = windlass::Identity::CallerProvided;
    client.define(strict.clone()).await.unwrap();
    assert!(client.start("keyed").await.unwrap_err().to_string().contains("key"));
    assert!(client.start("keyed").key("k").await.unwrap().created);
    assert!(client.start("nothing").await.unwrap_err().to_string().contains("no definition"));
    strict.steps[0].condition = Some("nobody.knows > 3".into());
    assert!(client.define(strict).await.unwrap_err().to_string().contains("steps.a.if"));
    assert_eq!(client.definitions(None).await.unwrap().len(), 2);
}
