//! Submits and starts of callers to whom not everything is open: an idempotency key may belong to something
//! that they must not see.
//!
//! What has a key is answered with what is there, so a plain submit would tell a caller about a task of
//! others and leave it believing that its own was accepted. To look first is not enough: another may take the
//! key meanwhile, and a batch is in the store as a whole when its answer comes. So keys are looked up, what
//! is found open is answered from there, and the rest is submitted such that a key which exists by then is
//! refused, with the whole batch; then everything is looked up again.

use std::collections::HashMap;

use windlass_core::{NewTask, NewWorkflow, OnConflict, Rejected, Source, TaskId, WorkflowId};

use super::Store;
use super::access::IsOpen;
use crate::error::{Error, Result};
use crate::request::{Submitted, check_batch, in_batch};
use crate::workflow::Started;

/// How often the keys are looked up, if others take them meanwhile.
const ATTEMPTS: usize = 5;

/// What an attempt has come to.
enum Attempt<T> {
    Done(T),
    /// A key was taken after it had been looked up. Nothing was changed.
    Overtaken,
}

fn busy() -> Error {
    Error::Unavailable("others submit with the same keys just now; nothing was changed, try again".into())
}

/// Submits `tasks`; a key of a task that is not open to the caller is [`Rejected::KeyTaken`], and nothing is
/// submitted.
pub(super) async fn submit(
    tasks: Vec<NewTask>,
    store: &dyn Store,
    is_open: &IsOpen<'_>,
) -> Result<Vec<Submitted>> {
    if tasks.iter().all(|task| task.key.is_none()) {
        return store.submit(tasks).await;
    }
    check_batch(&tasks)?;
    for _ in 0..ATTEMPTS {
        if let Attempt::Done(submitted) = try_submit(&tasks, store, is_open).await? {
            return Ok(submitted);
        }
    }
    Err(busy())
}

async fn try_submit(
    tasks: &[NewTask],
    store: &dyn Store,
    is_open: &IsOpen<'_>,
) -> Result<Attempt<Vec<Submitted>>> {
    let mut answers: Vec<Option<Submitted>> = vec![None; tasks.len()];
    // What is submitted, with its place in the batch; and what has the key of another before it in the batch.
    let (mut sent, mut places, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut firsts = HashMap::new();
    for (place, task) in tasks.iter().enumerate() {
        let returns = task.on_conflict == OnConflict::Return;
        if let Some(key) = &task.key {
            let sort = (&task.namespace, &task.kind, key);
            if let (Some(first), true) = (firsts.get(&sort), returns) {
                repeated.push((place, *first));
                continue;
            }
            if let Some((found, is_open)) = find_task(task, key, store, is_open).await? {
                if !is_open {
                    let taken = Rejected::KeyTaken { key: key.clone() };
                    return Err(in_batch(tasks.len(), place, taken));
                }
                if returns {
                    answers[place] = Some(found);
                    continue;
                }
            }
            firsts.entry(sort).or_insert(place);
        }
        sent.push(NewTask { on_conflict: OnConflict::Reject, ..task.clone() });
        places.push(place);
    }
    let submitted = match sent.is_empty() {
        true => Vec::new(),
        false => match store.submit(sent).await {
            Ok(submitted) => submitted,
            Err(error) => return explain_submit(error, tasks, &places, store, is_open).await,
        },
    };
    for (place, one) in places.into_iter().zip(submitted) {
        answers[place] = Some(one);
    }
    for (place, first) in repeated {
        answers[place] = answers[first].map(|first| Submitted { created: false, ..first });
    }
    let answers = answers.into_iter().collect::<Option<Vec<_>>>();
    answers.map(Attempt::Done).ok_or_else(|| Error::Unusable("a submit was not answered whole".into()))
}

/// What a refused submit means for the whole batch.
async fn explain_submit(
    error: Error,
    tasks: &[NewTask],
    places: &[usize],
    store: &dyn Store,
    is_open: &IsOpen<'_>,
) -> Result<Attempt<Vec<Submitted>>> {
    let (index, rejected) = match error {
        Error::Rejected(rejected) if places.len() == 1 => (0, rejected),
        Error::InBatch { index, rejected } => (index, rejected),
        error => return Err(error),
    };
    let place = places.get(index).copied().unwrap_or(index);
    let refuse = |rejected| Err(in_batch(tasks.len(), place, rejected));
    let (Rejected::KeyConflict { key, .. }, Some(task)) = (&rejected, tasks.get(place)) else {
        return refuse(rejected);
    };
    if task.on_conflict == OnConflict::Return {
        return Ok(Attempt::Overtaken);
    }
    match find_task(task, key, store, is_open).await? {
        Some((_, false)) => refuse(Rejected::KeyTaken { key: key.clone() }),
        _ => refuse(rejected),
    }
}

/// The task that has the key of another, and whether it is open to the caller.
async fn find_task(
    task: &NewTask,
    key: &str,
    store: &dyn Store,
    is_open: &IsOpen<'_>,
) -> Result<Option<(Submitted, bool)>> {
    let found: Option<TaskId> = store.find(task.namespace.clone(), task.kind.clone(), key.into()).await?;
    let Some(id) = found else { return Ok(None) };
    Ok(store.facts(id).await?.map(|facts| {
        let task = facts.task;
        let is_open = is_open(&task.spec.namespace, std::slice::from_ref(&task.spec.queue));
        (Submitted { id, state: task.status.state, created: false }, is_open)
    }))
}

/// Starts `workflow`; a key of a workflow that is not open to the caller is [`Rejected::WorkflowKeyTaken`].
pub(super) async fn start(workflow: NewWorkflow, store: &dyn Store, is_open: &IsOpen<'_>) -> Result<Started> {
    let Some(key) = workflow.key.clone() else { return store.start(workflow).await };
    workflow.check()?;
    let returns = workflow.on_conflict == OnConflict::Return;
    for _ in 0..ATTEMPTS {
        if let Some((found, is_open)) = find_workflow(&workflow, &key, store, is_open).await? {
            if !is_open {
                return Err(Rejected::WorkflowKeyTaken { key }.into());
            }
            if returns {
                return Ok(found);
            }
        }
        let sent = NewWorkflow { on_conflict: OnConflict::Reject, ..workflow.clone() };
        match store.start(sent).await {
            // Looked up again, whether that is an answer or a refusal.
            Err(Error::Rejected(Rejected::WorkflowKeyConflict { .. })) if returns => {}
            Err(Error::Rejected(conflict @ Rejected::WorkflowKeyConflict { .. })) => {
                let found = find_workflow(&workflow, &key, store, is_open).await?;
                let is_closed = matches!(found, Some((_, false)));
                return Err(if is_closed { Rejected::WorkflowKeyTaken { key } } else { conflict }.into());
            }
            answer => return answer,
        }
    }
    Err(busy())
}

/// The workflow that has the key of another, and whether it is open to the caller.
async fn find_workflow(
    workflow: &NewWorkflow,
    key: &str,
    store: &dyn Store,
    is_open: &IsOpen<'_>,
) -> Result<Option<(Started, bool)>> {
    let name = match &workflow.source {
        Source::Named { name, .. } => name,
        Source::AdHoc(definition) => &definition.name,
    };
    let found: Option<WorkflowId> =
        store.find_workflow(workflow.namespace.clone(), name.clone(), key.into()).await?;
    let Some(id) = found else { return Ok(None) };
    Ok(store.workflow(id).await?.map(|record| {
        let queues: Vec<_> = record.blueprint.definition().queues().collect();
        let found = &record.workflow;
        let is_open = is_open(&found.namespace, &queues);
        (Started { id, state: found.state, created: false }, is_open)
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use async_trait::async_trait;
    use windlass_core::{Json, Name};

    use super::*;
    use crate::verbs::{Reads, Wrap, Writes};
    use crate::wrap::Wrapped;
    use crate::{MemoryStore, Page};

    fn name(text: &str) -> Name {
        Name::stored(text)
    }

    fn task(n: u8, queue: &str, key: Option<&str>) -> NewTask {
        let id = TaskId::from_bytes([n; 16]);
        let key = key.map(str::to_owned);
        NewTask { queue: name(queue), key, ..NewTask::new(id, name("x"), Json::default()) }
    }

    /// Another submits a task, each time just before a submit arrives, so often.
    #[derive(Clone, Debug)]
    struct Rival {
        store: Arc<MemoryStore>,
        tasks: Vec<NewTask>,
        calls: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Wrap for Rival {
        async fn call<T: Send>(
            &self,
            verb: &'static str,
            call: impl Future<Output = Result<T>> + Send,
        ) -> Result<T> {
            if verb == "submit"
                && let Some(task) = self.tasks.get(self.calls.fetch_add(1, Relaxed))
            {
                self.store.submit(vec![task.clone()]).await?;
            }
            call.await
        }
    }

    /// What a caller that sees the queue `mine` is answered, and how many tasks there are then.
    async fn race(rivals: Vec<NewTask>, tasks: Vec<NewTask>) -> (Result<Vec<Submitted>>, usize) {
        let memory = Arc::new(MemoryStore::default());
        let rival = Rival { store: memory.clone(), tasks: rivals, calls: Arc::default() };
        let store = Wrapped::new(memory.clone(), rival);
        let is_open = |_: &Name, queues: &[Name]| queues.iter().all(|queue| &**queue == "mine");
        let answer = submit(tasks, &store, &is_open).await;
        (answer, memory.tasks(crate::Filter::default(), Page::default()).await.unwrap().tasks.len())
    }

    #[tokio::test]
    async fn a_key_that_is_taken_after_the_look_changes_nothing() {
        let batch = vec![task(1, "mine", None), task(2, "mine", Some("k"))];
        let (answer, count) = race(vec![task(9, "theirs", Some("k"))], batch.clone()).await;
        let taken = Error::InBatch { index: 1, rejected: Rejected::KeyTaken { key: "k".into() } };
        assert_eq!((answer, count), (Err(taken), 1));
        let reject = NewTask { on_conflict: OnConflict::Reject, ..task(2, "mine", Some("k")) };
        let (answer, count) = race(vec![task(9, "theirs", Some("k"))], vec![reject]).await;
        assert_eq!((answer, count), (Err(Rejected::KeyTaken { key: "k".into() }.into()), 1));
        // One that is open is the answer.
        let (answer, count) = race(vec![task(9, "mine", Some("k"))], batch).await;
        let answer: Vec<_> = answer.unwrap().iter().map(|one| (one.id, one.created)).collect();
        let [first, rival] = [1, 9].map(|n| TaskId::from_bytes([n; 16]));
        assert_eq!((answer, count), (vec![(first, true), (rival, false)], 2));
    }

    #[tokio::test]
    async fn keys_that_are_taken_again_and_again_end_it() {
        let keys = ["a", "b", "c", "d", "e"];
        let batch: Vec<_> = (1..).zip(keys).map(|(n, key)| task(n, "mine", Some(key))).collect();
        let rivals: Vec<_> = (10..).zip(keys).map(|(n, key)| task(n, "mine", Some(key))).collect();
        let (answer, count) = race(rivals, batch).await;
        assert_eq!((answer.map(|_| ()), count), (Err(busy()), 5));
    }
}
