//! What is written down during a run: the trace, the log for the checker, what was counted, and what was
//! found wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use windlass::{Error, TaskId, Timestamp};
use windlass_store::conformance::checker::{Answer, End, Event, Op, What};

/// How often things happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(pub(crate) BTreeMap<&'static str, u64>);

impl Tally {
    /// One more.
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// So many more.
    pub(crate) fn add(&mut self, what: &'static str, number: u64) {
        *self.0.entry(what).or_default() += number;
    }

    /// Both together; of what is a maximum, the larger.
    pub(crate) fn join(&mut self, other: &Self) {
        for (what, number) in &other.0 {
            let entry = self.0.entry(what).or_default();
            *entry = if what.starts_with("most") { (*entry).max(*number) } else { *entry + number };
        }
    }

    /// Keeps the larger.
    pub(crate) fn most(&mut self, what: &'static str, number: u64) {
        let entry = self.0.entry(what).or_default();
        *entry = (*entry).max(number);
    }

    /// How often it happened.
    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// Everything that is written down.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// One line for everything that happened, in order.
    pub(crate) trace: String,
    /// The log for the checker.
    pub(crate) events: Vec<Event>,
    /// What was counted.
    pub(crate) tally: Tally,
    /// What was found wrong.
    pub(crate) wrong: Vec<String>,
    operations: u64,
}

impl Book {
    /// A line of the trace.
    pub(crate) fn line(&mut self, millis: u128, who: &str, what: &str) {
        let _ = writeln!(self.trace, "{:>4}.{:03} {who:<9} {what}", millis / 1000, millis % 1000);
    }

    /// An operation begins; its number says which it is.
    pub(crate) fn invoke(&mut self, at: Timestamp, who: &str, op: Op) -> u64 {
        self.operations += 1;
        let number = self.operations;
        self.events.push(Event { who: who.into(), at, what: What::Invoked { number, op } });
        number
    }

    /// An operation has got an answer.
    pub(crate) fn end<A: Into<Answer>>(
        &mut self,
        at: Timestamp,
        who: &str,
        number: u64,
        end: Result<A, &Error>,
    ) {
        let end = match end {
            Ok(answer) => End::Ok(answer.into()),
            Err(Error::Unknown(_)) => End::Unknown,
            Err(error) => End::Failed(error.to_string()),
        };
        self.events.push(Event { who: who.into(), at, what: What::Ended { number, end } });
    }

    /// A handler began or ended.
    pub(crate) fn handler(&mut self, at: Timestamp, who: &str, what: What) {
        self.events.push(Event { who: Arc::from(who), at, what });
    }
}

/// A task's name in the trace: ids that the simulation makes begin with their number.
pub(crate) fn short(id: TaskId) -> String {
    let number = u64::from_be_bytes(id.as_bytes()[..8].try_into().unwrap());
    format!("t{number}")
}
