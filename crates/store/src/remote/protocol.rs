//! What travels between a remote store and a server: a [`Call`] there, a [`Reply`] back. Both are JSON.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{
    Blueprint, Command, Connections, Definition, Firing, Json, Outcome, Rejected, Source, Timestamp,
    Workflow, WorkflowEntry,
};

use crate::error::Result;
use crate::request::{Rings, check_batch};
use crate::verbs::{Call, Define, FireSchedule, SetSchedule, Start, Submit, TakeTurn};
use crate::workflow::WorkflowRecord;

/// What two programs must have in common to understand each other. It goes up with every change of what is
/// sent, here or in any type that a call or its answer holds.
pub const PROTOCOL: u32 = 3;

/// The longest that a server lets a caller wait for a wake-up.
pub const LONGEST_WATCH: Duration = Duration::from_secs(30);

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Reply<T> {
    pub(super) told: ReplyHeader,
    pub(super) answer: Result<T>,
}

/// What comes with every answer, because it costs nothing there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReplyHeader {
    /// Which server answers, and which start of it: each counts its own wake-ups.
    pub(super) server: u64,
    /// The wake-ups that it has counted.
    pub(super) rings: Rings,
    /// The connections of its store.
    pub(super) connections: Connections,
}

/// What a server says about itself, once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The version of its program.
    pub version: String,
    /// As its store has it.
    pub turns_at_once: usize,
}

/// A workflow, with its definition only if the caller does not have it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SentWorkflow {
    pub(super) workflow: Workflow,
    pub(super) blueprint: Option<SentBlueprint>,
    pub(super) input: Json,
    pub(super) history: Vec<WorkflowEntry>,
}

/// What a workflow follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SentBlueprint(#[serde(with = "windlass_core::wire::shared")] pub(super) Arc<Blueprint>);

impl SentWorkflow {
    pub(super) fn of(record: WorkflowRecord, known: Option<Timestamp>) -> Self {
        let WorkflowRecord { workflow, blueprint, input, history } = record;
        // After pruning, another workflow may have the id.
        let is_known = known == Some(workflow.created_at);
        Self { workflow, blueprint: (!is_known).then_some(SentBlueprint(blueprint)), input, history }
    }
}

/// Checks before sending: sizes of batches, and numbers that JSON cannot carry.
pub(super) fn check_sendable(call: &Call) -> Result<()> {
    match call {
        Call::Submit(Submit { tasks })
        | Call::FireSchedule(FireSchedule { firing: Firing { tasks, .. }, .. }) => check_batch(tasks),
        Call::SetSchedule(SetSchedule { schedule }) => Ok(schedule.check()?),
        Call::Define(Define { definition, .. }) => Ok(check_numbers(definition)?),
        Call::Start(Start { workflow }) => match &workflow.source {
            Source::AdHoc(definition) => Ok(check_numbers(definition)?),
            Source::Named { .. } => Ok(()),
        },
        _ => Ok(()),
    }
}

/// JSON cannot carry numbers that are not finite, and the server could not see what was meant. No definition
/// with one is sound.
fn check_numbers(definition: &Definition) -> Result<(), Rejected> {
    let retries = definition.steps.iter().map(|step| step.retry).chain([definition.defaults.retry]);
    if retries.filter_map(|retry| retry.factor).all(f64::is_finite) {
        return Ok(());
    }
    Blueprint::of(definition.clone()).map(drop).map_err(|flaws| Rejected::Unsound { flaws })
}

/// Checks what a store takes for granted in a call that was received: that payloads and results are within
/// their limits. Names, ids, lanes and definitions were checked while they were read; what else has limits is
/// checked by stores.
pub(super) fn check_received(call: &Call) -> Result<(), Rejected> {
    match call {
        Call::Submit(Submit { tasks })
        | Call::FireSchedule(FireSchedule { firing: Firing { tasks, .. }, .. }) => {
            tasks.iter().try_for_each(|task| within("payload", &task.payload))
        }
        Call::SetSchedule(SetSchedule { schedule }) => within("payload", &schedule.template.task().payload),
        Call::TakeTurn(TakeTurn { turn }) => turn.commands.iter().try_for_each(check_command),
        // What is carried over may have been gathered from many, and is the store's own.
        Call::Start(Start { workflow }) => within("input", &workflow.input),
        _ => Ok(()),
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
