//! What a running attempt tells about itself, and leaves behind for the next.

use std::time::Duration;

use windlass_core::{
    By, Command, Json, Line, NewTask, Notes, Outcome, Progress, Report, Retention, State, TaskId, Timestamp,
    Token, WorkerId, limits,
};

use super::{
    Case, claim_of, completed, details, failed, failed_for_good, finish, id, report, scenarios, token,
};
use crate::{Claimed, Turn};

scenarios![
    a_report_is_kept_with_its_attempt,
    what_a_report_leaves_out_stays,
    a_report_changes_nothing_else,
    a_stale_report_changes_nothing,
    a_report_about_what_is_over_is_refused,
    a_repeated_report_changes_nothing,
    lines_that_are_known_are_not_added_again,
    lines_that_never_came_are_dropped_ones,
    a_report_has_at_most_a_thousand_lines,
    the_newest_lines_are_kept,
    every_text_is_kept,
    numbers_of_every_size_are_kept,
    a_first_attempt_gets_nothing,
    details_go_to_the_next_attempt,
    the_last_details_count,
    details_are_kept_to_the_letter,
    a_report_and_the_end_in_one_turn,
    what_is_given_back_is_claimed_with_its_details,
    notes_go_with_their_task,
    notes_outlive_a_crash,
];

async fn claimed(case: &Case) -> Claimed {
    let id = case.submit(case.task()).await;
    case.take(id, &case.worker("w").await).await
}

/// Lines with these texts, numbered from `first_line` on.
fn lines<T: AsRef<str>>(first_line: u64, texts: &[T]) -> Report {
    let line = |text: &T| Line { at: super::START, text: text.as_ref().into() };
    Report { first_line, lines: texts.iter().map(line).collect(), ..Report::default() }
}

fn progress(done: u64, total: Option<u64>, note: &str) -> Report {
    let progress = Progress { done, total, note: Some(note.into()) };
    Report { progress: Some(progress), ..Report::default() }
}

async fn notes(case: &Case, id: TaskId) -> Vec<Notes> {
    case.record(id).await.notes
}

/// I5: each claim has notes of its own, in their order; one that told nothing has none.
async fn a_report_is_kept_with_its_attempt(case: &Case) {
    let first = claimed(case).await;
    let id = first.task.id;
    assert_eq!(notes(case, id).await, []);
    let told = Report { details: details("[1]").details, ..progress(1, Some(3), "one") };
    let told = Report { lines: lines(0, &["a", "b"]).lines, ..told };
    let receipt = case.report(&first, told.clone()).await.unwrap();
    assert_eq!((receipt.task, receipt.state, receipt.lease, receipt.changed), (id, State::Claimed, 1, true));
    let kept = |lease, told: Report| Notes {
        lease,
        progress: told.progress,
        details: told.details,
        dropped: 0,
        lines: told.lines,
    };
    assert_eq!(notes(case, id).await, [kept(1, told.clone())]);
    for _ in 0..2 {
        case.retry(id, false).await.unwrap();
        case.claim_one(&case.worker("w").await).await;
    }
    let third = case.held(id).await;
    case.apply(Command::Start { token: token(&third), at: None }).await.unwrap();
    let receipt = case.report(&third, lines(0, &["c"])).await.unwrap();
    assert_eq!((receipt.state, receipt.lease), (State::Running, 3));
    assert_eq!(notes(case, id).await, [kept(1, told), kept(3, lines(0, &["c"]))]);
}

/// Progress, details and lines come one by one.
async fn what_a_report_leaves_out_stays(case: &Case) {
    let claimed = claimed(case).await;
    for told in [progress(1, None, "x"), details("{}"), lines(0, &["a"]), progress(2, None, "y")] {
        assert!(case.report(&claimed, told).await.unwrap().changed);
    }
    let expected = Notes {
        lease: 1,
        progress: progress(2, None, "y").progress,
        details: details("{}").details,
        dropped: 0,
        lines: lines(0, &["a"]).lines,
    };
    assert_eq!(notes(case, claimed.task.id).await, [expected]);
}

/// No arrow, no history, no count: only words.
async fn a_report_changes_nothing_else(case: &Case) {
    let claimed = claimed(case).await;
    let (before, counts) = (case.record(claimed.task.id).await, case.store().counts().await.unwrap());
    case.pass(5);
    case.report(&claimed, progress(1, None, "x")).await.unwrap();
    let mut after = case.record(claimed.task.id).await;
    assert_eq!(std::mem::take(&mut after.notes).len(), 1);
    assert_eq!((after, case.store().counts().await.unwrap()), (before, counts));
}

/// I5: who lost the task, who never had it, and who guesses.
async fn a_stale_report_changes_nothing(case: &Case) {
    let old = claimed(case).await;
    let id = old.task.id;
    case.report(&old, lines(0, &["mine"])).await.unwrap();
    case.retry(id, false).await.unwrap();
    assert_eq!(case.refusal(report(&old, lines(1, &["more"]))).await.code(), "lease_lost", "pending again");
    let new = case.take(id, &case.worker("other").await).await;
    case.report(&new, lines(0, &["theirs"])).await.unwrap();
    assert_eq!(case.refusal(report(&old, lines(1, &["more"]))).await.code(), "lease_lost");
    let good = token(&new);
    for (bad, code) in [
        (Token { worker: WorkerId::new("w").unwrap(), ..good.clone() }, "wrong_worker"),
        (Token { worker: WorkerId::new("nobody").unwrap(), ..good.clone() }, "wrong_worker"),
        (Token { lease: 3, ..good.clone() }, "lease_lost"),
        (Token { lease: 0, ..good.clone() }, "lease_lost"),
        (Token { task: super::id(404), ..good }, "task_not_found"),
    ] {
        let forged = Command::Report { token: bad.clone(), report: lines(1, &["forged"]) };
        assert_eq!(case.refusal(forged).await.code(), code, "{bad:?}");
    }
    let fresh = case.submit(case.task()).await;
    let token = Token { task: fresh, ..token(&new) };
    let early = Command::Report { token, report: details("1") };
    assert_eq!(case.refusal(early).await.code(), "not_claimed");
}

/// I5: after its end an attempt has nothing more to say, whoever ended it.
async fn a_report_about_what_is_over_is_refused(case: &Case) {
    let by = By::default;
    for end in [
        |claimed: &Claimed| finish(claimed, completed("1")),
        |claimed: &Claimed| finish(claimed, failed("x")),
        |claimed: &Claimed| finish(claimed, failed_for_good("x")),
        |claimed: &Claimed| finish(claimed, Outcome::Snoozed { delay: Duration::from_secs(1) }),
        |claimed: &Claimed| Command::Release { token: token(claimed), note: None },
        |claimed: &Claimed| Command::Cancel { task: claimed.task.id, by: By::default() },
        |claimed: &Claimed| Command::Resolve { task: claimed.task.id, result: None, by: By::default() },
    ] {
        let claimed = claimed(case).await;
        case.report(&claimed, details("1")).await.unwrap();
        case.apply(end(&claimed)).await.unwrap();
        case.refusal(report(&claimed, details("2"))).await;
        case.refusal(report(&claimed, details("1"))).await;
        assert_eq!(notes(case, claimed.task.id).await[0].details, details("1").details);
        let _ = case.apply(Command::Cancel { task: claimed.task.id, by: by() }).await;
    }
}

/// I5: an answer that was lost can be asked for again.
async fn a_repeated_report_changes_nothing(case: &Case) {
    let claimed = claimed(case).await;
    let told = Report { details: details("[1]").details, ..progress(1, Some(3), "n\0te") };
    let told = Report { lines: lines(0, &["a", "b\0"]).lines, ..told };
    assert!(case.report(&claimed, told.clone()).await.unwrap().changed);
    let before = case.snapshot().await;
    assert!(!case.report(&claimed, told).await.unwrap().changed);
    assert!(!case.report(&claimed, Report::default()).await.unwrap().changed, "nothing was told");
    assert_eq!(case.snapshot().await, before);
}

/// Lines are numbered, so that a report that overlaps the one before adds what is new.
async fn lines_that_are_known_are_not_added_again(case: &Case) {
    let claimed = claimed(case).await;
    case.report(&claimed, lines(0, &["a", "b"])).await.unwrap();
    case.report(&claimed, lines(1, &["b", "c", "d"])).await.unwrap();
    assert!(!case.report(&claimed, lines(2, &["c"])).await.unwrap().changed);
    assert_eq!(notes(case, claimed.task.id).await[0].lines, lines(0, &["a", "b", "c", "d"]).lines);
}

/// I5: a worker that was cut off, and kept only its newest lines, may send them again like any others.
async fn lines_that_never_came_are_dropped_ones(case: &Case) {
    let claimed = claimed(case).await;
    case.report(&claimed, lines(0, &["a"])).await.unwrap();
    assert!(case.report(&claimed, lines(5, &["f", "g"])).await.unwrap().changed);
    assert!(!case.report(&claimed, lines(5, &["f", "g"])).await.unwrap().changed, "again");
    case.report(&claimed, lines(6, &["g", "h"])).await.unwrap();
    let kept = notes(case, claimed.task.id).await.remove(0);
    assert_eq!((kept.dropped, kept.lines), (4, lines(0, &["a", "f", "g", "h"]).lines));
}

/// Limits: a report is a batch.
async fn a_report_has_at_most_a_thousand_lines(case: &Case) {
    let claimed = claimed(case).await;
    let many = lines(0, &["x"; limits::BATCH + 1]);
    assert_eq!(case.refusal(report(&claimed, many)).await.code(), "invalid_task");
    case.report(&claimed, lines(0, &["x"; limits::BATCH])).await.unwrap();
    assert_eq!(notes(case, claimed.task.id).await[0].lines.len(), limits::BATCH);
}

/// Limits: a log of 64 KiB and 1,000 lines, of 4 KiB each; the beginning is dropped, and counted.
async fn the_newest_lines_are_kept(case: &Case) {
    let short = claimed(case).await;
    let texts: Vec<String> = (0..limits::LOG_LINES + 7).map(|n| n.to_string()).collect();
    case.report(&short, lines(0, &texts[..7])).await.unwrap();
    case.report(&short, lines(7, &texts[7..])).await.unwrap();
    let kept = notes(case, short.task.id).await.remove(0);
    assert_eq!((kept.dropped, kept.lines), (7, lines(7, &texts[7..]).lines));
    let again = case.report(&short, lines(0, &texts[..9])).await.unwrap();
    assert!(!again.changed, "what was dropped is not new");

    let long = claimed(case).await;
    let texts: Vec<String> = (0..40).map(|n| format!("{n:02}{}", "é".repeat(limits::LINE_BYTES))).collect();
    case.report(&long, lines(0, &texts)).await.unwrap();
    let kept = notes(case, long.task.id).await.remove(0);
    let bytes: usize = kept.lines.iter().map(|line| line.text.len()).sum();
    assert!(bytes <= limits::LOG_BYTES, "{bytes} bytes are kept");
    assert_eq!(kept.dropped + u64::try_from(kept.lines.len()).unwrap(), 40);
    let last = &kept.lines[kept.lines.len() - 1].text;
    assert!(last.starts_with("39é") && last.ends_with("é…"), "cut between two letters, and marked");
}

/// Quotes, line ends, NUL: in lines, in words about progress, at any moment.
async fn every_text_is_kept(case: &Case) {
    let claimed = claimed(case).await;
    let texts = ["", "it's \"so\"", "a\nb\r\n", "'; DROP TABLE notes; --", "é😀\u{202e}", "\\u0000", "[1]"];
    let moments = [Timestamp::MIN, Timestamp::MAX].into_iter().cycle();
    let told: Vec<Line> =
        texts.iter().zip(moments).map(|(text, at)| Line { at, text: (*text).into() }).collect();
    case.report(&claimed, Report { lines: told.clone(), ..Report::default() }).await.unwrap();
    assert_eq!(notes(case, claimed.task.id).await[0].lines, told);
    for text in texts {
        case.report(&claimed, progress(1, None, text)).await.unwrap();
        let kept = notes(case, claimed.task.id).await[0].progress.clone().unwrap();
        assert_eq!(kept.note.as_deref(), Some(text));
    }
    case.report(&claimed, progress(1, None, &"x".repeat(limits::TEXT_BYTES + 1))).await.unwrap();
    let kept = notes(case, claimed.task.id).await[0].progress.clone().unwrap();
    assert!(kept.note.is_some_and(|note| note.len() <= limits::TEXT_BYTES && note.ends_with("(cut)")));
    case.report(&claimed, lines(7, &["a\0b"])).await.unwrap();
    assert_eq!(notes(case, claimed.task.id).await[0].lines[7].text, "a\u{fffd}b");
}

/// Whatever the handler counts.
async fn numbers_of_every_size_are_kept(case: &Case) {
    let claimed = claimed(case).await;
    for (done, total) in [(0, None), (0, Some(0)), (5, Some(3)), (u64::MAX, Some(u64::MAX)), (1 << 63, None)]
    {
        let told = Progress { done, total, note: None };
        let report = Report { progress: Some(told.clone()), ..Report::default() };
        assert!(case.report(&claimed, report).await.unwrap().changed);
        assert_eq!(notes(case, claimed.task.id).await[0].progress, Some(told));
    }
}

/// There is nothing to go on from, not even what the attempt itself leaves.
async fn a_first_attempt_gets_nothing(case: &Case) {
    case.submit(case.task()).await;
    let first = case.claim_one(&case.worker("w").await).await;
    assert_eq!(first.details, None);
    case.report(&first, lines(0, &["no details"])).await.unwrap();
    case.retry(first.task.id, false).await.unwrap();
    assert_eq!(case.claim_one(&case.worker("w").await).await.details, None, "a log is not for the next");
}

/// A command about what was claimed.
type Step<'a> = &'a (dyn Fn(&Claimed) -> Command + Sync);

/// I5: whatever ends an attempt, the next one may go on where it was.
async fn details_go_to_the_next_attempt(case: &Case) {
    let worker = case.worker("w").await;
    let retry =
        |force| move |claimed: &Claimed| Command::Retry { task: claimed.task.id, force, by: By::default() };
    let cancel = |claimed: &Claimed| Command::Cancel { task: claimed.task.id, by: By::default() };
    let expire = |claimed: &Claimed| Command::Expire { task: claimed.task.id, lease: 1 };
    let promote = |claimed: &Claimed| Command::Promote { task: claimed.task.id };
    let snooze = |claimed: &Claimed| finish(claimed, Outcome::Snoozed { delay: Duration::from_secs(9) });
    let release = |claimed: &Claimed| Command::Release { token: token(claimed), note: None };
    let ways: [(&str, &[Step<'_>]); 8] = [
        ("failure", &[&|claimed| finish(claimed, failed("x")), &promote]),
        ("release", &[&release]),
        ("snooze", &[&snooze, &promote]),
        ("expiry", &[&expire]),
        ("taken away", &[&retry(false)]),
        ("reopened", &[&|claimed| finish(claimed, failed_for_good("x")), &retry(true)]),
        ("cancelled", &[&cancel, &retry(true)]),
        ("forced", &[&retry(true)]),
    ];
    for (way, steps) in ways {
        let id = case.submit(case.task()).await;
        let first = case.take(id, &case.worker("mortal").await).await;
        case.report(&first, details(&format!("{{\"after\":\"{way}\"}}"))).await.unwrap();
        case.pass(60);
        for step in steps {
            case.pass(60);
            case.apply(step(&first)).await.unwrap();
        }
        case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
        let second = case.claim_one(&worker).await;
        let expected = details(&format!("{{\"after\":\"{way}\"}}")).details;
        assert_eq!((second.task.status.lease, &second.details), (2, &expected), "{way}");
        case.complete(&second).await;
    }
}

/// An attempt that says nothing passes on what it was given; `null` is something.
async fn the_last_details_count(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(NewTask { max_attempts: None, ..case.task() }).await;
    let expected = [None, Some("1"), Some("1"), Some("1"), Some("4"), Some("null")];
    for (told, given) in [Some("1"), None, None, Some("4"), Some("null"), None].into_iter().zip(expected) {
        let claimed = case.claim_one(&worker).await;
        assert_eq!(claimed.details.as_ref().map(Json::as_str), given, "lease {}", claimed.task.status.lease);
        if let Some(told) = told {
            case.report(&claimed, details("\"overwritten\"")).await.unwrap();
            case.report(&claimed, details(told)).await.unwrap();
        }
        case.retry(task, true).await.unwrap();
    }
    assert_eq!(notes(case, task).await.iter().map(|notes| notes.lease).collect::<Vec<_>>(), [1, 4, 5]);
}

/// 3.1, C75: as a payload is.
async fn details_are_kept_to_the_letter(case: &Case) {
    let worker = case.worker("w").await;
    let task = case.submit(NewTask { max_attempts: None, ..case.task() }).await;
    let large = format!("\"{}\"", "x".repeat(limits::JSON_BYTES - 2));
    for text in [
        " {\"a\" : 1} ",
        r#"{"a":1,"a":2}"#,
        "1e400",
        r#""\u0000""#,
        r#""\ud800""#,
        "\"it's é😀\"",
        "18446744073709551616",
        &large,
    ] {
        let claimed = case.claim_one(&worker).await;
        case.report(&claimed, details(text)).await.unwrap();
        case.retry(task, true).await.unwrap();
        let next = case.claim_one(&worker).await;
        assert_eq!(next.details.unwrap().as_str(), text);
        case.retry(task, true).await.unwrap();
    }
}

/// I5: in their order: first the last words, then the end; not the other way round.
async fn a_report_and_the_end_in_one_turn(case: &Case) {
    let (one, two) = (claimed(case).await, claimed(case).await);
    let said = || lines(0, &["last words"]);
    let good = vec![report(&one, said()), finish(&one, completed("1"))];
    let receipts = case.store().apply(good).await.unwrap();
    assert!(receipts.iter().all(|receipt| receipt.as_ref().unwrap().changed));
    assert_eq!(notes(case, one.task.id).await[0].lines, said().lines);
    let late = vec![finish(&two, completed("1")), report(&two, said())];
    let receipts = case.store().apply(late).await.unwrap();
    assert_eq!(receipts[1].as_ref().unwrap_err().code(), "task_completed");
    assert_eq!(notes(case, two.task.id).await, []);
}

/// I5: even within one turn.
async fn what_is_given_back_is_claimed_with_its_details(case: &Case) {
    let worker = case.worker("w").await;
    let first = claimed(case).await;
    let release = Command::Release { token: token(&first), note: None };
    let commands = vec![report(&first, details("[7]")), release];
    let turn = Turn { commands, claim: Some(claim_of(&worker, 1)), term: None };
    let claimed = case.store().turn(turn).await.unwrap().claimed.unwrap();
    assert_eq!((claimed[0].task.id, &claimed[0].details), (first.task.id, &details("[7]").details));
    case.report(&claimed[0], details("[8]")).await.unwrap();
    let leases: Vec<_> = notes(case, first.task.id).await.iter().map(|notes| notes.lease).collect();
    assert_eq!(leases, [1, 2]);
}

/// 0.13, 3.3: deleted or pruned, it leaves nothing behind, not even for a task of the same id.
async fn notes_go_with_their_task(case: &Case) {
    let worker = case.worker("w").await;
    for prune in [false, true] {
        let new = NewTask { id: id(1000), ..case.task() };
        let task = case.submit(new.clone()).await;
        let claimed = case.take(task, &worker).await;
        case.report(&claimed, details("1")).await.unwrap();
        case.complete(&claimed).await;
        assert_eq!(notes(case, task).await.len(), 1);
        case.pass(1);
        case.store().heartbeat(worker.clone(), Vec::new()).await.unwrap();
        if prune {
            let retention = Retention::default().keep(State::Completed, Duration::ZERO).unwrap();
            assert_eq!(case.store().prune(retention.clone(), 9).await.unwrap(), 1);
        } else {
            case.apply(Command::Delete { task }).await.unwrap();
        }
        case.submit(new).await;
        case.take(task, &worker).await;
        case.retry(task, false).await.unwrap();
        assert_eq!(notes(case, task).await, []);
        assert_eq!(case.claim_one(&worker).await.details, None);
        case.cancel(task).await.unwrap();
        case.apply(Command::Delete { task }).await.unwrap();
    }
}

/// I1: an acknowledged report is kept, and the attempt goes on telling.
async fn notes_outlive_a_crash(case: &Case) {
    let claimed = claimed(case).await;
    let told = Report { lines: lines(0, &["a", "b"]).lines, ..progress(1, Some(2), "half") };
    case.report(&claimed, Report { details: details("[1]").details, ..told }).await.unwrap();
    let before = case.snapshot().await;
    case.crash().await;
    assert_eq!(case.snapshot().await, before);
    case.report(&claimed, lines(1, &["b", "c"])).await.unwrap();
    assert_eq!(notes(case, claimed.task.id).await[0].lines, lines(0, &["a", "b", "c"]).lines);
    case.retry(claimed.task.id, false).await.unwrap();
    case.crash().await;
    assert_eq!(case.claim_one(&case.worker("w").await).await.details, details("[1]").details);
}
