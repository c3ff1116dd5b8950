//! `windlass submit`.

use serde_json::{Value, json};

use crate::Place;

#[test]
fn everything_that_was_said_is_kept() {
    let place = Place::new();
    let id = place.submit(&[
        "email:send",
        r#"{"to": "ada"}"#,
        "--queue",
        "emails",
        "--priority",
        "-7",
        "--key",
        "k",
        "--delay",
        "1h",
        "--timeout",
        "1m30s",
        "--max-attempts",
        "none",
        "--retry",
        "fibonacci",
        "--retry-base",
        "2s",
        "--retry-cap",
        "1h",
        "--lane",
        "mail:server:3",
        "--tag",
        "a",
        "--tag",
        "b",
        "--actor",
        "ada",
        "--namespace",
        "tenant",
        "--traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ]);
    let task = place.json(&["task", "get", &id]);
    for (field, value) in [
        ("kind", json!("email:send")),
        ("payload", json!({"to": "ada"})),
        ("namespace", json!("tenant")),
        ("queue", json!("emails")),
        ("priority", json!(-7)),
        ("idempotency_key", json!("k")),
        ("timeout_seconds", json!(90)),
        ("max_attempts", Value::Null),
        ("retry", json!({"backoff": "fibonacci", "base_seconds": 2, "cap_seconds": 3600, "jitter": "none"})),
        ("lane", json!({"key": "mail:server", "limit": 3, "strict": false})),
        ("entity", Value::Null),
        ("tags", json!(["a", "b"])),
        ("state", json!("scheduled")),
        ("attempts", json!([])),
        ("attempt", json!(0)),
        ("traceparent", json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    ] {
        assert_eq!(task[field], value, "{field}");
    }
    assert_eq!(task["history"][0]["actor"], "ada");
    let page = place.text(&["task", "get", &id]);
    for part in [
        "email:send",
        "emails",
        "mail:server, 3 at a time",
        "1m30s",
        "0 of ∞",
        "fibonacci",
        "{\"to\":\"ada\"}",
        "in 59 min",
    ] {
        assert!(page.contains(part), "{part:?} in\n{page}");
    }
}

#[test]
fn a_key_makes_it_safe_to_repeat() {
    let place = Place::new();
    let first = place.json(&["submit", "x", "--key", "k"]);
    assert_eq!((&first["created"], &first["state"]), (&json!(true), &json!("pending")));
    let again = place.json(&["submit", "x", "--key", "k"]);
    assert_eq!((&again["id"], &again["created"]), (&first["id"], &json!(false)));
    let said = place.text(&["submit", "x", "--key", "k"]);
    assert_eq!(said, format!("{}  pending  existed already\n", first["id"].as_str().unwrap()));
    assert_eq!(place.json(&["stats"])["tasks"], 1);
}

#[test]
fn payloads_come_from_anywhere_and_stay_as_they_are() {
    let place = Place::new();
    place.file("payload.json", "{\"n\": 123456789012345678901234567890}\n");
    let id = place.submit(&["x", "@payload.json"]);
    let shown = place.text(&["--json", "task", "get", &id]);
    assert!(shown.contains(r#""payload":{"n":123456789012345678901234567890}"#), "{shown}");
    let said = place.run_with(&["submit", "x", "-", "--json"], b"[1, 2]").good();
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(place.json(&["task", "get", &id])["payload"], json!([1, 2]));
    let id = place.submit(&["x", "-5"]);
    assert_eq!(place.json(&["task", "get", &id])["payload"], json!(-5));
    let id = place.submit(&["x"]);
    let task = place.json(&["task", "get", &id]);
    assert_eq!((&task["payload"], &task["history"][0]["actor"]), (&Value::Null, &json!("grace")));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_with_the_task() {
    let place = Place::new();
    let windlass = place.open().await;
    let worker = windlass.worker().handle_kind("work", crate::handler).start().await.unwrap();
    let done = place.json(&["submit", "work", r#"{"end": "well"}"#, "--wait", "--wait-for", "1m"]);
    assert_eq!((&done["state"], &done["result"]["end"]), (&json!("completed"), &json!("well")));
    let failed = place.run(&["submit", "work", r#"{"end": "fail"}"#, "--wait", "--json"]);
    assert_eq!((failed.code, failed.err.lines().count()), (1, 1), "{}", failed.err);
    assert!(failed.err.contains("is failed, not completed"), "{}", failed.err);
    assert_eq!(serde_json::from_str::<Value>(&failed.out).unwrap()["error"], "no good");
    let page = place.text(&["submit", "work", "{}", "--wait"]);
    assert!(page.contains("State     completed") && page.contains("Result    {}"), "{page}");
    worker.stop().await.unwrap();
    windlass.close().await.unwrap();
}

#[test]
fn a_moment_can_be_named() {
    let place = Place::new();
    let id = place.submit(&["x", "--at", "2999-01-01T01:00:00+01:00"]);
    let task = place.json(&["task", "get", &id]);
    assert_eq!(
        (&task["state"], &task["due_at"]),
        (&json!("scheduled"), &json!("2999-01-01T00:00:00.000000Z"))
    );
    let why = place.text(&["why", &id]);
    assert!(why.contains("is due at 2999-01-01T00:00:00Z, in "), "{why}");
}
