//! Random runs on the memory store, in which by definition nothing is wrong: with workers that die, zombies,
//! lost answers, operators, small lanes and keys, and a clock that sometimes stands still.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    By, Command, Lane, Name, NewTask, Outcome, Reason, Retention, Start, State, Task, TaskId,
};

use super::stage::{Stage, finish, task, token, worker};
use crate::conformance::checker::{Answer, End, Event, Op, Violation, What, check};
use crate::conformance::model::random::Random;
use crate::conformance::{claim_of, completed, entity, failed, failed_for_good, id};
use crate::{Catalog, Claim, Reads, Record, Store, Turn, Writes};

const RUNS: u64 = 100;
const STEPS: usize = 250;
const QUEUES: [&str; 2] = ["default", "bulk"];

struct Player {
    stage: Stage,
    random: Random,
    /// Who is registered, dead or alive. A name is never used again.
    workers: Vec<String>,
    /// Everything ever handed out, the lost too.
    claimed: Vec<Task>,
    /// Everything ever asked for.
    asked: Vec<NewTask>,
}

impl Player {
    async fn play(seed: u64) -> (Vec<Event>, Vec<Record>) {
        let (stage, random) = (Stage::new(&[]).await, Random::new(seed));
        let mut player = Self { stage, random, workers: Vec::new(), claimed: Vec::new(), asked: Vec::new() };
        for _ in 0..STEPS {
            player.step().await;
        }
        player.stage.over().await
    }

    async fn step(&mut self) {
        if self.random.chance(70) {
            let most = self.random.pick(&[10, 1_000, 50_000, 5_000_000]);
            self.stage.clock.advance(Duration::from_micros(self.random.next() % most));
        }
        match self.random.below(100) {
            0..20 => self.submit().await,
            20..45 => self.claim().await,
            45..70 => self.finish().await,
            70..80 => self.chores().await,
            80..90 => self.operate().await,
            90..95 => self.die_or_live().await,
            95..97 => {
                let (queue, paused) =
                    (Name::queue(self.random.pick(&QUEUES)).unwrap(), self.random.chance(40));
                self.stage.store.pause(Name::default(), queue, paused).await.unwrap();
            }
            97 => self.prune().await,
            _ => self.submit_again().await,
        }
    }

    async fn chores(&self) {
        let due = self.stage.store.due(100).await.unwrap();
        self.stage.store.apply(due.commands).await.unwrap();
    }

    fn lane(&mut self) -> Lane {
        let lane = match self.random.below(4) {
            0 => Lane::of(&entity("planner:1")),
            1 => Lane::of(&entity("planner:2")),
            2 => Lane::new("two", 2).unwrap(),
            _ => Lane::new("any", self.random.pick(&[1, 2, 3])).unwrap(),
        };
        if self.random.chance(30) { lane.strict() } else { lane }
    }

    async fn submit(&mut self) {
        let mut tasks = Vec::new();
        for _ in 0..=self.random.below(3) {
            let mut new = task(id(u64::try_from(self.asked.len()).unwrap()));
            new.queue = Name::queue(self.random.pick(&QUEUES)).unwrap();
            new.lane = self.random.chance(60).then(|| self.lane());
            new.key = self.random.chance(25).then(|| format!("key {}", self.random.below(4)));
            new.priority = self.random.pick(&[0, 0, 5]);
            new.max_attempts = NonZeroU32::new(self.random.pick(&[0, 1, 2, 3]));
            if self.random.chance(20) {
                new.start = Start::After(Duration::from_micros(self.random.next() % 50_000));
            }
            if self.random.chance(2) {
                new.timeout = Some(Duration::ZERO);
            }
            self.asked.push(new.clone());
            tasks.push(new);
        }
        self.send(tasks).await;
    }

    /// A client that was not answered, or forgot, asks for the same task again; not if it has been removed.
    async fn submit_again(&mut self) {
        let new = if self.asked.is_empty() { return } else { self.random.pick(&self.asked) };
        if self.stage.store.task(new.id).await.unwrap().is_some() {
            self.send(vec![new]).await;
        }
    }

    async fn send(&mut self, tasks: Vec<NewTask>) {
        let (client, store) = (self.stage.journal("client"), &self.stage.store);
        if self.random.chance(90) {
            // What is senseless is refused, with its batch.
            let _ = client.submit(store, tasks).await;
        } else {
            drop(client.invoke(Op::submit(&tasks)));
            if self.random.chance(50) {
                let _ = store.submit(tasks).await;
            }
        }
    }

    async fn claim(&mut self) {
        if self.workers.is_empty() {
            return self.die_or_live().await;
        }
        let who = self.random.pick(&self.workers);
        let queues = QUEUES.map(|queue| Name::queue(queue).unwrap()).to_vec();
        let ask = Claim { queues, ..claim_of(&worker(&who), 1 + self.random.below(3)) };
        let Ok(claimed) = self.stage.store.claim(ask).await else { return };
        for one in claimed {
            if self.random.chance(90) {
                self.stage.journal(&who).handler_started(&one.task);
            }
            self.claimed.push(one.task);
        }
    }

    /// One of the last claims ends; often it is good still.
    async fn finish(&mut self) {
        let reach = self.random.pick(&[2, 4, 8, 1000]).min(self.claimed.len());
        if reach == 0 {
            return;
        }
        let claimed = self.claimed[self.claimed.len() - 1 - self.random.below(reach)].clone();
        let command = match self.random.below(20) {
            0..9 => finish(&claimed, completed("1")),
            9..13 => finish(&claimed, failed("no")),
            13 => finish(&claimed, failed_for_good("no")),
            14 | 15 => finish(&claimed, Outcome::Snoozed { delay: Duration::from_millis(1) }),
            16 => finish(&claimed, Outcome::Cancelled { note: "not needed".into() }),
            17 => Command::Start { token: token(&claimed), at: None },
            _ => Command::Release { token: token(&claimed), note: None },
        };
        let who = claimed.status.worker.as_ref().unwrap().as_str().to_owned();
        self.send_command(&who, command).await;
    }

    async fn operate(&mut self) {
        let task = if self.asked.is_empty() { return } else { self.random.pick(&self.asked).id };
        let by = By::default();
        let command = match self.random.below(7) {
            0 | 1 => Command::Cancel { task, by },
            2..5 => Command::Retry { task, force: self.random.chance(50), by },
            5 => Command::Resolve { task, result: None, by },
            _ => Command::Delete { task },
        };
        self.send_command("client", command).await;
    }

    /// Sends a command, which may be refused; sometimes the sender is killed, before or after it is carried
    /// out.
    async fn send_command(&mut self, who: &str, command: Command) {
        let (journal, store) = (self.stage.journal(who), &self.stage.store);
        if self.random.chance(90) {
            journal.turn(store, Turn { commands: vec![command], ..Turn::default() }).await.unwrap();
        } else {
            drop(Op::of(&command).map(|op| journal.invoke(op)));
            if self.random.chance(50) {
                let _ = store.apply(vec![command]).await.unwrap();
            }
        }
    }

    async fn die_or_live(&mut self) {
        if self.workers.len() > 2 {
            let who = self.workers.remove(self.random.below(3));
            self.stage.store.deregister(worker(&who)).await.unwrap();
        }
        let who = format!("worker {}", self.random.next());
        self.stage.register(&who).await;
        self.workers.push(who);
    }

    async fn prune(&mut self) {
        let retention = Retention::default().keep(State::Completed, Duration::from_millis(50)).unwrap();
        let (client, store) = (self.stage.journal("client"), &self.stage.store);
        if self.random.chance(80) {
            client.prune(store, &retention, 3).await.unwrap();
        } else {
            drop(client.invoke(Op::Prune));
            store.prune(retention.clone(), 3).await.unwrap();
        }
    }
}

/// What was met, in words, so that silence is not for want of anything to say.
fn met(events: &[Event], records: &[Record], words: &mut BTreeSet<String>) {
    words.extend(records.iter().flat_map(|record| &record.history).map(|entry| entry.reason.to_string()));
    for event in events {
        if let What::Ended { end, .. } = &event.what {
            words.insert(match end {
                End::Ok(Answer::Done { changed, .. }) => format!("changed {changed}"),
                End::Ok(Answer::Submitted(all)) if all.iter().any(|one| !one.created) => "existing".into(),
                End::Ok(Answer::Pruned(1..)) => "pruned".into(),
                End::Failed(why) if why.contains("is lost") => "zombie".into(),
                _ => continue,
            });
        }
    }
}

fn play(seed: u64) -> (Vec<Event>, Vec<Record>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(Player::play(seed))
}

#[test]
fn random_runs_are_good() {
    let mut words = BTreeSet::new();
    for seed in 0..RUNS {
        let (events, records) = play(seed);
        assert_eq!(check(&events, &records, false), [], "seed {seed}");
        met(&events, &records, &mut words);
    }
    let reasons = [
        Reason::Submitted,
        Reason::Claimed,
        Reason::Started,
        Reason::Completed,
        Reason::Failed,
        Reason::Snoozed,
        Reason::Cancelled,
        Reason::Released,
        Reason::LeaseExpired,
        Reason::Due,
        Reason::Retried,
        Reason::Reopened,
        Reason::Resolved,
    ];
    let others = ["changed true", "changed false", "existing", "pruned", "zombie"];
    for word in reasons.map(Reason::word).into_iter().chain(others) {
        assert!(words.contains(word), "{word:?} is never met");
    }
}

/// In a random run, whichever acknowledged task vanishes is missed.
#[test]
fn whatever_vanishes_is_missed() {
    for seed in 0..10 {
        let (mut events, records) = play(seed);
        // Without prunes and deletes, which would excuse it; what they removed is lost then, too.
        let removes = |op: &Op| matches!(op, Op::Prune | Op::Delete { .. });
        let removed: BTreeSet<_> = events
            .iter()
            .filter_map(|event| match &event.what {
                What::Invoked { number, op } if removes(op) => Some((event.who.clone(), *number)),
                _ => None,
            })
            .collect();
        events.retain(|event| match &event.what {
            What::Invoked { number, .. } | What::Ended { number, .. } => {
                !removed.contains(&(event.who.clone(), *number))
            }
            _ => true,
        });
        let lost = |records: &[Record]| -> BTreeSet<TaskId> {
            let lost = |one| if let Violation::Lost { task, .. } = one { Some(task) } else { None };
            check(&events, records, false).into_iter().filter_map(lost).collect()
        };
        let before = lost(&records);
        let acknowledged: BTreeSet<_> = events
            .iter()
            .filter_map(|event| match &event.what {
                What::Ended { end: End::Ok(Answer::Submitted(all)), .. } => {
                    Some(all.iter().map(|one| one.id))
                }
                _ => None,
            })
            .flatten()
            .collect();
        for at in 0..records.len() {
            let mut records = records.clone();
            let gone = records.remove(at).task.id;
            let after = lost(&records);
            assert_eq!(after.contains(&gone), acknowledged.contains(&gone), "seed {seed}, {gone}");
            assert!(after.is_superset(&before) && after.len() <= before.len() + 1, "seed {seed}, {gone}");
        }
    }
}
