//! Invents workflows: small graphs with every join, lanes and lists, and what is done to them as a whole.

use serde_json::{Map, Value, json};
use windlass_core::{
    Command, Definition, EvaluatedLane, Json, Name, NewWorkflow, OnConflict, Place, Shared, Source, Steering,
    TaskId, WorkflowId, WorkflowState,
};

use super::invent_task::trace;
use super::operation::Operation;
use super::world::{KEYS, KINDS, LANES, OWNERS, QUEUES, World};
use crate::conformance::definition_of;

/// A key of a lane that has to be evaluated.
const TEMPLATE: &str = "${input}";

impl World {
    /// A workflow, mostly one of its own; sometimes a step of another, or one that a definition describes.
    pub(super) fn start_workflow(&mut self) -> Operation {
        let id = match self.random.below(20) {
            0 => self.workflow(),
            // Its last bits are not free.
            1 => WorkflowId::from_bytes(*self.new_id().as_bytes()),
            _ => WorkflowId::of(self.new_id()),
        };
        let source = if self.random.chance(20) {
            let version = self.random.pick(&[None, None, Some("1"), Some("2"), Some("v"), Some("nobody's")]);
            Source::Named { name: self.flow_name(), version: version.map(Into::into) }
        } else {
            Source::AdHoc(Box::new(self.flow()))
        };
        let mut new = NewWorkflow::new(id, source, self.json());
        new.namespace = self.namespace();
        if self.random.chance(40) {
            new.key = Some(self.random.pick(&KEYS[..2]).into());
            new.on_conflict = self.random.pick(&[OnConflict::Return, OnConflict::Reject]);
        }
        if self.random.chance(20) {
            new.priority = self.random.pick(&[-2, 1, 7, i32::MAX]);
        }
        if self.random.chance(30) {
            new.parent = Some(self.token());
            // A child is where its parent is, as a rule.
            new.namespace = Name::default();
        }
        if self.random.chance(20) {
            new.origin = Some(self.workflow());
            new.carried = (0..5).filter(|_| self.random.chance(60)).map(|n| (n, Json::default())).collect();
        }
        if let Source::AdHoc(definition) = &new.source {
            let lanes = (0..)
                .zip(&definition.steps)
                .filter(|(_, step)| step.lane.as_ref().is_some_and(Shared::is_template));
            let lanes: Vec<u32> = lanes.map(|(number, _)| number).collect();
            for step in lanes {
                if self.random.chance(80) {
                    let template = self.random.pick(&[TEMPLATE, TEMPLATE, TEMPLATE, "${input.other}"]).into();
                    let key = self.random.pick(&["lane", "Lane", "Lane", "", "@lane"]).into();
                    new.lanes.push(EvaluatedLane { step, template, key });
                }
            }
        }
        new.traceparent = trace(id.as_bytes());
        new.actor = self.random.pick(&[None, Some("ada"), Some("a\0c")]).map(Into::into);
        Operation::Start(Box::new(new))
    }

    /// A definition: a new one, or the last again, perhaps under another version.
    pub(super) fn define(&mut self) -> Operation {
        let versions = [None, Some("v"), Some("v"), Some("2"), Some("")];
        let definition = match self.described.clone() {
            Some(last) if self.random.chance(40) => last,
            _ => Definition { name: self.flow_name(), ..self.flow() },
        };
        let version = self.random.pick(&versions).map(Into::into);
        let definition = Definition { version, ..definition };
        self.described = Some(definition.clone());
        Operation::Define(self.namespace(), Box::new(definition))
    }

    /// Definitions stay when a sequence is over, so each has names of its own.
    fn flow_name(&mut self) -> Name {
        let letter = self.random.pick(&["a", "b"]);
        Name::new("definition", &format!("{letter}-{}", self.seed)).unwrap()
    }

    /// Up to five steps, each needing some of those before it.
    fn flow(&mut self) -> Definition {
        let names = ["a", "b", "c", "d", "e"];
        let many = self.random.weighted(&[(1, 0), (3, 1), (4, 2), (5, 3), (4, 4), (3, 5)]);
        let mut steps = Map::new();
        for (n, name) in names.iter().take(many).enumerate() {
            let needs: Vec<&str> = names[..n].iter().copied().filter(|_| self.random.chance(45)).collect();
            let most = 1 + self.random.below(needs.len());
            let join = match self.random.below(6) {
                0 => json!("any"),
                1 => json!("all_done"),
                2 if !needs.is_empty() => json!({ "at_least": most }),
                _ => json!("all"),
            };
            let mut step = json!({
                "needs": needs, "join": join,
                "retry": { "max_attempts": 1 + self.random.below(3), "initial": "1s" },
            });
            match self.random.chance(20) {
                true => step["workflow"] = json!(self.random.pick(&["a", "b"])),
                false => step["task"] = json!(self.random.pick(&KINDS)),
            }
            if self.random.chance(30) {
                let key = if self.random.chance(10) { TEMPLATE } else { self.random.pick(&LANES) };
                step["lane"] = json!({ "key": key, "limit": 1 + self.random.below(2) });
            }
            if self.random.chance(10) {
                step["map"] = json!({ "over": [1] });
            }
            if self.random.chance(30) {
                step["queue"] = json!(self.random.pick(&QUEUES));
            }
            if self.random.chance(20) {
                step["priority"] = json!(self.random.pick(&[-1, 3]));
            }
            steps.insert((*name).into(), step);
        }
        if many > 1 && self.random.chance(3) {
            steps["a"]["needs"] = json!(["b"]);
            steps["b"]["needs"] = json!(["a"]);
        }
        let on_failure = if self.random.chance(25) { "fail_fast" } else { "finish_independent" };
        let name = self.random.pick(&["flow", "flow", "flow", "Flow"]);
        definition_of(json!({ "name": name, "steps": Value::Object(steps), "on_failure": on_failure }))
    }

    /// Goes on more often than it stops, so that work is done.
    pub(super) fn steer(&mut self) -> Operation {
        let steering = match self.random.below(28) {
            0 | 1 => Steering::Cancel,
            2 => Steering::Resolve,
            3..7 => Steering::Pause,
            7..12 => Steering::Resume,
            12..18 => Steering::GiveUp,
            _ => return self.move_on(),
        };
        Operation::Steer(self.workflow(), steering, self.by())
    }

    /// A move by hand: mostly of one that was moved before, by its owner or another.
    fn move_on(&mut self) -> Operation {
        let (id, from) = match self.moved {
            Some(moved) if self.random.chance(80) => moved,
            _ => (self.workflow(), WorkflowState::StepsInProcess),
        };
        let to = match from {
            _ if self.random.chance(15) => self.random.pick(&WorkflowState::ALL),
            WorkflowState::StepsInProcess => WorkflowState::EvaluatingResults,
            WorkflowState::EvaluatingResults => WorkflowState::EnqueuingSteps,
            _ => WorkflowState::StepsInProcess,
        };
        let hour = std::time::Duration::from_secs(3600);
        let hold = if self.random.chance(70) { hour } else { self.span() };
        let owner = self.random.pick(&OWNERS).into();
        Operation::Steer(id, Steering::Move { from, to, owner, hold }, self.by())
    }

    /// A workflow: mostly a young one; rarely it never was.
    pub(super) fn workflow(&mut self) -> WorkflowId {
        let ever = self.workflows.len();
        if ever == 0 || self.random.chance(2) {
            return WorkflowId::of(self.new_id());
        }
        let first = if self.random.chance(80) { ever.saturating_sub(4) } else { 0 };
        self.random.pick(&self.workflows[first..])
    }

    pub(super) fn skip(&mut self) -> Command {
        Command::Skip { task: self.task(), by: self.by() }
    }
}

/// The tasks that a workflow of this definition begins with; five if it is not known.
pub(super) fn steps_of(new: &NewWorkflow) -> Vec<TaskId> {
    let many = match &new.source {
        Source::AdHoc(definition) => definition.steps.len(),
        Source::Named { .. } => 5,
    };
    (0..u32::try_from(many).unwrap()).map(|step| new.id.step(step)).collect()
}

/// The items that a step makes.
pub(super) fn items_of(step: TaskId, many: usize) -> Vec<TaskId> {
    let (id, step) = (WorkflowId::of(step), Place::of(step).step);
    (0..u32::try_from(many).unwrap()).map(|item| id.task(Place { step, item: Some(item) })).collect()
}
