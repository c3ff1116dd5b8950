//! What is known about kinds: which exist, which fields their payloads need, what their payloads look like.
//!
//! Checked where it is known: by clients at submit, so that a mistake is told to who made it, and by workers
//! at run, for what other clients let through.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::{Invalid, Json, Lane, Name, NewTask, Task};

/// The kinds of an application and the rules for their payloads.
///
/// ```
/// use windlass::{Rule, Rules};
///
/// # fn main() -> Result<(), windlass::Invalid> {
/// let rules = Rules::new()
///     .kind("execute_initial_planning", Rule::new().entity("planner").require(["user_question", "instruction"]))?
///     .kind("execute_sql_worker", Rule::new().entity("worker"))?
///     .closed();
/// # let _ = rules;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Rules {
    kinds: BTreeMap<Name, Rule>,
    closed: bool,
}

/// What must hold for tasks of one kind.
#[derive(Debug, Default)]
pub struct Rule {
    entity: Option<String>,
    required: Vec<String>,
    #[cfg(feature = "json-schema")]
    schema: Option<jsonschema::Validator>,
}

impl Rule {
    /// Anything goes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tasks of the kind act on an entity of this type.
    #[must_use]
    pub fn entity(mut self, entity_type: &str) -> Self {
        self.entity = Some(entity_type.into());
        self
    }

    /// The payload is an object with these fields. `null` counts as an object without any.
    #[must_use]
    pub fn require<T: Into<String>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.required.extend(fields.into_iter().map(Into::into));
        self
    }

    /// The payload is valid by this JSON Schema. References to other documents are not followed.
    #[cfg(feature = "json-schema")]
    pub fn schema(mut self, schema: &Value) -> Result<Self, Invalid> {
        let validator = jsonschema::validator_for(schema).map_err(|error| {
            Invalid::new("schema", &schema.to_string(), format!("a JSON Schema ({error})"))
        })?;
        self.schema = Some(validator);
        Ok(self)
    }

    fn check(&self, payload: &Json, lane: Option<&Lane>) -> Result<(), Invalid> {
        if let Some(wanted) = &self.entity {
            let entity = lane.and_then(Lane::entity);
            if entity.as_ref().is_none_or(|entity| entity.entity_type() != wanted) {
                let given = entity.map_or_else(|| "none".into(), |entity| entity.to_string());
                return Err(Invalid::new("entity", &given, format!("{wanted}:ID, which this kind acts on")));
            }
        }
        let is_checked = !self.required.is_empty();
        #[cfg(feature = "json-schema")]
        let is_checked = is_checked || self.schema.is_some();
        if !is_checked {
            return Ok(());
        }
        let value: Value = serde_json::from_str(payload.as_str()).map_err(|error| {
            Invalid::new("payload", payload.as_str(), format!("JSON that can be read ({error})"))
        })?;
        let missing = |field: &&String| value.get(field.as_str()).is_none();
        let missing: Vec<&str> = self.required.iter().filter(missing).map(String::as_str).collect();
        if !missing.is_empty() {
            let expected = format!("the field(s) {}, which this kind needs", missing.join(", "));
            return Err(Invalid::new("payload", payload.as_str(), expected));
        }
        #[cfg(feature = "json-schema")]
        if let Some(Err(error)) = self.schema.as_ref().map(|schema| schema.validate(&value)) {
            let at = error.instance_path().to_string();
            let expected = format!("what its schema says (at {at:?}: {error})");
            return Err(Invalid::new("payload", payload.as_str(), expected));
        }
        Ok(())
    }
}

impl Rules {
    /// No rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind; it can have one rule.
    pub fn kind(mut self, kind: &str, rule: Rule) -> Result<Self, Invalid> {
        let kind = Name::kind(kind)?;
        if self.kinds.contains_key(&kind) {
            return Err(Invalid::new("rule", &kind, "one rule for each kind; this one has two"));
        }
        self.kinds.insert(kind, rule);
        Ok(self)
    }

    /// Kinds that are not listed are refused.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Whether a task may be submitted.
    pub(crate) fn check_task(&self, task: &NewTask) -> Result<(), Invalid> {
        self.check(&task.kind, &task.payload, task.lane.as_ref())
    }

    /// Whether a task may be run.
    pub(crate) fn check_run(&self, task: &Task, payload: &Json) -> Result<(), Invalid> {
        self.check(&task.spec.kind, payload, task.spec.lane.as_ref())
    }

    fn check(&self, kind: &Name, payload: &Json, lane: Option<&Lane>) -> Result<(), Invalid> {
        match self.kinds.get(kind) {
            Some(rule) => rule.check(payload, lane),
            None if self.closed => {
                let known: Vec<&str> = self.kinds.keys().map(|kind| &**kind).collect();
                Err(Invalid::new("kind", kind, format!("one of {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }
}
