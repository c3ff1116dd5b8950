//! The race of all against all.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use windlass_core::{By, Command, Lane, Lease, NewTask, Outcome, Retention, State, TaskId, WorkerId};

use super::{done, handles, race, rounds, workers};
use crate::conformance::model::random::Random;
use crate::conformance::{Case, KIND, claim_of, finish, invariants};
use crate::{Claimed, Store};

/// Operations of each thread in each round.
const OPERATIONS: usize = 30;

/// I20, I1: after submits, claims, finishes, cancels, chores, heartbeats, deletes and prunes of sixteen
/// threads at once, counts equal rows, and there are as many rows as were created and not deleted.
pub(super) async fn counts_equal_rows_after_everything_at_once(case: &Case) {
    let (handles, rows) = (handles(case).await, AtomicI64::new(0));
    for round in rounds() {
        let workers = workers(case, round).await;
        race(&handles, async |n, store| {
            let seed = u64::try_from(round * 100 + n).unwrap();
            let worker = workers[n].clone();
            let (random, seen, held) = (Random::new(seed), Vec::new(), Vec::new());
            let mut hand = Hand { case, store, random, worker, seen, held, rows: &rows };
            for _ in 0..OPERATIONS {
                hand.act().await;
                if n == 0 {
                    // One thread alone moves the clock, so that it only goes forward.
                    case.clock.advance(Duration::from_millis(1));
                }
            }
        });
        let counts = case.store().counts().await.unwrap();
        let counted = counts.iter().map(|count| i64::try_from(count.tasks).unwrap()).sum::<i64>();
        assert_eq!(counted, rows.load(SeqCst), "I1, I20: created and not deleted");
        invariants::check(&*handles[round % 2], &*case.clock).await;
    }
}

/// One thread's part.
struct Hand<'a> {
    case: &'a Case,
    store: &'a dyn Store,
    random: Random,
    worker: WorkerId,
    seen: Vec<TaskId>,
    held: Vec<Claimed>,
    /// Rows that there should be, by the answers that all threads were given.
    rows: &'a AtomicI64,
}

impl Hand<'_> {
    async fn act(&mut self) {
        match self.random.below(20) {
            0..6 => self.submit().await,
            6..10 => {
                let limit = 1 + self.random.below(3);
                self.held.extend(self.store.claim(claim_of(&self.worker, limit)).await.unwrap());
            }
            10..15 => self.finish().await,
            15 => self.change(|task| Command::Cancel { task, by: By::default() }).await,
            16 => self.change(|task| Command::Delete { task }).await,
            17 => {
                let due = self.store.due(5).await.unwrap().commands;
                self.store.apply(due).await.unwrap();
            }
            18 => {
                let lease = |one: &Claimed| (one.task.id, one.task.status.lease);
                let held: Vec<(TaskId, Lease)> = self.held.iter().map(lease).collect();
                self.store.heartbeat(self.worker.clone(), held).await.unwrap();
            }
            _ => self.prune().await,
        }
    }

    async fn submit(&mut self) {
        let mut tasks = Vec::new();
        for _ in 0..=self.random.below(3) {
            let mut task = self.case.task();
            // Batches of several threads have keys and lanes in common, in any order.
            task.key = self.random.chance(30).then(|| format!("key {}", self.random.below(8)));
            let limit = u32::try_from(1 + self.random.below(3)).unwrap();
            let lane = Lane::new(&format!("lane {}", self.random.below(3)), limit).unwrap();
            task.lane = self.random.chance(40).then_some(lane);
            tasks.push(NewTask { priority: i32::try_from(self.random.below(3)).unwrap(), ..task });
        }
        let submitted = self.store.submit(tasks).await.unwrap();
        let created = submitted.iter().filter(|one| one.created).count();
        self.rows.fetch_add(i64::try_from(created).unwrap(), SeqCst);
        self.seen.extend(submitted.iter().map(|one| one.id));
    }

    async fn finish(&mut self) {
        let Some(one) = self.held.pop() else { return };
        assert_eq!(&*one.task.spec.kind, KIND, "only what was asked for is handed out");
        let outcome = match self.random.below(4) {
            0 => {
                let retryable = self.random.chance(50);
                Outcome::Failed { error: "no".into(), retryable, retry_after: Some(Duration::ZERO) }
            }
            1 => Outcome::Snoozed { delay: Duration::from_millis(1) },
            _ => done(),
        };
        // It may have been cancelled in between.
        self.store.apply(vec![finish(&one, outcome)]).await.unwrap().remove(0).ok();
    }

    /// Does something to a task that this thread saw; it may be refused.
    async fn change(&mut self, command: impl Fn(TaskId) -> Command) {
        if self.seen.is_empty() {
            return;
        }
        let command = command(self.random.pick(&self.seen));
        let is_delete = matches!(command, Command::Delete { .. });
        let answer = self.store.apply(vec![command]).await.unwrap().remove(0);
        self.rows.fetch_sub(i64::from(is_delete && answer.is_ok()), SeqCst);
    }

    async fn prune(&mut self) {
        let finals = State::ALL.into_iter().filter(|state| state.is_final());
        let keep = |keep: Retention, state| keep.keep(state, Duration::ZERO).unwrap();
        let pruned = self.store.prune(finals.fold(Retention::default(), keep), 5).await.unwrap();
        self.rows.fetch_sub(i64::try_from(pruned).unwrap(), SeqCst);
    }
}
