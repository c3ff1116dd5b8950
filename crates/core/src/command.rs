//! Requests to change a task.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{Lease, TaskId, Token, WorkerId};
use crate::json::Json;
use crate::lane::Lane;
use crate::name::stored_text;
use crate::notes::Report;
use crate::task::Task;
use crate::time::Timestamp;

/// What a handler decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Done; the result may be JSON `null` but is always there.
    Completed {
        /// What the handler returned.
        result: Json,
    },
    /// The attempt failed.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether another attempt makes sense.
        retryable: bool,
        /// A delay that overrides the policy's, such as a `Retry-After`; at most
        /// [`limits::RETRY_AFTER`](crate::limits::RETRY_AFTER).
        retry_after: Option<Duration>,
    },
    /// Not now: come back later. Does not cost an attempt.
    Snoozed {
        /// How long; at most [`limits::RETRY_AFTER`](crate::limits::RETRY_AFTER).
        delay: Duration,
    },
    /// The handler found that the task should not be done.
    Cancelled {
        /// Why.
        note: String,
    },
    /// The condition of a step is false.
    Skipped {
        /// Why.
        note: String,
    },
    /// A step has a list to run over. It waits for its items, and has their results, in order, as its own.
    Expanded {
        /// What the item for each element is given.
        items: Vec<Json>,
        /// How many of them may be in progress at once.
        max_parallel: Option<u32>,
        /// The lane of each item, if they differ; else they are all in the lane of the step.
        lanes: Vec<Lane>,
    },
}

/// A person or program that intervenes, and why; for the history.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct By {
    /// Who.
    pub actor: Option<String>,
    /// Why, in their words.
    pub note: Option<String>,
}

impl By {
    /// The actor as it is stored.
    pub(crate) fn actor(&self) -> Option<String> {
        self.actor.as_deref().map(stored_text)
    }
}

/// A request to change one task, and with it what depends on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// A worker takes a task by name, promoted first if its moment has come ([`Command::first`]). By its
    /// holder, again: nothing happens.
    Claim {
        /// The task.
        task: TaskId,
        /// The worker.
        worker: WorkerId,
    },
    /// The handler has started. Optional: a finish without it records the start too.
    Start {
        /// Proof of the claim.
        token: Token,
        /// When it really started; now by default.
        at: Option<Timestamp>,
    },
    /// The handler tells how far it is. The same report, again: nothing happens.
    Report {
        /// Proof of the claim.
        token: Token,
        /// What it tells.
        report: Report,
    },
    /// The handler has ended. The same outcome for the same lease, again: nothing happens.
    Finish {
        /// Proof of the claim.
        token: Token,
        /// What the handler decided.
        outcome: Outcome,
        /// When it really started, if that was not reported yet; now by default.
        started_at: Option<Timestamp>,
    },
    /// The worker gives the task back unfinished. Does not cost an attempt. Again: the lease is lost.
    Release {
        /// Proof of the claim.
        token: Token,
        /// Why, for the history.
        note: Option<String>,
    },
    /// An operator stops it, wherever it is. No attempt starts after this.
    Cancel {
        /// The task.
        task: TaskId,
        /// Who and why.
        by: By,
    },
    /// An operator wants it to run now: a failed, dead or cancelled task again, a waiting one without its
    /// delay, a held one by another worker.
    Retry {
        /// The task.
        task: TaskId,
        /// Start a new life with all attempts, even if they are used up.
        force: bool,
        /// Who and why.
        by: By,
    },
    /// An operator lets it wait for its retry until so long from now, which may be sooner or later than it
    /// would.
    Postpone {
        /// The task.
        task: TaskId,
        /// How long; cut at [`limits::RETRY_AFTER`](crate::limits::RETRY_AFTER).
        delay: Duration,
    },
    /// An operator settles it by hand.
    Resolve {
        /// The task.
        task: TaskId,
        /// What it would have returned.
        result: Option<Json>,
        /// Who and why.
        by: By,
    },
    /// An operator decides that a step is not needed.
    Skip {
        /// The step.
        task: TaskId,
        /// Who and why.
        by: By,
    },
    /// The moment that a scheduled task, or one waiting for a retry, waits for has come.
    Promote {
        /// The task.
        task: TaskId,
    },
    /// The holder has been silent for too long.
    Expire {
        /// The task.
        task: TaskId,
        /// The lease that is over.
        lease: Lease,
    },
    /// Remove a final task, its history and its key.
    Delete {
        /// The task.
        task: TaskId,
    },
}

impl Command {
    /// The task that the command names.
    #[must_use]
    pub fn task(&self) -> TaskId {
        match self {
            Self::Start { token, .. }
            | Self::Report { token, .. }
            | Self::Finish { token, .. }
            | Self::Release { token, .. } => token.task,
            Self::Claim { task, .. }
            | Self::Cancel { task, .. }
            | Self::Retry { task, .. }
            | Self::Postpone { task, .. }
            | Self::Resolve { task, .. }
            | Self::Skip { task, .. }
            | Self::Promote { task }
            | Self::Expire { task, .. }
            | Self::Delete { task } => *task,
        }
    }

    /// Whether it is the holder of the task who speaks, and who therefore need not be told.
    #[must_use]
    pub fn is_by_holder(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Report { .. } | Self::Finish { .. } | Self::Release { .. })
    }

    /// Whether what becomes of a step depends on its workflow: a store loads that as well.
    #[must_use]
    pub fn concerns_workflow(&self) -> bool {
        match self {
            Self::Claim { .. }
            | Self::Start { .. }
            | Self::Report { .. }
            | Self::Postpone { .. }
            | Self::Delete { .. } => false,
            Self::Finish { outcome, .. } => matches!(
                outcome,
                Outcome::Failed { retryable: true, .. } | Outcome::Skipped { .. } | Outcome::Expanded { .. }
            ),
            _ => true,
        }
    }

    /// The command that a store carries out before this one: a task whose moment has come, and which nobody
    /// has promoted yet, is promoted before it is claimed by name.
    #[must_use]
    pub fn first(&self, task: &Task, now: Timestamp) -> Option<Self> {
        let is_due = task.status.due_at.is_some_and(|due| due <= now);
        (is_due && matches!(self, Self::Claim { .. })).then_some(Self::Promote { task: task.id })
    }

    /// Whether what becomes of a step depends on the lanes that steps above it hold: a store loads these as
    /// well.
    #[must_use]
    pub fn concerns_lanes_above(&self) -> bool {
        matches!(self, Self::Finish { outcome: Outcome::Expanded { lanes, .. }, .. } if !lanes.is_empty())
    }

    /// What a store has to load, and lock, before it can decide.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Claim { .. } => Scope::TaskAndQueue,
            Self::Report { .. } => Scope::TaskAndNotes,
            Self::Expire { .. } => Scope::TaskAndHolder,
            _ => Scope::Task,
        }
    }
}

/// What a command concerns: a store loads this much and no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The task alone.
    Task,
    /// And whether its queue is paused.
    TaskAndQueue,
    /// And what the attempt that the command names has told so far.
    TaskAndNotes,
    /// And until when its holder's heartbeat lasts.
    TaskAndHolder,
}
