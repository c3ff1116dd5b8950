//! The program `windlass`, which is built with this one and so stands beside it.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) fn windlass() -> Result<Command> {
    Ok(Command::new(std::env::current_exe()?.with_file_name("windlass")))
}

/// Runs a command that answers with JSON.
pub(crate) fn answer(command: &mut Command) -> Result<Value> {
    let output = command.output().with_context(|| {
        format!("{command:?} cannot be run; build it with `cargo build --release -p windlass-server`")
    })?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number in an answer.
pub(crate) fn figure(answer: &Value, name: &str) -> Result<f64> {
    answer[name].as_f64().with_context(|| format!("no {name} in {answer}"))
}
