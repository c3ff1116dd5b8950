//! Ending a claim: outcomes, repeats, and who may not.

use std::time::Duration;

use windlass_core::{Command, Outcome, Reason, Rejected, State, Token};

use super::{Case, completed, failed, failed_for_good, finish, scenarios, token};

scenarios![
    completing_keeps_the_result,
    results_of_every_shape_are_kept,
    a_permanent_failure_is_final,
    completing_twice_keeps_the_first_result,
    failing_twice_changes_nothing,
    an_outcome_cannot_be_changed,
    what_is_not_claimed_cannot_be_finished,
    another_worker_cannot_finish,
    an_old_lease_changes_nothing,
    a_start_is_recorded_once,
    a_start_lies_between_claim_and_now,
    a_finish_records_the_true_start,
    a_handler_may_cancel_its_task,
    a_failure_always_has_words,
    success_clears_the_error,
];

/// 3.4, 0.9, C25: completed, with result and finish time, and its last holder still named.
async fn completing_keeps_the_result(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.pass(3);
    let receipt = case.finish(&claimed, completed(r#"{"sent":true}"#)).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt, receipt.changed), (State::Completed, 1, true));
    let record = case.record(id).await;
    assert_eq!(record.result.as_ref().map(|result| result.as_str()), Some(r#"{"sent":true}"#));
    let status = &record.task.status;
    assert_eq!((status.finished_at, status.error.as_ref()), (Some(case.now()), None));
    assert_eq!(status.worker, claimed.task.status.worker);
}

/// C65: presence is what counts. `null`, 0, "", {} and [] are results.
async fn results_of_every_shape_are_kept(case: &Case) {
    let worker = case.worker("w").await;
    for text in ["null", "0", "\"\"", "{}", "[]", "false", " 1.0 ", "\"\\u0000\""] {
        let id = case.submit(case.task()).await;
        let claimed = case.claim_one(&worker).await;
        case.finish(&claimed, completed(text)).await.unwrap();
        let result = case.record(id).await.result.unwrap_or_else(|| panic!("{text} was dropped"));
        assert_eq!(result.as_str(), text);
    }
}

/// 1.2, C25, C29: failed at once, whatever attempts are left, with error and finish time.
async fn a_permanent_failure_is_final(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    let receipt = case.finish(&claimed, failed_for_good("no such address")).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt), (State::Failed, 1));
    let record = case.record(id).await;
    assert_eq!(record.task.status.error.as_deref(), Some("no such address"));
    assert_eq!((record.task.status.finished_at, record.result), (Some(case.now()), None));
    assert_eq!(case.store().due(9).await.unwrap().commands, [], "nothing more happens by itself");
}

/// 3.5, 4.4: the second time nothing changes, and the first result stays.
async fn completing_twice_keeps_the_first_result(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.finish(&claimed, completed("1")).await.unwrap();
    let before = case.snapshot().await;
    case.pass(5);
    let receipt = case.finish(&claimed, completed("2")).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Completed, false));
    assert_eq!(case.snapshot().await, before);
    assert_eq!(case.record(id).await.result.unwrap().as_str(), "1");
}

/// 3.5, 4.5: a failure may be reported again, whether it led to a retry, to `failed` or to dead letters.
async fn failing_twice_changes_nothing(case: &Case) {
    let worker = case.worker("w").await;
    for outcome in [failed("first"), failed_for_good("first")] {
        for attempts in [1, 3] {
            let max_attempts = std::num::NonZeroU32::new(attempts);
            case.submit(windlass_core::NewTask { max_attempts, ..case.task() }).await;
            let claimed = case.claim_one(&worker).await;
            let first = case.finish(&claimed, outcome.clone()).await.unwrap();
            let before = case.snapshot().await;
            for again in [failed("second"), failed_for_good("second")] {
                if first.state == State::WaitingForRetry && again != failed("second") {
                    let refused = case.refusal(finish(&claimed, again)).await;
                    assert_eq!(refused.code(), "lease_lost", "it has ended, and otherwise");
                    continue;
                }
                let second = case.finish(&claimed, again).await.unwrap();
                assert_eq!((second.state, second.changed), (first.state, false));
            }
            assert_eq!(case.snapshot().await, before);
        }
    }
}

/// 0.7, 3.4, 4.4, 4.5: completed does not become failed, nor failed completed.
async fn an_outcome_cannot_be_changed(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    case.complete(&claimed).await;
    for outcome in [failed("x"), failed_for_good("x"), Outcome::Cancelled { note: "x".into() }] {
        let refused = case.refusal(finish(&claimed, outcome)).await;
        assert_eq!(refused, Rejected::TaskCompleted { task });
    }
    let task = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    case.finish(&claimed, failed_for_good("x")).await.unwrap();
    let refused = case.refusal(finish(&claimed, completed("1"))).await;
    assert_eq!(refused, Rejected::TaskFailed { task, state: State::Failed });
}

/// 3.4, 4.4, 4.5, C62: a pending task becomes neither completed nor failed, whatever lease is invented.
async fn what_is_not_claimed_cannot_be_finished(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    for lease in [0, 1, 7] {
        let token = Token { task, lease, worker: worker.clone() };
        let not_claimed = Rejected::NotClaimed { task, state: State::Pending };
        for command in writes(&token) {
            assert_eq!(case.refusal(command).await, not_claimed, "lease {lease}");
        }
    }
}

/// All that a token can be used for.
fn writes(token: &Token) -> Vec<Command> {
    let outcomes = [
        completed("1"),
        failed("x"),
        Outcome::Snoozed { delay: Duration::ZERO },
        Outcome::Cancelled { note: String::new() },
    ];
    let finish = |outcome| Command::Finish { token: token.clone(), outcome, started_at: None };
    let start = Command::Start { token: token.clone(), at: None };
    let release = Command::Release { token: token.clone(), note: None };
    outcomes.map(finish).into_iter().chain([start, release]).collect()
}

/// 4.4, C69: the right lease in the wrong hands is refused.
async fn another_worker_cannot_finish(case: &Case) {
    let (holder, other) = (case.worker("holder").await, case.worker("other").await);
    let task = case.submit(case.task()).await;
    let claimed = case.claim_one(&holder).await;
    let foreign = Token { worker: other.clone(), ..token(&claimed) };
    for command in writes(&foreign) {
        let expected = Rejected::WrongWorker { task, worker: other.clone(), holder: holder.clone() };
        assert_eq!(case.refusal(command).await, expected);
    }
    case.complete(&claimed).await;
}

/// I5, C21: after a new claim by the same worker, the old token is good for nothing.
async fn an_old_lease_changes_nothing(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    let old = case.claim_one(&worker).await;
    case.apply(Command::Release { token: token(&old), note: None }).await.unwrap();
    let new = case.claim_one(&worker).await;
    assert_eq!((old.task.status.lease, new.task.status.lease), (1, 2), "a number is never used again");
    for command in writes(&token(&old)) {
        let expected = Rejected::LeaseLost { task, lease: 1, current: 2, state: State::Claimed };
        assert_eq!(case.refusal(command).await, expected);
    }
    case.complete(&new).await;
    for command in writes(&token(&old)) {
        assert_eq!(case.refusal(command).await.code(), "lease_lost", "also when it is over");
    }
}

/// 1.1 (started_at), 3.5: claimed to running; again, nothing.
async fn a_start_is_recorded_once(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.pass(1);
    let start = Command::Start { token: token(&claimed), at: None };
    let receipt = case.apply(start.clone()).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Running, true));
    assert_eq!(case.record(id).await.task.status.started_at, Some(case.now()));
    let before = case.snapshot().await;
    case.pass(1);
    assert!(!case.apply(start).await.unwrap().changed);
    assert_eq!(case.snapshot().await, before);
}

/// A reported start is moved between the claim and now: histories do not go back, nor ahead.
async fn a_start_lies_between_claim_and_now(case: &Case) {
    let worker = case.worker("w").await;
    let claimed_at = case.now();
    for (said, seconds) in [(-5, 0), (4, 4), (99, 10)] {
        case.clock.set(claimed_at);
        let id = case.submit(case.task()).await;
        let claimed = case.take(id, &worker).await;
        case.pass(10);
        let at = windlass_core::Timestamp::from_micros(claimed_at.as_micros() + said * 1_000_000);
        case.apply(Command::Start { token: token(&claimed), at: Some(at) }).await.unwrap();
        let started = case.record(id).await.task.status.started_at.unwrap();
        assert_eq!(started.since(claimed_at), Duration::from_secs(seconds), "said {said} s");
    }
}

/// C62: a finish without a start passes through running, at the moment the handler really began.
async fn a_finish_records_the_true_start(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    let began = case.now().plus(Duration::from_secs(2));
    case.pass(5);
    let (token, outcome) = (token(&claimed), completed("1"));
    case.apply(Command::Finish { token, outcome, started_at: Some(began) }).await.unwrap();
    let record = case.record(id).await;
    assert_eq!(record.task.status.started_at, Some(began));
    let walked: Vec<_> = record.history.iter().map(|entry| (entry.to, entry.at)).collect();
    let now = case.now();
    let submitted = began.minus(Duration::from_secs(2));
    let expected = [
        (State::Pending, submitted),
        (State::Claimed, submitted),
        (State::Running, began),
        (State::Completed, now),
    ];
    assert_eq!(walked, expected);
}

/// An outcome of its own: not done, and not a failure.
async fn a_handler_may_cancel_its_task(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    let outcome = Outcome::Cancelled { note: "order withdrawn".into() };
    let receipt = case.finish(&claimed, outcome.clone()).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Cancelled, true));
    assert!(!case.finish(&claimed, outcome).await.unwrap().changed, "again is fine");
    let last = case.record(id).await.history.pop().unwrap();
    assert_eq!((last.reason, last.note.as_deref()), (Reason::Cancelled, Some("order withdrawn")));
    assert_eq!(last.actor.as_deref(), Some("w"));
}

/// 0.2, 3.2, 4.5: no error is fine to report, and never stored as nothing.
async fn a_failure_always_has_words(case: &Case) {
    let worker = case.worker("w").await;
    for outcome in [failed(""), failed_for_good("")] {
        let id = case.submit(case.task()).await;
        let claimed = case.claim_one(&worker).await;
        case.finish(&claimed, outcome).await.unwrap();
        let error = case.record(id).await.task.status.error;
        assert!(error.is_some_and(|error| !error.is_empty()), "an error without words");
    }
}

/// 0.9: a success after failures has no error beside it; the history keeps them.
async fn success_clears_the_error(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    case.fail(&claimed, "first try").await;
    assert_eq!(case.record(id).await.task.status.error.as_deref(), Some("first try"));
    case.pass(1);
    case.chores().await;
    assert_eq!(case.record(id).await.task.status.error, None, "0.10: pending has none");
    let claimed = case.claim_one(&worker).await;
    case.complete(&claimed).await;
    let record = case.record(id).await;
    assert_eq!(record.task.status.error, None);
    assert!(record.history.iter().any(|entry| entry.note.as_deref() == Some("first try")));
}
