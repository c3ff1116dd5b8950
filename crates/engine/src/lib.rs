//! Windlass: a durable task queue and workflow engine.
//!
//! [`open`] chooses a store by its address; ids for tasks and workers are made here, from the clock and randomness that the
//! core does without. The vocabulary ([`NewTask`], [`Command`], [`State`] …) and the [`Store`] trait are those of the crates below.
//!
//! What this crate does *not* do: it stores nothing and decides no transitions. Typed handlers and the worker's loop build on
//! what is here.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass::{Json, Name, NewTask, State};
//!
//! let store = windlass::open("memory:").await?;
//! let task = NewTask::new(windlass::task_id(), Name::kind("email:send")?, Json::payload(r#"{"to":"ada"}"#)?);
//! let submitted = store.submit(vec![task]).await?;
//! assert_eq!(submitted[0].state, State::Pending);
//! assert!(submitted[0].created);
//! # Ok(())
//! # }
//! ```

mod address;
mod ids;

pub use address::open;
pub use ids::{task_id, worker_id};
pub use windlass_core::*;
pub use windlass_store::{
    Claim, Claimed, Clock, Count, Cursor, Due, Error, Filter, Listing, ManualClock, MemoryStore, Page, Pulse,
    Receipt, Record, Store, Submitted, SystemClock, Turn, Turned,
};
#[cfg(feature = "sqlite")]
pub use windlass_store::{SqliteStore, sqlite};
