//! From the text of a workflow file to a sound definition, or to what is wrong with it and where.

use serde::Deserialize;
use windlass_core::{Blueprint, Definition, Name, Step, limits};

use super::decode::Decoder;
use super::node::{Content, Node, parse};
use super::problem::{MOST, Problem};

/// A workflow file that could be read: a sound definition, and the places of everything in it.
#[derive(Debug)]
pub struct Document {
    blueprint: Blueprint,
    root: Node,
}

impl Document {
    /// The definition with its graph.
    #[must_use]
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// The definition.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        self.blueprint.definition()
    }

    /// The definition with its graph, without the places.
    #[must_use]
    pub fn into_blueprint(self) -> Blueprint {
        self.blueprint
    }

    /// What [`lint`](super::lint()) finds, with places, in the order of the file.
    #[must_use]
    pub fn lint(&self) -> Vec<Problem> {
        self.lint_with(Vec::new())
    }

    /// The same, together with what [`lint_together`](super::lint_together()) has found in it.
    #[must_use]
    pub fn lint_with(&self, found: Vec<Problem>) -> Vec<Problem> {
        let mut problems = super::lint(&self.blueprint);
        for problem in found {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        located(&self.root, problems)
    }
}

/// Reads a workflow file: YAML, or JSON, which is YAML too. Everything but its expressions is checked; for
/// those there is [`Document::lint`].
pub fn read(text: &str) -> Result<Document, Vec<Problem>> {
    if text.len() > limits::DEFINITION_BYTES {
        let problem = format!("it has {} bytes", text.len());
        let advice = format!("at most {} are possible", limits::DEFINITION_BYTES);
        return Err(vec![Problem::new("", problem, advice)]);
    }
    let root = parse(text)?;
    let definition = definition(&root)?;
    match Blueprint::of(definition) {
        Ok(blueprint) => Ok(Document { blueprint, root }),
        Err(flaws) => Err(located(&root, flaws.into_iter().map(Problem::from).collect())),
    }
}

/// Reads a workflow file and checks its expressions too: its blueprint and the warnings, or all that is
/// wrong.
pub fn check(text: &str) -> Result<(Document, Vec<Problem>), Vec<Problem>> {
    let document = read(text)?;
    let problems = document.lint();
    match problems.iter().all(|problem| problem.is_warning) {
        true => Ok((document, problems)),
        false => Err(problems),
    }
}

/// Adds places, and sorts by them.
fn located(root: &Node, problems: Vec<Problem>) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        problems.into_iter().map(|problem| problem.clone().at(root.find(&problem.path))).collect();
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

fn definition(root: &Node) -> Result<Definition, Vec<Problem>> {
    match root.content {
        Content::Map(_) => {}
        Content::Null => {
            let advice = "a workflow has a `name` and `steps`";
            return Err(vec![Problem::new("", "there is nothing in this file", advice).at(root.place)]);
        }
        _ => {
            let problem = format!("it is {}", root.describe());
            let advice = "a workflow is an object with a `name` and `steps`";
            return Err(vec![Problem::new("", problem, advice).at(root.place)]);
        }
    }
    let mut problems = Vec::new();
    let head = Definition::deserialize(Decoder::without(root, "steps"));
    let head = head.map_err(|fault| problems.push(fault.below(""))).ok();
    let mut steps = Vec::new();
    if let Some(Content::Map(entries)) = root.get("steps").map(|entry| &entry.value.content) {
        steps.reserve(entries.len().min(limits::STEPS));
        for entry in entries {
            let path = format!("steps.{}", entry.key);
            let name = Name::new("name", &entry.key).map_err(|invalid| {
                let problem = format!("{} cannot be the name of a step", invalid.value);
                let advice = "a letter, then letters, digits, - and _ are possible";
                Problem::new(&path, problem, advice).at(entry.place)
            });
            let step = needs(&entry.value, &path).and_then(|()| {
                Step::deserialize(Decoder::new(&entry.value)).map_err(|fault| fault.below(&path))
            });
            match (name, step) {
                (Ok(name), Ok(step)) => steps.push(Step { name, ..step }),
                (name, step) => problems.extend(name.err().into_iter().chain(step.err())),
            }
            if problems.len() >= MOST {
                break;
            }
        }
    }
    match head {
        Some(head) if problems.is_empty() => Ok(Definition { steps, ..head }),
        _ => {
            problems.sort_by_key(|problem| (problem.line, problem.column));
            Err(problems)
        }
    }
}

/// Names the one of the needs that is wrong: the model could only say that the whole is not what it wants.
fn needs(step: &Node, path: &str) -> Result<(), Problem> {
    let Some(Content::List(needs)) = step.get("needs").map(|entry| &entry.value.content) else {
        return Ok(());
    };
    for (index, need) in needs.iter().enumerate() {
        let is_name = matches!(&need.content, Content::Text(text) if Name::new("name", text).is_ok());
        if !is_name {
            let path = format!("{path}.needs[{index}]");
            let problem = format!("it is {}", need.describe());
            return Err(Problem::new(path, problem, "write the name of a step").at(need.place));
        }
    }
    Ok(())
}
