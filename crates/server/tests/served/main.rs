//! Commands through a server, by the very tests that hold them on a store itself: whatever those promise, a
//! server keeps.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "../workflow/definitions.rs"]
mod definitions;
#[path = "../workflow/kit.rs"]
mod kit;
#[path = "../workflow/looking.rs"]
mod looking;
#[path = "../workflow/operating.rs"]
mod operating;
#[path = "../workflow/starting.rs"]
mod starting;
#[path = "../workflow/why.rs"]
mod why;

#[path = "../work/fleet.rs"]
mod fleet;
#[path = "../work/log.rs"]
mod log;
#[path = "../work/results.rs"]
mod results;
#[path = "../work/stopping.rs"]
mod stopping;

use kit::{NIGHTLY, UNKNOWN, blocked, place, run_with, start, step, text, worker};
use serde_json::Value;
use support::Place;

/// A place with an empty store, behind a server.
fn empty() -> Place {
    Place::new()
}

/// Submits a task for each command, works all of them off with one worker, and gives the tasks in order.
fn work_off(place: &Place, commands: &[&str], submit: &[&str], work: &[&str]) -> Vec<Value> {
    let kinds: Vec<String> = (0..commands.len()).map(|n| format!("kind-{n}")).collect();
    let ids: Vec<String> = kinds.iter().map(|kind| place.submit(&[&[&**kind], submit].concat())).collect();
    let execs: Vec<String> =
        kinds.iter().zip(commands).map(|(kind, command)| format!("--exec={kind}={command}")).collect();
    place.drain(&execs.iter().map(String::as_str).chain(work.iter().copied()).collect::<Vec<_>>());
    ids.iter().map(|id| place.task(id)).collect()
}

/// The texts of the log of a task's first attempt.
fn logged(place: &Place, task: &Value) -> Vec<String> {
    let log = place.json(&["task", "log", task["id"].as_str().unwrap()]);
    let lines = log["attempts"][0]["lines"].as_array().unwrap();
    lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}
