//! Steps that fail, and trying them again.

use serde_json::json;

use super::{events, place, run};
use crate::support::Place;

const BROKEN: &str = "name: broken\nsteps:\n  good: { run: 'echo g >> marks' }\n  bad:\n    needs: good\n    \
    run: 'echo b >> marks; echo first >&2; echo \"no \\033[31mdisk\" >&2; test -e fixed || exit 3'\n  \
    after: { needs: bad, run: 'echo a >> marks' }\n  beside: { run: 'true' }\n";

#[test]
fn a_failure_is_told_with_its_log_and_what_to_do() {
    let place = place(BROKEN);
    let said = run(&place, &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains(" bad failed: the program failed with exit code 3: no \\u{1b}[31mdisk\n"),
        "{}",
        said.out
    );
    let told = "bad failed at attempt 1 of 3: the program failed with exit code 3: no \\u{1b}[31mdisk\n    first\n    no \\u{1b}[31mdisk\n";
    assert!(said.out.ends_with(told), "{}", said.out);
    assert!(said.out.contains("broken blocked_by_failures in "), "{}", said.out);
    assert!(
        said.err.ends_with("`windlass run flow.yaml --retry` tries the failed steps again\n"),
        "{}",
        said.err
    );
    assert_eq!(place.read("marks"), "g\nb\n");
}

#[test]
fn what_failed_is_tried_again_and_the_rest_is_not() {
    let place = place(BROKEN);
    let first = events(&place, &[], 1);
    let last = first.last().unwrap();
    assert_eq!((&last["state"], &last["success"]), (&json!("blocked_by_failures"), &json!(false)));
    assert_eq!(
        (&last["failures"][0]["step"], &last["failures"][0]["log"][0]),
        (&json!("bad"), &json!("first"))
    );
    assert_eq!(last["retry"], "windlass run flow.yaml --retry");
    place.file("fixed", "");
    let second = events(&place, &["--retry"], 0);
    assert_eq!(second[0]["workflow_id"], first[0]["workflow_id"]);
    assert_eq!(place.read("marks"), "g\nb\nb\na\n");
    run(&place, &["--retry"]).told(1, "start one without --retry");
}

/// A step that says when it is tried again is, whatever the exit code; only 65 is for good.
#[test]
fn with_retry_any_exit_code_but_one_is_tried_again() {
    let steps = |retry: &str| {
        format!(
            "steps:\n  once: {{ {retry}run: 'echo o >> marks; test $WINDLASS_ATTEMPT = 2 || exit 1' }}\n  \
             never: {{ needs: once, {retry}run: 'echo n >> marks; exit 65' }}\n  \
             always: {{ needs: once, {retry}map: {{ over: [1] }}, run: 'echo a >> marks; exit 3' }}\n"
        )
    };
    let retry = "retry: { max_attempts: 2, backoff: none }";
    for flow in [
        format!("name: own\n{}", steps(&format!("{retry}, "))),
        format!("name: usual\ndefaults: {{ {retry} }}\n{}", steps("")),
    ] {
        let place = place(&flow);
        let told = events(&place, &["--pool", "1"], 1);
        assert_eq!(place.read("marks").matches('o').count(), 2, "{flow}");
        assert_eq!(place.read("marks").matches('n').count(), 1, "{flow}");
        assert_eq!(place.read("marks").matches('a').count(), 2, "{flow}");
        let retrying = told.iter().find(|event| event["event"] == "step_retrying").unwrap();
        assert_eq!(
            (&retrying["step"], &retrying["error"]),
            (&json!("once"), &json!("the program failed with exit code 1"))
        );
        let mut ends: Vec<_> = told.last().unwrap()["failures"]
            .as_array()
            .unwrap()
            .iter()
            .map(|failure| (failure["step"].as_str().unwrap(), failure["state"].as_str().unwrap()))
            .collect();
        ends.sort_unstable();
        assert_eq!(ends, [("always[0]", "dead_letter"), ("never", "failed")]);
    }
    // Without a word about it, a failure is a failure.
    let place = place(&format!("name: plain\n{}", steps("")));
    events(&place, &[], 1);
    assert_eq!(place.read("marks"), "o\n");
}

#[test]
fn without_being_asked_to_retry_a_new_run_starts() {
    let place = place(BROKEN);
    let first = events(&place, &[], 1);
    place.file("fixed", "");
    assert_ne!(events(&place, &[], 0)[0]["workflow_id"], first[0]["workflow_id"]);
    assert_eq!(place.read("marks"), "g\nb\ng\nb\na\n");
}

/// The child has two steps, of which the second fails unless it is let through.
fn nested(on_failure: &str, parent: &str) -> Place {
    let place = place(parent);
    place.file(
        "child.yaml",
        format!(
            "name: child\non_failure: {on_failure}\nsteps:\n  good: {{ run: 'echo g >> marks' }}\n  \
             bad: {{ needs: good, run: 'echo b >> marks; echo no disk >&2; test -e fixed || exit 3' }}\n"
        ),
    );
    let applied = place.run(&["definition", "apply", "child.yaml", "--store", "sqlite:flow.windlass.db"]);
    assert_eq!(applied.code, 0, "{}", applied.err);
    place
}

/// Nobody is there to settle it, so the run has failed too, and says where.
#[test]
fn a_workflow_within_that_is_blocked_ends_the_run() {
    let parent =
        "name: p\nsteps:\n  nest: { workflow: child }\n  after: { needs: nest, run: 'echo a >> marks' }\n";
    let place = nested("finish_independent", parent);
    let said = run(&place, &[]);
    assert_eq!(said.code, 1, "{}", said.err);
    let told =
        "nest/bad failed at attempt 1 of 3: the program failed with exit code 3: no disk\n    no disk\n";
    assert!(said.out.ends_with(told), "{}", said.out);
    assert!(said.out.contains(" nest/good completed in "), "{}", said.out);
    assert!(
        said.err.ends_with("`windlass run flow.yaml --retry` tries the failed steps again\n"),
        "{}",
        said.err
    );
    // Without being asked to retry, a new run starts.
    let second = events(&place, &[], 1);
    assert_eq!((&second[0]["resumed"], place.read("marks")), (&json!(false), "g\nb\ng\nb\n".to_owned()));
    place.file("fixed", "");
    let third = events(&place, &["--retry"], 0);
    assert_eq!(third[0]["workflow_id"], second[0]["workflow_id"]);
    assert_eq!(place.read("marks"), "g\nb\ng\nb\nb\na\n", "only what failed is tried again");
}

#[test]
fn a_workflow_within_that_fails_fails_its_step() {
    let place = nested(
        "fail_fast",
        "name: p\nsteps:\n  nest: { map: { over: [1] }, workflow: child, retry: { max_attempts: 1 } }\n",
    );
    let told = events(&place, &[], 1);
    let last = told.last().unwrap();
    let failures = last["failures"].as_array().unwrap();
    let names: Vec<&str> = failures.iter().map(|failure| failure["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["nest[0]/bad", "nest[0]"], "{last}");
    place.file("fixed", "");
    events(&place, &["--retry"], 0);
    assert_eq!(place.read("marks"), "g\nb\ng\nb\n", "a step that is tried again starts its workflow anew");
}

/// While something else can run, it runs.
#[test]
fn what_is_beside_a_blocked_workflow_goes_on() {
    let place = nested(
        "finish_independent",
        "name: p\nsteps:\n  nest: { workflow: child }\n  \
         slow: { run: 'until test -e marks && grep -q b marks; do sleep 0.1; done; echo s >> marks' }\n",
    );
    events(&place, &[], 1);
    assert_eq!(place.read("marks"), "g\nb\ns\n");
}

#[test]
fn items_that_failed_are_tried_again_alone() {
    let flow = "name: m\nsteps:\n  each:\n    map: { over: [1, 2, 3] }\n    \
        run: 'read -r n; echo $n >> marks; test $n != 2 || test -e fixed || exit 1; echo $n'\n";
    let place = place(flow);
    let given = ["--input", "{\"it's\": 1}", "--store", "sqlite:s.db"];
    let last = events(&place, &given, 1).pop().unwrap();
    let retry = r#"windlass run flow.yaml --input '{"it'\''s": 1}' --store sqlite:s.db --retry"#;
    assert_eq!(last["retry"], retry);
    assert!(
        last["failures"].as_array().unwrap().iter().any(|failure| failure["step"] == "each[1]"),
        "{last}"
    );
    place.file("fixed", "");
    let last = events(&place, &[&given[..], &["--retry"]].concat(), 0).pop().unwrap();
    assert_eq!(last["results"]["each"], json!([1, 2, 3]));
    let mut marks: Vec<String> = place.read("marks").lines().map(Into::into).collect();
    marks.sort_unstable();
    assert_eq!(marks, ["1", "2", "2", "3"]);
}

#[test]
fn fail_fast_ends_everything_at_once() {
    let flow =
        "name: f\non_failure: fail_fast\nsteps:\n  slow: { run: 'sleep 1000' }\n  bad: { run: 'exit 1' }\n";
    let place = place(flow);
    let last = events(&place, &["--pool", "2"], 1).pop().unwrap();
    assert_eq!(last["steps"], json!({ "cancelled": 1, "failed": 1 }));
}

#[test]
fn time_is_limited() {
    let flow = "name: t\nsteps:\n  slow: { run: 'sleep 1000', timeout: 100ms, retry: { max_attempts: 1 } }\n";
    let place = place(flow);
    let last = events(&place, &[], 1).pop().unwrap();
    assert_eq!(last["failures"][0]["error"], "timed out after 100ms");
    assert_eq!(last["failures"][0]["state"], "dead_letter");
}
