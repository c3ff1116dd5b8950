//! What is asked of a store about workflows, and what it answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use windlass_core::{
    Activity, Blueprint, Cascade, Changes, Definition, Invalid, Json, Name, Reason, Rejected, State, Status,
    Task, TaskId, Timestamp, Waits, Workflow, WorkflowEntry, WorkflowId, WorkflowState, limits,
};

use crate::error::Result;
use crate::request::Cursor;

/// The answer to a definition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Defined {
    /// Its version: the one that was asked for, the one that has the same content, or the next.
    pub version: String,
    /// Whether it was made now.
    pub created: bool,
}

/// A definition that a store keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredDefinition {
    /// Tenant.
    pub namespace: Name,
    /// Its version.
    pub version: String,
    /// What it says.
    #[serde(with = "windlass_core::wire::shared")]
    pub blueprint: Arc<Blueprint>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl StoredDefinition {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.blueprint.definition().name
    }
}

/// A definition in a list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DefinitionLine {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: String,
    /// How many steps it has.
    pub steps: u32,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Checks a definition before anything is written. Its content is what is kept and compared: all of it but
/// the version.
pub(crate) fn check_definition(definition: Definition) -> Result<(Arc<Blueprint>, String), Rejected> {
    // One that cannot be is refused before it is left out.
    let blueprint = Blueprint::of(definition).map_err(|flaws| Rejected::Unsound { flaws })?;
    let text = blueprint.definition().content();
    if text.len() > limits::DEFINITION_BYTES {
        let expected = format!("at most {} bytes", limits::DEFINITION_BYTES);
        return Err(Invalid::number("size of the definition", text.len(), expected).into());
    }
    Ok((Arc::new(blueprint.without_version()), text))
}

/// The version of a definition that does not say, after these of the same name.
pub(crate) fn next_version<'a>(known: impl Iterator<Item = &'a str>) -> String {
    let numbers = known.filter_map(|version| version.parse::<u64>().ok());
    numbers.max().unwrap_or(0).saturating_add(1).to_string()
}

/// The answer to the start of a workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Started {
    /// The workflow: the one that was asked for, or the one that has the key already.
    pub id: WorkflowId,
    /// Where it is.
    pub state: WorkflowState,
    /// Whether it was made now.
    pub created: bool,
}

/// A workflow with everything that belongs to it but its tasks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkflowRecord {
    /// The workflow.
    pub workflow: Workflow,
    /// What it follows.
    #[serde(with = "windlass_core::wire::shared")]
    pub blueprint: Arc<Blueprint>,
    /// What it was given.
    pub input: Json,
    /// All that happened to it as a whole, oldest first.
    pub history: Vec<WorkflowEntry>,
}

/// Which workflows to list. Everything that is set must hold.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WorkflowFilter {
    /// In one of these states; empty means any.
    pub states: Vec<WorkflowState>,
    /// Of this namespace.
    pub namespace: Option<Name>,
    /// With a definition of this name.
    pub name: Option<Name>,
    /// That this step is, or was before it was tried again.
    pub parent: Option<TaskId>,
}

impl WorkflowFilter {
    /// Whether `workflow` is wanted.
    #[must_use]
    pub fn wants(&self, workflow: &Workflow) -> bool {
        (self.states.is_empty() || self.states.contains(&workflow.state))
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == workflow.namespace)
            && self.name.as_ref().is_none_or(|name| *name == workflow.name)
            && self.parent.is_none_or(|parent| workflow.parent == Some(parent))
    }
}

/// One page of a list of workflows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WorkflowListing {
    /// The workflows.
    pub workflows: Vec<Workflow>,
    /// Where to go on.
    pub next: Option<Cursor>,
}

/// How many workflows of one sort there are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct WorkflowCount {
    /// Their namespace.
    pub namespace: Name,
    /// The name of their definition.
    pub name: Name,
    /// Their state.
    pub state: WorkflowState,
    /// How many; never 0.
    pub workflows: u64,
}

/// A workflow with steps that can be claimed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadyWorkflow {
    /// The workflow.
    pub workflow: Workflow,
    /// How many of its steps, and items, can be claimed.
    pub ready: u64,
}

/// What is counted about workflows in one transaction, until it is written.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) states: BTreeMap<(Name, Name, WorkflowState), i64>,
    /// By minute and namespace.
    pub(crate) activity: BTreeMap<(Timestamp, Name), Activity>,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Tally {
    /// So many more, or fewer, workflows are as this one.
    pub(crate) fn count(&mut self, workflow: &Workflow, by: i64) {
        let sort = (workflow.namespace.clone(), workflow.name.clone(), workflow.state);
        *self.states.entry(sort).or_default() += by;
    }

    /// Something happened in a namespace.
    pub(crate) fn note(&mut self, namespace: &Name, activity: &Activity, now: Timestamp) {
        if !activity.is_nothing() {
            let key = (Activity::minute(now), namespace.clone());
            self.activity.entry(key).or_default().add(activity);
        }
    }
}

/// Definitions that were read before: they never change, and reading a large one takes a while.
#[derive(Debug, Default)]
pub(crate) struct Blueprints {
    by_seq: Mutex<HashMap<i64, Arc<Blueprint>>>,
    /// Of workflows that something happened to not long ago.
    #[cfg(feature = "postgres")]
    followed: Mutex<HashMap<WorkflowId, Arc<Blueprint>>>,
}

impl Blueprints {
    /// More than a process works on at once.
    const MOST: usize = 256;

    pub(crate) fn get(&self, seq: i64) -> Option<Arc<Blueprint>> {
        self.by_seq.lock().unwrap_or_else(PoisonError::into_inner).get(&seq).cloned()
    }

    pub(crate) fn put(&self, seq: i64, blueprint: &Arc<Blueprint>) {
        let mut known = self.by_seq.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(seq, blueprint.clone());
    }

    /// Remembers what a workflow follows.
    #[cfg(feature = "postgres")]
    pub(crate) fn follow(&self, workflow: WorkflowId, blueprint: &Arc<Blueprint>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.len() >= Self::MOST && !followed.contains_key(&workflow) {
            followed.clear();
        }
        followed.insert(workflow, blueprint.clone());
    }

    /// The steps that are concerned when a task of a workflow is completed, if that is known: its children,
    /// or the step whose item it is. With each whether it may be in a lane.
    #[cfg(feature = "postgres")]
    pub(crate) fn concerned(&self, task: TaskId) -> Vec<(TaskId, bool)> {
        let (id, windlass_core::Place { step, item }) =
            (WorkflowId::of(task), windlass_core::Place::of(task));
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(blueprint) = followed.get(&id) else { return Vec::new() };
        let concerned = match &item {
            Some(_) => std::slice::from_ref(&step),
            None => blueprint.graph().children(step),
        };
        let has_lane =
            |step: u32| blueprint.step(step).is_none_or(|step| step.lane.is_some() || step.map.is_some());
        concerned.iter().map(|step| (id.step(*step), has_lane(*step))).collect()
    }

    pub(crate) fn forget(&self, seq: i64) {
        self.by_seq.lock().unwrap_or_else(PoisonError::into_inner).remove(&seq);
    }
}

/// What a turn has done to the tasks of workflows, until that is followed up: once for each workflow, in the
/// order of their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched(BTreeMap<WorkflowId, Noted>);

/// What was done to the tasks of one workflow, in the order in which it was: a list may be made, cleared and
/// made again in one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted(Vec<Note>);

#[derive(Clone, Debug)]
enum Note {
    Changed(Task, Status),
    Created(Task),
    Gone(Task),
    /// A task has failed and is tried again at once.
    Retried,
}

impl Touched {
    /// Takes note of what `changes` does to `task` and to those that it makes. What does not concern a
    /// workflow is nothing to take note of.
    pub(crate) fn note(&mut self, task: &Task, changes: &Changes) {
        let Some(workflow) = task.spec.workflow else { return };
        for change in &changes.tasks {
            self.note_change(task, &change.after);
            let failed = change.entries.last().is_some_and(|entry| entry.reason == Reason::Failed);
            if failed && (change.after.state == State::Pending || change.after.waits == Waits::Resume) {
                self.0.entry(workflow).or_default().0.push(Note::Retried);
            }
        }
        if !changes.created.is_empty() {
            let created = changes.created.iter().map(|(task, ..)| Note::Created(task.clone()));
            self.0.entry(workflow).or_default().0.extend(created);
        }
    }

    /// Takes note of one change.
    pub(crate) fn note_change(&mut self, task: &Task, after: &Status) {
        if let Some(workflow) = task.spec.workflow.filter(|_| Workflow::is_touched(&task.status, after)) {
            self.0.entry(workflow).or_default().0.push(Note::Changed(task.clone(), after.clone()));
        }
    }

    /// Takes note of a task that is deleted.
    pub(crate) fn note_gone(&mut self, task: &Task) {
        if let Some(workflow) = task.spec.workflow {
            self.0.entry(workflow).or_default().0.push(Note::Gone(task.clone()));
        }
    }

    /// The next workflow to follow up.
    pub(crate) fn pop(&mut self) -> Option<(WorkflowId, Noted)> {
        self.0.pop_first()
    }
}

impl Noted {
    /// Tells a cascade.
    pub(crate) fn tell(&self, cascade: &mut Cascade) {
        for note in &self.0 {
            match note {
                Note::Changed(before, after) => cascade.note(before, after),
                Note::Created(task) => cascade.note_new(task),
                Note::Gone(task) => cascade.note_gone(task),
                Note::Retried => cascade.note_retry(),
            }
        }
    }
}
