//! Rules about workflows: what was started is there, steps begin in the order of the graph, and what is
//! skipped does not run.
//!
//! When a parent ended is told by the log of the worker that ended it: nobody knows before that worker asks
//! for it. For a step that has items or is a workflow that is the last of those to end. Of what ended without
//! anybody's word, as what is skipped for want of parents, no such moment is known.

use std::collections::{BTreeMap, HashMap};

use windlass_core::{Entry, Join, Place, Reason, State, TaskId, Timestamp, WorkflowId, history};

use super::Violation;
use super::event::Ending;
use super::histories::is_reopening;
use super::story::{FinishEnd, Story, Told};
use crate::{Record, WorkflowRecord};

/// Checks every workflow that the log or the store knows, and all their tasks.
pub(super) fn check(
    story: &Story<'_>,
    records: &BTreeMap<TaskId, &Record>,
    workflows: &[WorkflowRecord],
    found: &mut Vec<Violation>,
) {
    let by_id: BTreeMap<WorkflowId, &WorkflowRecord> =
        workflows.iter().map(|record| (record.workflow.id, record)).collect();
    for (workflow, begun) in &story.workflows {
        let who = begun.created.first().or(begun.found.first());
        if let Some(who) =
            who.filter(|_| !by_id.contains_key(workflow) && !story.is_before_prune(begun.asked_at))
        {
            found.push(Violation::WorkflowLost { workflow: *workflow, who: (*who).into() });
        }
        if begun.created.len() > 1 {
            found.push(Violation::WorkflowCreatedTwice { workflow: *workflow, times: begun.created.len() });
        }
    }
    let log = Log { story, records, children: children(workflows) };
    for (id, workflow) in by_id {
        match story.workflows.get(&id) {
            Some(begun) if begun.is_started() => {}
            _ => found.push(Violation::WorkflowInvented { workflow: id }),
        }
        for number in 0..workflow.blueprint.len() {
            found.extend(log.check_step(workflow, number));
        }
    }
    for (task, record) in records.iter().filter(|(_, record)| record.task.spec.workflow.is_some()) {
        found.extend(log.ran_though_skipped(*task, record));
        found.extend(log.miscounted_children(*task, record));
    }
}

/// The workflows that each step is.
fn children(workflows: &[WorkflowRecord]) -> HashMap<TaskId, Vec<WorkflowId>> {
    let mut children: HashMap<TaskId, Vec<WorkflowId>> = HashMap::new();
    for WorkflowRecord { workflow, .. } in workflows {
        if let Some(parent) = workflow.parent {
            children.entry(parent).or_default().push(workflow.id);
        }
    }
    children
}

/// All that is known.
struct Log<'a> {
    story: &'a Story<'a>,
    records: &'a BTreeMap<TaskId, &'a Record>,
    children: HashMap<TaskId, Vec<WorkflowId>>,
}

impl Log<'_> {
    fn told(&self, task: TaskId) -> Option<&Told<'_>> {
        self.story.tasks.get(&task)
    }

    fn history(&self, task: TaskId) -> &[Entry] {
        self.records.get(&task).map_or(&[], |record| &record.history)
    }

    /// I1: the step is there. I10: it was begun when its parents allowed it.
    fn check_step(&self, record: &WorkflowRecord, number: u32) -> Option<Violation> {
        let (id, blueprint) = (record.workflow.id, &record.blueprint);
        let task = id.step(number);
        if !self.records.contains_key(&task) {
            let begun = self.story.workflows.get(&id)?;
            let who = begun.created.first().or(begun.found.first())?;
            return Some(Violation::Lost { task, who: (*who).into() });
        }
        // One that was never claimed is none of this rule's. And an operator may have started over what was
        // stopped before its time had come.
        let history = self.history(task);
        let is_claimed = history.iter().any(|entry| entry.to == State::Claimed);
        if !is_claimed || history.iter().any(|entry| is_reopening(entry.reason)) {
            return None;
        }
        let (begun, who) = self.begun(task)?;
        let join = blueprint.step(number)?.join;
        let parents = blueprint.graph().parents(number);
        let is_done = |state| matches!(state, State::Completed | State::ResolvedManually);
        let counts: fn(State) -> bool = if join == Join::AllDone { State::is_final } else { is_done };
        let had_ended = |parent: &u32| {
            let ended = self.ended(id.step(*parent), counts);
            ended.is_some_and(|at| at.is_none_or(|at| at <= begun))
        };
        let (ended, not): (Vec<u32>, Vec<u32>) = parents.iter().partition(|parent| had_ended(parent));
        let enough = match join {
            Join::All | Join::AllDone => parents.len(),
            Join::Any => parents.len().min(1),
            Join::AtLeast(many) => usize::try_from(many).unwrap_or(usize::MAX),
        };
        let parent = id.step(*not.first()?);
        let who = who.to_owned();
        (ended.len() < enough).then_some(Violation::BegunEarly { task, who, join, met: ended.len(), parent })
    }

    /// The first sign that somebody had a step or one of its items in hand, and who that was.
    fn begun(&self, task: TaskId) -> Option<(Timestamp, &str)> {
        let own = WorkflowId::of(task).items(Place::of(task).step);
        let told = self.story.tasks.range(own).map(|(_, told)| told).chain(self.told(task));
        let signs = told.flat_map(|told| {
            let handlers = told.handlers.iter().map(|handler| (handler.at, handler.who));
            let finishes = told.finishes.iter().filter(|finish| finish.end != FinishEnd::Refused);
            handlers.chain(finishes.map(|finish| (finish.at, finish.who))).chain(told.nests.iter().copied())
        });
        signs.min()
    }

    /// When a task is known to have come into a state that counts: `None` if it never did, `Some(None)` if
    /// nobody has said so.
    fn ended(&self, task: TaskId, counts: fn(State) -> bool) -> Option<Option<Timestamp>> {
        let history = self.history(task);
        let entry = history.iter().find(|entry| counts(entry.to))?;
        let from = entry.from.unwrap_or(entry.to);
        if from.is_held() {
            return Some(self.asked_to_end(task, entry));
        }
        if from != State::Waiting || entry.reason != Reason::Completed {
            return Some(None);
        }
        let place = Place::of(task);
        let items = self.records.range(WorkflowId::of(task).items(place.step)).map(|(id, _)| *id);
        let items = items.filter(|_| place.item.is_none());
        let nested = self.children.get(&task).into_iter().flatten();
        let nested = nested.flat_map(|child| self.records.range(child.tasks()).map(|(id, _)| *id));
        // What failed was waited for until somebody retried or settled it.
        let settled = |state: State| state.is_final() && !state.has_error();
        Some(items.chain(nested).filter_map(|one| self.ended(one, settled).flatten()).max())
    }

    /// When the holder of a task first asked for this end of it.
    fn asked_to_end(&self, task: TaskId, entry: &Entry) -> Option<Timestamp> {
        let claims = self.history(task).iter().take_while(|one| one.seq < entry.seq);
        let lease = claims.filter(|one| one.to == State::Claimed).count();
        let finishes = &self.told(task)?.finishes;
        let own = finishes.iter().filter(|finish| usize::try_from(finish.lease) == Ok(lease));
        own.filter(|finish| finish.ending.may_be(entry.reason)).map(|finish| finish.at).min()
    }

    /// I10: a claim whose worker says that the step is skipped has not run the handler.
    fn ran_though_skipped(&self, task: TaskId, record: &Record) -> Option<Violation> {
        let told = self.told(task)?;
        let skipped = history::attempts(&record.history);
        let skipped = skipped.iter().filter(|attempt| attempt.ended == Some(Reason::Skipped));
        let said = |lease| {
            told.finishes.iter().any(|finish| finish.lease == lease && finish.ending == Ending::Skipped)
        };
        let ran = |lease| told.handlers.iter().find(|handler| handler.lease == lease);
        skipped.map(|attempt| attempt.lease).filter(|lease| said(*lease)).find_map(|lease| {
            let who = ran(lease)?.who.to_owned();
            Some(Violation::RanThoughSkipped { task, lease, who })
        })
    }

    /// I12: a claim that became a workflow has one, and no other claim has.
    fn miscounted_children(&self, task: TaskId, record: &Record) -> Option<Violation> {
        let nested = record.history.iter().filter(|entry| entry.reason == Reason::Nested).count();
        let children = self.children.get(&task).map_or(0, Vec::len);
        let begun = self.story.workflows.get(&WorkflowId::of(task));
        // Both may have been removed, in any order.
        let may_be_pruned = begun.is_none_or(|begun| self.story.is_before_prune(begun.asked_at));
        let is_wrong = if may_be_pruned { children > nested } else { children != nested };
        is_wrong.then_some(Violation::Children { task, nested, children })
    }
}
