//! The leader is killed while things become due.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use windlass::{Missed, NewTask, Record, Start};

use super::account;
use super::chores::{self, Chore};
use super::part::{Handlers, Role, Work, tasks};
use super::random::Random;
use super::stage::Stage;

/// Chores that wait for a moment, in the first seconds.
const CHORES: u64 = 300;

/// The longest that a chore waits.
const LONGEST: u64 = 3_000;

fn work() -> Role {
    Role::Work(Work::new(Handlers::Worker, 4, Duration::from_secs(5)))
}

/// Kills the leader in the middle of delays, retries and a schedule's slots. When its term is over another
/// leads, and everything that became due meanwhile is done, once.
pub(crate) async fn is_followed(stage: &mut Stage, seed: u64) {
    let mut first = stage.start("first", work());
    stage.until(async |stage| stage.leads(&first.who).await).await;
    let mut second = stage.start("second", work());
    second.hear("started").await;
    let term = stage.store().leader().await.unwrap().unwrap().term;

    let tick = Chore { n: 0, millis: 0, fails: 0, snoozes: 0 };
    let tick = stage.client.submit(&tick).max_attempts(None);
    let every_slot = Missed::All(NonZeroU32::new(100).unwrap());
    stage.client.schedule("tick", "* * * * * *", tick).missed(every_slot).await.unwrap();
    let mut random = Random::new(seed);
    let batch = (0..CHORES).map(|n| {
        let start = Start::After(Duration::from_millis(random.below(LONGEST)));
        NewTask { start, ..chores::planned(&stage.client, seed, n) }
    });
    stage.client.submit_all(batch.collect()).await.unwrap();

    stage.until_final(CHORES / 3).await;
    first.kill();
    let since = Instant::now();
    let waiting = tasks(&stage.client, |state| state.is_timed()).await;
    assert!(waiting > 0, "something is yet to become due");
    stage.until(async |stage| stage.leads(&second.who).await).await;
    let after = since.elapsed();
    let leader = stage.store().leader().await.unwrap().unwrap();
    assert!(leader.term > term, "term {} follows {term}", leader.term);

    let missed = stage.store().now().await.unwrap();
    stage
        .until(async |stage| {
            stage.client.schedules().await.unwrap()[0].last_at >= Some(missed.minus(Duration::from_secs(1)))
        })
        .await;
    stage.client.pause_schedule("tick", true).await.unwrap();
    stage.until(async |stage| tasks(&stage.client, |state| !state.is_final()).await == 0).await;
    let drained = since.elapsed();
    second.ended().await;
    let (events, records) = stage.over().await;
    let (ticks, chores): (Vec<Record>, Vec<Record>) = records
        .into_iter()
        .partition(|record| record.task.spec.key.as_ref().unwrap().starts_with("schedule"));
    let sums = account::of(&events, &chores, CHORES);
    account::check_attempts(&events, &chores, &BTreeSet::from([first.who.clone()]), false);
    check_slots(&ticks);
    println!(
        "{waiting} waited when the leader was killed; another led after {after:.1?}, all was done after {drained:.1?}; {} slots: {sums:?}",
        ticks.len()
    );
}

/// I14: one task for each second, from the first slot to the last, whoever led and whether anybody did.
fn check_slots(ticks: &[Record]) {
    let mut slots: Vec<&str> = ticks.iter().map(|record| record.task.spec.key.as_deref().unwrap()).collect();
    slots.sort_unstable();
    let count = slots.len();
    slots.dedup();
    assert_eq!(slots.len(), count, "I14: one task for each slot");
    let seconds = |key: &str| key.rsplit(' ').next().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    let (first, last) = (seconds(slots[0]), seconds(slots[count - 1]));
    let expected: Vec<i64> = (first..=last).collect();
    assert_eq!(slots.into_iter().map(seconds).collect::<Vec<_>>(), expected, "I14: no slot was left out");
}
