//! How far a long command is, on standard error, if there is somebody to see it.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// More often than this nobody can read.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line that is written over and over, and gone at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    shown: Option<Instant>,
    is_seen: bool,
}

impl Progress {
    /// Of so many `what`, such as "tasks cancelled".
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, shown: None, is_seen: stderr().is_terminal() }
    }

    /// It is this far. Failing to say so changes nothing.
    pub(crate) fn at(&mut self, done: u64) {
        self.say(&format!("{done} {}", self.what));
    }

    /// Whether there is somebody to see it.
    pub(crate) fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// This is how far it is. Failing to say so changes nothing.
    pub(crate) fn say(&mut self, line: &str) {
        if self.is_seen && self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL) {
            self.shown = Some(Instant::now());
            let _ = write!(stderr(), "\r\u{1b}[K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\u{1b}[K");
        }
    }
}
