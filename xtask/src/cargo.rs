//! Running cargo from within a program that cargo runs.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `cargo ARGS` in the root of the workspace; what it prints goes to the terminal as it comes.
pub(crate) fn run(root: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let mut command = prepare(root);
    command.args(arguments).envs(variables.iter().copied());
    let line = arguments.join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {line}` ended with {status}")),
        Err(error) => Err(format!("`cargo {line}` could not be started: {error}")),
    }
}

/// A command of cargo's in the root of the workspace, to be run by the caller.
pub(crate) fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = prepare(root);
    command.args(arguments);
    command
}

/// What `cargo ARGS` prints; what it complains about goes to the terminal.
pub(crate) fn output(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let line = arguments.join(" ");
    let output = command(root, arguments).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("`cargo {line}` could not be started: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`cargo {line}` ended with {}", output.status))
    }
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has_command(root: &Path, name: &str) -> bool {
    let mut command = prepare(root);
    command.args([name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn prepare(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    forget_package(&mut command);
    command
}

/// `cargo run` describes this package in the environment. Build scripts that watch these variables would be
/// run again after each change between `cargo xtask test` and a plain `cargo test`.
pub(crate) fn forget_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(describes_package) {
            command.env_remove(name);
        }
    }
}

fn describes_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}
