//! What programs write to their standard error, and what the worker writes to its own.

use std::process::Stdio;

use crate::support::Place;
use crate::{logged, work_off};

#[test]
fn standard_error_is_the_log_of_the_attempt() {
    let place = Place::new();
    let tasks = work_off(
        &place,
        &["for n in 1 2 3; do echo \"line $n  \" >&2; done; echo >&2; printf 'no end' >&2; echo result"],
        &[],
        &[],
    );
    assert_eq!(logged(&place, &tasks[0]), ["line 1", "line 2", "line 3", "", "no end"]);
    let text = place.run(&["task", "log", tasks[0]["id"].as_str().unwrap()]).out;
    assert!(text.starts_with("Attempt 1 by ") && text.contains("Z  line 2\n"), "{text}");
}

#[test]
fn a_long_line_is_kept_in_pieces_and_no_character_is_cut() {
    let place = Place::new();
    // Two bytes each, behind one of one: every even place is in the middle of a character.
    place.file("long", format!("x{}\nshort\n", "é".repeat(10_000)));
    let tasks = work_off(&place, &["cat long >&2; exit 1"], &[], &[]);
    let lines = logged(&place, &tasks[0]);
    assert_eq!(lines.len(), 6);
    assert_eq!(lines.concat(), format!("x{}short", "é".repeat(10_000)));
    assert!(tasks[0]["error"].as_str().unwrap().ends_with(": short"));
}

#[test]
fn a_binary_log_is_shown_and_not_obeyed() {
    let place = Place::new();
    place.file("binary", (0..=255_u8).cycle().take(20_000).collect::<Vec<_>>());
    let tasks = work_off(&place, &["cat binary >&2; printf '\\033]0;owned\\007\\n' >&2; exit 1"], &[], &[]);
    assert_eq!(tasks[0]["state"], "failed");
    let id = tasks[0]["id"].as_str().unwrap();
    for arguments in [["task", "log", id], ["task", "get", id]] {
        let said = place.run(&arguments);
        assert_eq!(said.code, 0);
        assert!(!said.out.contains('\u{1b}') && !said.out.contains('\u{7}'), "{}", said.out);
    }
    assert!(tasks[0]["error"].as_str().unwrap().contains("owned"));
}

#[test]
fn an_endless_log_keeps_its_newest_lines_and_stops_in_time() {
    let place = Place::new();
    let submit = ["--timeout", "700ms", "--max-attempts", "1"];
    let tasks = work_off(
        &place,
        &["yes on and on >&2", "yes '' | tr -d '\\n' >&2 & yes | tr -d '\\n' >&2"],
        &submit,
        &[],
    );
    for task in &tasks {
        assert_eq!(task["error"], "timed out after 700ms");
        let log = place.json(&["task", "log", task["id"].as_str().unwrap()]);
        let attempt = &log["attempts"][0];
        let lines = attempt["lines"].as_array().unwrap();
        let bytes: usize = lines.iter().map(|line| line["text"].as_str().unwrap().len()).sum();
        assert!((1..=1_000).contains(&lines.len()) && bytes <= 64 << 10, "{} lines", lines.len());
        assert!(attempt["dropped"].as_u64().unwrap() > 0);
    }
    assert_eq!(logged(&place, &tasks[0])[0], "on and on");
}

#[test]
fn a_worker_to_whom_nobody_listens_works_on() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    // Far more than a pipe holds.
    place.submit_many(40, "complain", |_| "x".repeat(4_000).into());
    place.submit(&["last", "--priority", "-1"]);
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    command.args(["work", "--exec=complain=cat >&2; exit 1", "--exec=last=echo done > talk", "--drain"]);
    let mut worker = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(talk.line(), "done");
    // It ends though what it has to say cannot be said.
    crate::support::gone(i32::try_from(worker.id()).unwrap());
    assert!(worker.wait().unwrap().success());
}
