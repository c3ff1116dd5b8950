//! What a program is given, and what becomes of what it says.

use serde_json::{Value, json};

use crate::support::Place;
use crate::work_off;

/// Numbers that no float holds, space, and keys out of order and twice.
const PECULIAR: &str = r#"{"b": 1e400,   "a": [123456789012345678901234567890, "é"], "a":0.10}"#;

#[test]
fn json_is_passed_on_to_the_letter() {
    let place = Place::new();
    let id = place.submit(&["copy", PECULIAR]);
    place.drain(&["--exec", "copy=tee given"]);
    assert_eq!(place.read("given"), PECULIAR);
    // A task is printed on one line, without space between its parts.
    let task = place.run(&["task", "get", &id, "--json"]).out;
    let result = r#""result":{"b":1e400,"a":[123456789012345678901234567890,"é"],"a":0.10}"#;
    assert!(task.contains(result), "{task}");
}

#[test]
fn a_megabyte_is_given_whether_it_is_read_or_not() {
    let place = Place::new();
    let payload = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    place.file("payload.json", &payload);
    let tasks = work_off(
        &place,
        &[
            "wc -c",
            // It does not read, or not any more.
            "echo deaf",
            "exec <&-; echo closed",
            "head -c 5",
            // It reads when it has nothing more to say.
            "exec > late.out 2> late.err; cat",
            // Somebody else may hold on to the payload.
            "sleep 1000 <&0 > /dev/null 2>&1 & echo held",
            // It says a lot before it reads.
            "yes | head -c 500000 >&2; wc -c",
        ],
        &["@payload.json"],
        &[],
    );
    let results: Vec<Value> = tasks.iter().map(|task| task["result"].clone()).collect();
    let all = json!(1 << 20);
    let expected = json!([all, "deaf", "closed", "\"xxxx", null, "held", all]);
    assert_eq!(results, *expected.as_array().unwrap());
    assert!(place.read("late.out") == payload, "it was given all of it");
}

#[test]
fn what_is_written_is_the_result() {
    let place = Place::new();
    let tasks = work_off(
        &place,
        &[
            r#"echo '{"b": 1, "a": [true, null]}'"#,
            "printf 'two\\nlines\\n\\n'",
            "true",
            "echo",
            "printf '\\377a'",
            "echo ' 7 '",
            "printf '{\"a\": 1}\\n{\"b\": 2}\\n'",
            "echo to stderr >&2",
            "printf '\\033[31mred'",
        ],
        &[],
        &[],
    );
    let results: Vec<Value> = tasks.iter().map(|task| task["result"].clone()).collect();
    let expected = json!([
        {"b": 1, "a": [true, null]}, "two\nlines", null, null, "\u{fffd}a", 7,
        "{\"a\": 1}\n{\"b\": 2}", null, "\u{1b}[31mred"
    ]);
    assert_eq!(results, *expected.as_array().unwrap());
    assert!(tasks.iter().all(|task| task["state"] == "completed"), "{tasks:?}");
}

#[test]
fn too_much_output_is_a_failure_and_no_more() {
    let place = Place::new();
    let repeat = |bytes: usize| format!("head -c {bytes} /dev/zero | tr '\\0' x");
    let most = 1 << 20;
    let commands = [repeat(most - 2), repeat(most - 1), repeat(most), repeat(most + 1), repeat(50_000_000)];
    let tasks = work_off(&place, &commands.each_ref().map(String::as_str), &[], &[]);
    assert_eq!(tasks[0]["result"].as_str().unwrap().len(), most - 2, "with its quotes it just fits");
    for (task, why) in tasks[1..].iter().zip(["at most 1048576", "at most 1048576", "more than", "more than"])
    {
        let error = task["error"].as_str().unwrap();
        assert_eq!(task["state"], "failed", "{error}");
        assert!(error.contains(why) && error.len() < 500, "{error}");
    }
}

#[test]
fn the_exit_code_says_what_becomes_of_the_task() {
    let place = Place::new();
    let tasks = work_off(
        &place,
        &[
            "echo fine; exit 0",
            "exit 75",
            "echo first >&2; echo 'no such customer' >&2; echo >&2; exit 1",
            "exit 3",
            "exit 255",
            "kill -9 $$",
            "echo dying >&2; kill -TERM $$",
            "windlass-no-such-program",
        ],
        &["--max-attempts", "2", "--retry", "none"],
        &["--retry-on", "3", "--retry-on", "4"],
    );
    let expected = [
        ("completed", 1, ""),
        ("dead_letter", 2, "the program asked to be run again (exit code 75)"),
        ("failed", 1, "the program failed with exit code 1: no such customer"),
        ("dead_letter", 2, "the program asked to be run again (exit code 3)"),
        ("failed", 1, "the program failed with exit code 255"),
        ("dead_letter", 2, "the program was killed (signal: 9 (SIGKILL))"),
        ("dead_letter", 2, "the program was killed (signal: 15 (SIGTERM)): dying"),
        ("failed", 1, "not found"),
    ];
    for (task, (state, attempts, error)) in tasks.iter().zip(expected) {
        assert_eq!((&task["state"], &task["attempt"]), (&json!(state), &json!(attempts)), "{task}");
        let actual = task["error"].as_str().unwrap_or_default();
        match error {
            "not found" => assert!(actual.contains("exit code 127") && actual.contains(error), "{actual}"),
            _ => assert_eq!(actual, error),
        }
    }
}

/// One rule for all programs: of a step that says when it is tried again, only one exit code is for good.
#[test]
fn a_step_that_says_retry_is_tried_again() {
    let place = Place::new();
    place.file(
        "flow.yaml",
        "name: f\ndefaults: { retry: { max_attempts: 2, backoff: none } }\nsteps:\n  a: { task: a }\n  b: { task: b }\n",
    );
    let id = place.json(&["workflow", "start", "--file", "flow.yaml"])["id"].as_str().unwrap().to_owned();
    place.drain(&["--exec", "a=test $WINDLASS_ATTEMPT = 2 || exit 1", "--exec", "b=exit 65"]);
    let tasks = place.json(&["task", "list", "--workflow", &id]);
    let mut ends: Vec<_> = tasks["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            (
                task["kind"].as_str().unwrap(),
                task["state"].as_str().unwrap(),
                task["attempt"].as_u64().unwrap(),
            )
        })
        .collect();
    ends.sort_unstable();
    assert_eq!(ends, [("a", "completed", 2), ("b", "failed", 1)]);
}

#[test]
fn the_environment_names_the_task() {
    let place = Place::new();
    let id = place.submit(&[
        "look",
        "--queue",
        "q",
        "--namespace",
        "n",
        "--entity",
        "planner:4 2",
        "--retry",
        "none",
    ]);
    let command = "look=env | grep ^WINDLASS_ | sort >> seen; test $WINDLASS_ATTEMPT = 2 || exit 75";
    place.drain(&["--exec", command, "--queue", "q", "--namespace", "n", "--pass-store"]);
    let store = std::path::absolute(place.path().join("windlass.db")).unwrap();
    let store = match place.server() {
        Some(server) => format!("WINDLASS_SERVER={server}"),
        None => format!("WINDLASS_STORE=sqlite:{}", store.display()),
    };
    let seen = |attempt: u32| {
        format!(
            "WINDLASS_ATTEMPT={attempt}\nWINDLASS_ENTITY=planner:4 2\nWINDLASS_KIND=look\nWINDLASS_LEASE={attempt}\n\
             WINDLASS_NAMESPACE=n\nWINDLASS_QUEUE=q\n{store}\nWINDLASS_TASK_ID={id}\n"
        )
    };
    assert_eq!(place.read("seen"), seen(1) + &seen(2));
}

#[test]
fn a_program_submits_what_follows() {
    let place = Place::new();
    place.submit(&["first"]);
    let first = r#"first=cd / && "$WINDLASS" submit second '{"after": "first"}' --key "$WINDLASS_TASK_ID""#;
    let said = place.drain(&["--exec", first, "--exec", "second=cat > second", "--pass-store"]);
    assert_eq!(said.out, "2 completed, 0 failed attempts, 0 others\n");
    assert_eq!(place.read("second"), r#"{"after": "first"}"#);
}
