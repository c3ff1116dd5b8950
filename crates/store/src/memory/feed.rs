//! The feed of changes: what is different after each call, while somebody listens.

use std::collections::BTreeMap;

use windlass_core::{Change, Event, EventId, Events, Lease, Name, TaskId, Timestamp, WorkflowId, limits};

use super::Rows;
use crate::feed::{Feed, Listening, answer};
use crate::request::Record;
use crate::workflow::WorkflowRecord;

/// What was told.
#[derive(Debug)]
pub(super) struct Told {
    /// Changes are told until then.
    until: Timestamp,
    /// When that began: the first number of all ids.
    begun: u64,
    /// The number of the last event that is not known, or not any more.
    since: u64,
    /// The number of the last event.
    last: u64,
    events: Vec<Event>,
    /// Where everything was after the last call.
    seen: BTreeMap<Subject, Place>,
}

impl Default for Told {
    fn default() -> Self {
        let (events, seen) = (Vec::new(), BTreeMap::new());
        Self { until: Timestamp::MIN, begun: 0, since: 0, last: 0, events, seen }
    }
}

/// Whom an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    Task(TaskId),
    Workflow(WorkflowId),
}

/// Its state and lease: what an event tells a change of.
type Place = (&'static str, Lease);

impl Told {
    fn push(&mut self, at: Timestamp, namespace: &Name, change: Change) {
        self.last += 1;
        let id = EventId::new(self.begun, self.last);
        self.events.push(Event { id, at, namespace: namespace.clone(), change });
    }

    /// Forgets old events.
    pub(super) fn prune(&mut self, now: Timestamp) {
        let before = now.minus(limits::EVENTS_KEPT);
        let old = self.events.iter().take_while(|event| event.at < before).count();
        if let Some(gone) = self.events.drain(..old.min(limits::EVENTS_PRUNED)).next_back() {
            self.since = self.since.max(gone.id.numbers().1);
        }
    }
}

impl Rows {
    /// Where everything is.
    fn places(&self) -> BTreeMap<Subject, Place> {
        let task = |Record { task, .. }: &Record| {
            (Subject::Task(task.id), (task.status.state.word(), task.status.lease))
        };
        let workflow = |WorkflowRecord { workflow, .. }: &WorkflowRecord| {
            (Subject::Workflow(workflow.id), (workflow.state.word(), 0))
        };
        self.tasks.values().map(task).chain(self.workflows.values().map(workflow)).collect()
    }

    /// Tells what has changed since it was last called.
    pub(super) fn tell(&mut self, now: Timestamp) {
        if self.feed.until <= now {
            // Once it is over it stays over, even if the clock goes back.
            self.feed.until = Timestamp::MIN;
            return;
        }
        let places = self.places();
        let Self { feed, tasks, workflows, .. } = self;
        for Record { task, .. } in tasks.values() {
            let subject = Subject::Task(task.id);
            if feed.seen.get(&subject) != places.get(&subject) {
                let (spec, status) = (&task.spec, &task.status);
                let change = Change::Task {
                    task: task.id,
                    workflow: spec.workflow,
                    queue: spec.queue.clone(),
                    kind: spec.kind.clone(),
                    state: status.state,
                    attempt: status.attempt,
                };
                feed.push(status.updated_at, &spec.namespace, change);
            }
        }
        for WorkflowRecord { workflow, .. } in workflows.values() {
            let subject = Subject::Workflow(workflow.id);
            if feed.seen.get(&subject) != places.get(&subject) {
                let (id, name, state) = (workflow.id, workflow.name.clone(), workflow.state);
                let change = Change::Workflow { workflow: id, name, state };
                feed.push(workflow.updated_at, &workflow.namespace, change);
            }
        }
        feed.seen = places;
    }

    pub(super) fn events(&mut self, after: Option<EventId>, limit: usize, now: Timestamp) -> Events {
        if Listening::at(now, self.feed.until) == Listening::IsOver {
            // An id of another time must not look like one of this.
            self.feed.begun = now.as_micros().unsigned_abs().max(self.feed.begun + 1);
            self.feed.since = self.feed.last;
            self.feed.events.clear();
            self.feed.seen = self.places();
        }
        self.feed.until = self.feed.until.max(now.plus(limits::LISTENED));
        let Told { begun, since, last, events, .. } = &self.feed;
        let feed = Feed { since: EventId::new(*begun, *since), end: EventId::new(*begun, *last) };
        let (from, complete) = feed.from(after);
        let rest = events.iter().filter(|event| event.id > from);
        answer(rest.take(limit).cloned().collect(), from, complete)
    }
}
