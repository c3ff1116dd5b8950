//! Definitions written in Rust.
//!
//! Every field of a file has a method of the same name, except where Rust has taken the word: `if` is
//! [`StepBuilder::when`], and the schema of a definition's `input` is [`DefinitionBuilder::input_schema`].
//! Values that cannot be accepted are told at the end, all at once, by [`DefinitionBuilder::build`].
//!
//! Expressions are texts here too: whether they can be understood is said by whoever the definition is given
//! to.

use std::time::Duration;

use serde_json::Value;

use super::blueprint::{Blueprint, Flaw, MOST_FLAWS};
use super::definition::{
    Child, Defaults, Definition, Growth, Identity, Join, Map, OnFailure, Retry, Shared, Span, Step,
};
use crate::input::Input;
use crate::name::Name;
use crate::rejected::Rejected;

impl Definition {
    /// A definition to be written here. Add steps, set what differs from the defaults, then
    /// [`build`](DefinitionBuilder::build) it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::json;
    /// use windlass_core::{Definition, Growth, Join, Retry, Step};
    ///
    /// # fn main() -> Result<(), windlass_core::Rejected> {
    /// let nightly = Definition::builder("nightly")
    ///     .input_schema(json!({ "type": "object", "required": ["day"] }))
    ///     .default_timeout(Duration::from_secs(60))
    ///     .step(Step::task("extract", "extract").input(json!({ "day": "${input.day}" })))
    ///     .step(
    ///         Step::task("regions", "summarise")
    ///             .needs(["extract"])
    ///             .map("${extract.regions}")
    ///             .max_parallel(2)
    ///             .retry(Retry::default().max_attempts(5).backoff(Growth::Fixed)),
    ///     )
    ///     .step(Step::task("alert", "alert").needs(["extract"]).when("extract.errors > 3"))
    ///     .step(Step::run("publish", "./publish.sh").needs(["regions", "alert"]).join(Join::AllDone))
    ///     .build()?;
    /// assert_eq!(nightly.steps[1].needs[0], nightly.steps[0].name);
    ///
    /// // The same as in a file, which is JSON or YAML.
    /// let file = serde_json::to_string(&nightly).unwrap();
    /// assert_eq!(serde_json::from_str::<Definition>(&file).unwrap(), nightly);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(name: &str) -> DefinitionBuilder {
        let mut flaws = Vec::new();
        let definition = Self {
            name: named(&mut flaws, "name", name),
            version: None,
            description: None,
            input: None,
            identity: Identity::default(),
            defaults: Defaults::default(),
            steps: Vec::new(),
            on_failure: OnFailure::default(),
        };
        DefinitionBuilder { definition, flaws }
    }
}

/// A definition that is being written.
#[derive(Clone, Debug)]
#[must_use = "a definition is made by build()"]
pub struct DefinitionBuilder {
    definition: Definition,
    flaws: Vec<Flaw>,
}

impl DefinitionBuilder {
    fn with(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.definition);
        self
    }

    /// Which of that name; the next number by default, unless the same content has one already.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.with(|it| it.version = Some(version.into()))
    }

    /// What it is for, in words.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|it| it.description = Some(description.into()))
    }

    /// A JSON Schema that the input of every workflow must satisfy.
    pub fn input_schema(self, schema: Value) -> Self {
        self.with(|it| it.input = Some(schema))
    }

    /// When two starts are the same workflow; never by default.
    pub fn identity(self, identity: Identity) -> Self {
        self.with(|it| it.identity = identity)
    }

    /// What a step that failed for good means to the others; by default those that do not need it go on.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.with(|it| it.on_failure = on_failure)
    }

    /// When failed attempts of steps that do not say otherwise are tried again.
    pub fn default_retry(self, retry: Retry) -> Self {
        self.with(|it| it.defaults.retry = retry)
    }

    /// How long one attempt of steps that do not say otherwise may take.
    pub fn default_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.defaults.timeout = Some(Span(timeout)))
    }

    /// The priority of steps that do not say otherwise.
    pub fn default_priority(self, priority: i32) -> Self {
        self.with(|it| it.defaults.priority = Some(priority))
    }

    /// The line of tasks of steps that do not say otherwise.
    pub fn default_queue(mut self, queue: &str) -> Self {
        self.definition.defaults.queue = Some(named(&mut self.flaws, "defaults.queue", queue));
        self
    }

    /// Adds a step.
    pub fn step(mut self, step: StepBuilder) -> Self {
        let StepBuilder { step, flaws } = step;
        let below = |flaw: Flaw| {
            let dot = if flaw.path.is_empty() { "" } else { "." };
            Flaw { path: format!("steps.{}{dot}{}", step.name, flaw.path), ..flaw }
        };
        self.flaws.extend(flaws.into_iter().map(below));
        self.definition.steps.push(step);
        self
    }

    /// Adds several steps.
    pub fn steps(self, steps: impl IntoIterator<Item = StepBuilder>) -> Self {
        steps.into_iter().fold(self, Self::step)
    }

    /// The definition; or all that is wrong with it.
    ///
    /// ```
    /// use windlass_core::{Definition, Rejected, Step};
    ///
    /// let wrong = Definition::builder("wrong")
    ///     .step(Step::task("list", "list files"))
    ///     .step(Step::task("count", "count").needs(["lst"]))
    ///     .build();
    /// let Err(Rejected::Unsound { flaws }) = wrong else { panic!("it was built") };
    /// assert_eq!(flaws[0].to_string(), r#"steps.count.needs[0]: there is no step "lst"; did you mean "list"?"#);
    /// assert_eq!((&*flaws[1].path, &*flaws[1].problem), ("steps.list.task", r#"it is "list files""#));
    /// ```
    pub fn build(self) -> Result<Definition, Rejected> {
        let Self { definition, flaws: own } = self;
        let (mut flaws, built) = match Blueprint::of(definition) {
            Ok(blueprint) => (Vec::new(), Some(blueprint.into_definition())),
            Err(flaws) => (flaws, None),
        };
        for flaw in own {
            if flaws.len() < MOST_FLAWS && flaws.iter().all(|known| known.path != flaw.path) {
                flaws.push(flaw);
            }
        }
        match built {
            Some(definition) if flaws.is_empty() => Ok(definition),
            _ => Err(Rejected::Unsound { flaws }),
        }
    }
}

impl Step {
    /// A step that a handler of this kind does.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::Step;
    ///
    /// let step = Step::task("mail", "email:send").needs(["report"]).input(json!({ "text": "${report.summary}" }));
    /// # let _ = step;
    /// ```
    pub fn task(name: &str, kind: &str) -> StepBuilder {
        let mut builder = StepBuilder::new(name);
        builder.step.task = Some(named(&mut builder.flaws, "task", kind));
        builder
    }

    /// A step that the handler of a typed input does, with this input as it is: `${` in its texts means
    /// nothing.
    ///
    /// Where expressions are wanted, [`Step::task`] takes them: `Step::task("mail",
    /// SendEmail::KIND).input(…)`.
    ///
    /// ```
    /// use windlass_core::{Definition, Input, Step};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct SendEmail {
    ///     to: String,
    /// }
    /// impl Input for SendEmail {
    ///     const KIND: &'static str = "email:send";
    /// }
    ///
    /// # fn main() -> Result<(), windlass_core::Rejected> {
    /// let mail = Step::of("mail", &SendEmail { to: "ada".into() });
    /// let definition = Definition::builder("welcome").step(mail).build()?;
    /// assert_eq!(definition.steps[0].task.as_deref(), Some("email:send"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn of<I: Input>(name: &str, input: &I) -> StepBuilder {
        let mut builder = Self::task(name, I::KIND);
        match serde_json::to_value(input) {
            Ok(input) => builder.input(literal(input)),
            Err(error) => {
                builder.flaws.push(Flaw::new("input", error.to_string(), "write what JSON can say"));
                builder
            }
        }
    }

    /// A step that is a program, for the shell.
    pub fn run(name: &str, program: impl Into<String>) -> StepBuilder {
        StepBuilder::new(name).with(|step| step.run = Some(program.into()))
    }

    /// A step that is another workflow: the newest version when it starts, unless [`StepBuilder::version`]
    /// says which.
    pub fn workflow(name: &str, definition: &str) -> StepBuilder {
        let mut builder = StepBuilder::new(name);
        let child = Child { name: named(&mut builder.flaws, "workflow", definition), version: None };
        builder.with(|step| step.workflow = Some(child))
    }
}

/// A step that is being written; see [`Step::task`], [`Step::of`], [`Step::run`] and [`Step::workflow`].
#[derive(Clone, Debug)]
#[must_use = "a step does nothing unless it is added to a definition"]
pub struct StepBuilder {
    step: Step,
    /// With paths below the step's.
    flaws: Vec<Flaw>,
}

impl StepBuilder {
    fn new(name: &str) -> Self {
        let mut flaws = Vec::new();
        let step = Step { name: named(&mut flaws, "", name), ..Step::default() };
        Self { step, flaws }
    }

    fn with(mut self, change: impl FnOnce(&mut Step)) -> Self {
        change(&mut self.step);
        self
    }

    /// What it is for, in words.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|step| step.description = Some(description.into()))
    }

    /// Which version of the workflow that it is.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        match &mut self.step.workflow {
            Some(child) => child.version = Some(version.into()),
            None => {
                let advice = "only a step that is a workflow has a version";
                self.flaws.push(Flaw::new("version", "it is set", advice));
            }
        }
        self
    }

    /// The steps that it comes after, besides those named before.
    pub fn needs<N: AsRef<str>>(mut self, needs: impl IntoIterator<Item = N>) -> Self {
        for need in needs {
            let path = format!("needs[{}]", self.step.needs.len());
            self.step.needs.push(named(&mut self.flaws, &path, need.as_ref()));
        }
        self
    }

    /// How many of them, ended how; all of them done by default.
    pub fn join(self, join: Join) -> Self {
        self.with(|step| step.join = join)
    }

    /// An expression; if it is false, the step is skipped. `if` in files.
    pub fn when(self, condition: impl Into<String>) -> Self {
        self.with(|step| step.condition = Some(condition.into()))
    }

    /// Runs once for each item of a list: the list, or an expression that gives one.
    pub fn map(self, over: impl Into<Value>) -> Self {
        self.with(|step| {
            let max_parallel = step.map.take().and_then(|map| map.max_parallel);
            step.map = Some(Map { over: over.into(), max_parallel });
        })
    }

    /// How many items at once; all of them by default.
    pub fn max_parallel(self, most: u32) -> Self {
        self.with(|step| {
            // Without a list this is told by build(): null is none.
            let over = step.map.take().map_or(Value::Null, |map| map.over);
            step.map = Some(Map { over, max_parallel: Some(most) });
        })
    }

    /// What it is given: JSON in which texts may hold `${expressions}`. By default the input of the workflow,
    /// or the item of a map.
    pub fn input(self, input: impl Into<Value>) -> Self {
        self.with(|step| step.input = Some(input.into()))
    }

    /// When failed attempts are tried again, and how often.
    pub fn retry(self, retry: Retry) -> Self {
        self.with(|step| step.retry = retry)
    }

    /// How long one attempt may take; unlimited by default.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|step| step.timeout = Some(Span(timeout)))
    }

    /// Higher first; added to the priority of the workflow.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|step| step.priority = Some(priority))
    }

    /// Line of tasks.
    pub fn queue(mut self, queue: &str) -> Self {
        self.step.queue = Some(named(&mut self.flaws, "queue", queue));
        self
    }

    /// At most `limit` steps with this key at once, in all workflows of the namespace. The key may hold
    /// `${expressions}`: they read `input` and, in a step with a map, `item` and `index`. A step that is a
    /// workflow keeps its slot until that workflow has ended.
    pub fn lane(self, key: impl Into<String>, limit: u32) -> Self {
        self.with(|step| step.lane = Some(Shared { key: key.into(), limit }))
    }
}

/// What is not said is as the defaults say.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Growth, Retry};
///
/// let retry = Retry::default().max_attempts(5).backoff(Growth::Fixed).initial(Duration::from_millis(500));
/// assert_eq!(retry.attempts(&Retry::default()), Some(5));
/// ```
impl Retry {
    /// Attempts in all; 3 by default, `None` for no limit.
    #[must_use]
    pub fn max_attempts(self, attempts: impl Into<Option<u32>>) -> Self {
        Self { max_attempts: Some(attempts.into()), ..self }
    }

    /// How the delay grows; exponentially by default.
    #[must_use]
    pub fn backoff(self, growth: Growth) -> Self {
        Self { backoff: Some(growth), ..self }
    }

    /// The first delay; a second by default.
    #[must_use]
    pub fn initial(self, delay: Duration) -> Self {
        Self { initial: Some(Span(delay)), ..self }
    }

    /// Growth of an exponential backoff from one failure to the next; 2 by default.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        Self { factor: Some(factor), ..self }
    }

    /// No delay is longer; a minute by default.
    #[must_use]
    pub fn max(self, delay: Duration) -> Self {
        Self { max: Some(Span(delay)), ..self }
    }

    /// Up to this many percent more or less; none by default.
    #[must_use]
    pub fn jitter_percent(self, percent: u8) -> Self {
        Self { jitter_percent: Some(percent), ..self }
    }
}

/// A name, or the text as it is and a flaw.
fn named(flaws: &mut Vec<Flaw>, path: &str, text: &str) -> Name {
    Name::new("name", text).unwrap_or_else(|invalid| {
        let advice = format!("{} are possible", invalid.expected);
        flaws.push(Flaw::new(path, format!("it is {}", invalid.value), advice));
        Name::stored(text)
    })
}

/// A value that means itself: no expressions in its texts.
fn literal(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.into_iter().map(literal).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, literal(value))).collect(),
        other => other,
    }
}
