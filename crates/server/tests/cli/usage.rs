//! What cannot be meant, or cannot be done: one line, the right exit code, and nothing has changed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::Place;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn what_cannot_be_meant_is_told_in_a_line_and_makes_no_file() {
    let place = Place::new();
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
    let tags: Vec<&str> = std::iter::repeat_n(["--tag", "t"], 33).flatten().collect();
    let tags = [&["submit", "x"], &*tags].concat();
    for (arguments, told) in [
        // The command line as such.
        (&["frobnicate"][..], "unrecognized subcommand 'frobnicate'"),
        (&["task", "lst"], "'lst'; tip: a similar subcommand exists: 'list'; see `windlass task --help`"),
        (&["stats", "--frobnicate"], "unexpected argument '--frobnicate'"),
        (&["stats", "extra"], "unexpected argument 'extra'"),
        (&["why"], "<ID>"),
        (&["--namespace", "a b", "stats"], "--namespace: namespace is \"a b\""),
        (&["stats", "--all-namespaces", "--namespace", "x"], "cannot be used with"),
        (
            &["--namespace", "x", "task", "cancel", "--all", "--kind", "x", "--all-namespaces"],
            "cannot be used with",
        ),
        (&["--store", "mysql:x", "stats"], "sqlite:PATH"),
        (&["--store", "mysql:x", "stats"], "postgres://USER:PASSWORD@HOST/DATABASE"),
        (&["--store", "sqlite:", "stats"], "sqlite:PATH"),
        (&["--store", "sqlite:a.db?sync=off", "submit", "x"], "sqlite:PATH"),
        // Ids and filters.
        (&["why", "not-an-id"], "a UUID such as"),
        (&["task", "get", "1234"], "a UUID such as"),
        (&["task", "list", "--state", "done"], "resolved_manually; see `windlass task list --help`"),
        (&["task", "list", "--cursor", "x"], "next cursor of an earlier page"),
        (&["task", "list", "--limit", "0"], "1 to 1000"),
        (&["task", "list", "--limit", "1001"], "1 to 1000"),
        (&["task", "list", "--limit=-1"], "--limit"),
        (&["task", "list", "--kind", ""], "kind is \"\""),
        (&["task", "list", "--entity", "planner"], "type:id, such as planner:42"),
        (&["task", "list", "--unchanged-for", "1 day"], "such as 10s"),
        (&["task", "log", UNKNOWN, "--attempt", "one"], "--attempt"),
        // Intervening.
        (&["task", "cancel"], "name ids, or say --all"),
        (&["task", "cancel", "--all"], "--all alone would cancel everything"),
        (&["task", "cancel", "--state", "pending"], "filters are for --all"),
        (&["task", "cancel", UNKNOWN, "--kind", "x"], "filters are for --all"),
        (&["task", "cancel", UNKNOWN, "--all"], "cannot be used with"),
        (&["task", "cancel", UNKNOWN, "--dry-run"], "--dry-run is for --all"),
        (&["task", "cancel", "--all", "--state", "completed"], "completed tasks cannot be cancelled"),
        (&["task", "retry", "--all", "--state", "completed"], "completed tasks cannot be made to run again"),
        (&["task", "delete", "--all", "--state", "running"], "running tasks cannot be deleted"),
        (&["task", "postpone", UNKNOWN], "<DURATION>"),
        (&["task", "postpone", UNKNOWN, "31d"], "delay is \"31d\"; expected at most 30d"),
        (&["task", "postpone", UNKNOWN, "soon"], "duration is \"soon\""),
        (&["task", "resolve"], "<ID>"),
        (&["task", "resolve", UNKNOWN, "--result", "{"], "result is \"{\"; expected JSON"),
        // Submitting.
        (&["submit"], "<KIND"),
        (&["submit", "e mail"], "kind is \"e mail\""),
        (&["submit", "x", "{'a': 1}"], "expected JSON"),
        (&["submit", "x", "@no-such-file.json"], "no-such-file.json"),
        (&["submit", "x", "@."], "payload from ."),
        (&["submit", "x", "--queue", "é"], "queue is"),
        (&["submit", "x", "--priority", "high"], "--priority"),
        (&["submit", "x", "--priority", "3000000000"], "--priority"),
        (&["submit", "x", "--delay", "10"], "such as 10s"),
        (&["submit", "x", "--delay", "1s", "--at", "2030-01-01T00:00:00Z"], "cannot be used with"),
        (&["submit", "x", "--at", "tomorrow"], "RFC 3339"),
        (&["submit", "x", "--timeout", "0s"], "1 ms to 365 days"),
        (&["submit", "x", "--timeout", "366d"], "1 ms to 365 days"),
        (&["submit", "x", "--max-attempts", "1000001"], "1 to 1000000"),
        (&["submit", "x", "--max-attempts", "0"], "1 to 1000000, or none for no limit"),
        (
            &["schedule", "set", "s", "@daily", "x", "--max-attempts", "0"],
            "1 to 1000000, or none for no limit",
        ),
        (&["submit", "x", "--retry", "sometimes"], "exponential, fixed, linear, fibonacci, none"),
        (&["submit", "x", "--retry-base", "5m"], "at most the cap"),
        (&["submit", "x", "--retry-cap", "9999d"], "at most 365 days"),
        (&["submit", "x", "--entity", "planner"], "type:id, such as planner:42"),
        (&["submit", "x", "--entity", "a:1", "--lane", "k:2"], "cannot be used with"),
        (&["submit", "x", "--require-entity"], "--entity"),
        (&["submit", "x", "--require-entity", "--lane", "k:2"], "cannot be used with"),
        (&["submit", "--require-entity", "--batch", "-"], "cannot be used with"),
        (&["submit", "x", "--lane", "k"], "KEY:LIMIT"),
        (&["submit", "x", "--lane", "k:0"], "1 to 100000"),
        (&["submit", "x", "--key", ""], "idempotency key is \"\""),
        (&["submit", "x", "--reject-duplicate"], "--key"),
        (&["submit", "x", "--wait-for", "3s"], "--wait"),
        (&["submit", "x", "--prioritty", "5"], "unexpected argument '--prioritty'"),
        (&["submit", "x", "--tag", ""], "tag is \"\""),
        (&tags, "at most 32"),
        (&["submit", "x", "--batch", "-"], "cannot be used with"),
        (&["submit", "--batch", "tasks.jsonl"], "expected @FILE"),
        (&["submit", "--batch", "@no-such-file"], "batch from no-such-file"),
        (&["submit", "--batch", "-", "--queue", "q"], "cannot be used with"),
        (&["submit", "--batch", "-", "--wait"], "cannot be used with"),
        (&["submit", &long, "1"], "kind is"),
        // Queues, schedules, entities.
        (&["queue", "pause", "a/b"], "queue is \"a/b\""),
        (&["schedule", "set", "n", "* * *", "x"], "5 fields"),
        (&["schedule", "set", "n", "0 0 30 2 *", "x"], "no such day"),
        (&["schedule", "set", "n", "* * * * *", "x", "--zone", "Mars/Base"], "an IANA name"),
        (&["schedule", "set", "n", "* * * * *", "x", "--missed", "all:0"], "skip, one, or all:N"),
        (&["schedule", "set", "n", "* * * * *", "x", "--overlap", "fight"], "allow, skip, queue or replace"),
        (&["schedule", "set", "n m", "* * * * *", "x"], "schedule is \"n m\""),
        (&["schedule", "set", "n", "* * * * *", "x", "{"], "expected JSON"),
        (&["schedule", "set", "n", "* * * * *", "x", "--key", "k"], "unexpected argument '--key'"),
        (&["schedule", "preview", "99 * * * *"], "0 to 59"),
        (&["schedule", "preview", "* * * * *", "-n", "0"], "1 to 1000"),
        (&["entity", "add", "planner"], "type:id, such as planner:42"),
        (&["entity", "add"], "<TYPE:ID>"),
        // Housekeeping.
        (&["prune"], "--keep"),
        (&["prune", "--keep", "completed"], "such as completed=7d"),
        (&["prune", "--keep", "running=7d"], "retention state"),
        (&["prune", "--keep", "completed=7d", "--namespace", "x"], "all namespaces"),
        (&["migrate", "--sql"], "--sql is for PostgreSQL"),
        (&["migrate", "--sql", "--store", "memory:"], "--sql is for PostgreSQL"),
        (&["migrate", "--sql", "--dry-run"], "cannot be used with"),
        (
            &["task", "retry", "--all", "--older-than", "1h", "--unchanged-for", "2h"],
            "cannot be used multiple",
        ),
        (&["task", "retry", "--older-than", "1h"], "filters are for --all"),
        (&["completions", "tcsh"], "bash"),
        (&["man", "--out", "no/such/directory"], "make it first"),
    ] {
        let said = place.run(arguments);
        said.told(2, told);
        assert!(said.err.len() < 1_000, "{arguments:?}: {}", said.err);
        place.run(&[arguments, &["--json"]].concat()).told(2, told);
        assert_eq!(place.files(), [""; 0], "{arguments:?} made a file");
    }
}

#[test]
fn text_that_is_none_is_refused() {
    let place = Place::new();
    let bytes = OsString::from_vec(vec![b'x', 0xff]);
    place.run(&["submit".into(), bytes]).told(2, "UTF-8");
    place.run_with(&["submit", "x", "-"], b"\"\xff\"").told(2, "payload is not UTF-8");
    place.run_with(&["submit", "x", "-"], &[b' '; (1 << 20) + 1]).told(2, "at most 1048576 bytes");
    place.run_with(&["submit", "x", "-"], b"").told(2, "expected JSON");
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn looking_at_nothing_makes_nothing() {
    let place = Place::new();
    for arguments in [
        &["stats"][..],
        &["task", "list"],
        &["task", "get", UNKNOWN],
        &["task", "log", UNKNOWN],
        &["task", "cancel", UNKNOWN],
        &["task", "delete", "--all", "--state", "completed"],
        &["why", UNKNOWN],
        &["queue", "list"],
        &["worker", "list"],
        &["schedule", "list"],
        &["schedule", "show", "nightly"],
        &["schedule", "run", "nightly"],
        &["entity", "list"],
        &["entity", "remove", "planner:42"],
        &["entity", "check", "planner:42"],
        &["prune", "--keep", "completed=1d"],
    ] {
        place.run(arguments).told(1, "there is no database windlass.db");
        assert_eq!(place.files(), [""; 0], "{arguments:?} made a file");
    }
    place.run(&["--store", "sqlite:no/such/directory/x.db", "submit", "x"]).told(1, "cannot be opened");
}

#[test]
fn what_is_understood_and_refused_is_told_in_a_line() {
    let place = Place::new();
    place.submit(&["x", "--key", "k"]);
    for (arguments, told) in [
        (&["why", UNKNOWN][..], "does not exist; `windlass task list`"),
        (&["task", "get", UNKNOWN], "does not exist; `windlass task list`"),
        (&["task", "log", UNKNOWN], "does not exist"),
        (&["task", "cancel", UNKNOWN], "does not exist"),
        (&["task", "resolve", UNKNOWN], "does not exist"),
        (&["task", "postpone", UNKNOWN, "1s"], "does not exist"),
        (&["task", "delete", UNKNOWN], "does not exist"),
        (&["submit", "x", "--key", "k", "--reject-duplicate"], "exists already"),
        (&["submit", "x", "--entity", "planner:42", "--require-entity"], "is not registered"),
        (&["submit", "x", "--wait", "--wait-for", "1ms"], "not over after 1ms; `windlass why"),
        (&["schedule", "show", "nightly"], "does not exist; `windlass schedule list`"),
        (&["schedule", "run", "nightly"], "does not exist"),
        (&["schedule", "pause", "nightly"], "does not exist"),
        (&["schedule", "remove", "nightly"], "does not exist"),
        (&["entity", "check", "planner:42"], "is not registered; `windlass entity add planner:42`"),
    ] {
        place.run(arguments).told(1, told);
    }
    let text = place.file(
        "text.db",
        "this is not a database, but a text that is long enough to look like one\n".repeat(9),
    );
    place.run(&["--store", &format!("sqlite:{}", text.display()), "stats"]).told(1, "windlass: ");
}

#[test]
fn help_is_no_failure() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["help", "submit"], &["task", "list", "--help"], &["--version"]] {
        assert!(!place.run(arguments).good().out.is_empty());
    }
    assert_eq!(place.run(&[""; 0]).code, 2);
    assert_eq!(place.run(&["task"]).code, 2);
    assert_eq!(place.files(), [""; 0]);
}
