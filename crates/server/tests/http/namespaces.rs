//! Tokens that are for some namespaces, keys that belong to others, and how tokens change: rotation, the last
//! one, listeners.

use serde_json::{Value, json};
use windlass::remote::{PROTOCOL, PROTOCOL_HEADER, STORE_PATH};

use super::access::{Holder, create};
use super::events::Stream;
use super::kit::{Answer, Server, list, text};
use super::support::Place;

/// A server with two namespaces, and tokens for one of them.
struct Tenants {
    server: Server,
    /// For everything.
    admin: String,
    /// For everything in `acme`.
    acme: String,
    /// Tasks of `acme` and of `other`.
    tasks: [String; 2],
    /// Workflows of both.
    workflows: [String; 2],
}

impl Tenants {
    fn start(mut server_of: impl FnMut(Place) -> Server, place: Place) -> Self {
        let admin = create(&place, "admin", &["--scope", "admin"]);
        let acme = create(&place, "acme", &["--scope", "admin", "--allow-namespace", "acme"]);
        let namespaces = ["acme", "other"];
        let tasks = namespaces
            .map(|name| text(&place.json(&["submit", "x", "--key", "k", "--namespace", name])["id"]));
        let workflows = namespaces.map(|name| {
            place.file("flow.yaml", format!("name: of-{name}\nsteps: {{ a: {{ task: x }} }}\n"));
            place.json(&["definition", "apply", "flow.yaml", "--namespace", name]);
            let started =
                place.json(&["workflow", "start", &format!("of-{name}"), "--key", "k", "--namespace", name]);
            text(&started["id"])
        });
        for name in namespaces {
            place.json(&["schedule", "set", &format!("s-{name}"), "0 3 * * *", "x", "--namespace", name]);
            place.json(&["queue", "pause", &format!("q-{name}"), "--namespace", name]);
        }
        Self { server: server_of(place), admin, acme, tasks, workflows }
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        Holder(&self.server, token.into()).ask(method, path, body)
    }
}

fn each() -> [Tenants; 2] {
    let [file, postgres] = Server::each();
    [file, postgres].map(|server| {
        let Server { place, running, .. } = server;
        drop(running);
        Tenants::start(|place| Server::in_place(place, &[]), place)
    })
}

/// One by one: what is of its namespace is there, what is of another is not, and cannot be told from what
/// does not exist in lists.
#[test]
fn a_token_for_a_namespace_keeps_to_it() {
    for tenants in each() {
        let [own, others] = &tenants.tasks;
        let [own_flow, others_flow] = &tenants.workflows;
        for name in ["acme", "other"] {
            let path = format!("/v1/queues/q-{name}/pause");
            tenants.ask(&tenants.admin, "POST", &path, Some(&json!({ "namespace": name }))).told(200);
        }
        let ask = |method: &str, path: &str| tenants.ask(&tenants.acme, method, path, None);
        ask("GET", &format!("/v1/tasks/{own}")).told(200);
        ask("GET", &format!("/v1/tasks/{others}")).refused(403, "forbidden");
        ask("GET", &format!("/v1/tasks/{others}/why")).refused(403, "forbidden");
        ask("POST", &format!("/v1/tasks/{others}/cancel")).refused(403, "forbidden");
        ask("GET", &format!("/v1/workflows/{own_flow}")).told(200);
        ask("GET", &format!("/v1/workflows/{others_flow}")).refused(403, "forbidden");
        ask("POST", &format!("/v1/workflows/{others_flow}/pause")).refused(403, "forbidden");
        ask("POST", &format!("/v1/workflows/{own_flow}/pause")).told(200);
        for path in [
            "/v1/tasks",
            "/v1/workflows",
            "/v1/queues",
            "/v1/stats",
            "/v1/analytics/stale",
            "/v1/workers",
            "/v1/audit",
        ] {
            let answer = ask("GET", path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            assert!(!answer.body.contains("other"), "{path}: {}", answer.body);
            let all = tenants.ask(&tenants.admin, "GET", path, None);
            assert!(
                path == "/v1/workers" || path == "/v1/analytics/stale" || all.body.contains("other"),
                "{path}: {}",
                all.body
            );
        }
        let shown = |path: &str, name: &str| list(&ask("GET", path).told(200)[name]).len();
        assert_eq!(shown("/v1/tasks?limit=100", "tasks"), 2, "the task, and the step");
        assert_eq!(shown("/v1/workflows", "workflows"), 1);
        assert_eq!(shown("/v1/schedules?namespace=acme", "schedules"), 1);
        assert_eq!(shown("/v1/schedules?namespace=other", "schedules"), 0);
        assert!(shown("/v1/audit", "entries") > 0, "its own");
        // What cannot be divided by namespace, and what is of another.
        for path in [
            "/metrics",
            "/v1/analytics",
            "/v1/analytics/slowest-steps",
            "/v1/workflows/ready",
            "/v1/stats?namespace=other",
            "/v1/analytics?namespace=other",
            "/v1/tasks?namespace=other",
            "/v1/workflows?namespace=other",
            "/v1/tasks/by-key?kind=x&key=k&namespace=other",
            "/v1/tasks/by-key?kind=x&key=none&namespace=other",
            "/v1/definitions?namespace=other",
            "/v1/definitions/of-other?namespace=other",
            "/v1/definitions/none?namespace=other",
            "/v1/schedules/s-other?namespace=other",
            "/v1/schedules/none?namespace=other",
            "/v1/entities?namespace=other",
            "/v1/events?namespace=other",
        ] {
            let answer = ask("GET", path);
            answer.refused(403, "forbidden");
            assert!(!answer.body.contains(others) && !answer.body.contains(others_flow), "{path}");
        }
        for path in ["/v1/analytics/slowest-steps?namespace=acme", "/v1/workflows/ready?namespace=acme"] {
            ask("GET", path).told(200);
        }
        let analytics = |secret: &str, path: &str| tenants.ask(secret, "GET", path, None).told(200);
        let own = analytics(&tenants.acme, "/v1/analytics?namespace=acme");
        for (number, expected) in
            [("started", 1), ("total_workflows", 1), ("total_steps", 1), ("namespaces", 1)]
        {
            assert_eq!(own[number], expected, "{number}: {own}");
        }
        let all = analytics(&tenants.admin, "/v1/analytics");
        assert_eq!((&all["started"], &all["namespaces"]), (&json!(2), &json!(2)), "{all}");
        let post = |path: &str, body: Value| tenants.ask(&tenants.acme, "POST", path, Some(&body));
        post("/v1/tasks", json!({ "kind": "x", "namespace": "acme" })).told(201);
        post("/v1/tasks", json!({ "kind": "x" })).refused(403, "forbidden");
        let mixed =
            json!({ "tasks": [{ "kind": "x", "namespace": "acme" }, { "kind": "x", "namespace": "other" }] });
        assert_eq!(post("/v1/tasks/batch", mixed).refused(403, "forbidden")["index"], 1);
        post("/v1/workflows", json!({ "definition": "of-other", "namespace": "other" }))
            .refused(403, "forbidden");
        post("/v1/workers", json!({ "kinds": ["x"], "namespace": "other" })).refused(403, "forbidden");
        post("/v1/workers", json!({ "kinds": ["x"], "namespace": "acme" })).told(201);
        assert_eq!(tenants.server.place.json(&["task", "get", others])["state"], "pending");
        assert_eq!(tenants.ask(&tenants.admin, "GET", "/metrics", None).status, 200);
        // The command line through a server.
        let limited = Place::new()
            .with("WINDLASS_TOKEN", &tenants.acme)
            .with("WINDLASS_SERVER", format!("http://{}", tenants.server.address));
        let health = limited.json(&["stats", "--health", "--namespace", "acme"]);
        assert_eq!((&health["started"], &health["total_workflows"]), (&json!(1), &json!(1)));
        limited.run(&["stats", "--health"]).told(1, "is for the namespaces acme");
        limited.run(&["token", "create", "wide", "--scope", "admin"]).told(1, "is for the namespaces acme");
        limited.run(&["token", "rotate", "admin"]).told(1, "is for the namespaces acme");
    }
}

/// A stream that a token for a namespace opens tells nothing of others.
#[test]
fn events_of_other_namespaces_are_not_told() {
    let place = Place::new();
    let tenants = Tenants::start(|place| Server::in_place(place, &[]), place);
    let mut stream = Stream::open_as(&tenants.server, "", None, Some(&tenants.acme));
    for namespace in ["other", "acme", "other", "acme"] {
        let body = json!({ "kind": format!("of-{namespace}"), "namespace": namespace });
        tenants.ask(&tenants.admin, "POST", "/v1/tasks", Some(&body)).told(201);
    }
    for _ in 0..2 {
        assert_eq!(stream.next().data["namespace"], "acme");
    }
}

/// A key of a task that the token must not see was answered with that task's id, and the caller's own was
/// dropped.
#[test]
fn a_key_that_belongs_to_others_is_a_conflict_without_their_id() {
    for server in Server::each() {
        let Server { place, running, .. } = server;
        drop(running);
        let admin = create(&place, "admin", &["--scope", "admin"]);
        let mail = create(&place, "mail", &["--scope", "submit", "--queue", "mail-*"]);
        let (server, mut theirs) = (Server::in_place(place, &[]), Vec::new());
        let ask = |token: &str, path: &str, body: &Value| {
            Holder(&server, token.into()).ask("POST", path, Some(body))
        };
        for (key, queue) in [("hidden", "other"), ("open", "mail-in")] {
            let body = json!({ "kind": "x", "queue": queue, "idempotency_key": key });
            theirs.push(text(&ask(&admin, "/v1/tasks", &body).told(201)["id"]));
        }
        let task = |key: &str| json!({ "kind": "x", "queue": "mail-in", "idempotency_key": key });
        let keyless = json!({ "kind": "keyless", "queue": "mail-in" });
        let hidden = |answer: Answer| {
            assert!(!answer.body.contains(&theirs[0]) && !answer.body.contains("pending"), "{}", answer.body);
            answer.refused(409, "key_conflict")
        };
        hidden(ask(&mail, "/v1/tasks", &task("hidden")));
        let mut reject = task("hidden");
        reject["on_conflict"] = json!("reject");
        hidden(ask(&mail, "/v1/tasks", &reject));
        let found = ask(&mail, "/v1/tasks", &task("open")).told(200);
        assert_eq!((&found["created"], &found["id"]), (&json!(false), &json!(theirs[1])));
        // All or nothing.
        let batch = json!({ "tasks": [keyless, task("new"), task("open"), task("hidden")] });
        assert_eq!(hidden(ask(&mail, "/v1/tasks/batch", &batch))["index"], 3);
        let count =
            || list(&Holder(&server, admin.clone()).ask("GET", "/v1/tasks", None).told(200)["tasks"]).len();
        assert_eq!(count(), 2, "nothing was submitted");
        let batch = json!({ "tasks": [keyless, task("new"), task("open"), task("new")] });
        let done = ask(&mail, "/v1/tasks/batch", &batch).told(201);
        let created: Vec<_> = list(&done["tasks"]).iter().map(|one| one["created"].clone()).collect();
        assert_eq!(created, [true, true, false, false]);
        assert_eq!(
            (&done["tasks"][1]["id"], &done["tasks"][2]["id"]),
            (&done["tasks"][3]["id"], &json!(theirs[1]))
        );
        assert_eq!(count(), 4);
        // The same as by the protocol of Rust programs.
        let version = PROTOCOL.to_string();
        let bearer = format!("Bearer {mail}");
        let headers =
            [(PROTOCOL_HEADER, &*version), ("authorization", &*bearer), ("content-type", "application/json")];
        let new = windlass::NewTask {
            queue: windlass::Name::stored("mail-in"),
            key: Some("hidden".into()),
            ..windlass::NewTask::new(
                windlass::task_id(),
                windlass::Name::stored("x"),
                windlass::Json::default(),
            )
        };
        let call = windlass::verbs::Call::from(windlass::verbs::Submit { tasks: vec![new] });
        let body = serde_json::to_vec(&call).unwrap();
        let answer = server.ask_with("POST", STORE_PATH, &headers, Some(&body));
        assert!(answer.body.contains("KeyTaken") && !answer.body.contains(&theirs[0]), "{}", answer.body);
        // Workflows.
        server.place.file("a.yaml", "name: f\nversion: a\nsteps: { a: { task: x, queue: other } }\n");
        server.place.json(&["definition", "apply", "a.yaml"]);
        let started =
            ask(&admin, "/v1/workflows", &json!({ "definition": "f", "idempotency_key": "k" })).told(201);
        server.place.file("b.yaml", "name: f\nversion: b\nsteps: { a: { task: x, queue: mail-in } }\n");
        server.place.json(&["definition", "apply", "b.yaml"]);
        for conflict in ["return", "reject"] {
            let body =
                json!({ "definition": "f", "version": "b", "idempotency_key": "k", "on_conflict": conflict });
            let refused = ask(&mail, "/v1/workflows", &body);
            refused.refused(409, "workflow_key_conflict");
            assert!(!refused.body.contains(&text(&started["id"])), "{}", refused.body);
        }
        let own = json!({ "definition": "f", "version": "b", "idempotency_key": "own" });
        let first = ask(&mail, "/v1/workflows", &own).told(201);
        assert_eq!(ask(&mail, "/v1/workflows", &own).told(200)["id"], first["id"]);
    }
}

/// Revoking the last token opened the server to everybody on the machine, and to a proxy on it.
#[test]
fn revoking_the_last_token_closes_a_server() {
    for server in Server::each() {
        server.get("/v1/stats");
        let token = create(&server.place, "only", &["--scope", "admin"]);
        let holder = Holder(&server, token);
        holder.ask("GET", "/v1/stats", None).told(200);
        server.place.json(&["token", "revoke", "only"]);
        while holder.ask("GET", "/v1/stats", None).status == 200 {
            std::thread::yield_now();
        }
        let refused = server.ask("GET", "/v1/stats", None);
        refused.refused(401, "unauthenticated");
        assert!(refused.body.contains("--without-tokens"), "{}", refused.body);
        assert!(server.place.run(&["token", "list"]).out.contains("refuses every request"));
        // Also after a restart, until the operator says otherwise.
        let Server { place, running, .. } = server;
        drop(running);
        let server = Server::in_place(place, &[]);
        server.ask("GET", "/v1/stats", None).refused(401, "unauthenticated");
        let Server { place, running, .. } = server;
        drop(running);
        let server = Server::in_place(place, &["--without-tokens"]);
        server.get("/v1/stats");
        let via = [("x-forwarded-for", "192.0.2.1")];
        server.ask_with("GET", "/v1/stats", &via, None).refused(403, "proxy_without_tokens");
    }
}

/// On every server of the store, until the time is over; who did it is in the audit.
#[test]
fn a_rotated_token_has_two_secrets_for_a_while() {
    let place = Place::new();
    let admin = create(&place, "admin", &["--scope", "admin"]);
    let old = create(&place, "ci", &["--scope", "read"]);
    let server = Server::in_place(place, &[]);
    let through = Place::new()
        .with("WINDLASS_TOKEN", &admin)
        .with("WINDLASS_SERVER", format!("http://{}", server.address));
    let rotated = through.json(&["token", "rotate", "ci", "--keep", "1h"]);
    let new = text(&rotated["token"]);
    assert_ne!(old, new);
    for token in [&old, &new] {
        let begun = std::time::Instant::now();
        while Holder(&server, token.clone()).ask("GET", "/v1/stats", None).status != 200 {
            assert!(begun.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
    }
    let listed = server.place.json(&["token", "list"]);
    let ci = list(&listed["tokens"]).into_iter().find(|one| one["name"] == "ci").unwrap();
    assert_eq!(list(&ci["former_secrets"]).len(), 1, "{ci}");
    server.place.run(&["token", "rotate", "none"]).told(1, "no token");
    let last = text(&server.place.json(&["token", "rotate", "ci", "--keep", "0s"])["token"]);
    for token in [&old, &new] {
        while Holder(&server, token.clone()).ask("GET", "/v1/stats", None).status == 200 {
            std::thread::yield_now();
        }
    }
    while Holder(&server, last.clone()).ask("GET", "/v1/stats", None).status != 200 {
        std::thread::yield_now();
    }
    let entries = list(&server.place.json(&["audit"])["entries"]);
    assert_eq!(entries.iter().filter(|entry| entry["action"] == "token.rotate").count(), 3);
}

/// One token cannot take the places of all who listen.
#[test]
fn listeners_of_one_token_are_bounded() {
    let place = Place::new();
    let [one, two] = ["one", "two"].map(|name| create(&place, name, &["--scope", "read"]));
    let server = Server::in_place(place, &["--listeners-per-token", "2"]);
    let first = Stream::open_as(&server, "", None, Some(&one));
    let _second = Stream::open_as(&server, "", None, Some(&one));
    let refused = Holder(&server, one.clone()).ask("GET", "/v1/events", None);
    refused.refused(429, "too_many_listeners");
    assert!(refused.header("retry-after").is_some());
    let _other = Stream::open_as(&server, "", None, Some(&two));
    drop(first);
    let begun = std::time::Instant::now();
    // The server notices when it next writes to a stream that was left.
    while Holder(&server, one.clone()).ask("GET", "/v1/events?last_event_id=7", None).status == 429 {
        assert!(begun.elapsed().as_secs() < 60, "the place is free again");
        std::thread::yield_now();
    }
}
