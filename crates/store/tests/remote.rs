//! A server as a store passes the suite: on the memory store, in this process, through the bytes that are
//! sent.
#![allow(clippy::expect_used)]

use std::process::ExitCode;
use std::sync::Arc;

use windlass_store::conformance::{self, Lab, START};
use windlass_store::{ManualClock, MemoryStore, RemoteStore, Store};

struct RemoteLab(Arc<ManualClock>, Arc<MemoryStore>);

#[async_trait::async_trait]
impl Lab for RemoteLab {
    fn clock(&self) -> Arc<ManualClock> {
        self.0.clone()
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(RemoteStore::in_process(self.1.clone()).await.expect("the server answers"))
    }
}

fn main() -> ExitCode {
    conformance::main(|| {
        let clock = Arc::new(ManualClock::new(START));
        Box::new(RemoteLab(clock.clone(), Arc::new(MemoryStore::new(clock))))
    })
}
