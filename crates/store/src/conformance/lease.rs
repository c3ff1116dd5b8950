//! Leases: they live with their worker's heartbeat, and what a dead worker held is recovered.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{Command, NewTask, NewWorker, Reason, Rejected, State};

use super::{Case, completed, failed, finish, scenarios, token};
use crate::Pulse;

scenarios![
    heartbeats_keep_leases_alive,
    a_live_lease_cannot_expire,
    what_a_dead_worker_held_is_pending_again,
    a_crash_costs_an_attempt,
    the_last_crash_ends_in_dead_letters,
    what_never_started_loses_one_attempt_at_most,
    what_kills_its_workers_ends_in_dead_letters_beside_what_never_starts,
    a_released_claim_is_a_first_one_again,
    a_zombie_changes_nothing,
    a_silent_worker_may_still_finish_in_time,
    a_late_heartbeat_saves_the_lease,
    what_was_finished_is_not_recovered,
    only_the_present_lease_expires,
    each_worker_has_its_own_patience,
    a_new_start_does_not_inherit_leases,
];

/// 1.7: 30 s of silence, counted from the last heartbeat.
async fn heartbeats_keep_leases_alive(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    case.claim_one(&worker).await;
    for _ in 0..10 {
        case.pass(29);
        assert_eq!(case.chores().await, 0);
        case.store().heartbeat(worker.clone(), vec![(id, 1)]).await.unwrap();
    }
    assert_eq!(case.state(id).await, State::Claimed);
}

/// 1.7: not a microsecond too early, not even on a leader's word.
async fn a_live_lease_cannot_expire(case: &Case) {
    let task = case.bring(case.task(), State::Running).await;
    let until = case.now().plus(Duration::from_secs(30));
    case.clock.set(until.minus(Duration::from_micros(1)));
    assert_eq!(case.store().due(9).await.unwrap().commands, []);
    let expire = Command::Expire { task, lease: 1 };
    assert_eq!(case.refusal(expire.clone()).await, Rejected::LeaseAlive { task, lease: 1, until });
    case.clock.set(until);
    assert_eq!(case.store().due(9).await.unwrap().commands, [expire]);
}

/// 0.12, 1.7, C2, C3, C19, C24, C59: claimed or running goes back, with the reason in the history and no
/// error on the row.
async fn what_a_dead_worker_held_is_pending_again(case: &Case) {
    for state in [State::Claimed, State::Running] {
        let id = case.bring(case.task(), state).await;
        case.pass(30);
        assert_eq!(case.chores().await, 1, "{state}");
        let record = case.record(id).await;
        let status = &record.task.status;
        assert_eq!((status.state, &status.worker, &status.error), (State::Pending, &None, &None));
        let last = record.history.last().unwrap();
        assert_eq!((last.from, last.reason, last.at), (Some(state), Reason::LeaseExpired, case.now()));
        assert!(last.note.as_ref().is_some_and(|note| note.contains("bringer")), "{:?}", last.note);
        case.cancel(id).await.unwrap();
    }
}

/// C4, C23, I13: the attempt that crashed is used.
async fn a_crash_costs_an_attempt(case: &Case) {
    let id = case.bring(case.task(), State::Running).await;
    case.pass(30);
    case.chores().await;
    assert_eq!(case.record(id).await.task.status.attempt, 1);
    let again = case.claim_one(&case.worker("w").await).await;
    assert_eq!((again.task.status.attempt, again.task.status.lease), (2, 2));
}

/// C4, C23, C25: a task that kills its workers stops, with an error and a finish time.
async fn the_last_crash_ends_in_dead_letters(case: &Case) {
    let id = case.submit(NewTask { max_attempts: NonZeroU32::new(2), ..case.task() }).await;
    for _ in 0..2 {
        let claimed = case.take(id, &case.worker("victim").await).await;
        case.apply(Command::Start { token: token(&claimed), at: None }).await.unwrap();
        case.pass(30);
        assert_eq!(case.chores().await, 1);
    }
    let status = case.record(id).await.task.status;
    assert_eq!((status.state, status.attempt), (State::DeadLetter, 2));
    assert_eq!(status.finished_at, Some(case.now()));
    assert!(status.error.is_some_and(|error| error.contains("victim")));
    assert_eq!(case.chores().await, 0);
}

/// I13: from the second claim on, and at the last, the start is recorded before the handler runs; a claim
/// that is lost before it gives its attempt back.
async fn what_never_started_loses_one_attempt_at_most(case: &Case) {
    for (max_attempts, lost) in
        [(NonZeroU32::new(1), 0), (NonZeroU32::new(2), 1), (NonZeroU32::new(3), 1), (None, 1)]
    {
        let id = case.submit(NewTask { max_attempts, ..case.task() }).await;
        for lease in 1..=5 {
            let claimed = case.take(id, &case.worker("victim").await).await;
            assert_eq!(claimed.task.must_record_start(), lease > 1 || lost == 0);
            case.pass(30);
            assert_eq!(case.chores().await, 1);
            let record = case.record(id).await;
            let status = &record.task.status;
            assert_eq!((status.state, status.attempt, status.lease), (State::Pending, lost, lease));
            let last = record.history.last().unwrap();
            let counted = lease == 1 && lost == 1;
            assert_eq!(last.reason, if counted { Reason::LeaseExpired } else { Reason::NotStarted });
            assert!(last.note.as_ref().is_some_and(|note| note.contains("victim")), "{:?}", last.note);
            assert_eq!(case.refusal(finish(&claimed, completed("1"))).await.code(), "lease_lost");
        }
        let claimed = case.take(id, &case.worker("lucky").await).await;
        assert_eq!(case.complete(&claimed).await.state, State::Completed);
    }
}

/// I13: a worker dies five times with all that it has claimed; only the task that it had started is to blame.
async fn what_kills_its_workers_ends_in_dead_letters_beside_what_never_starts(case: &Case) {
    let killer = case.submit(case.task()).await;
    let plain = case.submit_many(20).await;
    for _ in 0..5 {
        let victim = case.worker("victim").await;
        let claimed = case.claim(&victim, 21).await;
        for first in claimed.iter().filter(|one| one.task.id == killer && one.task.must_record_start()) {
            case.apply(Command::Start { token: token(first), at: None }).await.unwrap();
        }
        case.pass(30);
        assert_eq!(case.chores().await, claimed.len());
    }
    let status = case.record(killer).await.task.status;
    assert_eq!((status.state, status.attempt), (State::DeadLetter, 3));
    for id in plain {
        let status = case.record(id).await.task.status;
        assert_eq!((status.state, status.attempt, status.lease), (State::Pending, 1, 5));
    }
}

/// I13: what was given back was not lost: the next loss is the first again.
async fn a_released_claim_is_a_first_one_again(case: &Case) {
    let (id, worker) = (case.submit(case.task()).await, case.worker("w").await);
    for _ in 0..3 {
        let claimed = case.take(id, &worker).await;
        assert!(!claimed.task.must_record_start());
        case.apply(Command::Release { token: token(&claimed), note: None }).await.unwrap();
    }
    case.take(id, &worker).await;
    case.pass(30);
    case.chores().await;
    let status = case.record(id).await.task.status;
    assert_eq!((status.attempt, status.lease), (1, 4));
}

/// C21, I5, 3.5: who comes back after its lease expired is refused, before and after the next claim.
async fn a_zombie_changes_nothing(case: &Case) {
    let zombie = case.worker("zombie").await;
    let task = case.submit(case.task()).await;
    let old = case.claim_one(&zombie).await;
    case.pass(30);
    case.chores().await;
    case.store().heartbeat(zombie.clone(), Vec::new()).await.unwrap();
    let lost = |current, state| Rejected::LeaseLost { task, lease: 1, current, state };
    for outcome in [completed("1"), failed("x")] {
        assert_eq!(case.refusal(finish(&old, outcome)).await, lost(1, State::Pending));
    }
    let new = case.claim_one(&case.worker("next").await).await;
    assert_eq!(case.refusal(finish(&old, completed("1"))).await, lost(2, State::Claimed));
    let pulse = case.store().heartbeat(zombie.clone(), vec![(task, 1)]).await.unwrap();
    assert_eq!(pulse, Pulse { lost: vec![task], cancelled: vec![] });
    case.finish(&new, completed("2")).await.unwrap();
    assert_eq!(case.refusal(finish(&old, completed("1"))).await, lost(2, State::Completed));
    assert_eq!(case.record(task).await.result.unwrap().as_str(), "2");
}

/// C5: silence alone takes nothing away; an expired lease does.
async fn a_silent_worker_may_still_finish_in_time(case: &Case) {
    case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.pass(300);
    assert_eq!(case.complete(&claimed).await.state, State::Completed);
    assert_eq!(case.chores().await, 0);
}

/// 1.7: until a leader has acted, a heartbeat makes all leases good again.
async fn a_late_heartbeat_saves_the_lease(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    case.claim_one(&worker).await;
    case.pass(300);
    let due = case.store().due(9).await.unwrap().commands;
    let pulse = case.store().heartbeat(worker.clone(), vec![(id, 1)]).await.unwrap();
    assert_eq!(pulse, Pulse::default());
    let receipt = case.store().apply(due).await.unwrap().remove(0);
    assert_eq!(receipt.unwrap_err().code(), "lease_alive", "the leader decided on old news");
    assert_eq!(case.state(id).await, State::Claimed);
}

/// C5: detect, then finish, then reset: the task stays finished.
async fn what_was_finished_is_not_recovered(case: &Case) {
    let task = case.submit(case.task()).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.pass(30);
    let due = case.store().due(9).await.unwrap().commands;
    assert_eq!(due.len(), 1);
    case.complete(&claimed).await;
    assert_eq!(case.refusal(due[0].clone()).await, Rejected::TaskCompleted { task });
}

/// I5: expiry names the lease it is about.
async fn only_the_present_lease_expires(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    let old = case.claim_one(&worker).await;
    case.apply(Command::Release { token: token(&old), note: None }).await.unwrap();
    let pending = case.refusal(Command::Expire { task, lease: 1 }).await;
    assert_eq!(pending, Rejected::LeaseLost { task, lease: 1, current: 1, state: State::Pending });
    case.claim_one(&worker).await;
    case.pass(30);
    for lease in [0, 1, 3] {
        let refused = case.refusal(Command::Expire { task, lease }).await;
        assert_eq!(refused, Rejected::LeaseLost { task, lease, current: 2, state: State::Claimed });
    }
    assert!(case.apply(Command::Expire { task, lease: 2 }).await.unwrap().changed);
}

/// 1.7: WORKER_TIMEOUT is the worker's own.
async fn each_worker_has_its_own_patience(case: &Case) {
    let (quick, slow) = (case.worker("quick").await, case.worker("slow").await);
    for (id, seconds) in [(&quick, 5), (&slow, 3600)] {
        let dead_after = Duration::from_secs(seconds);
        case.store().register(NewWorker { dead_after, ..NewWorker::new(id.clone()) }).await.unwrap();
    }
    let submitted = case.submit_many(2).await;
    case.take(submitted[0], &slow).await;
    case.take(submitted[1], &quick).await;
    case.pass(5);
    let due = case.store().due(9).await.unwrap().commands;
    assert_eq!(due, [Command::Expire { task: submitted[1], lease: 1 }]);
    case.pass(3595);
    assert_eq!(case.store().due(9).await.unwrap().commands.len(), 2);
}

/// 1.5: a worker's identity is fresh per boot; the next one does not hold what the last one held.
async fn a_new_start_does_not_inherit_leases(case: &Case) {
    let task = case.submit(case.task()).await;
    case.claim_one(&case.worker("host-1-aaaaaa").await).await;
    let reborn = case.worker("host-1-bbbbbb").await;
    let pulse = case.store().heartbeat(reborn.clone(), vec![(task, 1)]).await.unwrap();
    assert_eq!(pulse.lost, [task]);
    case.pass(30);
    assert_eq!(case.store().due(9).await.unwrap().commands, [Command::Expire { task, lease: 1 }]);
}
