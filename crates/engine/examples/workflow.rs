//! A workflow written in Rust: a list of regions, one task for each, a decision, and what became of it all.
//!
//! Prints:
//! ```text
//! nightly version 1
//! extract      completed
//! regions      completed
//! regions[0]   completed
//! regions[1]   completed
//! alert        skipped
//! publish      completed
//! publish: {"summaries":["north on 2030-01-31","south on 2030-01-31"]}
//! ```
#![allow(clippy::print_stdout)]

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{Context, Definition, Input, Join, Rejected, Step, TaskError, Windlass};

#[derive(Serialize, Deserialize)]
struct Summarise {
    region: String,
    day: String,
}

impl Input for Summarise {
    const KIND: &'static str = "summarise";
}

#[derive(Serialize, Deserialize)]
struct Alert {
    to: String,
}

impl Input for Alert {
    const KIND: &'static str = "alert";
}

/// What could be a file, and is the same.
fn nightly() -> Result<Definition, Rejected> {
    Definition::builder("nightly")
        .input_schema(json!({ "type": "object", "required": ["day"] }))
        .step(Step::task("extract", "extract").input(json!({ "day": "${input.day}" })))
        .step(
            Step::task("regions", Summarise::KIND)
                .needs(["extract"])
                .map("${extract.regions}")
                .max_parallel(2)
                .input(json!({ "region": "${item}", "day": "${input.day}" })),
        )
        .step(Step::of("alert", &Alert { to: "ada".into() }).needs(["extract"]).when("extract.errors > 3"))
        .step(
            Step::task("publish", "publish")
                .needs(["regions", "alert"])
                .join(Join::AllDone)
                .input(json!({ "summaries": "${regions}" })),
        )
        .build()
}

async fn summarise(_context: Context, input: Summarise) -> Result<String, TaskError> {
    Ok(format!("{} on {}", input.region, input.day))
}

async fn alert(_context: Context, alert: Alert) -> Result<String, TaskError> {
    Ok(format!("{} was told", alert.to))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let worker = windlass
        .worker()
        .handle(summarise)
        .handle(alert)
        .handle_kind("extract", |_| async { Ok(json!({ "regions": ["north", "south"], "errors": 1 })) })
        .handle_kind("publish", |context| async move {
            Ok(serde_json::from_str::<Value>(context.payload().as_str())?)
        })
        .start()
        .await?;

    // Defining the same again, at every start of the program, changes nothing.
    let client = windlass.client();
    let defined = client.define(nightly()?).await?;
    println!("nightly version {}", defined.version);

    let started = client.start("nightly").input(&json!({ "day": "2030-01-31" })).key("2030-01-31").await?;
    let ended = client.wait_for_workflow(started.id).await?;

    let inspection = client.inspect(started.id).await?.ok_or("it is there")?;
    for task in &inspection.tasks {
        println!("{:12} {}", inspection.name(task), task.status.state);
    }
    for (step, result) in client.output(&ended).await? {
        println!("{step}: {}", result.unwrap_or_default());
    }
    worker.stop().await?;
    windlass.close().await?;
    Ok(())
}
