//! How a running handler is told to stop, and why.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why a handler is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// An operator cancelled the task.
    Cancelled,
    /// The lease is lost: another worker may have the task.
    LeaseLost,
    /// The store could not be told that this worker lives, so others will take its tasks.
    Fenced,
    /// The attempt has used up its time.
    TimedOut,
    /// The worker shuts down.
    Shutdown,
}

/// Told once, heard by all clones. The first reason stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
}

impl Stop {
    pub(crate) fn tell(&self, reason: StopReason) {
        if self.reason.set(reason).is_ok() {
            self.token.cancel();
        }
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    pub(crate) async fn stopped(&self) -> StopReason {
        self.token.cancelled().await;
        self.reason().unwrap_or(StopReason::Shutdown)
    }
}
