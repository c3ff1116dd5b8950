//! `windlass serve`, asked over real connections, on a file and on PostgreSQL.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod attacks;
mod bodies;
mod cost;
mod events;
mod hardening;
mod kit;
mod lifecycle;
mod limited;
mod namespaces;
mod proxy;
mod refusals;
mod slow;
mod tasks;
mod traces;
mod worker_secrets;
mod workers;
mod workflows;
