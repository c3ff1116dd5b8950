//! A server that is killed again and again under load from workers in three languages: nothing is lost,
//! nothing is done twice, clients go on by themselves, and who listens to events misses none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::{Fleet, Language};
use crate::kit::{DEADLINE, Server, list, request, text};

/// How often a server is killed, unless WINDLASS_SERVER_KILLS says otherwise.
const KILLS: usize = 20;

/// Runs of handlers between two kills.
const RUNS: usize = 25;

/// One request to a server that may not be there; nothing, if there is no whole answer.
fn try_post(address: SocketAddr, path: &str, body: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let body = body.to_string();
    let headers = [("content-type", "application/json")];
    stream.write_all(&request("POST", path, &headers, Some(body.as_bytes()))).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    // What a server that is stopping or not ready refuses is tried again; everything else must be right.
    let is_good = ["200", "201"].contains(&head.split(' ').nth(1)?);
    assert!(is_good || head.contains(" 503 "), "{path}: {answer}");
    is_good.then(|| serde_json::from_str(body).ok()).flatten()
}

/// The same request until it is answered. What is asked for has an id or a key, so that asking twice is
/// asking once.
fn post(address: SocketAddr, path: &str, body: &Value) -> Value {
    let begun = Instant::now();
    loop {
        if let Some(answer) = try_post(address, path, body) {
            return answer;
        }
        assert!(begun.elapsed() < DEADLINE, "no answer to {path} {body}");
        thread::yield_now();
    }
}

/// What was accepted.
#[derive(Default)]
struct Accepted {
    tasks: BTreeMap<String, Value>,
    workflows: BTreeSet<String>,
}

/// Submits tasks for all languages, and now and then a workflow of all of them, until `enough`.
fn submit(address: SocketAddr, enough: &AtomicBool) -> Accepted {
    let mut accepted = Accepted::default();
    for number in 0_u64.. {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        for language in Language::ALL {
            let (id, payload) = (uuid::Uuid::now_v7().to_string(), json!({ "n": number }));
            let kind = format!("{}:echo", language.prefix());
            let task = json!({ "id": id, "kind": kind, "payload": payload, "max_attempts": null });
            assert_eq!(text(&post(address, "/v1/tasks", &task)["id"]), id);
            accepted.tasks.insert(id, payload);
        }
        if number % 10 == 0 {
            let step = |kind: &str, needs: &[&str]| json!({ "task": kind, "needs": needs, "retry": { "max_attempts": 50, "initial": "100ms" } });
            let steps = json!({ "a": step("py:echo", &[]), "b": step("ts:echo", &["a"]), "c": step("rs:echo", &["a"]),
                "d": step("py:echo", &["b", "c"]) });
            let body = json!({ "steps": steps, "input": {}, "idempotency_key": format!("w{number}") });
            accepted.workflows.insert(text(&post(address, "/v1/workflows", &body)["id"]));
        }
    }
    accepted
}

/// Listens to events until a task is cancelled, over as many connections as it takes: the ids and what they
/// told, in order. Says when it has begun: everything from then on is told.
fn listen(address: SocketAddr, until: &str, begun: &Sender<()>) -> Vec<(String, Value)> {
    let (mut heard, mut last): (Vec<(String, Value)>, Option<String>) = (Vec::new(), None);
    loop {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let resume = last.as_deref().map(|id| ("last-event-id", id));
        let headers: Vec<(&str, &str)> = resume.into_iter().collect();
        if stream.write_all(&request("GET", "/v1/events", &headers, None)).is_err() {
            continue;
        }
        let (mut id, mut event) = (String::new(), String::new());
        for line in BufReader::new(stream).lines() {
            // The server is gone.
            let Ok(line) = line else { break };
            match line.split_once(": ") {
                Some(("id", value)) => id = value.into(),
                Some(("event", value)) => event = value.into(),
                // The last part of an event: only now it is whole.
                Some(("data", value)) => {
                    assert_ne!(event, "reset", "events were missed");
                    // A line that was cut off in the middle is told again.
                    let Ok(data) = serde_json::from_str(value) else { break };
                    if event == "ready" {
                        // Only the first is waited for.
                        let _ = begun.send(());
                    } else {
                        heard.push((id.clone(), data));
                    }
                    last = Some(id.clone());
                    if heard
                        .last()
                        .is_some_and(|(_, event)| event["id"] == *until && event["state"] == "cancelled")
                    {
                        return heard;
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_server_on_a_file_may_be_killed() {
    let [server, _] = Server::each();
    kill_and_go_on(server);
}

#[test]
fn a_server_on_postgresql_may_be_killed() {
    let [_, server] = Server::each();
    kill_and_go_on(server);
}

fn kill_and_go_on(mut server: Server) {
    let kills = std::env::var("WINDLASS_SERVER_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let (address, enough, marker) =
        (server.address, AtomicBool::new(false), uuid::Uuid::now_v7().to_string());
    let fleet = Fleet::start(&server, &Language::ALL, 4);
    let (server, accepted, heard) = thread::scope(|scope| {
        let (begun, has_begun) = channel();
        let marker = &marker;
        let listening = scope.spawn(move || listen(address, marker, &begun));
        has_begun.recv_timeout(DEADLINE).unwrap();
        let submitting = scope.spawn(|| submit(address, &enough));
        for kill in 1..=kills {
            let (begun, before) = (Instant::now(), fleet.runs().len());
            while fleet.runs().len() < before + RUNS {
                assert!(begun.elapsed() < DEADLINE, "nothing is done after kill {}", kill - 1);
                thread::yield_now();
            }
            let Server { place, running, .. } = server;
            running.kill();
            server = Server::in_place(place, &["--listen", &address.to_string()]);
        }
        enough.store(true, Ordering::Relaxed);
        let accepted = submitting.join().unwrap();
        server.until_settled();
        // The last that is heard of.
        server.submit(&json!({ "id": marker, "kind": "marker" }));
        server.post(&format!("/v1/tasks/{marker}/cancel"), &json!({}));
        (server, accepted, listening.join().unwrap())
    });
    check(&server, &accepted, &heard, &fleet);
    println!(
        "{kills} kills, {} tasks, {} workflows, {} events",
        accepted.tasks.len(),
        accepted.workflows.len(),
        heard.len()
    );
}

fn check(server: &Server, accepted: &Accepted, heard: &[(String, Value)], fleet: &Fleet) {
    let mut ran: BTreeSet<(String, u64)> = BTreeSet::new();
    let mut leases: BTreeSet<(String, u64)> = BTreeSet::new();
    for line in fleet.runs() {
        let run: Value = serde_json::from_str(&line).unwrap();
        let number = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{line}"));
        assert!(leases.insert((text(&run["id"]), number("lease"))), "one claim was run twice: {line}");
        ran.insert((text(&run["id"]), number("attempt")));
    }
    let ids: BTreeSet<&String> = heard.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), heard.len(), "an event was told twice");
    let mut told: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, event) in heard {
        told.entry(event["id"].as_str().unwrap()).or_default().push(event["state"].as_str().unwrap());
    }
    let all = server.all_tasks();
    for id in &all {
        is_told(&server.task(id), told.get(&**id).map_or(&[], Vec::as_slice));
    }
    for (id, payload) in &accepted.tasks {
        assert!(all.contains(id), "{id} is lost");
        let task = server.task(id);
        assert_eq!((&task["state"], &task["result"]), (&json!("completed"), payload), "{task}");
        let history = list(&task["history"]);
        let ends = history.iter().filter(|entry| entry["to"] == "completed").count();
        assert_eq!(ends, 1, "{task}");
        let attempt = task["attempt"].as_u64().unwrap();
        assert!(ran.contains(&(id.clone(), attempt)), "nobody ran what completed {task}");
    }
    for id in &accepted.workflows {
        let seen = server.get(&format!("/v1/workflows/{id}"));
        assert_eq!((&seen["state"], &seen["counts"]["done"]), (&json!("complete"), &json!(4)), "{seen}");
    }
}

/// Every change of a task was told once, in order. That it runs is told only if somebody noticed before it
/// ended: what is written at once is one event.
fn is_told(task: &Value, told: &[&str]) {
    let history = list(&task["history"]);
    let happened: Vec<&str> = history.iter().map(|entry| entry["to"].as_str().unwrap()).collect();
    let mut rest = happened.iter();
    assert!(
        told.iter().all(|state| rest.any(|one| one == state)),
        "{told:?} was told of {happened:?}: {task}"
    );
    let others = |states: &[&str]| states.iter().filter(|state| **state != "running").count();
    assert_eq!(others(told), others(&happened), "{told:?} was told of {happened:?}: {task}");
}

impl Server {
    /// The ids of all tasks.
    fn all_tasks(&self) -> BTreeSet<String> {
        let (mut all, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let page = self.get(&format!("/v1/tasks?limit=1000{cursor}"));
            all.extend(list(&page["tasks"]).iter().map(|task| text(&task["id"])));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}
