//! `windlass run` with real files, real programs, real signals and real deaths.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod failing;
mod going_on;
mod hostile;
mod running;

use serde_json::Value;
use support::{Place, Running, Said};

/// A place with a workflow file in it.
fn place(flow: &str) -> Place {
    let place = Place::new();
    place.file("flow.yaml", flow);
    place
}

/// Runs `flow.yaml` to its end.
fn run(place: &Place, arguments: &[&str]) -> Said {
    place.run(&[&["run", "flow.yaml"], arguments].concat())
}

/// Starts to run `flow.yaml`.
fn start(place: &Place, arguments: &[&str]) -> Running {
    let mut command = place.program();
    Running::start(command.args(["run", "flow.yaml"]).args(arguments))
}

/// Runs `flow.yaml` to its end and gives its events.
fn events(place: &Place, arguments: &[&str], code: i32) -> Vec<Value> {
    let said = run(place, &[&["--json"], arguments].concat());
    assert_eq!(said.code, code, "{}{}", said.out, said.err);
    said.out.lines().map(|line| serde_json::from_str(line).expect("every line is an event")).collect()
}

/// The id of the run that was told first.
fn run_id(said: &Said) -> String {
    let line = said.err.lines().find(|line| line.starts_with("run ")).expect("it says which run it is");
    line.split(' ').nth(1).unwrap().to_owned()
}
