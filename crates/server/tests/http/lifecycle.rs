use std::io::{BufReader, Write};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use windlass_testbed::postgres;

use super::events::Stream;
use super::kit::{Answer, DEADLINE, Server, answer, lease, list, outcome, request, text};
use super::support::{Place, Running};

#[test]
fn a_server_says_how_it_is() {
    for server in Server::each() {
        assert_eq!(server.get("/health")["status"], "healthy");
        assert_eq!(server.get("/ready")["status"], "ready");
        let description = server.get("/openapi.json");
        assert_eq!(description["openapi"], "3.1.0");
        assert!(description["paths"]["/v1/tasks"]["post"].is_object());
        server.submit(&json!({ "kind": "x" }));
        let metrics = server.ask("GET", "/metrics", None);
        assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
        for line in [
            "windlass_http_requests_total{route=\"/v1/tasks\",method=\"POST\",status=\"201\"} 1",
            "windlass_http_request_seconds_bucket{route=\"/v1/tasks\",method=\"POST\",le=\"0.0005\"}",
        ] {
            assert!(metrics.body.contains(line), "{line} in {}", metrics.body);
        }
        for _ in 0..50 {
            server.ask("GET", &format!("/v1/{}", uuid::Uuid::new_v4()), None).refused(404, "route_not_found");
        }
        let after = server.ask("GET", "/metrics", None).body;
        let routes = after.lines().filter(|line| line.starts_with("windlass_http_requests_total")).count();
        assert!(routes < 20, "labels are bounded:\n{after}");
    }
}

/// Waits until `/ready` is answered so, and gives the refusal.
fn until_unready(server: &Server, code: &str) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = server.ask("GET", "/ready", None);
        if answer.status == 503 && answer.json()["code"] == *code {
            assert_eq!(answer.header("retry-after"), Some("1"));
            return answer;
        }
        assert!(begun.elapsed() < DEADLINE, "{} {}", answer.status, answer.body);
    }
}

#[test]
fn a_server_whose_database_is_stopped_is_not_ready_until_it_is_back() {
    let database = postgres::Server::start().unwrap();
    let server = Server::in_place(Place::with_store(database.url()), &[]);
    assert_eq!(server.get("/ready")["status"], "ready");
    database.stop(postgres::Mode::Fast).unwrap();
    until_unready(&server, "unavailable");
    assert_eq!(server.get("/health")["status"], "healthy", "the process is well");
    database.start_again().unwrap();
    let begun = Instant::now();
    while server.ask("GET", "/ready", None).status != 200 {
        assert!(begun.elapsed() < DEADLINE, "it is not ready again");
    }
}

#[test]
fn a_server_whose_file_is_moved_away_accepts_nothing_until_it_is_back() {
    let server = Server::start();
    let kept = server.submit(&json!({ "kind": "x" }));
    let (path, elsewhere) = (server.place.path().join("windlass.db"), server.place.path().join("moved.db"));
    std::fs::rename(&path, &elsewhere).unwrap();
    let submit = |server: &Server| server.ask("POST", "/v1/tasks", Some(&json!({ "kind": "x" })));
    submit(&server).refused(503, "store_moved");
    let refused = until_unready(&server, "store_moved");
    assert!(refused.body.contains("windlass.db was removed or moved away"), "{}", refused.body);
    assert_eq!(server.get("/health")["status"], "healthy", "the process is well");
    // Back at its place, it is not trusted before it is opened again.
    std::fs::rename(&elsewhere, &path).unwrap();
    submit(&server).refused(503, "store_moved");
    let Server { place, running, .. } = server;
    running.kill();
    let tasks = place.tasks();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(text(&tasks[0]["id"]), kept);
}

#[test]
fn a_server_whose_schema_was_changed_by_a_newer_version_is_not_ready() {
    let newer = "INSERT INTO migrations SELECT 999, 'newer', 'x', max(applied_at) FROM migrations";
    let server = Server::start();
    assert_eq!(server.get("/ready")["status"], "ready");
    let file = rusqlite::Connection::open(server.place.path().join("windlass.db")).unwrap();
    file.busy_timeout(DEADLINE).unwrap();
    file.execute(newer, []).unwrap();
    let refused = until_unready(&server, "unusable");
    assert!(refused.body.contains("999"), "{}", refused.body);

    let name = format!("http_{}", uuid::Uuid::new_v4().simple());
    let url = postgres::shared().create_database(&name).unwrap();
    let server = Server::in_place(Place::with_store(url), &[]);
    assert_eq!(server.get("/ready")["status"], "ready");
    let newer = newer.replace("migrations", "windlass.migrations");
    postgres::shared().sql_in(&name, &newer).unwrap();
    until_unready(&server, "unusable");
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let mut server = Server::start();
    let mut stream = server.connect();
    stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    // Connections are accepted in their order: once this one is served, the other is in.
    assert_eq!(server.get("/ready")["status"], "ready");
    server.running.signal(Signal::TERM);
    server.running.until("stopping");
    stream.write_all(b"connection: close\r\n\r\n").unwrap();
    let refused = answer(&mut BufReader::new(stream));
    refused.refused(503, "stopping");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(server.running.end().code, 0);
}

#[test]
fn signals_that_its_parent_ignored_stop_a_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut command = place.program_of_deaf_parent();
        let mut server = Running::start(command.args(["serve", "--listen", "127.0.0.1:0"]));
        server.until("serving http");
        server.signal(Signal::HUP);
        server.signal(signal);
        server.until("stopping");
        assert_eq!(server.end().code, 0);
    }
}

/// Who reads the log of a server knows what an acknowledgement is worth.
#[test]
fn a_server_says_how_safe_its_store_is() {
    for (place, said) in
        [(Place::new(), "durability full"), (Place::with_store("memory:"), "durability none")]
    {
        let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut running = Running::start(&mut command);
        running.until(said);
        running.until("serving http");
    }
}

#[test]
fn a_server_that_is_told_to_stop_answers_those_who_wait() {
    // Longer than a test may take: nobody is cut off.
    let mut server = Server::with(&["--drain", "1h"]);
    let me = server.register(&json!({ "kinds": ["x"] }));
    let id = server.submit(&json!({ "kind": "x" }));
    let task = &server.claim(&me, &json!({}))[0];
    let ask = |path: &str, body: &Value| {
        let (mut stream, body) = (server.connect(), body.to_string());
        let headers = [("content-type", "application/json")];
        let path = format!("/v1/workers/{me}/{path}");
        stream.write_all(&request("POST", &path, &headers, Some(body.as_bytes()))).unwrap();
        BufReader::new(stream)
    };
    let mut claim = ask("claim", &json!({ "wait_seconds": 60 }));
    let mut beat = ask("heartbeat", &json!({ "wait_seconds": 60, "running": [lease(task)] }));
    let mut events = Stream::open(&server, "", None);
    while !server.ask("GET", "/metrics", None).body.contains("windlass_http_waiting_claims 1\n") {
        std::thread::yield_now();
    }
    server.until(&format!("/v1/tasks/{id}"), "running");
    let begun = Instant::now();
    server.running.signal(Signal::TERM);
    assert_eq!(answer(&mut claim).told(200)["tasks"], json!([]));
    assert_eq!(answer(&mut beat).told(200), json!({ "lost": [], "cancel": [] }));
    events.ends();
    let said = server.running.end();
    assert_eq!((said.code, &*said.out), (0, "stopped\n"), "{}", said.err);
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    let workers = server.place.json(&["worker", "list"]);
    assert_eq!(list(&workers["workers"]).len(), 1, "the server has left, the worker has not: {workers}");
}

#[test]
fn what_was_accepted_is_there_after_a_kill() {
    for server in Server::each() {
        let ids: Vec<_> = (0..20).map(|n| server.submit(&json!({ "kind": "x", "payload": n }))).collect();
        let (place, address) = (server.place, server.address.to_string());
        server.running.kill();
        let again = Server::in_place(place, &["--listen", &address]);
        for id in ids {
            assert_eq!(again.task(&id)["state"], "pending");
        }
    }
}

#[test]
fn a_server_that_was_killed_is_followed_at_once() {
    for server in Server::each() {
        while !server.leads() {
            std::thread::yield_now();
        }
        let id = server.submit(&json!({ "kind": "x", "delay_seconds": 1 }));
        let Server { place, running, .. } = server;
        running.kill();
        let (again, begun) = (Server::in_place(place, &[]), Instant::now());
        again.until(&format!("/v1/tasks/{id}"), "pending");
        assert!(begun.elapsed().as_secs() < 15, "it waited for a term to end: {:?}", begun.elapsed());
    }
}

#[test]
fn without_tokens_only_this_machine_is_served() {
    let place = Place::new();
    place.run(&["serve", "--listen", "0.0.0.0:0"]).told(1, "windlass token create");
    place.run(&["serve", "--listen", "localhost"]).told(2, "an address and a port");
    place.run(&["serve", "--tls-cert", "x.pem"]).told(2, "tls_key");
    place.run(&["serve", "--namespace", "x"]).told(2, "all namespaces");
    let taken = Server::start();
    place.run(&["serve", "--listen", &taken.address.to_string()]).told(1, "cannot listen on");
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let place = Place::new();
    let file = place.file("w.toml", "store = 'sqlite:other.db'\ndrain = '5s'\n");
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    command.args(["serve", "--print-config", "--json", "--max-requests", "9", "--config"]).arg(&file);
    let said = command.env("WINDLASS_LISTEN", "127.0.0.1:9").output().unwrap();
    let shown: Value = serde_json::from_slice(&said.stdout).unwrap();
    let from = |name: &str| {
        let all = list(&shown["settings"]);
        let one = all.iter().find(|one| one["name"] == name).unwrap().clone();
        (one["value"].clone(), one["from"].as_str().unwrap().split(' ').next().unwrap().to_owned())
    };
    assert_eq!(from("max_requests"), (json!("9"), "flag".into()));
    assert_eq!(from("listen"), (json!("127.0.0.1:9"), "environment".into()));
    assert_eq!(from("drain"), (json!("5s"), "file".into()));
    assert_eq!(from("max_waiting"), (json!("5000"), "default".into()));
    assert_eq!(from("store"), (json!("sqlite:other.db"), "file".into()));
    assert!(place.files() == ["w.toml"], "nothing is made: {:?}", place.files());
    let given = place.run(&["serve", "--print-config", "--store", "sqlite:given.db"]);
    assert!(given.out.contains("flag --store"), "{}", given.out);
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/windlass.toml");
    assert_eq!(place.run(&["serve", "--print-config", "--config", packaged]).code, 0, "it is understood");
    let odd = place.file("odd.toml", "liste = 1");
    place.run(&["serve", "--config", odd.to_str().unwrap()]).told(2, "no setting \"liste\"");
}

#[test]
pub(super) fn two_servers_on_one_database_are_equal() {
    let [one, other] = two_servers();
    let id = one.submit(&json!({ "kind": "x" }));
    let me = other.register(&json!({ "kinds": ["x"] }));
    let task = &other.claim(&me, &json!({ "wait_seconds": 60 }))[0];
    assert_eq!(task["id"], json!(id));
    let done = outcome(task, "completed", &json!({ "result": 1 }));
    assert_eq!(one.finish(&me, &done)["state"], "completed", "by way of the other");
    let leaders = list(&one.get("/v1/workers")["workers"]);
    assert_eq!(leaders.iter().filter(|one| one["leader"] == json!(true)).count(), 1, "{leaders:?}");
}

#[test]
fn what_one_server_accepts_wakes_those_who_wait_at_another() {
    let [one, other] = two_servers();
    let me = one.register(&json!({ "kinds": ["x"] }));
    let (mut stream, body) = (one.connect(), json!({ "wait_seconds": 60 }).to_string());
    let headers = [("content-type", "application/json")];
    let path = format!("/v1/workers/{me}/claim");
    stream.write_all(&request("POST", &path, &headers, Some(body.as_bytes()))).unwrap();
    while !one.ask("GET", "/metrics", None).body.contains("windlass_http_waiting_claims 1\n") {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    let id = other.submit(&json!({ "kind": "x" }));
    let claimed = answer(&mut BufReader::new(stream)).told(200);
    assert_eq!(claimed["tasks"][0]["id"], json!(id));
    assert!(begun.elapsed().as_secs() < 20, "not woken, but found later: {:?}", begun.elapsed());
}

#[test]
fn a_stream_that_began_at_one_server_goes_on_at_another() {
    let [one, other] = two_servers();
    let mut heard = Stream::open(&one, "?kind=x", None).heard;
    let (mut told, mut ids) = (Vec::new(), Vec::new());
    for n in 0..12 {
        // Each hears of what is submitted to the other as well, and reads one event of two before it is left.
        ids.push(json!(one.submit(&json!({ "kind": "x" }))));
        ids.push(json!(other.submit(&json!({ "kind": "x" }))));
        let mut stream = Stream::open([&one, &other][n % 2], "?kind=x", Some(&heard));
        told.push(stream.next().data["id"].clone());
        heard = stream.heard;
    }
    let mut stream = Stream::open(&other, "?kind=x", Some(&heard));
    while told.len() < ids.len() {
        told.push(stream.next().data["id"].clone());
    }
    assert_eq!(told, ids, "each once, in the order they were submitted");
}

#[test]
fn another_server_leads_when_the_leader_was_killed() {
    let [one, other] = two_servers();
    while !one.leads() && !other.leads() {
        std::thread::yield_now();
    }
    let [one, other] = if one.leads() { [one, other] } else { [other, one] };
    let id = one.submit(&json!({ "kind": "x", "delay_seconds": 1 }));
    one.running.kill();
    // What half a minute does, in a moment: the term of one who does not renew it runs out.
    let database = one.place.store_address().rsplit('/').next().unwrap();
    let over = "UPDATE windlass.leader SET until = clock_timestamp() - interval '1 second'";
    postgres::shared().sql_in(database, over).unwrap();
    other.until(&format!("/v1/tasks/{id}"), "pending");
    assert!(other.leads());
}

/// Two servers on one database.
pub(super) fn two_servers() -> [Server; 2] {
    let [_, one] = Server::each();
    let url = one.place.store_address();
    let other = Server::in_place(Place::with_store(url), &[]);
    [one, other]
}

impl Server {
    /// Whether this server is the one that leads.
    fn leads(&self) -> bool {
        let metrics = self.ask("GET", "/metrics", None).body;
        metrics.lines().any(|line| line == "windlass_leader 1")
    }
}

#[test]
fn a_server_that_works_runs_programs() {
    for (arguments, told) in [
        (&["--exec", "a=true"][..], "add --work"),
        (&["--run-steps"], "add --work"),
        (&["--work"], "nothing to work on"),
        (&["--work", "--exec", "a"], "KIND=COMMAND"),
    ] {
        let place = Place::new();
        place.run(&[&["serve"], arguments].concat()).told(2, told);
        assert_eq!(place.files(), [""; 0], "{arguments:?}");
    }
    let place = Place::new();
    let (mut talk, mut go) = (place.fifo("talk"), place.fifo("go"));
    let slow = "slow=echo begun > talk; read x < go; echo done";
    let mut server = Server::in_place(
        place,
        &["--work", "--exec", "greet=echo hello", "--exec", slow, "--run-steps", "--run-ad-hoc"],
    );
    let id = server.submit(&json!({ "kind": "greet" }));
    assert_eq!(server.until(&format!("/v1/tasks/{id}"), "completed")["result"], "hello");
    let steps = json!({ "a": { "run": "echo 1" }, "b": { "run": "echo 2", "needs": ["a"] } });
    let workflow = text(&server.post("/v1/workflows", &json!({ "steps": steps }))["id"]);
    server.until(&format!("/v1/workflows/{workflow}"), "complete");
    // What runs when it is told to stop may end.
    let slow = server.submit(&json!({ "kind": "slow" }));
    assert_eq!(talk.line(), "begun");
    server.running.signal(Signal::TERM);
    server.running.until("stopping");
    go.open();
    assert_eq!(server.running.end().code, 0);
    let task = server.place.task(&slow);
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &json!("done")));
    assert_eq!(server.place.json(&["worker", "list"])["workers"], json!([]), "worker and server have left");
}
