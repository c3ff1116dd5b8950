//! Intervening: on workflows as a whole and on single steps.

use serde_json::{Value, json};

use crate::support::Place;
use crate::{NIGHTLY, UNKNOWN, blocked, place, start, step, text, worker};

fn state(place: &Place, id: &str, name: &str) -> Value {
    step(&place.json(&["workflow", "get", id]), name)["state"].clone()
}

#[test]
fn a_workflow_is_paused_and_goes_on() {
    let place = place(&[NIGHTLY]);
    let id = start(&place, &["nightly"]);
    let paused = text(&place, &["workflow", "pause", &id, "--reason", "the moon is full"]);
    assert_eq!(paused, format!("{id}  waiting_for_dependencies, paused\n"));
    let again = place.json(&["workflow", "pause", &id]);
    assert_eq!((&again["paused"], &again["state"]), (&json!(true), &json!("waiting_for_dependencies")));
    assert_eq!(state(&place, &id, "extract"), "waiting");
    assert!(text(&place, &["workflow", "list"]).contains("  paused\n"));
    let resumed = place.json(&["workflow", "resume", &id]);
    assert_eq!((&resumed["paused"], &resumed["state"]), (&json!(false), &json!("steps_in_process")));
    let history = place.json(&["workflow", "get", &id])["history"].clone();
    let notes: Vec<_> = history.as_array().unwrap().iter().filter_map(|it| it["note"].as_str()).collect();
    assert!(notes.contains(&"the moon is full"), "{history}");
}

#[test]
fn a_workflow_is_ended_by_hand() {
    let place = place(&[NIGHTLY]);
    let [cancelled, resolved] = [(); 2].map(|()| start(&place, &["nightly"]));
    let by = ["--reason", "enough", "--actor", "ada"];
    let done = place.json(&[&["workflow", "cancel", &*cancelled], &by[..]].concat());
    assert_eq!((&done["state"], &done["counts"]["cancelled"]), (&json!("cancelled"), &json!(6)));
    let last =
        place.json(&["workflow", "get", &cancelled])["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["actor"], &last["note"]), (&json!("ada"), &json!("enough")));
    assert_eq!(place.json(&["workflow", "cancel", &cancelled])["state"], "cancelled", "twice is once");
    assert_eq!(text(&place, &["workflow", "resolve", &resolved]), format!("{resolved}  resolved_manually\n"));
    for verb in ["pause", "resume", "resolve", "give-up"] {
        place.run(&["workflow", verb, &cancelled]).told(1, "is cancelled, and that never changes");
    }
    place.run(&["workflow", "cancel", &resolved]).told(1, "is resolved_manually");
    place.run(&["workflow", "retry", &format!("{cancelled}/extract")]).told(1, "cancelled");

    let id = blocked(&place);
    let given_up = place.json(&["workflow", "give-up", &id]);
    assert_eq!(given_up["state"], "error");
    assert_eq!(place.json(&["workflow", "give-up", &id])["state"], "error");
    let fresh = start(&place, &["nightly"]);
    place.run(&["workflow", "give-up", &fresh]).told(1, "only what is blocked by failures is given up");

    for verb in ["cancel", "pause", "resume", "resolve", "give-up"] {
        place.run(&["workflow", verb, UNKNOWN]).told(1, "does not exist");
        place.run(&["workflow", verb, "x"]).told(2, "a UUID such as");
    }
    place.run(&["workflow", "resolve", &fresh, "--result", "1"]).told(2, "--result is for a step");
    place.run(&["workflow", "pause", &format!("{fresh}/extract")]).told(2, "a UUID such as");
}

#[test]
fn a_step_is_settled_and_its_workflow_goes_on() {
    let place = place(&[NIGHTLY]);
    let id = blocked(&place);
    let bad = format!("{id}/bad");
    let retried = place.json(&["workflow", "retry", &bad, "--force", "--reason", "again"]);
    assert_eq!(
        (&retried["state"], &retried["changed"], &retried["step"]),
        (&json!("pending"), &json!(true), &json!("bad"))
    );
    assert_eq!(retried["workflow_id"], *id);
    let task = place.task(retried["id"].as_str().unwrap());
    assert_eq!(task["history"].as_array().unwrap().last().unwrap()["note"], "again");
    let resolved = text(&place, &["workflow", "resolve", &bad, "--result", "{\"n\": 1e2}"]);
    assert_eq!(resolved, format!("{bad}  resolved_manually\n"));
    let again = text(&place, &["workflow", "resolve", &bad, "--result", "{\"n\": 1e2}"]);
    assert_eq!(again, format!("{bad}  resolved_manually  was so already\n"));
    assert_eq!(state(&place, &id, "after"), "pending");
    let completed = place.json(&["workflow", "complete", &format!("{id}/after"), "--result", "-5"]);
    assert_eq!((&completed["state"], &completed["changed"]), (&json!("resolved_manually"), &json!(true)));
    let whole = place.json(&["workflow", "get", &id]);
    assert_eq!((&whole["state"], &whole["output"]["after"]), (&json!("complete"), &json!(-5)));

    place.run(&["workflow", "complete", &bad]).told(2, "--result");
    place.run(&["workflow", "complete", &bad, "--result", "{"]).told(2, "result is \"{\"");
    place.run(&["workflow", "skip", &bad]).told(1, "resolved_manually");
    place.run(&["workflow", "retry", &format!("{id}/extract")]).told(1, "completed");
    for verb in ["retry", "skip", "cancel", "resolve"] {
        place.run(&["workflow", verb, &format!("{id}/nope")]).told(2, "expected one of extract, regions");
        place.run(&["workflow", verb, &format!("{id}/regions[9]")]).told(1, "does not exist");
        place.run(&["workflow", verb, &format!("{UNKNOWN}/a")]).told(1, "does not exist");
    }
    for verb in ["retry", "skip"] {
        place.run(&["workflow", verb, &id]).told(2, "ID/STEP");
    }
}

#[test]
fn a_step_is_skipped_or_cancelled() {
    let place = place(&[NIGHTLY]);
    let [one, two] = [(); 2].map(|()| start(&place, &["nightly"]));
    assert_eq!(place.json(&["workflow", "skip", &format!("{one}/extract")])["state"], "skipped");
    assert_eq!(state(&place, &one, "bad"), "skipped", "what needs it is skipped too");
    assert_eq!(state(&place, &one, "publish"), "pending", "what only waits for an end goes on");
    assert_eq!(place.json(&["workflow", "skip", &format!("{one}/extract")])["changed"], false);
    assert_eq!(place.json(&["workflow", "cancel", &format!("{two}/extract")])["state"], "cancelled");
    assert_eq!(state(&place, &two, "bad"), "skipped");
}

#[test]
fn a_workflow_is_repeated_from_a_step() {
    let place = place(&[NIGHTLY]);
    let id = blocked(&place);
    let again = place.json(&["workflow", "rerun", &id, "--from", "bad", "--actor", "ada"]);
    assert_eq!(again["created"], true);
    let new = again["id"].as_str().unwrap();
    let seen = place.json(&["workflow", "get", new]);
    assert_eq!((&seen["origin_id"], &seen["history"][0]["actor"]), (&json!(id), &json!("ada")));
    let states = ["extract", "regions", "bad", "after"].map(|name| step(&seen, name)["state"].clone());
    assert_eq!(states, ["resolved_manually", "resolved_manually", "pending", "waiting"].map(|it| json!(it)));
    assert!(text(&place, &["workflow", "get", new]).contains(&format!("Repeats     {id}")));
    let worker = worker(&place);
    place.run(&["workflow", "rerun", &id, "--from", "nope"]).told(2, "expected one of extract");
    place.run(&["workflow", "rerun", UNKNOWN, "--from", "bad"]).told(1, "does not exist");
    place.run(&["workflow", "rerun", &id]).told(2, "--from");
    worker.kill();
}
