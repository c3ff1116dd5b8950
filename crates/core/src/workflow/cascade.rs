//! What follows from a change of steps: for those that come after them, and for their workflow.
//!
//! A [`Cascade`] is told what has changed, asks for the rows it wants to see, and in the end gives the rows
//! to write. So a store that waits for its rows and one that has them at hand do the same, and each row is
//! read and written once, however many parents of a step end together.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::activity::Activity;
use super::definition::{Join, OnFailure};
use super::join::{Parents, Verdict};
use super::steer::Steering;
use super::{Blueprint, Counts, Place, Waits, Workflow, WorkflowChange, WorkflowState};
use crate::command::By;
use crate::draft::Draft;
use crate::history::{Entry, Reason};
use crate::id::TaskId;
use crate::json::Json;
use crate::limits;
use crate::name::Name;
use crate::rejected::Rejected;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;
use crate::transition::{Ended, TaskChange};

/// What a cascade has to see before it can go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// These tasks: [`Cascade::give`].
    Tasks(Vec<TaskId>),
    /// Those in this range that are not final: [`Cascade::give`].
    Unsettled(RangeInclusive<TaskId>),
    /// The results of these tasks, in this order: [`Cascade::give_results`].
    Results(Vec<TaskId>),
}

/// What follows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cascaded {
    /// Tasks that change, as they were and as they will be.
    pub tasks: Vec<(Task, TaskChange)>,
    /// The workflow, if it changes.
    pub workflow: Option<WorkflowChange>,
    /// Steps that wait no more for the workflows that they were: those are to be cancelled.
    pub abandoned: Vec<TaskId>,
    /// The step that this workflow is, and how it has ended.
    pub ended: Option<(TaskId, Ended)>,
    /// What is to be counted of all this, the changes that were told included.
    pub activity: Activity,
    /// The namespace it is to be counted in, which is the workflow's.
    pub namespace: Name,
}

/// How the parents of a step have changed.
#[derive(Clone, Copy, Debug)]
struct Shift {
    met: i64,
    lost: i64,
    /// One of those that ended.
    by: (u32, State),
}

/// A row that was seen, and what it has become.
#[derive(Debug)]
struct Row {
    before: Task,
    task: Task,
    result: Option<Json>,
    entries: Vec<Entry>,
}

/// What is to be done to all that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sweep {
    Cancel,
    Pause,
    Resume,
}

/// The consequences of changes to the tasks of one workflow.
#[derive(Debug)]
pub struct Cascade {
    blueprint: Arc<Blueprint>,
    before: Workflow,
    after: Workflow,
    now: Timestamp,
    rows: BTreeMap<TaskId, Row>,
    /// Rows to ask for, and those that were asked for: one that is not there is not asked for again.
    missing: Vec<TaskId>,
    asked: HashSet<TaskId>,
    shifts: BTreeMap<u32, Shift>,
    /// By how much the number of settled items of a step has changed.
    settled: BTreeMap<u32, i64>,
    /// Where items are that are not wanted any more.
    unwanted: Vec<RangeInclusive<TaskId>>,
    /// Those of them that were seen and are to be cancelled.
    doomed: Vec<RangeInclusive<TaskId>>,
    sweep: Option<Sweep>,
    /// Whether all that has not ended was seen.
    is_all_seen: bool,
    /// Steps all of whose items are settled.
    gathering: Vec<u32>,
    abandoned: Vec<TaskId>,
    /// Where the workflow goes because somebody said so.
    verdict: Option<WorkflowState>,
    by: By,
    ended: Option<Ended>,
    activity: Activity,
}

impl Cascade {
    /// Nothing has changed yet.
    #[must_use]
    pub fn new(blueprint: Arc<Blueprint>, workflow: Workflow, now: Timestamp) -> Self {
        Self {
            blueprint,
            after: workflow.clone(),
            before: workflow,
            now,
            rows: BTreeMap::new(),
            missing: Vec::new(),
            asked: HashSet::new(),
            shifts: BTreeMap::new(),
            settled: BTreeMap::new(),
            unwanted: Vec::new(),
            doomed: Vec::new(),
            sweep: None,
            is_all_seen: false,
            gathering: Vec::new(),
            abandoned: Vec::new(),
            verdict: None,
            by: By::default(),
            ended: None,
            activity: Activity::default(),
        }
    }

    /// A task of the workflow has changed, and the store has written that.
    pub fn note(&mut self, before: &Task, after: &Status) {
        let task = Task { status: after.clone(), ..before.clone() };
        self.follow(before, after);
        self.rows.insert(task.id, Row { before: task.clone(), task, result: None, entries: Vec::new() });
    }

    /// A task of the workflow is tried again at once.
    pub fn note_retry(&mut self) {
        self.after.retries = self.after.retries.saturating_add(1);
    }

    /// A task of the workflow was made.
    pub fn note_new(&mut self, task: &Task) {
        self.after.counts.add(&task.status);
    }

    /// An item was deleted, with all of its list: what was noted about that list must not reach the next.
    pub fn note_gone(&mut self, task: &Task) {
        self.after.counts.take(&task.status);
        self.rows.remove(&task.id);
        self.settled.remove(&Place::of(task.id).step);
        self.unwanted.retain(|range| !range.contains(&task.id));
    }

    /// Carries out what is asked of the workflow as a whole.
    pub fn steer(&mut self, steering: &Steering, by: &By) -> Result<(), Rejected> {
        self.verdict = steering.check(&self.before, self.now)?;
        self.by = by.clone();
        match steering {
            Steering::Pause if !self.after.paused => {
                (self.after.paused, self.sweep) = (true, Some(Sweep::Pause));
            }
            Steering::Resume if self.after.paused => {
                (self.after.paused, self.sweep) = (false, Some(Sweep::Resume));
            }
            Steering::Cancel | Steering::Resolve if self.verdict.is_some() => {
                self.sweep = Some(Sweep::Cancel);
            }
            Steering::Move { to, owner, hold, .. } => {
                if to.is_active() {
                    // C36: whose it was is written down, unless there is something else to say.
                    let other = self.before.owner.as_ref().filter(|(other, _)| other != owner);
                    if let Some((other, _)) = other
                        && self.before.state.is_active()
                    {
                        self.by.note.get_or_insert_with(|| format!("took over from {other}"));
                    }
                    self.after.owner = Some((owner.clone(), self.now.plus(*hold)));
                } else if matches!(to, WorkflowState::Cancelled | WorkflowState::ResolvedManually) {
                    self.sweep = Some(Sweep::Cancel);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts anew what should follow from the states of `tasks`, which are all that the workflow has. What
    /// is not as it should be is put right; says how much that is.
    pub fn recount(&mut self, tasks: Vec<Task>) -> u64 {
        let mut wrong = 0;
        let mut counts = Counts::default();
        let mut items: BTreeMap<u32, u32> = BTreeMap::new();
        let mut states = vec![State::Waiting; self.blueprint.len() as usize];
        for task in &tasks {
            counts.add(&task.status);
            let place = Place::of(task.id);
            match place.item {
                Some(_) => {
                    *items.entry(place.step).or_default() += u32::from(is_settled_item(task.status.state));
                }
                None => {
                    if let Some(state) = states.get_mut(place.step as usize) {
                        *state = task.status.state;
                    }
                }
            }
        }
        if counts != self.after.counts {
            self.after.counts = counts;
            wrong += 1;
        }
        for task in &tasks {
            if task.status.waits == Waits::Resume && !self.after.paused {
                self.sweep = Some(Sweep::Resume);
                wrong += 1;
            }
            let Place { step, item: None } = Place::of(task.id) else { continue };
            match task.status.waits {
                Waits::Parents(known) => {
                    let join = self.join(step);
                    let parents = self.blueprint.graph().parents(step);
                    let real = Parents::all(join, parents.iter().map(|parent| states[*parent as usize]));
                    let is_stuck = real.verdict(join, count(parents.len())) != Verdict::Wait;
                    if real != known || is_stuck {
                        let by =
                            parents.last().map_or((step, State::Waiting), |it| (*it, states[*it as usize]));
                        let met = i64::from(real.met) - i64::from(known.met);
                        let lost = i64::from(real.lost) - i64::from(known.lost);
                        self.shifts.insert(step, Shift { met, lost, by });
                        wrong += 1;
                    }
                }
                Waits::Items { settled, of } => {
                    let real = items.get(&step).copied().unwrap_or(0);
                    if real != settled || real >= of {
                        self.settled.insert(step, i64::from(real) - i64::from(settled));
                        wrong += 1;
                    }
                }
                _ => {}
            }
        }
        self.give(tasks);
        let is_owned = self.after.owner.as_ref().is_some_and(|(_, until)| *until > self.now);
        if wrong == 0 && !is_owned && self.destination() != self.after.state {
            wrong += 1;
        }
        wrong
    }

    /// The next rows that have to be seen; `None` if everything is decided.
    pub fn wanted(&mut self) -> Option<Wanted> {
        loop {
            let mut missing = std::mem::take(&mut self.missing);
            missing.retain(|id| !self.rows.contains_key(id) && self.asked.insert(*id));
            if !missing.is_empty() {
                return Some(Wanted::Tasks(missing));
            }
            if let Some((step, shift)) = self.shifts.pop_first() {
                self.shift(step, shift);
            } else if let Some((step, by)) = self.settled.pop_first() {
                self.settle_items(step, by);
            } else if !self.is_all_seen && self.sweep.is_some() {
                self.is_all_seen = true;
                return Some(Wanted::Unsettled(self.before.id.tasks()));
            } else if let Some(range) = self.unwanted.pop() {
                self.doomed.push(range.clone());
                if !self.is_all_seen {
                    return Some(Wanted::Unsettled(range));
                }
            } else if let Some(range) = self.doomed.pop() {
                let items: Vec<TaskId> = self.rows.range(range).map(|(id, _)| *id).collect();
                items.into_iter().for_each(|id| self.cancel(id, "its step is settled"));
            } else if let Some(sweep) = self.sweep.take() {
                self.sweep(sweep);
            } else if let Some(step) = self.next_gathering() {
                return Some(Wanted::Results(self.items(step)));
            } else if self.wants_ending() {
                return Some(Wanted::Results(
                    self.blueprint.graph().sinks().map(|sink| self.before.id.step(sink)).collect(),
                ));
            } else {
                return None;
            }
        }
    }

    /// Rows that were wanted. Those that are not there are left out.
    pub fn give(&mut self, tasks: Vec<Task>) {
        for task in tasks {
            let row = Row { before: task.clone(), task, result: None, entries: Vec::new() };
            self.rows.entry(row.task.id).or_insert(row);
        }
    }

    /// Results that were wanted, in the order in which they were.
    pub fn give_results(&mut self, results: &[Option<Json>]) {
        if let Some(step) = self.gathering.pop() {
            self.gather(step, results);
        } else {
            // What was decided here is not written yet.
            let sinks = self.blueprint.graph().sinks().map(|sink| self.rows.get(&self.before.id.step(sink)));
            let results = sinks
                .zip(results)
                .map(|(row, known)| row.and_then(|row| row.result.clone()).or_else(|| known.clone()));
            self.ended = Some(ended_well(&self.blueprint, &results.collect::<Vec<_>>()));
        }
    }

    /// All that follows.
    #[must_use]
    pub fn done(mut self) -> Cascaded {
        let to = self.destination();
        let actor = self.by.actor();
        let entries = if to == self.after.state {
            Vec::new()
        } else {
            self.after.move_to(to, self.now, actor.as_deref(), self.by.note.as_deref())
        };
        if self.after != self.before {
            self.after.updated_at = self.after.updated_at.max(self.now);
        }
        self.activity.note_workflow(&self.after, &entries);
        let ended = self.ended.take().or_else(|| self.bad_end(to));
        let ended = self.before.parent.zip(ended).filter(|_| !self.before.state.is_final());
        let changed = self.rows.into_values().filter(|row| row.task.status != row.before.status);
        let tasks = changed.map(|Row { before, task, result, entries }| {
            let change = TaskChange { id: task.id, after: task.status, result, entries };
            (before, change)
        });
        let workflow = (self.after != self.before).then_some(WorkflowChange { after: self.after, entries });
        let (abandoned, activity, namespace) = (self.abandoned, self.activity, self.before.namespace);
        Cascaded { tasks: tasks.collect(), workflow, abandoned, ended, activity, namespace }
    }

    /// Where the workflow goes.
    fn destination(&self) -> WorkflowState {
        let (before, derived) = (self.before.state, WorkflowState::of(&self.after.counts));
        let is_open =
            !before.is_final() || (before == WorkflowState::Error && self.after.counts != self.before.counts);
        match self.verdict {
            Some(state) => state,
            None if is_open => derived,
            None => before,
        }
    }

    /// Whether somebody waits for the results of the workflow, which has just ended well.
    fn wants_ending(&self) -> bool {
        let to = self.destination();
        self.ended.is_none()
            && self.before.parent.is_some()
            && !self.before.state.is_final()
            && matches!(to, WorkflowState::Complete | WorkflowState::ResolvedManually)
    }

    fn bad_end(&self, to: WorkflowState) -> Option<Ended> {
        let id = self.before.id;
        match to {
            WorkflowState::Error => Some(Ended::Failed { error: format!("workflow {id} has failed") }),
            WorkflowState::Cancelled => {
                Some(Ended::Cancelled { note: format!("workflow {id} was cancelled") })
            }
            _ => None,
        }
    }

    fn join(&self, step: u32) -> Join {
        self.blueprint.step(step).map(|step| step.join).unwrap_or_default()
    }

    fn name(&self, step: u32) -> &str {
        self.blueprint.step(step).map_or("", |step| &step.name)
    }

    /// Takes note of what a change of one task means to others.
    fn follow(&mut self, before: &Task, after: &Status) {
        self.after.counts.take(&before.status);
        self.after.counts.add(after);
        let (Place { step, item }, was, is) = (Place::of(before.id), before.status.state, after.state);
        if was == is {
            return;
        }
        self.activity.note_task(was, after);
        if is == State::WaitingForRetry {
            self.note_retry();
        }
        if item.is_some() {
            let by = i64::from(is_settled_item(is)) - i64::from(is_settled_item(was));
            if by != 0 || was.is_final() {
                *self.settled.entry(step).or_default() += by;
                self.missing.push(self.before.id.step(step));
            }
        } else if was.is_final() || is.is_final() {
            self.tell_children(step, was, is);
        }
        match before.status.waits {
            Waits::Items { .. } if is.is_final() => self.unwanted.push(self.before.id.items(step)),
            Waits::Workflow if is.is_final() => self.abandoned.push(before.id),
            _ => {}
        }
        let fails_fast = self.blueprint.definition().on_failure == OnFailure::FailFast;
        if fails_fast && self.verdict.is_none() && matches!(is, State::Failed | State::DeadLetter) {
            self.verdict = Some(WorkflowState::Error);
            self.sweep = Some(Sweep::Cancel);
            self.by.note = Some(format!("step {:?} failed, and the workflow fails fast", self.name(step)));
        }
    }

    fn tell_children(&mut self, step: u32, was: State, is: State) {
        let blueprint = self.blueprint.clone();
        for child in blueprint.graph().children(step) {
            let join = self.join(*child);
            let (then, now) = (Parents::of(join, was), Parents::of(join, is));
            let met = i64::from(now.met) - i64::from(then.met);
            let lost = i64::from(now.lost) - i64::from(then.lost);
            if (met, lost) != (0, 0) {
                let id = self.before.id.step(*child);
                let shift = self.shifts.entry(*child).or_insert_with(|| {
                    self.missing.push(id);
                    Shift { met: 0, lost: 0, by: (step, is) }
                });
                (shift.met, shift.lost) = (shift.met + met, shift.lost + lost);
                if lost > 0 {
                    shift.by = (step, is);
                }
            }
        }
    }

    /// The parents of a step have changed.
    fn shift(&mut self, step: u32, Shift { met, lost, by }: Shift) {
        let id = self.before.id.step(step);
        let Some(Waits::Parents(parents)) = self.rows.get(&id).map(|row| row.task.status.waits) else {
            return;
        };
        let parents = parents.moved(met, lost);
        let (join, of) = (self.join(step), count(self.blueprint.graph().parents(step).len()));
        match parents.verdict(join, of) {
            Verdict::Wait => self.wait(id, Waits::Parents(parents)),
            Verdict::Start if self.after.paused => self.wait(id, Waits::Resume),
            Verdict::Start => self.change(id, |draft| draft.enter(State::Pending, Reason::Ready, None, None)),
            Verdict::Skip => {
                let (parent, state) = (self.name(by.0), by.1);
                let note = match join {
                    Join::All => format!("{parent:?}, which it needs, is {state}"),
                    _ => format!("it needs {join} of its {of} parents, and {parent:?} is {state}"),
                };
                self.change(id, |draft| draft.enter(State::Skipped, Reason::Skipped, None, Some(&note)));
            }
        }
    }

    /// Items of a step were settled, or opened again.
    fn settle_items(&mut self, step: u32, by: i64) {
        let id = self.before.id.step(step);
        let Some(Waits::Items { settled, of }) = self.rows.get(&id).map(|row| row.task.status.waits) else {
            // Nobody wants to know any more: what was opened again is stopped again.
            self.unwanted.push(self.before.id.items(step));
            return;
        };
        let settled = u32::try_from(i64::from(settled) + by).unwrap_or(0);
        self.wait(id, Waits::Items { settled, of });
        if settled >= of {
            self.gathering.push(step);
        }
    }

    /// The next step all of whose items are settled. One that was settled itself meanwhile is none.
    fn next_gathering(&mut self) -> Option<u32> {
        let (rows, id) = (&self.rows, self.before.id);
        let waits = |step: &u32| rows.get(&id.step(*step)).map(|row| row.task.status.waits);
        self.gathering.retain(|step| matches!(waits(step), Some(Waits::Items { .. })));
        self.gathering.last().copied()
    }

    fn items(&self, step: u32) -> Vec<TaskId> {
        let id = self.before.id;
        let of = match self.rows.get(&id.step(step)).map(|row| row.task.status.waits) {
            Some(Waits::Items { of, .. }) => of,
            _ => 0,
        };
        (0..of).map(|item| id.task(Place { step, item: Some(item) })).collect()
    }

    /// A step has the results of all of its items.
    fn gather(&mut self, step: u32, results: &[Option<Json>]) {
        let texts: Vec<&str> =
            results.iter().map(|result| result.as_ref().map_or("null", Json::as_str)).collect();
        let length = texts.iter().map(|text| text.len() + 1).sum::<usize>() + 1;
        let gathered = if length > limits::JSON_BYTES {
            Err(format!(
                "the results of its items have {length} bytes, and at most {} are possible; let them return less",
                limits::JSON_BYTES
            ))
        } else {
            Json::result(&format!("[{}]", texts.join(","))).map_err(|invalid| invalid.to_string())
        };
        self.change(self.before.id.step(step), |draft| match gathered {
            Ok(result) => {
                draft.result = Some(result);
                draft.enter(State::Completed, Reason::Completed, None, None);
            }
            Err(error) => {
                draft.status.error = Some(error.clone());
                draft.enter(State::Failed, Reason::Failed, None, Some(&error));
            }
        });
    }

    fn sweep(&mut self, sweep: Sweep) {
        let ids: Vec<TaskId> = self.rows.keys().copied().collect();
        let actor = self.by.actor();
        for id in ids {
            let Some(row) = self.rows.get(&id) else { continue };
            let Status { state, waits, .. } = row.task.status;
            match sweep {
                Sweep::Cancel => {
                    let why = self.by.note.clone().unwrap_or_else(|| "its workflow was ended".into());
                    self.cancel(id, &why);
                }
                Sweep::Pause if state == State::Pending => self.change(id, |draft| {
                    draft.enter(State::Waiting, Reason::Paused, actor.as_deref(), None);
                    draft.status.waits = Waits::Resume;
                }),
                Sweep::Resume if waits == Waits::Resume => self.change(id, |draft| {
                    draft.enter(State::Pending, Reason::Resumed, actor.as_deref(), None);
                }),
                Sweep::Pause | Sweep::Resume => {}
            }
        }
    }

    fn cancel(&mut self, id: TaskId, why: &str) {
        let actor = self.by.actor();
        if self.rows.get(&id).is_some_and(|row| !row.task.status.state.is_final()) {
            self.change(id, |draft| {
                draft.enter(State::Cancelled, Reason::Cancelled, actor.as_deref(), Some(why));
            });
        }
    }

    /// A step goes on waiting, for something else or with other numbers.
    fn wait(&mut self, id: TaskId, waits: Waits) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.task.status.waits = waits;
        }
    }

    /// Changes the state of a task.
    fn change(&mut self, id: TaskId, change: impl FnOnce(&mut Draft<'_>)) {
        let Some(row) = self.rows.get(&id) else { return };
        let task = row.task.clone();
        let mut draft = Draft::of(&task, self.now);
        change(&mut draft);
        let TaskChange { after, result, entries, .. } = draft.change();
        self.follow(&task, &after);
        if let Some(row) = self.rows.get_mut(&id) {
            row.task.status = after;
            row.result = result.or(row.result.take());
            row.entries.extend(entries);
        }
    }
}

/// The end of a workflow whose last steps have returned this.
pub(super) fn ended_well(blueprint: &Blueprint, results: &[Option<Json>]) -> Ended {
    let names = blueprint.graph().sinks().filter_map(|sink| blueprint.step(sink));
    let named = names.zip(results).filter_map(|(step, result)| Some((&step.name, result.as_ref()?)));
    let fields: Vec<String> = named.map(|(name, result)| format!("\"{name}\":{result}")).collect();
    match Json::result(&format!("{{{}}}", fields.join(","))) {
        Ok(result) => Ended::Done { result },
        Err(invalid) => {
            Ended::Failed { error: format!("what its last steps returned is too much: {invalid}") }
        }
    }
}

/// Whether an item in this state does not have to be waited for any more. One that failed may be retried.
fn is_settled_item(state: State) -> bool {
    state.is_final() && !matches!(state, State::Failed | State::DeadLetter)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
