//! A clock that was wrong and is set back, by an hour: what was written by the wrong clock does not wait for
//! that hour to come again.

use std::time::Duration;

use windlass_core::{Command, NewTask, Outcome, Start, State, TaskId, Timestamp, WorkerId};

use super::{Case, failed, finish, scenarios};

scenarios![
    a_retry_waits_as_long_as_it_was_to_wait,
    a_snooze_waits_as_long_as_it_was_to_wait,
    a_moment_that_had_come_has_come,
    a_moment_that_was_chosen_stays,
    the_next_failure_counts_from_the_present,
    a_dead_leader_is_followed,
    a_dead_worker_loses_its_leases,
    a_live_worker_keeps_its_leases,
    small_corrections_change_nothing,
    a_clock_that_jumps_ahead_makes_due_what_it_passes,
];

const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(30);

/// A leader stands again, as it does all the time.
async fn campaign(case: &Case, name: &str) -> Option<u64> {
    let candidate = WorkerId::new(name).unwrap();
    case.store().campaign(candidate.clone(), LEASE).await.unwrap().map(|won| won.term)
}

/// The clock was an hour ahead, and is right now.
async fn corrected(case: &Case) {
    case.clock.set(case.now().minus(HOUR));
    campaign(case, "leader").await;
}

async fn due_at(case: &Case, id: TaskId) -> Option<Timestamp> {
    case.record(id).await.task.status.due_at
}

/// Until it is due, and no longer.
async fn is_due_in(case: &Case, id: TaskId, seconds: u64) {
    assert_eq!(due_at(case, id).await, Some(case.now().plus(Duration::from_secs(seconds))));
    case.pass(seconds);
    case.chores().await;
    assert_eq!(case.state(id).await, State::Pending);
}

async fn a_retry_waits_as_long_as_it_was_to_wait(case: &Case) {
    let id = case.bring(case.task(), State::WaitingForRetry).await;
    let was = due_at(case, id).await.unwrap().since(case.now()).as_secs();
    corrected(case).await;
    is_due_in(case, id, was).await;
}

async fn a_snooze_waits_as_long_as_it_was_to_wait(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    let delay = Duration::from_secs(600);
    case.apply(finish(&claimed, Outcome::Snoozed { delay })).await.unwrap();
    case.pass(100);
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    corrected(case).await;
    is_due_in(case, id, 500).await;
}

/// It was due already by the clock that it was submitted under, but nobody had looked.
async fn a_moment_that_had_come_has_come(case: &Case) {
    let worker = case.worker("w").await;
    let start = Start::After(Duration::from_secs(10));
    let id = case.submit(NewTask { start, ..case.task() }).await;
    case.pass(20);
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    corrected(case).await;
    is_due_in(case, id, 0).await;
}

/// A moment is a moment, whatever the clock was when it was chosen; so is one that was chosen before.
async fn a_moment_that_was_chosen_stays(case: &Case) {
    let before = case.now().plus(HOUR / 2);
    let first = case.submit(NewTask { start: Start::At(before), ..case.task() }).await;
    case.pass(3600 / 4);
    case.worker("w").await;
    let chosen = case.now().plus(HOUR / 2);
    let second = case.submit(NewTask { start: Start::At(chosen), ..case.task() }).await;
    corrected(case).await;
    assert_eq!((due_at(case, first).await, due_at(case, second).await), (Some(before), Some(chosen)));
}

/// History does not go back, but what is counted from the present is counted from the present.
async fn the_next_failure_counts_from_the_present(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    corrected(case).await;
    let claimed = case.claim_one(&worker).await;
    case.apply(finish(&claimed, failed("again"))).await.unwrap();
    is_due_in(case, id, 1).await;
}

async fn a_dead_leader_is_followed(case: &Case) {
    case.worker("w").await;
    assert_eq!(campaign(case, "dead").await, Some(1));
    case.clock.set(case.now().minus(HOUR));
    assert_eq!(campaign(case, "next").await, None, "its term goes on as long as it was to");
    case.pass(30);
    assert_eq!(campaign(case, "next").await, Some(2));
}

async fn a_dead_worker_loses_its_leases(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    case.claim_one(&worker).await;
    corrected(case).await;
    case.pass(29);
    assert_eq!(case.store().due(9).await.unwrap().commands, []);
    case.pass(1);
    let expire = Command::Expire { task: id, lease: 1 };
    assert_eq!(case.store().due(9).await.unwrap().commands, [expire]);
}

async fn a_live_worker_keeps_its_leases(case: &Case) {
    let worker = case.worker("w").await;
    case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    corrected(case).await;
    for _ in 0..6 {
        case.pass(20);
        case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
        assert_eq!(case.store().due(9).await.unwrap().commands, []);
    }
    case.complete(&claimed).await;
}

/// Clocks are corrected all the time.
async fn small_corrections_change_nothing(case: &Case) {
    let id = case.bring(case.task(), State::WaitingForRetry).await;
    case.worker("w").await;
    let was = due_at(case, id).await;
    case.clock.set(case.now().minus(Duration::from_millis(900)));
    campaign(case, "leader").await;
    assert_eq!(due_at(case, id).await, was);
}

/// It cannot be told from time that has passed: what it passes is due, and workers that were not heard of
/// meanwhile count as dead. What they report is refused, and nothing is lost.
async fn a_clock_that_jumps_ahead_makes_due_what_it_passes(case: &Case) {
    let worker = case.worker("w").await;
    let start = Start::After(HOUR / 2);
    let delayed = case.submit(NewTask { start, ..case.task() }).await;
    let held = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    case.clock.advance(HOUR);
    case.chores().await;
    assert_eq!((case.state(delayed).await, case.state(held).await), (State::Pending, State::Pending));
    let late = case.refusal(finish(&claimed, super::completed("1"))).await;
    assert_eq!(late.code(), "lease_lost");
}
