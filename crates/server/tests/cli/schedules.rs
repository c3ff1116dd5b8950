//! `windlass schedule`.

use serde_json::{Value, json};

use crate::Place;

#[test]
fn a_schedule_is_set_looked_at_and_removed() {
    let place = Place::new();
    let set = place.json(&[
        "schedule",
        "set",
        "nightly",
        "0 3 * * *",
        "report:make",
        r#"{"n": 123456789012345678901234567890}"#,
        "--zone",
        "europe/berlin",
        "--missed",
        "all:3",
        "--overlap",
        "queue",
        "--queue",
        "reports",
        "--priority",
        "5",
        "--timeout",
        "5m",
        "--max-attempts",
        "none",
        "--tag",
        "night",
        "--lane",
        "reports:2",
    ]);
    assert_eq!(
        (&set["cron"], &set["missed"], &set["overlap"]),
        (&json!("0 3 * * *"), &json!("all:3"), &json!("queue"))
    );
    assert_eq!((&set["task"]["queue"], &set["task"]["lane"]["limit"]), (&json!("reports"), &json!(2)));
    assert_eq!((&set["task"]["max_attempts"], &set["task"]["timeout_seconds"]), (&Value::Null, &json!(300)));
    assert!(set["next_at"].as_str().unwrap().ends_with(":00:00.000000Z"));
    assert_eq!(place.json(&["schedule", "show", "nightly"]), set);
    assert_eq!(place.json(&["schedule", "list"])["schedules"], json!([set]));
    let shown = place.text(&["--json", "schedule", "list"]);
    assert!(shown.contains(r#""payload":{"n":123456789012345678901234567890}"#), "{shown}");
    let page = place.text(&["schedule", "show", "nightly"]);
    assert!(
        page.contains("Next") && page.contains(", in ") && page.contains("reports, 2 at a time"),
        "{page}"
    );

    let run = place.json(&["schedule", "run", "nightly"]);
    assert_eq!((&run["state"], &run["created"]), (&json!("pending"), &json!(true)));
    let listed = place.json(&["schedule", "list"])["schedules"][0].clone();
    assert_eq!(
        (&listed["last_task_id"], &listed["last_task_state"], &listed["fired"]),
        (&run["id"], &json!("pending"), &json!(1))
    );
    let paused = place.json(&["schedule", "pause", "nightly"]);
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &Value::Null));
    let list = place.text(&["schedule", "list"]);
    assert!(list.contains("paused") && list.contains("pending"), "{list}");
    assert_eq!(place.json(&["schedule", "resume", "nightly"])["next_at"], set["next_at"]);
    place.json(&["task", "resolve", run["id"].as_str().unwrap()]);
    place.json(&["task", "delete", run["id"].as_str().unwrap()]);
    assert!(place.text(&["schedule", "list"]).contains("gone"));

    assert_eq!(place.json(&["schedule", "list", "--namespace", "tenant"])["schedules"], json!([]));
    assert_eq!(
        place.json(&["schedule", "list", "--all-namespaces"])["schedules"].as_array().unwrap().len(),
        1
    );
    place.run(&["schedule", "remove", "nightly", "--namespace", "tenant"]).told(1, "does not exist");
    assert!(place.text(&["schedule", "remove", "nightly"]).contains("is removed"));
    assert_eq!(place.text(&["schedule", "list"]), "no schedules\n");
}

#[test]
fn setting_it_again_changes_it() {
    let place = Place::new();
    place.json(&["schedule", "set", "s", "@hourly", "a"]);
    let paused = place.json(&["schedule", "set", "s", "@daily", "b", "--paused"]);
    assert_eq!(
        (&paused["cron"], &paused["task"]["kind"], &paused["paused"]),
        (&json!("@daily"), &json!("b"), &json!(true))
    );
    let again = place.json(&["schedule", "set", "s", "@daily", "b"]);
    assert_eq!(again["paused"], true, "a pause stays until it is resumed");
    let refused = place.run(&["schedule", "set", "s", "@never", "c"]);
    refused.told(2, "5 fields");
    assert_eq!(place.json(&["schedule", "show", "s"])["task"]["kind"], "b");
}

#[test]
fn slots_are_previewed_without_a_store() {
    let place = Place::new();
    let preview = place.json(&["schedule", "preview", "0 3 * * *", "--zone", "Europe/Berlin", "-n", "3"]);
    assert_eq!((&preview["cron"], &preview["zone"]), (&json!("0 3 * * *"), &json!("Europe/Berlin")));
    let slots: Vec<_> =
        preview["slots"].as_array().unwrap().iter().map(|slot| slot.as_str().unwrap()).collect();
    assert!(slots.len() == 3 && slots.is_sorted());
    let text = place.text(&["schedule", "preview", "*/5 * * * *"]);
    assert_eq!(text.lines().count(), 11, "{text}");
    assert!(text.lines().nth(1).unwrap().contains("UTC  in "), "{text}");
    assert_eq!(place.files(), [""; 0]);
}
