//! The SQLite store passes the suite.
#![allow(clippy::expect_used)]

use std::process::ExitCode;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_store::conformance::{self, Lab, START};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{ManualClock, Store};

struct SqliteLab(Arc<ManualClock>, TempDir);

#[async_trait::async_trait]
impl Lab for SqliteLab {
    fn clock(&self) -> Arc<ManualClock> {
        self.0.clone()
    }

    async fn open(&self) -> Arc<dyn Store> {
        let options = Options::new(self.1.path().join("windlass.db")).durability(Durability::Normal);
        Arc::new(options.clock(self.0.clone()).open().expect("the file can be opened"))
    }
}

fn main() -> ExitCode {
    conformance::main(|| {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        Box::new(SqliteLab(Arc::new(ManualClock::new(START)), directory))
    })
}
