//! What others put into payloads, notes and names is shown and not obeyed.

use crate::Place;

/// Clears the screen, passes for a line of its own, turns the direction.
const EVIL: &str = "\u{1b}[2J\u{9b}31m\r\nwindlass: all is well\u{7f}\u{202e}\u{8}";

/// Nothing but printable text and line feeds.
fn is_harmless(text: &str) -> bool {
    !text.chars().any(|c| {
        c != '\n' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_shown_drives_a_terminal() {
    let place = Place::new();
    let payload = serde_json::json!({ "end": "fail", "note": EVIL }).to_string();
    let entity = format!("planner:{EVIL}");
    let id =
        place.submit(&["work", &payload, "--key", EVIL, "--entity", &entity, "--tag", EVIL, "--actor", EVIL]);
    let second = place.submit(&["work", &payload, "--lane", &format!("{EVIL}:1")]);
    place.work(&[&id, &second]).await;
    place.text(&["task", "retry", &id, "--reason", EVIL, "--actor", EVIL]);
    place.text(&["entity", "add", &entity]);
    place.json(&[
        "schedule",
        "set",
        "s",
        "@daily",
        "work",
        &payload,
        "--tag",
        EVIL,
        "--lane",
        &format!("{EVIL}:1"),
    ]);
    let windlass = place.open().await;
    let mut worker = windlass::NewWorker::new(windlass::WorkerId::new(EVIL).unwrap());
    (worker.host, worker.version) = (EVIL.into(), EVIL.into());
    windlass.store().register(worker).await.unwrap();
    windlass.close().await.unwrap();
    for arguments in [
        &["task", "get", &id][..],
        &["task", "get", &second],
        &["task", "list"],
        &["task", "log", &id],
        &["why", &id],
        &["why", &second],
        &["worker", "list"],
        &["queue", "list"],
        &["schedule", "list"],
        &["schedule", "show", "s"],
        &["entity", "list"],
        &["entity", "check", &entity],
        &["stats"],
    ] {
        let text = place.text(arguments);
        assert!(is_harmless(&text), "{arguments:?}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("windlass: ")), "{arguments:?}: {text}");
        let json = place.text(&[arguments, &["--json"]].concat());
        assert!(is_harmless(&json), "{arguments:?}: {json:?}");
    }
    let task = place.json(&["task", "get", &id]);
    assert_eq!(
        (&task["payload"]["note"], &task["idempotency_key"], &task["tags"][0]),
        (&EVIL.into(), &EVIL.into(), &EVIL.into())
    );
    assert!(place.text(&["task", "get", &id]).contains("\\u{1b}[2J\\u{9b}31m\\r\\nwindlass: all is well"));
}

#[test]
fn nothing_that_is_refused_drives_a_terminal() {
    let place = Place::new();
    for arguments in [
        &["submit", EVIL][..],
        &["submit", "x", EVIL],
        &["submit", "x", &format!("@{EVIL}")],
        &["submit", "x", "--retry", EVIL],
        &["submit", "x", &format!("--{EVIL}")],
        &["--store", EVIL, "stats"],
        &["--store", &format!("sqlite:{EVIL}"), "stats"],
        &["task", "list", "--state", EVIL],
        &["schedule", "preview", EVIL],
        &["schedule", "preview", "@daily", "--zone", EVIL],
        &["man", "--out", EVIL],
        &[EVIL],
    ] {
        let said = place.run(arguments);
        assert!(
            said.code != 0 && said.out.is_empty() && is_harmless(&said.err),
            "{arguments:?}: {:?}",
            said.err
        );
        assert_eq!(said.err.lines().count(), 1, "{arguments:?}: {:?}", said.err);
    }
    let bad = place.run_with(&["submit", "--batch", "-"], format!("{{\"{EVIL}\": 1}}").as_bytes());
    assert!(bad.code == 2 && is_harmless(&bad.err), "{:?}", bad.err);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn pipes_have_no_colours() {
    let place = Place::new();
    place.submit(&["x"]);
    for arguments in [&["task", "list"][..], &["stats"], &["--help"], &["frobnicate"]] {
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "xterm-256color")] {
            let output = place.command().args(arguments).env(name, value).output().unwrap();
            assert!(
                !output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b),
                "{arguments:?} with {name}"
            );
        }
    }
}
