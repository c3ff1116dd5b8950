//! What a worker holds: the leases that its heartbeat speaks for, and how to stop whoever works on them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::{Lease, TaskId};

use crate::stop::{Stop, StopReason};

/// The leases of one worker. Shared between its loop, which claims and ends, and its heartbeat, which learns
/// what is lost.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<BTreeMap<TaskId, (Lease, Stop)>>);

impl Held {
    fn table(&self) -> MutexGuard<'_, BTreeMap<TaskId, (Lease, Stop)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim that was given; what stops its handler is returned.
    pub(super) fn add(&self, task: TaskId, lease: Lease) -> Stop {
        let stop = Stop::default();
        if let Some((_, before)) = self.table().insert(task, (lease, stop.clone())) {
            // Who was given a task anew has lost it before, even if it has not heard of that.
            before.tell(StopReason::LeaseLost);
        }
        stop
    }

    /// A claim that is over.
    pub(super) fn remove(&self, task: TaskId, lease: Lease) {
        let mut table = self.table();
        if table.get(&task).is_some_and(|(held, _)| *held == lease) {
            table.remove(&task);
        }
    }

    /// All claims.
    pub(super) fn list(&self) -> Vec<(TaskId, Lease)> {
        self.table().iter().map(|(task, (lease, _))| (*task, *lease)).collect()
    }

    /// Tells the handler of one claim to stop, if it is still this claim.
    pub(super) fn stop(&self, task: TaskId, lease: Lease, reason: StopReason) {
        if let Some((_, stop)) = self.table().get(&task).filter(|(held, _)| *held == lease) {
            stop.tell(reason);
        }
    }

    /// Tells all handlers to stop.
    pub(super) fn stop_all(&self, reason: StopReason) {
        self.table().values().for_each(|(_, stop)| stop.tell(reason));
    }
}
