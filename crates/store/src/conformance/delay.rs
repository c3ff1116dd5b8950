//! Tasks that wait for a moment, and what is due.

use std::time::Duration;

use windlass_core::{Command, NewTask, Rejected, Start, State, TaskId};

use super::{Case, STATES, ids, scenarios};
use crate::Due;

scenarios![
    a_delayed_task_waits,
    a_moment_in_the_past_is_now,
    what_is_due_comes_longest_due_first,
    due_tells_when_to_look_again,
    a_full_answer_promises_no_moment,
    expired_leases_come_last,
    looking_changes_nothing,
    only_what_is_due_is_promoted,
    a_promotion_happens_once,
    a_promoted_task_takes_its_place_by_priority,
];

async fn delayed(case: &Case, seconds: u64) -> TaskId {
    case.submit(NewTask { start: Start::After(Duration::from_secs(seconds)), ..case.task() }).await
}

fn promotions(ids: &[TaskId]) -> Vec<Command> {
    ids.iter().map(|id| Command::Promote { task: *id }).collect()
}

/// C45: scheduled until its moment, by the store's clock, however far away.
async fn a_delayed_task_waits(case: &Case) {
    let worker = case.worker("w").await;
    let id = delayed(case, 20).await;
    let status = case.record(id).await.task.status;
    let due = case.now().plus(Duration::from_secs(20));
    assert_eq!((status.state, status.due_at), (State::Scheduled, Some(due)));
    case.clock.set(due.minus(Duration::from_micros(1)));
    assert_eq!((case.chores().await, case.claim(&worker, 9).await), (0, vec![]));
    case.clock.set(due);
    assert_eq!(case.chores().await, 1);
    let status = case.record(id).await.task.status;
    assert_eq!((status.state, status.due_at), (State::Pending, None));
    assert_eq!(ids(&case.claim(&worker, 9).await), [id]);
}

/// Pending at once, with no detour.
async fn a_moment_in_the_past_is_now(case: &Case) {
    let hour = Duration::from_secs(3600);
    for start in [
        Start::At(case.now()),
        Start::At(case.now().minus(hour)),
        Start::At(windlass_core::Timestamp::MIN),
        Start::After(Duration::ZERO),
        Start::After(Duration::from_nanos(999)),
    ] {
        let id = case.submit(NewTask { start, ..case.task() }).await;
        assert_eq!(case.state(id).await, State::Pending, "{start:?}");
    }
}

/// C45, C54: by due time, then by submission.
async fn what_is_due_comes_longest_due_first(case: &Case) {
    let late = delayed(case, 30).await;
    let [one, two] = [delayed(case, 10).await, delayed(case, 10).await];
    let never = delayed(case, 99).await;
    case.pass(30);
    let due = case.store().due(9).await.unwrap();
    assert_eq!(due.commands, promotions(&[one, two, late]));
    assert_eq!(due.next, case.record(never).await.task.status.due_at);
}

/// C54: the timer is set at the next due time, of delays and retries alike.
async fn due_tells_when_to_look_again(case: &Case) {
    assert_eq!(case.store().due(9).await.unwrap(), Due { now: case.now(), ..Due::default() });
    delayed(case, 30).await;
    let retried = case.bring(case.task(), State::WaitingForRetry).await;
    let due = case.store().due(9).await.unwrap();
    assert_eq!((due.commands, due.next), (vec![], case.record(retried).await.task.status.due_at));
    case.pass(1);
    let due = case.store().due(9).await.unwrap();
    let next = windlass_core::Timestamp::from_micros(super::START.as_micros() + 30_000_000);
    assert_eq!((due.commands, due.next), (promotions(&[retried]), Some(next)));
}

/// A leader that got as many as it asked for asks again at once.
async fn a_full_answer_promises_no_moment(case: &Case) {
    let [one, two] = [delayed(case, 1).await, delayed(case, 2).await];
    delayed(case, 99).await;
    case.pass(5);
    let due = case.store().due(1).await.unwrap();
    assert_eq!((due.commands, due.next), (promotions(&[one]), None));
    let due = case.store().due(2).await.unwrap();
    assert_eq!((due.commands, due.next), (promotions(&[one, two]), None));
    assert_eq!(case.store().due(0).await.unwrap(), Due { now: case.now(), ..Due::default() });
}

/// Promotions first, then what dead workers left.
async fn expired_leases_come_last(case: &Case) {
    let held = case.bring(case.task(), State::Claimed).await;
    let waiting = delayed(case, 31).await;
    case.pass(31);
    let expire = Command::Expire { task: held, lease: 1 };
    let due = case.store().due(9).await.unwrap().commands;
    assert_eq!(due, [Command::Promote { task: waiting }, expire]);
    assert_eq!(case.store().due(1).await.unwrap().commands, promotions(&[waiting]));
}

/// Reading what is due does nothing to it.
async fn looking_changes_nothing(case: &Case) {
    delayed(case, 1).await;
    case.bring(case.task(), State::Running).await;
    case.pass(100);
    let before = case.snapshot().await;
    let first = case.store().due(9).await.unwrap();
    assert_eq!(first.commands.len(), 2);
    assert_eq!(case.store().due(9).await.unwrap(), first);
    assert_eq!(case.snapshot().await, before);
}

/// 0.7: too early is refused with the moment, and what waits for none with its state.
async fn only_what_is_due_is_promoted(case: &Case) {
    for state in STATES {
        let task = case.bring(case.task(), state).await;
        let expected = match case.record(task).await.task.status.due_at {
            Some(due) => Rejected::NotDue { task, state, due },
            None => Rejected::NotTimed { task, state },
        };
        assert_eq!(case.refusal(Command::Promote { task }).await, expected);
    }
}

/// C5: a chore that is carried out twice, by an old and a new leader, does it once.
async fn a_promotion_happens_once(case: &Case) {
    let task = delayed(case, 1).await;
    case.pass(1);
    let due = case.store().due(9).await.unwrap().commands;
    let both = [due.clone(), due].concat();
    let receipts = case.store().apply(both).await.unwrap();
    assert!(receipts[0].as_ref().unwrap().changed);
    assert_eq!(receipts[1], Err(Rejected::NotTimed { task, state: State::Pending }));
    assert_eq!(case.record(task).await.history.len(), 2);
}

/// 1.4: the order is priority and submission, not when a task became due.
async fn a_promoted_task_takes_its_place_by_priority(case: &Case) {
    let first = delayed(case, 5).await;
    let second = case.submit(case.task()).await;
    let start = Start::After(Duration::from_secs(9));
    let high = case.submit(NewTask { start, priority: 1, ..case.task() }).await;
    case.pass(9);
    case.chores().await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [high, first, second]);
}
