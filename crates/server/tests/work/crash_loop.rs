//! A worker that is killed again and again by one of its tasks.

use serde_json::json;

use super::support::Place;

/// I13: a task kills its worker each time it is started, and the worker is started again each time. What the
/// worker had claimed beside it and not started is done in the end; the killer is a dead letter after its
/// attempts.
#[test]
fn one_task_that_kills_its_worker_harms_no_other() {
    let place = Place::new();
    let killer = place.submit(&["kill", "--max-attempts", "5"]);
    place.submit_many(60, "note", |n| json!(n));
    // Quick enough to be claimed ahead, and slow enough to be there when the killer comes back.
    let execs =
        ["--exec", "kill=kill -9 $PPID", "--exec", "note=sleep 0.05", "--pool", "1", "--dead-after", "1s"];
    for death in 1..=5 {
        let said = place.work(&execs).end();
        assert_ne!(said.code, 0, "worker {death} was to be killed: {}", said.err);
    }
    let said = place.drain(&execs);
    assert_eq!(said.code, 0, "{}", said.err);
    let killer = place.task(&killer);
    assert_eq!((&killer["state"], &killer["attempt"]), (&json!("dead_letter"), &json!(5)), "{killer}");
    let tasks = place.json(&["task", "list", "--limit", "100"])["tasks"].as_array().unwrap().clone();
    assert_eq!(tasks.len(), 61);
    for task in tasks.iter().filter(|task| task["kind"] == "note") {
        let attempt = task["attempt"].as_u64().unwrap();
        assert_eq!(task["state"], "completed", "{task}");
        assert!(attempt <= 2, "one attempt at most is lost to the crashes of another: {task}");
    }
}
