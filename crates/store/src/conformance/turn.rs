//! Several commands and a claim in one turn.

use windlass_core::{By, Command, Rejected, State, limits};

use super::{Case, claim_of, completed, failed, finish, ids, scenarios, token};
use crate::{Claim, Error, Turn};

scenarios![
    finish_then_claim_in_one_turn,
    a_finish_frees_what_the_claim_then_takes,
    commands_are_carried_out_in_their_order,
    a_receipt_names_the_kind,
    one_refused_command_does_not_hinder_the_others,
    a_turn_that_is_refused_as_a_whole_does_nothing,
    a_refused_claim_does_not_hinder_the_reports,
    a_turn_has_at_most_a_thousand_commands,
    a_claim_has_at_most_a_thousand_tasks,
];

/// 1.4, C30: report and refill together.
async fn finish_then_claim_in_one_turn(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(4).await;
    let held = case.claim(&worker, 2).await;
    let commands = held.iter().map(|claimed| finish(claimed, completed("1"))).collect();
    let turn = Turn { commands, claim: Some(claim_of(&worker, 2)), term: None };
    let turned = case.store().turn(turn).await.unwrap();
    assert!(turned.receipts.iter().all(|receipt| receipt.as_ref().unwrap().state == State::Completed));
    assert_eq!(ids(&turned.claimed.unwrap()), submitted[2..]);
}

/// 0.8, C8: the slot that a command frees can be taken by the claim of the same turn.
async fn a_finish_frees_what_the_claim_then_takes(case: &Case) {
    let worker = case.worker("w").await;
    case.submit(case.task_for("planner:1")).await;
    let next = case.submit(case.task_for("planner:1")).await;
    let held = case.claim_one(&worker).await;
    let commands = vec![finish(&held, completed("1"))];
    let turn = Turn { commands, claim: Some(claim_of(&worker, 9)), term: None };
    assert_eq!(ids(&case.store().turn(turn).await.unwrap().claimed.unwrap()), [next]);
}

/// Each sees what the ones before it did.
async fn commands_are_carried_out_in_their_order(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(case.task()).await;
    let claim = Command::Claim { task, worker: worker.clone() };
    let token = windlass_core::Token { task, lease: 1, worker };
    let start = Command::Start { token: token.clone(), at: None };
    let end = Command::Finish { token, outcome: failed("x"), started_at: None };
    let retry = Command::Retry { task, force: true, by: By::default() };
    let cancel = Command::Cancel { task, by: By::default() };
    let delete = Command::Delete { task };
    let commands = vec![claim, start, end, retry, cancel, delete.clone(), delete];
    let receipts = case.store().apply(commands).await.unwrap();
    let states: Vec<_> = receipts[..6].iter().map(|receipt| receipt.as_ref().unwrap().state).collect();
    let expected = [
        State::Claimed,
        State::Running,
        State::WaitingForRetry,
        State::Pending,
        State::Cancelled,
        State::Cancelled,
    ];
    assert_eq!(states, expected);
    assert_eq!(receipts[6], Err(Rejected::NotFound { task }));
}

/// Whoever counts what was done by kind need not read the task, and could not read one that was deleted.
async fn a_receipt_names_the_kind(case: &Case) {
    let kind = windlass_core::Name::kind("mail:send").unwrap();
    let task = case.submit(windlass_core::NewTask { kind: kind.clone(), ..case.task() }).await;
    let cancel = Command::Cancel { task, by: By::default() };
    let receipts = case.store().apply(vec![cancel.clone(), cancel, Command::Delete { task }]).await.unwrap();
    let told: Vec<_> = receipts.into_iter().map(|receipt| receipt.unwrap()).collect();
    assert!(told.iter().all(|receipt| receipt.kind == kind), "{told:?}");
    assert!(told.iter().map(|receipt| receipt.changed).eq([true, false, true]));
}

/// I18: one bad command delays only itself.
async fn one_refused_command_does_not_hinder_the_others(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(3).await;
    let held = case.claim(&worker, 2).await;
    let unknown = case.task().id;
    let mut stale = token(&held[0]);
    stale.lease = 7;
    let commands = vec![
        finish(&held[0], completed("1")),
        Command::Cancel { task: unknown, by: By::default() },
        Command::Start { token: stale, at: None },
        finish(&held[1], completed("2")),
    ];
    let turn = Turn { commands, claim: Some(claim_of(&worker, 9)), term: None };
    let turned = case.store().turn(turn).await.unwrap();
    let answers: Vec<_> = turned
        .receipts
        .iter()
        .map(|receipt| receipt.as_ref().map_err(Rejected::code).map(|it| it.state))
        .collect();
    let completed = Ok(State::Completed);
    assert_eq!(answers, [completed, Err("task_not_found"), Err("task_completed"), completed]);
    assert_eq!(ids(&turned.claimed.unwrap()), submitted[2..]);
}

/// "Except for `Unknown`, nothing was changed": not even the commands before the claim.
async fn a_turn_that_is_refused_as_a_whole_does_nothing(case: &Case) {
    let held = {
        case.submit_many(2).await;
        case.claim_one(&case.worker("w").await).await
    };
    let turn =
        |claim: Option<Claim>, term| Turn { commands: vec![finish(&held, completed("1"))], claim, term };
    let before = case.snapshot().await;
    let too_many = Some(claim_of(&token(&held).worker, limits::BATCH + 1));
    for (turn, code) in [(turn(None, Some(1)), "not_leader"), (turn(too_many, None), "invalid_task")] {
        let error: Error = case.store().turn(turn).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(case.snapshot().await, before, "{code}");
    }
}

/// A worker that was declared dead may not claim, but what it has finished under a lease that is still its
/// own is kept.
async fn a_refused_claim_does_not_hinder_the_reports(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(2).await;
    let held = case.claim_one(&worker).await;
    case.pass(31);
    let commands = vec![finish(&held, completed("1"))];
    let turn = Turn { commands, claim: Some(claim_of(&worker, 1)), term: None };
    let turned = case.store().turn(turn).await.unwrap();
    assert_eq!(turned.receipts[0].as_ref().unwrap().state, State::Completed);
    assert_eq!(turned.claimed, Err(Rejected::InvalidWorker { worker }));
    assert_eq!(case.state(submitted[1]).await, State::Pending);
}

/// Limits: 1,000 commands.
async fn a_turn_has_at_most_a_thousand_commands(case: &Case) {
    let task = case.submit(case.task()).await;
    let cancel = Command::Cancel { task, by: By::default() };
    let error = case.store().apply(vec![cancel.clone(); limits::BATCH + 1]).await.unwrap_err();
    assert_eq!(error.code(), "invalid_task");
    assert_eq!(case.state(task).await, State::Pending);
    let receipts = case.store().apply(vec![cancel; limits::BATCH]).await.unwrap();
    let changed = receipts.iter().filter(|receipt| receipt.as_ref().unwrap().changed);
    assert_eq!((receipts.len(), changed.count()), (limits::BATCH, 1));
}

/// Limits: 1,000 tasks, and 256 queues and kinds.
async fn a_claim_has_at_most_a_thousand_tasks(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(limits::BATCH).await;
    for limit in [limits::BATCH + 1, usize::MAX] {
        let error = case.store().claim(claim_of(&worker, limit)).await.unwrap_err();
        assert_eq!(error.code(), "invalid_task", "limit {limit}");
    }
    let names = |n: usize| -> Vec<_> {
        let name = |n: usize| windlass_core::Name::queue(&format!("n{n}")).unwrap();
        (1..=n).map(name).collect()
    };
    let many = limits::SUBSCRIPTIONS + 1;
    for claim in [
        Claim { queues: names(many), ..claim_of(&worker, 1) },
        Claim { kinds: names(many), ..claim_of(&worker, 1) },
    ] {
        assert_eq!(case.store().claim(claim).await.unwrap_err().code(), "invalid_task");
    }
    let most = Claim { queues: names(many - 1), kinds: names(many - 1), ..claim_of(&worker, 1) };
    assert_eq!(case.store().claim(most).await.unwrap(), []);
    assert_eq!(ids(&case.claim(&worker, limits::BATCH).await), submitted);
}
