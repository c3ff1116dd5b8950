//! What the doctor finds out about the file of a SQLite store: room on its disk, whether it can be written,
//! and all that is in it.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use rustix::fs::statvfs;
use windlass_store::sqlite::examine::{Examination, Flaw, examine};

use super::Findings;

/// Less room than this is none: a backlog fills it within minutes.
const SCARCE: u64 = 64 << 20;

/// Less room than this is worth a note.
const LITTLE: u64 = 1 << 30;

/// What is written to see whether it can be.
const PROBE: usize = 1 << 20;

const RESTORE: &str =
    "stop what uses it, keep the file, and restore the last good backup (windlass restore; docs/backup.md)";

/// The disk that the file is on.
pub(super) fn disk(path: &Path, findings: &mut Findings) {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(disk) = statvfs(directory) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let (what, advice) =
            (format!("free space: {free} bytes"), "free some space, or prune: windlass prune");
        match free {
            0..SCARCE => findings.problem(what, advice),
            SCARCE..LITTLE => findings.note(what, advice),
            _ => findings.fine(what),
        }
    }
    if let Err(error) = probe(directory) {
        let what = format!("{} cannot be written: {error}", directory.display());
        findings.problem(what, "nothing is accepted until it can; check the disk and the permissions");
    }
}

/// Writes beside the file, down to the disk, and removes it.
fn probe(directory: &Path) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".windlass-probe-").tempfile_in(directory)?;
    file.write_all(&vec![0; PROBE])?;
    file.as_file().sync_all()
}

/// Everything in the file.
pub(super) async fn deep(path: &Path, findings: &mut Findings) -> Result<()> {
    let path = path.to_owned();
    let examined = tokio::task::spawn_blocking(move || examine(&path)).await?;
    let Examination { tasks, workflows, flaws } = match examined {
        Ok(examined) => examined,
        Err(error) => {
            findings.problem(error.to_string(), RESTORE);
            return Ok(());
        }
    };
    if flaws.is_empty() {
        findings.fine(format!(
            "all of it was looked at: {tasks} tasks and {workflows} workflows are whole, and numbers agree with rows"
        ));
    }
    for Flaw { what, times, example } in flaws {
        let times = if times == 1 { String::new() } else { format!(" ({times} times)") };
        findings.problem(format!("{what}{times}: {example}"), RESTORE);
    }
    Ok(())
}
