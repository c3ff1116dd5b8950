//! The same through the store, as workers would drive it: finish the last batch and claim the next in one
//! turn.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use uuid::Uuid;
use windlass_core::{Command, Json, Name, NewTask, Outcome, TaskId, Token, WorkerId};
use windlass_store::postgres::PostgresStore;
use windlass_store::{Claim, Claimed, Store, Turn};

use super::{BATCH, CONNECTIONS, Figures, SUBMITTED};
use crate::through_store::{PAYLOAD, RESULT, register};

/// Submits, then claims and finishes `tasks`, by [`CONNECTIONS`] callers.
pub(crate) async fn measure(store: PostgresStore, tasks: usize) -> Result<Figures> {
    let store: Arc<dyn Store> = Arc::new(store);
    let start = Instant::now();
    submit_by_all(&store, tasks).await?;
    let submitted = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let done = drain_by_all(&store).await?;
    ensure!(done == tasks, "{done} of {tasks} were done");
    let figures = Figures::new(tasks, submitted, start.elapsed().as_secs_f64());
    store.close().await?;
    Ok(figures)
}

/// Only submits.
pub(crate) async fn submit_all(store: PostgresStore, tasks: usize) -> Result<()> {
    let store: Arc<dyn Store> = Arc::new(store);
    submit_by_all(&store, tasks).await?;
    Ok(store.close().await?)
}

/// Only claims and finishes; says how many.
pub(crate) async fn drain_all(store: PostgresStore) -> Result<usize> {
    let store: Arc<dyn Store> = Arc::new(store);
    let done = drain_by_all(&store).await?;
    store.close().await?;
    Ok(done)
}

async fn submit_by_all(store: &Arc<dyn Store>, tasks: usize) -> Result<()> {
    let mut submitters = Vec::new();
    for _ in 0..CONNECTIONS {
        let store = store.clone();
        submitters.push(tokio::spawn(async move { submit(&*store, tasks / CONNECTIONS).await }));
    }
    for submitter in submitters {
        submitter.await??;
    }
    Ok(())
}

async fn drain_by_all(store: &Arc<dyn Store>) -> Result<usize> {
    let mut workers = Vec::new();
    for n in 0..CONNECTIONS {
        let store = store.clone();
        let worker = register(&*store, &format!("store-{n}")).await?;
        workers.push(tokio::spawn(async move { drain(&*store, &worker).await }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    Ok(done)
}

async fn submit(store: &dyn Store, tasks: usize) -> Result<()> {
    let kind = Name::kind("bench:noop")?;
    for _ in 0..tasks / SUBMITTED {
        let mut batch = Vec::with_capacity(SUBMITTED);
        for _ in 0..SUBMITTED {
            batch.push(NewTask::new(TaskId::new(Uuid::now_v7()), kind.clone(), Json::payload(PAYLOAD)?));
        }
        store.submit(batch).await?;
    }
    Ok(())
}

async fn drain(store: &dyn Store, worker: &WorkerId) -> Result<usize> {
    let (mut held, mut done): (Vec<Claimed>, usize) = (Vec::new(), 0);
    loop {
        let claim = Claim {
            worker: worker.clone(),
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: vec![Name::kind("bench:noop")?],
            limit: BATCH,
        };
        let mut commands = Vec::with_capacity(held.len());
        for Claimed { task, .. } in &held {
            let token = Token { task: task.id, lease: task.status.lease, worker: worker.clone() };
            let outcome = Outcome::Completed { result: Json::result(RESULT)? };
            commands.push(Command::Finish { token, outcome, started_at: None });
        }
        let turned = store.turn(Turn { commands, claim: Some(claim), term: None }).await?;
        for receipt in turned.receipts {
            receipt.context("a finish was refused")?;
            done += 1;
        }
        held = turned.claimed?;
        if held.is_empty() {
            return Ok(done);
        }
    }
}
