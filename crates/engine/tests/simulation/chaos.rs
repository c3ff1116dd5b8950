//! What befalls the processes of a run: they are started, stopped, killed, frozen, cut off; the clock jumps.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::{Retention, State, Windlass};

use super::line::{Line, pass};
use super::load::QUEUES;
use super::process::{Power, Process};
use super::random::Random;
use super::weather::{LONGEST, Sort, Spell, Weather};
use super::work::{KINDS, perform};
use super::world::World;

/// What can go wrong in a run, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Climate {
    /// Calls of a thousand that something happens to.
    per_mille: u64,
    /// What may befall a process, with weights.
    blows: Vec<(u64, Blow)>,
    /// How many blows there are.
    count: u64,
    /// Whether the clock may go back.
    backward: bool,
}

/// Something that befalls a process, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blow {
    Kill,
    Stop,
    Freeze,
    Cut,
    Spell,
    Jump,
    Start,
    Forget,
}

impl Climate {
    /// The climate of a run. Now and then it is fine, or one thing only goes wrong, so that the stricter
    /// rules have something to look at.
    pub(crate) fn new(random: &mut Random) -> Self {
        let all =
            [(25, Blow::Kill), (15, Blow::Stop), (15, Blow::Freeze), (15, Blow::Cut), (15, Blow::Spell)];
        let mut blows = all.to_vec();
        blows.extend([(10, Blow::Jump), (5, Blow::Start), (5, Blow::Forget)]);
        let (per_mille, blows, count) = match random.weighted(&[(10, 0), (15, 1), (75, 2)]) {
            0 => (0, vec![(1, Blow::Stop)], 1),
            1 => (0, vec![(60, Blow::Kill), (40, Blow::Stop)], 5),
            _ => (random.pick(&[0, 5, 30, 100]), blows, 8),
        };
        Self { per_mille, blows, count: random.between(1, count), backward: random.chance(10) }
    }

    /// The weather of a new process.
    pub(crate) fn weather(&self, random: &mut Random) -> Weather {
        Weather::new(random.fork(), self.per_mille)
    }
}

/// Starts workers and lets things happen to them.
#[derive(Debug)]
pub(crate) struct Chaos {
    world: Arc<World>,
    random: Random,
    climate: Climate,
    started: u64,
    /// Workers that run, as far as they know.
    crew: Vec<Arc<Process>>,
    /// Workers that are on their way out.
    leaving: Vec<tokio::task::JoinHandle<()>>,
}

impl Chaos {
    /// Nothing has happened yet.
    pub(crate) fn new(world: Arc<World>, random: Random, climate: Climate) -> Self {
        Self { world, random, climate, started: 0, crew: Vec::new(), leaving: Vec::new() }
    }

    /// Starts a worker; one with all kinds and queues if it is a `full` one. Says whether it did start.
    async fn start(&mut self, full: bool) -> bool {
        let (world, random) = (self.world.clone(), &mut self.random);
        self.started += 1;
        let (name, pool) = (format!("worker-{}", self.started), random.between(1, 8));
        let pool = usize::try_from(pool).unwrap();
        let weather = self.climate.weather(random);
        let grace = random.pick(&[Duration::ZERO, Duration::from_secs(3), Duration::from_secs(30)]);
        let patience = random.pick(&[Duration::from_millis(100), Duration::from_secs(5)]);
        let process = world.join(Process::new(name, pool, grace + patience, weather));
        if full {
            process.weather().calm_down();
        }
        let kinds = if full || random.chance(70) { &KINDS[..] } else { &KINDS[..2] };
        let queues = if full || random.chance(80) { &QUEUES[..] } else { &QUEUES[..1] };
        let ids = world.clone();
        let mut worker = Windlass::new(Arc::new(Line::new(&world, &process))).worker();
        for kind in kinds {
            let (world, process) = (world.clone(), process.clone());
            worker =
                worker.handle_kind(kind, move |context| perform(world.clone(), process.clone(), context));
        }
        if random.chance(20) {
            // Who looks whether a submit was done must not be misled: what it looks for stays longer than any
            // call takes.
            let age = LONGEST + random.seconds(1, 30);
            worker = worker.retention(Retention::default().keep(State::Completed, age).unwrap());
        }
        let worker = worker
            .id(process.worker_id())
            .queues(queues.iter().copied())
            .pool(pool)
            .buffer(usize::try_from(random.weighted(&[(50, 256), (50, 2)])).unwrap())
            .grace(grace)
            .patience(patience)
            .dead_after(random.pick(&[Duration::from_secs(12), Duration::from_secs(30)]))
            .poll(random.pick(&[Duration::from_secs(5), Duration::from_secs(30)]))
            .leads(full || random.chance(90))
            .simulated(move || ids.new_id());
        world.count("workers started");
        match worker.start().await {
            Ok(running) => {
                *process.worker.lock().unwrap() = Some(Arc::new(running));
                self.crew.push(process);
                true
            }
            Err(error) => {
                world.trace(&process.name, &format!("does not start: {error}"));
                process.switch(Power::Off);
                false
            }
        }
    }

    /// Lets things happen until `end`.
    pub(crate) async fn reign(&mut self, end: Instant) {
        for _ in 0..self.random.between(2, 4) {
            pass(self.random.millis(0, 1_500)).await;
            self.start(false).await;
        }
        let blows = self.climate.count;
        let pause = u64::try_from((end - Instant::now()).as_millis()).unwrap() / (blows + 1);
        for _ in 0..blows {
            pass(self.random.millis(0, 2 * pause)).await;
            if Instant::now() >= end {
                break;
            }
            let blow = self.random.weighted(&self.climate.blows);
            self.strike(blow).await;
        }
        tokio::time::sleep_until(end).await; // tidy: sleep, of virtual time, until the load is over
    }

    async fn strike(&mut self, blow: Blow) {
        if blow == Blow::Jump {
            return self.jump();
        }
        if self.crew.is_empty() || blow == Blow::Start {
            self.start(false).await;
            return;
        }
        let victim = self.victim().await;
        self.world.trace(&victim.name, &format!("is struck: {blow:?}"));
        match blow {
            Blow::Kill => {
                self.world.count("kills");
                victim.switch(Power::Off);
                self.crew.retain(|process| process.name != victim.name);
                self.replace().await;
            }
            Blow::Stop => {
                self.crew.retain(|process| process.name != victim.name);
                self.leaving.push(tokio::spawn(stop(self.world.clone(), victim)));
                self.replace().await;
            }
            Blow::Freeze => {
                self.world.count("freezes");
                victim.switch(Power::Frozen);
                let time = self.random.seconds(1, 70);
                tokio::spawn(async move {
                    pass(time).await;
                    victim.switch(Power::On);
                });
            }
            Blow::Cut => {
                self.world.count("partitions");
                let until = Instant::now() + self.random.seconds(1, 80);
                victim.weather().begin(Spell { until, verb: None, sort: Sort::Cut });
            }
            Blow::Spell => {
                self.world.count("spells");
                let until = Instant::now() + self.random.seconds(1, 60);
                let verbs = ["heartbeat", "turn", "campaign", "due", "tasks", "fire", "deregister"];
                let verb = Some(self.random.pick(&verbs)).filter(|_| self.random.chance(70));
                let sort = self.random.pick(&[
                    Sort::Cut,
                    Sort::Mute,
                    Sort::Slow,
                    Sort::Storm,
                    Sort::Storm,
                    Sort::Deaf,
                ]);
                if sort == Sort::Deaf {
                    self.world.count("deaf spells");
                }
                victim.weather().begin(Spell { until, verb, sort });
            }
            Blow::Forget => {
                self.world.count("workers forgotten");
                self.world.forget(&victim.worker_id()).await;
            }
            Blow::Jump | Blow::Start => {}
        }
    }

    /// Somebody of the crew; the leader more often than others.
    async fn victim(&mut self) -> Arc<Process> {
        let leader = self.world.store.leader().await.unwrap();
        let leads = |process: &&Arc<Process>| {
            leader.as_ref().is_some_and(|leader| leader.holder == process.worker_id())
        };
        match self.crew.iter().find(leads) {
            Some(leader) if self.random.chance(40) => leader.clone(),
            _ => self.random.pick(&self.crew),
        }
    }

    /// A supervisor starts another one, soon or late or not at all.
    async fn replace(&mut self) {
        pass(self.random.millis(0, 3_000)).await;
        if self.random.chance(80) {
            self.start(false).await;
        }
    }

    fn jump(&mut self) {
        self.world.count("clock jumps");
        // After more than an hour, a worker that is silent is forgotten.
        let forward = self.random.weighted(&[(40, 2_000), (35, 20_000), (15, 120_000), (10, 10_000_000)]);
        let back = self.climate.backward && self.random.chance(60);
        let millis = if back { self.random.between(1, 500) } else { self.random.between(1, forward) };
        let millis = i64::try_from(millis).unwrap();
        self.world.jump(if back { -millis } else { millis });
    }

    /// All that goes wrong is over. What is frozen thaws, and there is at least one worker for everything.
    pub(crate) async fn end(&mut self) {
        self.world.trace("chaos", "is over");
        for process in self.world.processes() {
            process.weather().calm_down();
            if process.power() == Power::Frozen {
                process.switch(Power::On);
            }
        }
        assert!(self.start(true).await, "a worker starts when nothing is wrong");
    }

    /// Stops everybody who is left.
    pub(crate) async fn stop_all(&mut self) {
        for process in std::mem::take(&mut self.crew) {
            self.leaving.push(tokio::spawn(stop(self.world.clone(), process)));
        }
        for leaving in std::mem::take(&mut self.leaving) {
            if let Err(error) = leaving.await {
                self.world.wrong(format!("stopping failed: {error}"));
            }
        }
    }
}

/// Stops a worker gracefully, and looks whether it does all that it should then.
async fn stop(world: Arc<World>, process: Arc<Process>) {
    world.count("stops");
    let worker = process.worker.lock().unwrap().clone();
    let Some(worker) = worker else { return };
    let asked = Instant::now();
    process.ask_to_stop();
    let stopped = worker.stop().await;
    if process.power() == Power::Off {
        return;
    }
    world.trace(&process.name, &format!("has stopped: {stopped:?}"));
    if let Err(error) = stopped {
        world.wrong(format!("{} did not stop well: {error}", process.name));
    }
    let took = asked.elapsed();
    let well = process.is_well_for(took + Duration::from_secs(120));
    // If something is wrong: time for last words to the store, once more for the leader's, for a heartbeat
    // that was on its way, and for the goodbye.
    let trouble = Duration::from_secs(4 * 10 + 1);
    if took > process.grace + if well { Duration::from_secs(1) } else { trouble } {
        world.wrong(format!("{} took {took:?} to stop", process.name));
    }
    if process.running() > 0 {
        world.wrong(format!("{} has stopped and still runs {} handlers", process.name, process.running()));
    }
    if well {
        let held = world.mirror().held_by(&process.name);
        if !held.is_empty() {
            world.wrong(format!("{} has stopped and still holds {held:?}", process.name));
        }
        let workers = world.store.workers().await.unwrap();
        if workers.iter().any(|worker| worker.id.as_str() == process.name) {
            world.wrong(format!("{} has stopped and is still registered", process.name));
        }
    }
}
