//! How a handler can end: done, try again, come back later, stop, give up; and what a panic is.
//!
//! Prints:
//! ```text
//! done: completed after 1 attempt(s)
//! flaky: completed after 3 attempt(s)
//! early: completed after 1 attempt(s)
//! obsolete: cancelled after 1 attempt(s)
//! hopeless: failed after 1 attempt(s): the address does not exist
//! panics: dead_letter after 2 attempt(s): the handler panicked: out of cheese
//! ```
#![allow(clippy::print_stdout, clippy::panic)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Input, RetryPolicy, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Call {
    number: String,
}

impl Input for Call {
    const KIND: &'static str = "call";
}

async fn call(context: Context, call: Call) -> Result<(), TaskError> {
    match &*call.number {
        // The backoff of the task's policy, unless `after` says otherwise.
        "flaky" if context.attempt() < 3 => Err(TaskError::retry("busy").after(Duration::from_millis(10))),
        // Costs no attempt, so the first claim is told by its lease.
        "early" if context.lease() == 1 => Err(TaskError::snooze(Duration::from_millis(20))),
        "obsolete" => Err(TaskError::cancel("the customer has called back")),
        "hopeless" => Err(TaskError::fail("the address does not exist")),
        "panics" => panic!("out of cheese"),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What a panic prints is of no use here: it is kept with the task.
    std::panic::set_hook(Box::new(|_| {}));
    let windlass = Windlass::open("memory:").await?;
    let worker = windlass.worker().handle(call).start().await?;
    let client = windlass.client();
    let quickly = RetryPolicy { base: Duration::from_millis(10), ..RetryPolicy::default() };
    for number in ["done", "flaky", "early", "obsolete", "hopeless", "panics"] {
        let attempts = if number == "panics" { 2 } else { 5 };
        let task =
            client.submit(&Call { number: number.into() }).max_attempts(attempts).retry(quickly).await?;
        let status = client.wait(task.id).await?.0.task.status;
        let error = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        println!("{number}: {} after {} attempt(s){error}", status.state, status.attempt);
    }
    worker.stop().await?;
    Ok(())
}
