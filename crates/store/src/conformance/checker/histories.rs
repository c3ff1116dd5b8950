//! Rules about the history of one task by itself, and about its row beside it.

use windlass_core::{Entry, Lease, Reason, State, Task, history};

use super::Violation;
use super::violation::difference;
use crate::Record;

/// What is wrong with the record by itself: first what its history says that it should not, and only then
/// what follows from a history that is whole.
pub(super) fn check(record: &Record) -> Option<Violation> {
    let Record { task, history, .. } = record;
    forbidden(task, history)
        .or_else(|| broken(task, history))
        .or_else(|| attempts(record))
        .or_else(|| unfolded(record))
}

/// I3, I4, I6, I19: what must never follow what.
fn forbidden(task: &Task, history: &[Entry]) -> Option<Violation> {
    let (task, mut lease, mut before) = (task.id, Lease::default(), None::<State>);
    // How its present life has ended, if it has.
    let mut over = None;
    for entry in history {
        let claimed = entry.to == State::Claimed;
        lease += Lease::from(claimed);
        if claimed && before.is_some_and(State::is_held) {
            return Some(Violation::TwoHolders { task, lease });
        }
        match over {
            _ if is_reopening(entry.reason) => over = None,
            Some(State::Cancelled) if claimed => return Some(Violation::StartedAfterCancel { task, lease }),
            Some(_) if claimed => {
                return Some(Violation::HandedOutAfterFinish { task, finished: lease - 1, handed: lease });
            }
            Some(State::Failed | State::DeadLetter) if entry.reason == Reason::Resolved => {}
            Some(_) if entry.to.is_final() => {
                return Some(Violation::EndedTwice { task, entry: entry.seq, to: entry.to });
            }
            _ => {}
        }
        if entry.to.is_final() {
            over = Some(entry.to);
        }
        before = Some(entry.to);
    }
    None
}

/// Whether an operator began a new life, so that what was over is over no more.
pub(super) fn is_reopening(reason: Reason) -> bool {
    matches!(reason, Reason::Retried | Reason::Reopened)
}

/// I9: gaps, illegal arrows, time going back, and ends that nobody may leave.
fn broken(task: &Task, history: &[Entry]) -> Option<Violation> {
    let left = history.iter().find(|entry| {
        let was_over = entry.from.is_some_and(State::is_final);
        was_over && !is_reopening(entry.reason) && entry.reason != Reason::Resolved
    });
    let left = left.map(|entry| {
        format!("entry {} leaves an end because it was {}, which no operator did", entry.seq, entry.reason)
    });
    let fault = history::fault(history).or(left);
    fault.map(|fault| Violation::HistoryFault { task: task.id, fault })
}

/// I13: never more attempts than allowed, and all of them counted, those of killed workers too.
fn attempts(Record { task, history, .. }: &Record) -> Option<Violation> {
    let (id, row, counted) = (task.id, task.status.attempt, history::attempts_used(history));
    if row != counted {
        return Some(Violation::Miscounted { task: id, row, history: counted });
    }
    let max = task.spec.max_attempts?.get();
    let most = history::attempts(history).iter().map(|attempt| attempt.number).max()?;
    (most > max).then_some(Violation::TooManyAttempts { task: id, attempts: most, max })
}

/// I9: the fold of the history is the row.
fn unfolded(Record { task, history, .. }: &Record) -> Option<Violation> {
    let (row, last) = (&task.status, history.last()?);
    let claims = history.iter().filter(|entry| entry.to == State::Claimed).count();
    let finished = last.to.is_final().then_some(last.at);
    let differs = difference("state", &row.state, &last.to)
        .or_else(|| difference("lease", &usize::try_from(row.lease).unwrap_or(usize::MAX), &claims))
        .or_else(|| difference("number of entries", &row.entries, &last.seq))
        .or_else(|| difference("last change", &row.updated_at, &last.at))
        .or_else(|| difference("end", &row.finished_at, &finished))
        .or_else(|| difference("submit", &task.spec.created_at, &history[0].at));
    differs.map(|(what, row, history)| Violation::Unfolded { task: task.id, what, row, history })
}
