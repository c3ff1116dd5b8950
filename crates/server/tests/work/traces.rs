//! What is submitted on the command line is part of what was said, or of what the program is part of; and
//! programs are told.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::Place;

const FIRST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// The program, as part of `trace`.
fn within(place: &Place, trace: &str) -> Command {
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    command.env("TRACEPARENT", trace);
    command
}

/// The id that the program prints, as part of `trace`.
fn id(place: &Place, trace: &str, arguments: &[&str]) -> String {
    let output = within(place, trace).args(arguments).arg("--json").output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    said["id"].as_str().unwrap().into()
}

#[test]
fn a_submit_is_part_of_what_it_says_or_of_what_the_program_is_part_of() {
    let place = Place::new();
    let trace = |id: &str| place.task(id)["traceparent"].clone();
    assert_eq!(trace(&place.submit(&["x"])), Value::Null);
    assert_eq!(trace(&place.submit(&["x", "--traceparent", FIRST])), FIRST);
    assert_eq!(trace(&id(&place, FIRST, &["submit", "x"])), FIRST);
    assert_eq!(trace(&id(&place, FIRST, &["submit", "x", "--traceparent", OTHER])), OTHER);
    for nonsense in ["", "00-0af7", &FIRST.to_uppercase()] {
        assert_eq!(trace(&id(&place, nonsense, &["submit", "x"])), Value::Null, "{nonsense:?}");
    }
    let shown = place.run(&["task", "get", &place.submit(&["x", "--traceparent", FIRST])]);
    assert!(shown.out.contains(FIRST), "{}", shown.out);
    let before = place.tasks().len();
    let refused = place.run(&["submit", "x", "--traceparent", "00-0af7"]);
    refused.told(2, "traceparent is \"00-0af7\"; expected 00-TRACE-SPAN-FLAGS");
    assert_eq!(place.tasks().len(), before);
}

#[test]
fn lines_of_a_batch_may_say_otherwise() {
    let place = Place::new();
    let lines = [json!({ "kind": "a" }), json!({ "kind": "b", "traceparent": OTHER })];
    place.file("batch.jsonl", lines.map(|line| format!("{line}\n")).concat());
    let output = within(&place, FIRST).args(["submit", "--batch", "@batch.jsonl"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut traces: Vec<_> =
        place.tasks().iter().map(|task| [task["kind"].clone(), task["traceparent"].clone()]).collect();
    traces.reverse();
    assert_eq!(traces, [[json!("a"), json!(FIRST)], [json!("b"), json!(OTHER)]]);
    place.file("bad.jsonl", "{\"kind\": \"a\"}\n{\"kind\": \"b\", \"traceparent\": \"x\"}\n");
    place.run(&["submit", "--batch", "@bad.jsonl"]).told(2, "line 2");
    assert_eq!(place.tasks().len(), 2, "nothing of it");
}

/// A program of a task that is part of nothing is part of nothing, even if its worker is.
#[test]
fn programs_find_what_their_task_is_part_of() {
    let place = Place::new();
    let with = place.submit(&["tell", "--traceparent", FIRST]);
    let without = place.submit(&["tell"]);
    let tell = r#"tell=printf '"%s"' "${TRACEPARENT-nothing}""#;
    let output = within(&place, OTHER).args(["work", "--drain", "--exec", tell]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.task(&with)["result"], FIRST);
    assert_eq!(place.task(&without)["result"], "nothing");
}

/// From one program to the next, without a word about it.
#[test]
fn what_a_program_submits_goes_on() {
    let place = Place::new();
    place.submit(&["first", "--traceparent", FIRST]);
    place.drain(&["--exec", r#"first="$WINDLASS" submit second --json"#, "--pass-store"]);
    let second = place.tasks().into_iter().find(|task| task["kind"] == "second").unwrap();
    assert_eq!(second["traceparent"], FIRST);
}

#[test]
fn steps_find_what_their_workflow_is_part_of() {
    let place = Place::new();
    place.file("tell", r#"printf '"%s"' "${TRACEPARENT-nothing}""#);
    let map = "map: { over: '[1, 2]' }";
    place.file(
        "flow.yaml",
        format!(
            "{{ name: flow, steps: {{ a: {{ run: sh tell }}, b: {{ run: sh tell, needs: a, {map} }} }} }}"
        ),
    );
    for (trace, arguments, expected) in [
        (FIRST, &["workflow", "start", "--file", "flow.yaml"][..], FIRST),
        (FIRST, &["workflow", "start", "--file", "flow.yaml", "--traceparent", OTHER], OTHER),
        ("", &["workflow", "start", "--file", "flow.yaml"], "nothing"),
    ] {
        let id = id(&place, trace, arguments);
        place.drain(&["--run-steps", "--run-ad-hoc"]);
        let tasks = place.json(&["task", "list", "--workflow", &id])["tasks"].as_array().unwrap().clone();
        let items = tasks.iter().filter_map(|task| task["id"].as_str());
        let mut results: Vec<_> = items.map(|id| place.task(id)["result"].clone()).collect();
        results.sort_by_key(ToString::to_string);
        assert_eq!(results, [json!(expected), json!(expected), json!(expected), json!([expected, expected])]);
    }
    let ran = within(&place, OTHER).args(["run", "flow.yaml", "--json"]).output().unwrap();
    let ran = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.contains(OTHER) && !ran.contains("nothing"), "{ran}");
}
