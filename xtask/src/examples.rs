//! Runs the example programs of the library, so that what a reader pastes is known to work, and holds each to
//! the output that its documentation shows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use crate::{cargo, show};

/// Where the examples are, from the root of the workspace.
pub(crate) const DIRECTORY: &str = "crates/engine/examples";

/// `cargo run --example` would choose the features of one package and so build the dependencies once more.
/// This finds everything as `cargo test` left it.
pub(crate) const BUILD: &[&str] = &["build", "--locked", "--workspace", "--all-features", "--examples"];

/// An example that waits for something that never comes is found by this, and not by a gate that never ends.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Builds all examples and runs each in an empty directory. Returns a remark for the summary.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let names = names(&root.join(DIRECTORY)).map_err(|error| format!("{DIRECTORY}: {error}"))?;
    if names.is_empty() {
        return Ok("there are none yet".to_owned());
    }
    cargo::run(root, BUILD, &[])?;
    let built = built_into().map_err(|error| format!("where examples are built is unknown: {error}"))?;
    for name in &names {
        let begun = Instant::now();
        let expected = expected(&root.join(DIRECTORY), name)?;
        run_one(&built, name, &expected)?;
        println!("      {name}: {}", show::duration(begun.elapsed()));
    }
    Ok(show::count(names.len(), "program"))
}

/// The names by which cargo knows the examples: `name.rs` or `name/main.rs`.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_example = path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").exists();
        if let (true, Some(name)) = (is_example, path.file_stem()) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What an example prints, as its documentation says: the block of text after a line `Prints:`.
fn expected(directory: &Path, name: &str) -> Result<String, String> {
    let path = directory.join(format!("{name}.rs"));
    let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    printed_block(&source).ok_or_else(|| {
        format!("{DIRECTORY}/{name}.rs does not say what it prints; add `//! Prints:` and a ```text block to its documentation")
    })
}

fn printed_block(source: &str) -> Option<String> {
    let mut lines = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.find(|line| *line == "Prints:")?;
    lines.find(|line| *line == "```text")?;
    let block: Vec<&str> = lines.take_while(|line| *line != "```").collect();
    Some(block.join("\n") + "\n")
}

/// Cargo puts examples beside this very program, whatever the target directory is called.
fn built_into() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("examples"))
}

/// Runs one example in a directory of its own: a file that an earlier run left must not make this one pass.
fn run_one(built: &Path, name: &str, expected: &str) -> Result<(), String> {
    let scratch = built.join("scratch").join(name);
    let [printed, complained] =
        ["out", "err"].map(|what| built.join("scratch").join(format!("{name}.{what}")));
    let ended =
        start(&built.join(name), &scratch, &printed, &complained).and_then(|child| wait(child, TIME_LIMIT));
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let why = match ended {
        Ok(Some(status)) if status.success() && text(&printed) == expected => return Ok(()),
        Ok(Some(status)) if status.success() => format!("should have printed\n\n{expected}"),
        Ok(Some(status)) => format!("ended with {status}"),
        Ok(None) => format!("was still running after {} and was stopped", show::duration(TIME_LIMIT)),
        Err(error) => format!("could not be run: {error}"),
    };
    let (printed, complained) = (text(&printed), text(&complained));
    Err(format!("{complained}{printed}\nthe example `{name}`, whose output is above, {why}"))
}

/// Output goes to a file: a pipe that nobody empties would stop a talkative example.
fn start(program: &Path, scratch: &Path, printed: &Path, complained: &Path) -> io::Result<Child> {
    if scratch.exists() {
        fs::remove_dir_all(scratch)?;
    }
    fs::create_dir_all(scratch)?;
    Command::new(program)
        .current_dir(scratch)
        .stdin(Stdio::null())
        .stderr(File::create(complained)?)
        .stdout(File::create(printed)?)
        .spawn()
}

/// Waits until a program has ended. One that has not when the time is up is killed, and the answer is `None`.
pub(crate) fn wait(mut child: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::printed_block;

    #[test]
    fn what_an_example_prints_is_in_its_documentation() {
        let source =
            "//! An example.\n//!\n//! Prints:\n//! ```text\n//! one\n//!   two\n//! ```\n\nfn main() {}\n";
        assert_eq!(printed_block(source).as_deref(), Some("one\n  two\n"));
        assert_eq!(printed_block("//! An example.\n\nfn main() {}\n"), None);
    }
}
