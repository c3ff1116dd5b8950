//! The PostgreSQL store passes the suite.
#![allow(clippy::expect_used)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use windlass_store::conformance::{self, Lab, START};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{ManualClock, Store};
use windlass_testbed::postgres::Server;

/// What a power cut would do is tested elsewhere; without waiting for the disk the suite takes half the time.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

struct PostgresLab(Arc<ManualClock>, Schema);

#[async_trait::async_trait]
impl Lab for PostgresLab {
    fn clock(&self) -> Arc<ManualClock> {
        self.0.clone()
    }

    async fn open(&self) -> Arc<dyn Store> {
        let options = Options::new(&server().url()).expect("the address is right");
        let options = options.schema(self.1.clone()).clock(self.0.clone());
        Arc::new(options.open().await.expect("the database can be reached"))
    }

    fn operations(&self) -> usize {
        10_400
    }
}

/// Each lab has a schema of its own.
static LABS: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    conformance::main(|| {
        let schema = format!("lab_{}", LABS.fetch_add(1, Ordering::Relaxed));
        let schema = Schema::new(&schema).expect("the name is right");
        Box::new(PostgresLab(Arc::new(ManualClock::new(START)), schema))
    })
}
