//! What follows a failed attempt by itself.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use windlass_core::{
    Backoff, Command, Jitter, Lane, NewTask, Outcome, Reason, Rejected, RetryPolicy, State, Steering,
    WorkflowState, limits, roll,
};

use super::{Case, STATES, failed, finish, scenarios, token};
use crate::Claimed;

scenarios![
    attempts_are_counted_in_all,
    one_attempt_means_no_retry,
    without_a_limit_nothing_is_exhausted,
    the_backoff_doubles_to_its_cap,
    the_policy_of_the_row_rules,
    without_a_delay_it_is_pending_at_once,
    without_a_delay_it_goes_back_to_its_place_in_line,
    without_a_delay_a_strict_lane_is_kept,
    without_a_delay_a_step_of_a_paused_workflow_waits,
    a_delay_of_the_handler_wins,
    a_delay_of_the_handler_has_a_limit,
    jitter_is_the_same_in_every_store,
    it_is_not_claimable_before_its_moment,
    the_count_survives_the_wait,
    a_failure_for_good_is_not_retried,
    a_retry_is_put_off_and_brought_forward,
    only_what_waits_for_a_retry_is_put_off,
    putting_off_a_step_means_nothing_to_its_workflow,
];

/// Fails the task `times` times, each time as soon as it may run, and gives the delays that followed in
/// seconds.
async fn delays(case: &Case, new: NewTask, times: usize) -> Vec<u64> {
    let id = case.submit(new).await;
    let mut delays = Vec::new();
    for _ in 0..times {
        let worker = case.worker("w").await;
        let claimed = case.take(id, &worker).await;
        case.fail(&claimed, "no").await;
        let Some(due) = case.record(id).await.task.status.due_at else { break };
        delays.push(due.since(case.now()).as_secs());
        case.clock.set(due);
        case.chores().await;
    }
    delays
}

fn policy(backoff: Backoff, base: u64, cap: u64) -> RetryPolicy {
    let (base, cap) = (Duration::from_secs(base), Duration::from_secs(cap));
    RetryPolicy { backoff, base, cap, jitter: Jitter::None }
}

async fn failed_once(case: &Case, new: NewTask) -> Claimed {
    let id = case.submit(new).await;
    let claimed = case.take(id, &case.worker("w").await).await;
    case.fail(&claimed, "no").await;
    claimed
}

/// C7, I13, 4.5: N is the number of attempts. The default 3 fails twice into a wait and the third time for
/// good.
async fn attempts_are_counted_in_all(case: &Case) {
    let new = case.task();
    let id = new.id;
    assert_eq!(delays(case, new, 9).await, [1, 2]);
    let status = case.record(id).await.task.status;
    assert_eq!((status.state, status.attempt, status.lease), (State::DeadLetter, 3, 3));
    assert_eq!((status.error.as_deref(), status.finished_at), (Some("no"), Some(case.now())));
}

/// C1: with one attempt the first failure is recorded, and is the last.
async fn one_attempt_means_no_retry(case: &Case) {
    let claimed = failed_once(case, NewTask { max_attempts: NonZeroU32::new(1), ..case.task() }).await;
    let status = case.record(claimed.task.id).await.task.status;
    assert_eq!((status.state, status.attempt), (State::DeadLetter, 1));
    let due = case.store().due(9).await.unwrap();
    assert_eq!((due.commands, due.next), (vec![], None));
}

/// C80, 4.5: no limit, no dead letter.
async fn without_a_limit_nothing_is_exhausted(case: &Case) {
    let retry = policy(Backoff::Fixed, 1, 60);
    let new = NewTask { max_attempts: None, retry, ..case.task() };
    let id = new.id;
    assert_eq!(delays(case, new, 40).await, [1; 40]);
    let status = case.record(id).await.task.status;
    assert_eq!((status.state, status.attempt), (State::Pending, 40));
}

/// 0.11, C11, C43: min(2^n, 300) seconds, and no overflow further on.
async fn the_backoff_doubles_to_its_cap(case: &Case) {
    let retry = policy(Backoff::Exponential { factor: 2.0 }, 1, 300);
    let new = NewTask { max_attempts: None, retry, ..case.task() };
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300];
    let delays = delays(case, new, 36).await;
    assert_eq!((&delays[..12], delays[35]), (&expected[..], 300));
}

/// C22, C58: each kind of backoff, as it was stored with the task.
async fn the_policy_of_the_row_rules(case: &Case) {
    for (backoff, expected) in [
        (Backoff::Fixed, [5, 5, 5, 5]),
        (Backoff::Linear, [5, 10, 15, 18]),
        (Backoff::Fibonacci, [5, 5, 10, 15]),
        (Backoff::Exponential { factor: 1.5 }, [5, 7, 11, 16]),
    ] {
        let new = NewTask { max_attempts: None, retry: policy(backoff, 5, 18), ..case.task() };
        assert_eq!(delays(case, new, 4).await, expected, "{backoff:?}");
    }
}

/// A failure after which the task is tried again without delay.
fn failed_now() -> Outcome {
    Outcome::Failed { error: "no".into(), retryable: true, retry_after: Some(Duration::ZERO) }
}

/// C11: it waits for nobody, whether the policy says so or the handler. The same report again is fine.
async fn without_a_delay_it_is_pending_at_once(case: &Case) {
    let worker = case.worker("w").await;
    let none = NewTask { retry: policy(Backoff::None, 1, 60), ..case.task() };
    for (new, outcome) in [(none, failed("no")), (case.task(), failed_now())] {
        let id = case.submit(new).await;
        let claimed = case.take(id, &worker).await;
        let receipt = case.finish(&claimed, outcome.clone()).await.unwrap();
        assert_eq!((receipt.state, receipt.attempt), (State::Pending, 1));
        let record = case.record(id).await;
        let status = &record.task.status;
        assert_eq!((&status.worker, status.due_at, &status.error), (&None, None, &None));
        let last = record.history.last().unwrap();
        assert_eq!((last.from, last.to, last.reason), (Some(State::Running), State::Pending, Reason::Failed));
        assert_eq!((last.actor.as_deref(), last.note.as_deref()), (Some("w"), Some("no")));
        assert!(!case.finish(&claimed, outcome).await.unwrap().changed);
        assert_eq!(case.record(id).await, record);
        assert_eq!(case.store().due(9).await.unwrap().commands, []);
        let again = case.claim_one(&worker).await;
        assert_eq!((again.task.id, again.task.status.attempt, again.task.status.lease), (id, 2, 2));
        assert_eq!(case.complete(&again).await.state, State::Completed);
    }
}

/// I7: it gives its slot back as every retry does, and the slot goes to the first in line.
async fn without_a_delay_it_goes_back_to_its_place_in_line(case: &Case) {
    let worker = case.worker("w").await;
    let lane = || Some(Lane::new("door", 1).unwrap());
    let first = case.submit(NewTask { lane: lane(), ..case.task() }).await;
    let second = case.submit(NewTask { lane: lane(), ..case.task() }).await;
    let claimed = case.take(first, &worker).await;
    case.finish(&claimed, failed_now()).await.unwrap();
    let slots =
        async || [case.record(first).await.task.status.slot, case.record(second).await.task.status.slot];
    assert_eq!(slots().await, [true, false], "it is still the first");
    let claimed = case.take(first, &worker).await;
    case.fail(&claimed, "no").await;
    let claimed = case.take(second, &worker).await;
    case.pass(2);
    case.chores().await;
    assert_eq!(slots().await, [false, true]);
    case.finish(&claimed, failed_now()).await.unwrap();
    assert_eq!(slots().await, [true, false], "the first has come back meanwhile");
    assert_eq!(case.claim_one(&worker).await.task.id, first);
}

/// I7: a strict lane waits with it.
async fn without_a_delay_a_strict_lane_is_kept(case: &Case) {
    let worker = case.worker("w").await;
    let task = || NewTask { lane: Some(Lane::new("door", 1).unwrap().strict()), ..case.task() };
    let (first, second) = (case.submit(task()).await, case.submit(task()).await);
    let claimed = case.take(first, &worker).await;
    let turn = vec![finish(&claimed, failed_now()), Command::Claim { task: first, worker: worker.clone() }];
    assert!(case.store().apply(turn).await.unwrap().iter().all(Result::is_ok));
    assert_eq!((case.state(first).await, case.state(second).await), (State::Claimed, State::Pending));
}

/// C69: nothing of a paused workflow is handed out. Its retries are counted either way.
async fn without_a_delay_a_step_of_a_paused_workflow_waits(case: &Case) {
    let id = case.start(1, json!({ "a": { "retry": { "backoff": "none" } } })).await;
    let worker = case.worker("w").await;
    let claimed = case.claim_one(&worker).await;
    case.fail(&claimed, "no").await;
    assert_eq!(case.workflow(id).await.workflow.retries, 1);
    let claimed = case.claim_one(&worker).await;
    case.store().steer(id, Steering::Pause, windlass_core::By::default()).await.unwrap();
    case.fail(&claimed, "no").await;
    assert_eq!(case.state(claimed.task.id).await, State::Waiting);
    assert_eq!(case.workflow(id).await.workflow.retries, 2);
    case.store().steer(id, Steering::Resume, windlass_core::By::default()).await.unwrap();
    assert_eq!(case.claim_one(&worker).await.task.status.attempt, 3);
}

/// C58, 2.10: a Retry-After wins over the policy, even above its cap.
async fn a_delay_of_the_handler_wins(case: &Case) {
    let worker = case.worker("w").await;
    for seconds in [0, 1, 3600] {
        let id = case.submit(case.task()).await;
        let claimed = case.take(id, &worker).await;
        let retry_after = Some(Duration::from_secs(seconds));
        let outcome = Outcome::Failed { error: "busy".into(), retryable: true, retry_after };
        case.finish(&claimed, outcome).await.unwrap();
        let due = case.record(id).await.task.status.due_at;
        let wait = due.map(|due| due.since(case.now()).as_secs());
        assert_eq!(wait, Some(seconds).filter(|seconds| *seconds > 0));
        case.cancel(id).await.unwrap();
    }
}

/// C58: up to its own limit of 30 days.
async fn a_delay_of_the_handler_has_a_limit(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.take(id, &case.worker("w").await).await;
    let retry_after = Some(Duration::MAX);
    let outcome = Outcome::Failed { error: "busy".into(), retryable: true, retry_after };
    case.finish(&claimed, outcome).await.unwrap();
    let due = case.record(id).await.task.status.due_at.unwrap();
    assert_eq!(due.since(case.now()), limits::RETRY_AFTER);
}

/// C31: jitter comes from the claim's identity, after the cap and never above it.
async fn jitter_is_the_same_in_every_store(case: &Case) {
    for jitter in [Jitter::Full, Jitter::Percent(50)] {
        let retry = RetryPolicy { jitter, ..policy(Backoff::Fixed, 60, 60) };
        for _ in 0..8 {
            let claimed = failed_once(case, NewTask { retry, ..case.task() }).await;
            let id = claimed.task.id;
            let delay = case.record(id).await.task.status.due_at.unwrap().since(case.now());
            assert_eq!(delay, retry.delay(1, roll(id, token(&claimed).lease)), "{jitter:?}");
            assert!(delay <= retry.cap, "{delay:?} is above the cap");
        }
    }
}

/// 1.4: until then it is neither claimable nor promoted.
async fn it_is_not_claimable_before_its_moment(case: &Case) {
    let claimed = failed_once(case, case.task()).await;
    let worker = case.worker("w").await;
    case.clock.advance(Duration::from_micros(999_999));
    assert_eq!(case.chores().await, 0);
    assert_eq!(case.claim(&worker, 9).await, []);
    case.clock.advance(Duration::from_micros(1));
    assert_eq!(case.chores().await, 1);
    assert_eq!(case.claim_one(&worker).await.task.id, claimed.task.id);
}

/// C6, 0.10: pending again with its count, and without the error.
async fn the_count_survives_the_wait(case: &Case) {
    let claimed = failed_once(case, case.task()).await;
    case.pass(1);
    case.chores().await;
    let status = case.record(claimed.task.id).await.task.status;
    assert_eq!((status.state, status.attempt, status.error), (State::Pending, 1, None));
    let again = case.claim_one(&case.worker("w").await).await;
    assert_eq!((again.task.status.attempt, again.task.status.lease), (2, 2));
}

/// C14, C29: not retryable means failed, not dead letter, also on the last attempt.
async fn a_failure_for_good_is_not_retried(case: &Case) {
    for max_attempts in [NonZeroU32::new(1), NonZeroU32::new(5), None] {
        let id = case.submit(NewTask { max_attempts, ..case.task() }).await;
        let claimed = case.take(id, &case.worker("w").await).await;
        let receipt = case.finish(&claimed, super::failed_for_good("bad payload")).await.unwrap();
        assert_eq!(receipt.state, State::Failed);
    }
}

/// 2.11: due so long after now, whatever it waited for before. Nothing else changes: its history, its error
/// and when it failed stay.
async fn a_retry_is_put_off_and_brought_forward(case: &Case) {
    let task = failed_once(case, case.task()).await.task.id;
    let before = case.record(task).await;
    let put_off = async |delay, wait, changed| {
        let receipt = case.apply(Command::Postpone { task, delay }).await.unwrap();
        assert_eq!((receipt.state, receipt.changed), (State::WaitingForRetry, changed));
        let mut expected = before.clone();
        expected.task.status.due_at = Some(case.now().plus(wait));
        assert_eq!(case.record(task).await, expected);
        assert_eq!(case.store().due(9).await.unwrap().commands.len(), usize::from(wait.is_zero()));
    };
    let hour = Duration::from_secs(3600);
    put_off(hour, hour, true).await;
    put_off(hour, hour, false).await;
    case.pass(60);
    put_off(hour, hour, true).await;
    put_off(Duration::MAX, limits::RETRY_AFTER, true).await;
    put_off(Duration::from_secs(2), Duration::from_secs(2), true).await;
    put_off(Duration::ZERO, Duration::ZERO, true).await;
    assert_eq!(case.chores().await, 1);
    let again = case.claim_one(&case.worker("w").await).await;
    assert_eq!((again.task.id, again.task.status.attempt), (task, 2));
}

/// 2.11: anywhere else it means nothing.
async fn only_what_waits_for_a_retry_is_put_off(case: &Case) {
    for state in STATES.into_iter().filter(|state| *state != State::WaitingForRetry) {
        let task = case.bring(case.task(), state).await;
        let before = case.record(task).await;
        let refused = case.refusal(Command::Postpone { task, delay: Duration::ZERO }).await;
        assert_eq!(refused, Rejected::NotRetrying { task, state });
        assert_eq!(case.record(task).await, before);
    }
    // Told in one turn: the failure first, then for how long.
    let id = case.submit(case.task()).await;
    let claimed = case.take(id, &case.worker("w").await).await;
    let delay = Duration::from_secs(77);
    let commands = vec![
        Command::Postpone { task: id, delay },
        finish(&claimed, failed("no")),
        Command::Postpone { task: id, delay },
    ];
    let receipts = case.store().apply(commands).await.unwrap();
    assert_eq!(receipts[0], Err(Rejected::NotRetrying { task: id, state: State::Claimed }));
    assert!(receipts[1..].iter().all(|receipt| receipt.as_ref().is_ok_and(|receipt| receipt.changed)));
    assert_eq!(case.record(id).await.task.status.due_at, Some(case.now().plus(delay)));
}

/// 2.4, 2.11: whoever owns the workflow goes on owning it, wherever that has moved it.
async fn putting_off_a_step_means_nothing_to_its_workflow(case: &Case) {
    let id = case.start(1, json!({ "a": {}, "b": {} })).await;
    let held = case.claim(&case.worker("w").await, 2).await;
    case.fail(&held[0], "no").await;
    let (from, to) = (WorkflowState::StepsInProcess, WorkflowState::EvaluatingResults);
    let hold = Duration::from_secs(30);
    let steering = Steering::Move { from, to, owner: "somebody".into(), hold };
    case.store().steer(id, steering, windlass_core::By::default()).await.unwrap();
    let before = case.workflow(id).await;
    case.pass(1);
    let (task, delay) = (held[0].task.id, Duration::from_secs(9));
    case.apply(Command::Postpone { task, delay }).await.unwrap();
    assert_eq!(case.workflow(id).await, before);
    assert_eq!(case.record(task).await.task.status.due_at, Some(case.now().plus(delay)));
}
