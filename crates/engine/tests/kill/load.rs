//! Workers and two submitters under load, which are killed and stopped again and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::account::{self, Accounts};
use super::part::{Handlers, Role, Submit, Work};
use super::process::Process;
use super::random::Random;
use super::stage::Stage;

/// How long a worker may be silent. Long enough for a machine with too much to do, short enough for a test.
const DEAD_AFTER: Duration = Duration::from_secs(3);

/// What is done to whom while tasks are worked off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) tasks: u64,
    /// Workers at a time.
    pub(crate) workers: u64,
    /// Workers to kill. Submitters are killed on top of that, one for every four.
    pub(crate) kills: u64,
    /// Workers to stop for longer than they may be silent.
    pub(crate) stops: u64,
    pub(crate) seed: u64,
}

/// A crew at work.
struct Crew<'s> {
    stage: &'s mut Stage,
    load: Load,
    random: Random,
    workers: Vec<Process>,
    /// With the number that each is sure to have submitted, if it still has something to submit.
    submitters: Vec<(Option<Process>, u64)>,
    killed: BTreeSet<String>,
    submitter_kills: u64,
    /// Workers that were stopped between two writes, and in the middle of one.
    stopped: u64,
    stopped_writing: u64,
}

/// Works off the load, kills and stops included, and gives an account of it.
pub(crate) async fn run(stage: &mut Stage, load: Load) -> Accounts {
    let begun = Instant::now();
    let mut crew = Crew {
        stage,
        load,
        random: Random::new(load.seed),
        workers: Vec::new(),
        submitters: Vec::new(),
        killed: BTreeSet::new(),
        submitter_kills: 0,
        stopped: 0,
        stopped_writing: 0,
    };
    crew.go().await;
    let Crew { killed, submitter_kills, stopped, stopped_writing, .. } = crew;
    let drained = begun.elapsed();
    let (events, records) = stage.over().await;
    let accounts = account::of(&events, &records, load.tasks);
    account::check_attempts(&events, &records, &killed, load.stops > 0);
    println!(
        "killed {} workers and {submitter_kills} submitters, stopped {stopped} workers and {stopped_writing} in the middle of \
         a write, in {drained:.1?} (checked in {:.1?}): {accounts:?}",
        killed.len(),
        begun.elapsed() - drained,
    );
    assert!(stopped == 0 || accounts.expired > 0, "those that were stopped lost what they held");
    accounts
}

impl Crew<'_> {
    async fn go(&mut self) {
        for _ in 0..self.load.workers {
            let worker = self.start_worker();
            self.workers.push(worker);
        }
        for which in 0..2 {
            let submitter = self.start_submitter(which, 0);
            self.submitters.push((Some(submitter), 0));
        }
        // Each thing is done when so many tasks are final. There are always more to come.
        let last = self.load.tasks * 9 / 10;
        let mut moments: Vec<(u64, bool)> = (0..self.load.kills + self.load.stops)
            .map(|n| (self.random.below(last), n < self.load.kills))
            .collect();
        moments.sort_unstable();
        for (moment, is_kill) in moments {
            self.stage.until_final(moment).await;
            if is_kill {
                self.kill_a_worker().await;
                if self.random.chance(25) {
                    self.kill_a_submitter();
                }
            } else {
                self.stop_a_worker().await;
            }
        }
        for (submitter, _) in &mut self.submitters {
            if let Some(submitter) = submitter.take() {
                submitter.ended().await;
            }
        }
        self.stage.until_final(self.load.tasks).await;
        for worker in self.workers.drain(..) {
            worker.ended().await;
        }
    }

    fn start_worker(&mut self) -> Process {
        let work = Work { aloud: true, ..Work::new(Handlers::Worker, 12, DEAD_AFTER) };
        self.stage.start("worker", Role::Work(work))
    }

    fn start_submitter(&mut self, which: u64, from: u64) -> Process {
        let submit = Submit { seed: self.load.seed, which, from, to: self.load.tasks };
        self.stage.start("submitter", Role::Submit(submit))
    }

    fn any_worker(&mut self) -> usize {
        usize::try_from(self.random.below(self.load.workers)).unwrap()
    }

    async fn kill_a_worker(&mut self) {
        let which = self.any_worker();
        // Some at once, wherever that is: it may not even be done with starting. Others after something was
        // heard, so that it dies in the middle of a commit, after one, or when a handler has begun.
        let moment = self.random.pick(&["", "telling", "told", "claimed", "begun"]);
        let victim = &mut self.workers[which];
        if !moment.is_empty() {
            victim.heard();
            victim.hear_soon(moment).await;
        }
        victim.kill();
        self.killed.insert(victim.who.clone());
        self.workers[which] = self.start_worker();
    }

    fn kill_a_submitter(&mut self) {
        let which = self.random.below(2);
        let (submitter, sure) = &mut self.submitters[usize::try_from(which).unwrap()];
        let Some(mut victim) = submitter.take() else { return };
        victim.kill();
        let heard = victim.heard();
        let said = heard.iter().filter_map(|line| line.strip_prefix("submitted ")?.parse::<u64>().ok());
        *sure = said.map(|n| n + 1).max().unwrap_or(*sure).max(*sure);
        let from = *sure;
        self.submitter_kills += 1;
        let next = self.start_submitter(which, from);
        self.submitters[usize::try_from(which).unwrap()].0 = Some(next);
    }

    /// Stops a worker until others have taken all that it holds; or, if it was stopped in the middle of a
    /// write and nobody else can write, for as long as it may be silent.
    async fn stop_a_worker(&mut self) {
        let which = self.any_worker();
        let victim = &self.workers[which];
        victim.signal("STOP");
        if self.stage.can_write().await {
            self.stage.until(async |stage| stage.holdings(&victim.who).await == 0).await;
            self.stopped += 1;
        } else {
            let since = Instant::now();
            self.stage.until(async |_| since.elapsed() > DEAD_AFTER).await;
            self.stopped_writing += 1;
        }
        victim.signal("CONT");
    }
}
