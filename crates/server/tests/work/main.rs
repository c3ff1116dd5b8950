//! `windlass work` with real programs, real signals and real deaths.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod crash_loop;
mod fleet;
mod log;
mod programs;
mod results;
mod stopping;
mod traces;
mod usage;

use serde_json::Value;
use support::Place;

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
