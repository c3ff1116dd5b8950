//! What a running attempt tells about itself: how far it is, where to go on from, and lines of a log.
//!
//! It is kept with the attempt, bounded, and fenced by the lease like everything else that a worker says.
//! What it leaves behind as [`Report::details`] is handed to the next attempt.

use serde::{Deserialize, Serialize};

use crate::id::Lease;
use crate::json::Json;
use crate::limits;
use crate::name::stored_text;
use crate::rejected::Invalid;
use crate::time::Timestamp;

/// How far an attempt is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done, in whatever the handler counts.
    pub done: u64,
    /// Out of how much, if that is known.
    pub total: Option<u64>,
    /// What is being done, in words.
    pub note: Option<String>,
}

/// A line of an attempt's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// When it was written, by the worker's clock.
    pub at: Timestamp,
    /// What it says; longer than [`limits::LINE_BYTES`] it is cut.
    pub text: String,
}

/// What a worker reports about a running attempt. Sent again, it changes nothing: lines are numbered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// How far it is; absent leaves what was reported before.
    pub progress: Option<Progress>,
    /// Where the next attempt may go on; absent leaves what was reported before.
    pub details: Option<Json>,
    /// The number of the first of `lines`, counted from 0 within the attempt.
    pub first_line: u64,
    /// Lines of the log, oldest first.
    pub lines: Vec<Line>,
}

impl Report {
    /// Whether its size is within bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.lines.len() > limits::BATCH {
            return Err(Invalid::number("number of lines", self.lines.len(), "at most 1000 in one report"));
        }
        if self.first_line > u64::from(u32::MAX) {
            return Err(Invalid::number("number of the first line", self.first_line, "at most 4294967295"));
        }
        Ok(())
    }
}

/// What is kept of all reports of one attempt.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Notes {
    /// Which claim they belong to.
    pub lease: Lease,
    /// How far it is, or was when it ended.
    pub progress: Option<Progress>,
    /// Where the next attempt may go on.
    pub details: Option<Json>,
    /// How many lines were dropped, oldest first, to keep the log within [`limits::LOG_BYTES`] and
    /// [`limits::LOG_LINES`].
    pub dropped: u64,
    /// The log, oldest first.
    pub lines: Vec<Line>,
}

impl Notes {
    /// These notes and what `report` adds; the newest lines are kept.
    #[must_use]
    pub fn with(&self, report: &Report) -> Self {
        let mut notes = self.clone();
        if let Some(progress) = &report.progress {
            let note = progress.note.as_deref().map(stored_text);
            notes.progress = Some(Progress { note, ..progress.clone() });
        }
        if report.details.is_some() {
            notes.details.clone_from(&report.details);
        }
        let known = notes.dropped.saturating_add(u64::try_from(notes.lines.len()).unwrap_or(u64::MAX));
        if !report.lines.is_empty() {
            // A worker that was cut off kept only its newest lines.
            notes.dropped = notes.dropped.saturating_add(report.first_line.saturating_sub(known));
        }
        let new = (report.first_line..).zip(&report.lines).filter(|(number, _)| *number >= known);
        notes.lines.extend(new.map(|(_, line)| Line { at: line.at, text: cut(&line.text) }));
        let mut bytes: usize = notes.lines.iter().map(|line| line.text.len()).sum();
        let surplus = notes.lines.iter().take_while(|line| {
            let over = bytes > limits::LOG_BYTES;
            bytes -= line.text.len();
            over
        });
        let by_bytes = surplus.count();
        let by_count = notes.lines.len().saturating_sub(limits::LOG_LINES);
        let surplus = by_bytes.max(by_count);
        notes.lines.drain(..surplus);
        notes.dropped = notes.dropped.saturating_add(u64::try_from(surplus).unwrap_or(u64::MAX));
        notes
    }
}

/// A line as it is kept: bounded, without NUL.
fn cut(text: &str) -> String {
    const MARK: &str = "…";
    let clean = text.replace('\0', "\u{fffd}");
    if clean.len() <= limits::LINE_BYTES {
        return clean;
    }
    let end = clean.floor_char_boundary(limits::LINE_BYTES - MARK.len());
    format!("{}{MARK}", &clean[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(first_line: u64, texts: &[&str]) -> Report {
        let line = |text: &&str| Line { at: Timestamp::MIN, text: (*text).into() };
        Report { first_line, lines: texts.iter().map(line).collect(), ..Report::default() }
    }

    fn texts(notes: &Notes) -> Vec<&str> {
        notes.lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn a_report_sent_again_changes_nothing() {
        let once = Notes::default().with(&lines(0, &["a", "b"]));
        assert_eq!(once.with(&lines(0, &["a", "b"])), once);
        let more = once.with(&lines(1, &["b", "c"]));
        assert_eq!(texts(&more), ["a", "b", "c"]);
        let later = more.with(&lines(5, &["f"]));
        assert_eq!((texts(&later).len(), later.dropped), (4, 2), "two never arrived");
        assert_eq!(later.with(&lines(5, &["f", "g"])).lines.len(), 5);
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let long = "x".repeat(limits::LINE_BYTES + 1);
        let mut notes = Notes::default();
        for number in 0..40 {
            notes = notes.with(&lines(number, &[&long]));
        }
        assert!(notes.dropped > 0 && notes.dropped + notes.lines.len() as u64 == 40);
        let bytes: usize = notes.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= limits::LOG_BYTES);
        assert!(notes.lines[0].text.ends_with('…') && notes.lines[0].text.len() <= limits::LINE_BYTES);
        let many = vec![""; limits::LOG_LINES + 5];
        let notes = Notes::default().with(&lines(0, &many));
        assert_eq!((notes.dropped, notes.lines.len()), (5, limits::LOG_LINES));
    }

    #[test]
    fn what_is_absent_stays_as_it_was() {
        let progress = Some(Progress { done: 1, total: Some(2), note: Some("a\0".into()) });
        let details = Some(Json::stored("{\"page\":7}"));
        let first = Notes::default().with(&Report { progress, details, ..Report::default() });
        assert_eq!(first.with(&Report::default()), first);
        assert_eq!(first.progress.unwrap().note.unwrap(), "a\u{fffd}");
    }
}
