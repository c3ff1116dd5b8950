//! An operator intervenes: run it now, settle it by hand, delete it.

use windlass_core::{By, Command, Json, Name, Reason, Rejected, State, TaskId};

use super::{Case, KIND, STATES, completed, finish, ids, scenarios};
use crate::{Filter, Page};

scenarios![
    a_retry_of_a_pending_task_is_done_already,
    a_retry_ends_the_wait,
    a_retry_takes_a_held_task_away,
    a_retry_of_a_failed_task_keeps_the_count,
    a_retry_clears_what_the_end_left,
    a_retry_without_attempts_needs_force,
    force_starts_a_new_life,
    what_never_changes_cannot_be_retried,
    resolving_settles_by_hand,
    resolving_needs_no_result,
    resolving_twice_keeps_the_first,
    what_is_settled_cannot_be_resolved,
    a_resolved_handler_cannot_report,
    only_what_is_over_can_be_deleted,
    deleting_leaves_nothing,
];

/// 4.6: pending → ok, nothing happens.
async fn a_retry_of_a_pending_task_is_done_already(case: &Case) {
    let id = case.submit(case.task()).await;
    let before = case.snapshot().await;
    for force in [false, true] {
        assert!(!case.retry(id, force).await.unwrap().changed);
    }
    assert_eq!(case.snapshot().await, before);
}

/// A delay or a backoff is cut short.
async fn a_retry_ends_the_wait(case: &Case) {
    for state in [State::Scheduled, State::WaitingForRetry] {
        let id = case.bring(case.task(), state).await;
        let receipt = case.retry(id, false).await.unwrap();
        assert_eq!((receipt.state, receipt.changed), (State::Pending, true));
        assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [id], "{state}");
    }
    assert_eq!(case.store().due(9).await.unwrap().next, None, "no moment is left to wait for");
}

/// 4.6, I4: claimed with attempts left → pending; the old holder's lease is lost.
async fn a_retry_takes_a_held_task_away(case: &Case) {
    for state in [State::Claimed, State::Running] {
        let id = case.bring(case.task(), state).await;
        let old = case.held(id).await;
        let receipt = case.retry(id, false).await.unwrap();
        assert_eq!((receipt.state, receipt.attempt), (State::Pending, 1), "the attempt is spent");
        assert_eq!(case.refusal(finish(&old, completed("1"))).await.code(), "lease_lost", "{state}");
        assert_eq!(case.claim_one(&case.worker("w").await).await.task.status.lease, 2);
    }
}

/// 0.10, 4.6: failed with attempts left → pending, count kept, error cleared.
async fn a_retry_of_a_failed_task_keeps_the_count(case: &Case) {
    let id = case.bring(case.task(), State::Failed).await;
    case.retry(id, false).await.unwrap();
    let record = case.record(id).await;
    let status = &record.task.status;
    assert_eq!((status.state, status.attempt, &status.error), (State::Pending, 1, &None));
    assert_eq!(record.history.last().unwrap().reason, Reason::Retried);
    assert_eq!(case.claim_one(&case.worker("w").await).await.task.status.attempt, 2);
}

/// C78: no finish time, no holder, beside pending.
async fn a_retry_clears_what_the_end_left(case: &Case) {
    for state in [State::Failed, State::DeadLetter, State::Cancelled] {
        let id = case.bring(case.task(), state).await;
        case.pass(5);
        case.retry(id, true).await.unwrap();
        let status = case.record(id).await.task.status;
        assert_eq!((status.state, status.finished_at, status.error), (State::Pending, None, None), "{state}");
        assert_eq!((status.worker, status.claimed_at, status.started_at), (None, None, None), "{state}");
        assert_eq!(status.updated_at, case.now());
    }
}

/// 4.6, C70: attempts exhausted → max attempts reached, held or dead.
async fn a_retry_without_attempts_needs_force(case: &Case) {
    let dead = case.bring(case.task(), State::DeadLetter).await;
    let last = windlass_core::NewTask { max_attempts: std::num::NonZeroU32::new(1), ..case.task() };
    let held = case.bring(last, State::Running).await;
    for task in [dead, held] {
        let refused = case.refusal(Command::Retry { task, force: false, by: By::default() }).await;
        assert_eq!(refused, Rejected::MaxAttempts { task, attempt: 1, max: 1 });
    }
}

/// C70, I3: all attempts again, told apart in the history; lease numbers go on.
async fn force_starts_a_new_life(case: &Case) {
    let task = case.bring(case.task(), State::DeadLetter).await;
    let by = By { actor: Some("ada".into()), note: Some("fixed the server".into()) };
    let receipt = case.apply(Command::Retry { task, force: true, by }).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt, receipt.lease), (State::Pending, 0, 1));
    let last = case.record(task).await.history.pop().unwrap();
    assert_eq!((last.from, last.reason), (Some(State::DeadLetter), Reason::Reopened));
    assert_eq!((last.actor.as_deref(), last.note.as_deref()), (Some("ada"), Some("fixed the server")));
    let claimed = case.claim_one(&case.worker("w").await).await;
    assert_eq!((claimed.task.status.attempt, claimed.task.status.lease), (1, 2));
    assert_eq!(case.fail(&claimed, "again").await.state, State::DeadLetter, "its limit is still 1");
}

/// 0.7, 3.4, 4.6: completed is for ever, and so is resolved.
async fn what_never_changes_cannot_be_retried(case: &Case) {
    for force in [false, true] {
        let task = case.bring(case.task(), State::Completed).await;
        let refused = case.refusal(Command::Retry { task, force, by: By::default() }).await;
        assert_eq!(refused, Rejected::TaskCompleted { task });
        let task = case.bring(case.task(), State::ResolvedManually).await;
        let refused = case.refusal(Command::Retry { task, force, by: By::default() }).await;
        assert_eq!(refused, Rejected::Settled { task, state: State::ResolvedManually });
    }
}

fn resolve(task: TaskId, result: &str) -> Command {
    let by = By { actor: Some("ada".into()), note: Some("did it by hand".into()) };
    Command::Resolve { task, result: Some(Json::result(result).unwrap()), by }
}

/// Any state that is not settled → resolved_manually, with the result it would have had.
async fn resolving_settles_by_hand(case: &Case) {
    for state in STATES {
        if matches!(state, State::Completed | State::Cancelled | State::ResolvedManually) {
            continue;
        }
        let id = case.bring(case.task(), state).await;
        let receipt = case.apply(resolve(id, "{\"by\":\"hand\"}")).await.unwrap();
        assert_eq!((receipt.state, receipt.changed), (State::ResolvedManually, true), "{state}");
        let record = case.record(id).await;
        assert_eq!(record.result.unwrap().as_str(), "{\"by\":\"hand\"}");
        let status = &record.task.status;
        assert_eq!((status.finished_at, &status.error), (Some(case.now()), &None), "{state}");
        let last = record.history.last().unwrap();
        assert_eq!((last.from, last.reason), (Some(state), Reason::Resolved));
        assert_eq!(last.actor.as_deref(), Some("ada"));
    }
    assert_eq!(case.claim(&case.worker("w").await, 9).await, []);
}

/// C65: absent is absent, and `null` is a result.
async fn resolving_needs_no_result(case: &Case) {
    let with = case.submit(case.task()).await;
    let without = case.submit(case.task()).await;
    case.apply(resolve(with, "null")).await.unwrap();
    case.apply(Command::Resolve { task: without, result: None, by: By::default() }).await.unwrap();
    assert_eq!(case.record(with).await.result, Some(Json::default()));
    assert_eq!(case.record(without).await.result, None);
}

/// 3.5: the second time nothing changes.
async fn resolving_twice_keeps_the_first(case: &Case) {
    let id = case.submit(case.task()).await;
    case.apply(resolve(id, "1")).await.unwrap();
    let before = case.snapshot().await;
    assert!(!case.apply(resolve(id, "2")).await.unwrap().changed);
    assert_eq!(case.snapshot().await, before);
}

/// 0.7: completed never changes, and what was cancelled is reopened first.
async fn what_is_settled_cannot_be_resolved(case: &Case) {
    let task = case.bring(case.task(), State::Completed).await;
    assert_eq!(case.refusal(resolve(task, "1")).await, Rejected::TaskCompleted { task });
    let task = case.bring(case.task(), State::Cancelled).await;
    let expected = Rejected::Settled { task, state: State::Cancelled };
    assert_eq!(case.refusal(resolve(task, "1")).await, expected);
}

/// I3, I5: the operator's word is the last.
async fn a_resolved_handler_cannot_report(case: &Case) {
    let task = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.apply(resolve(task, "1")).await.unwrap();
    let refused = case.refusal(finish(&claimed, completed("2"))).await;
    assert_eq!(refused, Rejected::Settled { task, state: State::ResolvedManually });
}

/// 4.7, C77: an active task is refused in words of its own.
async fn only_what_is_over_can_be_deleted(case: &Case) {
    for state in STATES {
        let task = case.bring(case.task(), state).await;
        if state.is_final() {
            let receipt = case.apply(Command::Delete { task }).await.unwrap();
            assert_eq!((receipt.state, receipt.changed), (state, true), "where it was");
        } else {
            let refused = case.refusal(Command::Delete { task }).await;
            assert_eq!(refused, Rejected::NotFinal { task, state });
        }
    }
}

/// 3.3, 4.7: the row, its history, its key and its place in every count go together.
async fn deleting_leaves_nothing(case: &Case) {
    let other = case.bring(case.task_with_key("other"), State::Completed).await;
    let task = case.bring(case.task_with_key("k"), State::Completed).await;
    case.apply(Command::Delete { task }).await.unwrap();
    assert_eq!(case.store().task(task).await.unwrap(), None);
    assert_eq!(case.store().explain(task).await.unwrap(), None);
    assert_eq!(
        case.store().find(Name::default(), Name::kind(KIND).unwrap(), "k".into()).await.unwrap(),
        None
    );
    let listed = case.store().tasks(Filter::default(), Page::default()).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), [other]);
    assert_eq!(case.store().counts().await.unwrap()[0].tasks, 1);
    assert_eq!(case.refusal(Command::Delete { task }).await, Rejected::NotFound { task });
}
