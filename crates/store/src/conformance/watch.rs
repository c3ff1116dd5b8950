//! Wake-up signals: something may be there to claim, to wait for, to look at or to let go. Four bells;
//! whoever waits for one is not woken by the others, and what changes nothing wakes nobody.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use windlass_core::{
    By, Command, Firing, Name, NewSchedule, NewTask, NewWorker, Outcome, Report, Retention, Start, State,
    TaskId, Timestamp, Token, WorkerId,
};

use super::{
    Case, STATES, claim_of, completed, details, entity, failed, failed_for_good, finish, firing, hourly, id,
    scenarios, token,
};
use crate::{Claimed, Rings, Turn};

scenarios![
    a_submit_rings,
    a_refused_submit_does_not_ring,
    an_end_rings_for_those_who_wait_for_it,
    a_holder_is_not_told_what_it_said_itself,
    what_an_operator_takes_away_rings,
    what_time_moves_rings,
    a_retry_that_is_put_off_rings,
    a_freed_slot_rings,
    what_is_claimed_as_soon_as_it_can_be_does_not_ring,
    a_resumed_queue_rings,
    a_schedule_rings,
    who_comes_and_goes_rings,
    a_command_that_does_nothing_does_not_ring,
    a_refused_command_does_not_ring,
    claims_and_heartbeats_do_not_ring,
    looking_does_not_ring,
    every_listener_is_woken,
];

const CLAIMABLE: &str = "claimable";
const TIMED: &str = "timed";
const SETTLED: &str = "settled";
const REVOKED: &str = "revoked";

/// The bells that rang between two moments.
fn rung(before: Rings, after: Rings) -> Vec<&'static str> {
    let bells = |Rings { claimable, timed, settled, revoked }| [claimable, timed, settled, revoked];
    let names = [CLAIMABLE, TIMED, SETTLED, REVOKED].into_iter();
    let pairs = names.zip(bells(before).into_iter().zip(bells(after)));
    pairs.filter(|(_, (before, after))| after > before).map(|(name, _)| name).collect()
}

/// Does `act` and checks that these bells ring, and no others. One that does not ring is a failure, not a
/// test that hangs.
async fn rings<T>(case: &Case, act: impl Future<Output = T>, expected: &[&str], after: &str) -> T {
    let mut bell = case.store().watch();
    let before = *bell.borrow_and_update();
    let done = act.await;
    let all = |now: &Rings| expected.iter().all(|bell| rung(before, *now).contains(bell));
    let heard = tokio::time::timeout(Duration::from_secs(10), bell.wait_for(all)).await;
    let Ok(Ok(now)) = heard.map(|heard| heard.map(|now| *now)) else {
        panic!("not all of {expected:?} rang after {after}");
    };
    assert_eq!(rung(before, now), expected, "after {after}");
    done
}

/// The same for one command, which must be accepted.
async fn command(case: &Case, command: Command, expected: &[&str]) {
    let after = format!("{command:?}");
    rings(case, case.apply(command), expected, &after).await.unwrap();
}

fn later(case: &Case) -> NewTask {
    NewTask { start: Start::After(Duration::from_secs(60)), ..case.task() }
}

async fn held(case: &Case) -> Claimed {
    let id = case.bring(case.task(), State::Running).await;
    case.held(id).await
}

/// C30, C54: new work does not wait for a poll, nor does a new moment to wait for; and who waits for the one
/// is not woken by the other.
async fn a_submit_rings(case: &Case) {
    rings(case, case.submit(case.task()), &[CLAIMABLE], "a submit").await;
    rings(case, case.submit(later(case)), &[TIMED], "a submit for later").await;
    let both = || async { case.store().submit(vec![later(case), case.task()]).await.unwrap() };
    rings(case, both(), &[CLAIMABLE, TIMED], "a submit of both").await;
    rings(case, case.submit(case.task_with_key("k")), &[CLAIMABLE], "a submit with a key").await;
    rings(case, case.submit(case.task_with_key("k")), &[], "the same key again").await;
    rings(case, case.store().submit(Vec::new()), &[], "a submit of nothing").await.unwrap();
}

/// C54: nothing has changed.
async fn a_refused_submit_does_not_ring(case: &Case) {
    let taken = case.submit(case.task()).await;
    let again = || NewTask { id: taken, ..case.task() };
    rings(case, case.store().submit(vec![again()]), &[], "a taken id").await.unwrap_err();
    let bad = NewTask { key: Some(String::new()), ..case.task() };
    rings(case, case.store().submit(vec![bad]), &[], "a bad key").await.unwrap_err();
    let batch = vec![case.task(), later(case), again()];
    rings(case, case.store().submit(batch), &[], "a batch with a taken id").await.unwrap_err();
    rings(case, case.store().turn(Turn::default()), &[], "nothing after it").await.unwrap();
}

/// C54: each outcome, by its holder: something is final, or waits for a moment.
async fn an_end_rings_for_those_who_wait_for_it(case: &Case) {
    let snoozed = Outcome::Snoozed { delay: Duration::from_secs(9) };
    let outcomes: [(Outcome, &[&str]); 5] = [
        (completed("1"), &[SETTLED]),
        (failed("x"), &[TIMED]),
        (failed_for_good("x"), &[SETTLED]),
        (snoozed, &[TIMED]),
        (Outcome::Cancelled { note: "x".into() }, &[SETTLED]),
    ];
    for (outcome, expected) in outcomes {
        let claimed = held(case).await;
        command(case, finish(&claimed, outcome.clone()), expected).await;
        command(case, finish(&claimed, outcome), &[]).await;
    }
    let id = case.submit(NewTask { max_attempts: NonZeroU32::MIN.into(), ..case.task() }).await;
    let last = case.take(id, &case.worker("w").await).await;
    command(case, finish(&last, failed("x")), &[SETTLED]).await;
}

/// C54, I19: who gives a task back, or tells about it, does not have to be told to let it go.
async fn a_holder_is_not_told_what_it_said_itself(case: &Case) {
    let id = case.submit(case.task()).await;
    let claimed = case.take(id, &case.worker("w").await).await;
    command(case, Command::Start { token: token(&claimed), at: None }, &[]).await;
    command(case, Command::Report { token: token(&claimed), report: details("1") }, &[]).await;
    command(case, Command::Release { token: token(&claimed), note: None }, &[CLAIMABLE]).await;
}

/// I19: a handler should stop soon, and others may have the task.
async fn what_an_operator_takes_away_rings(case: &Case) {
    let cancel = |task| Command::Cancel { task, by: By::default() };
    let resolve = |task| Command::Resolve { task, result: None, by: By::default() };
    let retry = |task| Command::Retry { task, force: true, by: By::default() };
    for state in STATES {
        let bring = || case.bring(case.task(), state);
        let revoked: &[&str] = if state.is_held() { &[REVOKED] } else { &[] };
        if !state.is_final() {
            command(case, cancel(bring().await), &[&[SETTLED], revoked].concat()).await;
            command(case, resolve(bring().await), &[&[SETTLED], revoked].concat()).await;
        }
        if !matches!(state, State::Pending | State::Completed | State::ResolvedManually) {
            command(case, retry(bring().await), &[&[CLAIMABLE], revoked].concat()).await;
        }
        if state.is_final() {
            command(case, Command::Delete { task: bring().await }, &[]).await;
        }
    }
}

/// C54: a moment that has come; and a worker that is dead, which somebody else takes for it.
async fn what_time_moves_rings(case: &Case) {
    let waiting = case.submit(later(case)).await;
    let lost = held(case).await.task.id;
    let once = NewTask { max_attempts: NonZeroU32::MIN.into(), ..case.task() };
    let last = case.bring(once, State::Running).await;
    case.pass(60);
    command(case, Command::Promote { task: waiting }, &[CLAIMABLE]).await;
    command(case, Command::Expire { task: lost, lease: 1 }, &[CLAIMABLE, REVOKED]).await;
    command(case, Command::Expire { task: last, lease: 1 }, &[SETTLED, REVOKED]).await;
    let retention = Retention::default().keep(State::DeadLetter, Duration::ZERO).unwrap();
    case.pass(1);
    let pruned = rings(case, case.store().prune(retention.clone(), 9), &[], "a prune").await;
    assert_eq!(pruned.unwrap(), 1);
}

/// C54, 2.11: a leader that waits for the moment which was has to wait for another.
async fn a_retry_that_is_put_off_rings(case: &Case) {
    let task = case.bring(case.task(), State::WaitingForRetry).await;
    for delay in [5, 500, 0].map(Duration::from_secs) {
        command(case, Command::Postpone { task, delay }, &[TIMED]).await;
        command(case, Command::Postpone { task, delay }, &[]).await;
    }
}

/// 0.8: the end of one task is the beginning of the next. Without a next one there is nothing to claim.
/// Who ends a step and claims the next in one turn has left nothing for others to come for.
async fn what_is_claimed_as_soon_as_it_can_be_does_not_ring(case: &Case) {
    let worker = case.worker("w").await;
    let steps = json!({ "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["b"] }, "d": { "needs": ["b"] } });
    let id = case.start(1, steps).await;
    let mut held = case.claim(&worker, 1).await;
    for (limit, bells) in [(10, &[SETTLED][..]), (1, &[CLAIMABLE, SETTLED])] {
        let turn = Turn {
            commands: vec![finish(&held[0], completed("1"))],
            claim: Some(claim_of(&worker, limit)),
            ..Turn::default()
        };
        let turned = rings(case, case.store().turn(turn), bells, "a turn that claims what it opened").await;
        held = turned.unwrap().claimed.unwrap();
        assert_eq!(held.len(), 1, "of {id}");
    }
}

async fn a_freed_slot_rings(case: &Case) {
    let worker = case.worker("w").await;
    case.submit(case.task_for("planner:1")).await;
    case.submit(case.task_for("planner:1")).await;
    let first = case.claim_one(&worker).await;
    command(case, finish(&first, completed("1")), &[CLAIMABLE, SETTLED]).await;
    let second = case.claim_one(&worker).await;
    command(case, finish(&second, completed("1")), &[SETTLED]).await;
}

/// What was held back is there at once; holding back is no news.
async fn a_resumed_queue_rings(case: &Case) {
    case.submit(case.task()).await;
    let (store, name) = (case.store(), Name::default());
    rings(case, store.pause(name.clone(), name.clone(), true), &[], "a pause").await.unwrap();
    rings(case, store.pause(name.clone(), name.clone(), false), &[CLAIMABLE], "a resumed queue")
        .await
        .unwrap();
}

/// C54: a new moment to wait for; and the work that comes of it.
async fn a_schedule_rings(case: &Case) {
    let set = rings(case, case.schedule(hourly("s", case.now())), &[TIMED], "a new schedule").await;
    let store = case.store();
    let fired = rings(case, store.fire(firing(&set, id(1000)), None), &[CLAIMABLE], "a fired slot").await;
    assert_eq!(fired.unwrap().len(), 1);
    rings(case, store.fire(firing(&set, id(1001)), None), &[], "a schedule that moved").await.unwrap_err();
    let set = store.schedules().await.unwrap().remove(0);
    let out = Firing { tasks: Vec::new(), ..firing(&set, id(1001)) };
    rings(case, store.fire(out, None), &[], "a slot that is left out").await.unwrap();
    let bad = NewSchedule { cron: String::new(), ..hourly("s", Timestamp::MAX) };
    rings(case, store.set_schedule(bad), &[], "a bad schedule").await.unwrap_err();
    let removed =
        rings(case, store.remove_schedule(set.namespace.clone(), set.name.clone()), &[], "a removed one")
            .await;
    assert!(removed.unwrap());
}

/// C54: done before, it is no news. A worker that waits for news would turn forever.
async fn a_command_that_does_nothing_does_not_ring(case: &Case) {
    let by = By::default;
    let pending = case.submit(case.task()).await;
    command(case, Command::Retry { task: pending, force: true, by: by() }, &[]).await;
    case.cancel(pending).await.unwrap();
    command(case, Command::Cancel { task: pending, by: by() }, &[]).await;
    let resolved = case.bring(case.task(), State::ResolvedManually).await;
    command(case, Command::Resolve { task: resolved, result: None, by: by() }, &[]).await;
    let claimed = held(case).await;
    command(case, Command::Start { token: token(&claimed), at: None }, &[]).await;
    command(case, Command::Report { token: token(&claimed), report: Report::default() }, &[]).await;
}

/// C54, I5: refused for any reason.
async fn a_refused_command_does_not_ring(case: &Case) {
    let claimed = held(case).await;
    let task = claimed.task.id;
    let stale = Token { lease: 9, ..token(&claimed) };
    let worker = WorkerId::new("nobody").unwrap();
    let refused = [
        Command::Claim { task, worker },
        Command::Start { token: stale.clone(), at: None },
        Command::Report { token: stale.clone(), report: details("1") },
        Command::Finish { token: stale.clone(), outcome: completed("1"), started_at: None },
        Command::Release { token: stale, note: None },
        Command::Promote { task },
        Command::Postpone { task, delay: Duration::ZERO },
        Command::Expire { task, lease: 1 },
        Command::Delete { task },
        Command::Cancel { task: id(404), by: By::default() },
    ];
    for command in refused {
        let after = format!("{command:?}");
        rings(case, case.apply(command), &[], &after).await.unwrap_err();
    }
}

/// C54: a worker's own rounds, with and without a catch, and the leader's.
async fn claims_and_heartbeats_do_not_ring(case: &Case) {
    let store = case.store();
    let worker = case.worker("w").await;
    rings(case, store.turn(Turn::default()), &[], "an empty turn").await.unwrap();
    assert_eq!(rings(case, case.claim(&worker, 9), &[], "an empty claim").await, []);
    let ids: Vec<TaskId> = case.submit_many(2).await;
    assert_eq!(rings(case, case.claim(&worker, 9), &[], "a claim").await.len(), ids.len());
    let held = ids.into_iter().map(|id| (id, 1)).collect();
    rings(case, store.heartbeat(worker.clone(), held), &[], "a heartbeat").await.unwrap();
    let lease = Duration::from_secs(30);
    rings(case, store.campaign(worker.clone(), lease), &[], "a campaign").await.unwrap().unwrap();
    rings(case, store.resign(worker.clone(), 1), &[], "a resignation").await.unwrap();
    rings(case, store.reconcile(None, 9), &[], "a look at the lanes").await.unwrap();
    let (name, planner) = (Name::default(), entity("planner:1"));
    assert!(
        rings(case, store.set_entity(name.clone(), planner.clone(), true), &[], "an entity").await.unwrap()
    );
    let stranger = NewWorker::new(WorkerId::new("stranger").unwrap());
    let strange = rings(case, store.claim(claim_of(&stranger.id, 1)), &[], "a stranger's claim").await;
    assert_eq!(strange.unwrap_err().code(), "invalid_worker");
}

/// A worker may fall silent, which is a moment to wait for, and the leases of one that leaves expire at once.
async fn who_comes_and_goes_rings(case: &Case) {
    let store = case.store();
    let worker = rings(case, case.worker("w"), &[TIMED], "a registration").await;
    rings(case, store.deregister(worker.clone()), &[TIMED], "a worker that leaves").await.unwrap();
    rings(case, store.deregister(worker.clone()), &[], "one that has left").await.unwrap();
}

/// C54: reading is not writing.
async fn looking_does_not_ring(case: &Case) {
    for state in STATES {
        case.bring(case.task(), state).await;
    }
    case.schedule(hourly("s", case.now())).await;
    rings(case, case.snapshot(), &[], "reading everything").await;
    rings(case, case.store().due(100), &[], "asking what is due").await.unwrap();
    rings(case, case.store().describe(), &[], "asking what it is").await.unwrap();
}

/// One signal, all who listen.
async fn every_listener_is_woken(case: &Case) {
    let bells = [case.store().watch(), case.store().watch(), case.store().watch()];
    case.submit(case.task()).await;
    for mut bell in bells {
        let rang = tokio::time::timeout(Duration::from_secs(10), bell.changed()).await;
        assert!(matches!(rang, Ok(Ok(()))), "no signal after a submit");
    }
}
