//! Which tasks a command is about.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use windlass::{Entity, Filter, Invalid, Name, State, Timestamp, WorkerId, WorkflowId};

use crate::duration;
use crate::session::Session;

/// Everything that is given must hold.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    /// In this state; several with commas
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(super) states: Vec<State>,
    /// Of this kind
    #[arg(long, value_parser = Name::kind)]
    kind: Option<Name>,
    /// Of this queue
    #[arg(long, value_parser = Name::queue)]
    queue: Option<Name>,
    /// Acting on this entity
    #[arg(long, value_name = "TYPE:ID")]
    entity: Option<Entity>,
    /// Of this workflow: its steps and their items
    #[arg(long, value_name = "ID")]
    workflow: Option<WorkflowId>,
    /// With this tag
    #[arg(long)]
    tag: Option<String>,
    /// Held by this worker, or last held by it if it is over
    #[arg(long, value_name = "ID", value_parser = worker)]
    worker: Option<WorkerId>,
    /// Unchanged for this long; of tasks that are over: over for this long
    #[arg(long, visible_alias = "older-than", value_name = "DURATION", value_parser = duration::parse)]
    unchanged_for: Option<Duration>,
    /// Of all namespaces
    #[arg(long)]
    all_namespaces: bool,
}

fn worker(text: &str) -> Result<WorkerId, Invalid> {
    WorkerId::new(text)
}

impl FilterArgs {
    /// The namespace that is meant, or `None` for all of them.
    pub(super) fn scope(&self, session: &Session) -> Result<Option<Name>> {
        session.scope(self.all_namespaces)
    }

    /// The filter for a store whose present is `now`, within the scope that [`FilterArgs::scope`] gave.
    pub(super) fn filter(&self, scope: Option<Name>, now: Timestamp) -> Filter {
        Filter {
            states: self.states.clone(),
            namespace: scope,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            entity: self.entity.clone(),
            workflow: self.workflow,
            tag: self.tag.clone(),
            worker: self.worker.clone(),
            updated_before: self.unchanged_for.map(|age| now.minus(age)),
        }
    }

    /// Whether it is about everything there is in a namespace.
    pub(super) fn is_empty(&self) -> bool {
        let Self { states, kind, queue, entity, workflow, tag, worker, unchanged_for, all_namespaces: _ } =
            self;
        states.is_empty()
            && kind.is_none()
            && queue.is_none()
            && entity.is_none()
            && workflow.is_none()
            && tag.is_none()
            && worker.is_none()
            && unchanged_for.is_none()
    }
}
