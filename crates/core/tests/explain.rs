//! Every reason that `explain` can give, with what stands in the way and when something will change by
//! itself.
//!
//! Each task is brought to its state by commands, not written by hand, except the one that waits for parents.

#![allow(clippy::unwrap_used, missing_docs)]

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Before, Blocker, By, Command, Explanation, Facts, Json, Lane, LaneHolder, Name, NewTask, Outcome, Start,
    State, Task, TaskId, Timestamp, Token, Why, WorkerId, explain, transition,
};

/// `seconds` after the moment at which all tasks here are submitted.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).plus(Duration::from_secs(seconds))
}

fn worker() -> WorkerId {
    WorkerId::new("host-1-a").unwrap()
}

fn submitted(change: impl FnOnce(&mut NewTask)) -> Task {
    let id = TaskId::from_bytes([5; 16]);
    let mut new = NewTask::new(id, Name::kind("email:send").unwrap(), Json::default());
    change(&mut new);
    new.admit(at(0)).0
}

fn after(task: &Task, command: &Command, now: Timestamp) -> Task {
    let changes = transition(&Before::of(task), command, now).unwrap();
    Task { status: changes.tasks[0].after.clone(), ..task.clone() }
}

fn claimed(task: &Task) -> Task {
    after(task, &Command::Claim { task: task.id, worker: worker() }, at(0))
}

fn token(task: &Task) -> Token {
    Token { task: task.id, lease: task.status.lease, worker: worker() }
}

fn running(task: &Task) -> Task {
    let claimed = claimed(task);
    after(&claimed, &Command::Start { token: token(&claimed), at: None }, at(0))
}

fn finished(task: &Task, outcome: Outcome) -> Task {
    let claimed = claimed(task);
    after(&claimed, &Command::Finish { token: token(&claimed), outcome, started_at: None }, at(0))
}

fn failed() -> Outcome {
    Outcome::Failed { error: "broken".into(), retryable: true, retry_after: None }
}

/// Facts in which nothing stands in the way: a live worker, no pause, a free lane.
fn facts(task: Task, now: Timestamp) -> Facts {
    Facts { task, paused: false, lane_holders: Vec::new(), live_workers: 1, alive_until: None, now }
}

/// The answer without its sentence, which is checked only for the words that matter.
fn answer(facts: &Facts, words: &[&str]) -> (Why, Option<Timestamp>, Vec<Blocker>) {
    let Explanation { why, detail, next_change_at, blockers } = explain(facts);
    for word in words {
        assert!(detail.contains(word), "{word:?} is not in {detail:?}");
    }
    (why, next_change_at, blockers)
}

#[test]
fn a_task_with_parents_waits_for_them() {
    let mut task = submitted(|_| ());
    task.status.state = State::Waiting;
    let why = answer(&facts(task, at(9)), &["dependencies"]);
    assert_eq!(why, (Why::WaitingForParents, None, vec![]));
}

#[test]
fn a_delayed_task_waits_for_its_moment() {
    let task = submitted(|new| new.start = Start::At(at(10)));
    let words = [&*at(10).to_string()];
    assert_eq!(answer(&facts(task.clone(), at(9)), &words), (Why::NotDue, Some(at(10)), vec![]));
    assert_eq!(answer(&facts(task.clone(), at(10)), &words), (Why::AboutToBeDue, Some(at(10)), vec![]));
    assert_eq!(answer(&facts(task, at(99)), &["leader"]), (Why::AboutToBeDue, Some(at(10)), vec![]));
}

#[test]
fn a_snoozed_task_waits_for_its_moment_too() {
    let task = finished(&submitted(|_| ()), Outcome::Snoozed { delay: Duration::from_secs(7) });
    assert_eq!(answer(&facts(task, at(6)), &[]), (Why::NotDue, Some(at(7)), vec![]));
}

#[test]
fn a_failed_attempt_waits_for_its_backoff() {
    let task = finished(&submitted(|_| ()), failed());
    assert_eq!(answer(&facts(task.clone(), at(0)), &["failed"]), (Why::Backoff, Some(at(1)), vec![]));
    assert_eq!(answer(&facts(task, at(1)), &[]), (Why::AboutToBeDue, Some(at(1)), vec![]));
}

#[test]
fn a_paused_queue_is_named_before_anything_else_of_a_pending_task() {
    let task = submitted(|new| {
        new.queue = Name::queue("emails").unwrap();
        new.lane = Some(Lane::new("door", 1).unwrap());
    });
    let facts = Facts { paused: true, live_workers: 0, ..facts(task, at(1)) };
    let why = answer(&facts, &["\"emails\"", "resume"]);
    assert_eq!(why, (Why::QueuePaused, None, vec![Blocker::Queue("emails".into())]));
}

#[test]
fn a_full_lane_names_those_who_hold_it_in_order() {
    let task = submitted(|new| new.lane = Some(Lane::new("door", 2).unwrap()));
    let holder = |byte, state, worker| LaneHolder { task: TaskId::from_bytes([byte; 16]), state, worker };
    let first = holder(1, State::Running, Some(worker()));
    let second = holder(2, State::WaitingForRetry, None);
    let lane_holders = vec![first.clone(), second.clone()];
    let full = Facts { lane_holders, live_workers: 0, ..facts(task, at(1)) };
    let blockers = vec![Blocker::Task(first), Blocker::Task(second)];
    assert_eq!(answer(&full, &["\"door\"", "2"]), (Why::LaneFull, None, blockers));

    let mut with_slot = full;
    with_slot.task.status.slot = true;
    with_slot.live_workers = 1;
    assert_eq!(
        answer(&with_slot, &[]),
        (Why::InQueue, None, vec![]),
        "who has a slot is not held up by others"
    );
}

#[test]
fn a_kind_without_workers_is_named() {
    let facts = Facts { live_workers: 0, ..facts(submitted(|_| ()), at(1)) };
    let why = answer(&facts, &["\"email:send\"", "\"default\"", "start one"]);
    assert_eq!(why, (Why::NoWorker, None, vec![Blocker::Kind("email:send".into())]));
}

#[test]
fn a_claimable_task_is_in_the_queue() {
    let facts = Facts { live_workers: 3, ..facts(submitted(|_| ()), at(1)) };
    assert_eq!(answer(&facts, &["3"]), (Why::InQueue, None, vec![]));
}

/// What comes next for a held task is the end of its holder's heartbeat or of its own time, whichever is
/// earlier.
#[test]
fn a_held_task_names_its_worker() {
    let alive = |task, until| Facts { alive_until: Some(at(until)), ..facts(task, at(5)) };
    let task = submitted(|new| new.timeout = Some(Duration::from_secs(20)));
    let holder = || vec![Blocker::Worker(worker())];
    let about = answer(&alive(claimed(&task), 30), &["host-1-a", "about to start"]);
    assert_eq!(about, (Why::AboutToStart, Some(at(30)), holder()), "the time runs from the start");
    let limited = answer(&alive(running(&task), 30), &["host-1-a", &at(0).to_string()]);
    assert_eq!(limited, (Why::Running, Some(at(20)), holder()));
    assert_eq!(answer(&alive(running(&task), 15), &[]), (Why::Running, Some(at(15)), holder()));
    let unlimited = submitted(|_| ());
    assert_eq!(answer(&alive(running(&unlimited), 30), &[]), (Why::Running, Some(at(30)), holder()));
}

/// Silence is over at the very moment the heartbeat ends, as it is for `Expire`, and the same for a worker
/// that is gone. The sentence says what will become of the task.
#[test]
fn a_silent_holder_is_named_until_its_lease_expires() {
    for (max, fate) in [(1, "dead letters"), (2, "others")] {
        let task = submitted(|new| new.max_attempts = NonZeroU32::new(max));
        for held in [claimed(&task), running(&task)] {
            for alive_until in [None, Some(at(4)), Some(at(5))] {
                let silent = Facts { alive_until, ..facts(held.clone(), at(5)) };
                let why = answer(&silent, &["host-1-a", "lease 1", fate]);
                assert_eq!(why, (Why::LeaseExpired, Some(at(5)), vec![Blocker::Worker(worker())]));
            }
        }
    }
}

/// Whatever else is true of its queue, lane or worker.
#[test]
fn a_final_task_is_over_and_nothing_stands_in_its_way() {
    let once = submitted(|new| new.max_attempts = NonZeroU32::new(1));
    let by = By::default;
    let mut skipped = once.clone();
    (skipped.status.state, skipped.status.finished_at) = (State::Skipped, Some(at(0)));
    let permanent = Outcome::Failed { error: "bad".into(), retryable: false, retry_after: None };
    let finals = [
        finished(&once, Outcome::Completed { result: Json::default() }),
        finished(&once, permanent),
        finished(&once, failed()),
        after(&once, &Command::Cancel { task: once.id, by: by() }, at(0)),
        skipped,
        after(&once, &Command::Resolve { task: once.id, result: None, by: by() }, at(0)),
    ];
    let states = finals.each_ref().map(|task| task.status.state);
    let all: Vec<State> = State::ALL.into_iter().filter(|state| state.is_final()).collect();
    assert_eq!(states[..], all[..]);
    for task in finals {
        let word = task.status.state.word();
        let facts = Facts { paused: true, live_workers: 0, ..facts(task, at(5)) };
        assert_eq!(answer(&facts, &[word, &at(0).to_string()]), (Why::Final, None, vec![]));
    }
}

/// The match has no wildcard: a new reason does not compile until this file knows it.
#[test]
fn every_reason_has_its_own_word() {
    use Why::{
        AboutToBeDue, AboutToStart, Backoff, Final, InQueue, LaneFull, LeaseExpired, NoWorker, NotDue,
        QueuePaused, Running, WaitingForParents,
    };
    let all = [
        Running,
        AboutToStart,
        LeaseExpired,
        Final,
        WaitingForParents,
        NotDue,
        Backoff,
        AboutToBeDue,
        QueuePaused,
        LaneFull,
        NoWorker,
        InQueue,
    ];
    for why in all {
        let word = match why {
            Running => "running",
            AboutToStart => "about_to_start",
            LeaseExpired => "lease_expired",
            Final => "final",
            WaitingForParents => "waiting_for_parents",
            NotDue => "not_due",
            Backoff => "backoff",
            AboutToBeDue => "about_to_be_due",
            QueuePaused => "queue_paused",
            LaneFull => "lane_full",
            NoWorker => "no_worker",
            InQueue => "in_queue",
        };
        assert_eq!(why.word(), word);
    }
}
