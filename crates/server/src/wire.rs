//! What programs send: tasks (also the lines of `windlass submit --batch`), and what workers report.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass::{
    Backoff, Command, Entity, Invalid, Jitter, Json, Lane, Line, Name, NewTask, OnConflict, Outcome,
    Progress, Report, RetryPolicy, Start, TaskId, Timestamp, Token, WorkerId,
};

use crate::moment;

/// A request for a task. Fields that it does not know are refused: they would be mistakes.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTask)]
pub(crate) struct NewTaskJson {
    /// Its id, if the caller made one: then it can be sent again without being submitted twice.
    #[schema(value_type = Option<String>, format = Uuid)]
    id: Option<String>,
    /// What finds the handler.
    #[schema(pattern = "^[A-Za-z0-9._:-]{1,128}$")]
    kind: String,
    /// The handler's input, kept as it is sent; `null` unless said.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// Whose it is; `default` unless said.
    namespace: Option<String>,
    /// The line of tasks it joins; `default` unless said.
    queue: Option<String>,
    /// Higher first; 0 unless said.
    priority: Option<i32>,
    /// Attempts in all, 1 to 1,000,000, or `null` for no limit; default: 3.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    max_attempts: Option<Option<u32>>,
    retry: Option<RetryJson>,
    /// While a task of this namespace and kind with this key exists, submitting it again answers with the
    /// first.
    idempotency_key: Option<String>,
    on_conflict: Option<OnConflictJson>,
    /// What it acts on, written `type:id`: one task of an entity is in progress at a time.
    entity: Option<String>,
    /// Whether the entity must be registered.
    #[serde(default)]
    require_entity: bool,
    lane: Option<LaneJson>,
    /// When it may run, at the earliest.
    #[schema(value_type = Option<String>, format = DateTime)]
    run_at: Option<String>,
    /// How long until it may run.
    #[schema(minimum = 0)]
    delay_seconds: Option<f64>,
    /// How long one attempt may take.
    #[schema(minimum = 0)]
    timeout_seconds: Option<f64>,
    /// Words to find it by.
    #[serde(default)]
    tags: Vec<String>,
    /// What it is part of, a W3C trace context such as
    /// `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`; what the header says unless said.
    traceparent: Option<String>,
}

/// Tells a field that is `null` from one that is not there.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// What to do about a key that exists: answer with its task, or refuse.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(rename_all = "snake_case")]
#[schema(as = OnConflict)]
enum OnConflictJson {
    Return,
    Reject,
}

/// At most `limit` tasks with this key are in progress at a time.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLane)]
struct LaneJson {
    key: String,
    limit: u32,
    /// Whether a task that waits for a retry keeps its place.
    #[serde(default)]
    strict: bool,
}

/// When failed attempts are tried again.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRetryPolicy)]
struct RetryJson {
    backoff: Option<BackoffJson>,
    /// What exponential delays grow by; 2 unless said.
    factor: Option<f64>,
    /// The first delay; 1 unless said.
    base_seconds: Option<f64>,
    /// No delay is longer; 60 unless said.
    cap_seconds: Option<f64>,
    /// `none`, `full`, or a share such as `20%`.
    jitter: Option<String>,
}

/// How delays grow.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(rename_all = "snake_case")]
#[schema(as = Backoff)]
enum BackoffJson {
    None,
    Fixed,
    Linear,
    Exponential,
    Fibonacci,
}

impl NewTaskJson {
    /// The task, with every value checked, in `namespace` unless it names another.
    pub(crate) fn task(self, namespace: &Name) -> Result<NewTask, Invalid> {
        let payload = self.payload.as_deref().map_or("null", RawValue::get);
        let id = self.id.as_deref().map_or_else(|| Ok(windlass::task_id()), str::parse)?;
        let plain = NewTask::new(id, Name::kind(&self.kind)?, Json::payload(payload)?);
        let task = NewTask {
            namespace: self.namespace.as_deref().map_or_else(|| Ok(namespace.clone()), Name::namespace)?,
            queue: self.queue.as_deref().map_or_else(|| Ok(Name::default()), Name::queue)?,
            priority: self.priority.unwrap_or(0),
            max_attempts: match self.max_attempts {
                Some(Some(0)) => {
                    return Err(Invalid::number("max_attempts", 0, "1 to 1000000, or null for no limit"));
                }
                Some(given) => given.and_then(NonZeroU32::new),
                None => plain.max_attempts,
            },
            retry: self.retry.map_or_else(|| Ok(plain.retry), RetryJson::policy)?,
            key: self.idempotency_key,
            on_conflict: match self.on_conflict {
                Some(OnConflictJson::Reject) => OnConflict::Reject,
                Some(OnConflictJson::Return) | None => OnConflict::Return,
            },
            lane: lane(self.entity.as_deref(), self.lane, self.require_entity)?,
            require_entity: self.require_entity,
            start: start(self.run_at.as_deref(), self.delay_seconds)?,
            timeout: self.timeout_seconds.map(|given| seconds("timeout_seconds", given)).transpose()?,
            tags: self.tags,
            traceparent: self.traceparent.as_deref().map(str::parse).transpose()?,
            ..plain
        };
        task.check()?;
        Ok(task)
    }
}

fn lane(entity: Option<&str>, lane: Option<LaneJson>, required: bool) -> Result<Option<Lane>, Invalid> {
    match (entity, lane) {
        (Some(entity), None) => Ok(Some(Lane::of(&entity.parse::<Entity>()?))),
        (Some(entity), Some(_)) => {
            Err(Invalid::new("entity", entity, "either an entity or a lane, not both"))
        }
        (None, _) if required => Err(Invalid::number("require_entity", true, "an entity beside it")),
        (None, Some(LaneJson { key, limit, strict })) => {
            let lane = Lane::new(&key, limit)?;
            Ok(Some(if strict { lane.strict() } else { lane }))
        }
        (None, None) => Ok(None),
    }
}

fn start(run_at: Option<&str>, delay: Option<f64>) -> Result<Start, Invalid> {
    match (run_at, delay) {
        (None, None) => Ok(Start::Now),
        (Some(at), None) => Ok(Start::At(moment::parse(at)?)),
        (None, Some(delay)) => Ok(Start::After(seconds("delay_seconds", delay)?)),
        (Some(at), Some(_)) => Err(Invalid::new("run_at", at, "either run_at or delay_seconds, not both")),
    }
}

pub(crate) fn seconds(field: &'static str, given: f64) -> Result<Duration, Invalid> {
    Duration::try_from_secs_f64(given)
        .map_err(|_| Invalid::number(field, given, "a number of seconds, 0 or more"))
}

impl RetryJson {
    fn policy(self) -> Result<RetryPolicy, Invalid> {
        let plain = RetryPolicy::default();
        let backoff = match self.backoff {
            Some(BackoffJson::None) => Backoff::None,
            Some(BackoffJson::Fixed) => Backoff::Fixed,
            Some(BackoffJson::Linear) => Backoff::Linear,
            Some(BackoffJson::Fibonacci) => Backoff::Fibonacci,
            Some(BackoffJson::Exponential) | None => {
                Backoff::Exponential { factor: self.factor.unwrap_or(2.0) }
            }
        };
        if let (Some(factor), false) = (self.factor, matches!(backoff, Backoff::Exponential { .. })) {
            return Err(Invalid::number("retry factor", factor, "none, unless the backoff is exponential"));
        }
        Ok(RetryPolicy {
            backoff,
            base: self.base_seconds.map_or(Ok(plain.base), |given| seconds("base_seconds", given))?,
            cap: self.cap_seconds.map_or(Ok(plain.cap), |given| seconds("cap_seconds", given))?,
            jitter: self.jitter.as_deref().map_or(Ok(plain.jitter), jitter)?,
        })
    }
}

fn jitter(text: &str) -> Result<Jitter, Invalid> {
    match text {
        "none" => Ok(Jitter::None),
        "full" => Ok(Jitter::Full),
        _ => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
            percent
                .map(Jitter::Percent)
                .ok_or_else(|| Invalid::new("jitter", text, "none, full, or a share such as 20%"))
        }
    }
}

/// What became of a claim.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Outcome)]
pub(crate) struct OutcomeJson {
    /// The task.
    #[schema(format = Uuid)]
    id: String,
    /// The proof of the claim.
    lease: u32,
    outcome: EndJson,
    /// What the handler returned, kept as it is sent, if it completed; `null` unless said.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    /// What went wrong, if it failed; why, if it was cancelled or released.
    error: Option<String>,
    /// Whether another attempt makes sense, if it failed; so it is unless said.
    retryable: Option<bool>,
    /// How long until the next attempt, if it failed or snoozed.
    #[schema(minimum = 0)]
    delay_seconds: Option<f64>,
    /// When the handler was started, by the clock of who runs it.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<String>,
}

/// How a handler ended: it did it, it failed, it asks for another time, it gives it back unfinished, or it
/// found that it is not to be done.
#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
#[schema(as = OutcomeWord)]
enum EndJson {
    Completed,
    Failed,
    Snoozed,
    Released,
    Cancelled,
}

impl OutcomeJson {
    /// What the store is told.
    pub(crate) fn command(self, worker: &WorkerId) -> Result<Command, Invalid> {
        let token = Token { task: self.id.parse::<TaskId>()?, lease: self.lease, worker: worker.clone() };
        let delay = self.delay_seconds.map(|given| seconds("delay_seconds", given)).transpose()?;
        let started_at = self.started_at.as_deref().map(moment::parse).transpose()?;
        let outcome = match self.outcome {
            EndJson::Completed => {
                let result = self.result.as_deref().map_or("null", RawValue::get);
                Outcome::Completed { result: Json::new("result", result)? }
            }
            EndJson::Failed => Outcome::Failed {
                error: self.error.unwrap_or_else(|| "the worker gave no error".into()),
                retryable: self.retryable.unwrap_or(true),
                retry_after: delay,
            },
            EndJson::Snoozed => {
                let delay = delay.ok_or_else(|| {
                    Invalid::number("delay_seconds", (), "how long to wait, for a task that is snoozed")
                })?;
                Outcome::Snoozed { delay }
            }
            EndJson::Cancelled => Outcome::Cancelled { note: self.error.unwrap_or_default() },
            EndJson::Released => return Ok(Command::Release { token, note: self.error }),
        };
        Ok(Command::Finish { token, outcome, started_at })
    }
}

/// How far an attempt is.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Report)]
pub(crate) struct ReportJson {
    /// The task.
    #[schema(format = Uuid)]
    id: String,
    /// The proof of the claim.
    lease: u32,
    progress: Option<ProgressJson>,
    /// Where the next attempt may go on; kept as it is sent.
    #[schema(value_type = Option<serde_json::Value>)]
    checkpoint: Option<Box<RawValue>>,
    /// The number of the first of `lines`, counted from 0 within the attempt.
    #[serde(default)]
    first_line: u64,
    /// Lines of the log, oldest first.
    #[serde(default)]
    lines: Vec<LineJson>,
}

/// How much is done, out of how much, and what is being done.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewProgress)]
struct ProgressJson {
    done: u64,
    total: Option<u64>,
    note: Option<String>,
}

/// A line of a log.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLine)]
struct LineJson {
    /// When it was written; now unless said.
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<String>,
    text: String,
}

impl ReportJson {
    /// What the store is told.
    pub(crate) fn command(self, worker: &WorkerId, now: Timestamp) -> Result<Command, Invalid> {
        let token = Token { task: self.id.parse::<TaskId>()?, lease: self.lease, worker: worker.clone() };
        let line = |LineJson { at, text }: LineJson| {
            let at = at.as_deref().map_or(Ok(now), moment::parse)?;
            Ok(Line { at, text })
        };
        let report = Report {
            progress: self.progress.map(|ProgressJson { done, total, note }| Progress { done, total, note }),
            details: self.checkpoint.map(|text| Json::new("checkpoint", text.get())).transpose()?,
            first_line: self.first_line,
            lines: self.lines.into_iter().map(line).collect::<Result<_, Invalid>>()?,
        };
        report.check()?;
        Ok(Command::Report { token, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<NewTask> {
        Ok(serde_json::from_str::<NewTaskJson>(text)?.task(&Name::stored("tenant"))?)
    }

    #[test]
    fn everything_can_be_said() {
        let task = read(
            r#"{"kind": "a", "payload": {"n": 123456789012345678901234567890, "n": 1e400}, "namespace": "other",
                "queue": "q", "priority": -1, "max_attempts": null, "idempotency_key": "k", "on_conflict": "reject",
                "retry": {"backoff": "exponential", "factor": 3, "base_seconds": 0.5, "cap_seconds": 9, "jitter": "20%"},
                "lane": {"key": "l", "limit": 2, "strict": true}, "delay_seconds": 1.5, "timeout_seconds": 60,
                "tags": ["x", "y"], "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
        )
        .unwrap();
        assert_eq!(task.payload.as_str(), r#"{"n": 123456789012345678901234567890, "n": 1e400}"#);
        assert_eq!(
            (&*task.namespace, &*task.queue, task.priority, task.max_attempts),
            ("other", "q", -1, None)
        );
        assert_eq!((task.key.as_deref(), task.on_conflict), (Some("k"), OnConflict::Reject));
        assert_eq!(task.start, Start::After(Duration::from_millis(1500)));
        assert_eq!(task.retry.backoff, Backoff::Exponential { factor: 3.0 });
        assert_eq!((task.retry.base, task.retry.jitter), (Duration::from_millis(500), Jitter::Percent(20)));
        assert_eq!(task.traceparent.unwrap().to_string().len(), 55);
        assert!(task.lane.is_some_and(|lane| lane.is_strict() && lane.limit() == 2));
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let task = read(r#"{"kind": "a"}"#).unwrap();
        let plain = NewTask::new(task.id, Name::stored("a"), Json::default());
        assert_eq!(task, NewTask { namespace: Name::stored("tenant"), ..plain });
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            (r"{}", "missing field `kind`"),
            (r#"{"kind": "a b"}"#, "kind is"),
            (r#"{"kind": "a", "knd": 1}"#, "unknown field `knd`"),
            (r#"{"kind": "a", "entity": "x:1", "lane": {"key": "k", "limit": 1}}"#, "not both"),
            (r#"{"kind": "a", "require_entity": true}"#, "an entity beside it"),
            (r#"{"kind": "a", "run_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}"#, "not both"),
            (r#"{"kind": "a", "delay_seconds": -1}"#, "0 or more"),
            (r#"{"kind": "a", "max_attempts": 0}"#, "1 to 1000000, or null for no limit"),
            (r#"{"kind": "a", "timeout_seconds": 0}"#, "1 ms to 365 days"),
            (r#"{"kind": "a", "retry": {"backoff": "fixed", "factor": 2}}"#, "exponential"),
            (r#"{"kind": "a", "retry": {"jitter": "some"}}"#, "20%"),
            (
                r#"{"kind": "a", "traceparent": "00-0af7"}"#,
                "traceparent is \"00-0af7\"; expected 00-TRACE-SPAN-FLAGS",
            ),
            (r#"{"kind": "a", "on_conflict": "ignore"}"#, "unknown variant `ignore`"),
            (r#"{"kind": "a", "priority": 1e10}"#, "invalid"),
            ("[1]", "invalid"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
