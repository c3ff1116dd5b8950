//! Several worker processes at one database: what they get done together, and how evenly.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use windlass_store::postgres::{Options, Schema};

use super::{Bench, through_store};

/// What they did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    /// Tasks per second, all together.
    pub(super) drain: f64,
    /// Tasks of the process that did the least, and of the one that did the most.
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Bench<'_> {
    pub(super) fn processes(&self, number: usize) -> Result<Shared> {
        let schema = format!("processes_{number}");
        let store = self.open(&schema)?;
        self.runtime.block_on(through_store::submit_all(store, self.tasks))?;
        let program = std::env::current_exe()?;
        let start = |_| {
            let mut command = Command::new(&program);
            command.args(["--postgres", "--drain", &self.server.url(), &schema]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("a worker process")
        };
        let mut children = (0..number).map(start).collect::<Result<Vec<_>>>()?;
        let begun = Instant::now();
        for child in &mut children {
            // They wait for this, so that they begin together.
            child.stdin.take().context("its input")?.write_all(b"go\n")?;
        }
        let mut done = Vec::new();
        for child in children {
            let output = child.wait_with_output()?;
            ensure!(output.status.success(), "a worker process failed");
            done.push(String::from_utf8(output.stdout)?.trim().parse::<f64>()?);
        }
        let drain = self.tasks as f64 / begun.elapsed().as_secs_f64();
        let least = done.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(Shared { drain, least, most: done.iter().copied().fold(0.0, f64::max) })
    }
}

/// One of the processes: works off what there is and prints how much that was.
pub(crate) async fn drain_here(url: &str, schema: &str) -> Result<usize> {
    let store = Options::new(url)?.schema(Schema::new(schema)?).open().await?;
    std::io::stdin().read_line(&mut String::new())?;
    through_store::drain_all(store).await
}
