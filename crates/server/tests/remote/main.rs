//! A server as a store: that commands do the same through it, who may do what, and what becomes of work when
//! it is killed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../http/kit.rs"]
#[allow(dead_code)]
mod kit;
#[path = "../support/mod.rs"]
mod support;

mod access;
mod killing;
mod parity;
mod secure;
mod usage;
mod waiting;
mod worker_secrets;

use kit::Server;
use support::Place;

/// A place whose program works through a server.
fn through(server: &Server) -> Place {
    Place::new().with("WINDLASS_SERVER", url(server))
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}
