//! Looks the dependencies up in the public database of known holes, with cargo-deny, where both can be had.
//!
//! Getting the database and using it are two commands, so that a machine without a network is told from a
//! hole.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cargo;
use crate::examples::wait;

const FETCH: &[&str] = &["deny", "--locked", "fetch", "db"];
pub(crate) const CHECK: &[&str] = &["deny", "--locked", "check", "--disable-fetch", "advisories"];

/// The database is a few megabytes. A network that swallows everything is found by this.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Checks the dependencies. A reason says why that was left out.
pub(crate) fn run(root: &Path) -> Result<Option<String>, String> {
    if !cargo::has_command(root, "deny") {
        return Ok(Some(
            "cargo-deny is not installed; `cargo install --locked cargo-deny` gets it".to_owned(),
        ));
    }
    if let Err(why) = fetch(cargo::command(root, FETCH), TIME_LIMIT) {
        return Ok(Some(format!("the database of advisories cannot be had: {why}")));
    }
    cargo::run(root, CHECK, &[]).map(|()| None)
}

/// What it complains about goes to the terminal.
fn fetch(mut command: Command, limit: Duration) -> Result<(), String> {
    let child = command.stdin(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    match wait(child, limit).map_err(|error| error.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("fetching it ended with {status}")),
        None => Err(format!("it did not come within {} s", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_database_that_cannot_be_had_is_said() {
        let limit = Duration::from_secs(30);
        assert_eq!(fetch(shell("exit 0"), limit), Ok(()));
        assert_eq!(fetch(shell("exit 3"), limit), Err("fetching it ended with exit status: 3".to_owned()));
        let never = fetch(shell("exec sleep 1000"), Duration::ZERO);
        assert_eq!(never, Err("it did not come within 0 s".to_owned()));
        assert!(fetch(Command::new("/nowhere/cargo"), limit).is_err());
    }
}
