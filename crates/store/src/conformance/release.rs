//! Giving a claim back: released by its worker, snoozed by its handler. Neither costs an attempt.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{Command, NewTask, Outcome, Reason, State, limits};

use super::{Case, completed, finish, scenarios, token};
use crate::Claimed;

scenarios![
    a_released_task_is_pending_again,
    a_running_task_can_be_released,
    a_released_lease_is_lost,
    releases_never_exhaust_a_task,
    a_snoozed_task_comes_back_later,
    snoozing_twice_is_fine,
    a_snooze_has_a_limit,
];

fn release(claimed: &Claimed, note: &str) -> Command {
    Command::Release { token: token(claimed), note: Some(note.into()) }
}

/// C20: pending, nobody's, the attempt given back, and the reason kept.
async fn a_released_task_is_pending_again(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    let receipt = case.apply(release(&claimed, "shutting down")).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt, receipt.lease), (State::Pending, 0, 1));
    let record = case.record(id).await;
    let status = &record.task.status;
    assert_eq!((&status.worker, status.claimed_at, status.started_at), (&None, None, None));
    let last = record.history.last().unwrap();
    assert_eq!((last.reason, last.note.as_deref()), (Reason::Released, Some("shutting down")));
    assert_eq!(last.actor.as_deref(), Some("w"));
    let again = case.claim_one(&case.worker("v").await).await;
    assert_eq!((again.task.status.attempt, again.task.status.lease), (1, 2), "a new lease, the same attempt");
}

/// 4: running → pending on shutdown.
async fn a_running_task_can_be_released(case: &Case) {
    let id = case.bring(case.task(), State::Running).await;
    let claimed = case.held(id).await;
    let receipt = case.apply(release(&claimed, "shutting down")).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt), (State::Pending, 0));
}

/// I5: who has given a task back holds it no more: it can neither finish it nor give it back again.
async fn a_released_lease_is_lost(case: &Case) {
    case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.apply(release(&claimed, "")).await.unwrap();
    let start = Command::Start { token: token(&claimed), at: None };
    for command in [finish(&claimed, completed("1")), start, release(&claimed, "again")] {
        assert_eq!(case.refusal(command).await.code(), "lease_lost");
    }
}

/// I13: a task with one attempt survives any number of releases and snoozes.
async fn releases_never_exhaust_a_task(case: &Case) {
    let id = case.submit(NewTask { max_attempts: NonZeroU32::new(1), ..case.task() }).await;
    let worker = case.worker("w").await;
    for _ in 0..5 {
        let claimed = case.take(id, &worker).await;
        case.apply(release(&claimed, "")).await.unwrap();
        let claimed = case.take(id, &worker).await;
        case.finish(&claimed, Outcome::Snoozed { delay: Duration::ZERO }).await.unwrap();
        case.chores().await;
    }
    let claimed = case.take(id, &worker).await;
    assert_eq!((claimed.task.status.attempt, claimed.task.status.lease), (1, 11));
    assert_eq!(case.complete(&claimed).await.state, State::Completed);
}

/// 4: scheduled until then, not an error, the attempt given back.
async fn a_snoozed_task_comes_back_later(case: &Case) {
    let id = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    let claimed = case.claim_one(&worker).await;
    let outcome = Outcome::Snoozed { delay: Duration::from_secs(20) };
    let receipt = case.finish(&claimed, outcome).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt), (State::Scheduled, 0));
    let status = case.record(id).await.task.status;
    assert_eq!(status.due_at, Some(case.now().plus(Duration::from_secs(20))));
    assert_eq!((status.worker, status.error), (None, None));
    case.pass(19);
    assert_eq!(case.chores().await, 0, "not yet");
    case.pass(1);
    assert_eq!(case.chores().await, 1);
    assert_eq!(case.claim_one(&worker).await.task.status.attempt, 1);
}

/// 3.5: again changes nothing, not even the moment.
async fn snoozing_twice_is_fine(case: &Case) {
    case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.finish(&claimed, Outcome::Snoozed { delay: Duration::from_secs(20) }).await.unwrap();
    let before = case.snapshot().await;
    case.pass(5);
    let again = Outcome::Snoozed { delay: Duration::from_secs(20) };
    assert!(!case.finish(&claimed, again).await.unwrap().changed);
    assert_eq!(case.snapshot().await, before);
}

/// Limits: at most 30 days at a time.
async fn a_snooze_has_a_limit(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.finish(&claimed, Outcome::Snoozed { delay: Duration::MAX }).await.unwrap();
    let due = case.record(id).await.task.status.due_at.unwrap();
    assert_eq!(due.since(case.now()), limits::RETRY_AFTER);
}
