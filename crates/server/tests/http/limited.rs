//! Tokens that are for some queues only: every route, asked about what is theirs and about what is not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::access::{Holder, create};
use super::kit::{Server, list, text};
use super::support::Place;

/// How a route treats such a token.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    /// Open if it is about a queue that is theirs.
    OfQueue,
    /// Shown as far as it is theirs.
    InPart,
    /// Not open: it is of no queue, or of all.
    Closed,
}
use Is::{Closed, InPart, OfQueue};

/// Method, path as it is described, what is asked in its place, body. `TASK`, `ME`, `WF`, `SCHED`, `DEF` and `QUEUE` are of the queue that is asked about.
const ROUTES: [(Is, &str, &str, &str, &str); 64] = [
    (OfQueue, "POST", "/v1/tasks", "", r#"{"kind": "x", "queue": "QUEUE"}"#),
    (OfQueue, "POST", "/v1/tasks/batch", "", r#"{"tasks": [{"kind": "x", "queue": "QUEUE"}]}"#),
    (OfQueue, "GET", "/v1/tasks", "/v1/tasks?queue=QUEUE", ""),
    (Closed, "GET", "/v1/tasks", "", ""),
    (OfQueue, "GET", "/v1/tasks/by-key", "/v1/tasks/by-key?kind=x&key=QUEUE", ""),
    (OfQueue, "GET", "/v1/tasks/{id}", "/v1/tasks/TASK", ""),
    (OfQueue, "GET", "/v1/tasks/{id}/why", "/v1/tasks/TASK/why", ""),
    (OfQueue, "GET", "/v1/tasks/{id}/log", "/v1/tasks/TASK/log", ""),
    (OfQueue, "POST", "/v1/tasks/{id}/retry", "/v1/tasks/TASK/retry", "{}"),
    (OfQueue, "POST", "/v1/tasks/{id}/cancel", "/v1/tasks/TASK/cancel", "{}"),
    (OfQueue, "POST", "/v1/tasks/{id}/resolve", "/v1/tasks/TASK/resolve", "{}"),
    (OfQueue, "DELETE", "/v1/tasks/{id}", "/v1/tasks/TASK", ""),
    (OfQueue, "POST", "/v1/workers", "", r#"{"kinds": ["x"], "queues": ["QUEUE"]}"#),
    (Closed, "POST", "/v1/workers", "", r#"{"kinds": ["x"], "queues": ["mail-in", "other"]}"#),
    (OfQueue, "POST", "/v1/workers", "", r#"{"kinds": ["x"], "queues": ["mail-in"], "worker_id": "ME"}"#),
    (InPart, "GET", "/v1/workers", "", ""),
    (OfQueue, "POST", "/v1/workers/{id}/claim", "/v1/workers/ME/claim", "{}"),
    (
        OfQueue,
        "POST",
        "/v1/workers/{id}/heartbeat",
        "/v1/workers/ME/heartbeat",
        r#"{"release_others": true}"#,
    ),
    (OfQueue, "POST", "/v1/workers/{id}/finish", "/v1/workers/ME/finish", r#"{"outcomes": []}"#),
    (OfQueue, "POST", "/v1/workers/{id}/report", "/v1/workers/ME/report", r#"{"reports": []}"#),
    (OfQueue, "DELETE", "/v1/workers/{id}", "/v1/workers/ME", ""),
    (
        Closed,
        "PUT",
        "/v1/definitions/{name}",
        "/v1/definitions/DEF",
        "name: DEF\nsteps: { a: { task: x, queue: QUEUE } }",
    ),
    (Closed, "GET", "/v1/definitions", "", ""),
    (OfQueue, "GET", "/v1/definitions/{name}", "/v1/definitions/DEF", ""),
    (Closed, "GET", "/v1/definitions/{name}/versions", "/v1/definitions/DEF/versions", ""),
    (OfQueue, "POST", "/v1/workflows", "", r#"{"definition": "DEF"}"#),
    (OfQueue, "POST", "/v1/workflows", "", r#"{"steps": {"a": {"task": "x", "queue": "QUEUE"}}}"#),
    (OfQueue, "POST", "/v1/workflows", "", r#"{"steps": {"a": {"workflow": "DEF", "queue": "mail-in"}}}"#),
    (OfQueue, "POST", "/v1/workflows", "", r#"{"definition": "around-DEF"}"#),
    (Closed, "GET", "/v1/workflows", "", ""),
    (Closed, "GET", "/v1/workflows/ready", "", ""),
    (OfQueue, "GET", "/v1/workflows/{id}", "/v1/workflows/WF", ""),
    (OfQueue, "GET", "/v1/workflows/{id}/graph.svg", "/v1/workflows/WF/graph.svg", ""),
    (OfQueue, "GET", "/v1/workflows/{id}/graph.mmd", "/v1/workflows/WF/graph.mmd", ""),
    (OfQueue, "GET", "/v1/workflows/{id}/steps/{step}/ancestors", "/v1/workflows/WF/steps/a/ancestors", ""),
    (OfQueue, "POST", "/v1/workflows/{id}/steps/{step}/retry", "/v1/workflows/WF/steps/a/retry", "{}"),
    (OfQueue, "POST", "/v1/workflows/{id}/steps/{step}/cancel", "/v1/workflows/WF/steps/a/cancel", "{}"),
    (OfQueue, "POST", "/v1/workflows/{id}/steps/{step}/resolve", "/v1/workflows/WF/steps/a/resolve", "{}"),
    (OfQueue, "POST", "/v1/workflows/{id}/steps/{step}/skip", "/v1/workflows/WF/steps/a/skip", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/cancel", "/v1/workflows/WF/cancel", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/pause", "/v1/workflows/WF/pause", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/resume", "/v1/workflows/WF/resume", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/resolve", "/v1/workflows/WF/resolve", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/give-up", "/v1/workflows/WF/give-up", "{}"),
    (Closed, "POST", "/v1/workflows/{id}/rerun", "/v1/workflows/WF/rerun", r#"{"from": "a"}"#),
    (InPart, "GET", "/v1/queues", "", ""),
    (OfQueue, "POST", "/v1/queues/{name}/pause", "/v1/queues/QUEUE/pause", "{}"),
    (OfQueue, "POST", "/v1/queues/{name}/resume", "/v1/queues/QUEUE/resume", "{}"),
    (InPart, "GET", "/v1/schedules", "", ""),
    (OfQueue, "GET", "/v1/schedules/{name}", "/v1/schedules/SCHED", ""),
    (
        OfQueue,
        "PUT",
        "/v1/schedules/{name}",
        "/v1/schedules/SCHED",
        r#"{"cron": "0 4 * * *", "task": {"kind": "x", "queue": "mail-in"}}"#,
    ),
    (OfQueue, "POST", "/v1/schedules/{name}/pause", "/v1/schedules/SCHED/pause", "{}"),
    (OfQueue, "POST", "/v1/schedules/{name}/resume", "/v1/schedules/SCHED/resume", "{}"),
    (OfQueue, "POST", "/v1/schedules/{name}/run", "/v1/schedules/SCHED/run", "{}"),
    (OfQueue, "DELETE", "/v1/schedules/{name}", "/v1/schedules/SCHED", ""),
    (Closed, "GET", "/v1/stats", "", ""),
    (Closed, "GET", "/v1/analytics", "", ""),
    (Closed, "GET", "/v1/analytics/stale", "", ""),
    (Closed, "GET", "/v1/analytics/slowest-steps", "", ""),
    (Closed, "GET", "/v1/analytics/slowest-workflows", "", ""),
    (Closed, "GET", "/v1/entities", "", ""),
    (Closed, "GET", "/v1/entities/{entity}", "/v1/entities/a:1", ""),
    (Closed, "PUT", "/v1/entities/{entity}", "/v1/entities/a:1", ""),
    (Closed, "DELETE", "/v1/entities/{entity}", "/v1/entities/a:1", ""),
];

/// Routes whose answer does not end, or that have no queue at all.
const MORE: [(Is, &str, &str, &str, &str); 3] = [
    // Refused for its second word, once the first is open.
    (OfQueue, "GET", "/v1/events", "/v1/events?queue=QUEUE&last_event_id=7", ""),
    (Closed, "GET", "/v1/events", "", ""),
    (Closed, "GET", "/v1/audit", "", ""),
];

/// What there is of one queue.
struct Scene {
    queue: &'static str,
    task: String,
    worker: String,
    workflow: String,
}

impl Scene {
    fn set(admin: &Holder<'_>, queue: &'static str) -> Self {
        let post = |path: &str, body: Value| {
            let answer = admin.ask("POST", path, Some(&body));
            assert!(answer.status < 300, "{path}: {}", answer.body);
            answer.json()
        };
        let put =
            |path: &str, body: Value| assert!(admin.ask("PUT", path, Some(&body)).status < 300, "{path}");
        let worker = text(&post("/v1/workers", json!({ "kinds": ["y"], "queues": [queue] }))["worker_id"]);
        let task = json!({ "kind": "x", "queue": queue, "idempotency_key": queue });
        let task = text(&post("/v1/tasks", task)["id"]);
        put(
            &format!("/v1/schedules/s-{queue}"),
            json!({ "cron": "0 3 * * *", "task": { "kind": "x", "queue": queue } }),
        );
        let name = format!("d-{queue}");
        put(
            &format!("/v1/definitions/{name}"),
            json!({ "name": name, "steps": { "a": { "task": "x", "queue": queue } } }),
        );
        let around = format!("around-{name}");
        put(
            &format!("/v1/definitions/{around}"),
            json!({ "name": around, "steps": { "a": { "workflow": name, "queue": "mail-in" } } }),
        );
        let workflow = text(&post("/v1/workflows", json!({ "definition": name }))["id"]);
        Self { queue, task, worker, workflow }
    }

    fn fill(&self, text: &str) -> String {
        let Self { queue, task, worker, workflow } = self;
        let names = text.replace("SCHED", &format!("s-{queue}")).replace("DEF", &format!("d-{queue}"));
        names.replace("TASK", task).replace("ME", worker).replace("WF", workflow).replace("QUEUE", queue)
    }
}

#[test]
fn every_route_keeps_to_the_queues_of_a_token() {
    let place = Place::new();
    let all = create(&place, "all", &["--scope", "admin"]);
    let mail = create(&place, "mail", &["--scope", "admin", "--queue", "mail-*"]);
    let server = Server::in_place(place, &[]);
    let (admin, mail) = (Holder(&server, all), Holder(&server, mail));
    let (theirs, others) = (Scene::set(&admin, "mail-in"), Scene::set(&admin, "other"));
    let everything = || {
        let paths =
            ["/v1/tasks", "/v1/workers", "/v1/workflows", "/v1/schedules", "/v1/definitions", "/v1/queues"];
        paths.map(|path| {
            let mut seen = admin.ask("GET", path, None).told(200);
            let fields = seen.as_object_mut().unwrap();
            let rows = fields.values_mut().find_map(Value::as_array_mut).unwrap();
            // The servers' own heartbeat.
            rows.iter_mut().for_each(|row| row["heartbeat_at"] = Value::Null);
            seen
        })
    };
    let ask = |scene: &Scene, method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {}", mail.1);
        let kind = if body.starts_with("name:") { "application/yaml" } else { "application/json" };
        let headers = [("content-type", kind), ("authorization", &*bearer)];
        let (path, body) = (scene.fill(path), scene.fill(body));
        server.ask_with(method, &path, &headers, Some(body.as_bytes()).filter(|body| !body.is_empty()))
    };
    let before = everything();
    let rows = || ROUTES.iter().chain(&MORE);
    for (is, method, described, path, body) in rows() {
        let path = if path.is_empty() { described } else { path };
        match is {
            OfQueue => drop(ask(&others, method, path, body).refused(403, "forbidden")),
            Closed => [&theirs, &others]
                .iter()
                .for_each(|scene| drop(ask(scene, method, path, body).refused(403, "forbidden"))),
            InPart => {
                let answer = ask(&theirs, method, path, body);
                assert_eq!(answer.status, 200, "{path}: {}", answer.body);
                assert!(
                    answer.body.contains("mail-in") && !answer.body.contains("other"),
                    "{path}: {}",
                    answer.body
                );
            }
        }
    }
    assert_eq!(everything(), before, "what was refused has changed nothing");
    for (_, method, described, path, body) in rows().filter(|(is, ..)| *is == OfQueue) {
        let path = if path.is_empty() { described } else { path };
        let answer = ask(&theirs, method, path, body);
        assert!(
            answer.status != 403 && answer.status < 500,
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
    }
    // What is not in the table is not held.
    let described = server.get("/openapi.json");
    let of_paths = described["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    let described: BTreeSet<_> = of_paths.filter(|(_, path)| path.starts_with("/v1/")).collect();
    let held: BTreeSet<_> =
        rows().map(|(_, method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(described, held);
}

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
    // Its own it may register again, and whoever is not known is not known.
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
