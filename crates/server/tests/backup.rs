//! `windlass backup`, `windlass restore` and the backups of a server: what is in them, and what is refused.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use support::{Place, Running};
use windlass_store::conformance::checker::{Event, Journal, What, check, read};
use windlass_store::conformance::{KIND, claim_of, completed, finish, invariants};
use windlass_store::{Clock, SqliteStore, Store, SystemClock, Turn};

use windlass::{Json, Name, NewTask, NewWorker, Timestamp, WorkerId};

/// Everything in a store, as its own command tells it.
fn tasks(place: &Place, store: &str) -> serde_json::Value {
    place.json(&["task", "list", "--store", store])["tasks"].clone()
}

fn serve(place: &Place, arguments: &[&str]) -> (Running, String) {
    let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let mut running = Running::start(&mut command);
    let line = running.until("serving http");
    (running, line.split_once("serving ").unwrap().1.to_owned())
}

#[test]
fn what_is_backed_up_is_restored_in_every_form() {
    let place = Place::new();
    place.submit_many(50, "x", |n| json!({ "n": n }));
    place.drain(&["--exec", "x=true"]);
    let id = place.submit(&["y", "--delay", "1d"]);
    // In use: part of it is in the log.
    let (server, _) = serve(&place, &[]);
    let made = place.json(&["backup", "plain.db"]);
    assert_eq!(
        (&made["path"], &made["tasks"], &made["compressed"]),
        (&json!("plain.db"), &json!(51), &json!(false))
    );
    assert_eq!(made["bytes"], place.path().join("plain.db").metadata().unwrap().len());
    let packed = place.json(&["backup", "packed.db.gz"]);
    assert_eq!((&packed["compressed"], &packed["database_bytes"]), (&json!(true), &made["bytes"]));
    assert!(packed["bytes"].as_u64() < made["bytes"].as_u64(), "{packed}");
    let piped = place.command(env!("CARGO_BIN_EXE_windlass")).args(["backup", "-"]).output().unwrap();
    assert!(piped.status.success() && piped.stdout.starts_with(&[0x1f, 0x8b]), "{piped:?}");
    assert!(String::from_utf8_lossy(&piped.stderr).contains("51 tasks"), "{piped:?}");
    place.file("piped.gz", &piped.stdout);
    drop(server);
    let before = tasks(&place, "sqlite:windlass.db");
    for from in ["plain.db", "packed.db.gz", "piped.gz", "-"] {
        let store = format!("sqlite:from-{}.db", from.replace(['.', '-'], "_"));
        let mut command = place.command(env!("CARGO_BIN_EXE_windlass"));
        let mut child = command
            .args(["restore", from, "--store", &store, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The others do not read it.
        let _ = child.stdin.take().unwrap().write_all(&piped.stdout);
        let restored = child.wait_with_output().unwrap();
        assert!(restored.status.success(), "{from}");
        let restored: serde_json::Value = serde_json::from_slice(&restored.stdout).unwrap();
        assert_eq!((&restored["tasks"], &restored["bytes"]), (&json!(51), &made["bytes"]), "{from}");
        assert_eq!(tasks(&place, &store), before, "{from}");
        assert_eq!(place.json(&["task", "get", &id, "--store", &store])["state"], "scheduled");
    }
    assert!(!place.files().iter().any(|name| name.ends_with(".partial")), "{:?}", place.files());
    // It is a store as it is, and nobody else may read it.
    assert_eq!(tasks(&place, "sqlite:plain.db"), before);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(place.path().join("packed.db.gz").metadata().unwrap().permissions().mode() & 0o077, 0);
    let said = place.run(&["backup", "again.db"]);
    assert!(
        said.out.starts_with("again.db holds the store as of 2") && said.out.contains(": 51 tasks, "),
        "{}",
        said.out
    );
}

#[test]
fn a_database_whose_process_was_killed_is_restored_with_its_log() {
    let place = Place::new();
    let (server, url) = serve(&place, &[]);
    let submitted = place.run(&["submit", "x", "--server", &url]);
    assert_eq!(submitted.code, 0, "{}", submitted.err);
    server.kill();
    assert!(place.path().join("windlass.db-wal").metadata().unwrap().len() > 0);
    assert_eq!(place.json(&["restore", "windlass.db", "--store", "sqlite:other.db"])["tasks"], 1);
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::new();
    place.submit(&["x"]);
    place.file("taken.db", "mine");
    place.run(&["backup", "taken.db"]).told(1, "taken.db exists, and nothing is overwritten");
    place.run(&["backup", "windlass.db"]).told(1, "exists");
    assert_eq!(place.read("taken.db"), "mine");
    assert_eq!(place.run(&["backup", "copy.db"]).code, 0);
    place.run(&["restore", "copy.db"]).told(1, "windlass.db exists, and nothing is overwritten");
    place.file("new.db-wal", "of another");
    place
        .run(&["restore", "copy.db", "--store", "sqlite:new.db"])
        .told(1, "new.db-wal is left from another store");
    assert!(!place.path().join("new.db").exists());
}

#[test]
fn what_cannot_be_backed_up_or_restored_says_what_to_do() {
    let place = Place::new();
    place.run(&["backup", "copy.db"]).told(1, "there is no database windlass.db");
    assert_eq!(place.files(), [""; 0]);
    place.submit(&["x"]);
    place.run(&["backup", "nowhere/copy.db"]).told(1, "nowhere cannot be written to");
    place.run(&["backup", "-", "--json"]).told(2, "both want standard output");
    place.run(&["backup", "copy.db", "--namespace", "n"]).told(2, "all namespaces");
    place.run(&["backup", "copy.db", "--store", "memory:"]).told(2, "--store sqlite:PATH");
    for command in ["backup", "restore"] {
        let postgres = ["--store", "postgres://localhost/app?schema=jobs"];
        place
            .run(&[&[command, "copy.db"], &postgres[..]].concat())
            .told(2, "pg_dump --format=custom --schema=jobs");
        place.run(&[command, "copy.db", "--server", "http://localhost:1"]).told(2, "needs the store itself");
    }
    let serve = ["serve", "--backup-to", "b", "--store", "postgres://localhost/app"];
    place.run(&serve).told(2, "backup_to is for a SQLite store");
    place.run(&["restore", "copy.db", "--store", "sqlite:new.db"]).told(1, "copy.db cannot be read");
    place.file("text", "To whom it may concern: this is no database, and neither is it an archive.");
    place.run(&["restore", "text", "--store", "sqlite:new.db"]).told(1, "neither a SQLite database nor gzip");
    assert_eq!(place.files(), ["text", "windlass.db"]);
}

#[test]
fn damaged_backups_are_refused() {
    let place = Place::new();
    place.submit_many(500, "x", |n| json!({ "n": n }));
    for name in ["good.db", "good.gz"] {
        assert_eq!(place.run(&["backup", name]).code, 0);
    }
    let (plain, packed) = (
        std::fs::read(place.path().join("good.db")).unwrap(),
        std::fs::read(place.path().join("good.gz")).unwrap(),
    );
    let mut scratched = plain.clone();
    let middle = plain.len() / 2;
    scratched[middle / 2..middle].fill(0x5a);
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 0x10;
    for (name, bytes) in [
        ("scratched", &scratched[..]),
        ("cut", &plain[..middle]),
        ("cut.gz", &packed[..packed.len() / 2]),
        ("flipped.gz", &flipped),
        ("empty", &[]),
    ] {
        place.file(name, bytes);
        let said = place.run(&["restore", name, "--store", "sqlite:new.db"]);
        said.told(1, name);
        assert!(!place.path().join("new.db").exists(), "{name}");
    }
    // A store that is damaged itself is not copied over good backups.
    let connection = rusqlite::Connection::open(place.path().join("windlass.db")).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = off; DELETE FROM tasks WHERE seq = 3").unwrap();
    drop(connection);
    place.run(&["backup", "bad.db"]).told(1, "it is damaged: a row of ");
    assert!(!place.path().join("bad.db").exists());
    assert!(!place.files().iter().any(|name| name.ends_with(".partial")), "{:?}", place.files());
}

#[test]
fn a_server_backs_up_and_removes_old_backups() {
    let place = Place::new();
    place.submit(&["x"]);
    let backups = place.path().join("backups");
    std::fs::create_dir(&backups).unwrap();
    let names = || {
        let entries = std::fs::read_dir(&backups).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.ends_with(".partial"));
        names.sort();
        names
    };
    std::fs::write(backups.join("windlass-20200101T000000Z.db"), "an old one").unwrap();
    std::fs::write(backups.join("windlass-mine.db"), "not one of those").unwrap();
    let (mut server, url) =
        serve(&place, &["--backup-to", "backups", "--backup-every", "1s", "--backup-keep", "2"]);
    for _ in 0..3 {
        server.until("backed up");
    }
    let metrics = |url: &str| {
        let at = url.strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        stream
            .write_all(format!("GET /metrics HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n").as_bytes())
            .unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    let shown = metrics(&url);
    assert!(shown.contains("windlass_backups_total{outcome=\"completed\"}"), "{shown}");
    assert!(shown.contains("windlass_backup_completed_timestamp_seconds "), "{shown}");
    // What cannot be done is told, the old backups stay, and the server goes on.
    std::fs::rename(&backups, place.path().join("away")).unwrap();
    server.until("the store was not backed up");
    assert!(metrics(&url).contains("windlass_backups_total{outcome=\"failed\"} 1"));
    std::fs::rename(place.path().join("away"), &backups).unwrap();
    server.until("backed up");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, 0);
    let names = names();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[2], "windlass-mine.db");
    let newest = format!("sqlite:backups/{}", names[1]);
    assert_eq!(tasks(&place, &newest).as_array().unwrap().len(), 1);
}

/// What runs until it is told to stop, or the server is gone.
async fn load(
    who: usize,
    store: Arc<dyn Store>,
    journal: Journal,
    enough: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) {
    let worker = WorkerId::new(format!("w{who}")).unwrap();
    let kinds = vec![Name::kind(KIND).unwrap()];
    store.register(NewWorker { kinds, ..NewWorker::new(worker.clone()) }).await.unwrap();
    let mut finished = Vec::new();
    for n in 0_u64.. {
        let task = |n| {
            NewTask::new(
                windlass::task_id(),
                Name::kind(KIND).unwrap(),
                Json::payload(&format!("{n}")).unwrap(),
            )
        };
        let Ok(_) = journal.submit(&*store, (0..5).map(|_| task(n)).collect()).await else { return };
        let turn =
            Turn { commands: std::mem::take(&mut finished), claim: Some(claim_of(&worker, 4)), term: None };
        let Ok(turned) = journal.turn(&*store, turn).await else { return };
        let claimed = turned.claimed.unwrap();
        finished = claimed.iter().map(|claimed| finish(claimed, completed("1"))).collect();
        done.fetch_add(1, Ordering::Relaxed);
        if enough.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// What is known of a store that was copied between two moments: later answers are unknown, later requests
/// were never made.
fn as_of(events: Vec<Event>, begun: Timestamp, ended: Timestamp) -> Vec<Event> {
    let is_known = |event: &Event| match event.what {
        What::Invoked { .. } => event.at <= ended,
        _ => event.at <= begun,
    };
    events.into_iter().filter(is_known).collect()
}

/// A backup under full load, after which the server is killed and its machine lost: the copy holds everything
/// that was acknowledged before it began, and is a sound store.
#[test]
fn a_backup_under_load_is_whole() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (place, log) = (Place::new(), tempfile::tempdir().unwrap());
    // So much that copying takes a while.
    place.submit_many(3_000, "before", |n| json!({ "n": n, "text": "x".repeat(2_000) }));
    let (server, url) = serve(&place, &[]);
    let (enough, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (mut loads, mut moments) = (Vec::new(), Vec::new());
    for who in 0..8 {
        let store = runtime.block_on(windlass_store::remote::Options::new(&url).unwrap().open()).unwrap();
        let journal = Journal::create(log.path(), &format!("load{who}")).unwrap();
        loads.push(runtime.spawn(load(who, Arc::new(store), journal, enough.clone(), done.clone())));
    }
    let until = |rounds: usize| {
        while done.load(Ordering::Relaxed) < rounds {
            std::thread::yield_now();
        }
    };
    for (n, name) in ["first.db", "second.gz"].into_iter().enumerate() {
        until(done.load(Ordering::Relaxed) + 100);
        let begun = SystemClock.now();
        assert_eq!(place.run(&["backup", name]).code, 0, "{n}");
        moments.push((name, begun, SystemClock.now()));
    }
    until(done.load(Ordering::Relaxed) + 50);
    server.kill();
    enough.store(true, Ordering::Relaxed);
    for load in loads {
        runtime.block_on(load).unwrap();
    }
    let elsewhere = Place::new();
    let events = read(log.path()).unwrap();
    for (name, begun, ended) in moments {
        let from = place.path().join(name).display().to_string();
        let store = format!("sqlite:{name}.restored");
        assert_eq!(elsewhere.run(&["restore", &from, "--store", &store]).code, 0);
        let path = elsewhere.path().join(format!("{name}.restored"));
        runtime.block_on(sound(&path, &events, as_of(events.clone(), begun, ended)));
    }
}

async fn sound(path: &Path, all: &[Event], events: Vec<Event>) {
    let store = SqliteStore::open(path).unwrap();
    let kind = Name::kind(KIND).unwrap();
    let mut records = invariants::dump(&store).await;
    records.retain(|record| record.task.spec.kind == kind);
    let answered = events.iter().filter(|event| matches!(event.what, What::Ended { .. })).count();
    println!("{answered} answers before the backup, {} tasks in it", records.len());
    assert!(answered > 100 && records.len() > 100);
    assert_eq!(check(&events, &records, false), []);
    assert_ne!(
        check(all, &records, false),
        [],
        "what was acknowledged later is not in it, and that would show"
    );
    invariants::check(&store, &SystemClock).await;
    store.close().await.unwrap();
}
