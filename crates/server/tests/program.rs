//! The program as a person types it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

fn windlass(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(directory).env_remove("WINDLASS_STORE").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("one JSON value and nothing else")
}

#[test]
fn the_demonstration_shows_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let shown = json(&windlass(directory.path(), &["--json", "demo"]));
    let states: Vec<_> =
        shown["tasks"].as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
    let expected =
        ["completed", "completed", "dead_letter", "completed", "completed", "completed", "pending"];
    assert_eq!(states, expected, "the second submit of the key made no task");
    let recovered = shown["tasks"][0]["history"].as_array().unwrap();
    assert!(recovered.iter().any(|entry| entry["reason"] == "lease_expired"), "a worker was lost");
    assert_eq!(shown["tasks"][1]["attempt"], 3);
    assert_eq!(shown["why"]["reason"], "no_worker");
    assert!(directory.path().join("windlass.db").exists(), "the default store is a file");
    let again = windlass(directory.path(), &["demo"]);
    assert!(again.status.success() && stdout(&again).contains("lease_expired"));
}

#[test]
fn what_was_done_can_be_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| windlass(directory.path(), arguments);
    assert_eq!(stdout(&run(&["stats"])), "no tasks\n");
    let shown = json(&run(&["demo", "--json"]));
    let id = shown["tasks"][2]["id"].as_str().unwrap();
    assert_eq!(json(&run(&["task", "get", id, "--json"])), shown["tasks"][2]);
    let listed = json(&run(&["task", "list", "--state", "dead_letter", "--json"]));
    assert_eq!(listed["tasks"][0]["id"], id);
    assert_eq!(listed["next_cursor"], serde_json::Value::Null);
    let page = json(&run(&["task", "list", "--limit", "3", "--json"]));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = json(&run(&["task", "list", "--cursor", cursor, "--json"]));
    assert_eq!(rest["tasks"].as_array().unwrap().len(), 4);
    assert!(stdout(&run(&["why", id])).contains("it is dead_letter since"));
    assert_eq!(json(&run(&["stats", "--json"])).as_array().unwrap().len(), 5);
}

#[test]
fn wrong_usage_is_told_in_a_line_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (arguments, code, told) in [
        (&["frobnicate"][..], 2, "unrecognized subcommand"),
        (&["why", "not-an-id"], 2, "a UUID such as"),
        (&["task", "list", "--state", "done"], 2, "one of waiting, scheduled"),
        (&["task", "list", "--cursor", "x"], 2, "next cursor of an earlier page"),
        (&["task", "list", "--limit", "-1"], 2, "--limit"),
        (&["task", "list", "--limit", "0"], 1, "1 to 1000"),
        (&["why", unknown], 1, "does not exist"),
        (&["--store", "mysql:x", "stats"], 1, "sqlite:PATH"),
        (&["--store", "sqlite:no/such/directory/x.db", "stats"], 1, "cannot be opened"),
    ] {
        let output = windlass(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?} prints only to standard error");
        if code == 1 {
            assert_eq!(stderr(&output).lines().count(), 1, "{arguments:?}: one line");
        }
    }
}
