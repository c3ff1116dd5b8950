//! The feed of changes. What is told is written where rows are, by the one who writes them, and only while
//! somebody listens: whether that is so is remembered, so that it costs nothing to know.

use rusqlite::{Row, params};
use windlass_core::{Change, Event, EventId, Events, Status, Task, Timestamp, Workflow, WorkflowId, limits};

use super::read::Snapshot;
use super::tx::Tx;
use super::{row, workflow_row};
use crate::error::Result;
use crate::feed::{Feed, Listening, answer};

/// The row of `listening`, and the last event.
struct Told {
    begun: u64,
    feed: Feed,
    until: Timestamp,
}

fn told(row: &Row<'_>) -> rusqlite::Result<Told> {
    let begun = row::unsigned(row, 0)?;
    let place = |column| Ok::<_, rusqlite::Error>(EventId::new(begun, row::unsigned(row, column)?));
    Ok(Told { begun, feed: Feed { since: place(1)?, end: place(3)? }, until: row::time(row, 2)? })
}

fn event(row: &Row<'_>, begun: u64) -> rusqlite::Result<Event> {
    let change = match row.get_ref(3)?.as_str()? {
        "workflow" => Change::Workflow {
            workflow: workflow_row::workflow_id(row, 4)?,
            name: row::name(row, 6)?,
            state: row::parse(row, 7)?,
        },
        what => {
            let task = row::id(row, 4)?;
            Change::Task {
                task,
                workflow: (what == "step").then(|| WorkflowId::of(task)),
                queue: row::name(row, 5)?,
                kind: row::name(row, 6)?,
                state: row::parse(row, 7)?,
                attempt: row.get(8)?,
            }
        }
    };
    let id = EventId::new(begun, row::unsigned(row, 0)?);
    Ok(Event { id, at: row::time(row, 1)?, namespace: row::name(row, 2)?, change })
}

impl Snapshot<'_> {
    /// The events after `after`; none, if somebody has to see to it first that there are any.
    pub(super) fn events(
        &self,
        after: Option<EventId>,
        limit: usize,
        now: Timestamp,
    ) -> rusqlite::Result<Option<Events>> {
        let found = self.one(include_str!("sql/listening.sql"), [], told)?;
        let Some(Told { begun, feed, until }) = found else { return Ok(None) };
        if Listening::at(now, until) != Listening::GoesOn {
            return Ok(None);
        }
        let (from, complete) = feed.from(after);
        let (_, place) = from.numbers();
        let values = [place, limit as u64].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let events = self.all(include_str!("sql/events.sql"), values, |row| event(row, begun))?;
        Ok(Some(answer(events, from, complete)))
    }
}

impl Tx<'_, '_> {
    /// Switches the feed on, or keeps it on.
    pub(super) fn listen(&mut self) -> Result<()> {
        let until = self.read(|sql| &mut sql.listened_until, [], |row| row::time(row, 0))?;
        let (now, next) = (self.now.as_micros(), self.now.plus(limits::LISTENED));
        match Listening::at(self.now, until.unwrap_or_default()) {
            // Another was quicker.
            Listening::GoesOn => return Ok(()),
            Listening::RunsOut => self.write(|sql| &mut sql.listen, [next.as_micros()])?,
            Listening::IsOver => self.write(|sql| &mut sql.begin_listening, [now, next.as_micros()])?,
        };
        self.ledger.listened_until = next;
        Ok(())
    }

    /// Whether changes are to be told.
    fn is_listened_to(&mut self) -> Result<bool> {
        let until = self.ledger.listened_until;
        if until > self.now {
            return Ok(true);
        }
        if until > Timestamp::MIN {
            // Once it is over it stays over, even if the clock goes back.
            self.write(|sql| &mut sql.listen, [Timestamp::MIN.as_micros()])?;
            self.ledger.listened_until = Timestamp::MIN;
        }
        Ok(false)
    }

    /// Tells where a task is, which was elsewhere or not there.
    pub(super) fn tell(&mut self, task: &Task, after: &Status) -> Result<()> {
        if !self.is_listened_to()? {
            return Ok(());
        }
        let spec = &task.spec;
        let what = if spec.workflow.is_some() { "step" } else { "task" };
        let values = params![
            after.updated_at.as_micros(),
            &*spec.namespace,
            what,
            task.id.as_bytes(),
            &*spec.queue,
            &*spec.kind,
            after.state.word(),
            after.attempt
        ];
        self.write(|sql| &mut sql.insert_event, values)?;
        Ok(())
    }

    /// Tells where a workflow is, which was elsewhere or not there.
    pub(super) fn tell_workflow(&mut self, workflow: &Workflow) -> Result<()> {
        if !self.is_listened_to()? {
            return Ok(());
        }
        let Workflow { id, namespace, name, state, updated_at, .. } = workflow;
        let (at, none) = (updated_at.as_micros(), None::<i64>);
        let values = params![at, &**namespace, "workflow", id.as_bytes(), none, &**name, state.word(), none];
        self.write(|sql| &mut sql.insert_event, values)?;
        Ok(())
    }

    /// Deletes old events, and those of a time that is over.
    pub(super) fn prune_events(&mut self) -> Result<()> {
        let most = i64::try_from(limits::EVENTS_PRUNED).unwrap_or(i64::MAX);
        let before = self.now.minus(limits::EVENTS_KEPT).as_micros();
        self.write(|sql| &mut sql.forget_events, [before, most])?;
        self.write(|sql| &mut sql.delete_events, [most])?;
        Ok(())
    }
}
