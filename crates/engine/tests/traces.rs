//! Traces without a tracer: a task is part of what it was told, and of nothing else, from its submit to its
//! handler.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass::{By, Context, Definition, TaskError, TraceParent, Windlass, WorkflowId, flow};

/// The trace numbered `n`.
fn trace(n: u8) -> TraceParent {
    TraceParent::new([n; 16], [0x10 | n; 8], 1).unwrap()
}

/// What a handler was told: the step or kind, and the trace.
type Ran = (String, Option<TraceParent>);

/// What handlers were told, in the order they ran.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Ran>>>);

impl Told {
    fn note(&self, context: &Context) {
        let step = context.step().map(|step| step.name.to_string());
        let name = step.unwrap_or_else(|| context.task().spec.kind.to_string());
        self.0.lock().unwrap().push((name, context.traceparent()));
    }

    fn take(&self) -> Vec<Ran> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Handlers that note what they were told. `flaky` fails at first, `parent` submits `child`.
async fn work(windlass: &Windlass) -> (windlass::RunningWorker, Told) {
    let told = Told::default();
    let (plain, flaky, parent, child) = (told.clone(), told.clone(), told.clone(), told.clone());
    let worker = windlass
        .worker()
        .starts_workflows()
        .handle_kind("plain", move |context| {
            plain.note(&context);
            async { Ok::<Value, _>(Value::Null) }
        })
        .handle_kind("flaky", move |context| {
            flaky.note(&context);
            async move {
                match context.attempt() {
                    1 => Err(TaskError::retry("not yet").after(std::time::Duration::ZERO)),
                    _ => Ok(()),
                }
            }
        })
        .handle_kind("parent", move |context| {
            parent.note(&context);
            async move {
                let submitted =
                    context.client().submit_json("child", "null").await.map_err(TaskError::retry)?;
                Ok(submitted.id.to_string())
            }
        })
        .handle_kind("child", move |context| {
            child.note(&context);
            async { Ok(()) }
        });
    (worker.start().await.unwrap(), told)
}

fn definition(text: &str) -> Definition {
    flow::check(text).unwrap().0.definition().clone()
}

#[tokio::test]
async fn a_handler_is_told_what_the_task_is_part_of() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let one = client.submit_json("plain", "1").traceparent(trace(1)).await.unwrap();
    client.wait(one.id).await.unwrap();
    let other = client.submit_json("plain", "1").await.unwrap();
    client.wait(other.id).await.unwrap();
    assert_eq!(told.take(), [("plain".into(), Some(trace(1))), ("plain".into(), None)]);
    let kept = client.get(one.id).await.unwrap().unwrap();
    assert_eq!(kept.task.spec.traceparent, Some(trace(1)));
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn every_attempt_is_told_the_same() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let task = client.submit_json("flaky", "1").traceparent(trace(1)).await.unwrap();
    client.wait(task.id).await.unwrap();
    assert_eq!(told.take(), [("flaky".into(), Some(trace(1))), ("flaky".into(), Some(trace(1)))]);
    worker.stop().await.unwrap();
}

/// Nothing is taken from where a submit happens to be called.
#[tokio::test]
async fn what_a_handler_submits_is_part_of_what_it_says() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let parent = client.submit_json("parent", "1").traceparent(trace(1)).await.unwrap();
    let child: String = client.wait(parent.id).await.unwrap().output().unwrap();
    client.wait(child.parse().unwrap()).await.unwrap();
    assert_eq!(told.take(), [("parent".into(), Some(trace(1))), ("child".into(), None)]);
    worker.stop().await.unwrap();
}

const FLOW: &str = "
name: outer
steps:
  each: { task: plain, map: { over: '[1, 2]', max_parallel: 1 } }
  within: { workflow: inner, needs: each }
  last: { task: plain, needs: within }
";

/// Its name, and how often its handler ran.
const RAN: [(&str, usize); 3] = [("each", 2), ("deep", 1), ("last", 1)];

async fn started(windlass: &Windlass, traceparent: Option<TraceParent>) -> WorkflowId {
    let client = windlass.client();
    client.define(definition("{ name: inner, steps: { deep: { task: plain } } }")).await.unwrap();
    let start = client.start_ad_hoc(definition(FLOW));
    let start = match traceparent {
        Some(traceparent) => start.traceparent(traceparent),
        None => start,
    };
    let id = start.await.unwrap().id;
    client.wait_for_workflow(id).await.unwrap();
    id
}

fn expected(ran: &[(&str, usize)], trace: Option<TraceParent>) -> Vec<Ran> {
    ran.iter().flat_map(|(name, times)| vec![((*name).to_owned(), trace); *times]).collect()
}

#[tokio::test]
async fn steps_items_and_what_is_within_are_part_of_what_the_start_says() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    for trace in [Some(trace(1)), None] {
        started(&windlass, trace).await;
        assert_eq!(told.take(), expected(&RAN, trace));
    }
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_repeated_workflow_is_part_of_the_same() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let id = started(&windlass, Some(trace(1))).await;
    told.take();
    let again = client.rerun(id, "within", By::default()).await.unwrap();
    client.wait_for_workflow(again.id).await.unwrap();
    assert_eq!(told.take(), expected(&RAN[1..], Some(trace(1))));
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn runs_of_a_schedule_are_part_of_nothing() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let task = client.submit_json("plain", "1").traceparent(trace(1));
    let set = client.schedule("nightly", "0 3 * * *", task).await.unwrap();
    assert_eq!(set.template.task().traceparent, None);
}

/// Nobody may lead a program to believe that it is traced.
#[tokio::test]
async fn without_a_tracer_there_is_nothing_to_identify() {
    assert!(!windlass::trace::is_on());
    let span = tracing::info_span!("anything");
    windlass::trace::follow(&span, Some(trace(1)));
    assert_eq!(windlass::trace::identify(&span), None);
}
