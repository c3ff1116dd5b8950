//! What the tests of workflows share. Where their stores are is up to the program that they are part of:
//! `crate::empty()` is a place with an empty one.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Place, Running, Said};

/// A good id of a workflow that there is not.
pub(crate) const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b30000000000";

/// A workflow of every sort of step that needs no other workflow. What `bad` does is up to the worker.
pub(crate) const NIGHTLY: &str = r#"
name: nightly
steps:
  extract: { task: echo, input: { regions: [10, 20, 30], errors: 1 } }
  regions: { task: echo, needs: extract, map: { over: "${extract.regions}", max_parallel: 2 }, input: "${item + 1}" }
  alert: { task: echo, needs: extract, if: "extract.errors > 3" }
  bad: { task: bad, needs: extract }
  after: { task: echo, needs: [bad, regions], input: "${bad}" }
  publish: { task: echo, needs: [regions, alert], join: all_done, input: { regions: "${regions}" } }
"#;

/// Runs the program with something on its standard input.
pub(crate) fn run_with(place: &Place, arguments: &[&str], input: &str) -> Said {
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have ended without reading, which is its right.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program, which succeeds, and gives what it says to people.
pub(crate) fn text(place: &Place, arguments: &[&str]) -> String {
    let said = place.run(arguments);
    assert_eq!((said.code, &*said.err), (0, ""), "{arguments:?}: {}", said.out);
    said.out
}

/// A place whose store has these definitions.
pub(crate) fn place(definitions: &[&str]) -> Place {
    let place = crate::empty();
    for definition in definitions {
        let said = run_with(&place, &["definition", "apply", "-"], definition);
        assert_eq!((said.code, &*said.err), (0, ""), "{}", said.out);
    }
    place
}

/// Starts a workflow and gives its id.
pub(crate) fn start(place: &Place, arguments: &[&str]) -> String {
    let started = place.json(&[&["workflow", "start"], arguments].concat());
    assert_eq!(started["created"], true);
    started["id"].as_str().unwrap().into()
}

/// A worker for the kinds of [`NIGHTLY`]: `echo` answers with what it is given, `bad` fails for good.
pub(crate) fn worker(place: &Place) -> Running {
    place.work(&["--exec=echo=cat", "--exec=bad=exit 3"])
}

/// A workflow of [`NIGHTLY`] that is blocked by its failure, and nobody who works on it.
pub(crate) fn blocked(place: &Place) -> String {
    let worker = worker(place);
    let said = place.run(&["workflow", "start", "nightly", "--wait", "--json"]);
    assert_eq!(said.code, 1, "{}", said.err);
    worker.kill();
    said.json()["id"].as_str().unwrap().into()
}

/// A step of a workflow, as `workflow get` shows it.
pub(crate) fn step(workflow: &Value, name: &str) -> Value {
    let steps = workflow["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("{name} in {workflow}")).clone()
}
