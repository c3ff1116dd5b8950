//! Slots of a lane: what takes one, what keeps it, and what gives it back.

use std::time::Duration;

use windlass_core::{By, Command, Entity, Lane, NewTask, Outcome, Start, State};

use super::{Case, STATES, completed, entity, failed, failed_for_good, ids, scenarios, token};
use crate::Claimed;

scenarios![
    every_end_frees_the_slot,
    an_operator_frees_the_slot_of_what_has_not_started,
    a_dead_letter_of_a_dead_worker_frees_the_slot,
    a_wait_for_a_retry_lets_others_pass,
    in_strict_order_nobody_passes,
    in_strict_order_every_end_frees_the_slot,
    a_snoozed_task_lets_others_pass_unless_strict,
    a_released_task_keeps_its_slot,
    a_recovered_task_keeps_its_slot,
    a_delayed_task_takes_no_slot,
    a_due_task_waits_for_its_turn,
    a_reopened_task_waits_for_its_turn,
    deleting_frees_nothing_twice,
];

/// Two tasks of one entity; the first is claimed.
async fn pair(case: &Case, lane: &Lane) -> (Claimed, windlass_core::TaskId) {
    let task = || NewTask { lane: Some(lane.clone()), ..case.task() };
    let first = case.submit(task()).await;
    let second = case.submit(task()).await;
    let claimed = case.take(first, &case.worker("w").await).await;
    assert!(case.record(second).await.task.is_parked());
    (claimed, second)
}

fn planner(n: usize) -> Entity {
    entity(&format!("planner:{n}"))
}

/// 0.8: each outcome of the handler, and each way an operator stops it, lets the next one start.
async fn every_end_frees_the_slot(case: &Case) {
    let note = String::new();
    let outcomes = [completed("1"), failed_for_good("x"), Outcome::Cancelled { note }];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let (claimed, second) = pair(case, &Lane::of(&planner(n))).await;
        case.finish(&claimed, outcome.clone()).await.unwrap();
        assert!(case.record(second).await.task.is_claimable(), "after {outcome:?}");
    }
    for (n, start) in [false, true].into_iter().enumerate() {
        for (m, cancel) in [false, true].into_iter().enumerate() {
            let (claimed, second) = pair(case, &Lane::of(&planner(10 + 2 * n + m))).await;
            let (task, by) = (claimed.task.id, By::default());
            if start {
                case.apply(Command::Start { token: token(&claimed), at: None }).await.unwrap();
            }
            let resolve = Command::Resolve { task, result: None, by: By::default() };
            case.apply(if cancel { Command::Cancel { task, by } } else { resolve }).await.unwrap();
            assert!(case.record(second).await.task.is_claimable(), "started {start}, cancelled {cancel}");
        }
    }
    let lane = Some(Lane::of(&planner(99)));
    case.bring(NewTask { lane: lane.clone(), ..case.task() }, State::DeadLetter).await;
    let next = case.submit(NewTask { lane, ..case.task() }).await;
    assert!(case.record(next).await.task.is_claimable(), "after dead letter");
}

/// 0.8: a pending task holds the slot too, until it is cancelled.
async fn an_operator_frees_the_slot_of_what_has_not_started(case: &Case) {
    let first = case.submit(case.task_for("planner:1")).await;
    let second = case.submit(case.task_for("planner:1")).await;
    let third = case.submit(case.task_for("planner:1")).await;
    case.cancel(second).await.unwrap();
    assert!(case.record(third).await.task.is_parked(), "the first still stands before it");
    case.cancel(first).await.unwrap();
    assert!(case.record(third).await.task.is_claimable());
}

/// 0.8, C4: no lock outlives its worker.
async fn a_dead_letter_of_a_dead_worker_frees_the_slot(case: &Case) {
    let once = NewTask { max_attempts: std::num::NonZeroU32::new(1), ..case.task_for("planner:1") };
    let first = case.submit(once).await;
    let second = case.submit(case.task_for("planner:1")).await;
    let claimed = case.take(first, &case.worker("w").await).await;
    case.apply(Command::Start { token: token(&claimed), at: None }).await.unwrap();
    case.pass(30);
    case.chores().await;
    assert_eq!(case.state(first).await, State::DeadLetter);
    assert_eq!(ids(&case.claim(&case.worker("v").await, 9).await), [second]);
}

/// C15 `skip`, the default: later tasks overtake, and the retry waits for its turn.
async fn a_wait_for_a_retry_lets_others_pass(case: &Case) {
    let worker = case.worker("w").await;
    let (claimed, second) = pair(case, &Lane::of(&planner(1))).await;
    let third = case.submit(case.task_for("planner:1")).await;
    case.fail(&claimed, "x").await;
    assert!(!case.record(claimed.task.id).await.task.status.slot);
    let overtaking = case.claim(&worker, 9).await;
    assert_eq!(ids(&overtaking), [second]);
    case.pass(1);
    case.chores().await;
    assert_eq!(case.claim(&worker, 9).await, [], "due, but the entity is busy");
    case.complete(&overtaking[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [claimed.task.id], "it came before the third");
    assert!(case.record(third).await.task.is_parked());
}

/// C15 `strict`: the retry keeps the slot, through all its attempts.
async fn in_strict_order_nobody_passes(case: &Case) {
    let worker = case.worker("w").await;
    let (claimed, second) = pair(case, &Lane::of(&planner(1)).strict()).await;
    case.fail(&claimed, "x").await;
    assert_eq!(case.claim(&worker, 9).await, [], "the slot is kept");
    case.pass(1);
    case.chores().await;
    let again = case.claim(&worker, 9).await;
    assert_eq!(ids(&again), [claimed.task.id]);
    case.complete(&again[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [second]);
}

/// C15: strict is not stuck; while it waits, an operator may end it, and attempts may run out.
async fn in_strict_order_every_end_frees_the_slot(case: &Case) {
    let (claimed, second) = pair(case, &Lane::of(&planner(1)).strict()).await;
    case.fail(&claimed, "x").await;
    case.cancel(claimed.task.id).await.unwrap();
    assert!(case.record(second).await.task.is_claimable());
    let lane = Some(Lane::of(&planner(2)).strict());
    case.bring(NewTask { lane: lane.clone(), ..case.task() }, State::DeadLetter).await;
    let next = case.submit(NewTask { lane, ..case.task() }).await;
    assert!(case.record(next).await.task.is_claimable());
}

/// C15, for a snooze.
async fn a_snoozed_task_lets_others_pass_unless_strict(case: &Case) {
    let strict = Lane::of(&planner(2)).strict();
    for (lane, passes) in [(Lane::of(&planner(1)), true), (strict, false)] {
        let (claimed, second) = pair(case, &lane).await;
        case.finish(&claimed, Outcome::Snoozed { delay: Duration::from_secs(9) }).await.unwrap();
        assert_eq!(case.record(second).await.task.is_claimable(), passes);
    }
}

/// I7: given back is not given up: it stays first.
async fn a_released_task_keeps_its_slot(case: &Case) {
    let (claimed, second) = pair(case, &Lane::of(&planner(1))).await;
    case.apply(Command::Release { token: token(&claimed), note: None }).await.unwrap();
    assert!(case.record(second).await.task.is_parked());
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [claimed.task.id]);
}

/// I7, 1.7: what a dead worker held comes before what came later.
async fn a_recovered_task_keeps_its_slot(case: &Case) {
    let (claimed, second) = pair(case, &Lane::of(&planner(1))).await;
    case.pass(30);
    case.chores().await;
    assert!(case.record(second).await.task.is_parked());
    assert_eq!(ids(&case.claim(&case.worker("v").await, 9).await), [claimed.task.id]);
}

/// A task for tomorrow does not lock its entity today.
async fn a_delayed_task_takes_no_slot(case: &Case) {
    for strict in [false, true] {
        let lane = Lane::of(&planner(usize::from(strict)));
        let lane = Some(if strict { lane.strict() } else { lane });
        let start = Start::After(Duration::from_secs(60));
        let later = case.submit(NewTask { start, lane: lane.clone(), ..case.task() }).await;
        let now = case.submit(NewTask { lane, ..case.task() }).await;
        assert!(!case.record(later).await.task.status.slot, "strict: {strict}");
        assert!(case.record(now).await.task.is_claimable(), "strict: {strict}");
    }
}

/// I7: when it is due it joins the line at the place of its submission.
async fn a_due_task_waits_for_its_turn(case: &Case) {
    let start = Start::After(Duration::from_secs(5));
    let early = case.submit(NewTask { start, ..case.task_for("planner:1") }).await;
    let (claimed, parked) = pair(case, &Lane::of(&planner(1))).await;
    case.pass(5);
    case.chores().await;
    assert!(case.record(early).await.task.is_parked(), "pending, behind the one in progress");
    case.complete(&claimed).await;
    assert!(case.record(early).await.task.is_claimable(), "but before what was submitted later");
    assert!(case.record(parked).await.task.is_parked());
}

/// 4.6, 0.8: an operator's retry goes through the same door.
async fn a_reopened_task_waits_for_its_turn(case: &Case) {
    for state in STATES.into_iter().filter(|state| *state != State::Completed && state.is_final()) {
        if state == State::ResolvedManually {
            continue;
        }
        let lane = Some(Lane::of(&entity(&format!("planner:{state}"))));
        let over = case.bring(NewTask { lane: lane.clone(), ..case.task() }, state).await;
        let id = case.submit(NewTask { lane, ..case.task() }).await;
        let claimed = case.take(id, &case.worker("w").await).await;
        case.retry(over, true).await.unwrap();
        assert!(case.record(over).await.task.is_parked(), "{state}: its entity is busy");
        case.finish(&claimed, failed("x")).await.unwrap();
        assert!(case.record(over).await.task.is_claimable(), "{state}");
    }
}

/// I7: a slot is freed by the end of its task, so deleting what has ended frees no second one.
async fn deleting_frees_nothing_twice(case: &Case) {
    let (claimed, second) = pair(case, &Lane::of(&planner(1))).await;
    let third = case.submit(case.task_for("planner:1")).await;
    case.complete(&claimed).await;
    case.apply(Command::Delete { task: claimed.task.id }).await.unwrap();
    assert!(case.record(second).await.task.is_claimable());
    assert!(case.record(third).await.task.is_parked());
}
