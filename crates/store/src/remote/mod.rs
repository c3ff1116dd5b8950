//! A server as a store: every verb is sent to a Windlass server, which has its own store run it.
//!
//! [`Call`](crate::verbs::Call) is what is sent, [`Responder`] the server's side of it, and [`RemoteStore`]
//! the client's. What is sent is JSON, by a route of its own: it is for Windlass's own programs, of one
//! version on both sides, and not the contract that programs in other languages rely on.
//!
//! A write has one of three outcomes: done, not done, and unknown, if it was sent and there is no answer. The
//! callers know how to find out, by reading. Connections live on a thread of their own, as those to a
//! database do.
//!
//! What it does *not* do: it keeps nothing but what never changes, repeats no write by itself, and never
//! leads; the server does.

mod address;
mod bells;
mod client;
mod http;
#[cfg(feature = "conformance")]
mod loopback;
mod options;
mod protocol;
mod responder;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

pub use client::RemoteCalls;
pub use http::{PROTOCOL_HEADER, STORE_PATH, WATCH_PATH, WORKER_SECRET_HEADER};
pub use options::Options;
pub use protocol::{Hello, LONGEST_WATCH, PROTOCOL};
pub use responder::{Gatekeeper, Responder};
pub use store::{RemoteOverrides, RemoteStore};
