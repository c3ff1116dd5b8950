//! One large workflow, worked off by processes that are killed again and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use windlass::{By, Json, State, WorkflowId, WorkflowState, history};
use windlass_store::conformance::invariants;

use super::account;
use super::part::{Handlers, Role, Work};
use super::plan::{Found, Plan};
use super::process::Process;
use super::random::Random;
use super::stage::Stage;

/// How long a worker may be silent. What comes after its steps waits that long.
const DEAD_AFTER: Duration = Duration::from_secs(3);

/// I10 to I12: works off a workflow with so many kills and so many workers at a time.
pub(crate) async fn survive(stage: &mut Stage, kills: u64, workers: u64, seed: u64) {
    let begun = Instant::now();
    let plan = Plan::large(seed);
    println!("{}", plan.summary());
    stage.client.define(plan.child().unwrap().definition()).await.unwrap();
    let id = stage.client.start_ad_hoc(plan.definition()).await.unwrap().id;
    let mut crew = Crew { stage, random: Random::new(seed), workers: Vec::new(), killed: BTreeSet::new() };
    crew.work(workers, kills, plan.tasks()).await;
    crew.settle(id, &plan).await;
    let Crew { killed, workers, .. } = crew;
    for worker in workers {
        nothing_wrong(&worker.ended().await);
    }
    let worked = begun.elapsed();

    let (events, records) = stage.over().await;
    account::check_attempts(&events, &records, &killed, false);
    let workflows = invariants::dump_workflows(stage.store()).await;
    workflows.iter().for_each(|workflow| invariants::check_order_of(workflow, &records));
    Found::new(&records, &workflows).check(id, &plan);
    let claims: Vec<_> = records.iter().flat_map(|record| history::attempts(&record.history)).collect();
    let expired = claims.iter().filter(|claim| claim.ended == Some(windlass::Reason::LeaseExpired)).count();
    println!(
        "killed {} workers in {worked:.1?} (checked in {:.1?}): {} claims of {} tasks of {} workflows, {expired} expired",
        killed.len(),
        begun.elapsed() - worked,
        claims.len(),
        records.len(),
        workflows.len(),
    );
    assert!(expired > 0, "kills cost attempts");
}

/// No handler has seen what it should not.
fn nothing_wrong(said: &[String]) {
    let wrong: Vec<_> = said.iter().filter(|line| line.starts_with("wrong")).collect();
    assert!(wrong.is_empty(), "I10: {wrong:#?}");
}

struct Crew<'s> {
    stage: &'s mut Stage,
    random: Random,
    workers: Vec<Process>,
    killed: BTreeSet<String>,
}

impl Crew<'_> {
    fn start(&mut self) -> Process {
        let work = Work { aloud: true, buffer: 2, ..Work::new(Handlers::Worker, 4, DEAD_AFTER) };
        self.stage.start("worker", Role::Work(work))
    }

    /// Kills a worker whenever so many tasks have ended. There are always more to come.
    async fn work(&mut self, workers: u64, kills: u64, tasks: u64) {
        for _ in 0..workers {
            let worker = self.start();
            self.workers.push(worker);
        }
        let mut moments: Vec<u64> = (0..kills).map(|_| self.random.below(tasks * 9 / 10)).collect();
        moments.sort_unstable();
        for moment in moments {
            self.stage.until_final(moment).await;
            let which = usize::try_from(self.random.below(workers)).unwrap();
            let word = self.random.pick(&["", "telling", "told", "claimed", "begun"]);
            let next = self.start();
            let mut victim = std::mem::replace(&mut self.workers[which], next);
            if !word.is_empty() {
                victim.hear_soon(word).await;
            }
            victim.kill();
            nothing_wrong(&victim.last_words().await);
            self.killed.insert(victim.who.clone());
        }
    }

    /// Waits until only an operator can help, and is one.
    async fn settle(&mut self, id: WorkflowId, plan: &Plan) {
        let state = async |stage: &Stage| stage.client.workflow(id).await.unwrap().unwrap().workflow.state;
        self.stage.until(async |stage| state(stage).await == WorkflowState::BlockedByFailures).await;
        let broken: Vec<_> = plan.broken().collect();
        assert_eq!(broken.len(), 1, "one fails for good");
        for step in broken {
            assert_eq!(self.stage.state(id.step(step)).await, State::Failed);
            let result = Json::result("{\"n\": 0}").unwrap();
            self.stage.client.resolve(id.step(step), Some(result), By::default()).await.unwrap();
        }
        self.stage.until(async |stage| state(stage).await.is_final()).await;
    }
}
