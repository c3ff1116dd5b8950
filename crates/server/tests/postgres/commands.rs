//! A tour of all commands. What they mean is tested on files; here it is that they work.

use serde_json::{Value, json};

use crate::Database;
use crate::support::Place;

/// Runs a command for people and gives what it says; it succeeds.
fn text(place: &Place, arguments: &[&str]) -> String {
    let said = place.run(arguments);
    assert_eq!((said.code, &*said.err), (0, ""), "{arguments:?}: {}", said.out);
    said.out
}

#[test]
fn tasks_are_submitted_worked_off_and_looked_at() {
    let place = Database::new().place();
    let id = place.submit(&["greet", "\"Ada\"", "--key", "k", "--tag", "t"]);
    assert!(text(&place, &["submit", "greet", "1", "--key", "k"]).contains("existed already"));
    place.run(&["submit", "greet", "--key", "k", "--reject-duplicate"]).told(1, "exists already");
    assert!(text(&place, &["why", &id]).contains("No live worker takes kind greet"));
    let said = place.drain(&["--exec", "greet=echo hello >&2; cat"]);
    assert!(said.err.contains("durability none: fsync"), "how safe it is is said at start: {}", said.err);
    assert!(said.err.contains("greet attempt 1 completed"), "{}", said.err);
    let task = place.task(&id);
    assert_eq!(
        (&task["state"], &task["result"], &task["attempt"]),
        (&json!("completed"), &json!("Ada"), &json!(1))
    );
    assert_eq!(task["history"].as_array().unwrap().len(), 4);
    assert!(text(&place, &["task", "log", &id]).contains("hello"));
    assert_eq!(place.json(&["task", "list", "--tag", "t", "--state", "completed"])["tasks"][0]["id"], id);
    assert_eq!(place.json(&["stats"])["states"]["completed"], 1);
    assert_eq!(place.files(), [""; 0], "nothing is kept in a file");
}

#[test]
fn a_worker_waits_and_is_woken() {
    let place = Database::new().place();
    let mut worker = place.work(&["--exec", "greet=cat"]);
    let done = place.json(&["submit", "greet", "7", "--wait", "--wait-for", "30s"]);
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!(7)));
    assert_eq!(place.json(&["worker", "list"])["workers"].as_array().unwrap().len(), 1);
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.end().code, 0);
    assert_eq!(place.json(&["worker", "list"])["workers"], json!([]));
}

#[test]
fn programs_find_the_same_store() {
    let place = Database::new().place();
    place.submit(&["parent"]);
    place.drain(&["--pass-store", "--exec", "parent=$WINDLASS submit child >&2"]);
    let kinds: Vec<Value> = place.tasks().iter().map(|task| task["kind"].clone()).collect();
    assert_eq!(kinds, ["child", "parent"]);
}

#[test]
fn operators_intervene() {
    let place = Database::new().place();
    let (one, other) = (place.submit(&["x"]), place.submit(&["x"]));
    assert_eq!(place.json(&["task", "cancel", &one, &other])["tasks"][1]["state"], "cancelled");
    assert_eq!(place.json(&["task", "retry", &one, &other])["tasks"][1]["state"], "pending");
    assert_eq!(
        place.json(&["task", "resolve", &one, "--result", "1"])["tasks"][0]["state"],
        "resolved_manually"
    );
    assert_eq!(text(&place, &["task", "delete", &one]), format!("{one}  deleted\n"));
    place.run(&["task", "get", &one]).told(1, "does not exist");
    place.submit_many(2_300, "many", |n| json!(n));
    let all = ["task", "cancel", "--all", "--kind", "many"];
    assert_eq!(text(&place, &[&all[..], &["--dry-run"]].concat()), "2300 would be cancelled\n");
    assert_eq!(text(&place, &all), "2300 cancelled, 0 unchanged, 0 refused\n");
    assert_eq!(place.json(&["prune", "--keep", "cancelled=0s", "--limit", "300"])["deleted"], 300);
    assert_eq!(place.json(&["task", "delete", "--all", "--kind", "many"])["changed"], 2_000);
    assert_eq!(place.json(&["stats"])["tasks"], 1);
}

#[test]
fn dead_letters_are_listed_driven_again_and_purged() {
    let place = Database::new().place();
    for (kind, queue, namespace) in
        [("a", "q", "default"), ("b", "q", "default"), ("a", "default", "default"), ("a", "q", "tenant")]
    {
        place.submit(&[kind, "--queue", queue, "--namespace", namespace, "--max-attempts", "1"]);
    }
    let die = ["--exec", "a=exit 75", "--exec", "b=exit 75", "--queue", "q", "--queue", "default", "--quiet"];
    let die_all = || {
        place.drain(&die);
        place.drain(&[&die[..], &["--namespace", "tenant"]].concat());
    };
    die_all();
    let list = |arguments: &[&str]| {
        let listed = place.json(&[&["task", "list", "--state", "dead_letter"], arguments].concat());
        listed["tasks"].as_array().unwrap().len()
    };
    assert_eq!((list(&[]), list(&["--kind", "a"]), list(&["--namespace", "tenant"])), (3, 2, 1));
    assert_eq!((list(&["--older-than", "1h"]), list(&["--older-than", "0s"])), (0, 3));
    for verb in ["retry", "delete"] {
        let all = |arguments: &[&str]| {
            place.json(&[&["task", verb, "--all", "--state", "dead_letter"], arguments].concat())
        };
        assert_eq!(all(&["--dry-run"])["found"], 3);
        assert_eq!(all(&["--older-than", "1h"])["found"], 0);
        assert_eq!(all(&["--kind", "a", "--queue", "q", "--namespace", "tenant"])["changed"], 1);
        assert_eq!(all(&["--kind", "a", "--queue", "q"])["changed"], 1);
        assert_eq!(all(&["--dry-run", "--all-namespaces"])["found"], 2);
        assert_eq!(
            all(&[]),
            json!({"dry_run": false, "found": 2, "changed": 2, "unchanged": 0, "refused": 0})
        );
        assert_eq!(list(&["--all-namespaces"]), 0);
        if verb == "retry" {
            die_all();
        }
    }
    assert_eq!(place.json(&["stats", "--all-namespaces"])["tasks"], 0);
}

#[test]
fn queues_schedules_and_entities() {
    let place = Database::new().place();
    assert!(text(&place, &["queue", "pause", "q"]).contains("is paused"));
    assert_eq!(place.json(&["queue", "list"])["queues"][0]["paused"], true);
    assert!(text(&place, &["queue", "resume", "q"]).contains("is not paused"));
    assert_eq!(place.json(&["schedule", "set", "nightly", "0 3 * * *", "report:make"])["name"], "nightly");
    assert_eq!(place.json(&["schedule", "list"])["schedules"][0]["name"], "nightly");
    assert_eq!(place.json(&["schedule", "run", "nightly"])["state"], "pending");
    for verb in ["pause", "resume", "show", "remove"] {
        text(&place, &["schedule", verb, "nightly"]);
    }
    text(&place, &["entity", "add", "planner:42"]);
    text(&place, &["entity", "check", "planner:42"]);
    place.submit(&["x", "--entity", "planner:42", "--require-entity"]);
    place.run(&["submit", "x", "--entity", "planner:43", "--require-entity"]).told(1, "is not registered");
    assert_eq!(text(&place, &["entity", "list"]), "planner:42\n");
    text(&place, &["entity", "remove", "planner:42"]);
}

#[test]
fn the_demonstration() {
    let said = text(&Database::new().place(), &["demo"]);
    assert!(
        said.contains("lease_expired") && said.contains("No live worker takes kind demo:unknown"),
        "{said}"
    );
}

#[test]
fn several_in_one_database_do_not_meet() {
    let database = Database::new();
    let (one, other) = (database.place(), Place::with_store(format!("{}?schema=other", database.address())));
    one.submit(&["x"]);
    other.submit(&["y", "--key", "k"]);
    other.submit(&["y"]);
    assert_eq!(
        (one.json(&["stats"])["tasks"].clone(), other.json(&["stats"])["tasks"].clone()),
        (json!(1), json!(2))
    );
    assert!(database.schemas().contains(&"other".into()) && database.schemas().contains(&"windlass".into()));
}
