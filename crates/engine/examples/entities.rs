//! Entities: many handlers, but one task of an entity at a time, in the order of submission.
//!
//! Prints:
//! ```text
//! planner:1 did 1 2 3 4 5
//! planner:2 did 1 2 3 4 5
//! worker:1 did 1 2 3 4 5
//! unknown_entity: entity "planner:9" is not registered; register it, or submit without require_entity
//! ```
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use windlass::{Context, Input, Lane, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Step {
    number: u32,
}

impl Input for Step {
    const KIND: &'static str = "step";
}

/// What each entity did, in order.
#[derive(Default)]
struct Diary(Mutex<BTreeMap<String, Vec<String>>>);

async fn step(context: Context, step: Step) -> Result<(), TaskError> {
    let entity =
        context.task().spec.lane.as_ref().and_then(Lane::entity).ok_or(TaskError::fail("no entity"))?;
    let diary: Arc<Diary> = context.shared()?;
    let mut pages = diary.0.lock().unwrap_or_else(PoisonError::into_inner);
    pages.entry(entity.to_string()).or_default().push(step.number.to_string());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let client = windlass.client();
    let diary = Arc::new(Diary::default());
    let mut tasks = Vec::new();
    for number in 1..=5 {
        for entity in ["planner:1", "planner:2", "worker:1"] {
            client.register_entity(entity).await?;
            tasks.push(client.submit(&Step { number }).entity(entity).require_entity().await?.id);
        }
    }
    let worker = windlass.worker().handle(step).share_arc(diary.clone()).pool(8).start().await?;
    for task in tasks {
        client.wait(task).await?;
    }
    worker.stop().await?;
    for (entity, steps) in diary.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{entity} did {}", steps.join(" "));
    }
    if let Err(error) = client.submit(&Step { number: 1 }).entity("planner:9").require_entity().await {
        println!("{}: {error}", error.code());
    }
    Ok(())
}
