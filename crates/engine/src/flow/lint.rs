//! What can be said about a sound definition before it runs: its expressions, its schema, and what is likely
//! a mistake.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Blueprint, Join, RESERVED, Retry, Step};

use super::expression::TYPES;
use super::lane::{self, KnownDefinitions, lint_lanes};
use super::problem::{MOST, Problem, did_you_mean};
use super::schema;
use super::step::Expressions;

/// All that is wrong with the expressions and the schema of a definition, and warnings about the rest. No
/// more than twenty of each.
#[must_use]
pub fn lint(blueprint: &Blueprint) -> Vec<Problem> {
    let definition = blueprint.definition();
    let mut lint = Lint { blueprint, errors: Vec::new(), warnings: Vec::new(), asked: BTreeMap::new() };
    if let Some(error) = definition.input.as_ref().and_then(|input| schema::check(input).err()) {
        lint.errors.push(Problem::new(
            "input",
            error,
            "see json-schema.org; references to other documents are not followed",
        ));
    }
    lint.check_retry("defaults.retry", &definition.defaults.retry);
    for (number, step) in (0..).zip(&definition.steps) {
        lint.check_step(number, step);
        if lint.errors.len() >= MOST {
            break;
        }
    }
    lint.check_order();
    lint.check_lanes();
    lint.errors.truncate(MOST);
    lint.warnings.truncate(MOST);
    lint.errors.append(&mut lint.warnings);
    lint.errors
}

struct Lint<'a> {
    blueprint: &'a Blueprint,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Which steps have to come before which, and where that is said.
    asked: BTreeMap<(u32, u32), String>,
}

impl Lint<'_> {
    fn check_step(&mut self, number: u32, step: &Step) {
        self.check_retry(&format!("steps.{}.retry", step.name), &step.retry);
        self.check_join(step);
        self.errors.extend(lane::check(step).into_iter().map(Problem::from));
        if step.condition.is_none() && step.map.is_none() && step.input.is_none() {
            return;
        }
        match Expressions::of(step) {
            Err(flaws) => self.errors.extend(flaws.into_iter().map(Problem::from)),
            Ok(expressions) => {
                self.check_references(number, step, &expressions, true);
                self.check_references(number, step, &expressions, false);
            }
        }
    }

    fn check_references(&mut self, number: u32, step: &Step, expressions: &Expressions, is_early: bool) {
        let references = if is_early { expressions.early() } else { expressions.late() };
        let has_item = step.map.is_some() && !is_early;
        for name in references.names.iter().chain(&references.steps) {
            let path = || format!("steps.{}.{}", step.name, expressions.find(name, is_early));
            match self.blueprint.number(name) {
                _ if RESERVED.contains(&&**name) => {
                    if ["item", "index"].contains(&&**name) && !has_item {
                        let problem = format!("{name:?} is not known here");
                        let advice = "it is known in the input of a step with map";
                        self.errors.push(Problem::new(path(), problem, advice));
                    }
                }
                Some(before) => {
                    // Parents are most of what is asked for, and need no search.
                    if self.blueprint.graph().parents(number).binary_search(&before).is_err() {
                        self.asked.entry((before, number)).or_insert_with(path);
                    }
                }
                None if TYPES.contains(&&**name) => {}
                None => {
                    let steps = self.blueprint.definition().steps.iter().map(|step| &*step.name);
                    let steps = steps.filter(|other| *other != &*step.name);
                    let advice = did_you_mean(name, steps.chain(RESERVED)).unwrap_or_else(|| {
                        "known are input, workflow, steps, and the steps that come before".into()
                    });
                    let problem = format!("there is no step {name:?}");
                    self.errors.push(Problem::new(path(), problem, advice));
                }
            }
        }
    }

    /// Whether those that are referred to come before. Sixty-four are followed through the graph at a time,
    /// so even where every step refers to another far away this stays quick.
    fn check_order(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let graph = self.blueprint.graph();
        let mut order: Vec<u32> = (0..self.blueprint.len()).collect();
        order.sort_by_key(|step| graph.level(*step));
        let asked: Vec<(&(u32, u32), &String)> = self.asked.iter().collect();
        let mut wrong = Vec::new();
        let mut rest = &asked[..];
        while !rest.is_empty() {
            let mut bits: BTreeMap<u32, u64> = BTreeMap::new();
            let mut end = 0;
            for ((before, _), _) in rest {
                if bits.len() == 64 && !bits.contains_key(before) {
                    break;
                }
                let next = 1_u64 << bits.len().min(63);
                bits.entry(*before).or_insert(next);
                end += 1;
            }
            let mut reached = vec![0_u64; order.len()];
            for step in &order {
                let own = bits.get(step).copied().unwrap_or(0);
                let mask = reached[*step as usize] | own;
                for child in graph.children(*step) {
                    reached[*child as usize] |= mask;
                }
            }
            for ((before, step), path) in &rest[..end] {
                if reached[*step as usize] & bits[before] == 0 {
                    wrong.push((*before, *step, (*path).clone()));
                }
            }
            rest = &rest[end..];
        }
        for (before, step, path) in wrong.into_iter().take(MOST) {
            let name = |number| self.blueprint.step(number).map_or("", |step| &*step.name);
            let (before, step) = (name(before), name(step));
            let (problem, advice) = match before == step {
                true => (
                    format!("{step:?} refers to itself"),
                    "only steps that come before can be referred to".into(),
                ),
                false => (
                    format!("{before:?} is a step, but not one that comes before {step:?}"),
                    format!("add it to needs: steps.{step}.needs"),
                ),
            };
            self.errors.push(Problem::new(path, problem, advice));
        }
    }

    /// A step that is the same workflow again, in a lane, is below itself.
    fn check_lanes(&mut self) {
        let definition = self.blueprint.definition();
        if lane::children(self.blueprint).any(|child| child.name == definition.name) {
            let own = Arc::new(self.blueprint.clone());
            let known: KnownDefinitions = [None, definition.version.clone()]
                .into_iter()
                .map(|version| ((definition.name.clone(), version), own.clone()))
                .collect();
            self.errors.extend(lint_lanes(self.blueprint, &known));
        }
    }

    fn check_join(&mut self, step: &Step) {
        let Step { join, needs, .. } = step;
        let is_idle = match join {
            Join::All => false,
            // With one need it is the way to say «whatever became of it».
            Join::AllDone => needs.is_empty(),
            Join::Any | Join::AtLeast(_) => needs.len() < 2,
        };
        if is_idle {
            let many = if needs.is_empty() { "nothing" } else { "one step" };
            let path = format!("steps.{}.join", step.name);
            let advice = "leave join out, or name more steps in needs";
            self.warnings.push(Problem::warning(path, format!("the step needs {many}"), advice));
        }
    }

    fn check_retry(&mut self, path: &str, retry: &Retry) {
        let Retry { max_attempts, backoff, initial, factor, max, jitter_percent } = retry;
        let has_delay = backoff.is_some()
            || initial.is_some()
            || factor.is_some()
            || max.is_some()
            || jitter_percent.is_some();
        if *max_attempts == Some(Some(1)) && has_delay {
            let advice = "raise max_attempts, or leave the rest out";
            let problem = "with one attempt nothing is tried again, so there is nothing to wait for";
            self.warnings.push(Problem::warning(format!("{path}.max_attempts"), problem, advice));
        }
    }
}
