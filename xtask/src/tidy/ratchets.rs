//! Counts that may fall but not grow.
//!
//! These rules were broken in many places before they were rules. `xtask/ratchets.txt` holds how many places
//! are left. More of them fail; when there are fewer, `cargo xtask tidy --write` records that.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt::Write as _, fs};

use super::prose::{prose, split};
use super::tree::Tree;
use super::words::PLAIN_WORDS;
use super::{Found, PROBLEMS_SHOWN};

const FILE: &str = "xtask/ratchets.txt";

const HEADER: &str = "\
# How many places still break a rule of `cargo xtask tidy`. More of them fail.
# `cargo xtask tidy --write` lowers a number when there are fewer; nothing raises one.
# After a merge conflict here, keep either side and run it.
";

/// What a rule has counted.
#[derive(Default)]
struct Measured {
    count: usize,
    places: Found,
}

impl Measured {
    fn of(places: Found) -> Self {
        Self { count: places.len(), places }
    }
}

type Measure = fn(&Tree) -> Measured;

const RATCHETS: &[(&str, Measure)] = &[
    ("type-names", count_type_names),
    ("plain-words", count_plain_words),
    ("comment-width", count_comment_width),
    ("nested-results", count_nested_results),
    ("long-super", count_long_super),
];

pub(super) fn type_names(tree: &Tree) -> Found {
    hold(tree, "type-names", count_type_names(tree))
}

pub(super) fn plain_words(tree: &Tree) -> Found {
    hold(tree, "plain-words", count_plain_words(tree))
}

pub(super) fn comment_width(tree: &Tree) -> Found {
    hold(tree, "comment-width", count_comment_width(tree))
}

pub(super) fn nested_results(tree: &Tree) -> Found {
    hold(tree, "nested-results", count_nested_results(tree))
}

pub(super) fn long_super(tree: &Tree) -> Found {
    hold(tree, "long-super", count_long_super(tree))
}

/// The recorded numbers, by rule.
fn recorded(tree: &Tree) -> BTreeMap<&str, usize> {
    let text = tree.file(FILE).map_or("", |file| &file.text);
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(rule, number)| Some((rule, number.trim().parse().ok()?)))
        .collect()
}

/// Nothing, unless there are more places than recorded: then the new ones, or the files that have most.
fn hold(tree: &Tree, rule: &str, measured: Measured) -> Found {
    let allowed = recorded(tree).get(rule).copied().unwrap_or(0);
    if measured.count <= allowed {
        return Vec::new();
    }
    let grown = format!("{} places, where {FILE} allows {allowed}", measured.count);
    let is_new = |(path, line, _): &&(String, usize, String)| tree.is_new(path, *line);
    let new: Found = measured.places.iter().filter(is_new).cloned().collect();
    let shown = if new.is_empty() { one_of_each_of_the_worst(measured.places) } else { new };
    let say = |(path, line, message)| (path, line, format!("{message} ({grown})"));
    shown.into_iter().take(PROBLEMS_SHOWN).map(say).collect()
}

fn one_of_each_of_the_worst(places: Found) -> Found {
    let mut files: BTreeMap<String, Found> = BTreeMap::new();
    for place in places {
        files.entry(place.0.clone()).or_default().push(place);
    }
    let mut files: Vec<Found> = files.into_values().collect();
    files.sort_by_key(|places| std::cmp::Reverse(places.len()));
    let first = |places: Found| {
        let others = places.len() - 1;
        let (path, line, message) = places.into_iter().next()?;
        Some((
            path,
            line,
            if others == 0 { message } else { format!("{message}; {others} more in this file") },
        ))
    };
    files.into_iter().filter_map(first).collect()
}

/// A line for each rule that is broken in fewer places than recorded.
pub(super) fn fallen(tree: &Tree) -> Vec<String> {
    let recorded = recorded(tree);
    let mut fallen = Vec::new();
    for (rule, measure) in RATCHETS {
        let (now, before) = (measure(tree).count, recorded.get(rule).copied().unwrap_or(0));
        if now < before {
            fallen.push(format!(
                "{rule}: {now} places, {before} recorded; `cargo xtask tidy --write` lowers it"
            ));
        }
    }
    fallen
}

/// The file with every number lowered to what there is. A rule without a number gets one.
pub(super) fn lowered(tree: &Tree) -> String {
    let recorded = recorded(tree);
    let mut text = HEADER.to_owned();
    for (rule, measure) in RATCHETS {
        let now = measure(tree).count;
        let number = recorded.get(rule).map_or(now, |before| now.min(*before));
        let _ = writeln!(text, "{rule} {number}");
    }
    text
}

pub(super) fn write(root: &Path, tree: &Tree) -> Result<String, String> {
    let text = lowered(tree);
    fs::write(root.join(FILE), &text).map_err(|error| format!("tidy could not write {FILE}: {error}"))?;
    let numbers: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    Ok(format!("{FILE}: {}", numbers.join(", ")))
}

/// Definitions of a type beyond the first of its name in the same crate. Tests and the conformance suite do
/// not count, and neither do `Error`, `Result` and associated types.
fn count_type_names(tree: &Tree) -> Measured {
    let mut definitions: BTreeMap<(&str, String), Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.rust_files().filter(|file| !file.is_test_code()) {
        let Some((package, _)) = file.path.split_once("src/") else { continue };
        let mut in_tests = false;
        for (number, line) in (1..).zip(split(&file.text)) {
            in_tests = in_tests || line.code.starts_with("mod tests {");
            if let Some(name) = defined_type(&line.code).filter(|name| !in_tests && !is_shared(name)) {
                definitions.entry((package, name.to_owned())).or_default().push((&file.path, number));
            }
        }
    }
    let mut measured = Measured::default();
    for ((_, name), places) in definitions.into_iter().filter(|(_, places)| places.len() > 1) {
        measured.count += places.len() - 1;
        for (path, line) in &places {
            let other = places.iter().find(|place| *place != &(*path, *line));
            let (other, at) = other.copied().unwrap_or_default();
            let message = format!("`{name}` is also a type in {other}:{at}; give it a name of its own");
            measured.places.push(((*path).to_owned(), *line, message));
        }
    }
    measured
}

fn is_shared(name: &str) -> bool {
    matches!(name, "Error" | "Result")
}

/// The name of the type that begins in this line. An indented `type` belongs to a trait or an implementation.
fn defined_type(code: &str) -> Option<&str> {
    let line = code.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let (keyword, rest) = line.split_once(' ')?;
    let is_definition = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        "type" => !code.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (is_definition && end > 0).then(|| &rest[..end])
}

fn count_plain_words(tree: &Tree) -> Measured {
    let mut places = Vec::new();
    for file in tree.files.iter().filter(|file| !file.quotes_the_rules()) {
        for (number, line) in prose(file) {
            let line = line.to_lowercase();
            if let Some((phrase, better)) = PLAIN_WORDS.iter().find(|(phrase, _)| has_phrase(&line, phrase)) {
                let message = format!("\"{phrase}\" is not plain; write {better}");
                places.push((file.path.clone(), number, message));
            }
        }
    }
    Measured::of(places)
}

/// Whether the phrase is there as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase)
        .any(|(at, _)| !line[..at].ends_with(in_word) && !line[at + phrase.len()..].starts_with(in_word))
}

fn count_comment_width(tree: &Tree) -> Measured {
    let format = tree.file("rustfmt.toml").map_or("", |file| &file.text);
    let width =
        format.lines().find_map(|line| line.strip_prefix("max_width = ")?.parse().ok()).unwrap_or(100);
    let mut places = Vec::new();
    for file in tree.rust_files() {
        for (number, line) in file.lines() {
            let wide = line.chars().count();
            if line.trim_start().starts_with("//") && wide > width {
                let message =
                    format!("a comment of {wide} columns; wrap it at {width}, as rustfmt does code");
                places.push((file.path.clone(), number, message));
            }
        }
    }
    Measured::of(places)
}

fn count_nested_results(tree: &Tree) -> Measured {
    count_code(tree, "Result<Result<", "write an enum that names the three outcomes, or flatten the errors")
}

fn count_long_super(tree: &Tree) -> Measured {
    count_code(tree, "super::super::super", "write the path from `crate::`")
}

fn count_code(tree: &Tree, piece: &str, better: &str) -> Measured {
    let mut places = Vec::new();
    for file in tree.rust_files().filter(|file| !file.quotes_the_rules()) {
        for (number, line) in (1..).zip(split(&file.text)) {
            if line.code.contains(piece) {
                places.push((file.path.clone(), number, format!("`{piece}` is hard to read; {better}")));
            }
        }
    }
    Measured::of(places)
}
