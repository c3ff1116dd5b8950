//! The program on PostgreSQL: the same commands, and what only a server has.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod commands;
#[path = "../workflow/kit.rs"]
mod kit;
mod looking;
mod migrate;
mod passwords;
mod pooler;
mod runs;
#[path = "../support/mod.rs"]
mod support;
mod usage;
mod workflows;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::{NIGHTLY, UNKNOWN, blocked, place, run_with, start, step, text, worker};
use support::Place;
use windlass_testbed::postgres::Server;

/// A part of every password here, and of nothing else.
const SECRET: &str = "s3cretword";

/// One for all tests. It need not survive a power cut.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

/// A database of a test.
struct Database {
    name: String,
}

impl Database {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
        server().create_database(&name).unwrap();
        Self { name }
    }

    /// With a password, which the server does not ask for.
    fn address(&self) -> String {
        format!("postgres://postgres:{SECRET}@{}/{}", server().addr(), self.name)
    }

    fn place(&self) -> Place {
        Place::with_store(self.address())
    }

    fn sql(&self, statements: &str) -> String {
        server().sql_in(&self.name, statements).unwrap()
    }

    /// The schemas that somebody made.
    fn schemas(&self) -> Vec<String> {
        let all = self.sql("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1");
        let is_made = |name: &&str| !matches!(*name, "information_schema" | "public");
        all.lines().filter(is_made).map(str::to_owned).collect()
    }
}

/// A place with an empty store.
fn empty() -> Place {
    Database::new().place()
}
