//! Several programs, several workers, and the death of one.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Place, gone};

#[test]
fn the_pool_limits_how_many_run_at_once() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("running")).unwrap();
    let (mut begun, mut gate) = (place.fifo("begun"), place.fifo("gate"));
    place.submit_many(6, "count", |_| json!(null));
    let count = "count=touch running/$$; ls running | wc -l; echo x > begun; read x < gate; rm running/$$";
    let mut worker = place.work(&["--exec", count, "--pool", "2", "--drain"]);
    for _ in 0..6 {
        begun.line();
        gate.open();
    }
    assert_eq!(worker.end().code, 0);
    let result = |task: &Value| place.task(task["id"].as_str().unwrap())["result"].as_u64().unwrap();
    let counts: Vec<u64> = place.tasks().iter().map(result).collect();
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
}

#[test]
fn a_pool_is_used() {
    let place = Place::new();
    let (mut begun, mut gate) = (place.fifo("begun"), place.fifo("gate"));
    place.submit_many(5, "wait", |_| json!(null));
    let mut worker = place.work(&["--exec", "wait=echo x > begun; read x < gate", "--pool", "5", "--drain"]);
    // All of them have begun before the first may end.
    (0..5).for_each(|_| drop(begun.line()));
    (0..5).for_each(|_| gate.open());
    assert_eq!(worker.end().out, "5 completed, 0 failed attempts, 0 others\n");
}

#[test]
fn a_worker_takes_what_it_has_programs_for() {
    let place = Place::new();
    let other_kind = place.submit(&["other"]);
    let other_queue = place.submit(&["mine", "--queue", "elsewhere"]);
    let other_namespace = place.submit(&["mine", "--namespace", "elsewhere"]);
    let mine = [place.submit(&["mine"]), place.submit(&["mine", "--queue", "second"])];
    let said = place.drain(&["--exec", "mine=true", "--queue", "default", "--queue", "second"]);
    assert_eq!(said.out, "2 completed, 0 failed attempts, 0 others\n");
    for id in &mine {
        assert_eq!(place.task(id)["state"], "completed");
    }
    for id in [&other_kind, &other_queue, &other_namespace] {
        assert_eq!(place.task(id)["state"], "pending");
    }
}

#[test]
fn two_workers_share_a_queue_and_do_nothing_twice() {
    let place = Place::new();
    let (mut begun, mut gate) = (place.fifo("begun"), place.fifo("gate"));
    place.submit_many(40, "note", |n| json!(n));
    let note = "--exec=note=read n; echo $n >> done; echo x > begun; read x < gate";
    let work = [note, "--pool", "3", "--drain"];
    let (mut one, mut other) = (place.work(&work), place.work(&work));
    // More than one of them can run: both take part.
    (0..6).for_each(|_| drop(begun.line()));
    (0..40).for_each(|_| gate.open());
    let (one, other) = (one.end(), other.end());
    assert_eq!((one.code, other.code), (0, 0));
    let done = place.read("done");
    let distinct: HashSet<&str> = done.lines().collect();
    assert_eq!((done.lines().count(), distinct.len()), (40, 40));
    let completed = |out: &str| out.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert_eq!(completed(&one.out) + completed(&other.out), 40, "{} {}", one.out, other.out);
}

#[test]
fn what_a_killed_worker_held_is_finished_by_another_and_its_programs_are_gone() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hold"]);
    // A shell with a child, neither of which listens to anybody.
    let hold = "--exec=hold=trap '' TERM HUP INT; sleep 1000 & echo $! > talk; echo $$ > talk; wait";
    let victim = place.work(&[hold, "--no-lead", "--dead-after", "1s"]);
    let (child, shell) = (talk.number(), talk.number());
    victim.kill();
    gone(child);
    gone(shell);
    let said = place.drain(&["--exec", "hold=echo rescued"]);
    assert_eq!(said.out, "1 completed, 0 failed attempts, 0 others\n");
    let task = place.task(&id);
    assert_eq!((&task["result"], &task["attempt"]), (&json!("rescued"), &json!(2)), "{task}");
    assert_eq!(task["attempts"][0]["ended"], "lease_expired", "{task}");
}

#[test]
fn old_tasks_are_deleted_by_the_one_who_leads() {
    let place = Place::new();
    let (good, bad) = (place.submit(&["good"]), place.submit(&["bad"]));
    let execs = ["--exec", "good=true", "--exec", "bad=false"];
    place.drain(&execs);
    if place.server().is_some() {
        // The server leads.
        return place
            .run(&[&["work"], &execs[..], &["--keep", "failed=1d"]].concat())
            .told(2, "windlass serve");
    }
    place.drain(&[&execs[..], &["--keep", "completed=0s", "--keep", "failed=1d"]].concat());
    assert_eq!(place.run(&["task", "get", &good]).code, 1);
    assert_eq!(place.task(&bad)["state"], "failed");
}

#[test]
fn the_summary_is_one_json_value() {
    let place = Place::new();
    for kind in ["good", "good", "bad", "again"] {
        place.submit(&[kind, "--retry", "none"]);
    }
    let again = "again=test $WINDLASS_ATTEMPT = 3 || exit 75";
    let said =
        place.drain(&["--exec", "good=true", "--exec", "bad=false", "--exec", again, "--json", "--quiet"]);
    let summary = said.json();
    assert_eq!(
        (&summary["completed"], &summary["failed"], &summary["other"]),
        (&json!(3), &json!(3), &json!(0))
    );
    assert!(said.err.contains(summary["worker_id"].as_str().unwrap()));
    assert!(!said.err.contains("attempt"), "{}", said.err);
}

#[test]
fn what_happens_is_told() {
    let place = Place::new();
    let id = place.submit(&["bad"]);
    let said = place.drain(&["--exec", "bad=printf 'broken\\033[0m' >&2; exit 1"]);
    let expected =
        format!("{id} bad attempt 1 failed: the program failed with exit code 1: broken\\u{{1b}}[0m (");
    assert!(said.err.contains(&expected), "{}", said.err);
    assert!(
        said.err.contains("durability full: an acknowledged write survives a power cut\n"),
        "{}",
        said.err
    );
}

#[test]
fn a_full_machine_costs_no_attempt() {
    let place = Place::new();
    let mut begun = place.fifo("begun");
    place.submit_many(20, "wait", |_| json!(null));
    let mut command = place.command("sh");
    // Room for a few programs, but not for as many as the pool.
    let script =
        r#"ulimit -n 60; exec "$WINDLASS" work --pool 20 --drain --exec 'wait=echo x > begun; sleep 0.1'"#;
    let mut worker = crate::support::Running::start(command.args(["-c", script]));
    worker.until("put off for 1s");
    (0..20).for_each(|_| drop(begun.line()));
    assert_eq!(worker.end().code, 0);
    let tasks = place.tasks();
    let is_done = |task: &Value| task["state"] == "completed" && task["attempt"] == 1;
    assert!(tasks.len() == 20 && tasks.iter().all(is_done), "{tasks:#?}");
}
