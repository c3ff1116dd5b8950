//! The log of client operations: one directory, one file per process, one line of JSON per event.
//!
//! Each line is one write to a file opened for appending, so it survives `kill -9` of its writer, who at
//! worst leaves a torn last line. The start of an operation is written before the store is asked: what was
//! done was announced.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Lane, Lease, NewTask, NewWorkflow, Retention, Task, TaskId, Timestamp};

use super::event::{Answer, End, Event, Op, What};
use crate::{Clock, Error, Result, Started, Store, Submitted, SystemClock, Turn, Turned};

/// A line as it is written; who wrote it is the name of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Microseconds since 1970.
    at: i64,
    what: What,
}

/// How the names of log files end.
const EXTENSION: &str = "jsonl";

/// One process's part of the log. Cheap to clone and to share between threads; a log that can't be written
/// panics.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Pen>);

#[derive(Debug)]
struct Pen {
    clock: Arc<dyn Clock>,
    /// The last operation's number, and where lines go. One lock for both and for the clock: lines are in
    /// order of time.
    file: Mutex<(u64, File)>,
}

impl Journal {
    /// Opens `<who>.jsonl` in `directory`. The file must not exist: each start of a process has a name of its
    /// own.
    pub fn create(directory: &Path, who: &str) -> io::Result<Self> {
        Self::with_clock(directory, who, Arc::new(SystemClock))
    }

    /// The same with a clock of its own, for runs in which time is simulated.
    pub fn with_clock(directory: &Path, who: &str, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let path = directory.join(format!("{who}.{EXTENSION}"));
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self(Arc::new(Pen { clock, file: Mutex::new((0, file)) })))
    }

    /// Writes that `op` is about to be asked for. Call it before the store, and the answer's end after.
    pub fn invoke(&self, op: Op) -> Pending {
        let number = self.write(|number| {
            *number += 1;
            What::Invoked { number: *number, op }
        });
        Pending { journal: self.clone(), number }
    }

    /// Writes that the handler of a claimed task begins.
    pub fn handler_started(&self, claimed: &Task) {
        let entity = claimed.spec.lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string());
        let (task, lease, attempt) = (claimed.id, claimed.status.lease, claimed.status.attempt);
        self.write(|_| What::HandlerStarted { task, lease, entity, attempt });
    }

    /// Writes that the handler of a claim is over.
    pub fn handler_ended(&self, task: TaskId, lease: Lease) {
        self.write(|_| What::HandlerEnded { task, lease });
    }

    /// Submits, and logs it.
    pub async fn submit(&self, store: &dyn Store, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let pending = self.invoke(Op::submit(&tasks));
        let submitted = store.submit(tasks).await;
        pending.end(submitted.as_ref().map(Vec::as_slice));
        submitted
    }

    /// Starts a workflow, and logs it.
    pub async fn start(&self, store: &dyn Store, workflow: NewWorkflow) -> Result<Started> {
        let pending = self.invoke(Op::start(&workflow));
        let started = store.start(workflow).await;
        pending.end(started.as_ref());
        started
    }

    /// Takes a turn, and logs those of its commands that are logged. What it claims has not started yet.
    pub async fn turn(&self, store: &dyn Store, turn: Turn) -> Result<Turned> {
        let pending: Vec<_> =
            turn.commands.iter().map(|command| Op::of(command).map(|op| self.invoke(op))).collect();
        let turned = store.turn(turn).await;
        for (index, pending) in pending.into_iter().enumerate() {
            let Some(pending) = pending else { continue };
            match turned.as_ref().map(|turned| &turned.receipts[index]) {
                Ok(Ok(receipt)) => pending.ok(receipt),
                Ok(Err(rejected)) => pending.failed(rejected),
                Err(error) => pending.end::<Answer>(Err(error)),
            }
        }
        turned
    }

    /// Prunes, and logs it.
    pub async fn prune(&self, store: &dyn Store, retention: &Retention, limit: usize) -> Result<usize> {
        let pending = self.invoke(Op::Prune);
        let pruned = store.prune(retention.clone(), limit).await;
        pending.end(pruned.as_ref().map(|pruned| Answer::Pruned(*pruned)));
        pruned
    }

    /// Writes one line with one call and answers with the last operation's number.
    fn write(&self, what: impl FnOnce(&mut u64) -> What) -> u64 {
        let (number, file) = &mut *self.0.file.lock().unwrap();
        let what = what(number);
        let mut line = serde_json::to_vec(&Line { at: self.0.clock.now().as_micros(), what }).unwrap();
        line.push(b'\n');
        assert_eq!(file.write(&line).unwrap(), line.len(), "a line is written at once");
        *number
    }
}

/// An operation that has no answer yet. Dropped without one, it is unknown.
#[derive(Debug)]
#[must_use = "an operation that is dropped counts as unknown"]
pub struct Pending {
    journal: Journal,
    number: u64,
}

impl Pending {
    /// Writes that it was acknowledged.
    pub fn ok(self, answer: impl Into<Answer>) {
        self.close(End::Ok(answer.into()));
    }

    /// Writes that it was refused, or failed without changing anything.
    pub fn failed(self, why: impl fmt::Display) {
        self.close(End::Failed(why.to_string()));
    }

    /// Writes that nobody knows whether it was done.
    pub fn unknown(self) {
        self.close(End::Unknown);
    }

    /// Writes what a store answered.
    pub fn end<A: Into<Answer>>(self, answer: Result<A, &Error>) {
        match answer {
            Ok(answer) => self.ok(answer),
            Err(Error::Unknown(_)) => self.unknown(),
            Err(error) => self.failed(error),
        }
    }

    fn close(self, end: End) {
        let number = self.number;
        self.journal.write(|_| What::Ended { number, end });
    }
}

/// A log that cannot be read.
#[derive(Debug, Error)]
pub enum Damaged {
    /// The directory or a file in it could not be read.
    #[error("the log {} cannot be read: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line that is not the torn last one of its file is no event: something other than a kill has happened
    /// to it.
    #[error("line {line} of {} is damaged: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
}

/// All events of all files in a directory, by time. What a file holds after its last line break is the trace
/// of a process that was killed while it wrote, and is left out.
pub fn read(directory: &Path) -> Result<Vec<Event>, Damaged> {
    let unreadable = |path: &Path, error| Damaged::Unreadable { path: path.to_owned(), error };
    let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = paths.map_err(|error| unreadable(directory, error))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    let mut events = Vec::new();
    for path in paths {
        let text = fs::read(&path).map_err(|error| unreadable(&path, error))?;
        let who: Arc<str> = path.file_stem().unwrap_or_default().to_string_lossy().into();
        let lines = text.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.ends_with(b"\n"));
        for (index, line) in lines.enumerate() {
            let line: Line = serde_json::from_slice(line).map_err(|error| Damaged::Line {
                path: path.clone(),
                line: index + 1,
                error,
            })?;
            events.push(Event { who: who.clone(), at: Timestamp::from_micros(line.at), what: line.what });
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}
