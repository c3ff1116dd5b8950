//! The whole engine: `windlass bench`, a process of its own, on a file beside the others.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use windlass_store::sqlite::Durability;

use crate::Case;

/// Submits `case.tasks` tasks and has them run by a worker; tasks per second, for both together.
pub(crate) fn cycle(at: &Path, case: Case) -> Result<f64> {
    // Built with this program, and so beside it.
    let program = std::env::current_exe()?.with_file_name("windlass");
    let durability = if case.durability == Durability::Full { "full" } else { "normal" };
    let output = Command::new(&program)
        .current_dir(at)
        .args(["bench", "--json", "--rounds", "1", "--samples", "1", "--entities", "0"])
        .args(["--durability", durability, "--tasks", &case.tasks.to_string()])
        .output()
        .with_context(|| {
            format!(
                "{} cannot be run; build it with `cargo build --release -p windlass-server`",
                program.display()
            )
        })?;
    ensure!(output.status.success(), "windlass bench: {}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    answer["figures"][0]["cycle_per_second"].as_f64().context("a figure")
}
