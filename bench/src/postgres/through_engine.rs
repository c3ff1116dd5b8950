//! The whole engine: `windlass bench`, a process of its own, on the same server.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Figures;

/// A worker with 24 handlers that do nothing.
pub(crate) fn measure(url: &str, tasks: usize) -> Result<Figures> {
    // Built with this program, and so beside it.
    let program = std::env::current_exe()?.with_file_name("windlass");
    let output = Command::new(&program)
        .args(["--store", url, "bench", "--json", "--rounds", "1", "--samples", "300", "--entities", "0"])
        .args(["--tasks", &tasks.to_string()])
        .output()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    ensure!(output.status.success(), "windlass bench: {}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let figure = |name: &str| answer["figures"][0][name].as_f64().with_context(|| format!("no {name}"));
    Ok(Figures {
        submit: figure("submit_per_second")?,
        drain: figure("drain_per_second")?,
        cycle: figure("cycle_per_second")?,
        p50: figure("p50_seconds")? * 1e3,
        p99: figure("p99_seconds")? * 1e3,
        wal: 0.0,
    })
}
