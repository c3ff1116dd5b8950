//! Something around all handlers: here it counts how they end, and hides an error from those who may not see
//! it.
//!
//! Prints:
//! ```text
//! ok: completed
//! bad: failed (see the log of the task)
//! completed 1, failed 1
//! the log says: the password is hunter2
//! ```
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use windlass::{Context, Input, Next, Outcome, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Login {
    user: String,
}

impl Input for Login {
    const KIND: &'static str = "login";
}

async fn login(_context: Context, login: Login) -> Result<(), TaskError> {
    match &*login.user {
        "bad" => Err(TaskError::fail("the password is hunter2")),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct Tally {
    completed: AtomicU32,
    failed: AtomicU32,
}

/// Given the context and what is inside; returns the outcome, its own or that of the inside.
async fn discreet(context: Context, next: Next, tally: Arc<Tally>) -> Outcome {
    match next.run(context.clone()).await {
        Outcome::Failed { error, retryable, retry_after } => {
            tally.failed.fetch_add(1, Ordering::Relaxed);
            context.log(error);
            Outcome::Failed { error: "see the log of the task".into(), retryable, retry_after }
        }
        outcome => {
            tally.completed.fetch_add(1, Ordering::Relaxed);
            outcome
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("memory:").await?;
    let tally = Arc::new(Tally::default());
    let counted = tally.clone();
    let worker =
        windlass.worker().handle(login).around(move |context, next| discreet(context, next, counted.clone()));
    let worker = worker.start().await?;
    let client = windlass.client();
    let mut said = Vec::new();
    for user in ["ok", "bad"] {
        let task = client.submit(&Login { user: user.into() }).await?;
        let done = client.wait(task.id).await?.0;
        let error = done.task.status.error.map(|error| format!(" ({error})")).unwrap_or_default();
        println!("{user}: {}{error}", done.task.status.state);
        said.extend(done.notes.into_iter().flat_map(|notes| notes.lines));
    }
    println!("completed {:?}, failed {:?}", tally.completed, tally.failed);
    said.iter().for_each(|line| println!("the log says: {}", line.text));
    worker.stop().await?;
    Ok(())
}
