//! `windlass run` with a store that others share. What it means is tested on files; here it is that it works,
//! and goes on.

use serde_json::{Value, json};

use crate::support::{Place, Running, gone};
use crate::{empty, run_with};

/// A place with a workflow file in it.
fn place(flow: &str) -> Place {
    let place = empty();
    place.file("flow.yaml", flow);
    place
}

/// Runs `flow.yaml` to its end and gives its events.
fn events(place: &Place, arguments: &[&str], code: i32) -> Vec<Value> {
    let said = place.run(&[&["run", "flow.yaml", "--json"], arguments].concat());
    assert_eq!(said.code, code, "{}{}", said.out, said.err);
    said.out.lines().map(|line| serde_json::from_str(line).expect("every line is an event")).collect()
}

/// The steps that something happened to.
fn steps<'e>(events: &'e [Value], what: &str) -> Vec<&'e str> {
    let steps = events.iter().filter(|event| event["event"] == what);
    steps.map(|event| event["step"].as_str().unwrap()).collect()
}

#[test]
fn a_file_is_run_to_its_end() {
    let place = place(
        "name: all\nsteps:\n  list: { run: \"echo '[3, 4]'\" }\n  \
         each: { needs: list, map: { over: list, max_parallel: 1 }, input: '${item * 2}', run: cat }\n  \
         never: { needs: list, if: 'size(list) > 2', run: 'touch wrong' }\n  \
         shaky: { needs: list, retry: { backoff: none }, run: 'test $WINDLASS_ATTEMPT = 2 || exit 1' }\n  \
         end: { needs: [each, never, shaky], join: all_done, input: '${each}', run: cat }\n",
    );
    let told = events(&place, &[], 0);
    assert_eq!(told[0]["resumed"], false);
    assert!(!told[0]["store"].to_string().contains(crate::SECRET), "{}", told[0]);
    assert_eq!(steps(&told, "step_retrying"), ["shaky"]);
    assert_eq!(steps(&told, "step_skipped"), ["never"]);
    let last = told.last().unwrap();
    assert_eq!((&last["state"], &last["results"]), (&json!("complete"), &json!({ "end": [6, 8] })));
    assert_eq!(place.files(), ["flow.yaml"], "nothing is kept beside it");
    // It is there for everybody.
    let id = last["workflow_id"].as_str().unwrap();
    assert_eq!(place.json(&["workflow", "get", id])["state"], "complete");
    let again = events(&place, &[], 0);
    assert_ne!(again[0]["workflow_id"], told[0]["workflow_id"], "a run that is over is followed by another");
}

#[test]
fn killed_in_the_middle_it_goes_on_with_what_is_left() {
    let place = place(
        "name: three\nsteps:\n  one: { run: 'echo 1 >> marks' }\n  \
         two: { needs: one, run: 'echo 2 >> marks; test -e through || { echo $$ > talk; sleep 1000; }' }\n  \
         three: { needs: two, run: 'echo 3 >> marks' }\n",
    );
    let mut talk = place.fifo("talk");
    let mut command = place.program();
    let running = Running::start(command.args(["run", "flow.yaml"]));
    let process = talk.number();
    place.file("through", "");
    running.kill();
    gone(process);
    let told = events(&place, &[], 0);
    assert_eq!(told[0]["resumed"], true);
    assert_eq!(place.read("marks"), "1\n2\n2\n3\n");
    assert_eq!(steps(&told, "step_returned"), ["two"]);
    assert_eq!(steps(&told, "step_completed"), ["two", "three"]);
}

#[test]
fn what_failed_is_tried_again_even_within() {
    let place = place(
        "name: p\nsteps:\n  nest: { workflow: child }\n  after: { needs: nest, run: 'echo a >> marks' }\n",
    );
    let child = "name: child\nsteps:\n  good: { run: 'echo g >> marks' }\n  \
                 bad: { needs: good, run: 'echo b >> marks; test -e fixed || exit 3' }\n";
    let applied = run_with(&place, &["definition", "apply", "-"], child);
    assert_eq!(applied.code, 0, "{}", applied.err);
    let told = events(&place, &[], 1);
    assert_eq!(steps(&told, "step_failed"), ["nest/bad"]);
    place.file("fixed", "");
    let told = events(&place, &["--retry"], 0);
    assert_eq!(steps(&told, "step_completed"), ["nest/bad", "nest", "after"]);
    assert_eq!(place.read("marks"), "g\nb\nb\na\n");
}

/// Steps that are workflows are started by a worker that was asked to.
#[test]
fn a_worker_starts_workflows_within_others() {
    let place = place(
        "name: parent\nsteps:\n  nest: { workflow: child, input: { n: 20 } }\n  sum: { needs: nest, task: echo, input: '${nest.twice + 2}' }\n",
    );
    place.file("child.yaml", "name: child\nsteps:\n  twice: { task: echo, input: '${input.n * 2}' }\n");
    place.json(&["definition", "apply", "child.yaml", "flow.yaml"]);
    let mut worker = place.work(&["--workflows", "--exec", "echo=cat"]);
    let ended = place.json(&["workflow", "start", "parent", "--wait"]);
    assert_eq!((&ended["state"], &ended["output"]), (&json!("complete"), &json!({ "sum": 42 })), "{ended}");
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.end().code, 0);
}
