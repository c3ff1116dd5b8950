//! Following a workflow: what is new since the last look is read from the histories of its tasks, so that nothing is missed however
//! seldom one looks.

use std::collections::HashMap;

use anyhow::Result;
use windlass::{Client, Inspection, Place, Reason, Rejected, State, TaskId, Timestamp, WorkflowId};

use super::event::{self, Event};
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
    pub(crate) inspection: Inspection,
    pub(crate) events: Vec<Event>,
    /// When steps began.
    pub(crate) began: HashMap<TaskId, Timestamp>,
}

impl Look {
    /// Whether something is with a worker and not marked as running yet.
    pub(crate) fn has_claimed(&self) -> bool {
        self.inspection.tasks.iter().any(|task| task.status.state == State::Claimed)
    }
}

impl Follower {
    pub(crate) fn new(client: Client, chosen: &Chosen) -> Self {
        let Chosen { id, goes_on, .. } = chosen;
        Self { client, id: *id, seen: HashMap::new(), skips: *goes_on, began: HashMap::new() }
    }

    /// Looks.
    pub(crate) async fn look(&mut self) -> Result<Look> {
        let inspection = self.client.inspect(self.id).await?;
        let inspection = inspection.ok_or(Rejected::UnknownWorkflow { workflow: self.id })?;
        let mut items: HashMap<u32, u32> = HashMap::new();
        for place in
            inspection.tasks.iter().map(|task| Place::of(task.id)).filter(|place| place.item.is_some())
        {
            *items.entry(place.step).or_default() += 1;
        }
        let mut events = Vec::new();
        let skips = std::mem::take(&mut self.skips);
        for task in &inspection.tasks {
            let entries = task.status.entries;
            let seen = self.seen.insert(task.id, entries).unwrap_or(if skips { entries } else { 1 });
            if seen == entries {
                continue;
            }
            let Some(record) = self.client.get(task.id).await? else { continue };
            // It may have gone on since it was listed.
            self.seen.insert(task.id, record.task.status.entries);
            let place = Place::of(task.id);
            if place.item.is_none()
                && let Some(entry) = record.history.iter().find(|entry| entry.reason == Reason::Started)
            {
                self.began.entry(task.id).or_insert(entry.at);
            }
            events.extend(event::since(
                seen,
                &inspection.name(task),
                &record,
                items.get(&place.step).copied(),
            ));
        }
        // A step ends at the moment at which the last of its items does, and after it.
        events.sort_by_key(|event| (event.at, !event.is_of_item()));
        Ok(Look { inspection, events, began: self.began.clone() })
    }
}
