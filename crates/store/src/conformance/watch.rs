//! Wake-up signals: something may be there to claim, or to let go.

use std::time::Duration;

use tokio::sync::watch;
use windlass_core::{Command, Name, NewTask, Start, State};

use super::{Case, scenarios, token};

scenarios![
    a_submit_wakes,
    a_promotion_wakes,
    a_given_back_task_wakes,
    a_freed_slot_wakes,
    a_cancel_wakes,
    a_resumed_queue_wakes,
    every_listener_is_woken,
];

/// Waits for a signal; a signal that does not come is a failure and not a test that hangs.
async fn rings(mut bell: watch::Receiver<u64>, after: &str) {
    let rang = tokio::time::timeout(Duration::from_secs(10), bell.changed()).await;
    assert!(matches!(rang, Ok(Ok(()))), "no signal after {after}");
}

/// C30, C54: new work does not wait for a poll.
async fn a_submit_wakes(case: &Case) {
    let bell = case.store().watch();
    case.submit(case.task()).await;
    rings(bell, "a submit").await;
}

/// C54: when its moment comes.
async fn a_promotion_wakes(case: &Case) {
    case.submit(NewTask { start: Start::After(Duration::from_secs(1)), ..case.task() }).await;
    case.pass(1);
    let bell = case.store().watch();
    case.chores().await;
    rings(bell, "a promotion").await;
}

/// Released, expired or taken away, it is there for others.
async fn a_given_back_task_wakes(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.take(id, &case.worker("w").await).await;
    let bell = case.store().watch();
    case.apply(Command::Release { token: token(&claimed), note: None }).await.unwrap();
    rings(bell, "a release").await;
    case.take(id, &case.worker("w").await).await;
    case.pass(30);
    let bell = case.store().watch();
    case.chores().await;
    rings(bell, "an expired lease").await;
    let failed = case.bring(case.task(), State::Failed).await;
    let bell = case.store().watch();
    case.retry(failed, true).await.unwrap();
    rings(bell, "an operator's retry").await;
}

/// 0.8: the end of one task is the beginning of the next.
async fn a_freed_slot_wakes(case: &Case) {
    case.submit(case.task_for("planner:1")).await;
    case.submit(case.task_for("planner:1")).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    let bell = case.store().watch();
    case.complete(&claimed).await;
    rings(bell, "a freed slot").await;
}

/// I19: a handler should stop soon.
async fn a_cancel_wakes(case: &Case) {
    let id = case.bring(case.task(), State::Running).await;
    let bell = case.store().watch();
    case.cancel(id).await.unwrap();
    rings(bell, "a cancel").await;
}

/// What was held back is there at once.
async fn a_resumed_queue_wakes(case: &Case) {
    case.submit(case.task()).await;
    case.store().pause(&Name::default(), &Name::default(), true).await.unwrap();
    let bell = case.store().watch();
    case.store().pause(&Name::default(), &Name::default(), false).await.unwrap();
    rings(bell, "a resumed queue").await;
}

/// One signal, all who listen.
async fn every_listener_is_woken(case: &Case) {
    let bells = [case.store().watch(), case.store().watch(), case.store().watch()];
    case.submit(case.task()).await;
    for bell in bells {
        rings(bell, "a submit").await;
    }
}
