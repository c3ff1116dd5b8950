//! A queue of others on SQLite: huey, from the Python registry, if it is installed. It keeps no history.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use windlass_store::sqlite::Durability;

use crate::Case;

/// What to do to be compared with it.
pub(crate) const MISSING: &str =
    "not compared with huey, which is not installed: python3 -m pip install huey";

const PROGRAM: &str = include_str!("../peers/huey_cycle.py");

/// Enqueues tasks and has them run by huey; tasks per second, for both together. `None` if it is not
/// installed.
pub(crate) fn cycle(at: &Path, case: Case) -> Result<Option<f64>> {
    let installed = Command::new("python3").args(["-c", "import huey"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let synchronous = if case.durability == Durability::Full { "2" } else { "1" };
    // It is slower by far: a tenth of the tasks is enough to tell.
    let tasks = (case.tasks / 10).max(500).to_string();
    let output =
        Command::new("python3").current_dir(at).args(["-c", PROGRAM, &tasks, synchronous]).output()?;
    ensure!(output.status.success(), "huey: {}", String::from_utf8_lossy(&output.stderr));
    let figure = String::from_utf8(output.stdout)?;
    Ok(Some(figure.trim().parse().with_context(|| format!("huey printed {figure:?}"))?))
}
