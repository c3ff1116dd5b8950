//! Stopping a worker, and stopping a task: what ends by itself in time is done, the rest goes back and costs
//! no attempt.
//!
//! Prints:
//! ```text
//! cancelled: the handler was told Cancelled
//! quick: completed, attempt 1
//! slow: pending, attempt 0
//! workers left: 0
//! ```
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use windlass::{By, Context, Input, StopReason, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Nap {
    long: bool,
}

impl Input for Nap {
    const KIND: &'static str = "nap";
}

/// A handler that says when it has started, naps, and notices when it is to stop.
async fn nap(
    context: Context,
    nap: Nap,
    heard: mpsc::UnboundedSender<StopReason>,
    started: Arc<Notify>,
) -> Result<(), TaskError> {
    started.notify_one();
    let length = Duration::from_millis(if nap.long { 60_000 } else { 100 });
    tokio::select! {
        () = tokio::time::sleep(length) => Ok(()),
        reason = context.stopped() => {
            heard.send(reason)?;
            Err(TaskError::retry("woken up"))
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let (heard, mut stops) = mpsc::unbounded_channel();
    let started = Arc::new(Notify::new());
    let starts = started.clone();
    let handler = move |context, input| nap(context, input, heard.clone(), starts.clone());
    let worker = windlass.worker().handle(handler).grace(Duration::from_millis(500)).start().await?;
    let client = windlass.client();

    let task = client.submit(&Nap { long: true }).await?.id;
    started.notified().await;
    client.cancel(task, By { actor: Some("ada".into()), note: Some("no longer needed".into()) }).await?;
    let reason = stops.recv().await.ok_or("the handler heard nothing")?;
    println!("cancelled: the handler was told {reason:?}");

    let mut naps = Vec::new();
    for (name, long) in [("quick", false), ("slow", true)] {
        naps.push((name, client.submit(&Nap { long }).await?.id));
        started.notified().await;
    }
    worker.stop().await?;
    for (name, id) in naps {
        let status = client.get(id).await?.ok_or("it is there")?.task.status;
        println!("{name}: {}, attempt {}", status.state, status.attempt);
    }
    println!("workers left: {}", client.workers().await?.len());
    Ok(())
}
