//! Why a step is not running, as far as only its workflow can tell, and what came before it.

use windlass_core::{
    Blocker, Explanation, Facts, Join, Json, LaneHolder, Name, Place, Rejected, State, Task, TaskId, Waits,
    Workflow, WorkflowId, explain,
};
use windlass_store::{Page, Result, WorkflowFilter};

use super::{Inspection, place};
use crate::client::Client;

/// So many of the steps that another waits for are named; the others are counted.
const NAMED: usize = 10;

/// The answer to *why is it not running* for a step, or for an item of one.
#[derive(Clone, PartialEq, Debug)]
pub struct StepExplanation {
    /// Its workflow.
    pub workflow: Workflow,
    /// Its name: `publish`, or `regions[3]` for an item.
    pub step: String,
    /// What the store gathered about its task.
    pub facts: Facts,
    /// What is said about any task, with what the workflow adds to it.
    pub explanation: Explanation,
    /// What it waits for in its workflow.
    pub waits: StepWaits,
    /// What its history says last, if it is over.
    pub note: Option<String>,
}

/// What a step waits for in its workflow.
#[derive(Clone, PartialEq, Debug)]
pub enum StepWaits {
    /// Nothing: what keeps it is what keeps any task.
    Nothing,
    /// Its parents.
    Parents {
        /// How many of them, ended how.
        join: Join,
        /// How many there are.
        of: u32,
        /// Those that are not done (for `all_done`: not over).
        missing: Missing,
    },
    /// The items it has made.
    Items {
        /// How many there are.
        of: u32,
        /// Those that are not over, or have failed.
        missing: Missing,
    },
    /// The workflow that it is, if that is still there.
    Workflow(Option<Box<Workflow>>),
    /// An operator, who has paused the workflow.
    Resume,
}

/// Steps that another waits for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Missing {
    /// The first of them.
    pub first: Vec<MissingStep>,
    /// How many there are in all.
    pub total: usize,
}

/// A step that another waits for.
#[derive(Clone, PartialEq, Debug)]
pub struct MissingStep {
    /// Its name.
    pub name: String,
    /// Its task.
    pub task: TaskId,
    /// Where it is.
    pub state: State,
}

/// A step that comes before another.
#[derive(Clone, PartialEq, Debug)]
pub struct StepAncestor {
    /// Its name.
    pub name: Name,
    /// Its task.
    pub task: TaskId,
    /// How many steps away, on the shortest way: 1 for a parent.
    pub distance: u32,
    /// Where it is.
    pub state: State,
    /// What it has returned.
    pub result: Option<Json>,
}

impl StepExplanation {
    /// The reason, as a stable word for programs.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.waits {
            StepWaits::Nothing => self.explanation.why.word(),
            StepWaits::Parents { .. } => "waiting_for_parents",
            StepWaits::Items { .. } => "waiting_for_items",
            StepWaits::Workflow(_) => "waiting_for_workflow",
            StepWaits::Resume => "workflow_paused",
        }
    }
}

impl Client {
    /// Why a step, or an item of one, is not running; `None` if there is no such task.
    pub async fn explain_step(&self, id: TaskId) -> Result<Option<StepExplanation>> {
        let Some(facts) = self.store.facts(id).await? else { return Ok(None) };
        let workflow = facts.task.spec.workflow.ok_or(Rejected::NotStep { task: id })?;
        let unknown = Rejected::UnknownWorkflow { workflow };
        let inspection = match facts.task.status.waits {
            Waits::Parents(_) | Waits::Items { .. } => self.inspect(workflow).await?.ok_or(unknown)?,
            // The other steps have nothing to do with it.
            _ => {
                let record = self.store.workflow(workflow).await?.ok_or(unknown)?;
                Inspection { record, tasks: Vec::new(), at: facts.now }
            }
        };
        let waits = match facts.task.status.waits {
            Waits::Nothing => StepWaits::Nothing,
            Waits::Parents(_) => inspection.missing_parents(&facts.task),
            Waits::Items { of, .. } => {
                StepWaits::Items { of, missing: inspection.missing_items(&facts.task) }
            }
            Waits::Workflow => StepWaits::Workflow(self.workflow_of(id).await?.map(Box::new)),
            Waits::Resume => StepWaits::Resume,
        };
        let note = match facts.task.status.state.is_final() {
            true => self.store.task(id).await?.and_then(|record| record.history.last()?.note.clone()),
            false => None,
        };
        let step = inspection.name(&facts.task);
        let mut explanation = explain(&facts);
        if let Some((detail, blockers)) = waits.told() {
            explanation.detail = detail;
            explanation.blockers = blockers;
        }
        let workflow = inspection.record.workflow;
        if workflow.paused && !facts.task.status.state.is_final() && waits != StepWaits::Resume {
            explanation.detail += "; besides, its workflow is paused";
        }
        Ok(Some(StepExplanation { workflow, step, facts, explanation, waits, note }))
    }

    /// All steps that come before a step, nearest first, with where they are and what they have returned.
    pub async fn ancestors(&self, id: WorkflowId, step: &str) -> Result<Vec<StepAncestor>> {
        let unknown = Rejected::UnknownWorkflow { workflow: id };
        let inspection = self.inspect(id).await?.ok_or(unknown)?;
        let number = place(&inspection.record.blueprint, step)?.step;
        self.ancestors_of(&inspection, number).await
    }

    pub(crate) async fn ancestors_of(
        &self,
        inspection: &Inspection,
        number: u32,
    ) -> Result<Vec<StepAncestor>> {
        let (id, blueprint) = (inspection.record.workflow.id, &inspection.record.blueprint);
        let before = blueprint.graph().ancestors(number);
        let results = self.store.results(before.iter().map(|(step, _)| id.step(*step)).collect()).await?;
        let all = before.into_iter().zip(results).filter_map(|((number, distance), result)| {
            let (step, task) = (blueprint.step(number)?, inspection.step(number)?);
            let (name, state) = (step.name.clone(), task.status.state);
            Some(StepAncestor { name, task: task.id, distance, state, result })
        });
        Ok(all.collect())
    }

    /// The workflow that a step is, or an item of one: the newest, if it was tried again. None if it is none
    /// yet, or that was pruned.
    pub async fn workflow_of(&self, step: TaskId) -> Result<Option<Workflow>> {
        let filter = WorkflowFilter { parent: Some(step), ..WorkflowFilter::default() };
        let page = Page { limit: 1, after: None, oldest_first: false };
        Ok(self.store.workflows(filter, page).await?.workflows.pop())
    }
}

impl Inspection {
    fn missing_parents(&self, task: &Task) -> StepWaits {
        let (blueprint, number) = (&self.record.blueprint, Place::of(task.id).step);
        let join = blueprint.step(number).map(|step| step.join).unwrap_or_default();
        let of = u32::try_from(blueprint.graph().parents(number).len()).unwrap_or(u32::MAX);
        StepWaits::Parents { join, of, missing: self.missing(self.unmet_tasks(number)) }
    }

    fn missing_items(&self, task: &Task) -> Missing {
        let items = self.record.workflow.id.items(Place::of(task.id).step);
        let from = self.tasks.partition_point(|task| task.id < *items.start());
        let tasks = self.tasks[from..].iter().take_while(|task| items.contains(&task.id));
        let is_missing = |task: &&Task| {
            let state = task.status.state;
            !state.is_final() || matches!(state, State::Failed | State::DeadLetter)
        };
        self.missing(tasks.filter(is_missing))
    }

    fn missing<'a>(&'a self, tasks: impl Iterator<Item = &'a Task>) -> Missing {
        let mut missing = Missing::default();
        for task in tasks {
            missing.total += 1;
            if missing.first.len() < NAMED {
                let (name, state) = (self.name(task), task.status.state);
                missing.first.push(MissingStep { name, task: task.id, state });
            }
        }
        missing
    }
}

impl StepWaits {
    /// The reason in a sentence, with what to do about it, and what stands in the way; nothing, if that is
    /// what any task would say.
    fn told(&self) -> Option<(String, Vec<Blocker>)> {
        let none = Vec::new();
        match self {
            Self::Nothing => None,
            Self::Parents { join, of, missing } => {
                let which = match join {
                    Join::All => "all of its parents".into(),
                    Join::Any => "one of its parents".into(),
                    Join::AtLeast(n) => format!("{n} of its parents"),
                    Join::AllDone => "the end of all its parents".into(),
                };
                let detail = format!("it waits for {which}; of {of}, {missing}");
                Some((detail, missing.blockers()))
            }
            Self::Items { of, missing } => {
                Some((format!("it waits for its items; of {of}, {missing}"), missing.blockers()))
            }
            Self::Workflow(Some(child)) => {
                let (id, name, state) = (child.id, &child.name, child.state);
                let paused = if child.paused { " and paused" } else { "" };
                Some((format!("it is the workflow {id} ({name}), which is {state}{paused}"), none))
            }
            Self::Workflow(None) => Some(("it is a workflow, which is not there any more".into(), none)),
            Self::Resume => Some(("its workflow is paused; resume it to let it go on".into(), none)),
        }
    }
}

impl Missing {
    /// How many steps are counted and not named.
    #[must_use]
    pub fn more(&self) -> usize {
        self.total - self.first.len()
    }

    fn blockers(&self) -> Vec<Blocker> {
        let holder = |step: &MissingStep| LaneHolder { task: step.task, state: step.state, worker: None };
        self.first.iter().map(holder).map(Blocker::Task).collect()
    }

    fn has_failures(&self) -> bool {
        self.first.iter().any(|step| matches!(step.state, State::Failed | State::DeadLetter))
    }
}

/// `2 are missing: extract is running, alert is failed; …`.
impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.total {
            0 => return f.write_str("none is missing, so it moves on at once"),
            1 => f.write_str("1 is missing: ")?,
            total => write!(f, "{total} are missing: ")?,
        }
        for (place, step) in self.first.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{} is {}", step.name, step.state)?;
        }
        match self.more() {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        match self.has_failures() {
            true => f.write_str("; retry or resolve what has failed"),
            false => Ok(()),
        }
    }
}
