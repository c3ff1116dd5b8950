//! Tasks that wait for a moment, and what is due.

use std::time::Duration;

use serde_json::json;
use windlass_core::{By, Command, Name, NewTask, Reason, Rejected, Start, State, Steering, TaskId, WorkerId};

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
    what_is_due_is_claimed_though_nobody_promoted_it,
    what_is_pending_is_claimed_before_what_is_due,
    a_claim_promotes_only_what_it_asks_for,
    what_is_due_in_a_lane_waits_for_its_slot,
    what_is_due_in_a_paused_workflow_is_not_claimed,
    more_is_due_than_one_claim_takes,
    what_is_due_is_claimed_by_name,
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

/// Without a leader nothing is stuck: a claim that finds nothing else takes what is due, as if it had been
/// promoted.
async fn what_is_due_is_claimed_though_nobody_promoted_it(case: &Case) {
    let worker = case.worker("w").await;
    let (early, late) = (delayed(case, 10).await, delayed(case, 20).await);
    let retried = case.bring(case.task(), State::WaitingForRetry).await;
    assert_eq!(case.claim(&worker, 9).await, []);
    case.pass(10);
    assert_eq!(ids(&case.claim(&worker, 9).await), [early, retried]);
    let record = case.record(early).await;
    let entries: Vec<_> = record.history.iter().map(|entry| (entry.to, entry.reason)).collect();
    let promoted = [
        (State::Scheduled, Reason::Submitted),
        (State::Pending, Reason::Due),
        (State::Claimed, Reason::Claimed),
    ];
    assert_eq!(entries, promoted);
    assert_eq!(record.task.status.attempt, 1);
    assert_eq!(case.record(retried).await.task.status.attempt, 2);
    assert_eq!((case.state(late).await, case.chores().await), (State::Scheduled, 0));
    case.pass(10);
    assert_eq!(ids(&case.claim(&worker, 9).await), [late]);
}

/// A claim that finds something does not look further.
async fn what_is_pending_is_claimed_before_what_is_due(case: &Case) {
    let worker = case.worker("w").await;
    let due = delayed(case, 10).await;
    let pending = case.submit(case.task()).await;
    case.pass(10);
    assert_eq!(ids(&case.claim(&worker, 9).await), [pending]);
    assert_eq!(case.state(due).await, State::Scheduled);
    assert_eq!(case.claim(&worker, 0).await, []);
    assert_eq!(case.state(due).await, State::Scheduled, "who wants nothing promotes nothing");
    assert_eq!(ids(&case.claim(&worker, 9).await), [due]);
}

/// Tasks of other queues, kinds and namespaces stay as they are, and those of a paused queue.
async fn a_claim_promotes_only_what_it_asks_for(case: &Case) {
    let (worker, start) = (case.worker("w").await, Start::After(Duration::from_secs(10)));
    let mut others = Vec::new();
    let queue = Name::queue("other").unwrap();
    others.push(case.submit(NewTask { start, queue: queue.clone(), ..case.task() }).await);
    others.push(case.submit(NewTask { start, kind: Name::kind("other").unwrap(), ..case.task() }).await);
    others.push(
        case.submit(NewTask { start, namespace: Name::namespace("other").unwrap(), ..case.task() }).await,
    );
    case.pass(10);
    assert_eq!(case.claim(&worker, 9).await, []);
    let mine = delayed(case, 10).await;
    case.pass(10);
    case.store().pause(Name::default(), Name::default(), true).await.unwrap();
    assert_eq!(case.claim(&worker, 9).await, []);
    for id in others.iter().chain([&mine]) {
        assert_eq!(case.state(*id).await, State::Scheduled);
    }
    case.store().pause(Name::default(), Name::default(), false).await.unwrap();
    assert_eq!(ids(&case.claim(&worker, 9).await), [mine]);
}

/// I7: one of two, and the other when the first is done; nobody else is needed for that.
async fn what_is_due_in_a_lane_waits_for_its_slot(case: &Case) {
    let worker = case.worker("w").await;
    let start = Start::After(Duration::from_secs(10));
    let first = case.submit(NewTask { start, ..case.task_for("planner:42") }).await;
    let second = case.submit(NewTask { start, ..case.task_for("planner:42") }).await;
    case.pass(10);
    let claimed = case.claim(&worker, 9).await;
    assert_eq!(ids(&claimed), [first]);
    assert_eq!(
        (case.state(second).await, case.record(second).await.task.is_parked()),
        (State::Pending, true)
    );
    assert_eq!(case.claim(&worker, 9).await, []);
    case.complete(&claimed[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [second]);
}

/// C69: it waits for its workflow to be resumed.
async fn what_is_due_in_a_paused_workflow_is_not_claimed(case: &Case) {
    let id = case.start(1, json!({ "a": {} })).await;
    let worker = case.worker("w").await;
    let claimed = case.claim_one(&worker).await;
    case.fail(&claimed, "no").await;
    case.store().steer(id, Steering::Pause, By::default()).await.unwrap();
    case.pass(1);
    assert_eq!(case.claim(&worker, 9).await, []);
    let waits = case.state(claimed.task.id).await;
    assert!(matches!(waits, State::Waiting | State::WaitingForRetry), "{waits}");
    case.store().steer(id, Steering::Resume, By::default()).await.unwrap();
    assert_eq!(ids(&case.claim(&worker, 9).await), [claimed.task.id]);
}

/// Nothing is left behind, however small the claims are.
async fn more_is_due_than_one_claim_takes(case: &Case) {
    let worker = case.worker("w").await;
    let start = Start::After(Duration::from_secs(10));
    let tasks = std::iter::repeat_with(|| NewTask { start, ..case.task() }).take(250).collect();
    case.store().submit(tasks).await.unwrap();
    case.pass(10);
    let mut claimed = case.claim(&worker, 1).await.len();
    assert_eq!(claimed, 1);
    for _ in 0..5 {
        claimed += case.claim(&worker, 90).await.len();
    }
    assert_eq!(claimed, 250);
    assert_eq!(case.claim(&worker, 9).await, []);
}

/// 4.3: by its id a task whose moment has come is claimed at once. Lanes and paused queues are respected.
async fn what_is_due_is_claimed_by_name(case: &Case) {
    let worker = case.worker("w").await;
    let start = Start::After(Duration::from_secs(10));
    let plain = delayed(case, 10).await;
    let first = case.submit(NewTask { start, ..case.task_for("planner:42") }).await;
    let second = case.submit(NewTask { start, ..case.task_for("planner:42") }).await;
    let take = |task| Command::Claim { task, worker: worker.clone() };
    assert_eq!(case.refusal(take(plain)).await.code(), "not_due");
    case.pass(10);
    let stranger = Command::Claim { task: plain, worker: WorkerId::new("stranger").unwrap() };
    assert_eq!(case.refusal(stranger).await.code(), "invalid_worker");
    let receipt = case.apply(take(plain)).await.unwrap();
    assert_eq!((receipt.state, receipt.attempt, receipt.lease), (State::Claimed, 1, 1));
    let receipts = case.store().apply(vec![take(first), take(second)]).await.unwrap();
    assert_eq!(receipts[0].as_ref().map(|receipt| receipt.state), Ok(State::Claimed));
    assert_eq!(receipts[1].as_ref().unwrap_err().code(), "lane_full");
    let paused = delayed(case, 10).await;
    case.pass(10);
    case.store().pause(Name::default(), Name::default(), true).await.unwrap();
    assert_eq!(case.apply(take(paused)).await.unwrap_err().code(), "queue_paused");
    assert_eq!(case.record(paused).await.task.status.lease, 0);
}
