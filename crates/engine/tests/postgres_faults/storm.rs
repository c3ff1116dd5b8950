//! Two workers and two submitters of this process, each with a store of their own, while something is done to
//! the database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};
use windlass::{Client, Error, NewTask, NewWorker, Record, RunningWorker, Store, Windlass, WorkerId};
use windlass_store::Result;
use windlass_store::conformance::invariants;

use crate::kill::gates::Gates;
use crate::kill::logged::Logged;
use crate::kill::part::{self, Handlers, Work};
use crate::kill::plan::{Found, Plan};
use crate::kill::process::PATIENCE;
use crate::kill::random::Random;
use crate::kill::stage::Stage;
use crate::kill::{account, chores};

/// How long a worker may be silent. Longer than any fault lasts: no claim may be lost to one.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Tasks that may wait: a submitter that is this far ahead waits for the workers, so that all of them last as
/// long as the run.
const AHEAD: u64 = 200;

/// With every so many tasks a small workflow is started, by both submitters.
const EVERY: u64 = 40;

/// How much is worked off, and how often something happens meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    /// Beside those of workflows.
    pub(crate) tasks: u64,
    pub(crate) faults: u64,
    pub(crate) seed: u64,
}

impl Storm {
    /// The workflows that are started, by the number of the task that they are started with.
    fn flows(&self) -> impl Iterator<Item = (u64, Plan)> {
        let seed = self.seed;
        (0..self.tasks).filter(|n| n.is_multiple_of(EVERY)).map(move |n| (n, Plan::small(seed, n)))
    }

    /// All tasks, those of workflows included.
    fn all_tasks(&self) -> u64 {
        self.tasks + self.flows().map(|(_, plan)| plan.tasks()).sum::<u64>()
    }
}

/// The key of the workflow that is started with task number `n`.
fn key(n: u64) -> String {
    format!("flow {n}")
}

/// What those who work have seen of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Calls that the store could not carry out.
    pub(crate) unavailable: u64,
    /// Calls whose outcome was unknown, by verb.
    pub(crate) unknown: BTreeMap<&'static str, u64>,
}

/// Works off the load at `address`, with `fault` again and again, and checks what `stage` has in its store
/// then.
pub(crate) async fn run(stage: &Stage, address: &str, storm: Storm, mut fault: impl AsyncFnMut()) -> Seen {
    let begun = Instant::now();
    let gates = Gates::new(None);
    let mut machines = Vec::new();
    for who in ["worker-1", "worker-2"] {
        machines.push(machine(stage, address, who, &gates).await);
    }
    let mut others = JoinSet::new();
    let shared = windlass::open(address).await.unwrap();
    for which in 0..2 {
        let journal = stage.journal(&format!("submitter-{which}"));
        let windlass = Logged { journal, gates: gates.clone(), aloud: false }.around(shared.clone());
        others.spawn(hand_in(windlass.client(), storm, which, gates.clone()));
    }
    let journal = stage.journal("heart");
    let heart = Logged { journal, gates: gates.clone(), aloud: false }.around(shared.clone());
    let heart = tokio::spawn(beat(heart.store().clone()));

    // Each fault comes when so many handlers have ended. There are always more to come.
    let mut random = Random::new(storm.seed);
    let mut moments: Vec<u64> = (0..storm.faults).map(|_| random.below(storm.tasks * 9 / 10)).collect();
    moments.sort_unstable();
    for moment in moments {
        let mut ended = gates.ended.subscribe();
        let reached = timeout(PATIENCE, ended.wait_for(|ended| *ended >= moment)).await.is_ok();
        assert!(reached, "nothing goes on after {} of {moment} handlers", *gates.ended.borrow());
        fault().await;
    }
    let stormy = begun.elapsed();
    let left = storm.all_tasks().saturating_sub(insist(|| finals(&stage.client)).await);
    drains(stage, storm, stormy, left).await;
    let drained = begun.elapsed() - stormy;

    while let Some(ended) = others.join_next().await {
        ended.unwrap();
    }
    heart.abort();
    assert!(heart.await.is_err_and(|ended| ended.is_cancelled()), "the heart beat to the end");
    for (windlass, worker) in machines {
        worker.stop().await.unwrap();
        windlass.close().await.unwrap();
    }
    shared.close().await.unwrap();
    let (events, records) = stage.over().await;
    let sums = account::of(&events, &records, storm.tasks);
    account::check_attempts(&events, &records, &BTreeSet::new(), false);
    let flows = check_flows(stage, storm, &records).await;
    println!(
        "{} faults in {stormy:.1?}; the last {left} tasks took {drained:.1?}: {flows} workflows, {sums:?}, {:?}",
        storm.faults,
        gates.troubles.lock().unwrap()
    );
    seen(&gates)
}

/// I8, I10, I11: each workflow is there once and has become what its plan says. Says how many there are.
async fn check_flows(stage: &Stage, storm: Storm, records: &[Record]) -> usize {
    let workflows = invariants::dump_workflows(stage.store()).await;
    workflows.iter().for_each(|workflow| invariants::check_order_of(workflow, records));
    let found = Found::new(records, &workflows);
    let mut expected = 0;
    for (n, plan) in storm.flows() {
        let key = key(n);
        let own = workflows.iter().find(|record| record.workflow.key.as_ref() == Some(&key));
        found.check(own.unwrap_or_else(|| panic!("I1: {key} is not there")).workflow.id, &plan);
        expected += 1;
    }
    assert_eq!(workflows.len(), expected, "I8: each is there once");
    expected
}

/// I17: when faults stop, everything drains within 2 × lease + backlog ÷ throughput. Of the throughput under
/// faults, half will do.
async fn drains(stage: &Stage, storm: Storm, stormy: Duration, left: u64) {
    let all = storm.all_tasks();
    let done = all.saturating_sub(left).max(1);
    let backlog = stormy
        .mul_f64(2.0 * f64::from(u32::try_from(left).unwrap()) / f64::from(u32::try_from(done).unwrap()));
    let within = 2 * DEAD_AFTER + backlog;
    let all_final = async {
        let mut rings = stage.store().watch();
        loop {
            rings.mark_unchanged();
            if insist(|| finals(&stage.client)).await >= all {
                return;
            }
            drop(timeout(Duration::from_millis(100), rings.changed()).await);
        }
    };
    if timeout(within, all_final).await.is_err() {
        let counts = stage.client.stats().await;
        panic!("I17: {left} tasks are not final after {within:.1?}: {counts:#?}");
    }
}

async fn finals(client: &Client) -> Result<u64> {
    let counts = client.stats().await?;
    Ok(counts.iter().filter(|count| count.state.is_final()).map(|count| count.tasks).sum())
}

/// A worker with a store of its own.
async fn machine(stage: &Stage, address: &str, who: &str, gates: &Arc<Gates>) -> (Windlass, RunningWorker) {
    let journal = stage.journal(who);
    let logged = Logged { journal: journal.clone(), gates: gates.clone(), aloud: false };
    let windlass = logged.around(windlass::open(address).await.unwrap());
    let work = Work::new(Handlers::Worker, 12, DEAD_AFTER);
    let worker = part::start(&windlass, who, &work, gates, journal).await;
    (windlass, worker)
}

/// Submits every second task of the load, and every fifth, in batches of all sizes; and starts the workflows.
async fn hand_in(client: Client, storm: Storm, which: u64, gates: Arc<Gates>) {
    let mut random = Random::of(storm.seed, which);
    let mut share = (0..storm.tasks).filter(|n| n % 2 == which || n % 5 == 0).peekable();
    let mut ended = gates.ended.subscribe();
    while let Some(next) = share.peek().copied() {
        drop(ended.wait_for(|ended| next < ended + AHEAD).await.unwrap());
        let many = random.pick(&[1, 1, 3, 10, 30]);
        let numbers: Vec<u64> = share.by_ref().take(many).collect();
        let tasks: Vec<NewTask> = numbers.iter().map(|n| chores::planned(&client, storm.seed, *n)).collect();
        submit(&client, tasks).await;
        for n in numbers.into_iter().filter(|n| n.is_multiple_of(EVERY)) {
            let definition = Plan::small(storm.seed, n).definition();
            // Its key makes that safe to repeat: whoever comes second is told of the first.
            insist(|| client.start_ad_hoc(definition.clone()).key(key(n)).into_future()).await;
        }
    }
}

/// Submits a batch until it is there.
async fn submit(client: &Client, tasks: Vec<NewTask>) {
    loop {
        match client.submit_all(tasks.clone()).await {
            Ok(submitted) => {
                assert_eq!(submitted.len(), tasks.len());
                return;
            }
            // Nothing was changed.
            Err(Error::Unavailable(_)) => {}
            // It is there as a whole or not at all; one whose key is another's says nothing.
            Err(Error::Unknown(_)) => {
                for task in &tasks {
                    if insist(|| client.get(task.id)).await.is_some() {
                        return;
                    }
                }
            }
            Err(error) => panic!("{error}"),
        }
        rest().await;
    }
}

/// Repeats what may be done twice until it is answered.
async fn insist<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
    let repeat = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(Error::Unavailable(_) | Error::Unknown(_)) => rest().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, repeat).await.expect("the store answers at last")
}

async fn rest() {
    // tidy: sleep because a store that is away does not say when it is back
    sleep(Duration::from_millis(20)).await;
}

/// Heartbeats, as many as those of a hundred idle workers, so that faults hit some. Nobody may forget who
/// sends them.
async fn beat(store: Arc<dyn Store>) {
    let worker = WorkerId::new("heart").unwrap();
    let new = NewWorker { dead_after: 6 * DEAD_AFTER, ..NewWorker::new(worker.clone()) };
    insist(|| store.register(new.clone())).await;
    let mut pulse = interval(Duration::from_millis(10));
    loop {
        pulse.tick().await;
        match store.heartbeat(worker.clone(), Vec::new()).await {
            Ok(_) | Err(Error::Unavailable(_) | Error::Unknown(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn seen(gates: &Gates) -> Seen {
    let mut seen = Seen::default();
    for ((verb, code), times) in &*gates.troubles.lock().unwrap() {
        match *code {
            "unavailable" => seen.unavailable += times,
            _ => *seen.unknown.entry(verb).or_default() += times,
        }
    }
    seen
}
