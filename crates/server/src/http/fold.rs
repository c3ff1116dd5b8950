//! Many callers' reports in one commit: while one is in progress, the next gathers.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use windlass::{Command, Error, Receipt, Rejected, Store, limits};

/// Calls that gather for the next commit. More than that wait where they are, and are counted there.
const GATHERED: usize = 1024;

/// The answers to the commands of one caller.
type Answers = Result<Vec<Result<Receipt, Rejected>>, Error>;

/// The commands of one caller, at most [`limits::BATCH`], and where the answers go.
#[derive(Debug)]
struct Entry {
    commands: Vec<Command>,
    answer: oneshot::Sender<Answers>,
}

/// Folds concurrent calls.
#[derive(Debug)]
pub(super) struct Fold {
    entries: mpsc::Sender<Entry>,
}

impl Fold {
    pub(super) fn start(store: Arc<dyn Store>) -> Self {
        let (entries, queue) = mpsc::channel(GATHERED);
        tokio::spawn(gather(store, queue));
        Self { entries }
    }

    /// Carries out commands, durably. A caller that goes away does not undo them.
    pub(super) async fn apply(&self, commands: Vec<Command>) -> Answers {
        let (answer, answered) = oneshot::channel();
        let stopping = |_| Error::Unavailable("the server is stopping".into());
        self.entries.send(Entry { commands, answer }).await.map_err(stopping)?;
        // It was begun, and nobody knows how far it came.
        answered.await.unwrap_or_else(|_| Err(Error::Unknown("the commit was ended by a fault".into())))
    }
}

async fn gather(store: Arc<dyn Store>, mut queue: mpsc::Receiver<Entry>) {
    let turns = Arc::new(tokio::sync::Semaphore::new(store.turns_at_once().max(1)));
    let mut first = queue.recv().await;
    while let Some(entry) = first.take() {
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        let (mut many, mut batch) = (entry.commands.len(), vec![entry]);
        while let Ok(entry) = queue.try_recv() {
            if many + entry.commands.len() > limits::BATCH {
                first = Some(entry);
                break;
            }
            many += entry.commands.len();
            batch.push(entry);
        }
        let store = store.clone();
        tokio::spawn(async move {
            commit(&*store, batch).await;
            drop(turn);
        });
        if first.is_none() {
            first = queue.recv().await;
        }
    }
}

async fn commit(store: &dyn Store, mut batch: Vec<Entry>) {
    let sizes: Vec<usize> = batch.iter().map(|entry| entry.commands.len()).collect();
    let commands = batch.iter_mut().flat_map(|entry| std::mem::take(&mut entry.commands)).collect();
    match store.apply(commands).await {
        Ok(receipts) => {
            let mut receipts = receipts.into_iter();
            for (entry, size) in batch.into_iter().zip(sizes) {
                // Who does not wait for the answer any more does not need it.
                let _ = entry.answer.send(Ok(receipts.by_ref().take(size).collect()));
            }
        }
        Err(error) => {
            for entry in batch {
                let _ = entry.answer.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Served;
    use super::*;
    use serde_json::json;
    use windlass::{By, Json, MemoryStore, Name, NewTask};

    #[tokio::test]
    async fn everybody_gets_their_own_answers() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let fold = Fold::start(store.clone());
        let new = |_| NewTask::new(windlass::task_id(), Name::stored("x"), Json::default());
        let tasks: Vec<NewTask> = (0..500).map(new).collect();
        let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
        store.submit(tasks).await.unwrap();
        let calls = ids.chunks(7).map(|ids| {
            let cancel = |task: &windlass::TaskId| Command::Cancel { task: *task, by: By::default() };
            let mut commands: Vec<_> = ids.iter().map(cancel).collect();
            commands.push(Command::Delete { task: windlass::task_id() });
            let fold = &fold;
            async move {
                let answers = fold.apply(commands).await.unwrap();
                let (last, others) = answers.split_last().unwrap();
                assert!(matches!(last, Err(Rejected::NotFound { .. })));
                let answered: Vec<_> =
                    others.iter().map(|answer| answer.as_ref().map(|one| one.task).unwrap()).collect();
                assert_eq!(answered, ids);
            }
        });
        futures_util::future::join_all(calls).await;
    }

    #[tokio::test]
    async fn many_single_reports_are_few_commits() {
        let served = Served::start();
        let me = served.worker().await;
        let tasks: Vec<_> = (0..64).map(|_| json!({ "kind": "x" })).collect();
        served.post("/v1/tasks/batch", json!({ "tasks": tasks })).await;
        let claimed = served.post(&format!("{me}/claim"), json!({ "limit": 64 })).await;
        let (claimed, before) = (claimed["tasks"].as_array().unwrap(), served.plan.calls("turn"));
        served.plan.hold("turn");
        let finish = |task: &serde_json::Value| {
            let outcome = json!({ "id": task["id"], "lease": task["lease"], "outcome": "completed" });
            served.asking(format!("{me}/finish"), json!({ "outcomes": [outcome] }))
        };
        let mut finishes = vec![finish(&claimed[0])];
        served.plan.called("turn", before + 1).await;
        finishes.extend(claimed[1..].iter().map(finish));
        // One is being committed, one is the first of the next, and the others gather.
        while served.app.fold.entries.capacity() != GATHERED - 62 {
            tokio::task::yield_now().await;
        }
        served.plan.let_go("turn");
        for finish in finishes {
            let (status, _, told) = finish.await.unwrap();
            assert_eq!((status, &told["outcomes"][0]["state"]), (200, &json!("completed")));
        }
        assert_eq!(served.plan.calls("turn") - before, 2);
    }
}
