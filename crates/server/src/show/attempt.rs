//! The attempts of a task: what the history tells of them, and what they told about themselves.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Attempt, Entry, Notes, Progress, Timestamp, WorkerId, history};

use super::time;
use crate::escape::plain;
use crate::paint::Paint;
use crate::table::{Cell, Table};
use crate::{duration, moment};

/// One attempt and its notes.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) attempt: Attempt,
    pub(crate) notes: Option<&'a Notes>,
}

/// All attempts, oldest first.
pub(crate) fn all<'a>(history: &[Entry], notes: &'a [Notes]) -> Vec<Told<'a>> {
    let attempts = history::attempts(history).into_iter();
    attempts
        .map(|attempt| {
            let notes = notes.iter().find(|notes| notes.lease == attempt.lease);
            Told { attempt, notes }
        })
        .collect()
}

#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Progress)]
struct ProgressJson {
    done: u64,
    total: Option<u64>,
    note: Option<String>,
}

/// One attempt.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Attempt)]
pub(crate) struct AttemptJson {
    number: u32,
    lease: u32,
    worker_id: Option<String>,
    claimed_at: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    ended: Option<&'static str>,
    note: Option<String>,
    progress: Option<ProgressJson>,
    log_lines: usize,
}

impl AttemptJson {
    pub(crate) fn of(told: &Told<'_>) -> Self {
        let Attempt { number, lease, worker, claimed_at, started_at, ended_at, ended, note } =
            told.attempt.clone();
        let progress = told.notes.and_then(|notes| notes.progress.clone());
        Self {
            number,
            lease,
            worker_id: worker.map(|worker| worker.to_string()),
            claimed_at: claimed_at.to_string(),
            started_at: time(started_at),
            ended_at: time(ended_at),
            ended: ended.map(windlass::Reason::word),
            note,
            progress: progress.map(|Progress { done, total, note }| ProgressJson { done, total, note }),
            log_lines: told.notes.map_or(0, |notes| notes.lines.len()),
        }
    }
}

/// `3 of 10 (30 %), loading`.
pub(crate) fn progress_text(Progress { done, total, note }: &Progress) -> String {
    let of = match total {
        Some(total @ 1..) => {
            format!(" of {total} ({} %)", u128::from(*done) * 100 / u128::from(*total))
        }
        Some(0) => " of 0".into(),
        None => String::new(),
    };
    let note = note.as_deref().map_or_else(String::new, |note| format!(", {}", plain(note)));
    format!("{done}{of}{note}")
}

/// All attempts, one on each line.
pub(crate) fn table(attempts: &[Told<'_>], paint: Paint) -> String {
    let mut table = Table::new(&["#", "WORKER", "CLAIMED", "WAITED", "TOOK", "ENDED", "LOG LINES", "NOTE"]);
    for Told { attempt, notes } in attempts {
        let Attempt { number, worker, claimed_at, started_at, ended_at, ended, note, .. } = attempt;
        let between = |from: Option<Timestamp>, to: Option<Timestamp>| {
            from.zip(to).map(|(from, to)| duration::rough(to.since(from))).unwrap_or_default()
        };
        let lines = notes.map_or(0, |notes| notes.lines.len());
        table.row([
            (*number).into(),
            worker.as_ref().map_or("", WorkerId::as_str).into(),
            moment::to_milli(*claimed_at).into(),
            between(Some(*claimed_at), *started_at).into(),
            between(*started_at, *ended_at).into(),
            ended.map_or("in progress", windlass::Reason::word).into(),
            if lines == 0 { "".into() } else { Cell::Number(lines.to_string()) },
            note.as_deref().unwrap_or_default().into(),
        ]);
    }
    table.without_empty().render(paint, "  ")
}

/// The lines that were kept of one attempt's log.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = AttemptLog)]
pub(crate) struct LogJson<'a> {
    number: u32,
    lease: u32,
    dropped: u64,
    lines: Vec<LineJson<'a>>,
}

#[derive(Serialize, ToSchema, Debug)]
#[schema(as = LogLine)]
struct LineJson<'a> {
    at: String,
    text: &'a str,
}

impl<'a> LogJson<'a> {
    pub(crate) fn of(told: &Told<'a>) -> Self {
        let lines = told.notes.map_or(&[][..], |notes| &notes.lines);
        Self {
            number: told.attempt.number,
            lease: told.attempt.lease,
            dropped: told.notes.map_or(0, |notes| notes.dropped),
            lines: lines.iter().map(|line| LineJson { at: line.at.to_string(), text: &line.text }).collect(),
        }
    }
}

/// The lines that were kept of one attempt's log, under a line about the attempt.
pub(crate) fn log_text(told: &Told<'_>) -> String {
    let Attempt { number, worker, ended, .. } = &told.attempt;
    let worker = worker.as_ref().map_or_else(String::new, |worker| format!(" by {}", plain(worker.as_str())));
    let ended = ended.map_or("in progress", windlass::Reason::word);
    let mut text = format!("Attempt {number}{worker}, {ended}\n");
    let Some(notes) = told.notes.filter(|notes| !notes.lines.is_empty()) else {
        return text + "  no lines\n";
    };
    if notes.dropped > 0 {
        text += &format!("  … {} earlier lines were not kept\n", notes.dropped);
    }
    for line in &notes.lines {
        text += &format!("  {}  {}\n", moment::to_milli(line.at), plain(&line.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_share_if_the_whole_is_known() {
        let progress = |done, total| Progress { done, total, note: Some("a\u{1b}".into()) };
        assert_eq!(progress_text(&progress(3, Some(10))), "3 of 10 (30 %), a\\u{1b}");
        assert_eq!(
            progress_text(&progress(u64::MAX, Some(1))),
            format!("{} of 1 ({}00 %), a\\u{{1b}}", u64::MAX, u64::MAX)
        );
        assert_eq!(progress_text(&progress(0, Some(0))), "0 of 0, a\\u{1b}");
        assert_eq!(progress_text(&progress(7, None)), "7, a\\u{1b}");
    }
}
