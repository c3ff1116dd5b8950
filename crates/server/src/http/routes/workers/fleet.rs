//! What a server remembers of workers elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use windlass::{Lease, Rejected, TaskId, Worker, WorkerId};

use super::super::super::polls::Wanted;
use super::super::super::{Answered, App};

/// What is known of workers elsewhere, so that a claim need not read it anew. Only a memory: the store has all of it.
#[derive(Debug, Default)]
pub(crate) struct Fleet(Mutex<HashMap<WorkerId, Known>>);

#[derive(Clone, Debug)]
struct Known {
    wanted: Wanted,
    /// Claims that were marked as running.
    marked: BTreeSet<(TaskId, Lease)>,
}

impl Known {
    fn of(worker: &Worker) -> Self {
        let Worker { namespace, queues, kinds, .. } = worker.clone();
        Self { wanted: Wanted { namespace, queues, kinds }, marked: BTreeSet::new() }
    }
}

impl Fleet {
    /// More than one server is likely to speak for.
    const MOST: usize = 100_000;

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<WorkerId, Known>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn learn(&self, worker: &Worker) {
        self.with(|known| {
            if known.len() >= Self::MOST {
                known.clear();
            }
            known.insert(worker.id.clone(), Known::of(worker));
        });
    }

    pub(crate) fn forget(&self, worker: &WorkerId) {
        self.with(|known| known.remove(worker));
    }

    /// What a worker takes.
    pub(crate) async fn wanted(&self, app: &App, worker: &WorkerId) -> Answered<Wanted> {
        if let Some(wanted) = self.with(|known| known.get(worker).map(|known| known.wanted.clone())) {
            return Ok(wanted);
        }
        let workers = app.windlass.store().workers().await?;
        let found = workers.iter().find(|row| row.id == *worker);
        let row = found.ok_or_else(|| Rejected::InvalidWorker { worker: worker.clone() })?;
        self.learn(row);
        Ok(Known::of(row).wanted)
    }

    /// Of these claims, those that were not marked as running before; from now on they count as marked.
    pub(super) fn unmarked(&self, worker: &WorkerId, running: &[(TaskId, Lease)]) -> Vec<(TaskId, Lease)> {
        self.with(|known| match known.get_mut(worker) {
            Some(known) => {
                let new = running.iter().copied().filter(|claim| !known.marked.contains(claim)).collect();
                known.marked = running.iter().copied().collect();
                new
            }
            None => running.to_vec(),
        })
    }
}
