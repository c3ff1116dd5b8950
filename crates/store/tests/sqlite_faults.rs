//! A file that cannot be used, a disk that is full, callers that go away: nothing acknowledged is lost, and
//! the answer says what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rusqlite::Connection;
use support::{again, file, open, place, role, rows, runtime, task};
use windlass_core::{By, Json, Lane, Name, NewTask, Retention, State, TaskId};
use windlass_store::conformance::{
    claim_of, completed, details, finish, firing, hourly, id, invariants, report, token,
};
use windlass_store::sqlite::{Durability, Options, migrations};
use windlass_store::{Catalog, Clock, Error, Reads, SqliteStore, Store, SystemClock, Writes};

/// The files of a directory with their contents: what "not touched" means.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Opens what must be refused, and checks that nothing was touched.
fn refused(path: &Path) -> Error {
    let directory = path.parent().unwrap();
    let before = contents(directory);
    let error = SqliteStore::open(path).map(drop).expect_err("it is refused");
    let after = contents(directory);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after), "no file appears or goes ({error})");
    assert!(before == after, "no byte is changed ({error})");
    error
}

fn unusable(path: &Path, says: &[&str]) {
    let error = refused(path);
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    let name = path.display().to_string();
    assert_eq!(error.to_string().matches(&name).count(), 1, "the file is named: {error}");
    for words in says {
        assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
    }
}

/// A migrated file that nobody has open, with one task in it.
fn used(directory: &Path) -> PathBuf {
    let path = file(directory);
    runtime().block_on(async {
        let store = open(&path);
        store.submit(vec![task(1)]).await.unwrap();
        store.close().await.unwrap();
    });
    path
}

#[test]
fn a_path_in_a_missing_directory_is_refused_by_name() {
    let directory = place();
    let error = SqliteStore::open(directory.path().join("missing").join("windlass.db")).unwrap_err();
    assert!(matches!(&error, Error::Unusable(why) if why.contains("missing/windlass.db")), "{error:?}");
    assert!(contents(directory.path()).is_empty(), "no directory is made");
}

#[test]
fn a_file_that_is_not_a_database_is_refused_untouched() {
    for bytes in [&b"To whom it may concern. ".repeat(400)[..], &b"short"[..], &[0; 8192][..]] {
        let directory = place();
        std::fs::write(file(&directory), bytes).unwrap();
        unusable(&file(&directory), &["not a SQLite database"]);
    }
}

#[test]
fn an_empty_file_is_a_new_database() {
    let directory = place();
    std::fs::write(file(&directory), b"").unwrap();
    used(directory.path());
}

#[test]
fn a_database_of_another_program_is_refused_untouched() {
    for sql in
        ["CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')", "PRAGMA application_id = 42"]
    {
        let directory = place();
        Connection::open(file(&directory)).unwrap().execute_batch(sql).unwrap();
        unusable(&file(&directory), &["another program", "another file"]);
    }
}

/// I21: an old program refuses a newer schema, naming both versions.
#[test]
fn a_newer_schema_is_refused_naming_both_versions() {
    let directory = place();
    let path = used(directory.path());
    let connection = Connection::open(&path).unwrap();
    let sql = "SELECT max(version) FROM migrations";
    let known: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let newer = "INSERT INTO migrations VALUES (999, 'from the future', 'x', 0)";
    connection.execute(newer, []).unwrap();
    drop(connection);
    let before = rows(&path);
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    for words in ["version 999", &format!("knows {known}"), "newer windlass"] {
        assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
    }
    assert_eq!(rows(&path), before, "nothing is changed");
}

/// I21: a migration that was edited after it was applied is noticed.
#[test]
fn an_edited_migration_is_refused_by_number() {
    let directory = place();
    let path = used(directory.path());
    let edit = "UPDATE migrations SET checksum = 'edited' WHERE version = 2";
    Connection::open(&path).unwrap().execute(edit, []).unwrap();
    let before = rows(&path);
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Unusable(why) if why.contains("migration 2 (documents)")), "{error:?}");
    assert_eq!(rows(&path), before, "nothing is changed");
}

/// Another process may hold the write lock for as long as it may at any other time.
#[test]
fn opening_waits_for_the_lock_as_writing_does() {
    let directory = place();
    let path = file(&directory);
    drop(open(&path));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (opened, answer) = std::sync::mpsc::channel();
    let opening = std::thread::spawn(move || opened.send(Options::new(&path).open().map(drop)));
    // Longer than one statement waits, and much shorter than the minute that is promised.
    let early = answer.recv_timeout(Duration::from_millis(5_500));
    assert!(early.is_err(), "it did not wait: {early:?}");
    other.execute_batch("COMMIT").unwrap();
    answer.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
    opening.join().unwrap().unwrap();
}

/// I21: what opening would do can be seen before it is done, and looking does nothing.
#[test]
fn looking_at_the_migrations_applies_none() {
    let names = |path: &Path| -> Vec<(i64, String, bool)> {
        let all = migrations(path).unwrap();
        all.into_iter().map(|one| (one.version, one.name, one.applied_at.is_some())).collect()
    };
    let all = [
        "tasks",
        "documents",
        "notes_and_schedules",
        "workflows",
        "events",
        "access",
        "traces",
        "left_out",
        "due_to_claim",
        "worker_secret",
        "token_limits",
        "activity_by_namespace",
    ];
    let expected = |applied: i64| -> Vec<(i64, String, bool)> {
        (1..).zip(all).map(|(version, name)| (version, name.to_owned(), version <= applied)).collect()
    };
    let directory = place();
    let path = file(&directory);
    assert_eq!(names(&path), expected(0));
    assert!(contents(directory.path()).is_empty(), "a file that is not there is not made");
    std::fs::write(&path, b"").unwrap();
    assert_eq!(names(&path), expected(0));
    assert!(std::fs::read(&path).unwrap().is_empty(), "an empty one stays empty");
    used(directory.path());
    let (before, bytes) = (rows(&path), std::fs::read(&path).unwrap());
    assert_eq!(names(&path), expected(12));
    assert!(migrations(&path).unwrap().iter().all(|one| one.applied_at <= Some(SystemClock.now())));
    assert!(std::fs::read(&path).unwrap() == bytes, "no byte is changed");
    let store = open(&path);
    assert_eq!(names(&path), expected(12), "also while a store is open");
    drop(store);
    let older =
        "DROP INDEX tasks_due_to_claim; ALTER TABLE workers DROP COLUMN secret; ALTER TABLE schedules DROP COLUMN left_out;
        DROP VIEW task_rows; ALTER TABLE tasks DROP COLUMN traceparent; CREATE VIEW task_rows AS SELECT 1;
        DROP TABLE access_tokens; DROP TABLE had_access_tokens; DROP TABLE audit; DROP TABLE audit_kept; DROP TABLE events; DROP TABLE listening; DROP TABLE activity; DROP TABLE workflow_counts; DROP TABLE workflow_history; DROP TABLE inputs; DROP TABLE workflows; DROP TABLE definitions;
        DELETE FROM migrations WHERE version >= 4";
    Connection::open(&path).unwrap().execute_batch(older).unwrap();
    assert_eq!(names(&path), expected(3));
    drop(open(&path));
    assert_eq!(names(&path), expected(12), "opening it applies what is missing");
    assert_eq!(rows(&path)["tasks"], before["tasks"]);
    let newer = "INSERT INTO migrations VALUES (999, 'from the future', 'x', 0)";
    Connection::open(&path).unwrap().execute(newer, []).unwrap();
    assert!(migrations(&path).unwrap_err().to_string().contains("version 999"), "it would be refused");
    std::fs::write(&path, b"To whom it may concern. ".repeat(400)).unwrap();
    assert!(matches!(migrations(&path), Err(Error::Unusable(_))), "not a database");
}

/// How many migrations there are.
fn known() -> usize {
    let directory = place();
    migrations(file(&directory)).unwrap().len()
}

/// I21: migrations lose and double nothing, however many open a fresh file at once.
#[test]
fn ten_threads_open_a_fresh_file_at_once() {
    for round in 0..40 {
        let directory = place();
        let (path, start) = (file(&directory), Arc::new(Barrier::new(10)));
        let threads: Vec<_> = (0..10)
            .map(|n| {
                let (path, start) = (path.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    let store = SqliteStore::open(&path).map_err(|error| format!("open: {error}"))?;
                    let submitted = runtime().block_on(store.submit(vec![task(n)]));
                    submitted.map_err(|error| format!("submit: {error}"))
                })
            })
            .collect();
        for thread in threads {
            let answer = thread.join().unwrap();
            assert!(answer.is_ok(), "round {round}: {answer:?}");
        }
        assert_eq!(rows(&path)["migrations"].len(), known(), "each migration is applied once");
        assert_eq!(rows(&path)["tasks"].len(), 10);
    }
}

/// Opening a file that another process is just making waits for it, as a write would, instead of failing.
#[test]
fn opening_waits_for_who_is_making_the_file() {
    let directory = place();
    let path = file(&directory);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (opened, answer) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || opened.send(SqliteStore::open(path).map(drop)).unwrap());
    let early = answer.recv_timeout(Duration::from_millis(300));
    assert!(early.is_err(), "it did not wait for the lock: {early:?}");
    other.execute_batch("ROLLBACK").unwrap();
    let opened = answer.recv_timeout(support::PATIENCE).expect("it waits no longer than needed");
    opened.expect("it opens once the other is done");
    thread.join().unwrap();
}

/// I21, with processes: each is told to go by the end of its input.
#[test]
fn ten_processes_open_a_fresh_file_at_once() {
    if let Some((number, place)) = role() {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let store = SqliteStore::open(file(&place)).unwrap();
        runtime().block_on(store.submit(vec![task(number.parse().unwrap())])).unwrap();
        return;
    }
    let directory = place();
    let mut children: Vec<_> = (0..10)
        .map(|n| {
            let mut child =
                again("ten_processes_open_a_fresh_file_at_once", &n.to_string(), directory.path());
            child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success(), "every process opens it");
    }
    assert_eq!(rows(&file(&directory))["migrations"].len(), known(), "each migration is applied once");
    assert_eq!(rows(&file(&directory))["tasks"].len(), 10);
}

/// Lays out places that may only be read, and has the test check them where permissions count: as nobody, if
/// this is root.
#[cfg(unix)]
fn without_privilege(test: &str, place: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let read_only = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("fresh", 0o555), ("file", 0o777), ("directory", 0o555)] {
        let directory = place.join(name);
        std::fs::create_dir(&directory).unwrap();
        if name != "fresh" {
            read_only(&used(&directory), 0o444);
        }
        read_only(&directory, mode);
    }
    read_only(place, 0o755);
    let mut command = again(test, "check", place);
    if std::fs::write(place.join("fresh").join("probe"), "").is_ok() {
        std::fs::remove_file(place.join("fresh").join("probe")).unwrap();
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// What may only be read is read at most: writes are refused with the reason, and the file stays as it is.
#[cfg(unix)]
#[test]
fn a_place_that_may_only_be_read_is_never_written() {
    if let Some((_, place)) = role() {
        for name in ["fresh", "file", "directory"] {
            let path = file(place.join(name));
            let before = std::fs::read(&path).ok();
            // A file that may be read is opened for that; then it is the first write that says so.
            let error = match SqliteStore::open(&path) {
                Err(error) => error,
                Ok(store) => runtime().block_on(async {
                    let error = store.submit(vec![task(2)]).await.expect_err("it is refused");
                    assert!(support::is_whole(&store, id(1)).await, "reads are served");
                    store.close().await.unwrap();
                    error
                }),
            };
            println!("{name}: {error}");
            let words = error.to_string();
            assert!(matches!(error, Error::Unusable(_) | Error::Unavailable(_)), "{name}: {error:?}");
            assert!(words.contains("windlass.db") || words.contains("permissions"), "{name}: {words}");
            assert!(std::fs::read(&path).ok() == before, "{name}: no byte is changed");
        }
        return;
    }
    let directory = place();
    assert!(without_privilege("a_place_that_may_only_be_read_is_never_written", directory.path()));
}

/// Submits `count` tasks of 10 kB from number `first` on, and says how each went.
async fn fill(store: &dyn Store, first: u64, count: u64) -> Vec<(TaskId, Result<(), Error>)> {
    let payload = Json::payload(&format!("\"{}\"", "x".repeat(10_000))).unwrap();
    let mut answers = Vec::new();
    for n in first..first + count {
        let new = NewTask { payload: payload.clone(), ..task(n) };
        answers.push((new.id, store.submit(vec![new]).await.map(drop)));
    }
    answers
}

fn acknowledged(answers: &[(TaskId, Result<(), Error>)]) -> Vec<TaskId> {
    answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(id, _)| *id).collect()
}

/// Everything acknowledged is there, everything else is there as a whole or not at all, and work goes on.
async fn account(store: &SqliteStore, answers: &[(TaskId, Result<(), Error>)]) {
    for (id, answer) in answers {
        let found = support::is_whole(store, *id).await;
        match answer {
            Ok(()) => assert!(found, "I1: {id} was acknowledged and is lost"),
            Err(Error::Unknown(_)) => {}
            Err(error) => assert!(!found, "{id} is there, but its submitter was told: {error}"),
        }
    }
    let worker = support::worker(store, "worker").await;
    let claimed = store.claim(claim_of(&worker, 3)).await.unwrap();
    assert_eq!(claimed.len(), 3, "work goes on");
    for claimed in &claimed {
        store.apply(vec![finish(claimed, completed("1"))]).await.unwrap().remove(0).unwrap();
    }
    invariants::check(store, &SystemClock).await;
}

/// A full disk: submits are refused, reads go on, nothing acknowledged is lost, and once there is space the
/// same store accepts again.
#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    const NAME: &str = "a_full_disk_refuses_and_loses_nothing";
    if let Some((_, place)) = role() {
        std::fs::write(place.join("ballast"), vec![1; 4 << 20]).unwrap();
        return runtime().block_on(full_disk(&place));
    }
    let directory = place();
    // A small file system of one's own needs no privilege where users may have mount points of their own.
    let mount = "mount -t tmpfs -o size=6m none \"$WINDLASS_TEST_PLACE\" || exit 77; exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", mount]);
    command.arg(std::env::current_exe().unwrap());
    support::cast(&mut command, NAME, "fill", directory.path());
    let output = command.output();
    let Ok(output) = output else { return println!("not checked: there is no unshare here") };
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || words.contains("unshare failed") {
        return println!("not checked: no file system can be mounted here\n{words}");
    }
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

async fn full_disk(place: &Path) {
    let store = open(&file(place));
    let mut answers = fill(&store, 1, 300).await;
    let kept = acknowledged(&answers);
    assert!((20..290).contains(&kept.len()), "{} of 300 fit into the file system", kept.len());
    for (_, answer) in &answers {
        match answer {
            Ok(()) => {}
            Err(Error::Unavailable(why)) => {
                assert!(why.contains("disk is full") && why.contains("free some space"), "{why}");
            }
            Err(error) => panic!("not the typed answer: {error:?}"),
        }
    }
    assert!(support::is_whole(&store, kept[0]).await, "reads go on");
    std::fs::remove_file(place.join("ballast")).unwrap();
    let more = fill(&store, 1_000, 20).await;
    assert_eq!(acknowledged(&more).len(), 20, "the same store accepts again: {more:?}");
    answers.extend(more);
    account(&store, &answers).await;
    store.close().await.unwrap();
    account(&open(&file(place)), &answers).await;
}

/// A file that may not grow is a full disk: submits are refused, nothing acknowledged is lost, and once tasks
/// are deleted the same store accepts again.
#[test]
fn a_full_file_refuses_until_there_is_room() {
    let directory = place();
    let options = Options::new(file(&directory)).durability(Durability::Normal).max_bytes(2 << 20);
    let store = options.open().unwrap();
    runtime().block_on(async {
        let answers = fill(&store, 1, 300).await;
        let kept = acknowledged(&answers);
        assert!((20..290).contains(&kept.len()), "{} of 300 fit into the file", kept.len());
        let refused = answers.iter().filter_map(|(_, answer)| answer.as_ref().err());
        for error in refused {
            assert!(matches!(error, Error::Unavailable(why) if why.contains("free some space")), "{error:?}");
        }
        let cancel = |id: &TaskId| windlass_core::Command::Cancel { task: *id, by: By::default() };
        let freed: Vec<_> = kept.iter().rev().take(10).collect();
        for id in freed {
            let delete = windlass_core::Command::Delete { task: *id };
            for receipt in store.apply(vec![cancel(id), delete]).await.unwrap() {
                receipt.unwrap();
            }
        }
        let more = fill(&store, 1_000, 3).await;
        assert_eq!(acknowledged(&more).len(), 3, "the same store accepts again: {more:?}");
        let there = &answers[..kept.len() - 10];
        account(&store, there).await;
    });
}

/// I18: a row that this version cannot read (a newer one wrote it, or a hand) holds up only itself: others
/// are claimed, promoted and pruned around it, and whoever names it is told.
#[test]
fn an_unreadable_row_holds_up_only_itself() {
    let directory = place();
    let store = open(&file(&directory));
    runtime().block_on(async {
        let spoiled = task(1).id;
        store.submit((1..=3).map(task).collect()).await.unwrap();
        let by_hand = Connection::open(file(&directory)).unwrap();
        let spoil = r#"UPDATE tasks SET retry = '{"backoff":"quantum"}' WHERE seq = 1"#;
        by_hand.execute(spoil, []).unwrap();

        let worker = support::worker(&store, "worker").await;
        let claimed = store.claim(claim_of(&worker, 2)).await.unwrap();
        assert_eq!(
            claimed.iter().map(|claimed| claimed.task.id).collect::<Vec<_>>(),
            [task(2).id, task(3).id]
        );
        let cancel = windlass_core::Command::Cancel { task: spoiled, by: By::default() };
        let receipts = store.apply(vec![cancel, finish(&claimed[0], completed("1"))]).await.unwrap();
        assert_eq!(receipts[0].as_ref().unwrap_err().code(), "unreadable");
        assert!(receipts[1].is_ok(), "the command after it is carried out");
        assert!(store.task(spoiled).await.unwrap_err().to_string().contains("quantum"));

        let done = "UPDATE tasks SET state = 'cancelled', finished_at = updated_at WHERE seq = 1";
        by_hand.execute(done, []).unwrap();
        by_hand.execute("UPDATE counts SET state = 'cancelled' WHERE state = 'pending'", []).unwrap();
        let keep = Retention::default().keep(State::Cancelled, Duration::ZERO).unwrap();
        let keep = keep.keep(State::Completed, Duration::ZERO).unwrap();
        assert_eq!(store.prune(keep.clone(), 10).await.unwrap(), 2, "what is old goes, readable or not");
        invariants::check(&store, &SystemClock).await;
    });
}

/// I18, I14: a schedule that this version cannot read is not fired, and holds up no other; it can be removed
/// by name.
#[test]
fn an_unreadable_schedule_holds_up_only_itself() {
    let directory = place();
    let store = open(&file(&directory));
    runtime().block_on(async {
        let now = SystemClock.now();
        for name in ["a", "b", "c"] {
            store.set_schedule(hourly(name, now)).await.unwrap();
        }
        let by_hand = Connection::open(file(&directory)).unwrap();
        by_hand.execute("UPDATE schedules SET overlap = 'quantum' WHERE name = 'a'", []).unwrap();
        by_hand.execute("UPDATE schedules SET template = '{}' WHERE name = 'b'", []).unwrap();
        let due = store.due(1).await.unwrap().schedules;
        assert_eq!(due.iter().map(|schedule| &*schedule.name).collect::<Vec<_>>(), ["c"]);
        store.fire(firing(&due[0], id(1)), None).await.unwrap();
        assert!(store.schedules().await.unwrap_err().to_string().contains("quantum"));
        for name in ["a", "b"] {
            let name = Name::new("schedule", name).unwrap();
            assert!(store.remove_schedule(Name::default(), name.clone()).await.unwrap());
        }
        assert_eq!(store.schedules().await.unwrap().len(), 1);
        invariants::check(&store, &SystemClock).await;
    });
}

/// I18: notes that this version cannot read hinder neither the end of the attempt nor its neighbours.
#[test]
fn unreadable_notes_hold_up_only_themselves() {
    let directory = place();
    let store = open(&file(&directory));
    runtime().block_on(async {
        store.submit((1..=2).map(task).collect()).await.unwrap();
        let worker = support::worker(&store, "worker").await;
        let claimed = store.claim(claim_of(&worker, 2)).await.unwrap();
        let told = |n: usize| report(&claimed[n], details("[1]"));
        store.apply(vec![told(0)]).await.unwrap().remove(0).unwrap();
        let by_hand = Connection::open(file(&directory)).unwrap();
        by_hand.execute("UPDATE notes SET lines = 'quantum'", []).unwrap();
        let finish = finish(&claimed[0], completed("1"));
        let receipts = store.apply(vec![told(0), told(1), finish]).await.unwrap();
        assert_eq!(receipts[0].as_ref().unwrap_err().code(), "unreadable");
        assert!(receipts[1].is_ok() && receipts[2].is_ok(), "{receipts:?}");
    });
}

/// I7, 0.8: whoever waits beside a free slot because a hand took it away is found, gets it, is counted, and
/// those who wait for work are told; a lane that is full stays as it is.
#[test]
fn a_slot_that_a_hand_took_is_given_again() {
    let directory = place();
    let store = open(&file(&directory));
    runtime().block_on(async {
        let lane = |key: &str, limit| Some(Lane::new(key, limit).unwrap());
        let tasks: Vec<NewTask> = (1..=9)
            .map(|n| match n {
                1..=3 => NewTask { lane: lane("one", 1), ..task(n) },
                4..=7 => NewTask { lane: lane("two", 2), ..task(n) },
                _ => NewTask { lane: lane("full", 1), ..task(n) },
            })
            .collect();
        store.submit(tasks).await.unwrap();
        let whole = store.counts().await.unwrap();
        let by_hand = Connection::open(file(&directory)).unwrap();
        by_hand.execute("UPDATE tasks SET slot = 0 WHERE lane = 'one' OR lane = 'two'", []).unwrap();
        let worker = support::worker(&store, "worker").await;
        let claimed = store.claim(claim_of(&worker, 9)).await.unwrap();
        assert_eq!(claimed.len(), 1, "only the lane that was left alone goes on");
        let release = windlass_core::Command::Release { token: token(&claimed[0]), note: None };
        store.apply(vec![release]).await.unwrap().remove(0).unwrap();

        let news = store.watch();
        let before = *news.borrow();
        let (mut repaired, mut after) = (Vec::new(), None);
        loop {
            let look = store.reconcile(after, 1).await.unwrap();
            repaired.push(look.repaired);
            after = look.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(repaired, [0, 1, 2, 0, 0], "full, one, two, the end, and no workflows");
        assert!(news.borrow().claimable > before.claimable, "those who wait for work are told");
        assert_eq!(store.counts().await.unwrap(), whole, "nothing else has changed");
        let claimed = store.claim(claim_of(&worker, 9)).await.unwrap();
        let ids: Vec<_> = claimed.iter().map(|claimed| claimed.task.id).collect();
        assert_eq!(ids, [1, 4, 5, 8].map(id), "in the order of submission");
        assert_eq!(store.reconcile(None, 9).await.unwrap().repaired, 0);
        invariants::check(&store, &SystemClock).await;
    });
}

/// A device that fails in the middle (here: a limit on the size of files): what is not known is said to be
/// unknown, all later writes are refused until the store is opened again, and then everything acknowledged is
/// there.
#[cfg(unix)]
#[test]
fn a_failing_device_stops_the_store_and_loses_nothing() {
    const NAME: &str = "a_failing_device_stops_the_store_and_loses_nothing";
    if let Some((_, place)) = role() {
        let answers = runtime().block_on(async { fill(&open(&file(&place)), 1, 300).await });
        let first = answers.iter().position(|(_, answer)| answer.is_err()).expect("the limit is reached");
        for (_, answer) in &answers[first + 1..] {
            assert!(
                matches!(answer, Err(Error::Unavailable(why)) if why.contains("open the store again")),
                "{answer:?}"
            );
        }
        for (id, answer) in &answers {
            let word = answer.as_ref().map_or_else(|error| error.code(), |()| "ok");
            println!("\nanswer {id} {word}");
        }
        return;
    }
    let directory = place();
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    support::cast(&mut command, NAME, "fill", directory.path());
    let output = command.output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{words}{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<(TaskId, Result<(), Error>)> = words
        .lines()
        .filter_map(|line| line.strip_prefix("answer ")?.split_once(' '))
        .map(|(id, word)| {
            let answer = match word {
                "ok" => Ok(()),
                "unknown_outcome" => Err(Error::Unknown(String::new())),
                _ => Err(Error::Unavailable(String::new())),
            };
            (id.parse().unwrap(), answer)
        })
        .collect();
    assert_eq!(answers.len(), 300);
    assert!((20..290).contains(&acknowledged(&answers).len()), "some fit, some do not");
    runtime().block_on(async { account(&open(&file(&directory)), &answers).await });
}

/// What may happen to a file under a live store.
#[cfg(unix)]
const MISHAPS: [(&str, &str, &str); 5] = [
    ("removed", "rm windlass.db", "windlass.db was removed or moved"),
    ("moved", "mv windlass.db elsewhere.db", "windlass.db was removed or moved"),
    ("replaced", "cp windlass.db other.db; mv other.db windlass.db", "windlass.db was replaced"),
    ("without its log", "rm windlass.db-wal", "windlass.db-wal was removed"),
    ("without its index", "rm windlass.db-shm", "windlass.db-shm was removed"),
];

#[cfg(unix)]
#[test]
fn a_file_that_is_gone_is_not_written_to() {
    for (name, command, says) in MISHAPS {
        let directory = place();
        let path = file(&directory);
        runtime().block_on(async {
            let store = open(&path);
            store.submit(vec![task(1)]).await.unwrap();
            let worker = support::worker(&store, "w").await;
            let done = Command::new("sh").args(["-c", command]).current_dir(directory.path()).status();
            assert!(done.unwrap().success());
            // The heartbeat notices it, and so does whatever comes first.
            let noticed = store.heartbeat(worker.clone(), Vec::new()).await.unwrap_err();
            assert!(matches!(&noticed, Error::Moved(why) if why.contains(says)), "{name}: {noticed:?}");
            assert_eq!(noticed.code(), "store_moved");
            for n in 2..4 {
                let refused = store.submit(vec![task(n)]).await.unwrap_err();
                assert!(matches!(&refused, Error::Moved(_)), "{name}: {refused:?}");
            }
            // A new reader looks at no other file, and makes none.
            let readers: Vec<_> = (0..8).map(|_| store.counts()).collect();
            for read in readers {
                match read.await {
                    Ok(counts) => assert_eq!(counts.len(), 1, "{name}: those of the old file"),
                    Err(error) => assert!(matches!(error, Error::Moved(_)), "{name}: {error:?}"),
                }
            }
            assert_eq!(path.exists(), !matches!(name, "removed" | "moved"), "{name}: no file was made");
            store.close().await.unwrap();
        });
    }
}

/// The very moment of the commit: whether it is in the file that is looked for is not known.
#[cfg(unix)]
#[test]
fn a_commit_to_a_file_that_goes_meanwhile_is_not_acknowledged() {
    let directory = place();
    let path = file(&directory);
    let (from, to) = (path.clone(), directory.path().join("elsewhere.db"));
    let at_commit = move |name: &'static str, before: bool| {
        if (name, before) == ("commit", false) {
            // The second time it is gone already.
            let _ = std::fs::rename(&from, &to);
        }
    };
    runtime().block_on(async {
        let store = Options::new(&path).durability(Durability::Normal).probe(at_commit).open().unwrap();
        let answer = store.submit(vec![task(1)]).await.unwrap_err();
        assert!(
            matches!(&answer, Error::Unknown(why) if why.contains("windlass.db was removed or moved")),
            "{answer:?}"
        );
        let later = store.submit(vec![task(2)]).await.unwrap_err();
        assert!(matches!(later, Error::Moved(_)), "{later:?}");
        store.close().await.unwrap();
        // Moved back, it is whole: the log was left where it belongs.
        std::fs::rename(directory.path().join("elsewhere.db"), &path).unwrap();
        let store = open(&path);
        assert!(support::is_whole(&store, id(1)).await);
        assert!(!support::is_whole(&store, id(2)).await);
        store.close().await.unwrap();
    });
}
