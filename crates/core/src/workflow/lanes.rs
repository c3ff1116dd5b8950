//! Lanes of steps: which key a step asks for, and which lanes the steps above it hold.
//!
//! A step that is a workflow keeps its slot until that workflow has ended. A step below it that asked for the
//! same lane would wait for a slot that is free only when it has ended itself, so it is refused.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::definition::{Shared, Step};
use super::{Blueprint, NewWorkflow, Place, Workflow, WorkflowId};
use crate::lane::Lane;
use crate::name::Name;
use crate::rejected::{Invalid, Rejected};
use crate::task::Task;

impl Shared {
    /// Whether the key holds `${…}`. Such a key is evaluated by whoever starts the workflow, or makes the
    /// items of a list.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.key.contains("${")
    }
}

/// The key of a step's lane, evaluated by the program that starts the workflow: stores know nothing of
/// expressions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EvaluatedLane {
    /// The number of the step.
    pub step: u32,
    /// The key as it stands in the definition. A start whose definition says something else is refused.
    pub template: String,
    /// The key that this gives.
    pub key: String,
}

/// A lane that a step holds while the workflow below it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLane {
    /// The namespace of the lane.
    pub namespace: Name,
    /// Its key.
    pub key: String,
    /// The name of the step that holds it, with the number of the item if it is one.
    pub step: String,
    /// The workflow of that step.
    pub workflow: WorkflowId,
}

impl HeldLane {
    /// The lane of a step, if it is in one. `blueprint` is what the step's workflow follows.
    #[must_use]
    pub fn of(task: &Task, blueprint: &Blueprint) -> Option<Self> {
        let (namespace, key) = task.spec.lane_key()?;
        let (namespace, key) = (namespace.clone(), key.to_owned());
        Some(Self { namespace, key, step: step_name(task, blueprint), workflow: task.spec.workflow? })
    }

    /// The refusal of a step below it that asks for the same lane.
    #[must_use]
    pub fn refusal(&self, step: &str) -> Rejected {
        Rejected::LaneHeldAbove {
            step: step.into(),
            lane: self.key.clone(),
            holder: self.step.clone(),
            workflow: self.workflow,
        }
    }
}

/// The lanes that are held above a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LanesAbove {
    /// The name of the step that they are above.
    pub step: String,
    /// The lanes, those of the nearest step first.
    pub held: Vec<HeldLane>,
}

impl LanesAbove {
    /// Above a step, of which `blueprint` is what its workflow follows.
    #[must_use]
    pub fn of(task: &Task, blueprint: &Blueprint, held: Vec<HeldLane>) -> Self {
        Self { step: step_name(task, blueprint), held }
    }

    /// Why the step, or an item of it, cannot be in this lane.
    pub(crate) fn refuse(&self, namespace: &Name, lane: &Lane) -> Option<Rejected> {
        refuse(&self.held, &self.step, namespace, lane)
    }
}

fn step_name(task: &Task, blueprint: &Blueprint) -> String {
    let place = Place::of(task.id);
    let name = blueprint.step(place.step).map_or("", |step| &step.name);
    Workflow::place_name(name, place)
}

fn refuse(held: &[HeldLane], step: &str, namespace: &Name, lane: &Lane) -> Option<Rejected> {
    let holder = held.iter().find(|held| held.namespace == *namespace && held.key == lane.key())?;
    Some(holder.refusal(step))
}

/// The evaluated keys of a start, by the numbers of their steps.
pub(super) struct Lanes<'a>(HashMap<u32, &'a EvaluatedLane>);

impl<'a> Lanes<'a> {
    pub(super) fn of(evaluated: &'a [EvaluatedLane]) -> Self {
        Self(evaluated.iter().map(|lane| (lane.step, lane)).collect())
    }

    /// The lane that a step is in from the start. None if only its items are in one.
    pub(super) fn lane(&self, number: u32, step: &Step) -> Result<Option<Lane>, Rejected> {
        let Some(shared) = &step.lane else { return Ok(None) };
        let key = match self.0.get(&number) {
            _ if !shared.is_template() => &shared.key,
            Some(evaluated) if evaluated.template == shared.key => &evaluated.key,
            None if step.map.is_some() => return Ok(None),
            _ => {
                let (step, key) = (step.name.to_string(), shared.key.clone());
                return Err(Rejected::LaneNotEvaluated { step, key });
            }
        };
        let lane = Lane::new(key, shared.limit);
        let of_step = |invalid: Invalid| {
            let field = format!("{} of the step {:?}", invalid.field, &*step.name).into();
            Invalid { field, ..invalid }
        };
        Ok(Some(lane.map_err(of_step)?))
    }
}

impl NewWorkflow {
    /// Whether its steps may be in the lanes that they ask for, below steps that hold these.
    pub fn check_lanes(&self, blueprint: &Blueprint, held: &[HeldLane]) -> Result<(), Rejected> {
        let lanes = Lanes::of(&self.lanes);
        for (number, step) in (0..).zip(&blueprint.definition().steps) {
            if let Some(lane) = lanes.lane(number, step)?
                && let Some(refused) = refuse(held, &step.name, &self.namespace, &lane)
            {
                return Err(refused);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::id::{Token, WorkerId};
    use crate::json::Json;
    use crate::state::State;
    use crate::time::Timestamp;
    use crate::transition::{Before, Ended, conclude, nest, transition};
    use crate::workflow::{Source, Within};

    /// The slot is the step's while the workflow below it runs, and its lane moves when that has ended.
    #[test]
    fn a_step_keeps_its_slot_until_its_workflow_has_ended() {
        let text =
            r#"{"name": "x", "steps": {"a": {"workflow": "inner", "lane": {"key": "k", "limit": 1}}}}"#;
        let blueprint = Blueprint::of(serde_json::from_str(text).unwrap()).unwrap();
        let id: WorkflowId = "01890a5d-ac96-774b-bcce-b30000000000".parse().unwrap();
        let source = Source::AdHoc(Box::new(blueprint.definition().clone()));
        let new = NewWorkflow::new(id, source, Json::default());
        let now = Timestamp::from_micros(0);
        let admission = new.admit(&blueprint, "1".into(), Within::default(), now);
        let (mut step, ..) = admission.steps[0].clone();
        step.status.slot = true;
        let worker = WorkerId::new("w").unwrap();
        let claim = Command::Claim { task: step.id, worker: worker.clone() };
        step.status = transition(&Before::of(&step), &claim, now).unwrap().tasks.remove(0).after;
        let before = Before { workflow: Some(&admission.workflow), ..Before::of(&step) };
        let token = Token { task: step.id, lease: 1, worker };
        let waits = nest(&before, &token, now).unwrap().tasks.remove(0);
        assert_eq!((waits.after.state, waits.after.slot), (State::Waiting, true));
        assert!(!waits.moves_lane(&step));
        step.status = waits.after;
        let ended = conclude(&step, &Ended::Done { result: Json::default() }, now).tasks.remove(0);
        assert!(!ended.after.slot && ended.moves_lane(&step));
        assert_eq!(HeldLane::of(&step, &blueprint).unwrap().step, "a");
    }
}
