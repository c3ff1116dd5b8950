use std::io::Write;

use serde_json::{Value, json};

use super::kit::{Server, lease, list, outcome, request, text};

fn worker(kinds: &[&str]) -> Value {
    json!({ "kinds": kinds, "hostname": "far", "version": "test 1", "pool_size": 4 })
}

#[test]
fn a_worker_registers_claims_reports_and_leaves() {
    for server in Server::each() {
        let registered = server.ask("POST", "/v1/workers", Some(&worker(&["x"]))).told(201);
        assert_eq!(
            (&registered["heartbeat_seconds"], &registered["dead_after_seconds"]),
            (&json!(10), &json!(30))
        );
        let me = text(&registered["worker_id"]);
        assert!(me.starts_with("far-"), "{me}");
        let id = server
            .submit(&json!({ "kind": "x", "payload": { "a": 1 }, "timeout_seconds": 5, "tags": ["t"] }));
        server.submit(&json!({ "kind": "y" }));
        let claimed = server.claim(&me, &json!({ "limit": 10 }));
        assert_eq!(claimed.len(), 1, "only what it has handlers for");
        let task = &claimed[0];
        assert_eq!(
            (&task["id"], &task["payload"], &task["attempt"]),
            (&json!(id), &json!({ "a": 1 }), &json!(1))
        );
        assert_eq!(
            (&task["max_attempts"], &task["timeout_seconds"], &task["tags"]),
            (&json!(3), &json!(5), &json!(["t"]))
        );
        assert!(task["deadline"].is_string() && task["workflow_id"].is_null());
        assert_eq!(server.task(&id)["state"], "claimed");
        let running = json!({ "running": [lease(task)] });
        let pulse = server.post(&format!("/v1/workers/{me}/heartbeat"), &running);
        assert_eq!(pulse, json!({ "lost": [], "cancel": [] }));
        assert_eq!(server.task(&id)["state"], "running", "a heartbeat that names it marks it");
        let done = outcome(task, "completed", &json!({ "result": { "b": 2 } }));
        assert_eq!(server.finish(&me, &done), json!({ "id": id, "state": "completed", "changed": true }));
        assert_eq!(server.finish(&me, &done)["changed"], false, "told again");
        assert_eq!(server.task(&id)["result"], json!({ "b": 2 }));
        let workers = list(&server.get("/v1/workers")["workers"]);
        let shown = workers.iter().find(|one| one["worker_id"] == json!(me)).unwrap();
        assert_eq!(
            (&shown["alive"], &shown["hostname"], &shown["pool_size"]),
            (&json!(true), &json!("far"), &json!(4))
        );
        assert!(workers.iter().any(|one| one["leader"] == json!(true)), "the server leads: {workers:?}");
        server.ask("DELETE", &format!("/v1/workers/{me}"), None).told(200);
        server
            .ask("POST", &format!("/v1/workers/{me}/claim"), Some(&json!({})))
            .refused(404, "worker_not_found");
    }
}

#[test]
fn a_claim_waits_for_work_and_is_woken_by_it() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        let body = json!({ "wait_seconds": 60 }).to_string();
        let path = format!("/v1/workers/{me}/claim");
        let mut stream = server.connect();
        let asked = request("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()));
        stream.write_all(&asked).unwrap();
        waits(&server, 1);
        let id = server.submit(&json!({ "kind": "x" }));
        let claimed = super::kit::answer(&mut std::io::BufReader::new(stream)).told(200);
        assert_eq!(claimed["tasks"][0]["id"], json!(id));
    }
}

/// Comes when so many claims wait.
fn waits(server: &Server, many: u32) {
    let line = format!("windlass_http_waiting_claims {many}\n");
    while !server.ask("GET", "/metrics", None).body.contains(&line) {
        std::thread::yield_now();
    }
}

#[test]
fn one_task_wakes_one_of_many() {
    let server = Server::start();
    let me = server.register(&worker(&["x"]));
    let body = json!({ "wait_seconds": 60 }).to_string();
    let path = format!("/v1/workers/{me}/claim");
    let asked = request("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()));
    let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(&asked).unwrap());
    waits(&server, 50);
    server.submit(&json!({ "kind": "x" }));
    waits(&server, 49);
    let more: Vec<_> = (0..3).map(|_| json!({ "kind": "x" })).collect();
    server.post("/v1/tasks/batch", &json!({ "tasks": more }));
    waits(&server, 46);
    drop(streams);
    waits(&server, 0);
}

#[test]
fn outcomes_and_the_next_claim_are_one_request() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        let ids: Vec<_> = (0..2).map(|n| server.submit(&json!({ "kind": "x", "payload": n }))).collect();
        let first = &server.claim(&me, &json!({}))[0];
        let body = json!({ "outcomes": [outcome(first, "completed", &json!({}))] });
        let answer = server.post(&format!("/v1/workers/{me}/claim"), &body);
        assert_eq!(answer["outcomes"], json!([{ "id": ids[0], "state": "completed", "changed": true }]));
        assert_eq!(answer["tasks"][0]["id"], json!(ids[1]));
    }
}

#[test]
fn attempts_end_in_every_way() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        for (word, more, state) in [
            ("completed", json!({ "result": null }), "completed"),
            ("failed", json!({ "error": "no", "retryable": false }), "failed"),
            ("failed", json!({ "error": "not yet", "delay_seconds": 3600 }), "waiting_for_retry"),
            ("snoozed", json!({ "delay_seconds": 3600 }), "scheduled"),
            ("released", json!({ "error": "going home" }), "pending"),
            ("cancelled", json!({ "error": "pointless" }), "cancelled"),
        ] {
            let id = server.submit(&json!({ "kind": "x", "priority": 1 }));
            let task = &server.claim(&me, &json!({}))[0];
            assert_eq!(task["id"], json!(id));
            assert_eq!(server.finish(&me, &outcome(task, word, &more))["state"], state, "{word}");
            let shown = server.task(&id);
            assert_eq!(shown["state"], state);
            if word == "failed" {
                assert_eq!(shown["error"], more["error"]);
            }
            if state == "pending" {
                assert_eq!(server.post(&format!("/v1/tasks/{id}/cancel"), &json!({}))["state"], "cancelled");
            }
        }
    }
}

#[test]
fn a_zombie_is_refused() {
    for server in Server::each() {
        let brief = json!({ "kinds": ["x"], "dead_after_seconds": 1 });
        let (zombie, other) = (server.register(&brief), server.register(&worker(&["x"])));
        let id = server.submit(&json!({ "kind": "x" }));
        let lost = &server.claim(&zombie, &json!({}))[0];
        // It falls silent: the server that leads takes it away, and the other, who waits for it, gets it.
        let taken = &server.claim(&other, &json!({ "wait_seconds": 60 }))[0];
        assert_eq!((&taken["id"], &taken["attempt"]), (&json!(id), &json!(2)));
        let refused = server.finish(&zombie, &outcome(lost, "completed", &json!({ "result": "late" })));
        assert_eq!(refused["error"]["code"], "lease_lost", "{refused}");
        let pulse =
            server.post(&format!("/v1/workers/{zombie}/heartbeat"), &json!({ "running": [lease(lost)] }));
        assert_eq!(pulse["lost"], json!([id]));
        assert_eq!(
            server.finish(&other, &outcome(taken, "completed", &json!({ "result": "mine" })))["changed"],
            true
        );
        assert_eq!(server.task(&id)["result"], "mine");
    }
}

#[test]
fn a_heartbeat_that_waits_hears_of_a_cancel_at_once() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        let id = server.submit(&json!({ "kind": "x" }));
        let task = &server.claim(&me, &json!({}))[0];
        let body = json!({ "running": [lease(task)], "wait_seconds": 60 }).to_string();
        let path = format!("/v1/workers/{me}/heartbeat");
        let mut stream = server.connect();
        stream
            .write_all(&request(
                "POST",
                &path,
                &[("content-type", "application/json")],
                Some(body.as_bytes()),
            ))
            .unwrap();
        server.post(&format!("/v1/tasks/{id}/cancel"), &json!({}));
        let pulse = super::kit::answer(&mut std::io::BufReader::new(stream)).told(200);
        assert_eq!(pulse, json!({ "lost": [], "cancel": [id] }));
    }
}

#[test]
fn a_claim_whose_answer_was_lost_is_given_back() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        let ids: Vec<_> = (0..2).map(|_| server.submit(&json!({ "kind": "x" }))).collect();
        let kept = &server.claim(&me, &json!({}))[0];
        server.claim(&me, &json!({}));
        let beat = |body: &Value| server.post(&format!("/v1/workers/{me}/heartbeat"), body);
        beat(&json!({ "running": [lease(kept)] }));
        assert_eq!(server.task(&ids[1])["state"], "claimed", "it may be on its way");
        beat(&json!({ "running": [lease(kept)], "release_others": true }));
        let given_back = server.task(&ids[1]);
        assert_eq!((&given_back["state"], &given_back["attempt"]), (&json!("pending"), &json!(0)));
        assert_eq!(server.task(&ids[0])["state"], "running");
    }
}

#[test]
fn who_goes_away_while_claiming_takes_nothing_along() {
    let server = Server::start();
    let me = server.register(&worker(&["x"]));
    let body = json!({ "wait_seconds": 60 }).to_string();
    let path = format!("/v1/workers/{me}/claim");
    let asked = request("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()));
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.write_all(&asked).unwrap();
        waits(&server, 1);
        drop(stream);
        let id = server.submit(&json!({ "kind": "x" }));
        // It was claimed for nobody, or not at all; either way somebody who is there gets it.
        let task = &server.claim(&me, &json!({ "wait_seconds": 60 }))[0];
        assert_eq!(task["id"], json!(id));
        server.finish(&me, &outcome(task, "completed", &json!({})));
    }
}

#[test]
fn what_an_attempt_tells_is_kept() {
    for server in Server::each() {
        let me = server.register(&worker(&["x"]));
        let id = server.submit(&json!({ "kind": "x" }));
        let task = &server.claim(&me, &json!({}))[0];
        let mut report = lease(task);
        report["progress"] = json!({ "done": 3, "total": 10, "note": "loading" });
        report["lines"] = json!([{ "text": "one" }, { "text": "two", "at": "2030-01-01T00:00:00Z" }]);
        report["checkpoint"] = json!({ "at": 3 });
        let told = server.post(&format!("/v1/workers/{me}/report"), &json!({ "reports": [report] }));
        assert_eq!(told["outcomes"][0]["changed"], true, "{told}");
        assert_eq!(server.task(&id)["attempts"][0]["progress"]["done"], 3);
        let log = server.get(&format!("/v1/tasks/{id}/log"));
        assert_eq!(log["attempts"][0]["lines"][1]["text"], "two");
        server.finish(&me, &outcome(task, "failed", &json!({ "error": "x", "delay_seconds": 0 })));
        let again = &server.claim(&me, &json!({ "wait_seconds": 60 }))[0];
        assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(2), &json!({ "at": 3 })));
    }
}
