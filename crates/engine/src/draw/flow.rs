//! Pictures of definitions and of workflows.

use windlass_core::{Action, Blueprint, Join, Place, Step, Task, Waits};

use super::{Drawing, Node, Shape};
use crate::workflow::Inspection;

impl Drawing {
    /// A picture of a definition.
    #[must_use]
    pub fn of(blueprint: &Blueprint) -> Self {
        Self::with(blueprint, blueprint.definition().name.to_string(), |_| None)
    }

    fn with<'a>(blueprint: &Blueprint, title: String, task_of: impl Fn(u32) -> Option<&'a Task>) -> Self {
        let nodes = (0..).zip(&blueprint.definition().steps).map(|(number, step)| {
            let task = task_of(number);
            Node {
                name: step.name.to_string(),
                label: label(step),
                state: task.map(|task| task.status.state),
                note: task.and_then(note),
                parents: blueprint.graph().parents(number).iter().map(|parent| *parent as usize).collect(),
                shape: shape(step),
                is_conditional: step.condition.is_some(),
                join: Some(step.join).filter(|join| *join != Join::All).map(|join| join.to_string()),
            }
        });
        Self { title, nodes: nodes.collect() }
    }
}

impl Inspection {
    /// A picture of the workflow as it stands. The items of a step are counted in its box.
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        let workflow = &self.record.workflow;
        let title = format!("{} {}", workflow.name, workflow.id);
        Drawing::with(&self.record.blueprint, title, |number| self.step(number))
    }
}

fn label(step: &Step) -> Option<String> {
    Some(match step.action()? {
        Action::Task(kind) => kind.to_string(),
        Action::Run(program) => program.lines().next().unwrap_or_default().into(),
        Action::Workflow(child) => child.name.to_string(),
    })
}

fn shape(step: &Step) -> Shape {
    match step.action() {
        _ if step.map.is_some() => Shape::Map,
        Some(Action::Run(_)) => Shape::Program,
        Some(Action::Workflow(_)) => Shape::Workflow,
        _ => Shape::Task,
    }
}

/// What there is to say about how a step stands.
fn note(task: &Task) -> Option<String> {
    debug_assert!(Place::of(task.id).item.is_none(), "items have no box");
    match task.status.waits {
        Waits::Items { settled, of } => Some(format!("{settled} of {of}")),
        Waits::Resume => Some("paused".into()),
        _ if task.status.attempt > 1 => Some(format!("attempt {}", task.status.attempt)),
        _ => None,
    }
}
