//! A task as programs send it: the body of `POST /v1/tasks`, and a line of `windlass submit --batch`.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use windlass::{Backoff, Entity, Invalid, Jitter, Json, Lane, Name, NewTask, OnConflict, RetryPolicy, Start};

use crate::moment;

/// A request for a task. Fields that it does not know are refused: they would be mistakes.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTaskJson {
    kind: String,
    payload: Option<Box<RawValue>>,
    namespace: Option<String>,
    queue: Option<String>,
    priority: Option<i32>,
    /// Absent: 3. `null` or 0: no limit.
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Option<u32>>,
    retry: Option<RetryJson>,
    idempotency_key: Option<String>,
    on_conflict: Option<OnConflictJson>,
    entity: Option<String>,
    #[serde(default)]
    require_entity: bool,
    lane: Option<LaneJson>,
    run_at: Option<String>,
    delay_seconds: Option<f64>,
    timeout_seconds: Option<f64>,
    #[serde(default)]
    tags: Vec<String>,
}

/// Tells a field that is `null` from one that is not there.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum OnConflictJson {
    Return,
    Reject,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct LaneJson {
    key: String,
    limit: u32,
    #[serde(default)]
    strict: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct RetryJson {
    backoff: Option<BackoffJson>,
    factor: Option<f64>,
    base_seconds: Option<f64>,
    cap_seconds: Option<f64>,
    jitter: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
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
        let plain = NewTask::new(windlass::task_id(), Name::kind(&self.kind)?, Json::payload(payload)?);
        let task = NewTask {
            namespace: self.namespace.as_deref().map_or_else(|| Ok(namespace.clone()), Name::namespace)?,
            queue: self.queue.as_deref().map_or_else(|| Ok(Name::default()), Name::queue)?,
            priority: self.priority.unwrap_or(0),
            max_attempts: self
                .max_attempts
                .map_or(plain.max_attempts, |max| NonZeroU32::new(max.unwrap_or(0))),
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

fn seconds(field: &'static str, given: f64) -> Result<Duration, Invalid> {
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
                "tags": ["x", "y"]}"#,
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
            (r#"{"kind": "a", "timeout_seconds": 0}"#, "1 ms to 365 days"),
            (r#"{"kind": "a", "retry": {"backoff": "fixed", "factor": 2}}"#, "exponential"),
            (r#"{"kind": "a", "retry": {"jitter": "some"}}"#, "20%"),
            (r#"{"kind": "a", "on_conflict": "ignore"}"#, "unknown variant `ignore`"),
            (r#"{"kind": "a", "priority": 1e10}"#, "invalid"),
            ("[1]", "invalid"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
