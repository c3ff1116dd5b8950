//! The whole engine: `windlass bench`, a process of its own, on a file beside the others.

use std::path::Path;

use anyhow::Result;
use windlass_store::sqlite::Durability;

use crate::Case;
use crate::program::{self, answer, figure};

/// Submits `case.tasks` tasks and has them run by a worker; tasks per second, for both together.
pub(crate) fn cycle(at: &Path, case: Case) -> Result<f64> {
    let durability = if case.durability == Durability::Full { "full" } else { "normal" };
    let mut command = program::windlass()?;
    command
        .current_dir(at)
        .args(["bench", "--json", "--rounds", "1", "--samples", "1", "--entities", "0"])
        .args(["--durability", durability, "--tasks", &case.tasks.to_string()]);
    figure(&answer(&mut command)?["figures"][0], "cycle_per_second")
}
