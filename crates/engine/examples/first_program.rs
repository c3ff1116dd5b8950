//! The first program of the README: a handler, a worker, a task, its result.
//!
//! Prints:
//! ```text
//! sending to ada, attempt 1
//! receipt 42
//! ```
#![allow(clippy::print_stdout)]

use serde::{Deserialize, Serialize};
use windlass::{Context, Input, TaskError, Windlass};

/// The kind of a task lives on the type of its input.
#[derive(Serialize, Deserialize)]
struct SendEmail {
    to: String,
}

impl Input for SendEmail {
    const KIND: &'static str = "email:send";
}

/// Any error with `?` means: try again later. `TaskError::fail` means: never again.
async fn send(context: Context, email: SendEmail) -> Result<u32, TaskError> {
    println!("sending to {}, attempt {}", email.to, context.attempt());
    Ok(42)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A file that is made if it is not there. Nothing else to set up.
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let worker = windlass.worker().handle(send).pool(10).start().await?;

    // Durable when this returns. The key makes it safe to repeat.
    let client = windlass.client();
    let submitted = client.submit(&SendEmail { to: "ada".into() }).key("welcome ada").await?;

    let receipt: u32 = client.wait(submitted.id).await?.output()?;
    println!("receipt {receipt}");

    worker.stop().await?;
    windlass.close().await?;
    Ok(())
}
