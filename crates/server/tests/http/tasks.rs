use serde_json::json;

use super::kit::{Server, list, text};

#[test]
fn a_task_is_submitted_looked_at_and_listed() {
    for server in Server::each() {
        let payload = r#"{"n": 123456789012345678901234567890, "t": "\u00e9 ü"}"#;
        let body = format!(
            r#"{{"kind": "email:send", "payload": {payload}, "queue": "mail", "priority": 7, "max_attempts": 5,
            "entity": "user:42", "timeout_seconds": 1.5, "tags": ["a", "b"], "idempotency_key": "k"}}"#
        );
        let headers = [("content-type", "application/json; charset=utf-8")];
        let first = server.ask_with("POST", "/v1/tasks", &headers, Some(body.as_bytes()));
        assert_eq!(first.status, 201, "{}", first.body);
        let id = text(&first.json()["id"]);
        assert_eq!(first.json(), json!({ "id": id, "state": "pending", "created": true }));
        let again = server.ask_with("POST", "/v1/tasks", &headers, Some(body.as_bytes()));
        assert_eq!((again.status, again.json()["created"].clone()), (200, json!(false)));
        let shown = server.ask("GET", &format!("/v1/tasks/{id}"), None);
        assert!(shown.body.contains(payload), "the payload is kept to the letter: {}", shown.body);
        let task = shown.told(200);
        for (field, value) in [
            ("kind", json!("email:send")),
            ("queue", json!("mail")),
            ("namespace", json!("default")),
            ("priority", json!(7)),
            ("max_attempts", json!(5)),
            ("entity", json!("user:42")),
            ("timeout_seconds", json!(1.5)),
            ("state", json!("pending")),
            ("result", json!(null)),
        ] {
            assert_eq!(task[field], value, "{field}");
        }
        assert_eq!(list(&task["history"])[0]["to"], "pending");
        assert_eq!(server.get("/v1/tasks/by-key?kind=email:send&key=k")["id"], json!(id));
        server.ask("GET", "/v1/tasks/by-key?kind=email:send&key=x", None).refused(404, "task_not_found");
        let why = server.get(&format!("/v1/tasks/{id}/why"));
        assert_eq!(
            (&why["reason"], &why["blockers"]),
            (&json!("no_worker"), &json!([{ "kind": "email:send" }]))
        );
        for (query, found) in [
            ("", 1),
            ("?state=pending,failed", 1),
            ("?state=failed", 0),
            ("?queue=mail&kind=email:send&tag=b&entity=user:42&namespace=default", 1),
            ("?queue=other", 0),
        ] {
            assert_eq!(list(&server.get(&format!("/v1/tasks{query}"))["tasks"]).len(), found, "{query}");
        }
        assert_eq!(server.get("/v1/stats")["states"]["pending"], 1);
        assert_eq!(server.get("/v1/queues")["queues"][0]["tasks"]["pending"], 1);
    }
}

#[test]
fn a_batch_whose_answer_was_lost_may_be_sent_again() {
    for server in Server::each() {
        let older = server.submit(&json!({ "kind": "x", "idempotency_key": "k" }));
        let [one, two, three] = std::array::from_fn(|_| uuid::Uuid::now_v7().to_string());
        let batch = json!({ "tasks": [
            { "id": one, "kind": "x" },
            { "id": two, "kind": "x", "idempotency_key": "k", "payload": 2 },
            { "id": three, "kind": "x", "idempotency_key": "new" },
        ] });
        let told = |created: bool| {
            let of = |id: &String, created: bool| json!({ "id": id, "state": "pending", "created": created });
            json!({ "tasks": [of(&one, created), of(&older, false), of(&three, created)] })
        };
        assert_eq!(server.ask("POST", "/v1/tasks/batch", Some(&batch)).told(201), told(true));
        assert_eq!(server.ask("POST", "/v1/tasks/batch", Some(&batch)).told(201), told(false));
        // One that is somebody else's, one that was never accepted, and one that asks for a refusal.
        for other in [
            json!({ "id": one, "kind": "y" }),
            json!({ "kind": "x", "idempotency_key": "unknown" }),
            json!({ "kind": "x", "idempotency_key": "k", "on_conflict": "reject" }),
        ] {
            let batch = json!({ "tasks": [{ "id": one, "kind": "x" }, other] });
            assert_eq!(server.ask("POST", "/v1/tasks/batch", Some(&batch)).status, 409, "{other}");
        }
        assert_eq!(list(&server.get("/v1/tasks")["tasks"]).len(), 3);
    }
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    let server = Server::start();
    let tasks: Vec<_> = (0..25).map(|n| json!({ "kind": "x", "payload": n })).collect();
    let submitted = server.post("/v1/tasks/batch", &json!({ "tasks": tasks }));
    let mut ids: Vec<_> = list(&submitted["tasks"]).iter().map(|task| text(&task["id"])).collect();
    ids.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/tasks?limit=10{cursor}"));
        seen.extend(list(&page["tasks"]).iter().map(|task| text(&task["id"])));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids);
}

#[test]
fn a_batch_is_accepted_as_a_whole_or_not_at_all() {
    let server = Server::start();
    let bad = json!({ "tasks": [{ "kind": "a" }, { "kind": "b c" }, { "kind": "d" }] });
    let problem = server.ask("POST", "/v1/tasks/batch", Some(&bad)).refused(422, "invalid_task");
    assert_eq!(problem["index"], 1);
    let conflict = json!({ "tasks": [
        { "kind": "a", "idempotency_key": "k" },
        { "kind": "a", "idempotency_key": "k", "on_conflict": "reject" },
    ] });
    let problem = server.ask("POST", "/v1/tasks/batch", Some(&conflict)).refused(409, "key_conflict");
    assert_eq!(problem["index"], 1);
    assert_eq!(server.get("/v1/stats")["tasks"], 0);
}

#[test]
fn a_task_that_is_sent_again_is_submitted_once() {
    for server in Server::each() {
        let id = uuid::Uuid::now_v7().to_string();
        let task = json!({ "id": id, "kind": "x", "payload": { "a": 1 } });
        assert_eq!(server.ask("POST", "/v1/tasks", Some(&task)).told(201)["created"], true);
        let again = server.ask("POST", "/v1/tasks", Some(&task)).told(200);
        assert_eq!(again, json!({ "id": id, "state": "pending", "created": false }));
        let other = json!({ "id": id, "kind": "x", "payload": { "a": 2 } });
        server.ask("POST", "/v1/tasks", Some(&other)).refused(409, "id_conflict");
        assert_eq!(server.get("/v1/stats")["tasks"], 1);
    }
}

#[test]
fn operators_stop_settle_revive_and_delete() {
    for server in Server::each() {
        let id = server.submit(&json!({ "kind": "x" }));
        let at = |verb: &str| format!("/v1/tasks/{id}/{verb}");
        server.ask("DELETE", &format!("/v1/tasks/{id}"), None).refused(409, "not_final");
        let by = json!({ "reason": "not needed", "actor": "ada" });
        assert_eq!(server.post(&at("cancel"), &by)["state"], "cancelled");
        assert_eq!(server.post(&at("cancel"), &by)["changed"], false);
        let history = list(&server.task(&id)["history"]);
        let last = history.last().unwrap();
        assert_eq!((&last["note"], &last["actor"]), (&json!("not needed"), &json!("ada")));
        assert_eq!(server.ask("POST", &at("retry"), None).told(200)["state"], "pending", "without a body");
        assert_eq!(server.post(&at("resolve"), &json!({ "result": [1, 2] }))["state"], "resolved_manually");
        assert_eq!(server.task(&id)["result"], json!([1, 2]));
        server.ask("POST", &at("retry"), None).refused(409, "task_settled");
        assert_eq!(server.ask("DELETE", &format!("/v1/tasks/{id}"), None).told(200)["changed"], true);
        server.ask("GET", &format!("/v1/tasks/{id}"), None).refused(404, "task_not_found");
    }
}

#[test]
fn queues_entities_and_schedules_are_kept() {
    for server in Server::each() {
        assert_eq!(server.post("/v1/queues/mail/pause", &json!({ "reason": "storm" }))["paused"], true);
        assert_eq!(server.get("/v1/queues")["queues"][0]["paused"], true);
        assert_eq!(server.ask("POST", "/v1/queues/mail/resume", None).told(200)["paused"], false);
        assert_eq!(server.ask("PUT", "/v1/entities/user:1", None).told(200)["changed"], true);
        assert_eq!(server.get("/v1/entities")["entities"], json!(["user:1"]));
        assert_eq!(server.get("/v1/entities/user:2")["registered"], false);
        assert_eq!(server.ask("DELETE", "/v1/entities/user:1", None).told(200)["registered"], false);
        let schedule = json!({ "cron": "0 3 * * *", "zone": "Europe/Berlin", "overlap": "skip",
            "task": { "kind": "report", "payload": { "all": true }, "queue": "reports" } });
        let set = server.ask("PUT", "/v1/schedules/nightly", Some(&schedule)).told(200);
        assert_eq!((&set["task"]["kind"], &set["zone"]), (&json!("report"), &json!("Europe/Berlin")));
        assert_eq!(server.get("/v1/schedules/nightly")["cron"], "0 3 * * *");
        assert_eq!(server.ask("POST", "/v1/schedules/nightly/pause", None).told(200)["paused"], true);
        let run = server.ask("POST", "/v1/schedules/nightly/run", None).told(201);
        assert_eq!(server.task(&text(&run["id"]))["payload"], json!({ "all": true }));
        assert_eq!(list(&server.get("/v1/schedules")["schedules"]).len(), 1);
        assert_eq!(server.ask("DELETE", "/v1/schedules/nightly", None).told(200)["removed"], true);
        server.ask("GET", "/v1/schedules/nightly", None).refused(404, "schedule_not_found");
    }
}
