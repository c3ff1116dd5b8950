//! Testing handlers: everything in memory, on a clock in the test's hand; nothing runs unless the test says
//! so.
//!
//! Prints:
//! ```text
//! run alone: completed
//! first try: waiting_for_retry, line is busy
//! a minute later: completed
//! follow-ups: thank Ada, thank Grace
//! ```
#![allow(clippy::print_stdout)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::testing::TestEngine;
use windlass::{Context, Input, TaskError};

#[derive(Serialize, Deserialize)]
struct Call {
    who: String,
}

impl Input for Call {
    const KIND: &'static str = "call";
}

#[derive(Serialize, Deserialize)]
struct Thank {
    who: String,
}

impl Input for Thank {
    const KIND: &'static str = "thank";
}

/// The handler to be tested: it may have to try again, and submits something to follow.
async fn call(context: Context, call: Call) -> Result<(), TaskError> {
    if call.who == "Grace" && context.attempt() == 1 {
        return Err(TaskError::retry("line is busy").after(Duration::from_secs(60)));
    }
    let thanks = Thank { who: call.who };
    // With a key, a second run of this handler submits nothing new.
    context.client().submit(&thanks).key(context.id().to_string()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = TestEngine::new(|worker| worker.handle(call)).await?;
    let ada = engine.run(&Call { who: "Ada".into() }).await?;
    println!("run alone: {}", ada.task.status.state);

    engine.client().submit(&Call { who: "Grace".into() }).await?;
    let tried = engine.drain().await?.remove(0).task.status;
    println!("first try: {}, {}", tried.state, tried.error.unwrap_or_default());

    engine.advance(Duration::from_secs(60)).await?;
    let tried = engine.drain().await?.remove(0).task.status;
    println!("a minute later: {}", tried.state);

    let thanks: Vec<Thank> = engine.submitted().await?;
    let thanks: Vec<String> = thanks.into_iter().map(|thank| format!("thank {}", thank.who)).collect();
    println!("follow-ups: {}", thanks.join(", "));
    Ok(())
}
