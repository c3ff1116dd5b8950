//! `windlass definition`, `windlass workflow` and `windlass why` of steps, as a person types them, on real
//! files. Steps are done by `windlass work`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod definitions;
mod kit;
mod looking;
mod operating;
mod starting;
mod why;

use kit::{NIGHTLY, UNKNOWN, blocked, place, run_with, start, step, text, worker};
use support::Place;

/// A place with an empty store, in a file.
fn empty() -> Place {
    Place::new()
}
