//! Claiming one task by its id.

use windlass_core::{By, Command, NewTask, Rejected, State, TaskId, Token, WorkerId};

use super::{Case, STATES, failed_for_good, scenarios};

scenarios![
    a_pending_task_is_claimed,
    the_holder_may_ask_again,
    another_worker_is_told_who_holds_it,
    what_is_not_pending_is_refused,
    an_unknown_task_is_not_found,
    an_unknown_worker_is_refused,
    the_order_does_not_matter,
    the_ten_errors_have_their_words,
];

fn take(task: TaskId, worker: &WorkerId) -> Command {
    Command::Claim { task, worker: worker.clone() }
}

/// 4.3: pending to claimed, one attempt more.
async fn a_pending_task_is_claimed(case: &Case) {
    let id = case.submit(case.task()).await;
    let receipt = case.apply(take(id, &case.worker("w").await)).await.unwrap();
    assert_eq!((receipt.task, receipt.state), (id, State::Claimed));
    assert_eq!((receipt.attempt, receipt.lease, receipt.changed), (1, 1, true));
    assert_eq!(case.record(id).await.task.status.claimed_at, Some(case.now()));
}

/// 4.3: the same worker again is fine, and counts nothing.
async fn the_holder_may_ask_again(case: &Case) {
    let id = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    let claimed = case.take(id, &worker).await;
    let before = case.snapshot().await;
    let receipt = case.apply(take(id, &worker)).await.unwrap();
    assert_eq!((receipt.attempt, receipt.lease, receipt.changed), (1, 1, false));
    assert_eq!(case.snapshot().await, before);
    case.apply(Command::Start { token: super::token(&claimed), at: None }).await.unwrap();
    let receipt = case.apply(take(id, &worker)).await.unwrap();
    assert_eq!((receipt.state, receipt.changed), (State::Running, false));
}

/// 4.3: another worker gets "already claimed".
async fn another_worker_is_told_who_holds_it(case: &Case) {
    let (holder, other) = (case.worker("holder").await, case.worker("other").await);
    let id = case.submit(case.task()).await;
    case.take(id, &holder).await;
    let refused = case.refusal(take(id, &other)).await;
    assert_eq!(refused, Rejected::AlreadyClaimed { task: id, by: holder });
}

/// 4.3: each state has its own refusal.
async fn what_is_not_pending_is_refused(case: &Case) {
    let worker = case.worker("w").await;
    for state in STATES {
        let task = case.bring(case.task(), state).await;
        let expected = match state {
            State::Pending => continue,
            State::Scheduled | State::WaitingForRetry => {
                let due = case.record(task).await.task.status.due_at.unwrap();
                Rejected::NotDue { task, state, due }
            }
            State::Claimed | State::Running => {
                Rejected::AlreadyClaimed { task, by: WorkerId::new("bringer").unwrap() }
            }
            State::Completed => Rejected::TaskCompleted { task },
            State::Failed | State::DeadLetter => Rejected::TaskFailed { task, state },
            _ => Rejected::Settled { task, state },
        };
        assert_eq!(case.refusal(take(task, &worker)).await, expected, "{state}");
    }
}

/// 4.3: unknown tasks are not found.
async fn an_unknown_task_is_not_found(case: &Case) {
    let (task, worker) = (case.task().id, case.worker("w").await);
    assert_eq!(case.refusal(take(task, &worker)).await, Rejected::NotFound { task });
}

/// 4.3, 4.8: unknown and dead workers, even for a task that does not exist. An empty id is no worker id at
/// all.
async fn an_unknown_worker_is_refused(case: &Case) {
    let id = case.submit(case.task()).await;
    let (stranger, silent) = (WorkerId::new("stranger").unwrap(), case.worker("silent").await);
    case.pass(30);
    for worker in [stranger, silent] {
        let expected = Rejected::InvalidWorker { worker: worker.clone() };
        assert_eq!(case.refusal(take(id, &worker)).await, expected);
        assert_eq!(case.refusal(take(case.task().id, &worker)).await, expected);
    }
    assert_eq!(WorkerId::new("").unwrap_err().field, "worker id");
}

/// 4.3: by name, the last may be first.
async fn the_order_does_not_matter(case: &Case) {
    let submitted = case.submit_many(3).await;
    let worker = case.worker("w").await;
    case.take(submitted[2], &worker).await;
    assert_eq!(super::ids(&case.claim(&worker, 9).await), submitted[..2]);
}

/// 4.8: nine of the ten errors, each with a word of its own; the tenth, `store_closed`, is shown by closing.
async fn the_ten_errors_have_their_words(case: &Case) {
    let (one, two) = (case.worker("one").await, case.worker("two").await);
    let claimed = case.submit(case.task()).await;
    let pending = case.submit(case.task()).await;
    let completed = case.bring(case.task(), State::Completed).await;
    let failed = case.bring(case.task(), State::Failed).await;
    let dead = case.bring(case.task(), State::DeadLetter).await;
    let held = case.take(claimed, &one).await;
    let mut foreign = super::token(&held);
    foreign.worker = two.clone();
    let finish = |token| Command::Finish { token, outcome: failed_for_good("x"), started_at: None };
    let unclaimed = Token { task: pending, lease: 0, worker: one.clone() };
    let invalid = NewTask { key: Some(String::new()), ..case.task() };
    let mut words = vec![case.refused(invalid).await];
    for command in [
        take(case.task().id, &one),
        take(claimed, &two),
        finish(unclaimed),
        take(completed, &one),
        take(failed, &one),
        Command::Retry { task: dead, force: false, by: By::default() },
        take(pending, &WorkerId::new("stranger").unwrap()),
        finish(foreign),
    ] {
        words.push(case.refusal(command).await);
    }
    let words: Vec<_> = words.iter().map(Rejected::code).collect();
    let expected = [
        "invalid_task",
        "task_not_found",
        "already_claimed",
        "not_claimed",
        "task_completed",
        "task_failed",
        "max_attempts_reached",
        "invalid_worker",
        "wrong_worker",
    ];
    assert_eq!(words, expected);
}
