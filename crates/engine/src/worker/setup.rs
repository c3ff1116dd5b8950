//! What a worker is: everything that is decided before it starts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::{DEAD_AFTER, Lease, Name, NewWorker, Rejected, Retention, TaskId, WorkerId};
use windlass_store::{Claim, Store};

use super::fence::Fence;
use super::held::Held;
use crate::client::Client;
use crate::handler::Handlers;

/// Settings of one worker. Past [`WorkerBuilder::start`](super::WorkerBuilder::start) they make sense and do
/// not change.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) client: Client,
    pub(crate) id: WorkerId,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) queues: Vec<Name>,
    /// Handlers that run at once.
    pub(crate) pool: usize,
    /// Claims that may wait for a handler to end.
    pub(crate) buffer: usize,
    /// How long handlers may go on after the worker was told to stop.
    pub(crate) grace: Duration,
    /// How long a handler may go on after it was told to stop.
    pub(crate) patience: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) dead_after: Duration,
    /// How long an idle worker trusts that it would have been woken.
    pub(crate) poll: Duration,
    /// Whether it may become the leader.
    pub(crate) leads: bool,
    pub(crate) retention: Retention,
    /// Whether the heartbeat has a thread of its own. Only simulations do without.
    pub(crate) threaded: bool,
    pub(crate) new_id: Arc<dyn Fn() -> TaskId + Send + Sync>,
    /// Who hears what became of reports.
    pub(crate) on_report: Option<Arc<OnReport>>,
}

/// See [`WorkerBuilder::on_report`](super::WorkerBuilder::on_report).
pub(crate) type OnReport = dyn Fn(TaskId, Lease, &ReportResult) + Send + Sync;

/// What became of a worker's report about an attempt.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReportResult {
    /// The store has it.
    Accepted,
    /// The store refused it: the task is another's by now, or nobody's.
    Refused(Rejected),
    /// None was made: the lease was known to be lost, or the task to be cancelled.
    Dropped,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("id", &self.id)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// How the worker is known to the store.
    pub(crate) fn registration(&self) -> NewWorker {
        NewWorker {
            host: self.id.as_str().split('-').next().unwrap_or_default().into(),
            version: concat!("windlass ", env!("CARGO_PKG_VERSION")).into(),
            pool_size: u32::try_from(self.pool).unwrap_or(u32::MAX),
            namespace: self.client.namespace.clone(),
            queues: self.queues.clone(),
            kinds: self.handlers.kinds(),
            dead_after: self.dead_after,
            ..NewWorker::new(self.id.clone())
        }
    }

    pub(crate) fn claim(&self, limit: usize) -> Claim {
        Claim {
            worker: self.id.clone(),
            namespace: self.client.namespace.clone(),
            queues: self.queues.clone(),
            kinds: self.handlers.kinds(),
            limit,
        }
    }

    pub(super) fn reported(&self, task: TaskId, lease: Lease, result: &ReportResult) {
        if let Some(on_report) = &self.on_report {
            on_report(task, lease, result);
        }
    }

    /// How long a leader's term lasts unless it is renewed, at half of it; others try to lead every sixth. No
    /// longer than a worker may be silent, so that a dead leader delays what is due no longer than a dead
    /// worker does.
    pub(crate) fn term(&self) -> Duration {
        self.dead_after.min(DEAD_AFTER)
    }

    /// How long after the last confirmed heartbeat handlers are stopped: before others may take their tasks.
    pub(crate) fn fence_after(&self) -> Duration {
        self.dead_after * 4 / 5
    }
}

/// What the parts of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(super) held: Held,
    pub(super) fence: Arc<Fence>,
    /// Whether the heartbeat has ended because the store is closed.
    pub(super) is_closed: AtomicBool,
    /// Asks the heartbeat to come at once.
    pub(super) pulse_wanted: Notify,
    /// Asks to look at once whether leases are lost.
    pub(super) look_wanted: Notify,
    /// Asks the loop to claim at once.
    pub(super) claim_wanted: Notify,
    /// A handler has told something.
    pub(super) notes_written: Arc<Notify>,
}

impl Shared {
    pub(crate) fn new(setup: Setup) -> Self {
        let fence = Arc::new(Fence::new(setup.fence_after(), !setup.threaded));
        Self {
            setup,
            fence,
            is_closed: AtomicBool::new(false),
            held: Held::default(),
            pulse_wanted: Notify::new(),
            look_wanted: Notify::new(),
            claim_wanted: Notify::new(),
            notes_written: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.setup.client.store
    }
}
