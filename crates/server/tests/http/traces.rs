//! What a request is part of, tasks are part of: by their own word, or by the header.

use serde_json::{Value, json};

use super::kit::{Server, list, text};

const FIRST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// Sends a body with these headers `traceparent`.
fn post(server: &Server, path: &str, traces: &[&str], body: &Value) -> Value {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(traces.iter().map(|trace| ("traceparent", *trace)));
    server.ask_with("POST", path, &headers, Some(body.to_string().as_bytes())).told(201)
}

fn trace_of(server: &Server, id: &Value) -> Value {
    server.task(&text(id))["traceparent"].clone()
}

#[test]
fn a_task_is_part_of_its_request_and_its_worker_is_told() {
    for server in Server::each() {
        let id = post(&server, "/v1/tasks", &[FIRST], &json!({ "kind": "x" }))["id"].clone();
        assert_eq!(trace_of(&server, &id), FIRST);
        assert_eq!(server.get("/v1/tasks")["tasks"][0]["traceparent"], FIRST);
        let plain = server.submit(&json!({ "kind": "x" }));
        assert_eq!(server.task(&plain)["traceparent"], Value::Null);
        let worker = server.register(&json!({ "kinds": ["x"] }));
        let claimed = server.claim(&worker, &json!({ "limit": 9 }));
        let told: Vec<_> = claimed.iter().map(|task| task["traceparent"].clone()).collect();
        assert_eq!(told, [json!(FIRST), Value::Null]);
    }
}

#[test]
fn what_a_task_says_itself_wins() {
    let server = Server::start();
    let one = json!({ "kind": "x", "traceparent": OTHER });
    assert_eq!(trace_of(&server, &post(&server, "/v1/tasks", &[FIRST], &one)["id"]), OTHER);
    let batch = json!({ "tasks": [{ "kind": "x" }, one, { "kind": "y", "traceparent": null }] });
    let answers = list(&post(&server, "/v1/tasks/batch", &[FIRST], &batch)["tasks"]);
    let traces: Vec<_> = answers.iter().map(|answer| trace_of(&server, &answer["id"])).collect();
    assert_eq!(traces, [FIRST, OTHER, FIRST]);
    let later = json!({ "kind": "x", "traceparent": format!("cc{}-later", &OTHER[2..]) });
    assert_eq!(trace_of(&server, &post(&server, "/v1/tasks", &[], &later)["id"]), OTHER);
}

/// As the specification says; what a client wrote into a body itself is a mistake that it is told of.
#[test]
fn a_header_that_cannot_be_read_is_ignored_and_a_field_is_refused() {
    let server = Server::start();
    let upper = FIRST.to_uppercase();
    let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for headers in [&[""][..], &["nonsense"], &[&*upper], &[zeros], &[&FIRST[1..]], &[FIRST, FIRST]] {
        let id = post(&server, "/v1/tasks", headers, &json!({ "kind": "x" }))["id"].clone();
        assert_eq!(trace_of(&server, &id), Value::Null, "{headers:?}");
    }
    let before = server.get("/v1/stats");
    for bad in ["", "nonsense", &upper, zeros] {
        let task = json!({ "kind": "x", "traceparent": bad });
        let refused = server.ask("POST", "/v1/tasks", Some(&task)).refused(422, "invalid_task");
        assert!(text(&refused["detail"]).contains("traceparent is"), "{refused}");
        let batch = json!({ "tasks": [{ "kind": "x" }, task] });
        let refused = server.ask("POST", "/v1/tasks/batch", Some(&batch)).refused(422, "invalid_task");
        assert_eq!(refused["index"], 1, "{refused}");
        let flow = json!({ "steps": { "a": { "task": "x" } }, "traceparent": bad });
        server.ask("POST", "/v1/workflows", Some(&flow)).refused(422, "invalid_task");
    }
    assert_eq!(server.get("/v1/stats")["states"], before["states"], "nothing of it was kept");
    assert_eq!(server.get("/v1/workflows")["workflows"], json!([]));
}

#[test]
fn steps_and_items_are_part_of_what_started_their_workflow() {
    for server in Server::each() {
        let steps = json!({ "each": { "task": "x", "map": { "over": "[1, 2]" } } });
        let by_header = post(&server, "/v1/workflows", &[FIRST], &json!({ "steps": steps }));
        let by_field =
            post(&server, "/v1/workflows", &[FIRST], &json!({ "steps": steps, "traceparent": OTHER }));
        let worker = server.register(&json!({ "kinds": ["x"] }));
        let claimed = server.claim(&worker, &json!({ "limit": 9, "wait_seconds": 10 }));
        assert!(!claimed.is_empty());
        for (flow, trace) in [(by_header, FIRST), (by_field, OTHER)] {
            let tasks = list(&server.get(&format!("/v1/tasks?workflow={}", text(&flow["id"])))["tasks"]);
            assert_eq!(tasks.len(), 3, "a step and its items: {tasks:?}");
            assert!(tasks.iter().all(|task| task["traceparent"] == trace), "{tasks:?}");
            let of = claimed.iter().filter(|task| task["workflow_id"] == flow["id"]);
            assert!(of.clone().all(|task| task["traceparent"] == trace), "{claimed:?}");
        }
    }
}
