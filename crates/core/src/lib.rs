//! The vocabulary and the state machines of Windlass.
//!
//! Everything here is pure: values in, values out. [`transition`] decides what a [`Command`] does to a
//! [`Task`]; [`explain`] says why a task is not running; [`rank`] orders what can be claimed; [`RetryPolicy`]
//! says when to try again. Stores apply what is decided here and decide nothing themselves.
//!
//! What this crate does *not* do: no async, no I/O, no clock, no randomness. The present moment is an
//! argument, ids are made by callers, and its manifest shows that it could not do otherwise.
//!
//! ```
//! use windlass_core::{Before, Command, Json, Name, NewTask, State, TaskId, Timestamp, WorkerId, transition};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let id: TaskId = "01890a5d-ac96-774b-bcce-b302099a8057".parse()?;
//! let now = Timestamp::from_micros(1_800_000_000_000_000);
//! let new = NewTask::new(id, Name::kind("email:send")?, Json::payload(r#"{"to":"ada"}"#)?);
//! let (task, _payload, _first_entry) = new.admit(now);
//! assert_eq!(task.status.state, State::Pending);
//!
//! let claim = Command::Claim { task: id, worker: WorkerId::new("host-1-a")? };
//! let changes = transition(&Before::of(&task), &claim, now)?;
//! assert_eq!(changes.tasks[0].after.state, State::Claimed);
//! assert_eq!(changes.tasks[0].after.attempt, 1);
//! # Ok(())
//! # }
//! ```

pub mod access;
mod command;
mod draft;
pub mod duration;
mod event;
mod explain;
pub mod history;
mod id;
mod input;
mod json;
mod lane;
pub mod limits;
mod name;
mod notes;
mod rank;
mod rejected;
mod retention;
mod retry;
mod schedule;
mod schedule_policy;
mod set_back;
mod state;
mod task;
mod time;
mod trace;
mod transition;
#[doc(hidden)]
pub mod wire;
mod worker;
mod worker_secret;
mod workflow;

pub use access::{AccessToken, AuditEntry, NamePattern, NewAuditEntry, NewSecret, PreviousSecret};
pub use command::{By, Command, Outcome, Scope};
pub use event::{Change, Event, EventId, Events};
pub use explain::{Blocker, Explanation, Facts, LaneHolder, Why, explain};
pub use history::{Attempt, Entry, Reason};
pub use id::{Lease, TaskId, Term, Token, WorkerId};
pub use input::Input;
pub use json::Json;
pub use lane::{Entity, Lane};
pub use name::{Name, stored_text};
pub use notes::{Line, Notes, Progress, Report};
pub use rank::{Ageing, rank};
pub use rejected::{Invalid, Rejected};
pub use retention::Retention;
pub use retry::{Backoff, Jitter, RetryPolicy, roll};
pub use schedule::{Firing, NewSchedule, Plan, Schedule, Template};
pub use schedule_policy::{Missed, Overlap};
pub use set_back::set_back;
pub use state::State;
pub use task::{DEFAULT_ATTEMPTS, NewTask, OnConflict, Spec, Start, Status, Task, attempts};
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{Before, Changes, Ended, TaskChange, conclude, nest, transition};
pub use worker::{DEAD_AFTER, Leadership, NewWorker, Worker, campaign, check_subscriptions, resign};
pub use worker_secret::{SecretDigest, WorkerSecret};
pub use workflow::*;
