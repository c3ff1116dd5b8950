//! `windlass submit --batch`.

use serde_json::json;

use crate::Place;

fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"kind\": \"x\", \"payload\": {n}, \"idempotency_key\": \"key {n}\"}}\n"))
        .collect()
}

#[test]
fn a_task_for_each_line() {
    let place = Place::new();
    place.file("tasks.jsonl", format!("\n{}\n  \n", lines(2_500)));
    assert_eq!(place.json(&["submit", "--batch", "@tasks.jsonl"]), json!({"created": 2_500, "existed": 0}));
    let said = place.run_with(&["submit", "--batch", "-"], lines(2_501).as_bytes()).good();
    assert_eq!(said.out, "1 created, 2500 existed\n");
    assert_eq!(place.json(&["stats"])["tasks"], 2_501);
    let whole = r#"{"kind": "y", "namespace": "tenant", "queue": "q", "priority": 3, "max_attempts": 7, "retry": {"backoff": "fixed",
        "base_seconds": 0.5}, "entity": "planner:42", "delay_seconds": 60, "timeout_seconds": 2, "tags": ["a"]}"#;
    place.file("whole.jsonl", whole.replace('\n', " "));
    assert_eq!(place.json(&["submit", "--batch", "@whole.jsonl", "--actor", "ada"])["created"], 1);
    let id =
        place.json(&["task", "list", "--namespace", "tenant"])["tasks"][0]["id"].as_str().unwrap().to_owned();
    let task = place.json(&["task", "get", &id]);
    assert_eq!(
        (&task["entity"], &task["state"], &task["timeout_seconds"]),
        (&json!("planner:42"), &json!("scheduled"), &json!(2))
    );
    assert_eq!(task["retry"]["base_seconds"], 0.5);
    assert_eq!(task["history"][0]["actor"], "ada");
}

#[test]
fn a_mistake_in_a_file_names_its_line_and_changes_nothing() {
    let place = Place::new();
    for (bad, told) in [
        ("{\"kind\": \"a b\"}", "line 2402: kind is \"a b\""),
        ("{\"kind\": \"x\", \"quue\": 1}", "line 2402: unknown field `quue`"),
        ("{\"kind\": \"x\"", "line 2402: EOF while parsing an object at column 12"),
        ("{\"kind\": \"x\", \"payload\": \"\u{1b}\"}", "line 2402: control character"),
    ] {
        place.file("tasks.jsonl", format!("{}\n{bad}\n{}", lines(2_400), lines(9)));
        place.run(&["submit", "--batch", "@tasks.jsonl"]).told(2, told);
        assert_eq!(place.files(), ["tasks.jsonl"]);
    }
    place.file("tasks.jsonl", b"{\"kind\": \"\xff\"}");
    place.run(&["submit", "--batch", "@tasks.jsonl"]).told(2, "line 1: it is not UTF-8");
    place.file("tasks.jsonl", "x".repeat(2 << 20));
    place.run(&["submit", "--batch", "@tasks.jsonl"]).told(2, "line 1 is longer than");
    assert_eq!(place.files(), ["tasks.jsonl"]);
    let said = place.run_with(&["submit", "--batch", "-"], b"").good();
    assert_eq!((&*said.out, place.files().len()), ("0 created, 0 existed\n", 1));
}

#[test]
fn what_was_submitted_before_a_mistake_is_told() {
    let place = Place::new();
    let said = place.run_with(&["submit", "--batch", "-"], format!("{}nonsense\n", lines(1_500)).as_bytes());
    said.told(2, "1000 tasks were submitted, and the rest was not: line 1501:");
    assert_eq!(place.json(&["stats"])["tasks"], 1_000);
    place.submit(&["x", "--key", "taken"]);
    let reject = r#"{"kind": "x", "idempotency_key": "taken", "on_conflict": "reject"}"#;
    let input = format!("{}{reject}\n", lines(1_002));
    let said = place.run_with(&["submit", "--batch", "-"], input.as_bytes());
    said.told(1, "1000 tasks were submitted, and the rest was not: line 1003: a task with key \"taken\" exists already");
    assert_eq!(place.json(&["stats"])["tasks"], 1_001);
    place.run_with(&["submit", "--batch", "-"], reject.as_bytes()).told(1, "line 1");
}
