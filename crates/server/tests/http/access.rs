//! Tokens: who may do what, and what is written down about it.

use serde_json::{Value, json};

use super::kit::{Answer, Server, list, text};
use super::support::Place;

/// Makes a token and gives its secret.
pub(super) fn create(place: &Place, name: &str, more: &[&str]) -> String {
    text(&place.json(&[&["token", "create", name], more].concat())["token"])
}

pub(super) struct Holder<'a>(pub(super) &'a Server, pub(super) String);

impl Holder<'_> {
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.1);
        let headers = [("content-type", "application/json"), ("authorization", &*bearer)];
        let body = body.map(ToString::to_string);
        self.0.ask_with(method, path, &headers, body.as_deref().map(str::as_bytes))
    }
}

/// A program runs on the workers' machines, so a token that may only start workflows must not bring its own.
#[test]
fn who_defines_a_program_is_an_operator() {
    let place = Place::new();
    let [submit, work, admin] =
        ["submit", "work", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    place.file("flow.yaml", "name: known\nsteps: { a: { run: echo 1 } }\n");
    place.json(&["definition", "apply", "flow.yaml"]);
    let server = Server::in_place(place, &[]);
    let programs = json!({ "steps": { "a": { "task": "x" }, "b": { "run": "echo 1" } } });
    let submitter = Holder(&server, submit);
    let refused = submitter.ask("POST", "/v1/workflows", Some(&programs));
    refused.refused(403, "forbidden");
    assert!(refused.json()["detail"].as_str().unwrap().contains("step \"b\" is a program"));
    Holder(&server, work).ask("POST", "/v1/workflows", Some(&programs)).refused(403, "forbidden");
    assert_eq!(server.place.json(&["workflow", "list"])["workflows"], json!([]), "nothing was started");
    for allowed in [json!({ "steps": { "a": { "task": "x" } } }), json!({ "definition": "known" })] {
        submitter.ask("POST", "/v1/workflows", Some(&allowed)).told(201);
    }
    Holder(&server, admin).ask("POST", "/v1/workflows", Some(&programs)).told(201);
}

#[test]
fn from_the_first_token_on_every_request_needs_one() {
    let server = Server::start();
    server.get("/v1/stats");
    let token = create(&server.place, "reader", &["--scope", "read"]);
    assert!(token.starts_with("wl_") && token.len() == 3 + 8 + 1 + 64, "{token}");
    // The server learns of it within seconds.
    while server.ask("GET", "/v1/stats", None).status == 200 {
        std::thread::yield_now();
    }
    let refused = server.ask("GET", "/v1/stats", None);
    refused.refused(401, "unauthenticated");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    server.ask("GET", "/metrics", None).refused(401, "unauthenticated");
    for path in ["/health", "/ready", "/openapi.json"] {
        assert_eq!(server.ask("GET", path, None).status, 200, "{path}");
    }
    let reader = Holder(&server, token.clone());
    reader.ask("GET", "/v1/stats", None).told(200);
    let mut forged = token.clone();
    forged.replace_range(70..71, if &token[70..71] == "0" { "1" } else { "0" });
    Holder(&server, forged).ask("GET", "/v1/stats", None).refused(401, "unauthenticated");
    let kept = std::fs::read(server.place.path().join("windlass.db")).unwrap();
    let wal = std::fs::read(server.place.path().join("windlass.db-wal")).unwrap_or_default();
    let secret = &token.as_bytes()[12..];
    assert!(
        !kept.windows(64).chain(wal.windows(64)).any(|bytes| bytes == secret),
        "the secret is nowhere kept"
    );
    assert!(!server.place.run(&["token", "list"]).out.contains(&token[12..]));
    server.place.json(&["token", "revoke", "reader"]);
    create(&server.place, "other", &["--scope", "read"]);
    while reader.ask("GET", "/v1/stats", None).status == 200 {
        std::thread::yield_now();
    }
}

#[test]
fn scopes_and_queues_bound_what_a_token_may_do() {
    let place = Place::new();
    let [read, submit, work, admin] =
        ["read", "submit", "work", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let mail = create(&place, "mail", &["--scope", "submit,read,work", "--queue", "mail-*"]);
    let old = create(&place, "old", &["--scope", "admin", "--expires", "0s"]);
    let server = Server::in_place(place, &[]);
    let task = json!({ "kind": "x", "queue": "mail-in" });
    let other = json!({ "kind": "x" });
    let worker = json!({ "kinds": ["x"], "queues": ["mail-in"] });
    let holder = |token: &String| Holder(&server, token.clone());
    Holder(&server, old).ask("GET", "/v1/stats", None).refused(401, "unauthenticated");
    // Each may do its own, and nothing else; the administrator everything.
    for (token, may) in [(&read, "read"), (&submit, "submit"), (&work, "work"), (&admin, "all")] {
        for (scope, method, path, body) in [
            ("read", "GET", "/v1/tasks", None),
            ("read", "GET", "/metrics", None),
            ("submit", "POST", "/v1/tasks", Some(&task)),
            ("work", "POST", "/v1/workers", Some(&worker)),
            ("admin", "POST", "/v1/queues/mail-in/pause", None),
            ("admin", "GET", "/v1/audit", None),
        ] {
            let answer = holder(token).ask(method, path, body);
            if may == "all" || may == scope {
                assert!(answer.status < 300, "{may} {path}: {}", answer.body);
            } else {
                answer.refused(403, "forbidden");
            }
        }
    }
    // What came before a step, a worker may know as well.
    let steps = json!({ "steps": { "a": { "task": "x" }, "b": { "task": "x", "needs": "a" } } });
    let flow = text(&holder(&admin).ask("POST", "/v1/workflows", Some(&steps)).told(201)["id"]);
    for (token, status) in [(&work, 200), (&read, 200), (&admin, 200), (&submit, 403)] {
        let path = format!("/v1/workflows/{flow}/steps/b/ancestors");
        assert_eq!(holder(token).ask("GET", &path, None).status, status, "{token}");
    }
    let mail = holder(&mail);
    let id = text(&mail.ask("POST", "/v1/tasks", Some(&task)).told(201)["id"]);
    mail.ask("POST", "/v1/tasks", Some(&other)).refused(403, "forbidden");
    let both = json!({ "tasks": [task, other] });
    assert_eq!(mail.ask("POST", "/v1/tasks/batch", Some(&both)).refused(403, "forbidden")["index"], 1);
    mail.ask("GET", &format!("/v1/tasks/{id}"), None).told(200);
    mail.ask("GET", "/v1/tasks?queue=mail-in", None).told(200);
    mail.ask("GET", "/v1/tasks", None).refused(403, "forbidden");
    mail.ask("GET", "/v1/tasks?queue=default", None).refused(403, "forbidden");
    mail.ask("GET", "/v1/events", None).refused(403, "forbidden");
    mail.ask("POST", "/v1/workers", Some(&json!({ "kinds": ["x"] }))).refused(403, "forbidden");
    mail.ask("POST", "/v1/workers", Some(&worker)).told(201);
    let elsewhere = text(&holder(&admin).ask("POST", "/v1/tasks", Some(&other)).told(201)["id"]);
    mail.ask("GET", &format!("/v1/tasks/{elsewhere}"), None).refused(403, "forbidden");
    let flow = json!({ "steps": { "a": { "task": "x", "queue": "mail-in" }, "b": { "task": "x" } } });
    mail.ask("POST", "/v1/workflows", Some(&flow)).refused(403, "forbidden");
}

#[test]
fn what_operators_do_is_written_down_with_who_and_why() {
    let place = Place::new();
    let token = create(&place, "ops", &["--scope", "admin"]);
    let server = Server::in_place(place, &[]);
    let ops = Holder(&server, token);
    let id = text(&ops.ask("POST", "/v1/tasks", Some(&json!({ "kind": "x" }))).told(201)["id"]);
    let by = json!({ "reason": "wrong customer", "actor": "ada" });
    ops.ask("POST", &format!("/v1/tasks/{id}/cancel"), Some(&by)).told(200);
    ops.ask("POST", "/v1/queues/mail/pause", Some(&json!({ "reason": "storm", "actor": "ada" }))).told(200);
    let shown = ops.ask("GET", &format!("/v1/tasks/{id}"), None).told(200);
    let history = list(&shown["history"]);
    assert_eq!(history[0]["actor"], "ops");
    assert_eq!(
        (&history[1]["actor"], &history[1]["note"]),
        (&json!("ops for ada"), &json!("wrong customer"))
    );
    let audit = list(&ops.ask("GET", "/v1/audit", None).told(200)["entries"]);
    let seen: Vec<_> =
        audit.iter().map(|one| (text(&one["actor"]), text(&one["action"]), text(&one["subject"]))).collect();
    assert_eq!(seen[0], ("ops for ada".into(), "queue.pause".into(), "default/mail".into()));
    assert_eq!(seen[1], ("ops for ada".into(), "task.cancel".into(), id.clone()));
    assert_eq!(seen[2], ("grace".into(), "token.create".into(), "ops".into()));
    assert_eq!(audit[1]["reason"], "wrong customer");
    assert_eq!(server.place.json(&["audit", "--limit", "1"])["entries"][0]["reason"], "storm");
    // Whatever an operator does may say so; where there is no body, after the `?`.
    let flow = json!({ "name": "f", "steps": { "a": { "task": "x" } } });
    let schedule = json!({ "cron": "0 3 * * *", "task": { "kind": "x" }, "actor": "ada", "reason": "why" });
    let rerun = json!({ "from": "a", "actor": "ada", "reason": "why" });
    let by = json!({ "actor": "ada", "reason": "why" });
    let after = |path: &str| format!("{path}?actor=ada&reason=why");
    ops.ask("PUT", &after("/v1/definitions/f"), Some(&flow)).told(200);
    let flow = text(&ops.ask("POST", "/v1/workflows", Some(&json!({ "definition": "f" }))).told(201)["id"]);
    for (method, path, body) in [
        ("DELETE", after(&format!("/v1/tasks/{id}")), None),
        ("PUT", "/v1/schedules/s".into(), Some(&schedule)),
        ("POST", "/v1/schedules/s/pause".into(), Some(&by)),
        ("POST", "/v1/schedules/s/resume".into(), Some(&by)),
        ("POST", "/v1/schedules/s/run".into(), Some(&by)),
        ("DELETE", after("/v1/schedules/s"), None),
        ("PUT", after("/v1/entities/a:1"), None),
        ("DELETE", after("/v1/entities/a:1"), None),
        ("POST", format!("/v1/workflows/{flow}/steps/a/skip"), Some(&by)),
        ("POST", format!("/v1/workflows/{flow}/rerun"), Some(&rerun)),
        ("POST", "/v1/queues/mail/resume".into(), Some(&by)),
    ] {
        let answer = ops.ask(method, &path, body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        let last = ops.ask("GET", "/v1/audit?limit=1", None).told(200)["entries"][0].clone();
        assert_eq!(
            (&last["actor"], &last["reason"]),
            (&json!("ops for ada"), &json!("why")),
            "{path}: {last}"
        );
    }
    // Without tokens it is whoever says so.
    let server = Server::start();
    server.post("/v1/queues/mail/pause", &by);
    server.post("/v1/queues/mail/resume", &json!({}));
    let entries = list(&server.get("/v1/audit")["entries"]);
    assert_eq!((&entries[1]["actor"], &entries[0]["actor"]), (&json!("ada"), &json!("anybody")));
}

#[test]
fn with_tokens_others_than_this_machine_are_served_and_may_not_ask_too_often() {
    let place = Place::new();
    let token = create(&place, "ci", &["--scope", "read"]);
    let server = Server::in_place(place, &["--listen", "0.0.0.0:0", "--rate-limit", "5"]);
    let ci = Holder(&server, token);
    let statuses: Vec<_> = (0..20).map(|_| ci.ask("GET", "/v1/stats", None)).collect();
    let refused = statuses.iter().find(|answer| answer.status != 200).expect("it asks too often");
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[test]
fn mistakes_with_tokens_are_told() {
    let place = Place::new();
    place.run(&["token", "create", "x"]).told(2, "--scope");
    place.run(&["token", "create", "x", "--scope", "root"]).told(2, "read, submit, work or admin");
    place.run(&["token", "create", "a b", "--scope", "read"]).told(2, "token name");
    place.run(&["token", "create", "x", "--scope", "read", "--queue", "a*b"]).told(2, "pattern");
    place.run(&["token", "list"]).told(1, "there is no database");
    create(&place, "x", &["--scope", "read"]);
    place.run(&["token", "create", "x", "--scope", "read"]).told(1, "exists already");
    place.run(&["token", "revoke", "y"]).told(1, "no token");
    place.run(&["token", "list", "--namespace", "n"]).told(2, "--allow-namespace");
}
