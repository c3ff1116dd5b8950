//! What a worker has to tell the store, and how long it waits when the store cannot be told.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::{Command, TaskId, Token, limits};

/// Commands on their way to the store, in order. What could not be told is told again: every one of them may
/// be.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    commands: VecDeque<Command>,
    /// Since when there is something to tell.
    since: Option<Instant>,
}

impl Outbox {
    pub(super) fn push(&mut self, command: Command) {
        self.since.get_or_insert_with(Instant::now);
        self.commands.push_back(command);
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// As many as one turn may carry, but for what is about tasks that are `spoken_of` already.
    pub(super) fn take(&mut self, spoken_of: &BTreeSet<TaskId>) -> Vec<Command> {
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for command in self.commands.drain(..) {
            if taken.len() < limits::BATCH && !spoken_of.contains(&command.task()) {
                taken.push(command);
            } else {
                left.push_back(command);
            }
        }
        self.commands = left;
        if self.commands.is_empty() {
            self.since = None;
        }
        taken
    }

    /// Takes back what was not told, before everything that came since.
    pub(super) fn put_back(&mut self, commands: Vec<Command>) {
        for command in commands.into_iter().rev() {
            self.since.get_or_insert_with(Instant::now);
            self.commands.push_front(command);
        }
    }

    /// Whether something is said about this claim.
    pub(super) fn speaks_of(&self, token: &Token) -> bool {
        self.commands.iter().any(|command| match command {
            Command::Finish { token: other, .. } | Command::Release { token: other, .. } => other == token,
            _ => false,
        })
    }
}

/// How long to leave the store alone after a failure: longer each time, until it answers.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    delay: Duration,
    until: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    pub(crate) const LAST: Duration = Duration::from_secs(5);

    pub(crate) fn failed(&mut self) -> Instant {
        self.delay = (self.delay * 2).clamp(Self::FIRST, Self::LAST);
        let until = Instant::now() + self.delay;
        self.until = Some(until);
        until
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// When to try again, if that is in the future.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }
}
