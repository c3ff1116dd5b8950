//! What can be found wrong, in plain words.

use std::fmt::Debug;

use thiserror::Error;
use windlass_core::{Join, Lease, Reason, State, TaskId, WorkflowId};

use super::event::Ending;

/// A promise that a run has broken. The number is that of the promise in the documentation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum Violation {
    /// An acknowledged task is not in the store.
    #[error(
        "I1: task {task} is lost: its submit was acknowledged to {who}, nobody deleted it, and it is not in the store"
    )]
    Lost { task: TaskId, who: String },
    /// More tasks are missing than were pruned.
    #[error("I1: {missing} tasks are not in the store, but prunes say that they removed {pruned}")]
    Overpruned { missing: usize, pruned: usize },
    /// An acknowledged workflow is not in the store.
    #[error(
        "I1: workflow {workflow} is lost: its start was acknowledged to {who}, and it is not in the store"
    )]
    WorkflowLost { workflow: WorkflowId, who: String },
    /// A workflow that nobody started, or whose start was refused, is there.
    #[error("I2: workflow {workflow} was never started, or its start was refused, but it is there")]
    WorkflowInvented { workflow: WorkflowId },
    /// Several starts were told that they created one workflow.
    #[error("I8: {times} starts were told that they created workflow {workflow}")]
    WorkflowCreatedTwice { workflow: WorkflowId, times: usize },
    /// A task that nobody submitted ran, or one that was refused is there.
    #[error("I2: task {task} was never submitted, or its submit was refused, but {who} has met it")]
    Invented { task: TaskId, who: String },
    /// A task has not ended.
    #[error("I17: task {task} is {state} though the run is over")]
    Unfinished { task: TaskId, state: State },

    /// Two finishes of one life, or of one lease, were both acknowledged as the one that made the change.
    #[error(
        "I3: task {task} was finished twice in one life: leases {first} and {second} were both told that they did it"
    )]
    Doubled { task: TaskId, first: Lease, second: Lease },
    /// The history has two ends of one life.
    #[error(
        "I3: entry {entry} of task {task} ends it as {to}, but it had ended already and nobody reopened it"
    )]
    EndedTwice { task: TaskId, entry: u32, to: State },
    /// Two different finishes of one lease were both acknowledged as the one that made the change.
    #[error("I3: lease {lease} of task {task} was told that it finished it as {first}, and also as {second}")]
    Contradiction { task: TaskId, lease: Lease, first: Ending, second: Ending },
    /// A task that was held was claimed.
    #[error("I4: task {task} was given to lease {lease} while another held it")]
    TwoHolders { task: TaskId, lease: Lease },
    /// A finish was acknowledged whose lease had been taken away before.
    #[error(
        "I5: task {task} accepted a finish as {ending} of lease {lease}, which was over: its history says {ended}"
    )]
    Zombie { task: TaskId, lease: Lease, ending: Ending, ended: Reason },
    /// An acknowledged finish is not what the history has.
    #[error(
        "I6: the finish as {ending} of task {task} by lease {lease} was acknowledged, but its history says {found}"
    )]
    FinishLost { task: TaskId, lease: Lease, ending: Ending, found: String },
    /// A task ran again after its end.
    #[error("I6: task {task} was finished by lease {finished} and then handed out again as lease {handed}")]
    HandedOutAfterFinish { task: TaskId, finished: Lease, handed: Lease },
    /// A finish that was refused is in the history.
    #[error("I5: the finish as {ending} of task {task} by lease {lease} was refused, but its history has it")]
    RefusedButDone { task: TaskId, lease: Lease, ending: Ending },

    /// More tasks of a lane or an entity were in progress than may be.
    #[error(
        "I7: {held} tasks of lane {lane} are in progress at {at}, where at most {limit} may be: task {task} came on top of {other}"
    )]
    LaneOverfull { lane: String, task: TaskId, other: TaskId, held: usize, limit: usize, at: String },
    /// A task of a lane or an entity overtook another.
    #[error(
        "I7: task {task} of lane {lane} was started before task {overtaken}, which stood in line before it"
    )]
    OutOfOrder { lane: String, task: TaskId, overtaken: TaskId },

    /// Several submits were told that they created one task.
    #[error("I8: {times} submits were told that they created task {task}")]
    CreatedTwice { task: TaskId, times: usize },
    /// A key has two tasks.
    #[error("I8: key {key:?} belongs to task {first} and to task {second}")]
    TwoIds { key: String, first: TaskId, second: TaskId },
    /// A submit was told of a task that nobody was told to have created.
    #[error("I8: {who} was told that task {task} existed, but no submit can have created it")]
    NeverCreated { task: TaskId, who: String },
    /// A task is not what its submitter asked for, or its handler was told something else.
    #[error("I1: task {task} was submitted or handed out with {what} {told}, but the store has {stored}")]
    Altered { task: TaskId, what: &'static str, told: String, stored: String },

    /// A history has gaps, illegal arrows, or times that go back.
    #[error("I9: the history of task {task} is broken: {fault}")]
    HistoryFault { task: TaskId, fault: String },
    /// A row is not what its history leads to.
    #[error("I9: the row of task {task} has {what} {row}, its history {history}")]
    Unfolded { task: TaskId, what: &'static str, row: String, history: String },

    /// A step was begun before its time had come.
    #[error(
        "I10: {who} began step {task}, which needs {join} of its parents, when only {met} were known to have ended so: {parent} was not"
    )]
    BegunEarly { task: TaskId, who: String, join: Join, met: usize, parent: TaskId },
    /// A handler ran for a step that is not needed.
    #[error("I10: lease {lease} of task {task} was skipped, but {who} has run its handler")]
    RanThoughSkipped { task: TaskId, lease: Lease, who: String },
    /// A step that is a workflow has started another number of them than its history says.
    #[error("I12: step {task} has become a workflow {nested} times, but {children} are there")]
    Children { task: TaskId, nested: usize, children: usize },

    /// A task was tried more often than it may be.
    #[error("I13: task {task} has made {attempts} attempts of at most {max}")]
    TooManyAttempts { task: TaskId, attempts: u32, max: u32 },
    /// The row counts other attempts than the history has.
    #[error("I13: the row of task {task} counts {row} attempts, its history {history}")]
    Miscounted { task: TaskId, row: u32, history: u32 },
    /// A worker had a lease that was never given out.
    #[error("I4: {who} had lease {lease} of task {task}, which the history does not know")]
    NeverClaimed { task: TaskId, lease: Lease, who: String },
    /// The handler of one lease was started more than once.
    #[error("I4: the handler of lease {lease} of task {task} was started {times} times")]
    StartedTwice { task: TaskId, lease: Lease, times: usize },

    /// An acknowledged cancel is not in the history.
    #[error("I19: the cancel of task {task} was acknowledged, but its history does not have it")]
    CancelLost { task: TaskId },
    /// A cancelled task was claimed.
    #[error("I19: task {task} was cancelled and then claimed as lease {lease} though nobody reopened it")]
    StartedAfterCancel { task: TaskId, lease: Lease },

    /// The log is not what a journal writes.
    #[error("the log of {who} contradicts itself: {fault}")]
    BadLog { who: String, fault: String },
}

/// Where two things that should be the same differ: in what, and how each of them is.
pub(super) fn difference<T: PartialEq + Debug + ?Sized>(
    what: &'static str,
    one: &T,
    other: &T,
) -> Option<(&'static str, String, String)> {
    (one != other).then(|| (what, format!("{one:?}"), format!("{other:?}")))
}
