//! Keys of lanes that hold `${expressions}`.
//!
//! A lane is chosen before its step runs: with the other steps when the workflow is started, or with the
//! other items when a list is made. So a key reads `input` and, in a step with a `map`, `item` and `index`;
//! no step has a result yet.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::{
    Blueprint, Child, EvaluatedLane, Flaw, HeldLane, Invalid, Json, Lane, Name, NewWorkflow, Rejected,
    Shared, Step,
};

use super::expression::{References, STEP_FUEL, Stage, TYPES};
use super::problem::Problem;
use super::read::Document;
use super::template::Template;

/// A compiled key.
struct LaneKey<'a> {
    shared: &'a Shared,
    template: Template,
    /// Whether it differs from item to item.
    is_per_item: bool,
}

impl<'a> LaneKey<'a> {
    /// The key of a step's lane, if it holds expressions; or what is wrong with them.
    fn of(step: &'a Step) -> Result<Option<Self>, Vec<Flaw>> {
        let Some(shared) = step.lane.as_ref().filter(|shared| shared.is_template()) else { return Ok(None) };
        let path = format!("steps.{}.lane.key", step.name);
        let template = Template::compile(&Value::from(&*shared.key)).map_err(|found| {
            found
                .into_iter()
                .map(|(_, refused)| Flaw::new(&path, refused.problem, refused.advice))
                .collect::<Vec<_>>()
        })?;
        let mut references = References::default();
        template.references(&mut references);
        let flaws: Vec<Flaw> = unreadable(&references, step.map.is_some())
            .map(|(problem, advice)| Flaw::new(&path, problem, advice))
            .collect();
        if !flaws.is_empty() {
            return Err(flaws);
        }
        let is_per_item = references.has("item") || references.has("index");
        Ok(Some(Self { shared, template, is_per_item }))
    }

    fn fill(&self, stage: &Stage<'_, '_>) -> Result<String, String> {
        self.template.fill_text(stage).map_err(|error| format!("lane.key: {error}"))
    }
}

/// What a key refers to and cannot read.
fn unreadable(references: &References, has_items: bool) -> impl Iterator<Item = (String, String)> {
    let names = references.names.iter().chain(&references.steps);
    names.filter_map(move |name| match &**name {
        "input" => None,
        "item" | "index" if has_items => None,
        "item" | "index" => {
            let advice = "only the key of a step with map reads item and index; others read input";
            Some((format!("{name:?} is not known here"), advice.into()))
        }
        name if TYPES.contains(&name) => None,
        _ => {
            let advice = "a lane is chosen when the workflow is started, before any step has a result: its key reads input and, \
                          in a step with map, item and index";
            Some((format!("the key of a lane cannot read {name:?}"), advice.into()))
        }
    })
}

/// What is wrong with the key of a step's lane.
pub(super) fn check(step: &Step) -> Vec<Flaw> {
    LaneKey::of(step).err().unwrap_or_default()
}

fn said(flaws: &[Flaw]) -> String {
    flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; ")
}

/// The keys of lanes that hold expressions, for workflows of a definition with this input: what
/// [`NewWorkflow::lanes`] takes. Keys that differ from item to item are not among them.
pub fn evaluate_lanes(blueprint: &Blueprint, input: &Json) -> Result<Vec<EvaluatedLane>, Invalid> {
    let steps = (0..).zip(&blueprint.definition().steps);
    let with_keys = steps.filter_map(|(number, step)| {
        let shared = step.lane.as_ref().filter(|shared| shared.is_template())?;
        Some((number, step, shared))
    });
    let with_keys: Vec<(u32, &Step, &Shared)> = with_keys.collect();
    if with_keys.is_empty() {
        return Ok(Vec::new());
    }
    let read = serde_json::from_str::<Value>(input.as_str());
    let value = read.map_err(|error| Invalid::new("input", "", format!("JSON ({error})")))?;
    // One meter for all keys.
    let mut stage = Stage::new(STEP_FUEL);
    stage.set("input", &value);
    let mut lanes = Vec::new();
    for (number, step, shared) in with_keys {
        let refused = |why: String| {
            let field = format!("lane key of the step {:?}", &*step.name).into();
            Invalid { field, ..Invalid::new("", &shared.key, format!("a key that this input gives ({why})")) }
        };
        let Some(key) = LaneKey::of(step).map_err(|flaws| refused(said(&flaws)))? else { continue };
        if key.is_per_item {
            continue;
        }
        stage.refuel();
        let filled = key.fill(&stage).map_err(refused)?;
        lanes.push(EvaluatedLane { step: number, template: shared.key.clone(), key: filled });
    }
    Ok(lanes)
}

/// The lanes of items, if they differ from item to item.
pub(crate) fn item_lanes(step: &Step, input: &Json, items: &[Value]) -> Result<Vec<Lane>, String> {
    let key = match LaneKey::of(step).map_err(|flaws| said(&flaws))? {
        Some(key) if key.is_per_item => key,
        _ => return Ok(Vec::new()),
    };
    let input: Value = serde_json::from_str(input.as_str()).map_err(|error| error.to_string())?;
    let mut stage = Stage::new(STEP_FUEL);
    stage.set("input", &input);
    let lane = |(index, item): (u32, &Value)| {
        stage.refuel();
        let index = Value::from(index);
        let mut inner = stage.inner();
        inner.set("item", item);
        inner.set("index", &index);
        let filled = key.fill(&inner)?;
        Lane::new(&filled, key.shared.limit).map_err(|invalid| format!("lane of item {index}: {invalid}"))
    };
    (0..).zip(items).map(lane).collect()
}

/// Definitions that are known, by the name and version that steps give.
pub(crate) type KnownDefinitions = HashMap<(Name, Option<String>), Arc<Blueprint>>;

/// The workflows that a definition's steps are, and those of these.
pub(crate) fn children(blueprint: &Blueprint) -> impl Iterator<Item = &Child> {
    blueprint.definition().steps.iter().filter_map(|step| step.workflow.as_ref())
}

/// A step that asks for a lane which a step above it holds.
struct Conflict<'a> {
    holder: &'a Step,
    key: &'a str,
    /// The step that asks, and the workflow that it is in.
    step: &'a Step,
    workflow: &'a Name,
}

/// Whether steps below a definition ask for lanes that its own steps hold while they run. Keys that hold
/// expressions are known if they were evaluated for this start; those of steps below are not.
fn conflicts<'a>(
    blueprint: &'a Blueprint,
    evaluated: &'a [EvaluatedLane],
    known: &'a KnownDefinitions,
) -> Vec<Conflict<'a>> {
    let mut found = Vec::new();
    for (number, holder) in (0_u32..).zip(&blueprint.definition().steps) {
        let (Some(shared), Some(child)) = (&holder.lane, &holder.workflow) else { continue };
        let key = match evaluated.iter().find(|lane| lane.step == number) {
            Some(lane) => &*lane.key,
            None if shared.is_template() => continue,
            None => &*shared.key,
        };
        let (mut seen, mut left) = (Vec::new(), vec![child]);
        while let Some(child) = left.pop() {
            if seen.contains(&child) {
                continue;
            }
            seen.push(child);
            let Some(below) = known.get(&(child.name.clone(), child.version.clone())) else { continue };
            let asks =
                |step: &&Step| step.lane.as_ref().is_some_and(|lane| !lane.is_template() && lane.key == *key);
            if let Some(step) = below.definition().steps.iter().find(asks) {
                found.push(Conflict { holder, key, step, workflow: &below.definition().name });
                break;
            }
            left.extend(children(below));
        }
    }
    found
}

/// What is wrong with the lanes of a definition and those of the workflows within it, as far as these are
/// known.
pub(crate) fn lint_lanes(blueprint: &Blueprint, known: &KnownDefinitions) -> Vec<Problem> {
    let conflicts = conflicts(blueprint, &[], known).into_iter();
    let problem = |Conflict { holder, key, step, workflow }: Conflict<'_>| {
        let problem = format!(
            "the step {:?} of the workflow {:?} asks for the lane {key:?}, which {:?} holds until that workflow has ended",
            &*step.name, &**workflow, &*holder.name
        );
        let advice = "it would wait for ever; give one of them another lane";
        Problem::new(format!("steps.{}.lane.key", holder.name), problem, advice)
    };
    conflicts.map(problem).collect()
}

/// Why a workflow cannot be started: a step below it would wait for ever.
pub(crate) fn refuse_lanes(
    new: &NewWorkflow,
    blueprint: &Blueprint,
    known: &KnownDefinitions,
) -> Option<Rejected> {
    let conflict = conflicts(blueprint, &new.lanes, known).into_iter().next()?;
    let held = HeldLane {
        namespace: new.namespace.clone(),
        key: conflict.key.into(),
        step: conflict.holder.name.to_string(),
        workflow: new.id,
    };
    Some(held.refusal(&format!("{}/{}", conflict.workflow, conflict.step.name)))
}

/// What is wrong with the lanes of several files together: a workflow that is a step of another is looked for
/// among them. The problems of each file, in order, for [`Document::lint_with`].
#[must_use]
pub fn lint_together(documents: &[&Document]) -> Vec<Vec<Problem>> {
    let blueprints: Vec<&Blueprint> = documents.iter().map(|document| document.blueprint()).collect();
    let mut known = KnownDefinitions::new();
    for blueprint in &blueprints {
        let (definition, shared) = (blueprint.definition(), Arc::new((*blueprint).clone()));
        known.insert((definition.name.clone(), None), shared.clone());
        known.insert((definition.name.clone(), definition.version.clone()), shared);
    }
    blueprints.iter().map(|blueprint| lint_lanes(blueprint, &known)).collect()
}
