//! `windlass doctor`: each finding provoked, and that it only looks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};
use support::Place;

/// The database, behind the program's back.
fn database(place: &Place) -> Connection {
    Connection::open(place.path().join("windlass.db")).unwrap()
}

/// Every row of every table.
fn rows(place: &Place) -> Vec<(String, Vec<Vec<Cell>>)> {
    let database = database(place);
    let mut tables =
        database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let read = |table: &String| {
        let mut rows = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let rows = rows.query_map([], |row| (0..columns).map(|column| row.get(column)).collect()).unwrap();
        (table.clone(), rows.map(Result::unwrap).collect())
    };
    tables.iter().map(read).collect()
}

/// What the doctor finds: the level, the exit code, and one line for each finding.
fn look(place: &Place, arguments: &[&str]) -> (String, i32, Vec<String>) {
    let said = place.run(&[&["doctor", "--json"], arguments].concat());
    let answer = said.json();
    let findings = answer["findings"].as_array().unwrap().iter().map(line).collect();
    (answer["level"].as_str().unwrap().into(), said.code, findings)
}

/// The same for a store that nobody else uses: nothing is changed by looking, and people are told what
/// programs are.
fn examine(place: &Place, arguments: &[&str]) -> (String, i32, Vec<String>) {
    let before = (rows(place), place.files());
    let (level, code, findings) = look(place, arguments);
    let text = place.run(&[&["doctor"], arguments].concat());
    assert!((rows(place), place.files()) == before, "it changed something");
    assert_eq!(text.code, code);
    // Others use the same disk.
    for finding in findings.iter().filter(|finding| !finding.contains("free space")) {
        let (level, rest) = finding.split_once(": ").unwrap();
        let (what, advice) = rest.split_once(" -> ").unwrap();
        let advice = if advice.is_empty() { String::new() } else { format!("         → {advice}\n") };
        assert!(text.out.contains(&format!("{level:<8} {what}\n{advice}")), "{finding} in {}", text.out);
    }
    (level, code, findings)
}

fn line(finding: &Value) -> String {
    let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    format!("{}: {} -> {}", text("level"), text("what"), text("advice"))
}

/// One finding has all of these parts.
fn finds(findings: &[String], parts: &[&str]) {
    let has_all = |finding: &String| parts.iter().all(|part| finding.contains(part));
    assert!(findings.iter().any(has_all), "{parts:?} in {findings:#?}");
}

fn finds_no(findings: &[String], level: &str) {
    assert!(findings.iter().all(|finding| !finding.starts_with(level)), "{findings:#?}");
}

#[test]
fn a_store_that_is_well() {
    let place = Place::new();
    place.submit(&["good"]);
    let mut worker = place.work(&["--exec", "good=true"]);
    worker.until("completed");
    let (level, code, findings) = look(&place, &[]);
    assert_eq!((&*level, code), ("ok", 0), "{findings:#?}");
    finds(&findings, &["ok: durability: full"]);
    finds(&findings, &["ok: 1 worker(s) alive"]);
    finds(&findings, &["ok: worker ", " leads (term 1)"]);
    finds(&findings, &["ok: all 1 tasks can be read"]);
    drop(worker);
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let place = Place::new();
    place.run(&["doctor"]).told(1, "there is no database windlass.db");
    place.run(&["doctor", "--namespace", "x"]).told(2, "all namespaces");
    place.run(&["doctor", "--long", "soon"]).told(2, "1h30m");
    assert_eq!(place.files(), [""; 0]);
    let said = place.run(&["doctor", "--store", "memory:", "--json"]);
    assert_eq!(said.code, 0);
    finds(
        &said.json()["findings"].as_array().unwrap().iter().map(line).collect::<Vec<_>>(),
        &["note: durability: none", "sqlite:PATH"],
    );
}

#[test]
fn a_store_of_another_version_is_left_as_it_is() {
    let place = Place::new();
    place.file("windlass.db", "");
    let said = place.run(&["doctor", "--json"]);
    assert_eq!((said.code, &said.json()["level"]), (1, &json!("problem")));
    finds(
        &[line(&said.json()["findings"][0])],
        &["windlass.db is behind", "migration(s)", "windlass migrate"],
    );
    assert_eq!(place.read("windlass.db"), "");
    place.file("other.db", "this is a text of more than a hundred bytes, which is not what a database looks like, not at all, by no means");
    assert_eq!(place.run(&["doctor", "--store", "sqlite:other.db"]).code, 1);
    assert_eq!(place.files(), ["other.db", "windlass.db"]);
}

#[test]
fn what_nobody_can_run() {
    let place = Place::new();
    place.submit(&["now", "--queue", "q", "--namespace", "n"]);
    place.submit(&["now", "--queue", "q", "--namespace", "n", "--delay", "1d"]);
    place.submit(&["later", "--delay", "1d"]);
    let (level, code, findings) = examine(&place, &[]);
    assert_eq!((&*level, code), ("problem", 1));
    finds(&findings, &["note: no worker is alive"]);
    finds(
        &findings,
        &[
            "problem: 2 task(s) of kind \"now\" in queue \"q\" of \"n\"",
            "'now=COMMAND' --queue q --namespace n",
        ],
    );
    finds(&findings, &["note: 1 task(s) of kind \"later\"", "not due yet", "'later=COMMAND'"]);
    assert_eq!(place.run(&["doctor"]).err, "windlass: 1 problem(s) found; the advice is beside each\n");
    let worker =
        place.work(&["--exec", "now=true", "--queue", "q", "--namespace", "n", "--exec", "later=true"]);
    let (_, code, findings) = look(&place, &[]);
    assert_eq!(code, 0, "{findings:#?}");
    drop(worker);
}

#[test]
fn a_queue_that_is_paused() {
    let place = Place::new();
    for namespace in ["default", "n"] {
        assert_eq!(place.run(&["queue", "pause", "q", "--namespace", namespace]).code, 0);
    }
    let (level, code, findings) = examine(&place, &[]);
    assert_eq!((&*level, code), ("note", 0));
    finds(
        &findings,
        &["note: queue \"q\" of \"default\" is paused; 0 task(s) wait -> windlass queue resume q"],
    );
    finds(&findings, &["queue \"q\" of \"n\"", "windlass queue resume q --namespace n"]);
}

#[test]
fn a_lease_of_a_worker_that_was_killed() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let id = place.submit(&["hang"]);
    let hang = ["--exec", "hang=echo $$ > talk; sleep 1000", "--dead-after", "1s"];
    // A term lasts about as long as a worker may be silent: who led and died may or may not still count as
    // the leader.
    for (lead, advice) in [(&["--no-lead"][..], "no worker leads; start one that may"), (&[], "worker")] {
        let worker = place.work(&[&hang[..], lead].concat());
        let program = talk.number();
        worker.kill();
        support::gone(program);
        // Again and again, until it counts as dead.
        let findings = (0..1_000).find_map(|_| {
            let (_, code, findings) = look(&place, &[]);
            (code == 1 && findings.iter().any(|finding| finding.contains("stale"))).then_some(findings)
        });
        let findings = findings.expect("its lease is over at last");
        finds(&findings, &["problem: 1 stale lease(s)", &id, advice]);
        finds(&findings, &["problem: nobody leads, and tasks wait for a leader", advice]);
        finds(&findings, &["note: ", "worker ", "has been silent for", "killed or cut off"]);
    }
}

#[test]
fn what_should_have_become_pending() {
    let place = Place::new();
    let retry = place.submit(&["flaky", "--retry-base", "10m", "--retry-cap", "1h"]);
    let mut worker = place.work(&["--exec", "flaky=exit 75", "--no-lead"]);
    worker.until("attempt 1 failed");
    let waiting = || look(&place, &[]);
    // The report is on its way; then it waits.
    assert!((0..1_000).any(|_| place.task(&retry)["state"] == "waiting_for_retry"));
    finds_no(&waiting().2, "problem");
    // A worker would take it although nobody promoted it.
    worker.signal(rustix::process::Signal::TERM);
    worker.end();
    database(&place).execute("UPDATE tasks SET due_at = due_at - 900000000", []).unwrap();
    let (_, code, findings) = waiting();
    assert_eq!(code, 1);
    finds(
        &findings,
        &["problem: 1 task(s) should have become pending over a minute ago", &retry, "no worker leads"],
    );
}

#[test]
fn schedules_that_do_not_fire() {
    let place = Place::new();
    let schedule = ["schedule", "set", "often", "* * * * *", "x", "--namespace", "n"];
    assert_eq!(place.run(&schedule).code, 0);
    assert_eq!(place.run(&["schedule", "set", "paused", "* * * * *", "x", "--paused"]).code, 0);
    finds_no(&examine(&place, &[]).2, "problem");
    database(&place).execute("UPDATE schedules SET next_at = next_at - 300000000", []).unwrap();
    let (_, code, findings) = examine(&place, &[]);
    assert_eq!(code, 1);
    finds(&findings, &["problem: schedule \"often\" should have fired at 2", "no worker leads"]);
    assert!(!findings.iter().any(|finding| finding.contains("\"paused\"")), "{findings:#?}");
    // What it submits is refused: a leader tells it with the schedule.
    assert_eq!(place.run(&[&schedule[..], &["--entity", "planner:42", "--require-entity"]].concat()).code, 0);
    database(&place).execute("UPDATE schedules SET next_at = next_at - 300000000", []).unwrap();
    place.drain(&["--exec", "x=true"]);
    let (_, code, findings) = examine(&place, &[]);
    assert_eq!(code, 1, "{findings:#?}");
    finds(
        &findings,
        &["problem: schedule \"often\": ", "planner:42", "windlass schedule set often … --namespace n"],
    );
}

#[test]
fn settings_that_may_lose_something() {
    let place = Place::new();
    place.submit(&["x", "--delay", "1d"]);
    let (level, _, findings) = examine(&place, &["--store", "sqlite:windlass.db?durability=normal"]);
    assert_eq!(level, "note");
    finds(&findings, &["note: durability: normal", "power cut"]);
}

#[test]
fn dead_letters() {
    let place = Place::new();
    place.submit(&["x", "--max-attempts", "1"]);
    place.drain(&["--exec", "x=exit 75"]);
    let (level, code, findings) = examine(&place, &[]);
    assert_eq!((&*level, code), ("note", 0));
    finds(&findings, &["note: 1 dead letter(s)", "windlass task retry --all --state dead_letter"]);
    // The advice works.
    assert_eq!(place.run(&["task", "retry", "--all", "--state", "dead_letter"]).code, 0);
    assert!(!examine(&place, &[]).2.iter().any(|finding| finding.contains("dead letter")));
}

#[test]
fn attempts_that_take_long() {
    let place = Place::new();
    let mut talk = place.fifo("talk");
    let endless = place.submit(&["wait"]);
    let limited = place.submit(&["wait", "--timeout", "1h"]);
    let worker = place.work(&["--exec", "wait=echo x > talk; sleep 1000"]);
    talk.line();
    talk.line();
    let (_, code, findings) = look(&place, &["--long", "0s"]);
    assert_eq!(code, 0);
    finds(&findings, &["note: task ", &endless, "(wait) runs since", "no time limit", "windlass task get"]);
    assert!(!findings.iter().any(|finding| finding.contains(&limited)), "{findings:#?}");
    finds_no(&look(&place, &[]).2, "note");
    drop(worker);
}

#[test]
fn rows_that_cannot_be_read() {
    let place = Place::new();
    place.submit(&["x"]);
    place.submit(&["x", "--delay", "1d"]);
    place.submit_many(1_500, "x", |_| json!(null));
    let set = |sql: &str| database(&place).execute(sql, []).unwrap();
    // The oldest of all, on the second page.
    set("UPDATE tasks SET retry = '{\"backoff\": \"mystery\"}' WHERE seq = 1");
    let (_, code, findings) = examine(&place, &[]);
    assert_eq!(code, 1);
    finds(
        &findings,
        &["problem: after 1000 tasks, newest first, one cannot be read", "version of windlass that wrote it"],
    );
    set("UPDATE tasks SET retry = NULL");
    assert_eq!(place.run(&["schedule", "set", "s", "* * * * *", "x"]).code, 0);
    set("UPDATE schedules SET missed = 'mystery'");
    let (_, _, findings) = examine(&place, &[]);
    finds(&findings, &["problem: schedules cannot be read"]);
    finds(&findings, &["ok: all 1502 tasks can be read"]);
}

/// All of a file, in many ways wrong: each is named, and a file that is well has nothing.
#[test]
fn deep_names_every_damage() {
    let place = Place::new();
    place.submit_many(200, "x", |n| json!({ "n": n, "text": "y".repeat(300) }));
    place.drain(&["--exec", "x=true"]);
    place.submit(&["y", "--delay", "1d"]);
    place.file("flow.yaml", "name: f\nversion: '1'\nsteps: { a: { task: z } }\n");
    assert_eq!(place.run(&["workflow", "start", "--file", "flow.yaml"]).code, 0);
    let (_, code, findings) = look(&place, &["--deep"]);
    finds(&findings, &["ok: all of it was looked at: 202 tasks and 1 workflows are whole"]);
    assert!(findings.iter().all(|finding| !finding.contains("damaged")), "{code} {findings:#?}");
    drop(database(&place).query_row("PRAGMA wal_checkpoint(truncate)", [], |_| Ok(())));
    let whole = std::fs::read(place.path().join("windlass.db")).unwrap();
    let off = "PRAGMA foreign_keys = off; PRAGMA ignore_check_constraints = on; DROP TRIGGER history_is_never_altered; DROP TRIGGER history_goes_only_with_its_task; DROP TRIGGER workflow_history_goes_only_with_its_workflow;";
    for (sql, told) in [
        ("DELETE FROM tasks WHERE seq = 3", "a row of "),
        ("DELETE FROM payloads WHERE task = 3", "a task has no payload"),
        ("DELETE FROM history WHERE task = 3 AND n = 2", "a history does not lead to where its task is"),
        ("DELETE FROM history WHERE task = 3", "a history does not lead to where its task is"),
        ("UPDATE history SET state = 'running' WHERE task = 3 AND n = 4", "a history does not lead"),
        ("UPDATE history SET at = at - 9999999999 WHERE task = 3 AND n = 4", "a history does not lead"),
        ("UPDATE history SET reason = 'mystery' WHERE task = 3 AND n = 1", "a task cannot be read: task "),
        ("UPDATE tasks SET state = 'cancelled', result = NULL WHERE seq = 3", "a history does not lead"),
        ("UPDATE tasks SET lease = 7 WHERE seq = 3", "claims: 1 by its history, 7 by its row"),
        ("UPDATE tasks SET attempt = 0 WHERE seq = 3", "attempts: 1 by its history, 0 by its row"),
        ("UPDATE tasks SET retry = 'mystery' WHERE seq = 3", "a task cannot be read: task "),
        ("UPDATE tasks SET state = 'mystery' WHERE seq = 3", "a task cannot be read: task "),
        ("UPDATE tasks SET updated_at = updated_at + 1 WHERE seq = 3", "its last change"),
        (
            "UPDATE counts SET tasks = tasks + 1 WHERE state = 'completed'",
            "completed tasks of kind \"x\": 201 kept, 200 rows",
        ),
        ("DELETE FROM counts", "a number of tasks is not the number of rows"),
        ("UPDATE workflow_counts SET workflows = 9", "9 kept, 1 rows"),
        (
            "UPDATE workflows SET definition = 99",
            "the file is damaged: a row of workflows names one of definitions",
        ),
        (
            "UPDATE tasks SET lane = 'x', lane_limit = 1, lane_strict = 0, slot = 1 WHERE seq = 3",
            "a task that is not in progress holds a slot: lane \"x\"",
        ),
        (
            "UPDATE tasks SET lane = 'x', lane_limit = 1, lane_strict = 1, slot = 1 WHERE finished_at IS NULL",
            "a lane has more tasks in progress than its limit: lane \"x\" of namespace \"default\", 2 in progress",
        ),
        (
            "UPDATE tasks SET lane = 'x', lane_limit = 1, lane_strict = 0 WHERE state = 'pending'",
            "a task waits beside a free slot of its lane",
        ),
        ("DELETE FROM inputs", "a workflow has no input"),
        ("DELETE FROM workflow_history", "a history does not lead to where its workflow is"),
    ] {
        std::fs::write(place.path().join("windlass.db"), &whole).unwrap();
        let connection = database(&place);
        connection.execute_batch(&format!("{off} {sql}")).unwrap_or_else(|error| panic!("{sql}: {error}"));
        drop(connection);
        let (level, code, findings) = look(&place, &["--deep"]);
        assert_eq!((&*level, code), ("problem", 1), "{sql}");
        assert!(
            findings.iter().any(|finding| finding.starts_with("problem: ") && finding.contains(told)),
            "{sql}: {told} in {findings:#?}"
        );
    }
    // Bytes of the file itself.
    for (from, to) in [
        (0, 100),
        (8_192, 16_384),
        (whole.len() / 2, whole.len() * 3 / 4),
        (whole.len() - 8_192, whole.len()),
    ] {
        let mut scratched = whole.clone();
        scratched[from..to].fill(0x5a);
        std::fs::write(place.path().join("windlass.db"), &scratched).unwrap();
        let said = place.run(&["doctor", "--deep"]);
        assert_eq!(said.code, 1, "{from} to {to}: {}", said.out);
        assert!(said.out.contains("damaged"), "{from} to {to}: {}", said.out);
    }
    place.run(&["doctor", "--deep", "--store", "memory:"]).told(2, "--deep is for a SQLite store");
}

#[test]
fn a_disk_that_takes_nothing() {
    let place = Place::new();
    place.submit(&["x", "--delay", "1d"]);
    // A limit on the size of files, as the disk's.
    let full = "trap '' XFSZ; ulimit -f 600; exec \"$WINDLASS\" doctor --json";
    let said = place.command("bash").args(["-c", full]).output().unwrap();
    let answer: Value = serde_json::from_slice(&said.stdout).unwrap();
    let findings: Vec<String> = answer["findings"].as_array().unwrap().iter().map(line).collect();
    assert_eq!(said.status.code(), Some(1), "{findings:#?}");
    finds(&findings, &["problem: . cannot be written: ", "check the disk"]);
    finds(&look(&place, &[]).2, &["free space: ", " bytes"]);
}

#[test]
fn many_dead_workers_are_one_line() {
    let place = Place::new();
    place.submit(&["x", "--delay", "1d"]);
    let insert = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 926)
        INSERT INTO workers SELECT 'w' || i, 'default', 'h', '', 1, '[]', '[]', 30000000, 1, 1 + i, NULL FROM n";
    database(&place).execute(insert, []).unwrap();
    let (_, _, findings) = look(&place, &[]);
    finds(
        &findings,
        &["note: 926 workers are silent, for up to ", "worker w926 on \"h\"", "they were killed or cut off"],
    );
    assert_eq!(findings.iter().filter(|finding| finding.contains("silent")).count(), 1);
}

#[test]
fn a_clock_that_was_set_back() {
    let place = Place::new();
    place.submit(&["x", "--delay", "1d"]);
    finds_no(&examine(&place, &[]).2, "problem");
    let ahead = "UPDATE tasks SET created_at = created_at + 3600000000, updated_at = updated_at + 3600000000";
    database(&place).execute(ahead, []).unwrap();
    let (_, code, findings) = look(&place, &[]);
    assert_eq!(code, 1);
    finds(
        &findings,
        &["problem: the clock was set back: tasks were written up to 59 min from now", "timedatectl"],
    );
}
