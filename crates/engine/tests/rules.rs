//! Rules for kinds: a mistake is told to who submits, and what was submitted around the client fails at run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::{engine, memory, worker};
use windlass::{
    Client, Error, Filter, Invalid, Json, Name, NewTask, Page, Rejected, Rule, Rules, State, Windlass,
    task_id,
};

/// The functions of document 000, which entity each acts on, and which fields it needs.
const FUNCTIONS: [(&str, &str, &[&str]); 6] = [
    ("execute_initial_planning", "planner", &["user_question", "instruction"]),
    ("execute_task_creation", "planner", &[]),
    ("execute_synthesis", "planner", &[]),
    ("worker_initialisation", "worker", &[]),
    ("execute_standard_worker", "worker", &[]),
    ("execute_sql_worker", "worker", &[]),
];

fn functions() -> Rules {
    let rules = FUNCTIONS.iter().try_fold(Rules::new(), |rules, (kind, entity, fields)| {
        rules.kind(kind, Rule::new().entity(entity).require(fields.iter().copied()))
    });
    rules.unwrap().closed()
}

fn invalid<T: std::fmt::Debug>(answer: Result<T, Error>) -> Invalid {
    match answer.unwrap_err() {
        Error::Rejected(Rejected::Invalid(invalid)) => invalid,
        other => panic!("{other}"),
    }
}

async fn tasks(client: &Client) -> usize {
    client.list(Filter::default(), Page::default()).await.unwrap().tasks.len()
}

#[tokio::test(start_paused = true)]
async fn the_six_functions_are_accepted_with_what_they_need() {
    let client = engine().rules(functions()).client();
    let full = r#"{"user_question":"why?","instruction":"look","more":null}"#;
    for (kind, entity, fields) in FUNCTIONS {
        let payload = if fields.is_empty() { "{}" } else { full };
        let submitted = client.submit_json(kind, payload).entity(&format!("{entity}:1")).await.unwrap();
        assert!(submitted.created, "{kind}");
        if fields.is_empty() {
            client.submit_json(kind, "null").entity(&format!("{entity}:1")).await.unwrap();
        }
        let other = if entity == "planner" { "worker:1" } else { "planner:1" };
        let refused = invalid(client.submit_json(kind, payload).entity(other).await);
        assert_eq!(refused.field, "entity", "{kind}");
        assert!(refused.to_string().contains(other) && refused.to_string().contains(entity), "{refused}");
        let refused = invalid(client.submit_json(kind, payload).await);
        assert!(refused.to_string().contains("none"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_needed_are_named() {
    let client = engine().rules(functions()).client();
    let plan = |payload: &str| client.submit_json("execute_initial_planning", payload).entity("planner:1");
    for (payload, missing) in [
        ("{}", "user_question, instruction"),
        ("null", "user_question, instruction"),
        (r#"{"user_question":"why?"}"#, "field(s) instruction,"),
        (r#"{"instruction":1,"userquestion":2}"#, "field(s) user_question,"),
        ("[]", "user_question, instruction"),
        (r#""user_question instruction""#, "user_question, instruction"),
    ] {
        let refused = invalid(plan(payload).await);
        assert!(refused.field == "payload" && refused.to_string().contains(missing), "{payload}: {refused}");
    }
    plan(r#"{"user_question":null,"instruction":""}"#).await.unwrap();
    assert_eq!(tasks(&client).await, 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_kinds_are_refused_if_the_list_is_closed() {
    let closed = engine().rules(functions()).client();
    let refused = invalid(closed.submit_json("execute_sql", "{}").entity("worker:1").await);
    assert_eq!((&*refused.field, &*refused.value), ("kind", r#""execute_sql""#));
    for (kind, ..) in FUNCTIONS {
        assert!(refused.expected.contains(kind), "{refused}");
    }
    let open = Rules::new().kind("known", Rule::new().require(["a"])).unwrap();
    let open = engine().rules(open).client();
    open.submit_json("anything", "1").await.unwrap();
    assert_eq!(invalid(open.submit_json("known", "{}").await).field, "payload");
    let twice = Rules::new().kind("a", Rule::new()).unwrap().kind("a", Rule::new()).unwrap_err();
    assert!(twice.to_string().contains("one rule for each kind"), "{twice}");
    assert!(Rules::new().kind("a b", Rule::new()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_as_a_whole_and_says_which_one() {
    let client = engine().rules(functions()).client();
    let build = |kind: &str| client.submit_json(kind, "{}").entity("worker:1").build().unwrap();
    let batch = vec![build("execute_sql_worker"), build("execute_synthesis"), build("nonsense")];
    let refused = client.submit_all(batch).await.unwrap_err();
    assert!(matches!(refused, Error::InBatch { index: 1, .. }), "{refused}");
    assert_eq!(tasks(&client).await, 0);
    let single = client.submit_all(vec![build("nonsense")]).await.unwrap_err();
    assert!(matches!(single, Error::Rejected(_)), "{single}");
}

#[tokio::test(start_paused = true)]
async fn schedules_are_held_to_the_rules_too() {
    let client = engine().rules(functions()).client();
    let task = client.submit_json("execute_initial_planning", "{}").entity("planner:1");
    assert_eq!(invalid(client.schedule("s", "@daily", task).await).field, "payload");
    assert_eq!(client.schedules().await.unwrap(), []);
}

/// Somebody who knows no rules writes to the same store.
#[tokio::test(start_paused = true)]
async fn what_was_submitted_around_the_client_fails_at_run_for_good() {
    let store = memory();
    let (free, strict) = (Windlass::new(store.clone()).client(), Windlass::new(store).rules(functions()));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handler = move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Value::Null) }
    };
    let kind = "execute_initial_planning";
    let unfit = free.submit_json(kind, "{}").entity("planner:1").await.unwrap().id;
    let lost = free.submit_json(kind, r#"{"user_question":1,"instruction":1}"#).await.unwrap().id;
    let unknown = free.submit_json("other", "{}").await.unwrap().id;
    let mut by_hand = NewTask::new(task_id(), Name::kind(kind).unwrap(), Json::payload("[]").unwrap());
    by_hand.lane = Some(windlass::Lane::of(&"planner:2".parse().unwrap()));
    strict.store().submit(vec![by_hand.clone()]).await.unwrap();
    let worker = worker(&strict).handle_kind(kind, handler.clone()).handle_kind("other", handler);
    let worker = worker.start().await.unwrap();
    for (id, expected) in
        [(unfit, "user_question"), (lost, "planner:ID"), (unknown, "kind"), (by_hand.id, "instruction")]
    {
        let ended = strict.client().wait(id).await.unwrap();
        assert_eq!((ended.task.status.state, ended.task.status.attempt), (State::Failed, 1));
        assert!(
            ended.task.status.error.as_ref().unwrap().contains(expected),
            "{:?}",
            ended.task.status.error
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0, "no handler saw them");
    let fine = r#"{"user_question":"why?","instruction":"look"}"#;
    let id = free.submit_json(kind, fine).entity("planner:1").await.unwrap().id;
    assert_eq!(strict.client().wait(id).await.unwrap().task.status.state, State::Completed);
    worker.stop().await.unwrap();
}

#[cfg(feature = "json-schema")]
mod schema {
    use serde_json::json;

    use super::*;

    fn order() -> Rules {
        let schema = json!({
            "type": "object",
            "properties": {"lines": {"type": "array", "items": {"type": "object",
                "properties": {"amount": {"type": "integer", "minimum": 1}}, "required": ["amount"]}}},
            "required": ["lines"],
        });
        Rules::new().kind("order", Rule::new().schema(&schema).unwrap().require(["customer"])).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_payload_is_held_to_its_schema() {
        let client = engine().rules(order()).client();
        client.submit_json("order", r#"{"customer":1,"lines":[{"amount":2}]}"#).await.unwrap();
        for (payload, expected) in [
            (r#"{"lines":[]}"#, "customer"),
            (r#"{"customer":1}"#, "lines"),
            (r#"{"customer":1,"lines":[{"amount":2},{"amount":0}]}"#, "/lines/1/amount"),
            (r#"{"customer":1,"lines":[{}]}"#, "/lines/0"),
            (r#"{"customer":1,"lines":7}"#, "/lines"),
        ] {
            let refused = invalid(client.submit_json("order", payload).await);
            assert!(
                refused.field == "payload" && refused.to_string().contains(expected),
                "{payload}: {refused}"
            );
        }
        let good = client.submit_json("order", r#"{"customer":1,"lines":[]}"#).build().unwrap();
        let bad = client.submit_json("order", r#"{"customer":1,"lines":[0]}"#).build().unwrap();
        let refused = client.submit_all(vec![good, bad]).await.unwrap_err();
        assert!(matches!(refused, Error::InBatch { index: 1, .. }), "{refused}");
        assert_eq!(tasks(&client).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_payload_is_held_to_its_schema_at_run() {
        let store = memory();
        let (free, strict) = (Windlass::new(store.clone()).client(), Windlass::new(store).rules(order()));
        let id = free.submit_json("order", r#"{"customer":1,"lines":[0]}"#).await.unwrap().id;
        let handler = async |_| Ok(Value::Null);
        let worker = worker(&strict).handle_kind("order", handler).start().await.unwrap();
        let ended = strict.client().wait(id).await.unwrap();
        assert_eq!(ended.task.status.state, State::Failed);
        assert!(ended.task.status.error.as_ref().unwrap().contains("/lines/0"));
        worker.stop().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_schema_is_refused() {
        let refused = Rule::new().schema(&json!({"type": 7})).unwrap_err();
        assert_eq!(refused.field, "schema", "{refused}");
        // A schema that lies elsewhere is not fetched.
        assert!(Rule::new().schema(&json!({"$ref": "http://127.0.0.1:9/schema.json"})).is_err());
        assert!(Rule::new().schema(&json!({"$ref": "file:///etc/hostname"})).is_err());
    }
}
