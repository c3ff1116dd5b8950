//! The full cycle through the store, as a worker would drive it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use uuid::Uuid;
use windlass_core::{Command, Json, Name, NewTask, NewWorker, Outcome, TaskId, Token, WorkerId};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{Claim, Claimed, Store};

use crate::Case;

/// The payload and result of every task here.
pub(crate) const PAYLOAD: &str = r#"{"to":"ada@example.org","subject":"hello","attempt":1}"#;
pub(crate) const RESULT: &str = r#"{"sent":true}"#;

/// Submits, claims and finishes `case.tasks` tasks in batches; tasks per second.
pub(crate) async fn cycle(file: &Path, case: Case) -> Result<f64> {
    let store = open(file, case.durability)?;
    let worker = register(&*store, "bench").await?;
    let start = Instant::now();
    for _ in 0..case.tasks / case.batch {
        turn_over(&*store, &worker, case.batch).await?;
    }
    let seconds = start.elapsed().as_secs_f64();
    store.close().await?;
    Ok(case.tasks as f64 / seconds)
}

/// `callers` at once, each with one task at a time; tasks per second.
pub(crate) async fn callers(
    file: &Path,
    durability: Durability,
    callers: usize,
    tasks: usize,
) -> Result<f64> {
    let store = open(file, durability)?;
    let each = tasks / callers;
    let mut workers = Vec::new();
    for n in 0..callers {
        workers.push(register(&*store, &format!("bench-{n}")).await?);
    }
    let start = Instant::now();
    let mut running = Vec::new();
    for worker in workers {
        let store = store.clone();
        running.push(tokio::spawn(async move {
            for _ in 0..each {
                turn_over(&*store, &worker, 1).await?;
            }
            anyhow::Ok(())
        }));
    }
    for caller in running {
        caller.await??;
    }
    let seconds = start.elapsed().as_secs_f64();
    store.close().await?;
    Ok((each * callers) as f64 / seconds)
}

fn open(file: &Path, durability: Durability) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Options::new(file).durability(durability).open()?))
}

pub(crate) async fn register(store: &dyn Store, name: &str) -> Result<WorkerId> {
    let worker = WorkerId::new(format!("{name}-{}", Uuid::now_v7().simple()))?;
    // It sends no heartbeats, so it must not need them.
    let dead_after = Duration::from_secs(24 * 3600);
    store.register(NewWorker { dead_after, ..NewWorker::new(worker.clone()) }).await?;
    Ok(worker)
}

/// One batch from submit to finish: three transactions.
async fn turn_over(store: &dyn Store, worker: &WorkerId, batch: usize) -> Result<()> {
    let kind = Name::kind("bench:noop")?;
    let mut tasks = Vec::with_capacity(batch);
    for _ in 0..batch {
        tasks.push(NewTask::new(TaskId::new(Uuid::now_v7()), kind.clone(), Json::payload(PAYLOAD)?));
    }
    store.submit(tasks).await?;
    let claim = Claim {
        worker: worker.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![kind.clone()],
        limit: batch,
    };
    let claimed = store.claim(claim).await?;
    let mut finishes = Vec::with_capacity(claimed.len());
    for Claimed { task, .. } in &claimed {
        let token = Token { task: task.id, lease: task.status.lease, worker: worker.clone() };
        let outcome = Outcome::Completed { result: Json::result(RESULT)? };
        finishes.push(Command::Finish { token, outcome, started_at: None });
    }
    for receipt in store.apply(finishes).await? {
        receipt.context("a finish was refused")?;
    }
    Ok(())
}
