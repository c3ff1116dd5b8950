//! The history of a task, and the attempts read from it.

use std::time::Duration;

use windlass_core::{By, Command, NewTask, Outcome, Reason, State, history};

use super::{Case, completed, scenarios, token};

scenarios![
    the_first_entry_is_the_submission,
    one_entry_per_change,
    a_refused_command_leaves_no_entry,
    entries_are_numbered_though_the_clock_stands,
    entries_do_not_go_back_with_the_clock,
    operators_are_named_and_quoted,
    attempts_are_read_from_it,
    the_history_outlives_the_end,
];

/// 3.3, C37: from nothing to the first state, by its submitter.
async fn the_first_entry_is_the_submission(case: &Case) {
    let id = case.submit(NewTask { actor: Some("api:ada".into()), ..case.task() }).await;
    let entry = case.record(id).await.history.remove(0);
    assert_eq!((entry.seq, entry.from, entry.to), (1, None, State::Pending));
    assert_eq!((entry.reason, entry.at, entry.note), (Reason::Submitted, case.now(), None));
    assert_eq!(entry.actor.as_deref(), Some("api:ada"));
}

/// 3.3, 3.6, 3.7, C61: in order, each continuing the one before, each with its reason, its actor and its
/// time.
async fn one_entry_per_change(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    let start = case.now();
    case.pass(1);
    let claimed = case.claim_one(&worker).await;
    case.pass(1);
    case.apply(Command::Start { token: token(&claimed), at: None }).await.unwrap();
    case.pass(1);
    case.fail(&claimed, "no route").await;
    case.pass(1);
    case.chores().await;
    case.pass(1);
    let claimed = case.claim_one(&worker).await;
    case.pass(1);
    case.finish(&claimed, completed("1")).await.unwrap();
    let history = case.record(id).await.history;
    let told: Vec<_> = history
        .iter()
        .map(|entry| {
            let seconds = entry.at.since(start).as_secs();
            (entry.seq, entry.to.word(), entry.reason.word(), entry.actor.as_deref(), seconds)
        })
        .collect();
    let expected = [
        (1, "pending", "submitted", None, 0),
        (2, "claimed", "claimed", Some("w"), 1),
        (3, "running", "started", Some("w"), 2),
        (4, "waiting_for_retry", "failed", Some("w"), 3),
        (5, "pending", "due", None, 4),
        (6, "claimed", "claimed", Some("w"), 5),
        (7, "running", "started", Some("w"), 6),
        (8, "completed", "completed", Some("w"), 6),
    ];
    assert_eq!(told, expected);
    assert_eq!(history[3].note.as_deref(), Some("no route"));
    assert!(history.windows(2).all(|pair| pair[1].from == Some(pair[0].to)));
}

/// 3.4, I9: what was not done is not told.
async fn a_refused_command_leaves_no_entry(case: &Case) {
    let id = case.bring(case.task(), State::Completed).await;
    let before = case.record(id).await.history;
    case.cancel(id).await.unwrap_err();
    case.retry(id, true).await.unwrap_err();
    assert_eq!(case.record(id).await.history, before);
}

/// C64: the order is the number's, not the clock's.
async fn entries_are_numbered_though_the_clock_stands(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    for _ in 0..5 {
        let claimed = case.take(id, &worker).await;
        case.finish(&claimed, Outcome::Snoozed { delay: Duration::ZERO }).await.unwrap();
        case.chores().await;
    }
    let history = case.record(id).await.history;
    assert!(history.iter().all(|entry| entry.at == case.now()));
    assert!(history.iter().map(|entry| entry.seq).eq(1..=21), "{history:?}");
}

/// C64: a clock that goes back does not make later entries earlier.
async fn entries_do_not_go_back_with_the_clock(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    let then = case.now();
    case.clock.set(then.minus(Duration::from_secs(3600)));
    case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
    let claimed = case.claim_one(&worker).await;
    case.complete(&claimed).await;
    let record = case.record(id).await;
    assert!(record.history.iter().all(|entry| entry.at == then), "{:?}", record.history);
    assert_eq!(record.task.status.finished_at, Some(then));
}

/// 3.6: notes carry what people have to say.
async fn operators_are_named_and_quoted(case: &Case) {
    let task = case.submit(case.task()).await;
    let by = |note: &str| By { actor: Some("ada@example.org".into()), note: Some(note.into()) };
    case.apply(Command::Cancel { task, by: by("wrong") }).await.unwrap();
    case.apply(Command::Retry { task, force: false, by: by("right after all") }).await.unwrap();
    case.apply(Command::Resolve { task, result: None, by: by("done by phone") }).await.unwrap();
    case.pass(1);
    let history = case.record(task).await.history;
    let told: Vec<_> = history[1..].iter().map(|entry| (entry.reason, entry.note.as_deref())).collect();
    let expected = [
        (Reason::Cancelled, Some("wrong")),
        (Reason::Retried, Some("right after all")),
        (Reason::Resolved, Some("done by phone")),
    ];
    assert_eq!(told, expected);
    assert!(history[1..].iter().all(|entry| entry.actor.as_deref() == Some("ada@example.org")));
}

/// 3.6: every claim is an attempt that can be looked up, with its worker, its times and its end.
async fn attempts_are_read_from_it(case: &Case) {
    let id = case.submit(case.task()).await;
    let first = case.take(id, &case.worker("one").await).await;
    let release = Command::Release { token: token(&first), note: Some("bye".into()) };
    case.apply(release).await.unwrap();
    let second = case.take(id, &case.worker("two").await).await;
    case.fail(&second, "no").await;
    case.retry(id, false).await.unwrap();
    case.take(id, &case.worker("three").await).await;
    case.pass(30);
    case.chores().await;
    case.retry(id, true).await.unwrap();
    let last = case.take(id, &case.worker("four").await).await;
    case.complete(&last).await;
    let attempts = history::attempts(&case.record(id).await.history);
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let worker = attempt.worker.as_ref().map(|worker| worker.as_str());
            (
                attempt.number,
                attempt.lease,
                worker.unwrap(),
                attempt.ended.unwrap(),
                attempt.started_at.is_some(),
            )
        })
        .collect();
    let expected = [
        (1, 1, "one", Reason::Released, false),
        (1, 2, "two", Reason::Failed, true),
        (2, 3, "three", Reason::NotStarted, false),
        (2, 4, "four", Reason::Completed, true),
    ];
    assert_eq!(told, expected);
    assert_eq!((attempts[0].note.as_deref(), attempts[1].note.as_deref()), (Some("bye"), Some("no")));
    assert_eq!(attempts[2].ended_at.unwrap().since(attempts[2].claimed_at).as_secs(), 30);
}

/// 3.3: kept as long as the task, however old.
async fn the_history_outlives_the_end(case: &Case) {
    let id = case.bring(case.task(), State::Completed).await;
    let before = case.record(id).await.history;
    case.pass(1_000_000_000);
    case.chores().await;
    assert_eq!(case.record(id).await.history, before);
}
