//! Requests made up from the published description: whatever is sent, the answer is one that is described,
//! and no fault of the server.

use serde_json::json;

use crate::kit::{SECRET, Server, text};
use crate::tools::{python, run};

/// Requests that are made at the least.
const REQUESTS: u64 = 2_000;

/// Requests for one operation, beside those at the bounds of what it takes.
const EACH: u32 = 12;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection";

/// A claim and a heartbeat may wait for a minute, if there is nothing to tell; here they do not.
const NO_WAITING: &str = r#"
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    wait = body.get("wait_seconds")
    if isinstance(wait, (int, float)) and 0 < wait <= 60:
        body["wait_seconds"] = 0.001
"#;

/// Names of things that are there, so that not everything that is asked for is unknown.
fn names(server: &Server) -> String {
    let steps = json!({ "a": { "task": "x" }, "b": { "task": "x", "needs": ["a"] } });
    let definition = json!({ "name": "made", "steps": steps });
    server.ask("PUT", "/v1/definitions/made", Some(&definition)).told(200);
    let schedule = json!({ "cron": "0 3 * * *", "task": { "kind": "x" } });
    server.ask("PUT", "/v1/schedules/made", Some(&schedule)).told(200);
    server.ask("PUT", "/v1/entities/made:1", Some(&json!({}))).told(200);
    let task = server.submit(&json!({ "kind": "x", "idempotency_key": "made" }));
    let workflow = text(&server.post("/v1/workflows", &json!({ "definition": "made" }))["id"]);
    let worker = server.register(&json!({ "kinds": ["x"], "dead_after_seconds": 3600 }));
    let known = [
        ("/v1/tasks/", "id", task),
        ("/v1/workflows/", "id", workflow),
        ("/v1/workflows/[^/]+/steps", "step", "a".into()),
        ("/v1/workers/", "id", worker),
        ("/v1/workers/", "Windlass-Worker-Secret", SECRET.into()),
        ("/v1/definitions/", "name", "made".into()),
        ("/v1/schedules/", "name", "made".into()),
        ("/v1/entities/", "entity", "made:1".into()),
    ];
    let table = |(path, name, value): &(&str, &str, String)| {
        format!("[[operations]]\ninclude-path-regex = '^{path}'\nparameters = {{ '{name}' = '{value}' }}\n")
    };
    known.iter().map(table).collect()
}

#[test]
fn whatever_is_sent_the_answer_is_one_that_is_described() {
    let server = Server::start();
    server.place.file("no_waiting.py", NO_WAITING);
    let settings = format!("hooks = 'no_waiting'\n{}", names(&server));
    let config = server.place.file("schemathesis.toml", settings);
    let each = std::env::var("WINDLASS_REQUESTS").unwrap_or_else(|_| EACH.to_string());
    let mut command = python();
    command.args(["-m", "schemathesis.cli", "--config-file"]).arg(config).arg("run");
    command.arg(format!("http://{}/openapi.json", server.address));
    // The stream of events does not end.
    command.args(["--exclude-path", "/v1/events", "--no-color"]);
    command.args(["--phases", "coverage,fuzzing", "--max-examples", &each, "--checks", CHECKS]);
    command.args(["--continue-on-failure"]);
    if let Ok(seed) = std::env::var("WINDLASS_SEED") {
        command.args(["--seed", &seed]);
    }
    let said = run(command.current_dir(server.place.path()));
    println!("{said}");
    let made =
        said.split_once("Test cases:").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    let made: u64 = made.unwrap_or_default();
    assert!(made >= REQUESTS, "only {made} requests were made:\n{said}");
    assert_eq!(server.get("/ready")["status"], "ready");
}
