//! How handlers are written, what becomes of what they return, and what is put around them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::ser::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::{START, Work, engine, secs, work, worker};
use windlass::testing::TestEngine;
use windlass::{
    Context, Input, Invalid, Outcome, Record, Rejected, State, TaskError, Windlass, WorkerBuilder,
};

/// What an engine with one handler makes of one task.
async fn run(configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Record {
    let engine = TestEngine::new(configure).await.unwrap();
    engine.run(&work("a", 3)).await.unwrap()
}

fn error(record: &Record) -> &str {
    record.task.status.error.as_deref().unwrap_or_default()
}

/// A name is a handler too, whatever it borrows meanwhile.
async fn plain(context: Context, work: Work) -> Result<String, TaskError> {
    let number: u64 = work.takes.to_string().parse()?;
    Ok(format!("{} {number} {}", work.name, context.attempt()))
}

#[tokio::test(start_paused = true)]
async fn a_function_a_closure_and_a_kind_are_handlers() {
    let record = run(|worker| worker.handle(plain)).await;
    assert_eq!(record.result.unwrap().as_str(), r#""a 3 1""#);
    let greeting = String::from("hello");
    let closure = move |_: Context, work: Work| {
        let text = format!("{greeting} {}", work.name);
        async move { Ok::<_, TaskError>(json!({"said": text})) }
    };
    let record = run(|worker| worker.handle(closure)).await;
    assert_eq!(record.result.unwrap().as_str(), r#"{"said":"hello a"}"#);
    let by_kind = async |context: Context| {
        let payload: Value = serde_json::from_str(context.payload().as_str())?;
        Ok(payload["takes"].clone())
    };
    let record = run(|worker| worker.handle_kind("work", by_kind)).await;
    assert_eq!(record.result.unwrap().as_str(), "3");
    let record = run(|worker| worker.handle_kind("work", async |context| Ok(context.attempt()))).await;
    assert_eq!(record.result.unwrap().as_str(), "1", "whatever can be written as JSON");
    let nothing = run(|worker| worker.handle(async |_: Context, _: Work| Ok(()))).await;
    assert_eq!(nothing.result.unwrap().as_str(), "null");
    assert_eq!(nothing.task.status.state, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn every_outcome_does_what_it_says() {
    async fn ending(error: fn() -> TaskError) -> Record {
        run(|worker| worker.handle(move |_: Context, _: Work| async move { Err::<(), _>(error()) })).await
    }
    let retry = ending(|| TaskError::retry("not yet")).await;
    assert_eq!((retry.task.status.state, error(&retry)), (State::WaitingForRetry, "not yet"));
    assert_eq!((retry.task.status.due_at, retry.task.status.attempt), (Some(START.plus(secs(1))), 1));
    let asked = ending(|| TaskError::retry("busy").after(secs(100))).await;
    assert_eq!(asked.task.status.due_at, Some(START.plus(secs(100))), "beyond the policy's cap");
    let failed = ending(|| TaskError::fail("never")).await;
    assert_eq!((failed.task.status.state, error(&failed)), (State::Failed, "never"));
    let snoozed = ending(|| TaskError::snooze(secs(9))).await;
    assert_eq!((snoozed.task.status.state, snoozed.task.status.attempt), (State::Scheduled, 0));
    assert_eq!(snoozed.task.status.due_at, Some(START.plus(secs(9))));
    let cancelled = ending(|| TaskError::cancel("of no use")).await;
    assert_eq!(cancelled.task.status.state, State::Cancelled);
    assert_eq!(cancelled.history.last().unwrap().note.as_deref(), Some("of no use"));
    let silent = ending(|| TaskError::fail("")).await;
    assert_eq!(error(&silent), "the handler gave no error message");
    let long = ending(|| TaskError::fail("é".repeat(20_000))).await;
    assert!(error(&long).len() <= 17 << 10, "a failure can always be recorded");
}

#[tokio::test(start_paused = true)]
async fn any_error_is_a_reason_to_try_again() {
    #[derive(Debug, thiserror::Error)]
    #[error("reading the file")]
    struct Reading(#[source] std::io::Error);
    let handler = async |_: Context, _: Work| {
        Err::<(), _>(Reading(std::io::Error::other("the disk is gone")))?;
        Ok(())
    };
    let record = run(|worker| worker.handle(handler)).await;
    assert_eq!(record.task.status.state, State::WaitingForRetry);
    assert_eq!(error(&record), "reading the file: the disk is gone");
    let boxed = async |_: Context, work: Work| Ok(work.name.parse::<u8>()?);
    let record = run(|worker| worker.handle(boxed)).await;
    assert_eq!(error(&record), "invalid digit found in string");
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("no words for it"))
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_kept_fails_for_good() {
    let unwritable = run(|worker| worker.handle(async |_: Context, _: Work| Ok(Unwritable))).await;
    assert_eq!(unwritable.task.status.state, State::Failed);
    assert!(error(&unwritable).contains("cannot be kept: no words for it"), "{}", error(&unwritable));
    let huge = run(|worker| worker.handle(async |_: Context, _: Work| Ok("x".repeat(2 << 20)))).await;
    assert_eq!(huge.task.status.state, State::Failed);
    assert!(error(&huge).contains("cannot be kept"), "{}", error(&huge));
    let keys = async |_: Context, _: Work| Ok(BTreeMap::from([(vec![1], 2)]));
    assert!(error(&run(|worker| worker.handle(keys)).await).contains("key must be a string"));
}

#[derive(Serialize, Deserialize)]
struct Order {
    customer: Customer,
    lines: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Customer {
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    amount: u32,
}

impl Input for Order {
    const KIND: &'static str = "order";
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_fit_names_the_field_and_fails_for_good() {
    let handler = async |_: Context, order: Order| Ok(order.lines.len() + order.customer.name.len());
    let engine = TestEngine::new(|worker| worker.handle(handler)).await.unwrap();
    for (payload, expected) in [
        (r#"{"customer":{"name":"ada"},"lines":[{"amount":1},{"amount":"x"}]}"#, "`lines[1].amount`"),
        (r#"{"customer":{"name":"ada"},"lines":[{"amount":-1}]}"#, "`lines[0].amount`"),
        (r#"{"customer":{},"lines":[]}"#, "`customer`: missing field `name`"),
        (r#"{"lines":[]}"#, "missing field `customer`"),
        ("null", "invalid type: null"),
        ("[]", "input: invalid length 0"),
    ] {
        let id = engine.client().submit_json("order", payload).await.unwrap().id;
        let record = engine.step().await.unwrap().unwrap();
        assert_eq!((record.task.id, record.task.status.state), (id, State::Failed), "{payload}");
        assert!(error(&record).contains(expected), "{payload}: {}", error(&record));
        assert!(error(&record).contains("does not fit"), "{}", error(&record));
        assert!(!error(&record).contains("`.`"), "{}", error(&record));
    }
    let fits = r#"{"customer":{"name":"ada"},"lines":[{"amount":1}], "more": true}"#;
    engine.client().submit_json("order", fits).await.unwrap();
    assert_eq!(engine.step().await.unwrap().unwrap().result.unwrap().as_str(), "4");
}

async fn refused(configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Invalid {
    let windlass = engine();
    let error = configure(worker(&windlass)).start().await.unwrap_err();
    assert_eq!(windlass.client().workers().await.unwrap(), [], "it was not registered");
    match error.rejected().cloned() {
        Some(Rejected::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_makes_no_sense_is_not_started() {
    fn two(worker: WorkerBuilder) -> WorkerBuilder {
        worker.handle(plain).handle(plain)
    }
    for (invalid, expected) in [
        (refused(two).await, r#"handler is "work"; expected one handler for each kind"#),
        (refused(|worker| worker).await, "number of handlers is 0"),
        (refused(|worker| worker.handle_kind("a b", async |_| Ok(Value::Null))).await, "kind is \"a b\""),
        (refused(|worker| worker.handle(plain).queues(["a b"])).await, "queue is \"a b\""),
        (refused(|worker| worker.handle(plain).pool(0)).await, "pool is 0; expected 1 to 10000"),
        (refused(|worker| worker.handle(plain).pool(10_001)).await, "pool is 10001"),
        (refused(|worker| worker.handle(plain).dead_after(secs(0))).await, "dead_after is 0ns"),
        // The first mistake is told.
        (refused(|worker| two(worker.queues(["a b"])).pool(0)).await, "queue is \"a b\""),
    ] {
        assert!(invalid.to_string().contains(expected), "{invalid}");
    }
}

/// It would ask the store without end, and nothing else would get its turn.
#[tokio::test(start_paused = true)]
async fn a_worker_that_never_rests_is_not_started() {
    let invalid = refused(|worker| worker.handle(plain).poll(secs(0))).await;
    assert_eq!(invalid.field, "poll", "{invalid}");
}

struct Pool(&'static str);

#[tokio::test(start_paused = true)]
async fn what_a_worker_shares_is_found_by_its_type() {
    let handler = async |context: Context, _: Work| {
        let text: Arc<String> = context.shared()?;
        Ok(format!("{} {}", context.shared::<Pool>()?.0, *text))
    };
    let record = run(|worker| worker.handle(handler).share(Pool("pool")).share(String::from("text"))).await;
    assert_eq!(record.result.unwrap().as_str(), r#""pool text""#);
    let missing = run(|worker| worker.handle(handler).share(String::from("text"))).await;
    assert_eq!(missing.task.status.state, State::Failed, "another attempt would not find it either");
    assert!(error(&missing).contains("Pool") && error(&missing).contains("`share`"), "{}", error(&missing));
}

#[tokio::test(start_paused = true)]
async fn what_is_put_around_handlers_is_outermost_last() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let around = |name: &'static str| {
        let seen = seen.clone();
        move |context: Context, next: windlass::Next| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(format!("{name} in"));
                let outcome = next.run(context).await;
                seen.lock().unwrap().push(format!("{name} out"));
                outcome
            }
        }
    };
    let handler = {
        let seen = seen.clone();
        move |_: Context, _: Work| {
            seen.lock().unwrap().push("handler".into());
            async { Ok::<_, TaskError>(()) }
        }
    };
    run(|worker| worker.around(around("first")).handle(handler).around(around("last"))).await;
    let expected = ["last in", "first in", "handler", "first out", "last out"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_around_sees_every_outcome_and_may_change_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let look = move |context: Context, next: windlass::Next| {
        let noted = noted.clone();
        async move {
            let outcome = next.run(context).await;
            noted.lock().unwrap().push(outcome.clone());
            match outcome {
                Outcome::Failed { retryable: false, .. } => TaskError::retry("never say never").outcome(),
                outcome => outcome,
            }
        }
    };
    let handler = async |_: Context, work: Work| match &*work.name {
        "done" => Ok(1),
        "retry" => Err(TaskError::retry("r")),
        "fail" => Err(TaskError::fail("f")),
        "snooze" => Err(TaskError::snooze(secs(1))),
        _ => Err(TaskError::cancel("c")),
    };
    let engine = TestEngine::new(|worker| worker.handle(handler).around(look)).await.unwrap();
    let mut ends = Vec::new();
    for name in ["done", "retry", "fail", "snooze", "cancel"] {
        ends.push(engine.run(&work(name, 0)).await.unwrap().task.status.state.word());
    }
    engine.client().submit_json("work", "7").await.unwrap();
    ends.push(engine.step().await.unwrap().unwrap().task.status.state.word());
    let waits = "waiting_for_retry";
    assert_eq!(ends, ["completed", waits, waits, "scheduled", "cancelled", waits]);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 6, "a payload that does not fit is seen too");
    assert_eq!(seen[1], TaskError::retry("r").outcome());
    assert!(matches!(&seen[5], Outcome::Failed { retryable: false, error, .. } if error.contains("fit")));
}

#[tokio::test(start_paused = true)]
async fn what_is_around_may_stand_in_for_the_handler() {
    let never = async |_: Context, _: Work| Err::<(), _>(TaskError::fail("it ran"));
    let instead = async |_: Context, _: windlass::Next| TaskError::cancel("not today").outcome();
    let record = run(|worker| worker.handle(never).around(instead)).await;
    assert_eq!(record.task.status.state, State::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_handler_submits_with_its_client() {
    let handler = async |context: Context, work: Work| {
        if work.takes > 0 {
            let next = Work { takes: work.takes - 1, ..work };
            context.client().submit(&next).actor(context.id()).await?;
        }
        Ok(context.lease())
    };
    let engine = TestEngine::new(|worker| worker.handle(handler)).await.unwrap();
    engine.client().submit(&work("a", 3)).await.unwrap();
    assert_eq!(engine.drain().await.unwrap().len(), 4);
    let tasks = engine.tasks("work").await.unwrap();
    let parents: Vec<_> = tasks.iter().map(|one| one.task.id.to_string()).collect();
    let actors: Vec<_> = tasks.iter().filter_map(|one| one.history[0].actor.clone()).collect();
    assert_eq!(actors, parents[..3]);
}

#[tokio::test]
async fn the_errors_of_addresses_say_what_is_accepted() {
    for address in ["", "memory", "sqlite:", "mysql://x"] {
        let error = Windlass::open(address).await.unwrap_err().to_string();
        assert!(error.contains("memory:") || error.contains("sqlite:"), "{address:?}: {error}");
    }
}
