//! `windlass bench`: that it gives all its figures, and leaves nothing behind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rustix::process::Signal;
use serde_json::json;
use support::{Place, Running};

const SMALL: [&str; 7] = ["bench", "--tasks", "300", "--samples", "3", "--rounds", "1"];

#[test]
fn all_figures_of_both_durabilities() {
    let place = Place::new();
    let answer = place.json(&SMALL);
    assert_eq!((&answer["tasks"], &answer["pool"]), (&json!(300), &json!(24)));
    let figures = answer["figures"].as_array().unwrap();
    assert_eq!(figures.iter().map(|one| &one["durability"]).collect::<Vec<_>>(), ["full", "normal"]);
    for one in figures {
        let number = |name: &str| one[name].as_f64().unwrap_or_else(|| panic!("{name} in {one}"));
        for rate in
            ["submit_per_second", "drain_per_second", "cycle_per_second", "drain_with_entities_per_second"]
        {
            assert!(number(rate) > 1.0, "{rate} in {one}");
        }
        assert!(number("cycle_per_second") < number("submit_per_second").min(number("drain_per_second")));
        assert!(number("p50_seconds") > 0.0 && number("p50_seconds") <= number("p99_seconds"));
    }
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn one_durability_without_entities_as_a_table() {
    let place = Place::new();
    let said = place.run(&[&SMALL[..], &["--entities", "0", "--durability", "normal"]].concat());
    assert_eq!((said.code, &*said.err), (0, ""));
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("DURABILITY") && lines[1].starts_with("normal"), "{}", said.out);
    assert!(lines[2].starts_with("300 tasks, 24 handlers") && lines.len() == 3, "{}", said.out);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut command = place.program();
        let mut bench = Running::start(command.args(["bench", "--tasks", "1000000", "--json"]));
        // In the middle of it: there is a database.
        let is_there = || {
            place.files().iter().any(|name| {
                let inside = std::fs::read_dir(place.path().join(name)).unwrap();
                inside.flatten().any(|directory| directory.path().join("bench.db-wal").exists())
            })
        };
        while !is_there() {
            std::thread::yield_now();
        }
        bench.signal(signal);
        let said = bench.end();
        assert_eq!((said.code, &*said.out, &*said.err), (130, "", ""));
        assert_eq!(place.files(), [""; 0]);
    }
}

#[test]
fn what_cannot_be_measured_is_told() {
    let place = Place::new();
    for (arguments, part) in [
        (["--tasks", "0"], "--tasks"),
        (["--tasks", "99999999999"], "--tasks"),
        (["--pool", "0"], "--pool"),
        (["--samples", "0"], "--samples"),
        (["--rounds", "0"], "--rounds"),
        (["--durability", "some"], "full, normal"),
    ] {
        place.run(&[&["bench"][..], &arguments].concat()).told(2, part);
    }
    assert_eq!(place.files(), [""; 0]);
}
