//! The whole engine: `windlass bench`, a process of its own, on the same server.

use anyhow::Result;

use super::Figures;
use crate::program::{self, answer, figure};

/// A worker with 24 handlers that do nothing.
pub(crate) fn measure(url: &str, tasks: usize) -> Result<Figures> {
    let mut command = program::windlass()?;
    command
        .args(["--store", url, "bench", "--json", "--rounds", "1", "--samples", "300", "--entities", "0"])
        .args(["--tasks", &tasks.to_string()]);
    let figures = &answer(&mut command)?["figures"][0];
    Ok(Figures {
        submit: figure(figures, "submit_per_second")?,
        drain: figure(figures, "drain_per_second")?,
        cycle: figure(figures, "cycle_per_second")?,
        p50: figure(figures, "p50_seconds")? * 1e3,
        p99: figure(figures, "p99_seconds")? * 1e3,
        wal: 0.0,
    })
}
