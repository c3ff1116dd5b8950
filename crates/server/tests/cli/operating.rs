//! Intervening, and keeping house.

use serde_json::{Value, json};

use crate::Place;

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_cancelled_retried_resolved_and_deleted() {
    let place = Place::new();
    let (one, other) = (place.submit(&["work"]), place.submit(&["work"]));
    let cancelled = place.json(&["task", "cancel", &one, &other, "--reason", "not needed", "--actor", "ada"]);
    assert_eq!(cancelled["tasks"][0], json!({"id": one, "state": "cancelled", "changed": true}));
    assert_eq!(place.text(&["task", "cancel", &one]), format!("{one}  cancelled  was so already\n"));
    let entry = place.json(&["task", "get", &one])["history"][1].clone();
    assert_eq!(
        (&entry["actor"], &entry["note"], &entry["to"]),
        (&json!("ada"), &json!("not needed"), &json!("cancelled"))
    );
    assert_eq!(place.text(&["task", "retry", &one]), format!("{one}  pending\n"));
    assert_eq!(place.json(&["task", "get", &one])["history"][2]["actor"], "grace", "who is logged in");
    let resolved = place.json(&["task", "resolve", &one, "--result", "{\"by\": \"hand\"}"]);
    assert_eq!(resolved["tasks"][0]["state"], "resolved_manually");
    assert_eq!(place.json(&["task", "get", &one])["result"]["by"], "hand");
    assert_eq!(place.text(&["task", "delete", &one, &other]), format!("{one}  deleted\n{other}  deleted\n"));
    assert_eq!(place.json(&["stats"])["tasks"], 0);
}

/// A worker in another process hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_put_off_and_brought_forward() {
    let place = Place::new();
    let slow = ["--max-attempts", "2", "--retry-base", "1h", "--retry-cap", "1h"];
    let id = place.submit(&[&["work", r#"{"end": "retry"}"#][..], &slow].concat());
    place.run(&["task", "postpone", &id, "5m"]).told(1, "only a task that is waiting_for_retry");
    let windlass = place.open().await;
    let mut rings = windlass.store().watch();
    let worker = windlass.worker().handle_kind("work", crate::handler).start().await.unwrap();
    let task = || place.json(&["task", "get", &id]);
    while task()["state"] != "waiting_for_retry" {
        rings.changed().await.unwrap();
    }
    let put_off = place.json(&["task", "postpone", &id, "2d"]);
    assert_eq!(put_off["tasks"][0], json!({"id": id, "state": "waiting_for_retry", "changed": true}));
    let before = task()["history"].clone();
    assert_eq!(place.text(&["task", "postpone", &id, "0s"]), format!("{id}  waiting_for_retry\n"));
    windlass.client().wait(id.parse().unwrap()).await.unwrap();
    worker.stop().await.unwrap();
    windlass.close().await.unwrap();
    let (before, after) = (before.as_array().unwrap().len(), task());
    assert_eq!((&after["state"], &after["attempt"]), (&json!("dead_letter"), &json!(2)));
    assert_eq!(after["history"][before]["reason"], "due", "nothing was written in between: {after}");
}

#[test]
fn one_that_is_refused_does_not_hinder_the_others() {
    let place = Place::new();
    let (one, other) = (place.submit(&["x"]), place.submit(&["x"]));
    place.json(&["task", "resolve", &one]);
    let said = place.run(&["task", "cancel", &one, &other, "--json"]);
    assert_eq!((said.code, said.err.lines().count()), (1, 1), "{}", said.err);
    assert!(said.err.starts_with("windlass: 1 of 2 tasks were refused; the first: task"), "{}", said.err);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(value["tasks"][0]["error"]["code"], "task_settled");
    assert_eq!(value["tasks"][1]["state"], "cancelled");
    let said = place.run(&["task", "cancel", &one, &other]);
    assert!(said.out.contains("refused: task") && said.out.contains("was so already"), "{}", said.out);
    place.run(&["task", "cancel", &one]).told(1, "never changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_driven_again() {
    let place = Place::new();
    let dead = place.submit(&["work", r#"{"end": "retry"}"#, "--max-attempts", "1"]);
    let failed = place.submit(&["work", r#"{"end": "fail"}"#]);
    place.work(&[&dead, &failed]).await;
    let all = ["task", "retry", "--all", "--kind", "work", "--state", "dead_letter"];
    assert_eq!(place.text(&[&all[..], &["--dry-run"]].concat()), "1 would be made to run again\n");
    assert_eq!(place.json(&[&all[..], &["--older-than", "1h"]].concat())["found"], 0, "it has just died");
    assert_eq!(place.json(&["task", "get", &dead])["state"], "dead_letter", "nothing was done");
    let usual = place.run(&["task", "retry", "--all", "--kind", "work"]);
    assert_eq!((usual.code, &*usual.out), (1, "1 made to run again, 0 unchanged, 1 refused\n"));
    assert!(
        usual.err.starts_with("windlass: 1 of 2 tasks were refused; the first: task")
            && usual.err.contains("force"),
        "{}",
        usual.err
    );
    assert_eq!(place.json(&["task", "get", &failed])["state"], "pending", "without a state it is meant, too");
    // Named as what they are, dead letters have no other way to run again.
    let again = place.json(&[&all[..], &["--reason", "fixed"]].concat());
    assert_eq!(again, json!({"dry_run": false, "found": 1, "changed": 1, "unchanged": 0, "refused": 0}));
    let told = place.json(&["task", "get", &dead]);
    assert_eq!((&told["state"], &told["attempt"]), (&json!("pending"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_purged_and_only_they_start_over() {
    let place = Place::new();
    let dead = place.submit(&["work", r#"{"end": "retry"}"#, "--max-attempts", "1"]);
    let other = place.submit(&["work", r#"{"end": "retry"}"#, "--max-attempts", "1", "--tag", "old"]);
    let failed = place.submit(&["work", r#"{"end": "fail"}"#, "--max-attempts", "7"]);
    place.work(&[&dead, &other, &failed]).await;
    place.run(&["task", "retry", &dead, &other]).good_but(1, "2 of 2 tasks were refused");
    let purge = ["task", "delete", "--all", "--state", "dead_letter", "--tag", "old"];
    assert_eq!(place.text(&[&purge[..], &["--dry-run"]].concat()), "1 would be deleted\n");
    assert_eq!(place.text(&purge), "1 deleted, 0 unchanged, 0 refused\n");
    let both = place.json(&["task", "retry", "--all", "--state", "failed,dead_letter"]);
    assert_eq!((&both["changed"], &both["refused"]), (&json!(2), &json!(0)));
    let attempt = |id: &str| place.json(&["task", "get", id])["attempt"].clone();
    assert_eq!((attempt(&dead), attempt(&failed)), (json!(0), json!(1)), "what failed goes on counting");
}

#[test]
fn selections_page_through_everything_and_only_what_was_meant() {
    let place = Place::new();
    place.file("tasks.jsonl", "{\"kind\": \"a\"}\n{\"kind\": \"b\"}\n".repeat(1_250));
    place.json(&["submit", "--batch", "@tasks.jsonl"]);
    place.submit(&["a", "--namespace", "tenant"]);
    let all = ["task", "cancel", "--all", "--kind", "a"];
    assert_eq!(place.text(&[&all[..], &["--dry-run"]].concat()), "1250 would be cancelled\n");
    assert_eq!(place.json(&[&all[..], &["--dry-run"]].concat())["found"], 1_250);
    assert_eq!(place.json(&["stats"])["states"]["cancelled"], 0, "nothing was done");
    assert_eq!(place.text(&all), "1250 cancelled, 0 unchanged, 0 refused\n");
    let stats = place.json(&["stats", "--all-namespaces"]);
    assert_eq!((&stats["states"]["cancelled"], &stats["states"]["pending"]), (&json!(1_250), &json!(1_251)));
    assert_eq!(
        place.text(&["task", "delete", "--all", "--kind", "a"]),
        "1250 deleted, 0 unchanged, 0 refused\n"
    );
    let everywhere = ["task", "cancel", "--all", "--state", "pending", "--all-namespaces"];
    assert_eq!(place.json(&everywhere)["changed"], 1_251);
}

#[test]
fn old_tasks_are_pruned() {
    let place = Place::new();
    place.file("tasks.jsonl", "{\"kind\": \"a\"}\n".repeat(1_500));
    place.json(&["submit", "--batch", "@tasks.jsonl"]);
    place.json(&["task", "cancel", "--all", "--kind", "a"]);
    assert_eq!(place.json(&["prune", "--keep", "cancelled=1d"])["deleted"], 0);
    assert_eq!(place.json(&["prune", "--keep", "completed=0s"])["deleted"], 0);
    assert_eq!(place.json(&["prune", "--keep", "cancelled=0s", "--limit", "7"])["deleted"], 7);
    assert_eq!(place.json(&["prune", "--keep", "cancelled=0s", "--limit", "0"])["deleted"], 0);
    assert_eq!(
        place.text(&["prune", "--keep", "cancelled=0s", "--keep", "failed=30d"]),
        "1493 tasks deleted\n"
    );
    assert_eq!(place.text(&["stats"]), "no tasks\n");
}

#[test]
fn entities_are_registered() {
    let place = Place::new();
    let added = place.json(&["entity", "add", "planner:42", "planner:43", "planner:42"]);
    assert_eq!(added["entities"][0], json!({"entity": "planner:42", "registered": true, "changed": true}));
    assert_eq!(added["entities"][2]["changed"], false);
    assert_eq!(place.text(&["entity", "list"]), "planner:42\nplanner:43\n");
    assert_eq!(place.text(&["entity", "list", "--limit", "1"]), "planner:42\nmore with --after planner:42\n");
    assert_eq!(
        place.json(&["entity", "list", "--after", "planner:42"]),
        json!({"entities": ["planner:43"], "next_after": null})
    );
    assert_eq!(place.text(&["entity", "check", "planner:42"]), "planner:42 is registered\n");
    assert_eq!(place.json(&["entity", "check", "planner:42"])["registered"], true);
    let other = place.run(&["entity", "check", "planner:42", "--namespace", "tenant", "--json"]);
    assert_eq!((other.code, &*other.out), (1, "{\"entity\":\"planner:42\",\"registered\":false}\n"));
    place.submit(&["x", "--entity", "planner:42", "--require-entity"]);
    assert_eq!(
        place.text(&["entity", "remove", "planner:42", "planner:44"]),
        "planner:42  forgotten\nplanner:44  was not registered\n"
    );
    assert_eq!(place.json(&["entity", "remove", "planner:43"])["entities"][0]["changed"], true);
    assert_eq!(place.text(&["entity", "list"]), "no entities\n");
}

#[test]
fn a_database_is_migrated() {
    let place = Place::new();
    let planned = place.json(&["migrate", "--dry-run"]);
    assert_eq!(planned["dry_run"], true);
    assert!(
        planned["migrations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["applied_at"].is_null() && one["new"] == true)
    );
    assert!(place.text(&["migrate", "--dry-run"]).contains("not yet"));
    assert_eq!(place.files(), [""; 0], "a dry run makes no file");
    let done = place.json(&["migrate"]);
    assert_eq!(done["migrations"].as_array().unwrap().len(), planned["migrations"].as_array().unwrap().len());
    assert!(
        done["migrations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["applied_at"].is_string() && one["new"] == true)
    );
    let again = place.text(&["migrate"]);
    assert!(again.starts_with("VERSION  NAME") && again.ends_with("up to date\n"), "{again}");
    assert_eq!(place.text(&["--store", "memory:", "migrate"]), "nothing to migrate\n");
}
