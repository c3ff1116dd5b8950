//! Rules about what a line may contain.

use super::Found;
use super::tree::{File, Tree};

/// The clock, the disk, the network, other threads and chance: core is handed their results instead.
const IMPURE: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "std::fs",
    "std::net",
    "std::thread",
    "async fn",
    "Uuid::now_v7",
    "Uuid::new_v4",
];

const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "#[ignore"];

const SLEEPS: &[&str] = &["thread::sleep", "time::sleep"];

const SLEEP_ALLOWED: &str = "// tidy: sleep";

const MACHINE_PATHS: &[&str] = &["/work/", "/root/", "/home/"];

/// Registries: where packages come from is the business of each machine's configuration.
const HOSTS: &[&str] = &["crates.io", "pypi.org", "pythonhosted.org", "npmjs.org", "npmjs.com"];

/// What a program printed is kept as it was printed.
const PRINTED: &[&str] = &["snap", "stderr"];

pub(super) fn core_is_pure(tree: &Tree) -> Found {
    let files = tree.rust_files().filter(|file| file.path.starts_with("crates/core/src/"));
    find_words(files, IMPURE, |word| {
        format!(
            "core computes and does nothing else, so `{word}` has no place in it; take the value as an argument"
        )
    })
}

pub(super) fn unfinished(tree: &Tree) -> Found {
    let files = tree.rust_files().filter(|file| !file.quotes_the_rules());
    find_words(files, UNFINISHED, |word| {
        format!("`{word}` marks something unfinished; finish it or take it out")
    })
}

pub(super) fn hosts(tree: &Tree) -> Found {
    let files = tree.files.iter().filter(|file| !file.quotes_the_rules());
    let mut found = find_words(files, HOSTS, |word| {
        format!("`{word}` is a registry's host; each machine configures its own, so name the package alone")
    });
    found.retain(|(path, line, _)| !is_written_by_cargo(tree, path, *line));
    found
}

pub(super) fn sleep(tree: &Tree) -> Found {
    let mut found = Vec::new();
    for file in tree.rust_files().filter(|file| file.is_test_code() && !file.quotes_the_rules()) {
        let mut before = "";
        for (number, line) in file.lines() {
            let allowed = line.contains(SLEEP_ALLOWED) || before.contains(SLEEP_ALLOWED);
            if !allowed && SLEEPS.iter().any(|word| mentions(line, word)) {
                let message = format!(
                    "a test that sleeps is slow or wrong; wait for a signal or move the clock, \
                     or say why after `{SLEEP_ALLOWED}`"
                );
                found.push((file.path.clone(), number, message));
            }
            before = line;
        }
    }
    found
}

pub(super) fn whitespace(tree: &Tree) -> Found {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !PRINTED.contains(&file.extension())) {
        for (number, line) in file.lines() {
            if line.contains('\t') {
                found.push((file.path.clone(), number, "there is a tab; use spaces".to_owned()));
            }
            if line.trim_end() != line {
                found.push((
                    file.path.clone(),
                    number,
                    "there is space at the end of the line; remove it".to_owned(),
                ));
            }
        }
    }
    found
}

pub(super) fn machine_paths(tree: &Tree) -> Found {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !file.quotes_the_rules()) {
        for (number, line) in file.lines() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| has_absolute(line, path)) {
                let message = format!(
                    "a path in `{path}` exists on one machine only; make it relative to the repository"
                );
                found.push((file.path.clone(), number, message));
            }
        }
    }
    found
}

/// One problem for each line that mentions one of the words.
fn find_words<'a>(
    files: impl Iterator<Item = &'a File>,
    words: &[&str],
    message: impl Fn(&str) -> String,
) -> Found {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            if let Some(word) = words.iter().find(|word| mentions(line, word)) {
                found.push((file.path.clone(), number, message(word)));
            }
        }
    }
    found
}

/// Whether the word occurs other than as the end of a longer one.
fn mentions(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether the path begins there, and is not the middle of a relative path or of an address.
fn has_absolute(line: &str, path: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.~*})".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(continues))
}

/// The lock file names its registry in every entry, the same on all machines.
fn is_written_by_cargo(tree: &Tree, path: &str, number: usize) -> bool {
    let line = || tree.file(path)?.lines().find(|(at, _)| *at == number).map(|(_, line)| line);
    path.ends_with("Cargo.lock") && line().is_some_and(|line| line.starts_with("source = \"registry+"))
}
