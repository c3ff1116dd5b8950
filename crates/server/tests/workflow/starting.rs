//! Starting workflows and waiting for them.

use serde_json::json;

use crate::{NIGHTLY, UNKNOWN, place, run_with, start, step, text, worker};

const STRICT: &str = "
name: strict
input: { type: object, required: [day] }
steps: { a: { task: echo, input: \"${input.day}\" } }
";

#[test]
fn a_workflow_is_started_once_for_each_key() {
    let place = place(&[STRICT]);
    let input = ["--input", r#"{"day": "today"}"#];
    let first = text(&place, &[&["workflow", "start", "strict", "--key", "k"], &input[..]].concat());
    let id = first.split_whitespace().next().unwrap();
    assert_eq!(first, format!("{id}  steps_in_process\n"));
    let again = place.json(&[&["workflow", "start", "strict", "--key", "k"], &input[..]].concat());
    assert_eq!(again, json!({ "id": id, "state": "steps_in_process", "created": false }));
    let refused = [&["workflow", "start", "strict", "--key", "k", "--reject-duplicate"], &input[..]].concat();
    place.run(&refused).told(1, id);

    place.file("input.json", r#"{"day": "in a file"}"#);
    let other = start(&place, &["strict", "--input", "@input.json", "--priority", "-7", "--actor", "ada"]);
    let shown = place.json(&["workflow", "get", &other]);
    assert_eq!((&shown["input"], &shown["priority"]), (&json!({ "day": "in a file" }), &json!(-7)));
    assert_eq!(shown["history"][0]["actor"], "ada");
    let read = run_with(&place, &["workflow", "start", "strict", "--input", "-", "--json"], r#"{"day": 1}"#);
    assert_eq!(read.json()["created"], true, "{}", read.err);
    let tenant = place.run(&["workflow", "start", "strict", "--namespace", "tenant"]);
    tenant.told(1, "there is no definition \"strict\"");

    for (arguments, code, told) in [
        (&["nothing"][..], 1, "there is no definition \"nothing\""),
        (&["strict", "--version", "9"], 1, "with version \"9\""),
        (&["strict"], 2, "the field(s) day, which strict needs"),
        (&["strict", "--input", "{"], 2, "input is \"{\"; expected JSON"),
        (&["strict", "--input", "@missing.json"], 2, "input from missing.json"),
        (&["strict", "--key", "", "--input", "{\"day\":1}"], 2, "idempotency key is \"\""),
        (&["strict", "--reject-duplicate"], 2, "--key"),
        (&["strict", "--wait-for", "3s"], 2, "--wait"),
        (&["strict", "--file", "x.yaml"], 2, "cannot be used with"),
        (&["--file", "missing.yaml"], 2, "definition from missing.yaml"),
        (&[], 2, "<NAME"),
    ] {
        place.run(&[&["workflow", "start"], arguments].concat()).told(code, told);
    }
}

#[test]
fn waiting_tells_how_it_ended() {
    let place = place(&[NIGHTLY, STRICT]);
    let _worker = worker(&place);
    let good = place.json(&["workflow", "start", "strict", "--input", r#"{"day": 3}"#, "--wait"]);
    assert_eq!((&good["state"], &good["output"]), (&json!("complete"), &json!({ "a": 3 })));
    assert_eq!(
        (&good["completion_percentage"], &good["execution_status"]),
        (&json!(100.0), &json!("all_complete"))
    );
    let bad = place.run(&["workflow", "start", "nightly", "--wait"]);
    assert_eq!((bad.code, bad.err.lines().count()), (1, 1), "{}", bad.err);
    assert!(bad.err.contains("is blocked_by_failures, not complete"), "{}", bad.err);
    assert!(bad.out.contains("blocked_by_failures, handle_failures, blocked"), "{}", bad.out);

    place.file("once.yaml", "name: once\nsteps:\n  one: { task: echo, input: [1] }\n  two: { task: echo, needs: one, input: \"${one}\" }\n");
    let once = place.json(&["workflow", "start", "--file", "once.yaml", "--wait"]);
    assert_eq!((&once["definition"], &once["version"]), (&json!("once"), &json!(null)), "it is its own");
    assert_eq!((&once["output"], &step(&once, "two")["level"]), (&json!({ "two": [1] }), &json!(1)));
    place.run(&["definition", "show", "once"]).told(1, "there is no definition \"once\"");
}

#[test]
fn a_wait_has_an_end() {
    let place = place(&[NIGHTLY]);
    let said = place.run(&["workflow", "start", "nightly", "--wait", "--wait-for", "50ms"]);
    said.told(1, "is not over after 50ms; `windlass workflow get");
    place.run(&["workflow", "get", UNKNOWN]).told(1, "does not exist; it was never started");
}
