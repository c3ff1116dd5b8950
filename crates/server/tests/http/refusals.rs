//! Bad requests: each gets its code and its status, and changes nothing.

use serde_json::json;

use super::kit::Server;

/// Method, path, body, status, code. `ID` is a task that is pending, `WF` a workflow, `ME` a worker, `NONE`
/// an id that nothing has.
const BAD: [(&str, &str, &str, u16, &str); 81] = [
    ("GET", "/", "", 404, "route_not_found"),
    ("GET", "/v1", "", 404, "route_not_found"),
    ("GET", "/v1/task", "", 404, "route_not_found"),
    ("GET", "/v1/tasks/ID/whynot", "", 404, "route_not_found"),
    ("GET", "/v1/../etc/passwd", "", 404, "route_not_found"),
    ("PATCH", "/v1/tasks", "{}", 405, "method_not_allowed"),
    ("DELETE", "/v1/tasks", "", 405, "method_not_allowed"),
    ("POST", "/v1/stats", "{}", 405, "method_not_allowed"),
    ("PUT", "/health", "{}", 405, "method_not_allowed"),
    ("GET", "/v1/tasks/x", "", 400, "bad_request"),
    ("GET", "/v1/tasks/%00", "", 400, "bad_request"),
    ("GET", "/v1/tasks/%ff", "", 400, "bad_request"),
    ("GET", "/v1/tasks/NONE", "", 404, "task_not_found"),
    ("GET", "/v1/tasks/NONE/why", "", 404, "task_not_found"),
    ("GET", "/v1/tasks/NONE/log", "", 404, "task_not_found"),
    ("POST", "/v1/tasks/NONE/cancel", "{}", 404, "task_not_found"),
    ("POST", "/v1/tasks/x/cancel", "{}", 400, "bad_request"),
    ("POST", "/v1/tasks/ID/cancel", "[]", 422, "invalid_body"),
    ("POST", "/v1/tasks/ID/cancel", " [null, null]", 422, "invalid_body"),
    ("POST", "/v1/tasks/ID/cancel", "{\"why\": 1}", 422, "invalid_body"),
    ("POST", "/v1/tasks/ID/retry", "{\"force\": \"yes\"}", 422, "invalid_body"),
    ("DELETE", "/v1/tasks/ID", "", 409, "not_final"),
    ("GET", "/v1/tasks?limit=0", "", 400, "bad_request"),
    ("GET", "/v1/tasks?limit=1001", "", 400, "bad_request"),
    ("GET", "/v1/tasks?limit=-1", "", 400, "bad_request"),
    ("GET", "/v1/tasks?limit=ten", "", 400, "bad_request"),
    ("GET", "/v1/tasks?state=done", "", 400, "bad_request"),
    ("GET", "/v1/tasks?stat=failed", "", 400, "bad_request"),
    ("GET", "/v1/tasks?cursor=1", "", 400, "bad_request"),
    ("GET", "/v1/tasks?entity=x", "", 400, "bad_request"),
    ("GET", "/v1/tasks?workflow=x", "", 400, "bad_request"),
    ("GET", "/v1/tasks?queue=a%20b", "", 400, "bad_request"),
    ("GET", "/v1/tasks?updated_before=noon", "", 400, "bad_request"),
    ("GET", "/v1/tasks/by-key?kind=x", "", 400, "bad_request"),
    ("POST", "/v1/tasks", "", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{", 422, "invalid_body"),
    ("POST", "/v1/tasks", "null", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{}", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\"} {\"kind\": \"y\"}", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{\"kind\": 1}", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{\"kind\": \"\"}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"a b\"}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"kund\": 1}", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"id\": \"x\"}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"priority\": 1e10}", 422, "invalid_body"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"delay_seconds\": -1}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"delay_seconds\": 1e300}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"run_at\": \"soon\"}", 422, "invalid_task"),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"lane\": {\"key\": \"k\", \"limit\": 0}}", 422, "invalid_task"),
    (
        "POST",
        "/v1/tasks",
        "{\"kind\": \"x\", \"entity\": \"user:1\", \"require_entity\": true}",
        422,
        "unknown_entity",
    ),
    ("POST", "/v1/tasks", "{\"kind\": \"x\", \"retry\": {\"jitter\": \"lots\"}}", 422, "invalid_task"),
    ("POST", "/v1/tasks/batch", "{\"tasks\": {}}", 422, "invalid_body"),
    ("POST", "/v1/tasks/batch", "{\"tasks\": [{}]}", 422, "invalid_body"),
    ("POST", "/v1/workers", "{}", 422, "invalid_body"),
    ("POST", "/v1/workers", "{\"kinds\": [\"a b\"]}", 422, "invalid_task"),
    ("POST", "/v1/workers", "{\"kinds\": [\"x\"], \"pool_size\": 0}", 422, "invalid_task"),
    ("POST", "/v1/workers", "{\"kinds\": [\"x\"], \"dead_after_seconds\": 0.5}", 422, "invalid_task"),
    ("POST", "/v1/workers", "{\"kinds\": [\"x\"], \"worker_id\": \"\"}", 422, "invalid_worker"),
    ("POST", "/v1/workers/nobody/claim", "{}", 404, "worker_not_found"),
    ("POST", "/v1/workers/nobody/heartbeat", "{}", 404, "worker_not_found"),
    ("POST", "/v1/workers/ME/claim", "{\"limit\": 1001}", 422, "invalid_task"),
    ("POST", "/v1/workers/ME/claim", "{\"wait_seconds\": 61}", 422, "invalid_task"),
    ("POST", "/v1/workers/ME/claim", "{\"wait_seconds\": -1}", 422, "invalid_task"),
    (
        "POST",
        "/v1/workers/ME/heartbeat",
        "{\"running\": [{\"id\": \"x\", \"lease\": 1}]}",
        422,
        "invalid_task",
    ),
    (
        "POST",
        "/v1/workers/ME/finish",
        "{\"outcomes\": [{\"id\": \"ID\", \"lease\": 1, \"outcome\": \"done\"}]}",
        422,
        "invalid_body",
    ),
    (
        "POST",
        "/v1/workers/ME/finish",
        "{\"outcomes\": [{\"id\": \"ID\", \"lease\": 1, \"outcome\": \"snoozed\"}]}",
        422,
        "invalid_task",
    ),
    ("GET", "/v1/workflows/NONE", "", 404, "workflow_not_found"),
    ("GET", "/v1/workflows/ready?limit=0", "", 400, "bad_request"),
    ("GET", "/v1/workflows/ready?limit=1001", "", 400, "bad_request"),
    ("GET", "/v1/workflows/ready?namespace=no%20good", "", 400, "bad_request"),
    ("GET", "/v1/workflows/ready?definition=no%20good", "", 400, "bad_request"),
    ("GET", "/v1/analytics/slowest-steps?limit=0", "", 400, "bad_request"),
    ("POST", "/v1/workflows", "{}", 422, "invalid_task"),
    ("POST", "/v1/workflows", "{\"definition\": \"none\"}", 404, "definition_not_found"),
    ("POST", "/v1/workflows", "{\"steps\": {\"a\": {\"task\": \"x\", \"needs\": [\"a\"]}}}", 422, "cycle"),
    ("POST", "/v1/workflows", "{\"steps\": {\"a\": {}}}", 422, "invalid_definition"),
    (
        "POST",
        "/v1/workflows",
        "{\"steps\": {\"a\": {\"task\": \"x\"}}, \"version\": \"1\"}",
        422,
        "invalid_task",
    ),
    ("POST", "/v1/workflows/WF/rerun", "{}", 422, "invalid_body"),
    ("POST", "/v1/queues/a%20b/pause", "{}", 400, "bad_request"),
    ("PUT", "/v1/schedules/s", "{\"cron\": \"often\", \"task\": {\"kind\": \"x\"}}", 422, "invalid_task"),
    ("GET", "/v1/events?last_event_id=7", "", 400, "bad_request"),
];

#[test]
fn every_bad_request_is_refused_and_changes_nothing() {
    for server in Server::each() {
        let id = server.submit(&json!({ "kind": "x" }));
        let workflow = super::kit::text(
            &server.post("/v1/workflows", &json!({ "steps": { "a": { "task": "x" } } }))["id"],
        );
        let me = server.register(&json!({ "kinds": ["y"] }));
        let none = uuid::Uuid::now_v7().to_string();
        let everything = || {
            let paths = [
                "/v1/tasks".to_owned(),
                format!("/v1/tasks/{id}"),
                format!("/v1/workflows/{workflow}"),
                "/v1/stats".to_owned(),
                "/v1/queues".to_owned(),
                "/v1/schedules".to_owned(),
                "/v1/definitions".to_owned(),
            ];
            paths.map(|path| server.get(&path))
        };
        let before = everything();
        for (method, path, body, status, code) in BAD {
            let fill = |text: &str| {
                text.replace("ID", &id).replace("WF", &workflow).replace("ME", &me).replace("NONE", &none)
            };
            let (path, body) = (fill(path), fill(body));
            let sent = Some(body.as_bytes()).filter(|body| !body.is_empty() || method == "POST");
            let answer = server.ask_with(method, &path, &[("content-type", "application/json")], sent);
            assert_eq!(
                (answer.status, answer.json()["code"].as_str().unwrap_or_default()),
                (status, code),
                "{method} {path} {body}: {}",
                answer.body
            );
            answer.refused(status, code);
        }
        assert_eq!(everything(), before);
    }
}

#[test]
fn bodies_of_another_type_are_refused_and_large_ones_not_read() {
    let server = Server::with(&["--max-body-bytes", "10000"]);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = [("content-type", kind)];
        let answer = server.ask_with("POST", "/v1/tasks", &headers, Some(b"{\"kind\": \"x\"}"));
        answer.refused(415, "unsupported_media_type");
    }
    server.ask_with("POST", "/v1/tasks", &[], Some(b"{}")).refused(415, "unsupported_media_type");
    let large = json!({ "kind": "x", "payload": "x".repeat(20_000) });
    server.ask("POST", "/v1/tasks", Some(&large)).refused(413, "too_large");
    let broken = [("content-type", "application/json")];
    server.ask_with("POST", "/v1/tasks", &broken, Some(b"{\"kind\": \"\xff\"}")).refused(422, "invalid_body");
    assert_eq!(server.get("/v1/stats")["tasks"], 0);
}

#[test]
fn deep_and_odd_payloads_are_kept_or_refused_alike() {
    for server in Server::each() {
        let send = |payload: &str| {
            let body = format!("{{\"kind\": \"x\", \"payload\": {payload}}}");
            server.ask_with(
                "POST",
                "/v1/tasks",
                &[("content-type", "application/json")],
                Some(body.as_bytes()),
            )
        };
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(send(&deep(100)).status, 201);
        let refused = send(&deep(100_000));
        assert_eq!(refused.status, 422, "{}", refused.body);
        for odd in ["1e400", "-0", "123456789012345678901234567890", r#"{"a": 1, "a": 2}"#, r#""\u0000""#] {
            let answer = send(odd);
            if answer.status == 201 {
                let id = super::kit::text(&answer.json()["id"]);
                let shown = server.ask("GET", &format!("/v1/tasks/{id}"), None);
                assert!(shown.body.contains(&format!("\"payload\":{odd},")), "{odd}: {}", shown.body);
            } else {
                answer.refused(422, "invalid_task");
            }
        }
        let long = json!({ "kind": "x", "payload": "x".repeat(1_100_000) });
        server.ask("POST", "/v1/tasks", Some(&long)).refused(413, "too_large");
        let batch = json!({ "tasks": [{ "kind": "x" }, long] });
        assert_eq!(server.ask("POST", "/v1/tasks/batch", Some(&batch)).refused(413, "too_large")["index"], 1);
    }
}

#[test]
fn pages_from_elsewhere_may_not_change_anything() {
    let server = Server::with(&["--allow-origin", "https://good.example"]);
    let send = |headers: &[(&str, &str)]| {
        let all = [&[("content-type", "application/json")], headers].concat();
        server.ask_with("POST", "/v1/tasks", &all, Some(b"{\"kind\": \"x\"}"))
    };
    send(&[("origin", "https://evil.example")]).refused(403, "forbidden");
    send(&[("origin", "null")]).refused(403, "forbidden");
    send(&[("sec-fetch-site", "cross-site")]).refused(403, "forbidden");
    assert_eq!(server.get("/v1/stats")["tasks"], 0);
    assert_eq!(send(&[("origin", "http://localhost")]).status, 201, "its own pages");
    let good = send(&[("origin", "https://good.example")]);
    assert_eq!(
        (good.status, good.header("access-control-allow-origin")),
        (201, Some("https://good.example"))
    );
    let asked = server.ask_with("OPTIONS", "/v1/tasks", &[("origin", "https://good.example")], None);
    assert_eq!(asked.status, 204);
    server
        .ask_with("OPTIONS", "/v1/tasks", &[("origin", "https://evil.example")], None)
        .refused(403, "forbidden");
    let other_host = server.ask_with("GET", "/v1/stats", &[("origin", "http://rebound.example")], None);
    other_host.refused(403, "forbidden");
}

/// A page that may ask is told why it was refused; without these headers its browser keeps that from it.
#[test]
fn pages_that_may_ask_are_told_of_refusals() {
    let place = super::support::Place::new();
    let token = super::access::create(&place, "ci", &["--scope", "read"]);
    let arguments = [
        "--allow-origin",
        "https://good.example",
        "--max-body-bytes",
        "1000",
        "--rate-limit",
        "1",
        "--body-timeout",
        "1s",
    ];
    let server = Server::in_place(place, &arguments);
    let bearer = format!("Bearer {token}");
    let send = |authorization: Option<&str>, path: &str, body: &[u8]| {
        let origin = ("origin", "https://good.example");
        let mut headers = vec![origin, ("content-type", "application/json")];
        headers.extend(authorization.map(|given| ("authorization", given)));
        server.ask_with("POST", path, &headers, Some(body))
    };
    let seen = [
        send(None, "/v1/tasks", b"{}"),
        send(Some(&bearer), "/v1/tasks", &[b' '; 1001]),
        send(Some(&bearer), "/v1/tasks", b"{}"),
        send(Some(&bearer), "/v1/tasks", b"{}"),
        send(None, "/nowhere", b"{}"),
    ];
    let statuses: Vec<_> = seen.iter().map(|answer| answer.status).collect();
    assert_eq!((statuses[0], statuses[1], statuses[4]), (401, 413, 404), "{statuses:?}");
    assert!(statuses[2..4].contains(&429), "{statuses:?}");
    for answer in seen {
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, Some("https://good.example"), "{} {}", answer.status, answer.body);
        assert_eq!(answer.header("vary"), Some("origin"));
    }
}
