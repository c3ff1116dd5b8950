//! What one request may cost: whatever it computes, the server answers everybody else meanwhile.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kit::{Answer, Server, answer, lease, list, request, text};

/// What is promised is 250 ms; the rest is for a machine that has other things to do.
const SOON: Duration = Duration::from_secs(1);

/// A schema that doubles at each level.
fn doubling(levels: usize) -> Value {
    let mut definitions = json!({ "l0": { "type": "object" } });
    for level in 1..=levels {
        let below = json!({ "$ref": format!("#/$defs/l{}", level - 1) });
        definitions[format!("l{level}")] = json!({ "allOf": [below, below] });
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/l{levels}") })
}

fn definition(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "input": schema, "steps": { "a": { "task": "z" } } })
}

/// Forty steps, each of which looks for a hundred patterns that have to be followed through all they can be.
fn patterns() -> Value {
    let attack = "input.l.all(i, !input.s.matches('(a|aa|aaa){500}c' + string(i)))";
    let steps: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("s{n}"), json!({ "task": "y", "if": attack }))).collect();
    let numbers: Vec<u32> = (0..100).collect();
    json!({ "steps": steps, "input": { "l": numbers, "s": "a".repeat(1_000) } })
}

fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = [("content-type", "application/json")];
    stream.write_all(&request(method, path, &head, Some(body.as_bytes()))).unwrap();
    answer(&mut std::io::BufReader::new(stream))
}

#[test]
#[allow(clippy::print_stdout)]
fn everybody_else_is_answered_while_requests_compute() {
    let server = Server::start();
    let other = server.register(&json!({ "kinds": ["x"] }));
    server.submit(&json!({ "kind": "x" }));
    let task = server.claim(&other, &json!({})).remove(0);
    // Each level of the input applies the schema below it twice.
    let tree = json!({ "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
    server.ask("PUT", "/v1/definitions/tree", Some(&definition("tree", &tree))).told(200);
    let deep = (0..60).fold(json!({}), |inner, _| json!({ "a": inner }));
    let id = text(&server.post("/v1/workflows", &patterns())["id"]);
    let attacker = server.register(&json!({ "kinds": ["y"] }));
    let pulse = format!("/v1/workers/{attacker}/heartbeat");
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let (address, over) = (server.address, &over);
    let slowest = std::thread::scope(|scope| {
        let steps = scope.spawn(move || {
            let path = format!("/v1/workflows/{id}");
            loop {
                let claim = format!("/v1/workers/{attacker}/claim");
                send(address, "POST", &claim, &json!({ "limit": 40, "wait_seconds": 1 })).told(200);
                let workflow = send(address, "GET", &path, &Value::Null).told(200);
                if workflow["state"] == "blocked_by_failures" {
                    return workflow;
                }
            }
        });
        let schemas = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let refused = send(address, "PUT", "/v1/definitions/d", &definition("d", &doubling(40)));
                let detail = text(&refused.refused(422, "invalid_definition")["detail"]);
                assert!(detail.contains("more than 10000 keywords"), "{detail}");
                let started =
                    send(address, "POST", "/v1/workflows", &json!({ "definition": "tree", "input": deep }));
                assert_eq!(started.status, 422, "{}", started.body);
                assert!(started.body.contains("too much work"), "{}", started.body);
            }
        });
        let mut slowest = [Duration::ZERO; 3];
        while !steps.is_finished() {
            let asked: [&dyn Fn(); 3] = [
                &|| drop(server.get("/health")),
                &|| assert_eq!(server.ask("GET", "/metrics", None).status, 200),
                &|| {
                    let running = json!({ "running": [lease(&task)] });
                    let pulse = server.post(&format!("/v1/workers/{other}/heartbeat"), &running);
                    assert_eq!(pulse, json!({ "lost": [], "cancel": [] }));
                },
            ];
            server.post(&pulse, &json!({ "running": [] }));
            for (slowest, ask) in slowest.iter_mut().zip(asked) {
                let begun = Instant::now();
                ask();
                *slowest = begun.elapsed().max(*slowest);
            }
        }
        over.store(true, Ordering::Relaxed);
        let workflow = steps.join().unwrap();
        schemas.join().unwrap();
        let failed = list(&workflow["steps"]);
        assert_eq!(failed.len(), 40);
        for step in failed {
            assert!(text(&step["error"]).contains("too much work"), "{step}");
        }
        slowest
    });
    println!("{:?}: /health, /metrics, heartbeats at the slowest {slowest:?}", begun.elapsed());
    assert!(slowest.iter().all(|slowest| *slowest < SOON), "{slowest:?}");
}

#[test]
fn definitions_from_requests_have_a_limit() {
    let server = Server::start();
    let step = json!({ "task": "x", "input": { "text": "x".repeat(60_000) } });
    let steps: serde_json::Map<String, Value> = (0..20).map(|n| (format!("s{n}"), step.clone())).collect();
    let long = json!({ "name": "long", "steps": steps });
    let refused = server.ask("PUT", "/v1/definitions/long", Some(&long)).refused(413, "too_large");
    assert!(
        text(&refused["detail"]).contains("at most 1048576 (its setting max_definition_bytes)"),
        "{refused}"
    );
    server.ask("POST", "/v1/workflows", Some(&json!({ "steps": steps }))).refused(413, "too_large");
    // The same through the store's own route.
    let there = super::support::Place::new().with("WINDLASS_SERVER", format!("http://{}", server.address));
    there.file("long.json", long.to_string());
    for arguments in
        [&["definition", "apply", "long.json"][..], &["workflow", "start", "--file", "long.json"]]
    {
        there.run(arguments).told(1, "at most 1048576");
    }
    let larger = Server::with(&["--max-definition-bytes", "2000000"]);
    larger.ask("PUT", "/v1/definitions/long", Some(&long)).told(200);
}

#[test]
fn large_workflows_are_drawn_folded() {
    let server = Server::start();
    let steps: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("s{n}"), json!({ "task": "x" }))).collect();
    let id = text(&server.post("/v1/workflows", &json!({ "steps": steps }))["id"]);
    let drawn = server.ask("GET", &format!("/v1/workflows/{id}/graph.svg"), None);
    assert_eq!(drawn.status, 200, "{}", drawn.body);
    assert!(drawn.body.len() < 5_000_000, "{}", drawn.body.len());
}
