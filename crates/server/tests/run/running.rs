//! Workflows that do what they should, and how that is told.

use serde_json::{Value, json};

use super::{events, place, run, start};
use crate::support::{Place, Running};

const CHAIN: &str = r#"
name: chain
steps:
  one: { run: "echo '{\"n\": 1}'" }
  two: { needs: one, input: "${one.n + 1}", run: cat }
  three: { needs: two, input: "${two}", run: "read -r n; echo \"$n is two  \"" }
"#;

/// The words of a line that are the same every time: not when, not how long.
fn essence(line: &str) -> String {
    let line = line
        .split_once(' ')
        .filter(|(time, _)| time.len() == 8 && time.contains(':'))
        .map_or(line, |(_, rest)| rest);
    line.split(" in ").next().unwrap().into()
}

#[test]
fn what_happens_is_told_in_lines() {
    let place = place(CHAIN);
    let said = run(&place, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<String> = said.out.lines().map(essence).collect();
    assert_eq!(
        lines,
        [
            "one started",
            "one completed",
            "two started",
            "two completed",
            "three started",
            "three completed",
            "chain complete",
            "three: \"2 is two  \"",
        ]
    );
    let time = said.out.split(' ').next().unwrap();
    assert!(time.len() == 8 && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':'), "{time}");
    assert!(said.err.starts_with("run ") && said.err.contains("sqlite:flow.windlass.db?durability=normal"));
    assert!(said.out.contains(": 3 completed\n"), "{}", said.out);
    assert_eq!(place.files(), ["flow.windlass.db", "flow.yaml"]);
}

#[test]
fn signals_that_its_parent_ignored_keep_a_run_from_nothing() {
    let place = place(CHAIN);
    let mut command = place.program_of_deaf_parent();
    let said = Running::start(command.args(["run", "flow.yaml"])).end();
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.ends_with("three: \"2 is two  \"\n"), "{}", said.out);
}

#[test]
fn programs_read_events() {
    let place = place(CHAIN);
    let events = events(&place, &[], 0);
    let names: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event["event"].as_str().unwrap(), event["step"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        names,
        [
            ("workflow_started", ""),
            ("step_started", "one"),
            ("step_completed", "one"),
            ("step_started", "two"),
            ("step_completed", "two"),
            ("step_started", "three"),
            ("step_completed", "three"),
            ("workflow_ended", ""),
        ]
    );
    assert_eq!(events[0]["resumed"], false);
    assert_eq!((&events[2]["result"], &events[2]["attempt"]), (&json!({ "n": 1 }), &json!(1)));
    let last = events.last().unwrap();
    assert_eq!((&last["state"], &last["success"]), (&json!("complete"), &json!(true)));
    assert_eq!(last["steps"], json!({ "completed": 3 }));
    assert_eq!(last["results"], json!({ "three": "2 is two  " }));
    assert_eq!(last["workflow_id"], events[0]["workflow_id"]);
    assert!(last["failures"].as_array().unwrap().is_empty() && last["retry"].is_null());
}

#[test]
fn a_program_knows_where_it_is() {
    let place = place(
        "name: env\nsteps:\n  many:\n    map: { over: [7] }\n    run: 'printf \"%s %s %s %s\" $WINDLASS_STEP $WINDLASS_ATTEMPT \
         $WINDLASS_WORKFLOW $WINDLASS_TASK; cat'\n  file: { run: 'cat beside' }\n  none: { run: 'true' }\n  lines: { run: 'printf \"a\\n\\n\"' }\n",
    );
    place.file("beside", "found");
    let elsewhere = tempfile::tempdir().unwrap();
    let file = place.path().join("flow.yaml");
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    let output = command.current_dir(elsewhere.path()).arg("run").arg(file).arg("--json").output().unwrap();
    let last = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    let results = &last["results"];
    assert_eq!(results["file"], "found", "programs run where the file is: {last}");
    assert_eq!(results["none"], Value::Null);
    assert_eq!(results["lines"], "a\n");
    let told = results["many"][0].as_str().unwrap();
    let words: Vec<&str> = told.split(' ').collect();
    assert_eq!((words[0], words[1], words[2]), ("many[0]", "1", last["workflow_id"].as_str().unwrap()));
    assert!(words[3].ends_with('7') && words[3].len() == 37, "the task, then the item: {told}");
}

#[test]
fn a_map_runs_once_for_each_item() {
    let flow = "name: m\nsteps:\n  each: { map: { over: 'input.list', max_parallel: 2 }, run: cat }\n  \
                sum: { needs: each, input: '${each}', run: cat }\n";
    let place = place(flow);
    let events = events(&place, &["--input", r#"{"list": [1, "b", null]}"#], 0);
    let of = |name: &str| {
        let mut steps: Vec<&str> = events
            .iter()
            .filter(|event| event["event"] == name)
            .map(|event| event["step"].as_str().unwrap())
            .collect();
        steps.sort_unstable();
        steps
    };
    assert_eq!(of("step_completed"), ["each", "each[0]", "each[1]", "each[2]", "sum"]);
    assert_eq!(of("step_expanded"), ["each"]);
    let order: Vec<&Value> = events.iter().filter(|event| event["event"] == "step_completed").collect();
    assert_eq!(order[3]["step"], "each", "a step completes after its items");
    assert_eq!(events.last().unwrap()["results"]["sum"], json!([1, "b", null]));
}

#[test]
fn a_condition_that_is_false_skips() {
    let flow = "name: c\nsteps:\n  a: { run: 'echo 1' }\n  b: { needs: a, if: 'a > 1', run: 'touch wrong' }\n  c: { needs: b, run: 'touch wrong' }\n  \
                d: { needs: [a, b], join: all_done, run: 'echo end' }\n";
    let place = place(flow);
    let said = run(&place, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains(" b skipped: its condition is false: a > 1\n"), "{}", said.out);
    assert!(said.out.contains(" c skipped: ") && !said.out.contains("b started"), "{}", said.out);
    assert!(
        said.out.contains(": 2 completed, 2 skipped\n") && said.out.contains("d: \"end\"\n"),
        "{}",
        said.out
    );
    assert!(!place.path().join("wrong").exists());
}

#[test]
fn a_program_may_ask_to_be_run_again() {
    let flow = "name: r\nsteps:\n  shaky:\n    retry: { max_attempts: 3, backoff: fixed, initial: 10ms }\n    \
                run: 'if [ $WINDLASS_ATTEMPT -lt 2 ]; then echo busy >&2; exit 75; fi; echo $WINDLASS_ATTEMPT'\n";
    let place = place(flow);
    let said = run(&place, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told = "ms (attempt 2 of 3): the program asked to be run again (exit code 75): busy";
    assert!(said.out.contains(told), "{}", said.out);
    assert!(
        said.out.contains("shaky started (attempt 2 of 3)\n") && said.out.ends_with("shaky: 2\n"),
        "{}",
        said.out
    );
}

#[test]
fn a_run_that_is_complete_is_followed_by_another() {
    let place = place("name: again\nsteps:\n  mark: { run: 'echo x >> marks' }\n");
    let ids: Vec<Value> = (0..4).map(|_| events(&place, &[], 0)[0]["workflow_id"].clone()).collect();
    assert_eq!(place.read("marks"), "x\nx\nx\nx\n");
    assert!((1..4).all(|n| !ids[..n].contains(&ids[n])), "{ids:?}");
}

#[test]
fn a_kind_that_nobody_does_waits_for_a_worker() {
    let place = place(
        "name: k\nsteps:\n  ask: { task: 'email:send', input: 5 }\n  end: { needs: ask, input: '${ask}', run: cat }\n",
    );
    let mut running = start(&place, &["--store", "sqlite:shared.db"]);
    let told = running.until("no worker does email:send");
    assert!(told.contains("windlass work --store sqlite:shared.db"), "{told}");
    let mut worker = place.work(&["--store", "sqlite:shared.db", "--exec", "email:send=cat"]);
    let said = running.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.ends_with("end: 5\n"), "{}", said.out);
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.end().code, 0);
    // With a worker there is nothing to warn of, and no file beside.
    assert!(!place.path().join("flow.windlass.db").exists());
}

#[test]
fn a_worker_runs_steps_if_it_is_asked_to() {
    let place = place("name: w\nsteps:\n  a: { run: 'echo 1' }\n");
    let worker = place.work(&["--store", "sqlite:flow.windlass.db", "--run-steps"]);
    let said = run(&place, &["--pool", "1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    worker.signal(rustix::process::Signal::TERM);
    for steps in ["--run-steps", "--workflows", "--quiet"] {
        for kind in ["windlass.run", "windlass.workflow", "windlass.later"] {
            let exec = format!("{kind}=true");
            let refused = place.run(&["work", steps, "--exec", &exec]);
            refused.told(2, &format!("--exec cannot take the kind \"{kind}\""));
        }
    }
    place.run(&["work"]).told(2, "--exec");
}

#[test]
fn the_examples_run() {
    let place = Place::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workflows");
    let mut running = Vec::new();
    for file in std::fs::read_dir(examples).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        place.file(&name, std::fs::read(file.path()).unwrap());
        let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
        running.push((Running::start(command.args(["run", &*name])), name));
    }
    assert!(running.len() >= 5);
    for (mut one, name) in running {
        let said = one.end();
        assert_eq!(said.code, 0, "{name}: {}{}", said.out, said.err);
    }
}

#[test]
fn a_step_may_be_a_workflow_that_the_store_has() {
    let place = place("name: child\nsteps:\n  double: { input: '${input * 2}', run: cat }\n");
    assert_eq!(
        events(&place, &["--input", "1", "--store", "sqlite:s.db"], 0).pop().unwrap()["results"]["double"],
        2
    );
    place.file("flow.yaml", "name: parent\nsteps:\n  nest: { workflow: child, input: 21 }\n  out: { needs: nest, input: '${nest}', run: cat }\n");
    let told = events(&place, &["--store", "sqlite:s.db"], 0);
    let ended: Vec<&Value> = told.iter().filter(|event| event["event"] == "step_completed").collect();
    let names: Vec<&str> = ended.iter().map(|event| event["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["nest/double", "nest", "out"], "what is within is told, and before its step");
    assert_eq!(ended[0]["result"], 42);
    let last = told.last().unwrap();
    assert!(last["results"]["out"].to_string().contains("42"), "{last}");
    assert_eq!(last["steps"], json!({ "completed": 2 }), "its own are counted");
    place.file(
        "flow.yaml",
        "name: orphan\nsteps:\n  nest: { workflow: nobody, retry: { max_attempts: 1 } }\n",
    );
    let said = run(&place, &[]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("the store has no definition \"nobody\""), "{}", said.err);
}
