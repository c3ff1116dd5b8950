//! An operator stops a task.

use windlass_core::{By, Command, Outcome, Reason, Rejected, State};

use super::{Case, STATES, completed, failed, finish, scenarios, token};
use crate::Claimed;

scenarios![
    whatever_is_not_over_can_be_cancelled,
    what_is_over_stays_as_it_is,
    cancelling_twice_is_fine,
    no_attempt_starts_after_a_cancel,
    a_cancelled_handler_cannot_report,
    a_handler_that_gives_up_agrees,
    who_cancelled_and_why_is_kept,
];

/// C28: from every state that is not final; the row stays, with a finish time and without an error.
async fn whatever_is_not_over_can_be_cancelled(case: &Case) {
    for state in STATES.into_iter().filter(|state| !state.is_final()) {
        let id = case.bring(case.task(), state).await;
        let attempt = case.record(id).await.task.status.attempt;
        let receipt = case.cancel(id).await.unwrap();
        assert_eq!((receipt.state, receipt.attempt, receipt.changed), (State::Cancelled, attempt, true));
        let status = case.record(id).await.task.status;
        assert_eq!((status.finished_at, status.error), (Some(case.now()), None), "{state}");
    }
}

/// 0.7: completed, failed, dead and resolved ones are refused, each in its words.
async fn what_is_over_stays_as_it_is(case: &Case) {
    for state in STATES.into_iter().filter(|state| state.is_final() && *state != State::Cancelled) {
        let task = case.bring(case.task(), state).await;
        let expected = match state {
            State::Completed => Rejected::TaskCompleted { task },
            State::ResolvedManually => Rejected::Settled { task, state },
            _ => Rejected::TaskFailed { task, state },
        };
        assert_eq!(case.refusal(Command::Cancel { task, by: By::default() }).await, expected);
    }
}

/// 3.5: the second time nothing changes.
async fn cancelling_twice_is_fine(case: &Case) {
    let id = case.bring(case.task(), State::Cancelled).await;
    let before = case.snapshot().await;
    case.pass(5);
    let receipt = case.cancel(id).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Cancelled, false));
    assert_eq!(case.snapshot().await, before);
}

/// I19: neither by a claim, nor by name, nor by a leader with an old list of what is due.
async fn no_attempt_starts_after_a_cancel(case: &Case) {
    let mut tasks = Vec::new();
    for state in STATES.into_iter().filter(|state| !state.is_final()) {
        tasks.push(case.bring(case.task(), state).await);
    }
    case.pass(7200);
    let due = case.store().due(99).await.unwrap().commands;
    assert_eq!(due.len(), 4);
    for task in &tasks {
        case.cancel(*task).await.unwrap();
    }
    let worker = case.worker("w").await;
    for command in due {
        case.refusal(command).await;
    }
    assert_eq!(case.store().due(99).await.unwrap().commands, []);
    assert_eq!(case.claim(&worker, 99).await, []);
    for task in tasks {
        let refused = case.refusal(Command::Claim { task, worker: worker.clone() }).await;
        assert_eq!(refused, Rejected::Settled { task, state: State::Cancelled });
    }
}

async fn held(case: &Case) -> Claimed {
    let id = case.submit(case.task()).await;
    case.take(id, &case.worker("w").await).await
}

/// I3, I5: what its handler still says does not count.
async fn a_cancelled_handler_cannot_report(case: &Case) {
    let claimed = held(case).await;
    let task = claimed.task.id;
    case.cancel(task).await.unwrap();
    let settled = Rejected::Settled { task, state: State::Cancelled };
    for outcome in [completed("1"), failed("x"), Outcome::Snoozed { delay: Default::default() }] {
        assert_eq!(case.refusal(finish(&claimed, outcome)).await, settled);
    }
    assert_eq!(case.refusal(Command::Start { token: token(&claimed), at: None }).await, settled);
    assert_eq!(case.refusal(Command::Release { token: token(&claimed), note: None }).await, settled);
    assert_eq!(case.record(task).await.result, None);
}

/// 3.5: a handler that was told to stop, and reports so, is not wrong.
async fn a_handler_that_gives_up_agrees(case: &Case) {
    let claimed = held(case).await;
    case.cancel(claimed.task.id).await.unwrap();
    let receipt = case.finish(&claimed, Outcome::Cancelled { note: "stopped".into() }).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Cancelled, false));
}

/// 3.6: the history names the actor and quotes the note.
async fn who_cancelled_and_why_is_kept(case: &Case) {
    let task = case.submit(case.task()).await;
    let by = By { actor: Some("ada".into()), note: Some("wrong customer".into()) };
    case.apply(Command::Cancel { task, by }).await.unwrap();
    let last = case.record(task).await.history.pop().unwrap();
    assert_eq!(
        (last.from, last.to, last.reason),
        (Some(State::Pending), State::Cancelled, Reason::Cancelled)
    );
    assert_eq!((last.actor.as_deref(), last.note.as_deref()), (Some("ada"), Some("wrong customer")));
}
