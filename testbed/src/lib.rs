//! What tests, benchmarks and continuous integration need around them, with no set-up.
//!
//! [`postgres`] runs a private PostgreSQL server that ends with the process that started it. [`pgbouncer`]
//! stands in front of one and lends its connections out for a transaction each. [`proxy`] stands between a
//! client and a server and breaks the connection at the moment a test names.
//!
//! What this crate does *not* do: it is not shipped, knows nothing of tasks or stores, and speaks to
//! PostgreSQL only through the programs that come with it, so that a test chooses its own driver.

#[cfg(unix)]
pub mod pgbouncer;
#[cfg(unix)]
pub mod postgres;
pub mod proxy;
