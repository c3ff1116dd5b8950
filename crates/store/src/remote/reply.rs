//! What a server answers: the store's answer, and beside it what a program would otherwise have to ask for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::{Blueprint, Connections, Json, Timestamp, Workflow, WorkflowEntry};

use crate::error::Result;
use crate::request::Rings;
use crate::workflow::WorkflowRecord;

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Reply<T> {
    pub(super) told: Told,
    pub(super) answer: Result<T>,
}

/// What comes with every answer, because it costs nothing there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    /// Which server answers, and which start of it: its bells are its own.
    pub(super) server: u64,
    /// What has rung there.
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

/// A workflow, with what it follows only if that is not known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SeenWorkflow {
    pub(super) workflow: Workflow,
    pub(super) blueprint: Option<Followed>,
    pub(super) input: Json,
    pub(super) history: Vec<WorkflowEntry>,
}

/// What a workflow follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Followed(#[serde(with = "windlass_core::wire::shared")] pub(super) Arc<Blueprint>);

impl SeenWorkflow {
    pub(super) fn of(record: WorkflowRecord, known: Option<Timestamp>) -> Self {
        let WorkflowRecord { workflow, blueprint, input, history } = record;
        // After pruning, another workflow may have the id.
        let is_known = known == Some(workflow.created_at);
        Self { workflow, blueprint: (!is_known).then_some(Followed(blueprint)), input, history }
    }
}
