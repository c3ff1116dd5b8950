//! What only this store has: a way that may fail, bells that are heard from afar, and a form that both sides
//! must know.

mod failures;
#[cfg(feature = "conformance")]
mod hostile;
mod listening;
#[cfg(feature = "conformance")]
mod protocol;
#[cfg(feature = "conformance")]
mod secrets;

use windlass_core::{Json, Name, NewTask, TaskId};

fn task(n: u8) -> NewTask {
    NewTask::new(TaskId::from_bytes([n; 16]), Name::kind("test:nothing").unwrap(), Json::default())
}
