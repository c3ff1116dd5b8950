//! How a process and the one that watches over it speak: lines one way, opened gates the other, and places to
//! stand still.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass::TaskId;

/// Marks a line that is meant for the watcher, among those of the test harness.
pub(crate) const MARK: &str = "@ ";

/// Says a line to whoever started this process. It is out when this returns.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The harness leaves its line open.
    let said = out.write_all(format!("\n{MARK}{line}\n").as_bytes()).and_then(|()| out.flush());
    // Nobody listens any more: the end of the other pipe will tell.
    drop(said);
}

/// Where handlers and store calls wait until they may go on.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    open: watch::Sender<BTreeSet<String>>,
    /// Tasks whose finish is kept from the store until the gate of that name is open.
    late: Mutex<BTreeSet<TaskId>>,
    /// Where a process that shuts down stands still, to be killed there.
    freeze_at: Option<String>,
    pub(crate) stopping: AtomicBool,
    pub(crate) heartbeats: AtomicU64,
    /// Handlers that run, and the most that ever did at once.
    active: Mutex<(usize, usize)>,
    /// Handlers that have ended.
    pub(crate) ended: watch::Sender<u64>,
    /// What the store could not do, by verb and answer.
    pub(crate) troubles: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

impl Gates {
    pub(crate) fn new(freeze_at: Option<String>) -> Arc<Self> {
        Arc::new(Self { freeze_at, ..Self::default() })
    }

    pub(crate) fn open(&self, gate: &str) {
        self.open.send_modify(|open| {
            open.insert(gate.into());
        });
    }

    /// Waits until a gate is open.
    pub(crate) async fn pass(&self, gate: &str) {
        let mut open = self.open.subscribe();
        drop(open.wait_for(|open| open.contains(gate)).await.expect("gates outlive those who wait"));
    }

    /// Keeps the finish of a task from the store.
    pub(crate) fn hold_back(&self, task: TaskId) {
        self.late.lock().unwrap().insert(task);
    }

    /// Whether the finish of a task is to be kept from the store; only once.
    pub(crate) fn is_held_back(&self, task: TaskId) -> bool {
        self.late.lock().unwrap().remove(&task)
    }

    /// Stands still for ever if this is where the process is to be killed during its shutdown.
    pub(crate) async fn reach(&self, point: &str) {
        if self.stopping.load(Ordering::SeqCst) && self.freeze_at.as_deref() == Some(point) {
            say(&format!("frozen {point}"));
            std::future::pending::<()>().await;
        }
    }

    /// Counts a handler until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Active {
        let (now, most) = &mut *self.active.lock().unwrap();
        *now += 1;
        *most = (*most).max(*now);
        Active(self.clone())
    }

    /// The most handlers that ever ran at once.
    pub(crate) fn most_active(&self) -> usize {
        self.active.lock().unwrap().1
    }
}

/// A handler that runs.
#[derive(Debug)]
pub(crate) struct Active(Arc<Gates>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.lock().unwrap().0 -= 1;
        self.0.ended.send_modify(|ended| *ended += 1);
    }
}
