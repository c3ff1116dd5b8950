//! What cannot be run, and that it changes nothing.

use std::os::unix::fs::PermissionsExt;

use super::{events, place, run};
use crate::support::{Place, Said};

/// It was refused before anything was made.
fn refused(place: &Place, said: &Said, part: &str) {
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains(part), "{part:?} in {}", said.err);
    assert_eq!(said.out, "");
    assert!(place.files().iter().all(|file| !file.contains(".db")), "{:?}", place.files());
}

#[test]
fn problems_are_told_with_their_places() {
    let place = place(
        "name: x\nsteps:\n  list: {run: ls}\n  count: {run: wc, needs: [lst]}\n  odd: {run: a, task: b}\n",
    );
    let said = run(&place, &[]);
    refused(
        &place,
        &said,
        "flow.yaml:4:28: steps.count.needs[0]: there is no step \"lst\"; did you mean \"list\"?\n",
    );
    let lines: Vec<&str> = said.err.lines().collect();
    assert!(
        lines.len() >= 3 && lines[..lines.len() - 1].iter().all(|line| line.starts_with("flow.yaml:")),
        "{}",
        said.err
    );
    assert_eq!(*lines.last().unwrap(), "windlass: flow.yaml has problems; nothing was started");
    place.file("flow.yaml", "name: x\nsteps:\n  a: { run: ls, if: 'b >' }\n");
    refused(&place, &run(&place, &[]), "flow.yaml:3:");
}

#[test]
fn what_is_no_workflow_is_refused() {
    let place = Place::new();
    refused(&place, &run(&place, &[]), "windlass: flow.yaml: No such file");
    refused(&place, &place.run(&["run", "."]), "directory");
    for (text, part) in [
        (&b""[..], "flow.yaml:1:1: there is nothing in this file"),
        (b"\0\xff\xfe", "not UTF-8"),
        (b"[1, 2]", "flow.yaml:1:1: it is a list"),
        (b"{", "flow.yaml:"),
        (b"name: x\n", "steps"),
    ] {
        place.file("flow.yaml", text);
        refused(&place, &run(&place, &[]), part);
    }
    place.run(&["run"]).told(2, "FILE");
    run(&place, &["--fresh", "--retry"]).told(2, "cannot be used with");
    run(&place, &["--pool", "0"]).told(2, "pool");
}

#[test]
fn a_file_that_may_not_be_read_is_refused() {
    let place = place("name: x\nsteps:\n  a: { run: 'true' }\n");
    let file = place.path().join("flow.yaml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Whoever may read everything may read this too.
    if std::fs::read(&file).is_err() {
        refused(&place, &run(&place, &[]), "Permission denied");
    }
}

#[test]
fn an_input_that_does_not_fit_is_refused() {
    let place = place(
        "name: x\ninput: { type: object, required: [day], properties: { day: { type: string } } }\nsteps:\n  \
         a: { input: '${input.day}', run: cat }\n",
    );
    refused(&place, &run(&place, &[]), "day");
    refused(&place, &run(&place, &["--input", r#"{"day": 5}"#]), "day");
    refused(&place, &run(&place, &["--input", "{"]), "input");
    refused(&place, &run(&place, &["--input", "@nowhere.json"]), "nowhere.json");
    place.file("input.json", "\n{ \"day\": \"monday\" }\n");
    assert_eq!(events(&place, &["--input", "@input.json"], 0).pop().unwrap()["results"]["a"], "monday");
}

#[test]
fn a_store_that_cannot_be_used_is_told() {
    let place = place("name: x\nsteps:\n  a: { run: 'true' }\n");
    place.file(
        "flow.windlass.db",
        "this is not a database, but somebody's diary, and longer than a header is",
    );
    let said = run(&place, &[]);
    said.told(1, "flow.windlass.db: the file is damaged or not a SQLite database");
    assert!(place.read("flow.windlass.db").starts_with("this is not"), "it is left alone");
    run(&place, &["--store", "sqlite:no/such/directory/a.db"]).told(1, "no/such/directory");
    run(&place, &["--store", "mysql://x"]).told(2, "sqlite:PATH");
}

#[test]
fn a_store_of_a_later_version_is_left_alone() {
    let place = place("name: x\nsteps:\n  a: { run: 'touch ran' }\n");
    assert_eq!(run(&place, &[]).code, 0);
    std::fs::remove_file(place.path().join("ran")).unwrap();
    let database = rusqlite::Connection::open(place.path().join("flow.windlass.db")).unwrap();
    let last: i64 = database.query_row("SELECT max(version) FROM migrations", [], |row| row.get(0)).unwrap();
    database
        .execute(
            "INSERT INTO migrations SELECT version + 1, 'later', checksum, applied_at FROM migrations WHERE version = ?1",
            [last],
        )
        .unwrap();
    drop(database);
    let said = run(&place, &[]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(!place.path().join("ran").exists());
}

#[test]
fn a_program_that_floods_is_held_to_its_limits() {
    let place = place(
        "name: flood\nsteps:\n  out: { run: 'head -c 3000000 /dev/zero | tr \"\\0\" x' }\n  \
         err: { run: 'yes | head -c 3000000 >&2; echo done' }\n",
    );
    let last = events(&place, &[], 1).pop().unwrap();
    assert!(
        last["failures"][0]["error"].as_str().unwrap().contains("wrote more than 1048576 bytes"),
        "{last}"
    );
    assert_eq!(last["results"]["err"], "done");
}
