//! What makes a definition sound.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::definition::{Defaults, Definition, Join, RESERVED, RUN, RUN_AD_HOC, Shared, Step, WORKFLOW};
use super::graph::Graph;
use crate::duration;
use crate::lane::Lane;
use crate::limits;
use crate::name::Name;

/// Something in a definition that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flaw {
    /// Where, such as `steps.publish.needs[1]`.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
    /// What would be right.
    pub advice: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.problem, self.advice)
    }
}

/// How the problem with a cycle begins.
const CYCLE: &str = "the steps need one another";

/// How the problem with the shortest one ends.
const ITSELF: &str = " needs itself";

impl Flaw {
    /// Whether it is that steps need one another.
    #[must_use]
    pub fn is_cycle(&self) -> bool {
        self.problem.starts_with(CYCLE) || self.problem.ends_with(ITSELF)
    }

    /// A flaw at `path`.
    pub fn new(path: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into(), advice: advice.into() }
    }
}

/// A definition that was found sound, with its graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Blueprint {
    definition: Definition,
    graph: Graph,
    numbers: HashMap<Name, u32>,
}

impl Blueprint {
    /// Checks everything that can be checked without understanding expressions.
    pub fn of(definition: Definition) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Flaws::default();
        flaws.check_head(&definition);
        let numbers = flaws.number(&definition);
        let mut parents: Vec<Vec<u32>> = Vec::with_capacity(definition.steps.len());
        for step in &definition.steps {
            flaws.check_step(&definition, step);
            parents.push(flaws.resolve(step, &numbers));
        }
        if !flaws.0.is_empty() {
            return Err(flaws.0);
        }
        match Graph::of(&parents) {
            Ok(graph) if graph.depth() > limits::DEPTH => {
                let problem = format!("the longest chain has {} steps", graph.depth());
                Err(vec![Flaw::new("steps", problem, format!("at most {} are possible", limits::DEPTH))])
            }
            Ok(graph) => Ok(Self { definition, graph, numbers }),
            Err(cycle) => {
                let names: Vec<&str> =
                    cycle.iter().map(|number| &*definition.steps[*number as usize].name).collect();
                let path = format!("steps.{}.needs", names.first().unwrap_or(&""));
                let problem = format!("{CYCLE}: {}", names.join(" -> "));
                Err(vec![Flaw::new(path, problem, "take one of these needs away")])
            }
        }
    }

    /// The definition.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The definition, and nothing else.
    #[must_use]
    pub fn into_definition(self) -> Definition {
        self.definition
    }

    /// The same without a version, which is kept beside it.
    #[must_use]
    pub fn without_version(mut self) -> Self {
        self.definition.version = None;
        self
    }

    /// Who comes after whom.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many steps it has.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.definition.steps.len()).unwrap_or(u32::MAX)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.definition.steps.is_empty()
    }

    /// A step by its number.
    #[must_use]
    pub fn step(&self, number: u32) -> Option<&Step> {
        self.definition.steps.get(number as usize)
    }

    /// Whether any of its steps is in a lane.
    #[must_use]
    pub fn has_lanes(&self) -> bool {
        self.definition.steps.iter().any(|step| step.lane.is_some())
    }

    /// The number of a step.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// From the [content](Definition::content) that a store keeps.
    pub fn stored(text: &str) -> Result<Self, String> {
        let definition = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::of(definition).map_err(|flaws| flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// The flaws found so far.
#[derive(Default)]
struct Flaws(Vec<Flaw>);

/// So many flaws are told; whoever has more starts with these.
pub(super) const MOST_FLAWS: usize = 20;

impl Flaws {
    fn push(&mut self, path: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) {
        if self.0.len() < MOST_FLAWS {
            self.0.push(Flaw::new(path, problem, advice));
        }
    }

    fn check_head(&mut self, definition: &Definition) {
        if let Some(version) = &definition.version
            && (version.is_empty()
                || version.len() > limits::VERSION_BYTES
                || version.contains(char::is_control))
        {
            let advice = format!("1 to {} characters are possible", limits::VERSION_BYTES);
            self.push("version", format!("it is {version:?}"), advice);
        }
        if definition.steps.len() > limits::STEPS {
            let advice = format!("at most {} are possible; use map, or workflows as steps", limits::STEPS);
            self.push("steps", format!("there are {}", definition.steps.len()), advice);
        }
        if let Some(schema) = &definition.input
            && !(schema.is_object() || schema.is_boolean())
        {
            self.push("input", "it is not a JSON Schema", "write an object such as {type: object}");
        }
        self.check_bounds("defaults", definition, &Step::default());
    }

    /// The numbers of steps by name.
    fn number(&mut self, definition: &Definition) -> HashMap<Name, u32> {
        let mut numbers = HashMap::with_capacity(definition.steps.len());
        for (number, step) in (0..).zip(&definition.steps) {
            let name = &step.name;
            let path = || format!("steps.{name}");
            let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            if !name.bytes().all(legal) || name.starts_with(|first: char| !first.is_ascii_alphabetic()) {
                let advice = "a letter, then letters, digits, - and _ are possible";
                self.push(path(), format!("{name:?} cannot be the name of a step"), advice);
            } else if RESERVED.contains(&&**name) {
                let advice = "call it something else: expressions use that word";
                self.push(path(), format!("{name:?} cannot be the name of a step"), advice);
            }
            if numbers.insert(name.clone(), number).is_some() {
                self.push(path(), format!("{name:?} is there twice"), "every step has a name of its own");
            }
        }
        numbers
    }

    fn check_step(&mut self, definition: &Definition, step: &Step) {
        let path = format!("steps.{}", step.name);
        if step.action().is_none() {
            let given = [step.task.is_some(), step.run.is_some(), step.workflow.is_some()];
            let problem = match given.iter().filter(|given| **given).count() {
                0 => "it does nothing",
                _ => "it does several things",
            };
            self.push(&path, problem, "give exactly one of task, run and workflow");
        }
        if step.run.as_ref().is_some_and(|program| program.trim().is_empty()) {
            self.push(format!("{path}.run"), "it is empty", "write a command for the shell");
        }
        if let Some(kind) = step.task.as_ref().filter(|kind| [RUN, RUN_AD_HOC, WORKFLOW].contains(&&***kind))
        {
            let advice = "use `run` for a program and `workflow` for a workflow";
            self.push(format!("{path}.task"), format!("{kind:?} is taken"), advice);
        }
        let over = step.map.as_ref().and_then(|map| map.over.as_str());
        let lane = step.lane.as_ref().filter(|shared| shared.is_template()).map(|shared| &*shared.key);
        let expressions = [
            ("if", step.condition.as_deref()),
            ("run", step.run.as_deref()),
            ("map.over", over),
            ("lane.key", lane),
        ];
        for (field, text) in expressions {
            if let Some(text) = text.filter(|text| text.len() > limits::EXPRESSION_BYTES) {
                let advice = format!("at most {} are possible", limits::EXPRESSION_BYTES);
                self.push(format!("{path}.{field}"), format!("it has {} bytes", text.len()), advice);
            }
        }
        let list = step.map.as_ref().map(|map| &map.over).filter(|over| over.is_array());
        for (field, value) in [("input", step.input.as_ref()), ("map.over", list)] {
            if let Some(size) = value.map(size).filter(|size| *size > limits::TEMPLATE_BYTES) {
                let advice = format!("at most {} are possible; read it in a step", limits::TEMPLATE_BYTES);
                self.push(format!("{path}.{field}"), format!("it has {size} bytes"), advice);
            }
        }
        if let Some(map) = &step.map {
            if !(map.over.is_array() || map.over.is_string()) {
                let advice = "write a list, or an expression that gives one";
                self.push(format!("{path}.map.over"), format!("it is {}", sort(&map.over)), advice);
            }
            if map.max_parallel.is_some_and(|most| !(1..=limits::LANE_LIMIT).contains(&most)) {
                let advice = format!("1 to {} are possible", limits::LANE_LIMIT);
                self.push(format!("{path}.map.max_parallel"), "it is out of range", advice);
            }
            if map.max_parallel.is_some() && step.lane.is_some() {
                let advice = "a step with max_parallel cannot be in another lane";
                self.push(format!("{path}.lane"), "there are two limits", advice);
            }
        }
        if let Some(shared @ Shared { key, limit }) = &step.lane {
            // What expressions give is known when they are evaluated.
            let key = if shared.is_template() { "x" } else { key };
            if let Err(invalid) = Lane::new(key, *limit) {
                self.push(format!("{path}.lane"), invalid.to_string(), "see the limits in the documentation");
            }
        }
        if let Join::AtLeast(n) = step.join
            && !(1..=step.needs.len()).contains(&(n as usize))
        {
            let advice = format!("1 to {}, the number of its needs, are possible", step.needs.len().max(1));
            self.push(format!("{path}.join.at_least"), format!("it is {n}"), advice);
        }
        self.check_bounds(&path, definition, step);
    }

    /// Retry, time limit and queue of a step, with the defaults.
    fn check_bounds(&mut self, path: &str, definition: &Definition, step: &Step) {
        let Defaults { retry, .. } = &definition.defaults;
        if let Some(attempts) = step.retry.attempts(retry)
            && !(1..=limits::MAX_ATTEMPTS).contains(&attempts)
        {
            let advice = format!("1 to {} are possible, or null for no limit", limits::MAX_ATTEMPTS);
            self.push(format!("{path}.retry.max_attempts"), format!("it is {attempts}"), advice);
        }
        if let Err(invalid) = step.retry.policy(retry).check() {
            let advice = format!("{} is possible", invalid.expected);
            self.push(format!("{path}.retry"), format!("{} is {}", invalid.field, invalid.value), advice);
        }
        if let Some(timeout) = definition.timeout(step)
            && !(Duration::from_millis(1)..=limits::TIMEOUT).contains(&timeout)
        {
            let problem = format!("it is {}", duration::exact(timeout));
            self.push(format!("{path}.timeout"), problem, "1ms to 365d are possible");
        }
    }

    /// The numbers of a step's parents.
    fn resolve(&mut self, step: &Step, numbers: &HashMap<Name, u32>) -> Vec<u32> {
        let mut parents = Vec::with_capacity(step.needs.len());
        for (index, name) in step.needs.iter().enumerate() {
            let path = || format!("steps.{}.needs[{index}]", step.name);
            match numbers.get(name) {
                _ if *name == step.name => {
                    self.push(path(), format!("{name:?} needs itself"), "take that away");
                }
                None => {
                    let others = numbers.keys().filter(|other| **other != step.name);
                    let advice = match nearest(name, others) {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => "the steps are the keys below `steps`".into(),
                    };
                    self.push(path(), format!("there is no step {name:?}"), advice);
                }
                Some(number) => parents.push(*number),
            }
        }
        let named = parents.len();
        parents.sort_unstable();
        parents.dedup();
        if parents.len() < named {
            self.push(format!("steps.{}.needs", step.name), "a step is named twice", "name each once");
        }
        parents
    }
}

/// How large a value is as text.
fn size(value: &Value) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The name that is most like `wanted`, if one is like it at all. For a message, so only the first thousand
/// are looked at.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a Name>) -> Option<&'a Name> {
    let near = names.take(1_000).map(|name| (distance(wanted, name), name));
    let close = wanted.len() / 3 + 1;
    near.filter(|(far, _)| *far <= close).min().map(|(_, name)| name)
}

/// How many letters have to be changed, put in or left out.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let change = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
