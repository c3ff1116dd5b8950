//! Those who wait for something to happen at a server: they hear of it at once, and take nobody's place.

use rustix::process::Signal;
use serde_json::json;

use super::kit::{Server, text};
use super::support::{Place, Running};
use super::through;

fn metric(server: &Server, name: &str) -> f64 {
    let metrics = server.ask("GET", "/metrics", None).body;
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.map_or(0.0, |line| line.split(' ').next_back().unwrap().parse().unwrap())
}

/// Comes when so many requests wait at the server.
fn waits(server: &Server, many: f64) {
    while metric(server, "windlass_http_waiting_claims") != many {
        std::thread::yield_now();
    }
}

fn start(place: &Place, arguments: &[&str]) -> Running {
    Running::start(place.program().args(arguments))
}

#[test]
fn who_waits_for_a_task_hears_of_its_end() {
    let server = Server::start();
    let place = through(&server);
    let mut waiting = start(&place, &["submit", "x", "1", "--wait", "--json"]);
    waits(&server, 1.0);
    let worker = server.register(&json!({ "kinds": ["x"] }));
    let task = server.claim(&worker, &json!({ "wait_seconds": 60 })).remove(0);
    server.finish(
        &worker,
        &json!({ "id": task["id"], "lease": task["lease"], "outcome": "completed", "result": 7 }),
    );
    let said = waiting.end();
    assert_eq!((said.code, &said.json()["result"]), (0, &json!(7)), "{}", said.err);
    waits(&server, 0.0);
}

#[test]
fn who_waits_for_a_workflow_hears_of_its_end() {
    let server = Server::start();
    let place = through(&server);
    place.file("flow.yaml", "name: f\nsteps: { a: { task: x }, b: { task: x, needs: a } }\n");
    let mut waiting = start(&place, &["workflow", "start", "--file", "flow.yaml", "--wait", "--json"]);
    waits(&server, 1.0);
    place.drain(&["--exec", "x=cat"]);
    let said = waiting.end();
    assert_eq!((said.code, &said.json()["state"]), (0, &json!("complete")), "{}{}", said.out, said.err);
}

/// A worker that has nothing to do has one request open, which is not one that the server works on: there is
/// a place for another.
#[test]
fn an_idle_worker_has_one_request_open() {
    let server = Server::with(&["--max-requests", "4"]);
    let place = through(&server);
    let mut workers: Vec<Running> = Vec::new();
    for waiting in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] {
        workers.push(place.work(&["--exec", "x=cat"]));
        waits(&server, waiting);
    }
    assert_eq!(place.run(&["stats"]).code, 0);
    waits(&server, 6.0);
    for mut worker in workers {
        worker.signal(Signal::TERM);
        assert_eq!(worker.end().code, 0);
    }
    waits(&server, 0.0);
}

/// There is no place for one more who waits, so it looks again and again; what it does goes on.
#[test]
fn a_worker_works_without_bells() {
    let server = Server::with(&["--max-waiting", "1"]);
    let place = through(&server);
    let one = place.work(&["--exec", "x=cat"]);
    waits(&server, 1.0);
    let ids: Vec<String> = (0..5).map(|n| place.submit(&["x", &n.to_string(), "--wait"])).collect();
    assert!(ids.iter().all(|id| place.task(id)["state"] == "completed"));
    drop(one);
}

#[test]
fn a_cancel_reaches_the_program() {
    let server = Server::start();
    let place = through(&server);
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang"]);
    let mut worker = place.work(&["--exec", "hang=echo $$ > talk; sleep 1000"]);
    let pid = talk.number();
    server.post(&format!("/v1/tasks/{id}/cancel"), &json!({}));
    super::support::gone(pid);
    worker.until("hang attempt 1 cancelled");
    worker.signal(Signal::INT);
    assert_eq!(worker.end().code, 0);
}

/// Ctrl-C: what runs may end, and is told; a second one kills, and what was held goes to others at once.
#[test]
fn ctrl_c_once_and_twice() {
    let server = Server::start();
    let place = through(&server);
    let (mut talk, mut go) = (place.fifo("talk"), place.fifo("go"));
    let id = place.submit(&["x"]);
    let mut worker = place.work(&["--exec", "x=echo 1 > talk; read go < go; echo done"]);
    talk.line();
    worker.signal(Signal::INT);
    worker.until("stopping: 1 running");
    go.open();
    let said = worker.end();
    assert_eq!((said.code, &*said.out), (0, "1 completed, 0 failed attempts, 0 others\n"), "{}", said.err);
    assert_eq!(place.task(&id)["result"], "done");
    let id = place.submit(&["x"]);
    let mut worker = place.work(&["--exec", "x=echo 1 > talk; read go < go"]);
    talk.line();
    worker.signal(Signal::INT);
    worker.until("stopping: 1 running");
    worker.signal(Signal::INT);
    assert_eq!(worker.end().code, 130);
    let other = server.register(&json!({ "kinds": ["x"] }));
    let task = server.claim(&other, &json!({ "wait_seconds": 60 })).remove(0);
    assert_eq!((text(&task["id"]), &task["attempt"]), (id, &json!(2)));
}

/// A server that stops answers those who wait, and a worker goes on when it is back.
#[test]
fn a_server_that_stops_is_waited_for() {
    let server = Server::start();
    let place = through(&server);
    let mut worker = place.work(&["--exec", "x=cat", "--dead-after", "60s"]);
    waits(&server, 1.0);
    let (mut running, address, elsewhere) = (server.running, server.address.to_string(), server.place);
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 0);
    let server = Server::in_place(elsewhere, &["--listen", &address]);
    let id = place.submit(&["x", "7", "--wait"]);
    assert_eq!(server.place.task(&id)["result"], 7);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code, 0);
}
