//! Definitions: descriptions of workflows, as they are written in files.
//!
//! [`Definition`] is the model of such a file, whatever it was written in. Expressions are texts here: what
//! they mean is known where they are evaluated.

use std::fmt;
use std::time::Duration;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::duration;
use crate::limits;
use crate::name::Name;
use crate::retry::{Backoff, Jitter, RetryPolicy};
use crate::task::DEFAULT_ATTEMPTS;

/// The kind of steps that run a program.
pub const RUN: &str = "windlass.run";

/// The kind of steps that run a program in a workflow that was started with a definition of its own. Nobody
/// has stored that definition, so workers take such steps only if they are told to.
pub const RUN_AD_HOC: &str = "windlass.run_ad_hoc";

/// The kind of steps that are workflows themselves.
pub const WORKFLOW: &str = "windlass.workflow";

/// Words that expressions use for something else than a step.
pub const RESERVED: [&str; 5] = ["input", "item", "index", "steps", "workflow"];

/// A description of a workflow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it is called.
    pub name: Name,
    /// Which of that name. Absent: the next number, unless the same content has one already.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "version")]
    pub version: Option<String>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON Schema that the input of every workflow must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// When two starts are the same workflow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub identity: Identity,
    /// What holds for steps that do not say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: Defaults,
    /// The steps, in the order of the file.
    #[serde(with = "steps")]
    pub steps: Vec<Step>,
    /// What a step that failed for good means to the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
}

/// When two starts are the same workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Never: every start is a new one, unless it brings a key.
    #[default]
    AlwaysUnique,
    /// If their input is the same.
    Strict,
    /// If their key is the same; a start without one is refused.
    CallerProvided,
}

/// What a step that failed for good means to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Those that do not need it go on; then the workflow waits for an operator.
    #[default]
    FinishIndependent,
    /// The rest is cancelled and the workflow is over.
    FailFast,
}

/// What holds for steps that do not say otherwise.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// When failed attempts are tried again, and how often.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Line of tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
}

/// One step. Exactly one of `task`, `run` and `workflow` is set.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Its name: the key in the file.
    #[serde(skip)]
    pub name: Name,
    /// What it is for, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The kind of a task that some worker has a handler for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Name>,
    /// A program, for the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Another workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Child>,
    /// The steps that it comes after.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub needs: Vec<Name>,
    /// How many of them, ended how.
    #[serde(skip_serializing_if = "is_default")]
    pub join: Join,
    /// An expression; if it is false, the step is skipped.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Runs once for each item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<Map>,
    /// What it is given: JSON in which texts may hold `${expressions}`, and null is null. Absent: the input
    /// of the workflow, or the item of a map.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub input: Option<Value>,
    /// When failed attempts are tried again, and how often.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Higher first; added to the priority of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Line of tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// A concurrency key with a limit. A step that is a workflow keeps its slot until that workflow has
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Shared>,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action<'a> {
    /// A handler of this kind.
    Task(&'a Name),
    /// This program.
    Run(&'a str),
    /// This workflow.
    Workflow(&'a Child),
}

impl Step {
    /// What it does; none if the definition is not sound.
    #[must_use]
    pub fn action(&self) -> Option<Action<'_>> {
        match (&self.task, &self.run, &self.workflow) {
            (Some(kind), None, None) => Some(Action::Task(kind)),
            (None, Some(program), None) => Some(Action::Run(program)),
            (None, None, Some(child)) => Some(Action::Workflow(child)),
            _ => None,
        }
    }

    /// The kind of its task.
    #[must_use]
    pub fn kind(&self) -> Name {
        match self.action() {
            Some(Action::Task(kind)) => kind.clone(),
            Some(Action::Workflow(_)) => Name::stored(WORKFLOW),
            Some(Action::Run(_)) | None => Name::stored(RUN),
        }
    }

    /// The kind of its task in a workflow whose definition has this version: see
    /// [`Workflow::is_own_version`](super::Workflow::is_own_version).
    #[must_use]
    pub fn kind_in(&self, version: &str) -> Name {
        match self.action() {
            Some(Action::Run(_)) | None if super::Workflow::is_own_version(version) => {
                Name::stored(RUN_AD_HOC)
            }
            _ => self.kind(),
        }
    }
}

/// Which workflow a step is: its name, or name and version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    /// Its name.
    pub name: Name,
    /// Which of that name; absent: the newest when the step starts.
    pub version: Option<String>,
}

/// How many parents, ended how, a step waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All of them done.
    #[default]
    All,
    /// One of them done.
    Any,
    /// So many of them done.
    AtLeast(u32),
    /// All of them over, however they ended.
    AllDone,
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Any => f.write_str("any"),
            Self::AtLeast(n) => write!(f, "at least {n}"),
            Self::AllDone => f.write_str("all done"),
        }
    }
}

/// Runs a step once for each item of a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// A list, or an expression that gives one.
    pub over: Value,
    /// How many items at once; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

/// A concurrency key that steps of many workflows share.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The key: a text that may hold `${expressions}` over `input` and, in a step with a map, over `item` and
    /// `index`.
    pub key: String,
    /// How many at once.
    pub limit: u32,
}

/// When failed attempts are tried again, and how often. What is absent is as the defaults say.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts in all; `Some(None)`, written `null`, is no limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "limit")]
    pub max_attempts: Option<Option<u32>>,
    /// How the delay grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Growth>,
    /// The first delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Span>,
    /// Growth of an exponential backoff from one failure to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// No delay is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Up to this many percent more or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_percent: Option<u8>,
}

/// A number of attempts that is given, or `null` for no limit.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// How the delay grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// No delay.
    None,
    /// The same each time.
    Fixed,
    /// By the first delay each time.
    Linear,
    /// By a factor each time.
    Exponential,
    /// 1, 1, 2, 3, 5, 8 …
    Fibonacci,
}

impl Retry {
    /// The policy, with `defaults` for what is absent.
    #[must_use]
    pub fn policy(&self, defaults: &Self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        let factor = self.factor.or(defaults.factor).unwrap_or(2.0);
        let backoff = match self.backoff.or(defaults.backoff) {
            Some(Growth::None) => Backoff::None,
            Some(Growth::Fixed) => Backoff::Fixed,
            Some(Growth::Linear) => Backoff::Linear,
            Some(Growth::Exponential) | None => Backoff::Exponential { factor },
            Some(Growth::Fibonacci) => Backoff::Fibonacci,
        };
        let base = self.initial.or(defaults.initial).map_or(usual.base, |span| span.0);
        let cap = self.max.or(defaults.max).map_or(usual.cap.max(base), |span| span.0);
        let jitter = self.jitter_percent.or(defaults.jitter_percent);
        RetryPolicy { backoff, base, cap, jitter: jitter.map_or(Jitter::None, Jitter::Percent) }
    }

    /// Attempts in all, with `defaults` if that is absent; `None` is no limit.
    #[must_use]
    pub fn attempts(&self, defaults: &Self) -> Option<u32> {
        self.max_attempts.or(defaults.max_attempts).unwrap_or(Some(DEFAULT_ATTEMPTS.get()))
    }
}

/// A length of time, written `10s`, `1h30m`, `250ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::exact(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration::parse(&text).map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new("name", &text).map_err(de::Error::custom)
    }
}

impl Serialize for Child {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.version {
            None => self.name.serialize(serializer),
            Some(version) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("name", &self.name)?;
                map.serialize_entry("version", version)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Child {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            name: Name,
            #[serde(default, deserialize_with = "version")]
            version: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "the name of a workflow, or {name, version}")]
        enum Either {
            Short(Name),
            Long(Long),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Short(name) => Self { name, version: None },
            Either::Long(Long { name, version }) => Self { name, version },
        })
    }
}

/// A version: a text or a number.
fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a version: a text or a whole number")]
    enum Either {
        Number(u64),
        Text(String),
    }
    Ok(match Option::<Either>::deserialize(deserializer)? {
        None => None,
        Some(Either::Number(number)) => Some(number.to_string()),
        Some(Either::Text(text)) => Some(text),
    })
}

/// A value that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// One name or a list of names.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "the name of a step, or a list of names")]
    enum Either {
        One(Name),
        Many(Vec<Name>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::One(name) => vec![name],
        Either::Many(names) => names,
    })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Steps as a map from their names, in the order of the text.
mod steps {
    use super::*;

    pub(super) fn serialize<S: Serializer>(steps: &[Step], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(steps.iter().map(|step| (&step.name, step)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<Step>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from the names of steps to what they do")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Step>, A::Error> {
                let mut steps = Vec::with_capacity(map.size_hint().unwrap_or(0).min(limits::STEPS));
                while let Some(name) = map.next_key::<Name>()? {
                    let step: Step = map.next_value()?;
                    steps.push(Step { name, ..step });
                }
                Ok(steps)
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Definition {
    /// The queue of each step.
    pub fn queues(&self) -> impl Iterator<Item = Name> + Clone {
        self.steps.iter().map(|step| {
            let queue = step.queue.as_ref().or(self.defaults.queue.as_ref());
            queue.cloned().unwrap_or_default()
        })
    }

    /// All of it but its version, as JSON: what is stored, and what makes two definitions the same.
    #[must_use]
    pub fn content(&self) -> String {
        serde_json::to_string(&Self { version: None, ..self.clone() }).unwrap_or_default()
    }

    /// Whether the step or the defaults say when failed attempts are tried again.
    #[must_use]
    pub fn says_retry(&self, step: &Step) -> bool {
        [step.retry, self.defaults.retry].iter().any(|retry| !is_default(retry))
    }

    /// How long one attempt of a step may take.
    #[must_use]
    pub fn timeout(&self, step: &Step) -> Option<Duration> {
        step.timeout.or(self.defaults.timeout).map(|span| span.0)
    }
}
