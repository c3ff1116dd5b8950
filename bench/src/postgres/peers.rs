//! The queues of others, from their registries, if `bench/peers/postgres/install` has been run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Figures;

/// What to do to be compared with them.
pub(crate) const MISSING: &str =
    "not compared with the queues of others: bench/peers/postgres/install gets them";

/// Measures all that are installed, by name.
pub(crate) fn measure(url: &str, tasks: usize) -> Result<Vec<(String, Figures)>> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/postgres");
    if !programs.join("../../../target/peers/postgres").exists() {
        return Ok(Vec::new());
    }
    let output = Command::new(programs.join("run")).args([url, &tasks.to_string()]).output();
    let output = output.context("the peers cannot be run")?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let mut found = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let told: Value = serde_json::from_str(line).with_context(|| format!("a peer printed {line:?}"))?;
        let figure = |name: &str| told[name].as_f64().unwrap_or(0.0);
        let figures = Figures {
            submit: figure("submit_per_s"),
            drain: figure("drain_per_s"),
            cycle: figure("cycle_per_s"),
            p50: figure("p50_ms"),
            p99: figure("p99_ms"),
            wal: 0.0,
        };
        found.push((told["peer"].as_str().unwrap_or("?").to_owned(), figures));
    }
    Ok(found)
}
