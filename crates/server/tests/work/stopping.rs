//! How programs end before they are done, and that nothing is left of them.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Fifo, Place, Running, gone};

/// A shell and a child of it, which tell their process ids and go on for ever.
const FOREVER: &str = "sleep 1000 & echo $! > talk; echo $$ > talk; wait";

/// Processes whose parent is this one, and which have ended without anybody taking note.
fn zombies(parent: i32) -> Vec<String> {
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path().join("stat");
        std::fs::read_to_string(path).ok()
    });
    stats
        .filter(|stat| {
            let after = stat.rsplit_once(") ").map(|(_, after)| after.to_owned()).unwrap_or_default();
            let mut fields = after.split(' ');
            fields.next() == Some("Z") && fields.next() == Some(&parent.to_string())
        })
        .collect()
}

fn both_gone((child, shell): (i32, i32)) {
    gone(child);
    gone(shell);
}

fn pids(talk: &mut Fifo) -> (i32, i32) {
    (talk.number(), talk.number())
}

#[test]
fn out_of_time_a_program_is_stopped_with_all_it_started() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang", "--timeout", "300ms", "--max-attempts", "2", "--retry", "none"]);
    let mut worker = place.work(&["--exec", &format!("hang={FOREVER}")]);
    both_gone(pids(&mut talk));
    both_gone(pids(&mut talk));
    worker.until("attempt 1 failed: timed out after 300ms");
    worker.until("attempt 2 failed: timed out after 300ms");
    assert_eq!(zombies(worker.pid()), [""; 0]);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().out, "0 completed, 2 failed attempts, 0 others\n");
    let task = place.task(&id);
    assert_eq!((&task["state"], &task["error"]), (&json!("dead_letter"), &json!("timed out after 300ms")));
}

#[test]
fn a_cancelled_program_is_stopped_at_once() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang"]);
    let mut worker = place.work(&["--exec", &format!("hang={FOREVER}")]);
    let pids = pids(&mut talk);
    assert_eq!(place.run(&["task", "cancel", &id]).code, 0);
    let told = worker.until("hang attempt 1 cancelled");
    both_gone(pids);
    // Without waiting for a heartbeat, which comes every ten seconds.
    let took: u64 = told.rsplit_once('(').unwrap().1.trim_end_matches(" ms)").parse().unwrap();
    assert!(took < 8_000, "{told}");
    assert_eq!(zombies(worker.pid()), [""; 0]);
    worker.signal(Signal::INT);
    assert_eq!(worker.end().out, "0 completed, 0 failed attempts, 1 others\n");
    assert_eq!(place.task(&id)["state"], "cancelled");
}

#[test]
fn a_program_that_does_not_listen_is_killed() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["deaf"]);
    let deaf = format!("deaf=trap '' TERM; {FOREVER}");
    let mut worker = place.work(&["--exec", &deaf, "--patience", "300ms"]);
    let pids = pids(&mut talk);
    assert_eq!(place.run(&["task", "cancel", &id]).code, 0);
    both_gone(pids);
    worker.until("cancelled");
    assert_eq!(zombies(worker.pid()), [""; 0]);
}

#[test]
fn what_a_program_started_has_time_to_put_things_in_order() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    place.file(
        "careful",
        "trap 'sleep 1.5; echo in order > talk; exit' TERM\necho begun > talk\nsleep 1000 & wait\n",
    );
    // The shell between ends at once, and with it all that holds its output.
    let id = place.submit(&["careful"]);
    let _worker = place.work(&["--exec", "careful=sh careful > /dev/null 2>&1; true"]);
    assert_eq!(talk.line(), "begun");
    assert_eq!(place.run(&["task", "cancel", &id]).code, 0);
    assert_eq!(talk.line(), "in order");
}

#[test]
fn what_a_program_leaves_behind_keeps_nobody_waiting() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["leave"]);
    let leave = "leave=sleep 1000 & echo $! > talk; echo complaint >&2; printf tail >&2; echo result";
    let mut worker = place.work(&["--exec", leave, "--drain"]);
    gone(talk.number());
    assert_eq!(worker.end().code, 0);
    let task = place.task(&id);
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &json!("result")));
    assert_eq!(crate::logged(&place, &task), ["complaint", "tail"]);
}

#[test]
fn asked_to_stop_a_worker_lets_programs_end() {
    let nohup = |place: &Place, arguments: &[&str]| {
        let mut command = place.command("nohup");
        let mut worker =
            Running::start(command.arg(env!("CARGO_BIN_EXE_windlass")).arg("work").args(arguments));
        worker.until(" takes ");
        worker
    };
    for (signal, is_nohup) in
        [(Signal::INT, false), (Signal::TERM, false), (Signal::HUP, false), (Signal::TERM, true)]
    {
        let place = Place::new();
        let (mut talk, mut gate) = (place.fifo("talk"), place.fifo("gate"));
        let id = place.submit(&["slow"]);
        let arguments = ["--exec", "slow=echo begun > talk; read x < gate; echo done"];
        let mut worker = if is_nohup { nohup(&place, &arguments) } else { place.work(&arguments) };
        assert_eq!(talk.line(), "begun");
        if is_nohup {
            // Not heard.
            worker.signal(Signal::HUP);
        }
        let untouched = place.submit(&["slow"]);
        assert_eq!(talk.line(), "begun", "it takes tasks until it is asked to stop");
        worker.signal(signal);
        worker.until("stopping: 2 running, with 30s to end");
        let too_late = place.submit(&["slow"]);
        gate.open();
        gate.open();
        let said = worker.end();
        assert_eq!(
            (said.code, &*said.out),
            (0, "2 completed, 0 failed attempts, 0 others\n"),
            "{}",
            said.err
        );
        for id in [&id, &untouched] {
            assert_eq!(place.task(id)["result"], "done");
        }
        assert_eq!(place.task(&too_late)["state"], "pending");
        let left = place.json(&["worker", "list"])["workers"].as_array().unwrap().len();
        assert_eq!(left, usize::from(place.server().is_some()), "it has deregistered, and a server has not");
    }
}

#[test]
fn signals_that_its_parent_ignored_keep_a_worker_from_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let (mut talk, mut gate) = (place.fifo("talk"), place.fifo("gate"));
        let (quick, slow) = (place.submit(&["quick"]), place.submit(&["slow"]));
        let mut command = place.program_of_deaf_parent();
        let slowly = "slow=echo begun > talk; read x < gate; echo done";
        command.args(["work", "--exec", "quick=echo at once", "--exec", slowly]);
        let mut worker = Running::start(&mut command);
        assert_eq!(talk.line(), "begun");
        worker.until("quick attempt 1 completed");
        worker.signal(Signal::HUP);
        worker.signal(signal);
        worker.until("stopping: 1 running, with 30s to end");
        gate.open();
        let said = worker.end();
        assert_eq!(
            (said.code, &*said.out),
            (0, "2 completed, 0 failed attempts, 0 others\n"),
            "{}",
            said.err
        );
        for (id, result) in [(&quick, "at once"), (&slow, "done")] {
            let task = place.task(id);
            assert_eq!((&task["result"], &task["attempt"]), (&json!(result), &json!(1)));
        }
    }
}

#[test]
fn what_does_not_end_within_the_grace_period_is_given_back() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang"]);
    let mut worker = place.work(&["--exec", &format!("hang={FOREVER}"), "--grace", "100ms"]);
    let pids = pids(&mut talk);
    worker.signal(Signal::INT);
    let said = worker.end();
    assert_eq!((said.code, &*said.out), (0, "0 completed, 0 failed attempts, 1 others\n"));
    assert!(said.err.contains("hang attempt 1 given back: the worker stops"), "{}", said.err);
    both_gone(pids);
    let task = place.task(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("pending"), &json!(0)), "it cost nothing");
}

#[test]
fn asked_twice_a_worker_kills_everything_and_others_go_on_at_once() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang"]);
    let mut impatient = place.work(&["--exec", &format!("hang=trap '' TERM; {FOREVER}")]);
    let first = pids(&mut talk);
    impatient.signal(Signal::INT);
    impatient.until("stopping: 1 running");
    impatient.signal(Signal::INT);
    let said = impatient.end();
    assert_eq!((said.code, &*said.out), (130, ""), "{}", said.err);
    assert!(said.err.contains("killed; tasks in progress go to other workers"), "{}", said.err);
    both_gone(first);
    // Neither its lease nor its leadership has to run out first, which would take half a minute.
    let said = place.drain(&["--exec", "hang=echo at last"]);
    assert!(said.err.contains("attempt 2 completed"), "{}", said.err);
    let task = place.task(&id);
    assert_eq!((&task["result"], &task["attempt"]), (&json!("at last"), &json!(2)));
    assert_eq!(task["attempts"][0]["ended"], "lease_expired", "{task}");
}

#[test]
fn a_worker_without_work_stops_at_once() {
    let place = Place::new();
    let mut worker = place.work(&["--exec", "x=true"]);
    worker.signal(Signal::TERM);
    let said = worker.end();
    assert_eq!((said.code, &*said.out), (0, "0 completed, 0 failed attempts, 0 others\n"));
    place.drain(&["--exec", "x=true"]);
}

/// The worker is stopped while its program ends, and another does the task meanwhile.
#[test]
fn a_report_that_is_refused_is_not_counted_as_completed() {
    let place = Place::new();
    let (mut talk, mut gate) = (place.fifo("talk"), place.fifo("gate"));
    let id = place.submit(&["slow"]);
    let slow = "slow=echo $$ > talk; read x < gate; echo late";
    let mut zombie = place.work(&["--exec", slow, "--dead-after", "1s"]);
    let program = talk.number();
    zombie.signal(Signal::STOP);
    gate.open();
    gone(program);
    place.drain(&["--exec", "slow=echo in time", "--dead-after", "1s"]);
    zombie.signal(Signal::CONT);
    zombie.until("slow attempt 1 ");
    zombie.signal(Signal::TERM);
    let said = zombie.end();
    assert_eq!(said.out, "0 completed, 0 failed attempts, 1 others\n", "{}", said.err);
    assert!(!said.err.lines().any(|line| line.contains("attempt 1 completed (")), "{}", said.err);
    let task = place.task(&id);
    assert_eq!((&task["result"], &task["attempt"]), (&json!("in time"), &json!(2)));
}
