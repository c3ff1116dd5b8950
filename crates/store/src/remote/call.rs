//! The verbs of a store as they travel: one [`Call`] for each that a server is asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{
    AccessToken, By, Command, Definition, Entity, EventId, Executions, Firing, Json, Lease, Name,
    NewAuditEntry, NewSchedule, NewTask, NewWorker, NewWorkflow, Outcome, Rejected, Retention, Steering,
    TaskId, Term, Timestamp, WorkerId, WorkflowId,
};

use crate::request::{Filter, Page, Rings, Turn};
use crate::workflow::WorkflowFilter;

/// What two programs must have in common to understand each other. It goes up with every change of what is sent, here or in any type that a
/// call or its answer holds.
pub const PROTOCOL: u32 = 2;

/// The longest that a [`Call::Watch`] waits.
pub const LONGEST_WATCH: Duration = Duration::from_secs(30);

/// A verb of [`Store`](crate::Store), with what it is asked with. `apply`, `claim`, `now` and `explain` are made of others, and closing is everybody's own affair.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the trait says what each of them means")]
pub enum Call {
    /// What the server is; see [`Hello`](super::Hello).
    Hello {},
    /// Waits until a bell has rung that was not heard. What was heard holds for one server alone: another answers at once.
    Watch {
        server: u64,
        heard: Rings,
    },
    Submit {
        tasks: Vec<NewTask>,
    },
    Turn {
        turn: Turn,
    },
    Register {
        worker: NewWorker,
    },
    Heartbeat {
        worker: WorkerId,
        held: Vec<(TaskId, Lease)>,
    },
    Deregister {
        worker: WorkerId,
    },
    Workers {},
    Campaign {
        candidate: WorkerId,
        lease: Duration,
    },
    Resign {
        candidate: WorkerId,
        term: Term,
    },
    Leader {},
    Due {
        limit: usize,
    },
    Task {
        id: TaskId,
    },
    Find {
        namespace: Name,
        kind: Name,
        key: String,
    },
    Tasks {
        filter: Filter,
        page: Page,
    },
    Counts {},
    Facts {
        id: TaskId,
    },
    Pause {
        namespace: Name,
        queue: Name,
        paused: bool,
    },
    Paused {},
    SetEntity {
        namespace: Name,
        entity: Entity,
        known: bool,
    },
    HasEntity {
        namespace: Name,
        entity: Entity,
    },
    Entities {
        namespace: Name,
        after: Option<Entity>,
        limit: usize,
    },
    SetSchedule {
        schedule: Box<NewSchedule>,
    },
    RemoveSchedule {
        namespace: Name,
        name: Name,
    },
    Schedules {},
    Fire {
        firing: Firing,
        term: Option<Term>,
    },
    Define {
        namespace: Name,
        #[serde(with = "windlass_core::wire::text")]
        definition: Box<Definition>,
    },
    Definition {
        namespace: Name,
        name: Name,
        version: Option<String>,
    },
    Definitions {
        namespace: Name,
        name: Option<Name>,
    },
    Start {
        workflow: Box<NewWorkflow>,
    },
    Steer {
        workflow: WorkflowId,
        steering: Steering,
        by: By,
    },
    /// `known`: when the workflow of this id was made whose definition is known to who asks. That never changes, and may be large.
    Workflow {
        id: WorkflowId,
        known: Option<Timestamp>,
    },
    FindWorkflow {
        namespace: Name,
        name: Name,
        key: String,
    },
    Workflows {
        filter: WorkflowFilter,
        page: Page,
    },
    Results {
        tasks: Vec<TaskId>,
    },
    WorkflowCounts {},
    ReadyWorkflows {
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    },
    Activity {
        since: Timestamp,
    },
    Reconcile {
        after: Option<String>,
        limit: usize,
    },
    Executions {
        wanted: Executions,
    },
    Describe {},
    Prune {
        retention: Retention,
        limit: usize,
    },
    Events {
        after: Option<EventId>,
        limit: usize,
    },
    PutAccessToken {
        token: AccessToken,
    },
    AccessTokens {},
    RevokeAccessToken {
        name: Name,
    },
    Audit {
        entry: NewAuditEntry,
    },
    Audits {
        page: Page,
    },
}

impl Call {
    /// Whether it may change something, so that what became of it is not known if there is no answer.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Self::Submit { .. }
            | Self::Turn { .. }
            | Self::Register { .. }
            | Self::Heartbeat { .. }
            | Self::Deregister { .. }
            | Self::Campaign { .. }
            | Self::Resign { .. }
            | Self::Pause { .. }
            | Self::SetEntity { .. }
            | Self::SetSchedule { .. }
            | Self::RemoveSchedule { .. }
            | Self::Fire { .. }
            | Self::Define { .. }
            | Self::Start { .. }
            | Self::Steer { .. }
            | Self::Reconcile { .. }
            | Self::Prune { .. }
            | Self::PutAccessToken { .. }
            | Self::RevokeAccessToken { .. }
            | Self::Audit { .. } => true,
            Self::Hello {}
            | Self::Watch { .. }
            | Self::Workers {}
            | Self::Leader {}
            | Self::Due { .. }
            | Self::Task { .. }
            | Self::Find { .. }
            | Self::Tasks { .. }
            | Self::Counts {}
            | Self::Facts { .. }
            | Self::Paused {}
            | Self::HasEntity { .. }
            | Self::Entities { .. }
            | Self::Schedules {}
            | Self::Definition { .. }
            | Self::Definitions { .. }
            | Self::Workflow { .. }
            | Self::FindWorkflow { .. }
            | Self::Workflows { .. }
            | Self::Results { .. }
            | Self::WorkflowCounts {}
            | Self::ReadyWorkflows { .. }
            | Self::Activity { .. }
            | Self::Executions { .. }
            | Self::Describe {}
            | Self::Events { .. }
            | Self::AccessTokens {}
            | Self::Audits { .. } => false,
        }
    }

    /// Checks what a store takes for granted: that payloads and results are within their limits. Names, ids, lanes and definitions were checked
    /// when they were read, and what else has limits is checked by stores.
    pub fn check(&self) -> Result<(), Rejected> {
        match self {
            Self::Submit { tasks } | Self::Fire { firing: Firing { tasks, .. }, .. } => {
                tasks.iter().try_for_each(|task| within("payload", &task.payload))
            }
            Self::SetSchedule { schedule } => within("payload", &schedule.template.task().payload),
            Self::Turn { turn } => turn.commands.iter().try_for_each(check_command),
            // What is carried over may have been gathered from many, and is the store's own.
            Self::Start { workflow } => within("input", &workflow.input),
            _ => Ok(()),
        }
    }
}

fn within(field: &'static str, json: &Json) -> Result<(), Rejected> {
    Json::new(field, json.as_str()).map(drop).map_err(Into::into)
}

fn check_command(command: &Command) -> Result<(), Rejected> {
    match command {
        Command::Finish { outcome: Outcome::Completed { result }, .. }
        | Command::Resolve { result: Some(result), .. } => within("result", result),
        Command::Finish { outcome: Outcome::Expanded { items, .. }, .. } => {
            items.iter().try_for_each(|item| within("item", item))
        }
        Command::Report { report, .. } => {
            report.details.as_ref().map_or(Ok(()), |details| within("details", details))
        }
        _ => Ok(()),
    }
}
