//! Numbers and moments at their ends, and ids that nobody knows.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Ageing, Backoff, By, Command, Jitter, Lane, NewTask, NewWorker, Rejected, Retention, RetryPolicy, Start,
    State, Timestamp, Token, WorkerId, limits,
};

use super::{Case, STATES, completed, ids, scenarios};
use crate::Page;

scenarios![
    priorities_order_at_the_extremes,
    ageing_orders_at_the_extremes,
    the_end_of_time_can_be_waited_for,
    a_store_works_at_both_ends_of_time,
    times_out_of_bounds_are_refused,
    attempts_out_of_bounds_are_refused,
    bad_retry_policies_are_refused,
    bad_workers_are_refused,
    bad_lanes_are_refused,
    invented_leases_are_refused,
    unknown_ids_are_refused_by_every_command,
    limits_without_end_are_accepted,
];

/// 1.4: i32::MIN to i32::MAX.
async fn priorities_order_at_the_extremes(case: &Case) {
    let mut submitted = Vec::new();
    for priority in [0, i32::MIN, i32::MAX, -1, i32::MIN + 1, i32::MAX - 1] {
        submitted.push(case.submit(NewTask { priority, ..case.task() }).await);
    }
    let wanted: Vec<_> = [2, 5, 0, 3, 4, 1].map(|place| submitted[place]).into();
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), wanted);
}

/// C44: the largest ageing is accepted, stored and ordered; a larger one is refused.
async fn ageing_orders_at_the_extremes(case: &Case) {
    let ageing = Ageing { per_hour: limits::AGEING, per_retry: limits::AGEING };
    let task = |priority| NewTask { priority, ageing, ..case.task() };
    let low = case.submit(task(i32::MIN)).await;
    let high = case.submit(task(i32::MAX)).await;
    case.pass(1);
    let younger = case.submit(task(i32::MAX)).await;
    assert_eq!(case.record(low).await.task.spec.ageing, ageing);
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [high, younger, low]);
    for ageing in
        [Ageing { per_hour: limits::AGEING + 1, per_retry: 0 }, Ageing { per_hour: 0, per_retry: u32::MAX }]
    {
        assert_eq!(case.refused(NewTask { ageing, ..case.task() }).await.code(), "invalid_task");
    }
}

/// C45: the year 9999 and a delay without end are moments like others.
async fn the_end_of_time_can_be_waited_for(case: &Case) {
    for start in [Start::At(Timestamp::MAX), Start::After(Duration::MAX)] {
        let id = case.submit(NewTask { start, ..case.task() }).await;
        let status = case.record(id).await.task.status;
        assert_eq!((status.state, status.due_at), (State::Scheduled, Some(Timestamp::MAX)));
    }
    let due = case.store().due(9).await.unwrap();
    assert_eq!((due.commands, due.next), (vec![], Some(Timestamp::MAX)));
    case.clock.set(Timestamp::MAX);
    assert_eq!(case.chores().await, 2);
}

/// C43: nothing overflows in 1970 or in 9999: not a lease, a backoff, an ageing or a retention.
async fn a_store_works_at_both_ends_of_time(case: &Case) {
    for end in [Timestamp::MIN, Timestamp::MAX] {
        case.clock.set(end);
        let ageing = Ageing { per_hour: limits::AGEING, per_retry: limits::AGEING };
        let id = case.submit(NewTask { ageing, ..case.task() }).await;
        let eternal =
            NewWorker { dead_after: limits::TIMEOUT, ..NewWorker::new(WorkerId::new("w").unwrap()) };
        let worker = case.store().register(eternal).await.unwrap().id;
        let lead = case.store().campaign(worker.clone(), Duration::MAX).await.unwrap().unwrap();
        assert_eq!(lead.until, Timestamp::MAX);
        case.store().resign(worker.clone(), lead.term).await.unwrap();
        let retention = Retention::default().keep(State::Completed, Duration::MAX).unwrap();
        assert_eq!(case.store().prune(retention.clone(), 9).await.unwrap(), 0);
        let claim = case.store().claim(super::claim_of(&worker, 9)).await;
        if end == Timestamp::MIN {
            assert_eq!(ids(&claim.unwrap()), [id]);
            case.retry(id, false).await.unwrap();
        } else {
            assert_eq!(claim.unwrap_err().code(), "invalid_worker", "no time is left to be alive in");
        }
        case.cancel(id).await.unwrap();
    }
}

/// Limits: 1 ms to 365 days.
async fn times_out_of_bounds_are_refused(case: &Case) {
    for timeout in [Duration::from_millis(1), limits::TIMEOUT] {
        let id = case.submit(NewTask { timeout: Some(timeout), ..case.task() }).await;
        assert_eq!(case.record(id).await.task.spec.timeout, Some(timeout));
    }
    let before = case.snapshot().await;
    let long = limits::TIMEOUT + Duration::from_nanos(1);
    for timeout in [Duration::ZERO, Duration::from_micros(999), long, Duration::MAX] {
        let refused = case.refused(NewTask { timeout: Some(timeout), ..case.task() }).await;
        assert!(matches!(&refused, Rejected::Invalid(it) if it.field == "timeout"), "{refused}");
    }
    assert_eq!(case.snapshot().await, before);
}

/// I13, C52: 1 to 1,000,000, or none.
async fn attempts_out_of_bounds_are_refused(case: &Case) {
    for max_attempts in [NonZeroU32::new(1), NonZeroU32::new(limits::MAX_ATTEMPTS), None] {
        let id = case.submit(NewTask { max_attempts, ..case.task() }).await;
        assert_eq!(case.record(id).await.task.spec.max_attempts, max_attempts);
    }
    for max_attempts in [NonZeroU32::new(limits::MAX_ATTEMPTS + 1), Some(NonZeroU32::MAX)] {
        assert_eq!(case.refused(NewTask { max_attempts, ..case.task() }).await.code(), "invalid_task");
    }
}

/// C31, C43: factors below 1, not numbers, or too large; jitter above 100 %; caps above a year; bases above
/// their cap.
async fn bad_retry_policies_are_refused(case: &Case) {
    let good = RetryPolicy::default();
    let factor = |factor| RetryPolicy { backoff: Backoff::Exponential { factor }, ..good };
    for retry in [
        factor(1.0),
        factor(limits::FACTOR),
        RetryPolicy { jitter: Jitter::Percent(100), ..good },
        RetryPolicy { cap: limits::BACKOFF, base: limits::BACKOFF, ..good },
        RetryPolicy { base: Duration::ZERO, cap: Duration::ZERO, ..good },
    ] {
        let id = case.submit(NewTask { retry, ..case.task() }).await;
        assert_eq!(case.record(id).await.task.spec.retry, retry);
    }
    let before = case.snapshot().await;
    for retry in [
        factor(0.999),
        factor(-2.0),
        factor(f64::NAN),
        factor(f64::INFINITY),
        factor(1000.1),
        RetryPolicy { jitter: Jitter::Percent(101), ..good },
        RetryPolicy { cap: limits::BACKOFF + Duration::from_nanos(1), ..good },
        RetryPolicy { base: good.cap + Duration::from_nanos(1), ..good },
    ] {
        assert_eq!(case.refused(NewTask { retry, ..case.task() }).await.code(), "invalid_task", "{retry:?}");
    }
    assert_eq!(case.snapshot().await, before);
}

/// 1.5: patience of 1 ms to a year; labels are cut, and any pool size is kept.
async fn bad_workers_are_refused(case: &Case) {
    let new = || NewWorker::new(WorkerId::new("w").unwrap());
    for dead_after in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let error = case.store().register(NewWorker { dead_after, ..new() }).await.unwrap_err();
        assert_eq!(error.code(), "invalid_task", "{dead_after:?}");
    }
    let queues = vec![windlass_core::Name::default(); limits::SUBSCRIPTIONS + 1];
    assert!(case.store().register(NewWorker { queues, ..new() }).await.is_err());
    assert_eq!(case.store().workers().await.unwrap(), []);
    let huge = "😀\0".repeat(100_000);
    let odd = NewWorker { pool_size: u32::MAX, host: huge.clone(), version: huge, ..new() };
    let worker = case.store().register(odd).await.unwrap();
    assert!(worker.host.len() <= limits::TEXT_BYTES && !worker.host.contains('\0'));
    assert_eq!(case.store().workers().await.unwrap(), [worker]);
}

/// Limits: 1 to 100,000 slots.
async fn bad_lanes_are_refused(case: &Case) {
    for limit in [0, limits::LANE_LIMIT + 1, u32::MAX] {
        assert!(Lane::new("x", limit).is_err(), "{limit}");
    }
    let lane = Some(Lane::new("x", limits::LANE_LIMIT).unwrap());
    let id = case.submit(NewTask { lane: lane.clone(), ..case.task() }).await;
    assert_eq!(case.record(id).await.task.spec.lane, lane);
}

/// I5: 0 and u32::MAX are leases of nobody, whatever state the task is in.
async fn invented_leases_are_refused(case: &Case) {
    let worker = case.worker("bringer").await;
    for state in STATES {
        let task = case.bring(case.task(), state).await;
        for lease in [0, 2, u32::MAX] {
            let token = Token { task, lease, worker: worker.clone() };
            for command in [
                Command::Start { token: token.clone(), at: Some(Timestamp::MAX) },
                Command::Finish { token: token.clone(), outcome: completed("1"), started_at: None },
                Command::Release { token, note: None },
                Command::Expire { task, lease },
            ] {
                case.refusal(command).await;
            }
            let pulse = case.store().heartbeat(worker.clone(), vec![(task, lease)]).await.unwrap();
            assert_eq!([pulse.lost, pulse.cancelled].concat(), [task], "let go of {state}, lease {lease}");
        }
    }
}

/// 0.9, 4.3, 4.7: "not found", from each of them, and nothing is changed or made.
async fn unknown_ids_are_refused_by_every_command(case: &Case) {
    let worker = case.worker("w").await;
    case.submit(case.task()).await;
    let task = case.task().id;
    let token = Token { task, lease: 1, worker: worker.clone() };
    for command in [
        Command::Claim { task, worker },
        Command::Start { token: token.clone(), at: None },
        Command::Finish { token: token.clone(), outcome: completed("1"), started_at: None },
        Command::Release { token, note: None },
        Command::Cancel { task, by: By::default() },
        Command::Retry { task, force: true, by: By::default() },
        Command::Postpone { task, delay: Duration::ZERO },
        Command::Resolve { task, result: None, by: By::default() },
        Command::Promote { task },
        Command::Expire { task, lease: 1 },
        Command::Delete { task },
    ] {
        assert_eq!(case.refusal(command).await, Rejected::NotFound { task });
    }
}

/// Where no bound is stated, the largest number is a number.
async fn limits_without_end_are_accepted(case: &Case) {
    let id = case.bring(case.task(), State::WaitingForRetry).await;
    case.pass(1);
    let due = case.store().due(usize::MAX).await.unwrap();
    assert_eq!((due.commands.len(), due.next), (1, None));
    case.cancel(id).await.unwrap();
    case.pass(1);
    let retention = Retention::default().keep(State::Cancelled, Duration::ZERO).unwrap();
    assert_eq!(case.store().prune(retention.clone(), usize::MAX).await.unwrap(), 1);
    let page = Page { limit: 1, after: "c0".parse().ok(), oldest_first: false };
    let listing = case.store().tasks(crate::Filter::default(), page).await.unwrap();
    assert_eq!(listing.tasks, [], "before the first place there is nothing");
}
