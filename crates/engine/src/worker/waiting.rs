//! A claim that waits for a free handler, or for its start to be recorded.

use std::sync::OnceLock;

use tokio::time::Instant;
use windlass_core::{Lease, TaskId};
use windlass_store::Claimed;

use super::fence::Hold;
use super::setup::Shared;
use crate::context::{Attempt, Notebook};
use crate::stop::{Stop, StopReason};

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) claimed: Claimed,
    pub(super) stop: Stop,
    pub(super) received: Instant,
    pub(super) hold: Hold,
}

impl Waiting {
    pub(super) fn key(&self) -> (TaskId, Lease) {
        (self.claimed.task.id, self.claimed.task.status.lease)
    }

    /// Why it must not be started any more, if so.
    pub(super) fn must_not_start(&self) -> Option<StopReason> {
        if !self.hold.is_sure() {
            self.stop.tell(StopReason::Fenced);
        }
        self.stop.reason()
    }

    /// The attempt that begins now.
    pub(super) fn attempt(self, shared: &Shared) -> Attempt {
        let Self { claimed: Claimed { task, payload, details }, stop, received, hold } = self;
        let setup = &shared.setup;
        Attempt {
            task,
            payload,
            place: OnceLock::new(),
            details,
            worker: setup.id.clone(),
            client: setup.client.clone(),
            handlers: setup.handlers.clone(),
            received,
            started: Instant::now(),
            trace: OnceLock::new(),
            stop,
            hold: Some(hold),
            notebook: Notebook::new(shared.notes_written.clone()),
        }
    }
}
