//! Schedules, on the test kit's clock: a night in spring, a worker that was away for three days, a run by
//! hand.
//!
//! Prints:
//! ```text
//! first at 2026-01-01T02:00:00.000000Z
//! a day later: 1 report
//! after three days away: 2 reports
//! by hand: 3 reports
//! ```
#![allow(clippy::print_stdout)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::testing::TestEngine;
use windlass::{Context, Input, Missed, Overlap, TaskError};

#[derive(Serialize, Deserialize)]
struct Report {
    format: String,
}

impl Input for Report {
    const KIND: &'static str = "report:make";
}

async fn make(_context: Context, report: Report) -> Result<String, TaskError> {
    Ok(format!("report.{}", report.format))
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = TestEngine::new(|worker| worker.handle(make)).await?;
    let client = engine.client();
    let reports = async || engine.tasks(Report::KIND).await.map(|tasks| tasks.len());

    // Three in the morning in Berlin. Setting it again, at every start of the program, changes nothing.
    let task = client.submit(&Report { format: "pdf".into() });
    let schedule = client.schedule("nightly", "0 3 * * *", task).zone("Europe/Berlin");
    let schedule = schedule.missed(Missed::One).overlap(Overlap::Skip).await?;
    println!("first at {}", schedule.next_at);

    engine.advance(DAY).await?;
    engine.drain().await?;
    println!("a day later: {} report", reports().await?);

    engine.advance(3 * DAY).await?;
    engine.drain().await?;
    println!("after three days away: {} reports", reports().await?);

    client.run_schedule("nightly").await?;
    println!("by hand: {} reports", reports().await?);
    Ok(())
}
