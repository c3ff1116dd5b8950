//! The expressions of one step: compiled once, evaluated when the step's parents have ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_core::{Blueprint, Flaw, Json, RESERVED, Step, WorkflowId, limits};

use super::expression::{Expression, References, Refused, STEP_FUEL, Stage};
use super::template::Template;

/// Bytes of all that the expressions of one step read. Only a step that reads very many others comes near.
const SCOPE_BYTES: usize = 32 << 20;

/// The compiled expressions of a step.
#[derive(Clone, Debug)]
pub struct Expressions {
    condition: Option<Expression>,
    list: Option<Template>,
    input: Option<Template>,
    references: References,
}

impl Expressions {
    /// Compiles `if`, `map.over` and `input`. Whether what they refer to is there is for
    /// [`lint`](super::lint()) to say.
    pub fn of(step: &Step) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut refuse = |path: &str, found: Vec<(String, Refused)>| {
            for (within, refused) in found {
                let path = format!("steps.{}.{path}{within}", step.name);
                flaws.push(Flaw::new(path, refused.problem, refused.advice));
            }
        };
        let condition = step.condition.as_deref().and_then(|source| {
            let source = bare(source);
            Expression::compile(source).map_err(|refused| refuse("if", vec![(String::new(), refused)])).ok()
        });
        let list = step
            .map
            .as_ref()
            .and_then(|map| Template::list(&map.over).map_err(|found| refuse("map.over", found)).ok());
        let input = step
            .input
            .as_ref()
            .and_then(|input| Template::compile(input).map_err(|found| refuse("input", found)).ok());
        if !flaws.is_empty() {
            return Err(flaws);
        }
        let mut all = Self { condition, list, input, references: References::default() };
        let (early, late) = (all.early(), all.late());
        all.references.extend(&early);
        all.references.extend(&late);
        Ok(all)
    }

    /// What `if` and `map.over` refer to.
    pub(super) fn early(&self) -> References {
        let mut references = References::default();
        if let Some(condition) = &self.condition {
            references.extend(condition.references());
        }
        if let Some(list) = &self.list {
            list.references(&mut references);
        }
        references
    }

    /// What `input` refers to.
    pub(super) fn late(&self) -> References {
        let mut references = References::default();
        if let Some(input) = &self.input {
            input.references(&mut references);
        }
        references
    }

    /// The field, and where in it, that first uses a name: in what is evaluated before there are items, or in
    /// `input`.
    pub(super) fn find(&self, name: &str, is_early: bool) -> String {
        let condition = self.condition.as_ref().filter(|condition| condition.references().has(name));
        let list = || Some(format!("map.over{}", self.list.as_ref()?.find(name)?));
        let input = || Some(format!("input{}", self.input.as_ref()?.find(name)?));
        let found = match is_early {
            true => condition.map(|_| "if".into()).or_else(list),
            false => input(),
        };
        found.unwrap_or_default()
    }

    /// The names of the steps that are referred to. A name that is no step, or comes later, is among them:
    /// lint tells.
    #[must_use]
    pub fn references(&self) -> BTreeSet<String> {
        let references = &self.references;
        let is_step = |name: &&String| !RESERVED.contains(&name.as_str());
        references.names.iter().filter(is_step).chain(&references.steps).cloned().collect()
    }

    /// Whether any ancestor may be referred to, as in `steps[input.which]`.
    #[must_use]
    pub fn refers_to_all(&self) -> bool {
        self.references.any_step
    }

    /// The numbers of the steps whose results have to be in the [`Scope`], lowest first.
    #[must_use]
    pub fn wanted(&self, blueprint: &Blueprint, step: u32) -> Vec<u32> {
        let mut wanted: Vec<u32> = match self.refers_to_all() {
            true => blueprint.graph().ancestors(step).into_iter().map(|(ancestor, _)| ancestor).collect(),
            false => self.references().iter().filter_map(|name| blueprint.number(name)).collect(),
        };
        wanted.sort_unstable();
        wanted
    }

    /// Ready to evaluate. Worth keeping where a step has many items: what they share is prepared once.
    #[must_use]
    pub fn bind<'a>(&'a self, scope: &'a Scope) -> Bound<'a> {
        self.bind_within(scope, STEP_FUEL)
    }

    /// The same, with so many units of work for all evaluations together.
    pub(crate) fn bind_within<'a>(&'a self, scope: &'a Scope, most: usize) -> Bound<'a> {
        let mut stage = Stage::new(most.min(STEP_FUEL));
        let known = |name: &str| scope.results.get(name).unwrap_or(&Value::Null);
        for name in &self.references.names {
            match &**name {
                "input" => stage.set(name, &scope.input),
                "workflow" => stage.set(name, &scope.workflow),
                "steps" if self.references.any_step => {
                    stage.set_map(name, scope.results.iter().map(|(name, result)| (&**name, result)));
                }
                "steps" => {
                    let steps = self.references.steps.iter();
                    stage.set_map(name, steps.map(|name| (&**name, known(name))));
                }
                "item" | "index" => {}
                // A word for a type is one, unless a step has that name.
                _ if super::expression::TYPES.contains(&&**name) && !scope.results.contains_key(name) => {}
                _ => stage.set(name, known(name)),
            }
        }
        Bound { expressions: self, scope, stage }
    }
}

/// `${…}` around a condition is allowed and means nothing.
fn bare(source: &str) -> &str {
    let inner = source.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.filter(|inner| !inner.contains("${")).unwrap_or(source)
}

/// What expressions can see of a running workflow.
#[derive(Clone, PartialEq, Debug)]
pub struct Scope {
    text: Json,
    input: Value,
    results: BTreeMap<String, Value>,
    workflow: Value,
    bytes: usize,
}

impl Scope {
    /// A workflow and its input.
    pub fn new(id: WorkflowId, name: &str, version: &str, input: &Json) -> Result<Self, String> {
        let workflow = json!({"id": id.to_string(), "name": name, "version": version});
        let value = parse("the input of the workflow", input)?;
        let bytes = input.as_str().len();
        Ok(Self { text: input.clone(), input: value, results: BTreeMap::new(), workflow, bytes })
    }

    /// Adds the result of a step; none if it was skipped or has not completed. A step that was not added has
    /// none.
    pub fn add(&mut self, step: &str, result: Option<&Json>) -> Result<(), String> {
        let Some(result) = result else {
            self.results.insert(step.into(), Value::Null);
            return Ok(());
        };
        self.bytes += result.as_str().len();
        if self.bytes > SCOPE_BYTES {
            return Err(format!("the expressions of one step read more than {SCOPE_BYTES} bytes of results"));
        }
        self.results.insert(step.into(), parse(&format!("the result of {step:?}"), result)?);
        Ok(())
    }
}

fn parse(what: &str, json: &Json) -> Result<Value, String> {
    serde_json::from_str(json.as_str()).map_err(|error| format!("{what} cannot be read: {error}"))
}

/// The expressions of a step over what they can see.
pub struct Bound<'a> {
    expressions: &'a Expressions,
    scope: &'a Scope,
    stage: Stage<'a, 'a>,
}

impl std::fmt::Debug for Bound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Bound<'_> {
    /// Whether the step is to run; none if it has no `if`.
    pub fn condition(&self) -> Result<Option<bool>, String> {
        let Some(condition) = &self.expressions.condition else { return Ok(None) };
        self.stage.refuel();
        match self.stage.value(condition).map_err(|error| format!("if: {error}"))? {
            Value::Bool(truth) => Ok(Some(truth)),
            other => Err(format!("if: it gives {}, not true or false", shown(&other))),
        }
    }

    /// The items that the step runs for; none if it has no `map`.
    pub fn list(&self) -> Result<Option<Vec<Value>>, String> {
        let Some(list) = &self.expressions.list else { return Ok(None) };
        self.stage.refuel();
        match list.fill(&self.stage).map_err(|error| format!("map.over: {error}"))? {
            Value::Array(items) if items.len() > limits::STEPS => Err(format!(
                "map.over: it gives {} items, at most {} are possible",
                items.len(),
                limits::STEPS
            )),
            Value::Array(items) => Ok(Some(items)),
            other => Err(format!("map.over: it gives {}, not a list", shown(&other))),
        }
    }

    /// The payload of the step: its `input`, or that of the workflow.
    pub fn input(&self) -> Result<Json, String> {
        self.stage.refuel();
        match &self.expressions.input {
            None => Ok(self.scope.text.clone()),
            Some(template) => self.payload(template.fill(&self.stage)),
        }
    }

    /// The payload of an item of the step: the step's `input`, or the item itself.
    pub fn item(&self, index: u32, item: &Value) -> Result<Json, String> {
        self.stage.refuel();
        let Some(template) = &self.expressions.input else { return self.payload(Ok(item.clone())) };
        let index = Value::from(index);
        let mut stage = self.stage.inner();
        stage.set("item", item);
        stage.set("index", &index);
        self.payload(template.fill(&stage))
    }

    /// Whether it was bound with too little for this answer: bound with more, it may give another.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.stage.is_exhausted()
    }

    fn payload(&self, filled: Result<Value, String>) -> Result<Json, String> {
        let text = filled.map_err(|error| format!("input: {error}"))?.to_string();
        self.stage.charge_bytes(text.len()).map_err(|error| format!("input: {error}"))?;
        Json::new("input", &text).map_err(|invalid| invalid.to_string())
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let end = text.floor_char_boundary(80);
    let ellipsis = if end < text.len() { "…" } else { "" };
    format!("{}{ellipsis}", &text[..end])
}
