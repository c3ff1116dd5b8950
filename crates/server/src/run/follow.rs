//! Following a workflow, and those within it: what is new since the last look is read from the histories of
//! their tasks, so that nothing is missed however seldom one looks.

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::Result;
use windlass::{
    Client, Inspection, Place, Reason, Record, Rejected, State, Task, TaskId, Timestamp, WorkflowId,
};

use super::event::{self, Event};
use super::flow::{Flow, is_waiting};
use super::which::Chosen;

/// Whoever looks at a workflow again and again.
#[derive(Debug)]
pub(crate) struct Follower {
    client: Client,
    id: WorkflowId,
    /// How much of the history of each task was told.
    seen: HashMap<TaskId, u32>,
    /// What happened before the first look is not news.
    skips: bool,
    /// When steps were first started, which the steps themselves forget when they have items.
    began: HashMap<TaskId, Timestamp>,
}

/// A workflow as it is, and what has happened since the last look, in order.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) flow: Flow,
    pub(crate) events: Vec<Event>,
    /// When steps began.
    pub(crate) began: HashMap<TaskId, Timestamp>,
}

impl Look {
    /// Whether something is with a worker and not marked as running yet.
    pub(crate) fn has_claimed(&self) -> bool {
        has_claimed(&self.flow)
    }
}

fn has_claimed(flow: &Flow) -> bool {
    let Flow { inspection, within } = flow;
    inspection.tasks.iter().any(|task| task.status.state == State::Claimed)
        || within.values().any(has_claimed)
}

impl Follower {
    pub(crate) fn new(client: Client, chosen: &Chosen) -> Self {
        let Chosen { id, goes_on, .. } = chosen;
        Self { client, id: *id, seen: HashMap::new(), skips: *goes_on, began: HashMap::new() }
    }

    /// Looks.
    pub(crate) async fn look(&mut self) -> Result<Look> {
        let (mut events, skips) = (Vec::new(), std::mem::take(&mut self.skips));
        let flow = self.look_at(self.id, "", skips, &mut events).await?;
        // What is within a step ends at the moment at which the step does, and before it.
        events.sort_by_key(|event| (event.at, Reverse(event.depth())));
        Ok(Look { flow, events, began: self.began.clone() })
    }

    /// Looks at one workflow, whose steps have names that begin with `prefix`, and at those within it that
    /// run or have just ended.
    async fn look_at(
        &mut self,
        id: WorkflowId,
        prefix: &str,
        skips: bool,
        events: &mut Vec<Event>,
    ) -> Result<Flow> {
        let inspection = self.client.inspect(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        let (items, mut within) = (items(&inspection), HashMap::new());
        for task in &inspection.tasks {
            let name = format!("{prefix}{}", inspection.name(task));
            let mut has_workflow = is_waiting(task);
            if let Some((seen, record)) = self.news(task, skips).await? {
                has_workflow |= record.history.iter().any(|entry| entry.reason == Reason::Nested);
                let place = Place::of(task.id);
                if place.item.is_none()
                    && let Some(entry) = record.history.iter().find(|entry| entry.reason == Reason::Started)
                {
                    self.began.entry(task.id).or_insert(entry.at);
                }
                events.extend(event::since(seen, &name, &record, items.get(&place.step).copied()));
            }
            if has_workflow && let Some(child) = self.client.workflow_of(task.id).await? {
                let flow = Box::pin(self.look_at(child.id, &format!("{name}/"), skips, events)).await?;
                within.insert(task.id, flow);
            }
        }
        Ok(Flow { inspection, within })
    }

    /// A task to which something has happened, and how much of its history was told before.
    async fn news(&mut self, task: &Task, skips: bool) -> Result<Option<(u32, Record)>> {
        let entries = task.status.entries;
        let seen = self.seen.insert(task.id, entries).unwrap_or(if skips { entries } else { 1 });
        if seen == entries {
            return Ok(None);
        }
        let Some(record) = self.client.get(task.id).await? else { return Ok(None) };
        // It may have gone on since it was listed.
        self.seen.insert(task.id, record.task.status.entries);
        Ok(Some((seen, record)))
    }
}

/// How many items steps have.
fn items(inspection: &Inspection) -> HashMap<u32, u32> {
    let mut items: HashMap<u32, u32> = HashMap::new();
    let places = inspection.tasks.iter().map(|task| Place::of(task.id));
    for place in places.filter(|place| place.item.is_some()) {
        *items.entry(place.step).or_default() += 1;
    }
    items
}
