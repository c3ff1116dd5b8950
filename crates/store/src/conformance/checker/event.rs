//! What processes write down about themselves: the vocabulary of the log.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::{
    Command, Lane, Lease, NewTask, NewWorkflow, Outcome, Reason, State, TaskId, Timestamp, WorkflowId,
};

use crate::{Receipt, Started, Submitted};

/// One line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Who wrote it: the name of the file.
    pub who: Arc<str>,
    /// When, by the clock of the writer.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A client is about to ask for something.
    Invoked {
        /// Tells operations of one writer apart.
        number: u64,
        /// What it asks for.
        op: Op,
    },
    /// It has got an answer. An operation without this line ended as [`End::Unknown`].
    Ended {
        /// Which operation.
        number: u64,
        /// How.
        end: End,
    },
    /// A handler begins.
    HandlerStarted {
        /// The task.
        #[serde(with = "text")]
        task: TaskId,
        /// The claim.
        lease: Lease,
        /// What it acts on, if it is in an entity's lane.
        entity: Option<String>,
        /// The number of the attempt, as the claim said.
        attempt: u32,
    },
    /// A handler is over, however it ended.
    HandlerEnded {
        /// The task.
        #[serde(with = "text")]
        task: TaskId,
        /// The claim.
        lease: Lease,
    },
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Tasks, all or none.
    Submit(Vec<Asked>),
    /// A workflow with all its steps.
    Start {
        /// The id it is to have.
        #[serde(with = "text")]
        workflow: WorkflowId,
        /// The claim of the step that it is, if it is one.
        parent: Option<Parent>,
    },
    /// The end of an attempt.
    Finish {
        /// The task.
        #[serde(with = "text")]
        task: TaskId,
        /// The claim.
        lease: Lease,
        /// How it ended.
        ending: Ending,
    },
    /// That a task stops.
    Cancel {
        /// The task.
        #[serde(with = "text")]
        task: TaskId,
    },
    /// That a task is removed.
    Delete {
        /// The task.
        #[serde(with = "text")]
        task: TaskId,
    },
    /// That old tasks are removed.
    Prune,
}

impl Op {
    /// A submit of `tasks`.
    #[must_use]
    pub fn submit(tasks: &[NewTask]) -> Self {
        Self::Submit(tasks.iter().map(Asked::from).collect())
    }

    /// A start of `workflow`.
    #[must_use]
    pub fn start(workflow: &NewWorkflow) -> Self {
        let parent = workflow.parent.as_ref().map(|token| Parent { task: token.task, lease: token.lease });
        Self::Start { workflow: workflow.id, parent }
    }

    /// What `command` asks for, if it is one of those that are logged.
    #[must_use]
    pub fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Finish { token, outcome, .. } => {
                Some(Self::Finish { task: token.task, lease: token.lease, ending: outcome.into() })
            }
            Command::Cancel { task, .. } => Some(Self::Cancel { task: *task }),
            Command::Delete { task } => Some(Self::Delete { task: *task }),
            _ => None,
        }
    }
}

/// The claim of a step that is a workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parent {
    /// The step.
    #[serde(with = "text")]
    pub task: TaskId,
    /// The claim.
    pub lease: Lease,
}

/// A task as its submitter wanted it, as far as rules look at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The id it chose.
    #[serde(with = "text")]
    pub id: TaskId,
    /// Tenant.
    pub namespace: String,
    /// Kind.
    pub kind: String,
    /// Idempotency key.
    pub key: Option<String>,
    /// What it acts on.
    pub entity: Option<String>,
}

impl From<&NewTask> for Asked {
    fn from(task: &NewTask) -> Self {
        let NewTask { id, namespace, kind, key, lane, .. } = task;
        let entity = lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string());
        Self { id: *id, namespace: namespace.to_string(), kind: kind.to_string(), key: key.clone(), entity }
    }
}

/// How a handler ended, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// [`Outcome::Completed`].
    Completed,
    /// [`Outcome::Failed`], for good or not.
    Failed,
    /// [`Outcome::Snoozed`].
    Snoozed,
    /// [`Outcome::Cancelled`].
    Cancelled,
    /// [`Outcome::Skipped`].
    Skipped,
    /// [`Outcome::Expanded`].
    Expanded,
}

impl Ending {
    /// What the history says about an attempt that ended so.
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::Completed => Reason::Completed,
            Self::Failed => Reason::Failed,
            Self::Snoozed => Reason::Snoozed,
            Self::Cancelled => Reason::Cancelled,
            Self::Skipped => Reason::Skipped,
            Self::Expanded => Reason::Expanded,
        }
    }

    /// Whether the history may say this about an attempt that ended so. A list without items is done at once.
    pub(super) fn may_be(self, reason: Reason) -> bool {
        self.reason() == reason || self == Self::Expanded && reason == Reason::Completed
    }

    /// Whether a task in `state` may rest where a finish with this word left it.
    pub(super) fn rests_in(self, state: State) -> bool {
        match self {
            Self::Completed => state == State::Completed,
            // Without a delay it is pending at once, or waits for its workflow to be resumed.
            Self::Failed => {
                !matches!(state, State::Completed | State::Scheduled | State::Cancelled | State::Skipped)
            }
            Self::Snoozed => state == State::Scheduled,
            Self::Cancelled => state == State::Cancelled,
            Self::Skipped => state == State::Skipped,
            Self::Expanded => matches!(state, State::Waiting | State::Completed),
        }
    }
}

impl From<&Outcome> for Ending {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed { .. } => Self::Completed,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Snoozed { .. } => Self::Snoozed,
            Outcome::Cancelled { .. } => Self::Cancelled,
            Outcome::Skipped { .. } => Self::Skipped,
            Outcome::Expanded { .. } => Self::Expanded,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.reason().word())
    }
}

/// How an operation ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was acknowledged.
    Ok(Answer),
    /// It was refused or failed, and changed nothing. Why, for people.
    Failed(String),
    /// It may have been done or not.
    Unknown,
}

/// What an acknowledgement said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To a submit: one for each task, in order.
    Submitted(Vec<Accepted>),
    /// To a start.
    Started {
        /// The workflow, or the one that had the key already.
        #[serde(with = "text")]
        workflow: WorkflowId,
        /// Whether it was created now.
        created: bool,
    },
    /// To a command.
    Done {
        /// Whether it changed anything.
        changed: bool,
        /// Where the task is now.
        state: State,
    },
    /// To a prune: how many tasks went.
    Pruned(usize),
}

/// The answer for one task of a submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    /// The task, or the one that had the key already.
    #[serde(with = "text")]
    pub id: TaskId,
    /// Whether it was created now.
    pub created: bool,
}

impl From<&[Submitted]> for Answer {
    fn from(submitted: &[Submitted]) -> Self {
        let accepted = |one: &Submitted| Accepted { id: one.id, created: one.created };
        Self::Submitted(submitted.iter().map(accepted).collect())
    }
}

impl From<&Started> for Answer {
    fn from(started: &Started) -> Self {
        Self::Started { workflow: started.id, created: started.created }
    }
}

impl From<&Receipt> for Answer {
    fn from(receipt: &Receipt) -> Self {
        Self::Done { changed: receipt.changed, state: receipt.state }
    }
}

/// Ids as they are shown.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
