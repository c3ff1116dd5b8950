//! Runs the example programs of the library, so that what a reader pastes is known to work.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use crate::{cargo, show};

/// Where the examples are, from the root of the workspace.
pub(crate) const DIRECTORY: &str = "crates/engine/examples";

/// `cargo run --example` would choose the features of one package and so build the dependencies once more. This
/// finds everything as `cargo test` left it.
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
        run_one(&built, name)?;
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

/// Cargo puts examples beside this very program, whatever the target directory is called.
fn built_into() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("examples"))
}

/// Runs one example in a directory of its own: a file that an earlier run left must not make this one pass.
fn run_one(built: &Path, name: &str) -> Result<(), String> {
    let scratch = built.join("scratch").join(name);
    let printed = built.join("scratch").join(format!("{name}.txt"));
    let ended = start(&built.join(name), &scratch, &printed).and_then(wait);
    let why = match ended {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => format!("ended with {status}"),
        Ok(None) => format!("was still running after {} and was stopped", show::duration(TIME_LIMIT)),
        Err(error) => format!("could not be run: {error}"),
    };
    let printed = fs::read_to_string(&printed).unwrap_or_default();
    Err(format!("{printed}\nthe example `{name}` {why}; above is what it printed"))
}

/// Output goes to a file: a pipe that nobody empties would stop a talkative example.
fn start(program: &Path, scratch: &Path, printed: &Path) -> io::Result<Child> {
    if scratch.exists() {
        fs::remove_dir_all(scratch)?;
    }
    fs::create_dir_all(scratch)?;
    let printed = File::create(printed)?;
    Command::new(program)
        .current_dir(scratch)
        .stdin(Stdio::null())
        .stderr(printed.try_clone()?)
        .stdout(printed)
        .spawn()
}

/// `None` when the time was up.
fn wait(mut child: Child) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < TIME_LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
