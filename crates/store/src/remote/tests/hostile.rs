//! What anybody may send: no call panics, and nothing gets in that a store would have refused.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::limits;

use super::super::RemoteStore;
use super::super::responder::Responder;
use super::task;
use crate::{Catalog, Error, MemoryStore, Reads};

fn submit(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut call = json!({ "submit": { "tasks": [serde_json::to_value(task(1)).unwrap()] } });
    change(&mut call["submit"]["tasks"][0]);
    call.to_string().into_bytes()
}

#[test]
fn what_is_no_call_is_refused() {
    let deep = "[".repeat(100_000);
    for bad in
        ["", "{}", "null", "\"hello\"", "{\"nothing\":{}}", "{\"task\":{}}", "{\"hello\":{\"x\":1}}", &deep]
    {
        assert!(matches!(Responder::read(bad.as_bytes()), Err(Error::Unusable(_))), "{bad:.40}");
    }
    assert!(Responder::read(b"\xff\xfe").is_err());
    Responder::read(&submit(|_| {})).unwrap();
    for (field, value) in [
        ("kind", json!("a b")),
        ("queue", json!("")),
        ("namespace", json!("x".repeat(129))),
        ("id", json!("7")),
        ("payload", json!("{")),
        ("payload", json!({ "a": 1 })),
        ("lane", json!(["@planner:1", 100, false])),
        ("lane", json!(["x", 0, false])),
        ("priority", json!(1_u64 << 40)),
        ("max_attempts", json!(0)),
        ("timeout", json!({ "secs": u64::MAX, "nanos": u32::MAX })),
        ("tags", json!([7])),
    ] {
        let body = submit(|task| task[field] = value.clone());
        assert!(matches!(Responder::read(&body), Err(Error::Unusable(_))), "{field} {value}");
    }
}

#[test]
fn what_is_too_large_is_refused_as_stores_do() {
    let long = format!("\"{}\"", "x".repeat(limits::JSON_BYTES));
    let deep = "[".repeat(limits::JSON_DEPTH + 1) + &"]".repeat(limits::JSON_DEPTH + 1);
    for (payload, code) in [(long, "too_large"), (deep, "invalid_task")] {
        let refused = Responder::read(&submit(|task| task["payload"] = json!(payload))).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
}

/// Limits that only stores check hold for those who send by hand, too.
#[tokio::test]
async fn stores_check_what_is_theirs_to_check() {
    let store = Arc::new(MemoryStore::default());
    let answering = Responder::new(store.clone(), 1, "test");
    for (field, value) in [
        ("key", json!("")),
        ("tags", json!(vec!["x"; limits::TAGS + 1])),
        ("max_attempts", json!(u32::MAX)),
        ("timeout", json!({ "secs": u64::MAX, "nanos": 0 })),
        ("ageing", json!({ "per_hour": u32::MAX, "per_retry": 0 })),
    ] {
        let call = Responder::read(&submit(|task| task[field] = value.clone())).unwrap();
        let answer: Value = serde_json::from_slice(&answering.answer(call).await).unwrap();
        assert!(answer["answer"]["Err"]["Rejected"]["Invalid"].is_object(), "{field}: {answer}");
    }
    assert!(store.counts().await.unwrap().is_empty());
}

#[tokio::test]
async fn numbers_that_json_has_no_words_for_are_refused_here() {
    let store = RemoteStore::in_process(Arc::new(MemoryStore::default())).await.unwrap();
    let mut definition: windlass_core::Definition =
        serde_json::from_value(json!({ "name": "x", "steps": { "a": { "task": "k" } } })).unwrap();
    definition.steps[0].retry.factor = Some(f64::NAN);
    let refused = store.define(windlass_core::Name::default(), definition).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_definition");
}
