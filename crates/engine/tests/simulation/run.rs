//! One run: one seed, one world, one trace.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::time::Instant;
use windlass::{By, Client, Filter, Page, State, Task};

use super::book::{Tally, short};
use super::chaos::{Chaos, Climate};
use super::judge::judge;
use super::line::pass;
use super::load::{QUEUES, client, operate, submit};
use super::mutant::Mutant;
use super::process::{Power, Process};
use super::random::Random;
use super::weather::{GHOST, Weather};
use super::work::{Act, Script};
use super::world::World;

/// What came of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// One line for everything that happened.
    pub(crate) trace: String,
    /// What was counted.
    pub(crate) tally: Tally,
    /// What was found wrong.
    pub(crate) wrong: Vec<String>,
}

/// How long it may take until there is a leader, what dead workers hold is free, and what waits for a moment
/// is claimable: two leases and the longest delay (I17). What there is to do comes on top.
const LEASES: Duration = Duration::from_secs(2 * 30 + 20);

/// How long after that until every handler that was to stop has stopped: a heartbeat and its patience.
const SETTLE: Duration = Duration::from_secs(20);

/// Runs `seed`.
pub(crate) fn run(seed: u64, mutant: Mutant) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut random = Random::new(seed);
    let world = {
        let _guard = runtime.enter();
        World::new(seed, mutant, &mut random)
    };
    let rounds = Rounds { world: world.clone(), missed: AtomicU64::new(0) };
    let lived = metrics::with_local_recorder(&rounds, || {
        std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(live(world.clone(), random))))
    });
    if let Err(panic) = lived {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        world.wrong(text);
    }
    world.close();
    drop(runtime);
    let missed = rounds.missed.load(Ordering::SeqCst);
    let mut book = world.book();
    book.tally.add("wake-ups missed", missed);
    // What is due and not promoted, because nobody leads, is found by a poll: there was no signal to miss.
    let troubles = [
        "refused calls",
        "slow answers",
        "lost answers",
        "late calls",
        "ghosts",
        "deaf spells",
        "freezes",
        "claims of what nobody promoted",
    ];
    if missed > 0 && troubles.iter().all(|trouble| book.tally.of(trouble) == 0) {
        book.wrong.push(format!("{missed} wake-ups were missed, though every signal was heard"));
    }
    Outcome {
        trace: std::mem::take(&mut book.trace),
        tally: std::mem::take(&mut book.tally),
        wrong: std::mem::take(&mut book.wrong),
    }
}

async fn live(world: Arc<World>, mut random: Random) {
    let climate = Climate::new(&mut random);
    let end = Instant::now() + random.seconds(20, 90);
    let mut program = |name: &str| {
        let weather = climate.weather(&mut random);
        let process = world.join(Process::new(name.into(), 0, Duration::ZERO, weather));
        (process, random.fork(), random.between(5, 30))
    };
    let mut programs = Vec::new();
    for name in ["web-1", "web-2"] {
        let (process, random, tasks) = program(name);
        programs.push(tokio::spawn(submit(world.clone(), process, random, tasks, end)));
    }
    let (process, operator, _) = program("operator");
    programs.push(tokio::spawn(operate(world.clone(), process, operator, end)));
    let mut chaos = Chaos::new(world.clone(), random.fork(), climate);
    chaos.reign(end).await;
    chaos.end().await;
    for program in programs {
        if let Err(error) = program.await {
            world.wrong(format!("a program failed: {error}"));
        }
    }
    // What was on its way, and nobody waited for, has arrived.
    pass(GHOST).await;
    let weather = Weather::new(random.fork(), 0);
    let root = world.join(Process::new("root".into(), 0, Duration::ZERO, weather));
    let root = client(&world, &root);
    drain(&world, &root, &mut random).await;
    pass(SETTLE).await;
    rest(&world).await;
    chaos.stop_all().await;
    let waiters = std::mem::take(&mut *world.waiters.lock().unwrap());
    for waiter in waiters {
        world.count("waits");
        // One that met a failure, or whose task was deleted, has ended with an error.
        if tokio::time::timeout(Duration::from_secs(6), waiter).await.is_err() {
            world.wrong("a program still waits for a task that is over");
        }
    }
    let (terms, changes) = world.mirror().elections();
    world.book().tally.add("terms", terms);
    world.book().tally.add("take-overs", changes);
    judge(&world).await;
}

/// Lets everything end that can.
async fn drain(world: &Arc<World>, root: &Client, random: &mut Random) {
    let begun = Instant::now();
    for queue in QUEUES {
        root.pause(queue, false).await.unwrap();
    }
    root.remove_schedule("tick").await.unwrap();
    let open: Vec<_> = State::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let mut most = None;
    loop {
        let filter = Filter { states: open.clone(), ..Filter::default() };
        let left = world.store.tasks(filter, Page { limit: 1000, ..Page::default() }).await.unwrap().tasks;
        if left.is_empty() {
            break;
        }
        let most = match most {
            Some(most) => most,
            None => *most.insert(LEASES + backlog(world, &left).await),
        };
        if begun.elapsed() > most {
            for task in left {
                let why = world.store.explain(task.id).await.unwrap();
                let (state, worker) = (task.status.state, &task.status.worker);
                world.wrong(format!("I17: {} is {state} with {worker:?}: {why:?}", short(task.id)));
            }
            break;
        }
        for task in left.iter().filter(|task| task.status.state == State::Running && task.status.lease == 1) {
            let Some(record) = world.store.task(task.id).await.unwrap() else { continue };
            // Nobody else will ever end these.
            if Script::from_json(&record.payload).act == Act::Endless {
                let by = By::default();
                drop(match random.between(0, 2) {
                    0 => root.cancel(task.id, by).await,
                    1 => root.retry(task.id, false, by).await,
                    _ => root.resolve(task.id, None, by).await,
                });
            }
        }
        pass(Duration::from_secs(1)).await;
    }
    world.book().tally.most("most seconds to drain", begun.elapsed().as_secs());
}

/// How long it takes at most to do all that is left, one after another.
async fn backlog(world: &World, left: &[Task]) -> Duration {
    let mut backlog = Duration::ZERO;
    for task in left {
        if let Some(record) = world.store.task(task.id).await.unwrap() {
            backlog += Script::from_json(&record.payload).longest(&task.spec);
        }
    }
    backlog
}

/// At rest nobody runs anything, holds anything, or is busy.
async fn rest(world: &Arc<World>) {
    let alive: Vec<_> =
        world.processes().into_iter().filter(|process| process.power() == Power::On).collect();
    for process in alive {
        if process.running() > 0 {
            world.wrong(format!("{} still runs {} handlers at rest", process.name, process.running()));
        }
    }
    let before = world.book().tally.of("calls");
    pass(SETTLE).await;
    let calls = world.book().tally.of("calls") - before;
    world.book().tally.most("most calls in 20 s of rest", calls);
}

/// Counts the rounds of the workers' loops, which set a gauge each time, so that one that goes round without
/// getting further is found even if it asks nothing of the store.
struct Rounds {
    world: Arc<World>,
    missed: AtomicU64,
}

impl Recorder for Rounds {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "windlass_missed_wakeups_total" {
            self.missed.fetch_add(1, Ordering::SeqCst);
            self.world.trace("somebody", "has missed a wake-up");
        }
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let bearable = key.name() != "windlass_worker_pool_active"
            || self.world.is_over()
            || self.world.is_bearable("a worker's loop", "it wakes at once, again and again");
        assert!(bearable, "seed {}: a worker's loop goes round in circles", self.world.seed);
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
