//! The server as programs in other languages see it: requests made up from its published description, and the
//! clients.
//!
//! What these tests need is fetched by `cargo xtask provision`; without it they fail and say so.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod contract;
mod fleet;
mod kills;
#[path = "../http/kit.rs"]
#[allow(dead_code, reason = "its other half is used by the tests of single routes")]
mod kit;
mod languages;
#[path = "../support/mod.rs"]
mod support;
mod tools;
