//! Windlass: a durable task queue and workflow engine.
//!
//! [`Windlass`] opens a store by its address; from it come a [`Client`], to submit tasks and look at them,
//! and workers ([`WorkerBuilder`]), to run them. A handler is an `async fn(Context, Input) -> Result<Output,
//! TaskError>`; its kind lives on its [`Input`]. [`testing`] runs handlers without threads, files or waiting.
//!
//! The vocabulary ([`NewTask`], [`State`], [`Command`] …) and the [`Store`] trait are those of the crates
//! below, for programs that need more than the client gives.
//!
//! What this crate does *not* do: it stores nothing and decides no transitions.
//!
//! ```
//! use windlass::{Context, Input, TaskError, Windlass};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct SendEmail {
//!     to: String,
//! }
//! impl Input for SendEmail {
//!     const KIND: &'static str = "email:send";
//! }
//!
//! async fn send(context: Context, mail: SendEmail) -> Result<String, TaskError> {
//!     if mail.to.is_empty() {
//!         return Err(TaskError::fail("nobody to send to"));
//!     }
//!     Ok(format!("sent to {} at attempt {}", mail.to, context.attempt()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let windlass = Windlass::open("memory:").await?;
//! let worker = windlass.worker().handle(send).pool(4).start().await?;
//! let client = windlass.client();
//! let submitted = client.submit(&SendEmail { to: "ada".into() }).key("welcome ada").await?;
//! let said: String = client.wait(submitted.id).await?.output()?;
//! assert_eq!(said, "sent to ada at attempt 1");
//! worker.stop().await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod client;
mod context;
mod cron;
pub mod draw;
mod elsewhere;
mod error;
pub mod evaluators;
pub mod flow;
mod functions;
mod handler;
mod ids;
mod kinds;
mod leader;
mod observe;
mod rules;
mod schedule;
mod steps;
mod stop;
mod submit;
pub mod testing;
pub mod trace;
mod windlass;
mod worker;
mod workflow;

pub use address::open;
pub use client::{Client, Finished, OutputError};
pub use context::{Ancestor, Context};
pub use cron::Cron;
pub use elsewhere::{Handed, HandedStep, TurnedElsewhere};
pub use error::TaskError;
pub use functions::{
    AnalyticsFunctions, DiscoveryFunctions, Functions, GraphFunctions, HealthFunctions, QueueStatistics,
    ReadinessFunctions, StateFunctions,
};
pub use handler::{Next, Running};
pub use ids::{task_id, worker_id, worker_id_at, workflow_id};
pub use rules::{Rule, Rules};
pub use schedule::SetSchedule;
pub use stop::StopReason;
pub use submit::Submit;
pub use windlass::Windlass;
pub use windlass_core::*;
pub use windlass_store::{
    AuditListing, Catalog, Claim, Claimed, Clock, Count, Cursor, Defined, DefinitionLine, Due, Error, Filter,
    Listing, ManualClock, MemoryStore, Page, Pulse, Reads, ReadyWorkflow, Receipt, Reconciled, Record, Rings,
    Started, Store, StoredDefinition, Submitted, SystemClock, Turn, Turned, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord, Wrap, Wrapped, Writes, verbs,
};
#[cfg(feature = "postgres")]
pub use windlass_store::{PostgresStore, postgres};
#[cfg(feature = "remote")]
pub use windlass_store::{RemoteStore, remote};
#[cfg(feature = "sqlite")]
pub use windlass_store::{SqliteStore, sqlite};
pub use worker::{ReportResult, RunningWorker, WorkerBuilder};
pub use workflow::{
    Inspection, Missing, MissingStep, Start as StartWorkflow, StepAncestor, StepExplanation, StepWaits,
};
