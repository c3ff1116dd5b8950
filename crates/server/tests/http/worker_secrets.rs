//! A worker is its id and its secret: whoever knows the id alone, and has a token for the same work, is
//! refused.

use serde_json::{Value, json};

use super::access::create;
use super::kit::{Answer, SECRET, SECRET_HEADER, Server, lease, list, outcome, text};
use super::lifecycle::two_servers;

/// A caller with a token, or without one, and with a secret, unless that is empty.
struct Caller<'a> {
    server: &'a Server,
    token: &'a str,
    secret: &'a str,
}

impl Caller<'_> {
    fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("content-type", "application/json"),
            ("authorization", if self.token.is_empty() { "" } else { &*bearer }),
            (SECRET_HEADER, self.secret),
        ];
        let headers: Vec<_> =
            headers.into_iter().filter(|(name, value)| *name == SECRET_HEADER || !value.is_empty()).collect();
        self.server.ask_with(method, path, &headers, Some(body.to_string().as_bytes()))
    }
}

/// What only the worker itself may do, about a task that it holds.
fn acts(me: &str, task: &Value) -> Vec<(&'static str, String, Value)> {
    let forged = outcome(task, "completed", &json!({ "result": "forged" }));
    let report = json!({ "id": task["id"], "lease": task["lease"], "progress": { "done": 1 } });
    let path = |verb: &str| format!("/v1/workers/{me}{verb}");
    vec![
        ("POST", path("/finish"), json!({ "outcomes": [forged] })),
        ("POST", path("/finish"), json!({ "outcomes": [] })),
        ("POST", path("/report"), json!({ "reports": [report] })),
        ("POST", path("/heartbeat"), json!({ "running": [], "release_others": true })),
        ("POST", path("/claim"), json!({ "outcomes": [forged] })),
        ("DELETE", path(""), json!({})),
        ("POST", "/v1/workers".into(), json!({ "kinds": ["x"], "worker_id": me })),
    ]
}

/// Nobody but the worker itself may do any of it.
fn refuses_others(server: &Server, token: &str, me: &str, task: &Value) {
    let other = format!("wlw_{}", "1".repeat(64));
    for (secret, code) in [("", "worker_secret_required"), (&*other, "wrong_worker_secret")] {
        let thief = Caller { server, token, secret };
        for (method, path, body) in acts(me, task) {
            let refused = thief.ask(method, &path, &body);
            refused.refused(403, code);
            assert!(!refused.body.contains("wlw_1"), "the secret is not quoted: {}", refused.body);
        }
    }
}

fn registered(caller: &Caller<'_>, body: &Value) -> (String, String) {
    let told = caller.ask("POST", "/v1/workers", body).told(201);
    (text(&told["worker_id"]), text(&told["worker_secret"]))
}

fn claimed(server: &Server, token: &str, me: &str, secret: &str) -> Value {
    let worker = Caller { server, token, secret };
    let path = format!("/v1/workers/{me}/claim");
    worker.ask("POST", &path, &json!({ "wait_seconds": 60 })).told(200)["tasks"][0].clone()
}

fn finishes(server: &Server, token: &str, me: &str, secret: &str, task: &Value) {
    let worker = Caller { server, token, secret };
    let done = json!({ "outcomes": [outcome(task, "completed", &json!({ "result": "mine" }))] });
    let told = worker.ask("POST", &format!("/v1/workers/{me}/finish"), &done).told(200);
    assert_eq!(told["outcomes"][0]["state"], "completed", "{told}");
}

#[test]
fn another_token_for_the_same_queue_cannot_act_for_a_worker() {
    for server in Server::each() {
        let [mine, theirs] = ["mine", "theirs"].map(|name| create(&server.place, name, &["--scope", "work"]));
        let admin = create(&server.place, "admin", &["--scope", "admin"]);
        let operator = Caller { server: &server, token: &admin, secret: "" };
        let id = text(&operator.ask("POST", "/v1/tasks", &json!({ "kind": "x" })).told(201)["id"]);
        let worker = Caller { server: &server, token: &mine, secret: "" };
        let (me, secret) = registered(&worker, &json!({ "kinds": ["x"] }));
        assert!(secret.starts_with("wlw_") && secret.len() == 68, "{secret}");
        let task = claimed(&server, &mine, &me, &secret);
        refuses_others(&server, &theirs, &me, &task);
        // Its own token is not enough, either, and neither is that of an operator, who may only remove it.
        refuses_others(&server, &mine, &me, &task);
        let finish = &acts(&me, &task)[0];
        operator.ask("POST", &finish.1, &finish.2).refused(403, "worker_secret_required");
        let seen = operator.ask("GET", &format!("/v1/tasks/{id}"), &json!({})).told(200);
        assert_eq!((&seen["state"], &seen["worker_id"]), (&json!("claimed"), &json!(me)));
        // It may come back, as after a lost answer or a crash.
        let again = Caller { server: &server, token: &mine, secret: &secret };
        let body = json!({ "kinds": ["x"], "worker_id": me });
        assert_eq!(registered(&again, &body), (me.clone(), secret.clone()));
        let beat = json!({ "running": [lease(&task)] });
        let pulse = again.ask("POST", &format!("/v1/workers/{me}/heartbeat"), &beat).told(200);
        assert_eq!(pulse, json!({ "lost": [], "cancel": [] }));
        finishes(&server, &mine, &me, &secret, &task);
        let shown = operator.ask("GET", "/v1/workers", &json!({}));
        assert!(shown.body.contains(&me) && !shown.body.contains("secret"), "{}", shown.body);
    }
}

#[test]
fn without_tokens_the_secret_is_needed_just_the_same() {
    let server = Server::start();
    server.submit(&json!({ "kind": "x" }));
    let (me, secret) =
        registered(&Caller { server: &server, token: "", secret: "" }, &json!({ "kinds": ["x"] }));
    let task = claimed(&server, "", &me, &secret);
    refuses_others(&server, "", &me, &task);
    finishes(&server, "", &me, &secret, &task);
}

#[test]
fn a_worker_of_the_store_itself_cannot_be_taken_over() {
    let server = Server::start();
    let id = server.submit(&json!({ "kind": "x" }));
    let worker = server.place.work(&["--exec", "x=sleep 60"]);
    server.until(&format!("/v1/tasks/{id}"), "running");
    let seen = server.task(&id);
    let task = json!({ "id": id, "lease": seen["lease"] });
    refuses_others(&server, "", &text(&seen["worker_id"]), &task);
    assert_eq!(server.task(&id)["state"], "running");
    worker.kill();
}

#[test]
fn the_secret_holds_after_a_restart() {
    for server in Server::each() {
        server.submit(&json!({ "kind": "x" }));
        let (me, secret) =
            registered(&Caller { server: &server, token: "", secret: "" }, &json!({ "kinds": ["x"] }));
        let task = claimed(&server, "", &me, &secret);
        let place = server.place;
        server.running.kill();
        let again = Server::in_place(place, &[]);
        refuses_others(&again, "", &me, &task);
        finishes(&again, "", &me, &secret, &task);
    }
}

#[test]
fn the_secret_holds_at_every_server_of_a_store() {
    let [one, other] = two_servers();
    one.submit(&json!({ "kind": "x" }));
    let (me, secret) =
        registered(&Caller { server: &one, token: "", secret: "" }, &json!({ "kinds": ["x"] }));
    let task = claimed(&other, "", &me, &secret);
    refuses_others(&other, "", &me, &task);
    refuses_others(&one, "", &me, &task);
    finishes(&other, "", &me, &secret, &task);
    // One that left at one server is forgotten by the other, and its id may be another's.
    let leaving = Caller { server: &one, token: "", secret: &secret };
    leaving.ask("DELETE", &format!("/v1/workers/{me}"), &json!({})).told(200);
    let next = Caller { server: &other, token: "", secret: SECRET };
    registered(&next, &json!({ "kinds": ["x"], "worker_id": me }));
    one.submit(&json!({ "kind": "x" }));
    let task = claimed(&one, "", &me, SECRET);
    finishes(&one, "", &me, SECRET, &task);
}

#[test]
fn an_operator_may_remove_a_worker_and_that_is_written_down() {
    let server = Server::start();
    let admin = create(&server.place, "root", &["--scope", "admin"]);
    let work = create(&server.place, "work", &["--scope", "work"]);
    let (me, secret) =
        registered(&Caller { server: &server, token: &work, secret: "" }, &json!({ "kinds": ["x"] }));
    let path = format!("/v1/workers/{me}");
    let operator = Caller { server: &server, token: &admin, secret: "" };
    operator.ask("DELETE", &path, &json!({})).told(200);
    let audit = operator.ask("GET", "/v1/audit", &json!({})).told(200);
    let entries = list(&audit["entries"]);
    let removed: Vec<_> = entries.iter().filter(|entry| entry["action"] == "worker.deregister").collect();
    assert_eq!(removed.len(), 1, "{entries:?}");
    assert_eq!((&removed[0]["actor"], &removed[0]["subject"]), (&json!("root"), &json!(me)));
    assert!(!audit.to_string().contains("wlw_"));
    // What is forgotten is told so to the worker, which registers again with its own secret; leaving by
    // itself is not written down.
    let worker = Caller { server: &server, token: &work, secret: &secret };
    worker.ask("POST", &format!("{path}/heartbeat"), &json!({})).refused(404, "worker_not_found");
    worker.ask("POST", &format!("{path}/claim"), &json!({})).refused(404, "worker_not_found");
    worker.ask("DELETE", &path, &json!({})).told(200);
    registered(&worker, &json!({ "kinds": ["x"], "worker_id": me }));
    worker.ask("DELETE", &path, &json!({})).told(200);
    let audit = operator.ask("GET", "/v1/audit", &json!({})).told(200);
    assert_eq!(audit.to_string().matches("worker.deregister").count(), 1);
}

#[test]
fn a_secret_that_is_none_is_refused_and_quoted_nowhere() {
    let server = Server::start();
    let body = json!({ "kinds": ["x"], "worker_id": "w" });
    for bad in ["x", "wlw_", &SECRET[..67], &format!("{SECRET}0"), &SECRET.to_uppercase()] {
        let refused = Caller { server: &server, token: "", secret: bad }.ask("POST", "/v1/workers", &body);
        refused.refused(400, "bad_request");
        assert!(!refused.body.contains(&"0".repeat(60)), "{}", refused.body);
    }
    let twice = [("content-type", "application/json"), (SECRET_HEADER, SECRET), (SECRET_HEADER, SECRET)];
    let body = body.to_string();
    server.ask_with("POST", "/v1/workers", &twice, Some(body.as_bytes())).refused(400, "bad_request");
    assert_eq!(list(&server.get("/v1/workers")["workers"]).len(), 1, "only the server's own");
}
