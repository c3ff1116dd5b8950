//! Tokens that are for some queues only: what the table of routes in docs/security.md does not say.

use serde_json::{Value, json};

use super::access::{Holder, create};
use super::kit::{Server, list, text};
use super::support::Place;

#[test]
fn a_worker_of_others_and_the_server_itself_are_left_alone() {
    let place = Place::new();
    let all = create(&place, "all", &["--scope", "admin"]);
    let mail = create(&place, "mail", &["--scope", "work", "--queue", "mail-*"]);
    let server = Server::in_place(place, &[]);
    let (admin, mail) = (Holder(&server, all), Holder(&server, mail));
    let workers = list(&admin.ask("GET", "/v1/workers", None).told(200)["workers"]);
    let itself = text(&workers[0]["worker_id"]);
    mail.ask("DELETE", &format!("/v1/workers/{itself}"), None).refused(403, "wrong_worker_secret");
    mail.ask("POST", &format!("/v1/workers/{itself}/heartbeat"), None).refused(403, "wrong_worker_secret");
    let over = json!({ "kinds": ["x"], "queues": ["mail-in"], "worker_id": itself });
    mail.ask("POST", "/v1/workers", Some(&over)).refused(403, "forbidden");
    // Its own it may register again, and an unknown worker stays unknown.
    let own = json!({ "kinds": ["x"], "queues": ["mail-in"], "worker_id": "own" });
    mail.ask("POST", "/v1/workers", Some(&own)).told(201);
    mail.ask("POST", "/v1/workers", Some(&own)).told(201);
    mail.ask("DELETE", "/v1/workers/own", None).told(200);
    mail.ask("DELETE", "/v1/workers/own", None).told(200);
    let none = json!({ "outcomes": [] });
    mail.ask("POST", "/v1/workers/own/finish", Some(&none)).refused(404, "worker_not_found");
    assert_eq!(admin.ask("GET", "/v1/workers", None).told(200)["workers"][0]["worker_id"], json!(itself));
}

#[test]
fn a_workflow_of_several_queues_is_open_to_who_works_on_it() {
    let place = Place::new();
    let all = create(&place, "all", &["--scope", "admin"]);
    let [reader, worker] = ["read", "read,work"]
        .map(|scope| create(&place, &scope.replace(',', "-"), &["--scope", scope, "--queue", "mail-*"]));
    let server = Server::in_place(place, &[]);
    let [admin, reader, worker] = [all, reader, worker].map(|token| Holder(&server, token));
    let start = |steps: Value| {
        let body = json!({ "steps": steps });
        format!("/v1/workflows/{}", text(&admin.ask("POST", "/v1/workflows", Some(&body)).told(201)["id"]))
    };
    let both = start(json!({ "a": { "task": "x", "queue": "mail-in" }, "b": { "task": "x" } }));
    let none = start(json!({ "a": { "task": "x" } }));
    reader.ask("GET", &both, None).refused(403, "forbidden");
    worker.ask("GET", &both, None).told(200);
    worker.ask("GET", &none, None).refused(403, "forbidden");
    let unknown = format!("/v1/workflows/{}", uuid::Uuid::now_v7());
    reader.ask("GET", &unknown, None).refused(404, "workflow_not_found");
}

/// A workflow within another may be defined until its step comes, with any queue.
#[test]
fn workflows_within_workflows_count() {
    let place = Place::new();
    let all = create(&place, "all", &["--scope", "admin"]);
    let mail = create(&place, "mail", &["--scope", "submit", "--queue", "mail-*"]);
    let server = Server::in_place(place, &[]);
    let (admin, mail) = (Holder(&server, all), Holder(&server, mail));
    let define = |name: &str, step: Value| {
        let body = json!({ "name": name, "steps": { "a": step } });
        admin.ask("PUT", &format!("/v1/definitions/{name}"), Some(&body)).told(200);
    };
    let start = |name: &str| mail.ask("POST", "/v1/workflows", Some(&json!({ "definition": name })));
    define("top", json!({ "workflow": "middle", "queue": "mail-in" }));
    start("top").refused(403, "forbidden");
    define("middle", json!({ "workflow": "bottom", "queue": "mail-in" }));
    define("bottom", json!({ "task": "x" }));
    start("top").refused(403, "forbidden");
    define("bottom", json!({ "task": "x", "queue": "mail-out" }));
    start("top").told(201);
    start("nowhere").refused(404, "definition_not_found");
    define("round", json!({ "workflow": "round", "queue": "mail-in" }));
    assert_eq!(start("round").status, 201, "each is looked at once");
}
