//! The tasks of these tests, and their handlers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Backoff, Client, Context, Input, Jitter, Lease, NewTask, RetryPolicy, TaskError, TaskId, WorkerBuilder,
};

use super::gates::{Gates, say};
use super::links;
use super::random::Random;

/// A task of the load. What it does at random is decided by its id and the number of its claim.
#[derive(Serialize, Deserialize)]
pub(crate) struct Chore {
    pub(crate) n: u64,
    /// How long it takes.
    pub(crate) millis: u64,
    /// How many of a hundred attempts fail.
    pub(crate) fails: u64,
    /// How many of a hundred attempts come back later.
    pub(crate) snoozes: u64,
}

impl Input for Chore {
    const KIND: &'static str = "chore";
}

/// Its handler has done all and the worker knows, but the store is not told until the gate of the task's name
/// is open: the pause that makes a zombie.
#[derive(Serialize, Deserialize)]
pub(crate) struct Late;

impl Input for Late {
    const KIND: &'static str = "late";
}

/// Its handler works until it is told to stop, and says why it was.
#[derive(Serialize, Deserialize)]
pub(crate) struct Endless;

impl Input for Endless {
    const KIND: &'static str = "endless";
}

/// Its handler works until the gate `task lease` is open, and does not listen.
#[derive(Serialize, Deserialize)]
pub(crate) struct Deaf;

impl Input for Deaf {
    const KIND: &'static str = "deaf";
}

/// What only a worker that is there to lead has a handler for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Nothing;

impl Input for Nothing {
    const KIND: &'static str = "nothing";
}

/// What every handler returns: whose result it is.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) worker: String,
    pub(crate) lease: Lease,
}

impl Done {
    pub(crate) fn by(context: &Context) -> Self {
        Self { worker: context.worker().as_str().into(), lease: context.lease() }
    }
}

/// The key of the load's task number `n`.
pub(crate) fn key(n: u64) -> String {
    format!("chore {n}")
}

/// The load's task number `n`: a hundred entities, handlers that fail and snooze at random, some with few
/// attempts, some delayed.
pub(crate) fn planned(client: &Client, seed: u64, n: u64) -> NewTask {
    let mut random = Random::of(seed, n);
    let millis = if random.chance(40) { 1 + random.below(8) } else { 0 };
    let (mut fails, mut snoozes, mut max_attempts) = (0, 0, 0);
    match random.below(20) {
        0 | 1 => (fails, max_attempts) = (20, 1 + random.below(3)),
        2..=4 => fails = 30,
        5 => snoozes = 20,
        _ => {}
    }
    let retry = RetryPolicy {
        backoff: Backoff::Fixed,
        base: Duration::from_millis(10),
        cap: Duration::from_secs(1),
        jitter: Jitter::Full,
    };
    let chore = Chore { n, millis, fails, snoozes };
    let mut task = client.submit(&chore).key(key(n)).retry(retry);
    task = task.max_attempts(u32::try_from(max_attempts).ok().filter(|most| *most > 0));
    if random.chance(40) {
        task = task.entity(&format!("planner:{}", random.below(100)));
    }
    if random.chance(5) {
        task = task.delay(Duration::from_millis(random.below(200)));
    }
    if random.chance(10) {
        task = task.priority(random.pick(&[-2, -1, 1, 2]));
    }
    task.build().unwrap()
}

/// Chance that is the same wherever and whenever a claim is run.
fn roll(task: TaskId, lease: Lease) -> u64 {
    let number = task.to_string().bytes().fold(0_u64, |sum, byte| sum.rotate_left(7) ^ u64::from(byte));
    Random::of(number, u64::from(lease)).below(100)
}

async fn chore(context: Context, chore: Chore) -> Result<Done, TaskError> {
    if chore.millis > 0 {
        // tidy: sleep because a handler that takes a while is what is killed in the middle
        tokio::time::sleep(Duration::from_millis(chore.millis)).await;
    }
    match roll(context.id(), context.lease()) {
        roll if roll < chore.fails => Err(TaskError::retry("at random")),
        roll if roll < chore.fails + chore.snoozes => Err(TaskError::snooze(Duration::from_millis(10))),
        _ => Ok(Done::by(&context)),
    }
}

/// Handlers of a worker that will be stopped: they take care to be in the middle of something.
pub(crate) fn of_a_zombie(worker: WorkerBuilder) -> WorkerBuilder {
    let late = async |context: Context, _: Late| {
        context.shared::<Arc<Gates>>()?.hold_back(context.id());
        Ok(Done::by(&context))
    };
    let endless = async |context: Context, _: Endless| {
        say(&format!("running {}", context.id()));
        let reason = context.stopped().await;
        say(&format!("stopped {} {} {reason:?}", context.id(), context.lease()));
        Ok(Done::by(&context))
    };
    worker.handle(chore).handle(deaf).handle(late).handle(endless)
}

/// Handlers of a worker that just works.
pub(crate) fn of_a_worker(worker: WorkerBuilder) -> WorkerBuilder {
    let late = async |context: Context, _: Late| Ok(Done::by(&context));
    let endless = async |context: Context, _: Endless| Ok(Done::by(&context));
    links::of(worker.handle(chore).handle(deaf).handle(late).handle(endless))
}

/// Handlers of a worker that only leads.
pub(crate) fn of_a_leader(worker: WorkerBuilder) -> WorkerBuilder {
    worker.handle(async |context: Context, _: Nothing| Ok(Done::by(&context)))
}

async fn deaf(context: Context, _: Deaf) -> Result<Done, TaskError> {
    let gate = format!("{} {}", context.id(), context.lease());
    say(&format!("running {gate}"));
    context.shared::<Arc<Gates>>()?.pass(&gate).await;
    say(&format!("passed {gate}"));
    Ok(Done::by(&context))
}
