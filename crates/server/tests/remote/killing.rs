//! The server is killed under load, again and again: nothing is lost and nothing done twice, and workers and
//! those who submit go on by themselves.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::kit::Server;
use super::support::{Place, gone};
use super::url;

/// How often the server is killed.
const KILLS: usize = 3;

/// How many tasks there are between two kills.
const TASKS: usize = 60;

#[test]
fn workers_outlive_a_server_that_is_killed() {
    let mut server = Server::start();
    let address = server.address.to_string();
    let place = Place::new().with("WINDLASS_SERVER", url(&server));
    // A program says what it was given before it ends: what was run is known here, whatever becomes of the
    // reports.
    let exec = "x=n=$(cat); echo $n >> ran; sleep 0.01; echo $n";
    let mut workers: Vec<_> = (0..2)
        .map(|_| place.work(&["--exec", exec, "--pool", "4", "--quiet", "--dead-after", "60s"]))
        .collect();
    for round in 0..KILLS {
        let first = round * TASKS;
        let line = |n: usize| {
            format!("{{\"kind\": \"x\", \"payload\": {}, \"idempotency_key\": \"{0}\"}}\n", first + n)
        };
        place.file("batch.jsonl", (0..TASKS).map(line).collect::<String>());
        assert_eq!(place.json(&["submit", "--batch", "@batch.jsonl"])["created"], TASKS);
        // In the middle of it.
        let done = || {
            let stats = server.get("/v1/tasks?state=completed&limit=1000");
            stats["tasks"].as_array().unwrap().len()
        };
        while done() < first + TASKS / 3 {
            std::thread::yield_now();
        }
        let elsewhere = server.place;
        server.running.kill();
        server = Server::in_place(elsewhere, &["--listen", &address]);
    }
    let all = KILLS * TASKS;
    let completed = || {
        let listing = server.get("/v1/tasks?state=completed&limit=1000");
        listing["tasks"].as_array().unwrap().clone()
    };
    while completed().len() < all {
        std::thread::yield_now();
    }
    for worker in &mut workers {
        worker.signal(Signal::TERM);
        let said = worker.end();
        assert_eq!(said.code, 0, "{}", said.err);
    }
    let tasks = completed();
    assert_eq!(tasks.len(), all, "nothing is lost, nothing is there twice");
    // Each was run, and as often as its history says.
    let mut ran: BTreeMap<usize, u64> = BTreeMap::new();
    for line in place.read("ran").lines() {
        *ran.entry(line.parse().unwrap()).or_default() += 1;
    }
    assert_eq!(ran.keys().copied().collect::<Vec<_>>(), (0..all).collect::<Vec<_>>());
    for task in tasks {
        let seen = server.task(task["id"].as_str().unwrap());
        let n = usize::try_from(seen["payload"].as_u64().unwrap()).unwrap();
        assert_eq!(seen["result"], seen["payload"]);
        let ends =
            seen["history"].as_array().unwrap().iter().filter(|entry| entry["to"] == "completed").count();
        assert_eq!(ends, 1, "one end: {seen}");
        assert!(ran[&n] <= seen["lease"].as_u64().unwrap(), "no run without a claim: {seen}");
        assert_eq!(
            seen["attempt"], 1,
            "no attempt was lost with the server, only claims that nobody heard of: {seen}"
        );
    }
}

/// A submit whose answer is lost is looked for, and is there once.
#[test]
fn submits_outlive_a_server_that_is_killed() {
    let server = Server::start();
    let place = Place::new().with("WINDLASS_SERVER", url(&server));
    let address = server.address.to_string();
    let submitted = std::thread::scope(|scope| {
        let submitting = scope.spawn(|| {
            let mut done = Vec::new();
            for n in 0..40 {
                let said = place.run(&["submit", "x", &n.to_string(), "--key", &n.to_string(), "--json"]);
                match said.code {
                    0 => done.push(n),
                    _ => assert!(
                        said.err.contains("unavailable") || said.err.contains("unknown"),
                        "{}",
                        said.err
                    ),
                }
            }
            done
        });
        let mut server = server;
        let mut seen = 0;
        while !submitting.is_finished() {
            // Two more than before the last kill: the first of them was acknowledged, or there would be no
            // second.
            let there = || server.get("/v1/tasks?limit=1000")["tasks"].as_array().unwrap().len();
            let mut now = there();
            while !submitting.is_finished() && now < seen + 2 {
                std::thread::yield_now();
                now = there();
            }
            seen = now;
            let elsewhere = server.place;
            server.running.kill();
            server = Server::in_place(elsewhere, &["--listen", &address]);
        }
        (submitting.join().unwrap(), server)
    });
    let (done, server) = submitted;
    let tasks = server.place.tasks();
    let mut payloads: Vec<u64> = tasks
        .iter()
        .map(|task| server.task(task["id"].as_str().unwrap())["payload"].as_u64().unwrap())
        .collect();
    payloads.sort_unstable();
    let mut once = payloads.clone();
    once.dedup();
    assert_eq!(payloads, once, "none twice");
    assert!(
        done.iter().all(|n| payloads.contains(n)),
        "what was acknowledged is there: {done:?} {payloads:?}"
    );
    assert!(!done.is_empty());
}

/// The server does not come back: what was done cannot be reported.
#[test]
fn what_could_not_be_reported_is_not_counted_as_completed() {
    let server = Server::start();
    let place = Place::new().with("WINDLASS_SERVER", url(&server));
    let (mut talk, mut gate) = (place.fifo("talk"), place.fifo("gate"));
    let first = place.submit(&["x"]);
    let exec = "x=echo $$ > talk; read x < gate; echo done";
    let mut worker = place.work(&["--exec", exec, "--grace", "1s"]);
    talk.number();
    gate.open();
    worker.until(&format!("{first} x attempt 1 completed"));
    place.submit(&["x"]);
    let program = talk.number();
    server.running.kill();
    gate.open();
    gone(program);
    worker.signal(Signal::TERM);
    let said = worker.end();
    let told = "1 completed, 0 failed attempts, 0 others, 1 not reported\n";
    assert_eq!((said.code, &*said.out), (0, told), "{}", said.err);
    let warnings = said.err.lines().filter(|line| line.contains("WARN")).count();
    assert!(warnings <= 5, "{}", said.err);
}
