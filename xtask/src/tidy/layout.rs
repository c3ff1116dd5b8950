//! Rules about files: their names, their lengths, and which of them belong together.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::tree::{File, Tree};

/// Names under which anything could be found, so that nothing can. Their plurals are no better.
const EMPTY_NAMES: &[&str] = &[
    "manager",
    "service",
    "helper",
    "util",
    "utility",
    "utilitie",
    "common",
    "misc",
    "processor",
    "coordinator",
];

const LONGEST_FILE: usize = 600;

const INCLUDE: &str = "include_str!(";

pub(super) fn names(tree: &Tree) -> Found {
    let mut found = BTreeSet::new();
    for file in &tree.files {
        for (part, path) in parts(file) {
            if let Some(word) = part.split(['_', '-', '.']).find(|word| is_empty_name(word)) {
                let message =
                    format!("`{word}` in `{path}` says nothing of what is inside; name the one duty it has");
                found.insert((file.path.clone(), 1, message));
            }
        }
    }
    found.into_iter().collect()
}

/// Each directory and the file itself without its extension, with the path up to there.
fn parts(file: &File) -> impl Iterator<Item = (&str, &str)> {
    let ends = file.path.match_indices('/').map(|(at, _)| at).chain([file.path.len()]);
    let mut start = 0;
    ends.map(move |end| {
        let part = &file.path[start..end];
        start = end + 1;
        let is_file = end == file.path.len();
        let stem = part.rsplit_once('.').map_or(part, |(stem, _)| stem);
        (if is_file { stem } else { part }, &file.path[..end])
    })
}

fn is_empty_name(word: &str) -> bool {
    let word = word.to_lowercase();
    EMPTY_NAMES.contains(&word.as_str())
        || word.strip_suffix('s').is_some_and(|one| EMPTY_NAMES.contains(&one))
}

pub(super) fn length(tree: &Tree) -> Found {
    let files = tree.rust_files().filter(|file| !file.is_test_code());
    let long = files.filter(|file| file.text.lines().count() > LONGEST_FILE);
    long.map(|file| {
        let lines = file.text.lines().count();
        let message = format!(
            "{lines} lines are more than {LONGEST_FILE}; find the second duty in it and give that a file"
        );
        (file.path.clone(), LONGEST_FILE + 1, message)
    })
    .collect()
}

pub(super) fn migrations(tree: &Tree) -> Found {
    let mut found = Vec::new();
    // Files come sorted from git, but the order must not depend on it.
    let mut directories: BTreeMap<&str, BTreeMap<&str, &File>> = BTreeMap::new();
    for file in &tree.files {
        if file.directory().split('/').any(|part| part == "migrations") {
            directories.entry(file.directory()).or_default().insert(file.name(), file);
        }
    }
    for files in directories.values() {
        let mut expected = 1;
        for file in files.values() {
            let number = migration_number(file.name());
            if number != Some(expected) {
                found.push((file.path.clone(), 1, misnumbered(number)));
            }
            // One gap is one problem, not one for each file after it.
            expected = number.map_or(expected, |number| number + 1);
        }
    }
    found
}

fn misnumbered(number: Option<u32>) -> String {
    match number {
        None => {
            "a migration is called NNN_name.sql, in small letters; rename it or move it elsewhere".to_owned()
        }
        Some(number) => {
            format!("{number:03} does not follow the one before; migrations count from 001 without gaps")
        }
    }
}

fn migration_number(name: &str) -> Option<u32> {
    let (number, rest) = name.strip_suffix(".sql")?.split_once('_')?;
    let is_name = !rest.is_empty() && rest.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    let is_number = number.len() == 3 && number.chars().all(|c| c.is_ascii_digit());
    if is_name && is_number { number.parse().ok() } else { None }
}

pub(super) fn sql_is_used(tree: &Tree) -> Found {
    let including: Vec<&File> = tree.rust_files().filter(|file| file.text.contains(INCLUDE)).collect();
    let sql = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("crates/store/src/") && file.extension() == "sql");
    let unused = sql.filter(|sql| !including.iter().any(|file| includes(file, sql)));
    unused
        .map(|file| {
            let message = "no `include_str!` names this file; use it or delete it".to_owned();
            (file.path.clone(), 1, message)
        })
        .collect()
}

/// Whether the file includes the query, by its path or through a macro that puts the path together.
fn includes(file: &File, sql: &File) -> bool {
    file.text.split(INCLUDE).skip(1).any(|rest| {
        let rest = rest.trim_start();
        match rest.strip_prefix("concat!(") {
            Some(parts) => includes_by_name(file, parts, sql),
            None => string_at(rest).is_some_and(|path| resolve(file.directory(), path) == sql.path),
        }
    })
}

/// For `include_str!(concat!("sql/", $name, ".sql"))`: the directory is right and the file says the name
/// somewhere.
fn includes_by_name(file: &File, parts: &str, sql: &File) -> bool {
    let Some(prefix) = string_at(parts.trim_start()) else { return false };
    let name = sql.name().trim_end_matches(".sql");
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
    sql.path == format!("{}{name}.sql", resolve(file.directory(), prefix))
        && file.text.split(|c| !is_in_word(c)).any(|word| word == name)
}

/// The string that the text begins with.
fn string_at(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split_once('"').map(|(string, _)| string)
}

/// The path from the root of the repository. A slash at the end stays.
fn resolve(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
