//! A workflow with those that its steps are.

use std::collections::HashMap;

use anyhow::Result;
use windlass::{Client, Inspection, Place, Rejected, State, Task, TaskId, Waits, WorkflowId, WorkflowState};

/// A workflow, and within it those that it waits for or has failed with.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) inspection: Inspection,
    /// By the steps, or items, that they are.
    pub(crate) within: HashMap<TaskId, Flow>,
}

impl Flow {
    /// As it is now.
    pub(crate) async fn of(client: &Client, id: WorkflowId) -> Result<Self> {
        let inspection = client.inspect(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        let mut within = HashMap::new();
        for task in &inspection.tasks {
            let has_failed = has_failed(task) && is_workflow(&inspection, task);
            if (has_failed || is_waiting(task))
                && let Some(child) = client.workflow_of(task.id).await?
            {
                within.insert(task.id, Box::pin(Self::of(client, child.id)).await?);
            }
        }
        Ok(Self { inspection, within })
    }

    /// Whether nothing more happens unless somebody intervenes: it is over, or blocked by failures, its own
    /// or those of all that it waits for.
    pub(crate) fn is_settled(&self) -> bool {
        let workflow = &self.inspection.record.workflow;
        workflow.is_settled() || self.is_stuck()
    }

    fn is_stuck(&self) -> bool {
        let workflow = &self.inspection.record.workflow;
        match workflow.state {
            WorkflowState::BlockedByFailures => true,
            WorkflowState::WaitingForDependencies if !workflow.paused => {
                let mut waiting = self.inspection.tasks.iter().filter(|task| is_waiting(task)).peekable();
                let is_stuck = |task: &Task| self.within.get(&task.id).is_some_and(Self::is_stuck);
                waiting.peek().is_some() && waiting.all(is_stuck)
            }
            _ => false,
        }
    }

    /// What failed for good, by name: `regions[3]`, or `regions[3]/fetch` of the workflow that it is.
    pub(crate) fn failed(&self) -> Vec<(String, &Task)> {
        let mut failed = Vec::new();
        self.gather_failed("", &mut failed);
        failed
    }

    fn gather_failed<'f>(&'f self, prefix: &str, failed: &mut Vec<(String, &'f Task)>) {
        for task in &self.inspection.tasks {
            let name = format!("{prefix}{}", self.inspection.name(task));
            if let Some(flow) = self.within.get(&task.id) {
                flow.gather_failed(&format!("{name}/"), failed);
            }
            if has_failed(task) {
                failed.push((name, task));
            }
        }
    }

    /// What has to be tried again for all of it to go on.
    pub(crate) fn to_retry(&self) -> Vec<TaskId> {
        let failed: Vec<&Task> = self.inspection.tasks.iter().filter(|task| has_failed(task)).collect();
        let has_items = |step: &Task| {
            let mut places = failed.iter().map(|task| Place::of(task.id));
            places.any(|place| place.item.is_some() && place.step == Place::of(step.id).step)
        };
        // A step that failed because of its items is opened by them.
        let own = failed.iter().filter(|task| Place::of(task.id).item.is_some() || !has_items(task));
        let mut tasks: Vec<TaskId> = own.map(|task| task.id).collect();
        // One that has failed with its workflow starts another.
        for task in self.inspection.tasks.iter().filter(|task| is_waiting(task)) {
            tasks.extend(self.within.get(&task.id).iter().flat_map(|flow| flow.to_retry()));
        }
        tasks
    }
}

fn has_failed(task: &Task) -> bool {
    matches!(task.status.state, State::Failed | State::DeadLetter)
}

/// Whether a task is one of a step that is a workflow.
pub(crate) fn is_workflow(inspection: &Inspection, task: &Task) -> bool {
    let step = inspection.record.blueprint.step(Place::of(task.id).step);
    step.is_some_and(|step| step.workflow.is_some())
}

/// Whether a task waits for the workflow that it is.
pub(crate) fn is_waiting(task: &Task) -> bool {
    task.status.waits == Waits::Workflow && !task.status.state.is_final()
}
