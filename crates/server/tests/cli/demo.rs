//! The demonstration.

use crate::Place;

#[test]
fn it_shows_what_it_says() {
    let place = Place::new();
    let shown = place.json(&["demo"]);
    let states: Vec<_> =
        shown["tasks"].as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
    let expected =
        ["completed", "completed", "dead_letter", "completed", "completed", "completed", "pending"];
    assert_eq!(states, expected, "the second submit of the key made no task");
    let recovered = shown["tasks"][0]["history"].as_array().unwrap();
    assert!(recovered.iter().any(|entry| entry["reason"] == "lease_expired"), "a worker was lost");
    assert_eq!(shown["tasks"][1]["attempt"], 3);
    assert_eq!(shown["tasks"][0]["result"], "hello Ada");
    assert_eq!(shown["why"]["reason"], "no_worker");
    assert!(place.files().contains(&"windlass.db".into()), "the default store is a file");
    assert_eq!(
        place.json(&["worker", "list"])["workers"].as_array().unwrap().len(),
        0,
        "nothing is left behind"
    );
    let again = place.text(&["demo"]);
    assert!(again.contains("lease_expired") && again.contains("Why is the last one"), "{again}");
}

#[test]
fn what_was_done_can_be_looked_at() {
    let place = Place::new();
    let shown = place.json(&["demo", "--namespace", "tenant"]);
    let id = shown["tasks"][2]["id"].as_str().unwrap();
    assert_eq!(place.json(&["task", "get", id]), shown["tasks"][2]);
    assert_eq!(place.json(&["task", "get", &id.replace('-', "")]), shown["tasks"][2], "ids without dashes");
    let listed = place.json(&["task", "list", "--state", "dead_letter", "--namespace", "tenant"]);
    assert_eq!(listed["tasks"][0]["id"], id);
    assert_eq!(listed["next_cursor"], serde_json::Value::Null);
    assert_eq!(
        place.json(&["task", "list"])["tasks"].as_array().unwrap().len(),
        0,
        "other namespaces are not shown"
    );
    let page = place.json(&["task", "list", "--all-namespaces", "--limit", "3"]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = place.json(&["task", "list", "--all-namespaces", "--cursor", cursor]);
    assert_eq!(rest["tasks"].as_array().unwrap().len(), 4);
    let oldest = place.json(&["task", "list", "--all-namespaces", "--limit", "1", "--oldest-first"]);
    assert_eq!(oldest["tasks"][0]["id"], shown["tasks"][0]["id"]);
}
