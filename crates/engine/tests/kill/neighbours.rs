//! Two processes side by side on one file, and nobody is killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use windlass::{Filter, Page, State, history};

use super::account;
use super::chores::{self, Deaf};
use super::part::{Handlers, Role, Work, tasks};
use super::stage::Stage;

/// Handlers of each process.
const POOL: usize = 24;

/// How long hearts are listened to.
const LISTEN: Duration = Duration::from_secs(2);

/// A worker with the usual 30 s of patience, which sends a heartbeat every 10 s.
fn work(pool: usize) -> Role {
    Role::Work(Work::new(Handlers::Worker, pool, Duration::from_secs(30)))
}

/// The number after `word` in what a process has said.
fn number(said: &[String], word: &str) -> u64 {
    said.iter().find_map(|line| line.strip_prefix(word)?.parse().ok()).unwrap()
}

/// Two workers work off `tasks` chores. Each does some, nothing expires.
pub(crate) async fn share(stage: &mut Stage, seed: u64, tasks: u64) {
    let begun = Instant::now();
    let mut workers = [(); 2].map(|()| stage.start("worker", work(POOL)));
    for worker in &mut workers {
        worker.hear("started").await;
    }
    for first in (0..tasks).step_by(100) {
        let batch = (first..(first + 100).min(tasks)).map(|n| chores::planned(&stage.client, seed, n));
        stage.client.submit_all(batch.collect()).await.unwrap();
    }
    stage.until_final(tasks).await;
    let took = begun.elapsed();
    for worker in workers {
        let most = usize::try_from(number(&worker.ended().await, "most ")).unwrap();
        assert!((2..=POOL).contains(&most), "{most} handlers at once");
    }
    let (events, records) = stage.over().await;
    let sums = account::of(&events, &records, tasks);
    account::check_attempts(&events, &records, &[].into(), false);
    let mut shares = BTreeMap::<String, usize>::new();
    for attempt in records.iter().flat_map(|record| history::attempts(&record.history)) {
        *shares.entry(attempt.worker.unwrap().to_string()).or_default() += 1;
    }
    println!("in {took:.1?}, claims {shares:?}: {sums:?}");
    assert_eq!(shares.len(), 2, "both have worked");
    assert_eq!(sums.expired, 0, "nobody was thought to be dead");
}

/// Two workers have one long task each and nothing else to do. Their heartbeats come from time alone: the
/// heartbeat of one is no news for the other.
pub(crate) async fn rest(stage: &mut Stage) {
    let begun = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..2 {
        stage.client.submit(&Deaf).await.unwrap();
        workers.push(stage.start("worker", work(1)));
    }
    let running = async |stage: &Stage| tasks(&stage.client, |state| state == State::Running).await == 2;
    stage.until(running).await;
    let since = Instant::now();
    stage.until(async |_| since.elapsed() > LISTEN).await;
    for task in stage.client.list(Filter::default(), Page::default()).await.unwrap().tasks {
        workers.iter_mut().for_each(|worker| worker.open(&format!("{} 1", task.id)));
    }
    stage.until_final(2).await;
    let usual = 1 + begun.elapsed().as_secs() / 10;
    for worker in workers {
        let beats = number(&worker.ended().await, "heartbeats ");
        println!("{beats} heartbeats in {:.1?}", begun.elapsed());
        assert!(beats <= usual, "{beats} heartbeats where {usual} would do");
    }
    stage.over().await;
}
