use serde_json::{Value, json};

use super::kit::{Server, list, outcome, text};

const NIGHTLY: &str = "
name: nightly
version: 1
steps:
  extract: { task: extract, input: { day: '${input.day}' } }
  regions: { needs: [extract], task: region, map: { over: '${extract.regions}' }, input: { region: '${item}' } }
  alert: { needs: [extract], if: 'extract.errors > 3', task: alert }
  publish: { needs: [regions, alert], join: all_done, task: publish, input: { all: '${regions}' } }
";

/// Works off what comes, and tells what each kind was given.
fn work_off(server: &Server, worker: &str, answer: impl Fn(&Value) -> Value) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let claimed = server.claim(worker, &json!({ "limit": 10 }));
        if claimed.is_empty() {
            return seen;
        }
        for task in claimed {
            server.finish(worker, &outcome(&task, "completed", &json!({ "result": answer(&task) })));
            seen.push(task);
        }
    }
}

#[test]
fn steps_are_evaluated_for_workers_that_know_nothing_of_definitions() {
    for server in Server::each() {
        let yaml = [("content-type", "application/yaml")];
        let applied = server.ask_with("PUT", "/v1/definitions/nightly", &yaml, Some(NIGHTLY.as_bytes()));
        assert_eq!(applied.told(200), json!({ "name": "nightly", "version": "1", "created": true }));
        let started = server.ask(
            "POST",
            "/v1/workflows",
            Some(&json!({ "definition": "nightly", "input": { "day": "monday" }, "idempotency_key": "1" })),
        );
        let id = text(&started.told(201)["id"]);
        let me = server.register(&json!({ "kinds": ["extract", "region", "alert", "publish"] }));
        let seen = work_off(&server, &me, |task| match task["kind"].as_str().unwrap() {
            "extract" => json!({ "regions": ["north", "south"], "errors": 0 }),
            "region" => json!({ "done": task["payload"]["region"] }),
            _ => json!("published"),
        });
        let kinds: Vec<_> = seen.iter().map(|task| text(&task["kind"])).collect();
        assert_eq!(kinds, ["extract", "region", "region", "publish"], "the alert's condition is false");
        assert_eq!(seen[0]["payload"], json!({ "day": "monday" }));
        assert_eq!((&seen[1]["step"], &seen[1]["workflow_id"]), (&json!("regions[0]"), &json!(id)));
        assert_eq!(seen[2]["payload"], json!({ "region": "south" }));
        assert_eq!(seen[1]["results"]["extract"]["errors"], 0);
        assert_eq!(seen[3]["payload"], json!({ "all": [{ "done": "north" }, { "done": "south" }] }));
        assert_eq!(seen[3]["results"]["alert"], json!(null));
        let done = server.get(&format!("/v1/workflows/{id}"));
        assert_eq!(
            (&done["state"], &done["output"]),
            (&json!("complete"), &json!({ "publish": "published" }))
        );
        assert_eq!(
            (&done["execution_status"], &done["completion_percentage"]),
            (&json!("all_complete"), &json!(100.0))
        );
        let before = server.get(&format!("/v1/workflows/{id}/steps/publish/ancestors"));
        assert_eq!(list(&before["ancestors"]).len(), 3);
        let picture = server.ask("GET", &format!("/v1/workflows/{id}/graph.svg"), None);
        assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
        assert!(picture.body.contains("<svg"));
    }
}

#[test]
fn steps_of_its_own_and_workflows_within_are_run() {
    for server in Server::each() {
        let inner = json!({ "name": "inner", "version": "1", "steps": { "only": { "task": "leaf" } } });
        server.ask("PUT", "/v1/definitions/inner", Some(&inner)).told(200);
        let body = json!({ "steps": {
            "first": { "task": "leaf", "input": { "n": 1 } },
            "within": { "needs": ["first"], "workflow": "inner" },
        } });
        let id = text(&server.ask("POST", "/v1/workflows", Some(&body)).told(201)["id"]);
        let me = server.register(&json!({ "kinds": ["leaf"] }));
        assert_eq!(work_off(&server, &me, |_| json!(1)).len(), 2);
        let done = server.get(&format!("/v1/workflows/{id}"));
        assert_eq!(
            (&done["state"], &done["definition"], &done["version"]),
            (&json!("complete"), &json!("ad-hoc"), &json!(null))
        );
        let task = text(&list(&done["steps"])[1]["id"]);
        let within = list(&server.get(&format!("/v1/workflows?parent={task}"))["workflows"]);
        assert_eq!((within.len(), &within[0]["state"]), (1, &json!("complete")));
    }
}

#[test]
fn a_workflow_that_is_sent_again_is_started_once() {
    let server = Server::start();
    let first = server.post("/v1/workflows", &json!({ "steps": { "a": { "task": "x" } } }));
    // An id that a client would have made: like the server's own, and fresh.
    let id = text(&first["id"]).replace(&text(&first["id"])[..8], "01b1e5f1");
    let body = json!({ "id": id, "steps": { "a": { "task": "x" } } });
    assert_eq!(server.ask("POST", "/v1/workflows", Some(&body)).told(201)["id"], json!(id));
    assert_eq!(server.ask("POST", "/v1/workflows", Some(&body)).told(200)["created"], false);
    let other = json!({ "id": id, "definition": "other", "steps": { "a": { "task": "x" } } });
    server.ask("POST", "/v1/workflows", Some(&other)).refused(409, "workflow_id_conflict");
}

#[test]
fn operators_steer_workflows_and_steps() {
    for server in Server::each() {
        let steps = json!({ "steps": { "a": { "task": "x" }, "b": { "needs": ["a"], "task": "x" }, "c": { "task": "y" } } });
        let start = || text(&server.post("/v1/workflows", &steps)["id"]);
        let id = start();
        let at = |verb: &str| format!("/v1/workflows/{id}/{verb}");
        assert_eq!(server.post(&at("pause"), &json!({ "reason": "wait" }))["paused"], true);
        assert_eq!(server.ask("POST", &at("resume"), None).told(200)["paused"], false);
        let resolved = server.post(&at("steps/a/resolve"), &json!({ "result": 7, "actor": "ada" }));
        assert_eq!(resolved["state"], "resolved_manually");
        assert_eq!(server.ask("POST", &at("steps/c/skip"), None).told(200)["state"], "skipped");
        assert_eq!(server.ask("POST", &at("steps/b/cancel"), None).told(200)["state"], "cancelled");
        server.ask("POST", &at("steps/z/skip"), None).refused(404, "step_not_found");
        let again = server.ask("POST", &at("rerun"), Some(&json!({ "from": "b" }))).told(201);
        let again = server.get(&format!("/v1/workflows/{}", text(&again["id"])));
        assert_eq!(again["origin_id"], json!(id));
        let other = start();
        assert_eq!(
            server.ask("POST", &format!("/v1/workflows/{other}/cancel"), None).told(200)["state"],
            "cancelled"
        );
        server.ask("POST", &format!("/v1/workflows/{other}/pause"), None).refused(409, "workflow_over");
        let listed = list(&server.get("/v1/workflows?state=cancelled&limit=1")["workflows"]);
        assert_eq!(listed[0]["id"], json!(other));
        let ready =
            |query: &str| list(&server.get(&format!("/v1/workflows/ready{query}"))["workflows"]).len();
        assert!(ready("") > 0);
        assert_eq!((ready("?namespace=default"), ready("?namespace=nobody")), (ready(""), 0));
        assert_eq!(ready("?definition=nobody&limit=1"), 0);
        for path in [
            "/v1/analytics",
            "/v1/analytics/slowest-steps",
            "/v1/analytics/slowest-workflows",
            "/v1/analytics/stale",
        ] {
            server.get(path);
        }
    }
}

#[test]
fn a_definition_with_mistakes_is_refused_with_all_of_them() {
    let server = Server::start();
    let yaml = [("content-type", "application/yaml")];
    let put = |text: &str| server.ask_with("PUT", "/v1/definitions/nightly", &yaml, Some(text.as_bytes()));
    let problem = put("name: nightly\nsteps:\n  a: { task: x, needs: [z] }\n  b: { task: x, needs: [y] }\n")
        .refused(422, "invalid_definition");
    let mistakes = list(&problem["problems"]);
    assert!(mistakes.len() >= 2 && mistakes[0]["line"].is_number(), "{problem}");
    put("name: nightly\nsteps:\n  a: { task: x, needs: [b] }\n  b: { task: x, needs: [a] }\n")
        .refused(422, "cycle");
    put("name: other\nsteps:\n  a: { task: x }\n").refused(422, "invalid_body");
    put("name: nightly\nversion: 1\nsteps:\n  a: { task: x }\n").told(200);
    put("name: nightly\nversion: 1\nsteps:\n  a: { task: y }\n").refused(409, "definition_conflict");
    assert_eq!(server.get("/v1/definitions/nightly")["definition"]["steps"]["a"]["task"], "x");
    assert_eq!(list(&server.get("/v1/definitions/nightly/versions")["definitions"]).len(), 1);
    assert_eq!(list(&server.get("/v1/definitions")["definitions"]).len(), 1);
}
