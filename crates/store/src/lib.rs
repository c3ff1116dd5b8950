//! Where the rows of Windlass live.
//!
//! [`Store`] is the trait that everything above speaks to; [`MemoryStore`] is its executable specification
//! and [`SqliteStore`] the embedded default; `RemoteStore` has a Windlass server do it. All meaning comes
//! from `windlass-core`: a store loads the rows a command concerns, calls `transition`, and writes the answer
//! atomically. The `conformance` feature holds the suite that every store passes; a new store is its storage
//! code and about fifteen lines of test wiring.
//!
//! What this crate does *not* do: it runs no handlers, keeps no loops or timers, and decides no transitions.

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod feed;
#[cfg(any(feature = "postgres", feature = "remote"))]
mod home;
mod memory;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migration;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "remote")]
pub mod remote;
mod request;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod text;
pub mod verbs;
mod workflow;
mod wrap;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, Result};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "remote")]
pub use remote::RemoteStore;
pub use request::{
    AuditListing, Claim, Claimed, Count, Cursor, Due, Filter, Listing, Page, Pulse, Receipt, Reconciled,
    Record, Rings, Submitted, Turn, Turned,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use verbs::{Catalog, Reads, Store, Wrap, Writes};
pub use workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};
pub use wrap::Wrapped;
