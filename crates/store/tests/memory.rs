//! The memory store passes the suite: it is what the others are compared with.

use std::process::ExitCode;
use std::sync::Arc;

use windlass_store::conformance::{self, Lab, START};
use windlass_store::{ManualClock, MemoryStore, Store};

struct MemoryLab(Arc<ManualClock>, Arc<MemoryStore>);

#[async_trait::async_trait]
impl Lab for MemoryLab {
    fn clock(&self) -> Arc<ManualClock> {
        self.0.clone()
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.1.clone()
    }
}

fn main() -> ExitCode {
    conformance::main(|| {
        let clock = Arc::new(ManualClock::new(START));
        Box::new(MemoryLab(clock.clone(), Arc::new(MemoryStore::new(clock))))
    })
}
