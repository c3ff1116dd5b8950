//! Programs of other languages, as `cargo xtask provision` leaves them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Python with the packages that tests use.
pub(crate) fn python() -> Command {
    let packages = root().join("target/provision/python");
    assert!(packages.is_dir(), "{} is not there; `cargo xtask provision` fetches it", packages.display());
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("WINDLASS_BIN", env!("CARGO_BIN_EXE_windlass"));
    python
}

fn typescript() -> PathBuf {
    let client = root().join("clients/typescript");
    let built = client.join("dist-test/conformance/main.js");
    assert!(built.is_file(), "{} is not there; `cargo xtask provision` builds it", built.display());
    client
}

/// The tests of the TypeScript client.
pub(crate) fn npm_tests() -> Command {
    let client = typescript();
    let is_test = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(".test.js"));
    let entries = std::fs::read_dir(client.join("dist-test")).unwrap();
    let tests: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(is_test).collect();
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=2", "--test-reporter=tap"]).args(tests);
    node.current_dir(client).env("WINDLASS_BIN", env!("CARGO_BIN_EXE_windlass"));
    node
}

/// The program of the TypeScript client that runs the script.
pub(crate) fn conformance_in_node() -> Command {
    let mut node = Command::new("node");
    node.arg(typescript().join("conformance.mjs"));
    node
}

/// Runs a program to its end, which must be a good one, and gives what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
    said
}
