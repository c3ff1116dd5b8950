//! `windlass serve`, a process of its own, and what it takes from the machine.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::program::windlass;

/// A server that runs beside the measurement, and ends with it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(store: &str) -> Result<Self> {
        let mut command = windlass()?;
        command.args(["--store", store, "serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stderr.take().context("no errors to read")?).lines();
        let mut said = String::new();
        let mut lines = lines.map_while(std::io::Result::ok);
        let address = lines.by_ref().find_map(|line| {
            said = line;
            said.strip_prefix("serving http://").and_then(|address| address.parse().ok())
        });
        let address = address.with_context(|| format!("the server does not serve: {said}"))?;
        // Nobody reads the rest, but somebody must take it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Memory that it has.
    pub(crate) fn megabytes(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kilobytes / 1e3)
    }

    /// Time of the processor that it has had.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("no stat")?;
        let ticks: Vec<f64> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        // A tick is a hundredth of a second on every Linux that matters here.
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
