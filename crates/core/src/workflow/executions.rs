//! What took how long: workflows and steps that ended since a moment, slowest first, each by itself or by
//! what they are of.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Place, Workflow, WorkflowId, WorkflowState};
use crate::id::TaskId;
use crate::name::Name;
use crate::state::State;
use crate::task::Task;
use crate::time::Timestamp;

/// Which executions to look for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Executions {
    /// Steps and items instead of workflows.
    pub of_steps: bool,
    /// Those that ended since then.
    pub since: Timestamp,
    /// How many at most.
    pub limit: usize,
    /// Of this namespace.
    pub namespace: Option<Name>,
    /// With a definition of this name.
    pub name: Option<Name>,
    /// And this version.
    pub version: Option<String>,
    /// Together those of one definition, or of one of its steps, if there are at least so many; each by
    /// itself, if absent.
    pub together: Option<u64>,
}

/// One execution, or several of the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Execution {
    /// Their namespace.
    pub namespace: Name,
    /// The name of their definition.
    pub name: Name,
    /// Its version; empty, if it belongs to one workflow alone.
    pub version: String,
    /// The step; with its index, if it is one item by itself. None for workflows.
    pub step: Option<String>,
    /// The workflow, if it is one by itself, or the step of one.
    pub workflow: Option<WorkflowId>,
    /// The task, if it is one step by itself.
    pub task: Option<TaskId>,
    /// How many there were.
    pub executions: u64,
    /// How many of them failed for good.
    pub errors: u64,
    /// How long they took, on average.
    pub average: Duration,
    /// The longest.
    pub max: Duration,
    /// The shortest.
    pub min: Duration,
    /// Steps and items of one, on average; 0 for steps.
    pub steps: f64,
    /// When the last one ended.
    pub last_at: Timestamp,
}

impl Execution {
    /// To two decimals.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn average_steps(steps: u64, executions: u64) -> f64 {
        (steps as f64 * 100.0 / executions.max(1) as f64).round() / 100.0
    }

    /// How many of a hundred failed for good, to two decimals.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn error_rate(&self) -> f64 {
        (self.errors as f64 * 10_000.0 / self.executions.max(1) as f64).round() / 100.0
    }
}

/// What they are of: namespace, name, version, and step.
type Sort = (Name, Name, String, Option<String>);

/// Several of one sort.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    executions: u64,
    timed: u32,
    errors: u64,
    total: Duration,
    max: Duration,
    min: Option<Duration>,
    steps: u64,
    last_at: Option<Timestamp>,
}

/// Gathers executions that a store finds.
#[derive(Clone, Debug)]
pub struct Gathering {
    wanted: Executions,
    each: Vec<Execution>,
    sums: BTreeMap<Sort, Sum>,
}

impl Executions {
    /// Whether those of a workflow are wanted.
    #[must_use]
    pub fn wants(&self, workflow: &Workflow) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == workflow.namespace)
            && self.name.as_ref().is_none_or(|name| *name == workflow.name)
            && self.version.as_ref().is_none_or(|version| version == workflow.shown_version())
    }

    /// To be told of what there is.
    #[must_use]
    pub fn gather(self) -> Gathering {
        Gathering { wanted: self, each: Vec::new(), sums: BTreeMap::new() }
    }
}

impl Gathering {
    /// A workflow that is wanted.
    pub fn note_workflow(&mut self, workflow: &Workflow) {
        let is_error = workflow.state == WorkflowState::Error;
        let ended = workflow.finished_at.filter(|_| is_error || workflow.state == WorkflowState::Complete);
        if let Some(at) = ended.filter(|at| *at >= self.wanted.since) {
            let took = Some(at.since(workflow.created_at));
            self.note(workflow, None, None, (took, is_error, at));
        }
    }

    /// A task of a workflow that is wanted, and the name of its step.
    pub fn note_step(&mut self, workflow: &Workflow, step: &str, task: &Task) {
        let is_error = matches!(task.status.state, State::Failed | State::DeadLetter);
        let ended = task.status.finished_at.filter(|_| is_error || task.status.state == State::Completed);
        if let Some(at) = ended.filter(|at| *at >= self.wanted.since) {
            let took = task.status.started_at.map(|started| at.since(started));
            self.note(workflow, Some(step), Some(task.id), (took, is_error, at));
        }
    }

    fn note(
        &mut self,
        workflow: &Workflow,
        step: Option<&str>,
        task: Option<TaskId>,
        (took, is_error, at): (Option<Duration>, bool, Timestamp),
    ) {
        let (Workflow { namespace, name, .. }, version) = (workflow, workflow.shown_version());
        let steps = if step.is_some() { 0 } else { workflow.counts.total() };
        if self.wanted.together.is_none() {
            let Some(took) = took else { return };
            self.each.push(Execution {
                namespace: namespace.clone(),
                name: name.clone(),
                version: version.to_owned(),
                step: step.zip(task).map(|(step, task)| Workflow::place_name(step, Place::of(task))),
                workflow: Some(workflow.id),
                task,
                executions: 1,
                errors: u64::from(is_error),
                average: took,
                max: took,
                min: took,
                steps: f64::from(steps),
                last_at: at,
            });
            // Those that will not be among the slowest need not be kept.
            if self.each.len() > 2 * self.wanted.limit + 1_000 {
                self.cut();
            }
            return;
        }
        let sort = (namespace.clone(), name.clone(), version.to_owned(), step.map(Into::into));
        let sum = self.sums.entry(sort).or_default();
        sum.executions += 1;
        sum.errors += u64::from(is_error);
        sum.steps += u64::from(steps);
        sum.last_at = sum.last_at.max(Some(at));
        if let Some(took) = took {
            sum.timed += 1;
            sum.total += took;
            sum.max = sum.max.max(took);
            sum.min = Some(sum.min.map_or(took, |min| min.min(took)));
        }
    }

    fn cut(&mut self) {
        self.each.sort_by(|a, b| (b.max, a.workflow, a.task).cmp(&(a.max, b.workflow, b.task)));
        self.each.truncate(self.wanted.limit);
    }

    /// The slowest, slowest first.
    #[must_use]
    pub fn done(mut self) -> Vec<Execution> {
        let least = self.wanted.together.unwrap_or(0);
        let sums = self.sums.into_iter().filter(|(_, sum)| sum.executions >= least);
        let mut together: Vec<Execution> = sums
            .map(|((namespace, name, version, step), sum)| Execution {
                namespace,
                name,
                version,
                step,
                workflow: None,
                task: None,
                executions: sum.executions,
                errors: sum.errors,
                average: sum.total / sum.timed.max(1),
                max: sum.max,
                min: sum.min.unwrap_or_default(),
                steps: Execution::average_steps(sum.steps, sum.executions),
                last_at: sum.last_at.unwrap_or(Timestamp::MIN),
            })
            .collect();
        together.sort_by_key(|one| std::cmp::Reverse(one.average));
        together.truncate(self.wanted.limit);
        self.sums = BTreeMap::new();
        self.each.append(&mut together);
        if self.wanted.together.is_none() {
            self.cut();
        }
        self.each
    }
}
