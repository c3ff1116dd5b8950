//! A worker elsewhere: claims, does nothing, and tells so with its next claim.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::wire::Wire;

pub(crate) const KIND: &str = "bench:nothing";

/// A worker that takes so many tasks at once.
#[derive(Debug)]
pub(crate) struct Worker {
    wire: Wire,
    path: String,
    limit: usize,
    /// What it has to tell.
    outcomes: String,
}

impl Worker {
    pub(crate) async fn register(address: SocketAddr, limit: usize) -> Result<Self> {
        Self::of(address, limit, "default").await
    }

    /// One that waits for what never comes.
    pub(crate) async fn elsewhere(address: SocketAddr) -> Result<Self> {
        Self::of(address, 1, "elsewhere").await
    }

    async fn of(address: SocketAddr, limit: usize, queue: &str) -> Result<Self> {
        let mut wire = Wire::connect(address).await?;
        let body = json!({ "kinds": [KIND], "queues": [queue], "pool_size": limit, "hostname": "bench", "dead_after_seconds": 600 });
        let registered = wire.post("/v1/workers", &body.to_string()).await?;
        let id = registered["worker_id"].as_str().context("a worker without an id")?;
        let secret = registered["worker_secret"].as_str().context("a worker without a secret")?;
        wire.headers = format!("windlass-worker-secret: {secret}\r\n");
        Ok(Self { path: format!("/v1/workers/{id}/claim"), wire, limit, outcomes: String::new() })
    }

    /// One request: what was done, and the next tasks. Says how many those are.
    pub(crate) async fn turn(&mut self, wait_seconds: u32) -> Result<usize> {
        let (outcomes, limit) = (std::mem::take(&mut self.outcomes), self.limit);
        let body = format!(r#"{{"limit":{limit},"wait_seconds":{wait_seconds},"outcomes":[{outcomes}]}}"#);
        let answer = self.wire.post(&self.path, &body).await?;
        let tasks = answer["tasks"].as_array().context("a claim without tasks")?;
        for (index, task) in tasks.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (Value::String(id), lease) = (&task["id"], &task["lease"]) else { continue };
            // Writing to a text cannot fail.
            let _ = write!(self.outcomes, r#"{comma}{{"id":"{id}","lease":{lease},"outcome":"completed"}}"#);
        }
        Ok(tasks.len())
    }
}
