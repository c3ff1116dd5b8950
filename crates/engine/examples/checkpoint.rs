//! A long task that says how far it is, keeps a log, and goes on where the attempt before it stopped.
//!
//! Prints:
//! ```text
//! attempt 1 begins at page 0
//! attempt 2 begins at page 3
//! completed: 6 pages
//! attempt 1: 3 of 6, log: page 1, page 2, page 3
//! attempt 2: 6 of 6, log: page 4, page 5, page 6
//! ```
#![allow(clippy::print_stdout)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Input, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Import {
    pages: u64,
}

impl Input for Import {
    const KIND: &'static str = "import";
}

async fn import(context: Context, import: Import) -> Result<u64, TaskError> {
    let begin: u64 = context.last_checkpoint()?.unwrap_or(0);
    println!("attempt {} begins at page {begin}", context.attempt());
    for page in begin + 1..=import.pages {
        context.log(format!("page {page}"));
        context.progress(page, import.pages, None);
        context.checkpoint(&page)?;
        if page == 3 && context.attempt() == 1 {
            return Err(TaskError::retry("connection reset").after(Duration::from_millis(10)));
        }
    }
    Ok(import.pages)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let worker = windlass.worker().handle(import).start().await?;
    let client = windlass.client();
    let task = client.submit(&Import { pages: 6 }).timeout(Duration::from_secs(60)).await?;
    let done = client.wait(task.id).await?;
    println!("{}: {} pages", done.task.status.state, done.output::<u64>()?);
    for notes in &done.notes {
        let lines: Vec<&str> = notes.lines.iter().map(|line| &*line.text).collect();
        let (done, total) = notes.progress.as_ref().map_or((0, 0), |it| (it.done, it.total.unwrap_or(0)));
        println!("attempt {}: {done} of {total}, log: {}", notes.lease, lines.join(", "));
    }
    worker.stop().await?;
    Ok(())
}
