//! What can be looked at: tasks, their attempts and logs, queues, workers, counts.

use serde_json::{Value, json};
use windlass::Name;

use crate::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_tells_its_attempts() {
    let place = Place::new();
    let id = place.submit(&["work", r#"{"end": "retry"}"#, "--max-attempts", "2", "--retry", "none"]);
    place.work(&[&id]).await;
    let task = place.json(&["task", "get", &id]);
    let attempts = task["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    for (attempt, number) in attempts.iter().zip([1, 2]) {
        assert_eq!((&attempt["number"], &attempt["lease"]), (&json!(number), &json!(number)));
        assert_eq!((&attempt["ended"], &attempt["note"]), (&json!("failed"), &json!("not yet")));
        assert_eq!(attempt["progress"], json!({"done": 3, "total": 10, "note": null}));
        assert_eq!(attempt["log_lines"], 2);
        assert_eq!(attempt["worker_id"], task["worker_id"]);
        let time = |field: &str| attempt[field].as_str().unwrap().to_owned();
        assert!(time("claimed_at") <= time("started_at") && time("started_at") <= time("ended_at"));
    }
    let page = place.text(&["task", "get", &id]);
    for part in ["State     dead_letter", "2 of 2", "3 of 10 (30 %)", "Attempts\n", "History\n", "not yet"] {
        assert!(page.contains(part), "{part:?} in\n{page}");
    }
    let why = place.text(&["why", &id]);
    assert!(
        why.contains("is dead_letter") && why.contains(" ago: not yet.") && why.contains("--force"),
        "{why}"
    );
    assert_eq!(place.json(&["why", &id])["reason"], "final");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_attempt_is_kept() {
    let place = Place::new();
    let id = place.submit(&["work", r#"{"end": "retry"}"#, "--max-attempts", "2", "--retry", "none"]);
    assert_eq!(place.text(&["task", "log", &id]), "no attempts yet\n");
    place.work(&[&id]).await;
    let log = place.json(&["task", "log", &id]);
    let texts = |attempt: &Value| {
        attempt["lines"].as_array().unwrap().iter().map(|line| line["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&log["attempts"][1]), ["attempt 2 begins", "nothing to note"]);
    let second = place.json(&["task", "log", &id, "--attempt", "2"]);
    assert_eq!(second["attempts"], json!([log["attempts"][1]]));
    let text = place.text(&["task", "log", &id]);
    assert!(
        text.starts_with("Attempt 1 by ")
            && text.contains("\n\nAttempt 2 by ")
            && text.contains("Z  attempt 2 begins\n"),
        "{text}"
    );
    place.run(&["task", "log", &id, "--attempt", "3"]).told(1, "has no attempt 3; it has had 2");
}

#[test]
fn lists_are_filtered() {
    let place = Place::new();
    place.submit(&["a", "--queue", "q", "--tag", "red"]);
    place.submit(&["b", "--entity", "planner:42", "--delay", "1h"]);
    place.submit(&["b", "--namespace", "tenant"]);
    let kinds = |arguments: &[&str]| {
        let listed = place.json(&[&["task", "list"], arguments].concat());
        listed["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (arguments, expected) in [
        (&[][..], &["b", "a"][..]),
        (&["--oldest-first"], &["a", "b"]),
        (&["--all-namespaces"], &["b", "b", "a"]),
        (&["--namespace", "tenant"], &["b"]),
        (&["--kind", "a"], &["a"]),
        (&["--queue", "q"], &["a"]),
        (&["--tag", "red"], &["a"]),
        (&["--entity", "planner:42"], &["b"]),
        (&["--state", "scheduled,failed"], &["b"]),
        (&["--state", "failed"], &[]),
        (&["--worker", "nobody"], &[]),
        (&["--unchanged-for", "1d"], &[]),
        (&["--unchanged-for", "0s"], &["b", "a"]),
        (&["--limit", "1"], &["b"]),
    ] {
        assert_eq!(kinds(arguments), expected, "{arguments:?}");
    }
    let text = place.text(&["task", "list"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("ID ") && lines[0].contains("STATE") && lines[1].contains("due in 59 min"),
        "{text}"
    );
    assert!(lines.iter().all(|line| *line == line.trim_end()), "nothing is padded at the end:\n{text}");
    assert_eq!(lines[0].find("KIND"), lines[1].find(" b ").map(|at| at + 1), "columns are aligned:\n{text}");
    assert_eq!(place.text(&["task", "list", "--kind", "none"]), "no such tasks\n");
    let more = place.text(&["task", "list", "--limit", "1"]);
    assert!(more.contains("more with --cursor c"), "{more}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_workers_are_listed() {
    let place = Place::new();
    place.submit(&["a"]);
    place.submit(&["a", "--delay", "1h"]);
    place.submit(&["a", "--namespace", "tenant"]);
    assert_eq!(place.text(&["worker", "list"]), "no workers\n");
    let windlass = place.open().await;
    let worker = windlass
        .worker()
        .queues(["default", "other"])
        .handle_kind("b", crate::handler)
        .start()
        .await
        .unwrap();
    // The leader is elected in its own time.
    while windlass.store().leader().await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        place.text(&["queue", "pause", "emails"]),
        "queue emails is paused; what is running goes on\n"
    );
    let queues = place.json(&["queue", "list"]);
    let queue = |name: &str| {
        queues["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == name).unwrap().clone()
    };
    assert_eq!(queue("default")["tasks"]["pending"], 1);
    assert_eq!(queue("default")["tasks"]["scheduled"], 1);
    assert_eq!(queue("default")["tasks"].as_object().unwrap().len(), 12);
    assert_eq!((&queue("other")["live_workers"], &queue("other")["paused"]), (&json!(1), &json!(false)));
    assert_eq!((&queue("emails")["live_workers"], &queue("emails")["paused"]), (&json!(0), &json!(true)));
    let text = place.text(&["queue", "list", "--all-namespaces"]);
    assert!(text.lines().any(|line| line.contains("emails") && line.ends_with("paused")), "{text}");
    assert!(text.contains("tenant"), "{text}");
    assert_eq!(place.json(&["queue", "resume", "emails"])["paused"], false);
    assert!(!place.text(&["queue", "list"]).contains("emails"));

    let workers = place.json(&["worker", "list"]);
    let one = &workers["workers"][0];
    assert_eq!(
        (&one["worker_id"], &one["alive"], &one["leader"]),
        (&json!(worker.id().as_str()), &json!(true), &json!(true))
    );
    assert_eq!((&one["queues"], &one["kinds"]), (&json!(["default", "other"]), &json!(["b"])));
    let text = place.text(&["worker", "list"]);
    assert!(text.contains("alive, leader") && text.contains(" ago"), "{text}");
    worker.stop().await.unwrap();

    let mut silent = windlass::NewWorker::new(windlass::worker_id());
    silent.dead_after = std::time::Duration::from_millis(1);
    silent.namespace = Name::namespace("tenant").unwrap();
    let silent = windlass.store().register(silent).await.unwrap();
    while silent.is_alive(windlass.store().now().await.unwrap()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(place.json(&["worker", "list"])["workers"], json!([]));
    assert_eq!(place.json(&["worker", "list", "--namespace", "tenant"])["workers"][0]["alive"], false);
    assert!(place.text(&["worker", "list", "--all-namespaces"]).contains("dead"));
    windlass.close().await.unwrap();
}

#[test]
fn counts_have_totals() {
    let place = Place::new();
    place.submit(&["a"]);
    place.submit(&["a"]);
    place.submit(&["b", "--delay", "1h"]);
    place.submit(&["c", "--namespace", "tenant"]);
    let stats = place.json(&["stats"]);
    assert_eq!(
        (&stats["tasks"], &stats["states"]["pending"], &stats["states"]["failed"]),
        (&json!(3), &json!(2), &json!(0))
    );
    let first = json!({"namespace": "default", "queue": "default", "kind": "a", "is_step": false, "state": "pending", "tasks": 2});
    assert_eq!(stats["counts"][0], first);
    assert_eq!(place.json(&["stats", "--all-namespaces"])["tasks"], 4);
    let text = place.text(&["stats"]);
    assert!(text.starts_with("QUEUE") && text.ends_with("\nall            3\n"), "{text}");
    assert_eq!(place.text(&["stats", "--namespace", "nobody"]), "no tasks\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_what_stands_in_the_way() {
    let place = Place::new();
    let id = place.submit(&["x", "--entity", "planner:42"]);
    let second = place.submit(&["x", "--entity", "planner:42"]);
    let why = place.text(&["why", &id]);
    assert!(
        why.contains("No live worker takes kind x") && why.contains("windlass work --exec 'x=COMMAND'"),
        "{why}"
    );
    let why = place.text(&["why", &second]);
    assert!(why.contains("One task of planner:42") && why.contains(&id), "{why}");
    place.text(&["queue", "pause", "default"]);
    let why = place.text(&["why", &id]);
    assert!(why.contains("`windlass queue resume default`"), "{why}");
    assert_eq!(place.json(&["why", &id])["blockers"], json!([{"queue": "default"}]));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let place = Place::new();
    place.file("tasks.jsonl", "{\"kind\": \"x\"}\n".repeat(1_000));
    place.json(&["submit", "--batch", "@tasks.jsonl"]);
    let mut command = place.command();
    command
        .args(["task", "list", "--limit", "1000"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let said = crate::Said::of(&command, child.wait_with_output().unwrap());
    assert_eq!((said.code, &*said.err), (0, ""));
}
