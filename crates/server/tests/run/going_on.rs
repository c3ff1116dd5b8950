//! Runs that are killed or stopped, and what the same command does then.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::{events, place, run, run_id, start};
use crate::support::{Place, gone};

/// Three steps that leave marks; the second tells its process and waits, unless it is let through.
const FLOW: &str = "name: three\nsteps:\n  one: { run: 'echo 1 >> marks' }\n  \
    two: { needs: one, run: 'echo 2 >> marks; test -e through || { echo $$ > talk; sleep 1000; }' }\n  \
    three: { needs: two, run: 'echo 3 >> marks' }\n";

fn second_step(place: &Place) -> (crate::support::Running, i32) {
    let mut talk = place.fifo("talk");
    let running = start(place, &[]);
    let process = talk.number();
    place.file("through", "");
    (running, process)
}

#[test]
fn killed_in_the_middle_it_goes_on_with_what_is_left() {
    let place = place(FLOW);
    let (running, process) = second_step(&place);
    running.kill();
    gone(process);
    let told = events(&place, &[], 0);
    assert_eq!(told[0]["resumed"], true);
    assert_eq!(place.read("marks"), "1\n2\n2\n3\n");
    let steps: Vec<_> = told.iter().filter(|event| event["event"] == "step_completed").collect();
    assert_eq!((steps.len(), &steps[0]["step"], &steps[0]["attempt"]), (2, &json!("two"), &json!(2)));
    let returned = told.iter().find(|event| event["event"] == "step_returned").expect("it is told");
    assert_eq!(returned["reason"], "its worker is gone");
    // At once, not when its worker would count as dead.
    assert!(told.last().unwrap()["took_seconds"].as_f64().unwrap() < 9.0, "{told:?}");
}

/// Whoever started it has not taken note of its death: it still counts as a process.
#[test]
fn killed_and_not_waited_for_it_goes_on_at_once() {
    let place = place(FLOW);
    let (running, process) = second_step(&place);
    running.signal(Signal::KILL);
    gone(running.pid());
    gone(process);
    let told = events(&place, &[], 0);
    assert_eq!(place.read("marks"), "1\n2\n2\n3\n");
    // At least 6.6 s are left until its worker would count as dead.
    assert!(told.last().unwrap()["took_seconds"].as_f64().unwrap() < 6.0, "{told:?}");
}

/// The store has the end of the run, and nobody has seen it.
#[test]
fn killed_before_its_end_was_shown_it_shows_the_end() {
    let place = place("name: one\nsteps:\n  one: { run: 'echo 1 >> marks; echo done' }\n");
    // Nobody reads what it prints, and the pipe is full: it works, and cannot tell.
    let out = place.full_fifo("out");
    let mut child =
        place.program().args(["run", "flow.yaml"]).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let is_complete = || {
        let listed = place.run(&["workflow", "list", "--store", "sqlite:flow.windlass.db", "--json"]);
        listed.out.contains("\"complete\"")
    };
    while !is_complete() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let told = events(&place, &[], 0);
    assert_eq!(place.read("marks"), "1\n", "it was run again");
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["state"]), (&json!("workflow_ended"), &json!("complete")));
    assert_eq!(last["results"], json!({ "one": "done" }));
    let next = run(&place, &[]);
    assert_eq!((next.code, &*place.read("marks")), (0, "1\n1\n"), "its end was shown: a new run");
}

#[test]
fn stopped_in_the_middle_it_goes_on_with_what_is_left() {
    let place = place(FLOW);
    let (mut running, process) = second_step(&place);
    running.signal(Signal::INT);
    let said = running.end();
    gone(process);
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("stopping: 1 running"), "{}", said.err);
    assert!(
        said.err.ends_with("windlass: stopped; the same command goes on where it stopped\n"),
        "{}",
        said.err
    );
    let again = run(&place, &[]);
    assert_eq!((again.code, run_id(&again)), (0, run_id(&said)), "{}", again.err);
    assert!(again.err.contains("which goes on"), "{}", again.err);
    assert_eq!(place.read("marks"), "1\n2\n2\n3\n");
    assert!(again.out.contains("two started\n"), "stopping costs no attempt: {}", again.out);
}

#[test]
fn a_second_signal_kills_at_once() {
    let place = place(
        "name: deaf\nsteps:\n  deaf: { run: \"test -e through && exit; trap '' TERM; echo $$ > talk; while :; do sleep 1; done\" }\n",
    );
    let (mut running, process) = second_step(&place);
    running.signal(Signal::INT);
    running.until("Ctrl-C again kills them");
    running.signal(Signal::INT);
    let said = running.end();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("killed; the same command goes on"), "{}", said.err);
    gone(process);
    assert_eq!(run(&place, &[]).code, 0);
}

#[test]
fn a_stopped_run_tells_programs_so() {
    let place = place(FLOW);
    let mut talk = place.fifo("talk");
    let mut running = start(&place, &["--json"]);
    talk.number();
    running.signal(Signal::TERM);
    let said = running.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let last: serde_json::Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "interrupted");
}

#[test]
fn fresh_starts_over() {
    let place = place(FLOW);
    let (running, process) = second_step(&place);
    running.kill();
    gone(process);
    let said = run(&place, &["--fresh"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains(" is cancelled\n") && !said.err.contains("goes on"), "{}", said.err);
    assert_eq!(place.read("marks"), "1\n2\n1\n2\n3\n");
}

#[test]
fn another_input_is_another_run_and_the_first_waits() {
    let place = place(FLOW);
    let (running, process) = second_step(&place);
    running.kill();
    gone(process);
    let other = run(&place, &["--input", "[1]"]);
    assert_eq!(other.code, 0, "{}", other.err);
    assert!(other.err.contains("is unfinished and paused"), "{}", other.err);
    assert_eq!(place.read("marks"), "1\n2\n1\n2\n3\n", "only its own steps have run");
    let first = run(&place, &["--input", " { } "]);
    assert!(first.err.contains("which goes on"), "{}", first.err);
    assert_eq!(place.read("marks"), "1\n2\n1\n2\n3\n2\n3\n");
}

#[test]
fn a_file_that_was_changed_is_another_run() {
    let place = place(&format!("version: 1\n{FLOW}"));
    let (running, process) = second_step(&place);
    running.kill();
    gone(process);
    place.file("flow.yaml", format!("version: 1\n{}", FLOW.replace("echo 3", "echo 4")));
    let said = run(&place, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("version 1 was something else before; this one is kept as version 2"),
        "{}",
        said.err
    );
    assert!(said.err.contains("is unfinished and paused"), "{}", said.err);
    assert_eq!(place.read("marks"), "1\n2\n1\n2\n4\n");
}

#[test]
fn the_same_command_twice_is_one_run() {
    let place = place(FLOW);
    let mut talk = place.fifo("talk");
    let mut first = start(&place, &[]);
    let process = talk.number();
    place.file("through", "");
    let mut second = start(&place, &[]);
    second.until("which goes on");
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    let (first, second) = (first.end(), second.end());
    assert_eq!((first.code, second.code), (0, 0), "{}{}", first.err, second.err);
    assert_eq!(run_id(&first), run_id(&second));
    assert_eq!(place.read("marks"), "1\n2\n2\n3\n");
}
