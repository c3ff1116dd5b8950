//! What a server remembers of workers elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::time::{Instant, sleep_until};
use windlass::{Lease, Rejected, SecretDigest, TaskId, Worker, WorkerId};

use crate::http::polls::Wanted;
use crate::http::{Answered, App};

/// How long a worker's secret is accepted without reading it anew: so long one that was forgotten by way of
/// another server, and whose id is another's by now, is taken for that one.
const HOLDS: Duration = Duration::from_secs(30);

/// The least time between two readings of all workers: an unknown worker waits for the next.
const REST: Duration = Duration::from_millis(100);

/// What is known of workers elsewhere, so that a claim need not read it anew. Only a memory: the store has
/// all of it.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    known: Mutex<HashMap<WorkerId, Known>>,
    /// When all were last read. Locked while they are being read.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct Known {
    wanted: Wanted,
    /// The digest of its secret; none, if it has none.
    secret: Option<SecretDigest>,
    /// When it was read.
    read_at: Instant,
    /// Claims that were marked as running.
    marked: BTreeSet<(TaskId, Lease)>,
}

impl Known {
    fn of(worker: &Worker, read_at: Instant) -> Self {
        let Worker { namespace, queues, kinds, secret, .. } = worker.clone();
        Self { wanted: Wanted { namespace, queues, kinds }, secret, read_at, marked: BTreeSet::new() }
    }

    /// Whether this is its secret. Takes the same time wherever they differ.
    fn has(&self, secret: &SecretDigest) -> bool {
        self.secret.is_some_and(|own| own.bytes().ct_eq(secret.bytes()).into())
    }
}

impl Fleet {
    /// More than one server is likely to speak for.
    const MOST: usize = 100_000;

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<WorkerId, Known>) -> T) -> T {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn learn(&self, worker: &Worker) {
        self.with(|known| {
            if known.len() >= Self::MOST {
                known.clear();
            }
            known.insert(worker.id.clone(), Known::of(worker, Instant::now()));
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
        self.read(app, Instant::now()).await?;
        let wanted = self.with(|known| known.get(worker).map(|known| known.wanted.clone()));
        wanted.ok_or_else(|| Rejected::InvalidWorker { worker: worker.clone() }.into())
    }

    /// Whether a secret is that of a worker; `None` if there is no such worker.
    pub(crate) async fn has_secret(
        &self,
        app: &App,
        worker: &WorkerId,
        secret: &SecretDigest,
    ) -> Answered<Option<bool>> {
        let is_known = |known: &Known| known.has(secret) && known.read_at.elapsed() < HOLDS;
        if self.with(|known| known.get(worker).is_some_and(is_known)) {
            return Ok(Some(true));
        }
        self.read(app, Instant::now()).await?;
        Ok(self.with(|known| known.get(worker).map(|known| known.has(secret))))
    }

    /// Reads all workers, unless somebody has begun to since `asked_at`. However many ask, and whatever they
    /// send, the store is asked a few times in a second.
    async fn read(&self, app: &App, asked_at: Instant) -> Answered<()> {
        let mut read_at = self.read_at.lock().await;
        if read_at.is_some_and(|read_at| read_at >= asked_at) {
            return Ok(());
        }
        if let Some(read_at) = *read_at {
            sleep_until(read_at + REST).await;
        }
        let begun = Instant::now();
        let workers = app.windlass.store().workers().await?;
        self.with(|known| {
            let mut before = std::mem::take(known);
            known.extend(workers.iter().map(|worker| {
                let mut row = Known::of(worker, begun);
                if let Some(before) = before.remove(&worker.id).filter(|before| before.secret == row.secret) {
                    row.marked = before.marked;
                }
                (worker.id.clone(), row)
            }));
            // Those that registered meanwhile.
            known.extend(before.into_iter().filter(|(_, before)| before.read_at >= begun));
        });
        *read_at = Some(begun);
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use serde_json::{Value, json};
    use windlass::remote::WORKER_SECRET_HEADER;
    use windlass::{NewWorker, WorkerId, WorkerSecret};

    use super::{HOLDS, REST};
    use crate::http::testing::Served;

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_was_replaced_elsewhere_is_refused_before_long() {
        let served = Served::start();
        let me = served.worker().await;
        let path = format!("{me}/heartbeat");
        let beat = || served.ask("POST", &path, Value::Null);
        assert_eq!(beat().await.0, 200);
        // By way of another server: it has left, and its id is another's.
        let (store, id) = (served.app.windlass.store(), me.rsplit('/').next().unwrap());
        let new = NewWorker::new(WorkerId::new(id).unwrap());
        store.deregister(new.id.clone()).await.unwrap();
        store.register(NewWorker { secret: Some(WorkerSecret::new([7; 32]).digest()), ..new }).await.unwrap();
        tokio::time::sleep(HOLDS + Duration::from_millis(1)).await;
        let (status, _, refused) = beat().await;
        assert_eq!((status, &refused["code"]), (403, &json!("wrong_worker_secret")), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_cost_the_store_a_few_questions_however_many_they_are() {
        let served = Served::start();
        let me = served.worker().await;
        let (path, begun) = (format!("{me}/heartbeat"), tokio::time::Instant::now());
        let guesses = (0..500).map(|guess| {
            let (served, path) = (&served, &path);
            async move {
                let secret = [(WORKER_SECRET_HEADER, format!("wlw_{guess}"))];
                served.ask_with("POST", path, &secret, &Value::Null).await.0
            }
        });
        assert!(join_all(guesses).await.iter().all(|status| *status == 403));
        assert!(served.plan.calls("workers") <= 3, "{}", served.plan.calls("workers"));
        assert!(begun.elapsed() <= REST * 3, "{:?}", begun.elapsed());
        assert_eq!(served.ask("POST", &path, Value::Null).await.0, 200, "its own is known all the while");
    }
}
