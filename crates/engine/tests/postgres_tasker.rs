//! Workflows that are changed with document 002's functions in SQL, under workers that run: they see it as if
//! the library had done it.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::block_in_place;
use tokio::time::timeout;
use windlass::{Definition, State, TaskError, Windlass, WorkerBuilder, WorkflowId, WorkflowState, flow};
use windlass_store::SystemClock;
use windlass_store::conformance::invariants;
use windlass_testbed::postgres::{Server, shared};

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

fn definition(text: &str) -> Definition {
    flow::check(text).unwrap().0.definition().clone()
}

/// Handlers that run until they are stopped and say why they were, and some that end at once and are counted.
fn worker(windlass: &Windlass, said: UnboundedSender<String>, quick: Arc<AtomicUsize>) -> WorkerBuilder {
    windlass
        .worker()
        .handle_kind("hold", move |context| {
            let said = said.clone();
            async move {
                let _ = said.send("started".into());
                let reason = context.stopped().await;
                let _ = said.send(format!("{reason:?}"));
                Ok(())
            }
        })
        .handle_kind("quick", move |_| {
            quick.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        })
        .handle_kind("fail", |_| async { Err::<(), _>(TaskError::retry("not yet")) })
}

fn ask(server: &Server, schema: &str, call: &str) -> bool {
    let answer =
        block_in_place(|| server.sql(&format!("SET search_path = {schema}_tasker, public; SELECT {call}")));
    match &*answer.unwrap() {
        "t" => true,
        "f" => false,
        other => unreachable!("{other}"),
    }
}

async fn open(server: &Server, schema: &str) -> Windlass {
    Windlass::open(&format!("{}?schema={schema}", server.url())).await.unwrap()
}

async fn check(windlass: &Windlass) {
    invariants::check(&**windlass.store(), &SystemClock).await;
}

/// I19, from SQL: handlers are stopped, nothing starts afterwards, and nothing is left to repair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_in_sql_stops_handlers() {
    let server = block_in_place(shared);
    let windlass = open(server, "stops").await;
    let other = open(server, "stops").await;
    let (said, mut hears) = mpsc::unbounded_channel();
    let quick = Arc::<AtomicUsize>::default();
    // Two programs, so that a bell has to go through the database.
    let workers = [
        worker(&windlass, said.clone(), quick.clone()).start().await.unwrap(),
        worker(&other, said.clone(), quick.clone()).start().await.unwrap(),
    ];
    let text = "
name: held
steps:
  a: { task: hold }
  b: { task: hold }
  c: { task: hold, lane: { key: one, limit: 1 } }
  d: { task: hold, lane: { key: one, limit: 1 } }
  e: { task: quick, needs: a, join: all_done }
  f: { task: quick, needs: [a, b, c, d, e], join: all_done }
";
    let client = windlass.client();
    let next = async |what: &str, hears: &mut UnboundedReceiver<String>| {
        assert_eq!(timeout(PATIENCE, hears.recv()).await.expect("in time").as_deref(), Some(what));
    };
    for cancelled in [true, false] {
        let id = client.start_ad_hoc(definition(text)).input(&json!({})).await.unwrap().id;
        for _ in 0..3 {
            next("started", &mut hears).await;
        }
        let to = if cancelled { "cancelled" } else { "resolved_manually" };
        let call =
            format!("transition_task_state_atomic('{id}', 'steps_in_process', '{to}', gen_random_uuid())");
        assert!(ask(server, "stops", &call));
        assert!(!ask(server, "stops", &call), "once");
        for _ in 0..3 {
            next("Cancelled", &mut hears).await;
        }
        let state = timeout(PATIENCE, client.wait_for_workflow(id)).await.unwrap().unwrap().workflow.state;
        assert_eq!(state.word(), to);
        let inspection = client.inspect(id).await.unwrap().unwrap();
        assert!(inspection.tasks.iter().all(|task| task.status.state == State::Cancelled));
    }
    // What comes afterwards is done, and shows that nothing of the others was.
    let text = "{ name: quick, steps: { a: { task: quick }, b: { task: quick, needs: a } } }";
    let id = client.start_ad_hoc(definition(text)).input(&json!({})).await.unwrap().id;
    let record = timeout(PATIENCE, client.wait_for_workflow(id)).await.unwrap().unwrap();
    assert_eq!(record.workflow.state, WorkflowState::Complete);
    assert!(ask(server, "stops", &format!("finalize_task_completion('{id}')")));
    assert_eq!(quick.load(Ordering::Relaxed), 2);
    for worker in workers {
        worker.stop().await.unwrap();
    }
    assert!(hears.try_recv().is_err(), "no handler started in between");
    check(&windlass).await;
}

/// A retry that is hours away comes at once when SQL says so: the leader's timer is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backoff_in_sql_moves_the_retry() {
    let server = block_in_place(shared);
    let windlass = open(server, "moves").await;
    let quick = Arc::<AtomicUsize>::default();
    let (said, _hears) = mpsc::unbounded_channel();
    let worker = worker(&windlass, said, quick.clone()).start().await.unwrap();
    let text = "
name: late
steps:
  a: { task: fail, retry: { max_attempts: 2, initial: 5h, max: 5h } }
  b: { task: quick, needs: a, join: all_done }
";
    let client = windlass.client();
    let id: WorkflowId = client.start_ad_hoc(definition(text)).input(&json!({})).await.unwrap().id;
    let mut watch = windlass.store().watch();
    let waits = async |state: State, watch: &mut tokio::sync::watch::Receiver<_>| {
        while client.get(id.step(0)).await.unwrap().unwrap().task.status.state != state {
            timeout(PATIENCE, watch.changed()).await.expect("a bell").unwrap();
        }
    };
    waits(State::WaitingForRetry, &mut watch).await;
    assert!(ask(server, "moves", &format!("set_step_backoff_atomic('{}', 0)", id.step(0))));
    waits(State::DeadLetter, &mut watch).await;
    worker.stop().await.unwrap();
    assert_eq!(client.get(id.step(0)).await.unwrap().unwrap().task.status.attempt, 2);
    check(&windlass).await;
}

/// Every pair of steps, of two workflows, and of what is not there: whether an edge would close a cycle is
/// the same in Rust and in SQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_in_sql_is_one_in_rust() {
    let server = block_in_place(shared);
    let windlass = open(server, "cycles").await;
    let client = windlass.client();
    let text = "
name: diamond
steps:
  a: { task: quick }
  b: { task: quick, needs: a }
  c: { task: quick, needs: a }
  d: { task: quick, needs: [b, c] }
";
    let mut tasks = vec![windlass::task_id()];
    for _ in 0..2 {
        let id = client.start_ad_hoc(definition(text)).input(&json!({})).await.unwrap().id;
        tasks.extend((0..5).map(|step| id.step(step)));
        tasks.extend([windlass::TaskId::from_bytes(*id.as_bytes()), *id.items(3).start()]);
    }
    let (mut calls, mut expected) = (Vec::new(), String::new());
    for from in &tasks {
        for to in &tasks {
            calls.push(format!("('{from}'::uuid, '{to}'::uuid, {})", calls.len()));
            let closes = client.functions().graph().would_be_a_cycle(*from, *to).await.unwrap();
            expected.push(if closes { 't' } else { 'f' });
        }
    }
    let sql = format!(
        "SELECT string_agg(left(cycles_tasker.detect_cycle(a, b)::text, 1), '' ORDER BY n) FROM (VALUES {}) AS pairs (a, b, n)",
        calls.join(", ")
    );
    assert_eq!(block_in_place(|| server.sql(&sql)).unwrap(), expected);
    assert_eq!(expected.matches('t').count(), 2 * 9, "four with themselves, and five that come after");
}
