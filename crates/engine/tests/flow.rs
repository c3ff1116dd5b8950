//! Workflow files and their expressions.
//!
//! `flow/good` can be read and has nothing to be said about; each of `flow/broken` has all that is to be said
//! about it in a text file beside it. `WINDLASS_BLESS=1` writes these texts anew; read the difference before
//! it is kept.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::needless_pass_by_value)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass::flow::{self, Problem};
use windlass::limits;

#[path = "flow/evaluation.rs"]
mod evaluation;
#[path = "flow/hostile.rs"]
mod hostile;
#[path = "flow/random.rs"]
mod random;

fn files(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(&directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "yaml" || kind == "json"));
    files.sort();
    files
}

fn told(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn good_files_have_nothing_wrong_with_them() {
    let good = files("tests/flow/good");
    assert!(good.len() >= 8);
    for file in good.into_iter().chain(files("../../examples/workflows")) {
        let text = fs::read_to_string(&file).unwrap();
        match flow::check(&text) {
            Ok((_, problems)) => assert_eq!(told(&problems), "", "{}", file.display()),
            Err(problems) => panic!("{}:\n{}", file.display(), told(&problems)),
        }
        for other in ["\r\n", "\n"] {
            let text = format!("\u{feff}{}", text.replace('\n', other));
            assert!(flow::check(&text).is_ok(), "{} with {other:?} and a mark", file.display());
        }
    }
}

#[test]
fn broken_files_are_told_where_and_how() {
    let bless = std::env::var_os("WINDLASS_BLESS").is_some();
    let broken = files("tests/flow/broken");
    assert!(broken.len() >= 25);
    for file in broken {
        let name = file.file_stem().unwrap().to_str().unwrap();
        if name.starts_with("schema") && cfg!(not(feature = "json-schema")) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let told = match flow::check(&text) {
            Ok((_, warnings)) => told(&warnings),
            Err(problems) => told(&problems),
        };
        assert!(!told.is_empty(), "{name} has nothing wrong with it");
        let expected = file.with_extension("txt");
        if bless {
            fs::write(&expected, &told).unwrap();
        }
        assert_eq!(told, fs::read_to_string(&expected).unwrap(), "{name}");
    }
}

/// Not files, as no file of this project holds a tab.
#[test]
fn tabs_indent_json_but_not_yaml() {
    let problems = flow::read("name: tab\nsteps:\n\ta:\n\t\trun: echo\n").unwrap_err();
    let expected = "3:2 this is not YAML: tabs disallowed within this context (block indentation); \
        indent with spaces: YAML does not take tabs for that\n";
    assert_eq!(told(&problems), expected);
    let json = include_str!("flow/good/report.json").replace("    ", "\t");
    assert_eq!(flow::read(&json).unwrap().definition().steps[0].run.as_deref(), Some("echo '🚀 é /'"));
}

#[test]
fn every_problem_of_a_file_has_a_place() {
    for file in files("tests/flow/broken") {
        let text = fs::read_to_string(&file).unwrap();
        for problem in flow::check(&text).map_or_else(|problems| problems, |(_, warnings)| warnings) {
            let (line, column) = (problem.line.unwrap(), problem.column.unwrap());
            let lines = text.lines().count().max(1) + 1;
            assert!((1..=lines).contains(&line) && column >= 1, "{}: {problem}", file.display());
            assert!(!problem.problem.is_empty() && !problem.problem.contains('\n'), "{problem}");
        }
    }
}

#[test]
fn a_hundred_thousand_steps_are_read_and_checked() {
    let start = Instant::now();
    let mut text = String::from("name: large\nsteps:\n  s0: {run: echo}\n");
    for step in 1..limits::STEPS {
        // Every tenth refers to the first of all, which is no parent of it.
        let input = if step % 10 == 0 { ", input: \"${s0}\"" } else { "" };
        text += &format!("  s{step}: {{run: echo, needs: [s{}]{input}}}\n", step - 1);
    }
    let (document, problems) = flow::check(&text).unwrap();
    assert_eq!(told(&problems), "");
    assert_eq!(document.blueprint().graph().depth(), limits::STEPS);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn input_is_checked() {
    let text =
        "name: x\ninput: {type: object, required: [day], properties: {day: {type: string}}}\nsteps: {}\n";
    let document = flow::read(text).unwrap();
    let check = |input| flow::check_input(document.definition(), input);
    assert_eq!(check(r#"{"day": "monday"}"#), Ok(()));
    let missing = check("{}").unwrap_err().to_string();
    assert!(missing.contains("the field(s) day, which x needs"), "{missing}");
    assert!(check("null").unwrap_err().to_string().contains("day"));
    assert!(check("{").unwrap_err().to_string().contains("JSON that can be read"));
    if cfg!(feature = "json-schema") {
        let wrong = check(r#"{"day": 1}"#).unwrap_err().to_string();
        assert!(wrong.contains(r#"at "/day""#), "{wrong}");
    }
    let open = flow::read("name: x\nsteps: {}\n").unwrap();
    assert_eq!(
        flow::check_input(open.definition(), "[1"),
        Ok(()),
        "without a schema the input is not looked at"
    );
}
