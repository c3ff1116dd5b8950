//! What can be said about a task, whether it is submitted once or by a schedule.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, ValueEnum};
use windlass::{Backoff, Client, Entity, Invalid, Json, Lane, Name, NewTask, RetryPolicy, Submit, limits};

use crate::duration;

/// Options for a task.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TaskOptions {
    /// The line of tasks it joins [default: default]
    #[arg(long, value_parser = Name::queue)]
    queue: Option<Name>,
    /// Higher first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// How long one attempt may take, such as 5m [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Attempts in all, none for no limit [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts)]
    max_attempts: Option<Attempts>,
    /// How the delay between attempts grows; none is no delay [default: exponential]
    #[arg(long, value_name = "HOW")]
    retry: Option<Retry>,
    /// The first delay [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    retry_base: Option<Duration>,
    /// No delay is longer than this [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    retry_cap: Option<Duration>,
    /// What it acts on: one task of an entity at a time, in submit order
    #[arg(long, value_name = "TYPE:ID", conflicts_with = "lane")]
    entity: Option<Entity>,
    /// The entity must be registered
    #[arg(long, requires = "entity", conflicts_with = "lane")]
    require_entity: bool,
    /// At most LIMIT tasks with the same KEY at a time
    #[arg(long, value_name = "KEY:LIMIT", value_parser = lane)]
    lane: Option<Lane>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

/// A number of attempts, or none for no limit.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Attempts(Option<NonZeroU32>);

fn attempts(text: &str) -> Result<Attempts, Invalid> {
    let refused = || Invalid::new("max_attempts", text, "1 to 1000000, or none for no limit");
    match text {
        "none" => Ok(Attempts(None)),
        number => {
            let attempts: NonZeroU32 = number.parse().map_err(|_| refused())?;
            (attempts.get() <= limits::MAX_ATTEMPTS).then_some(Attempts(Some(attempts))).ok_or_else(refused)
        }
    }
}

/// How delays grow.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Retry {
    Exponential,
    Fixed,
    Linear,
    Fibonacci,
    None,
}

fn lane(text: &str) -> Result<Lane, Invalid> {
    let refused = || Invalid::new("lane", text, "KEY:LIMIT, such as reports:3");
    let (key, limit) = text.rsplit_once(':').ok_or_else(refused)?;
    Lane::new(key, limit.parse().map_err(|_| refused())?)
}

impl TaskOptions {
    /// The task, with every value checked.
    pub(crate) fn task(&self, namespace: Name, kind: Name, payload: Json) -> Result<NewTask, Invalid> {
        let plain = NewTask::new(windlass::task_id(), kind, payload);
        let task = NewTask {
            namespace,
            queue: self.queue.clone().unwrap_or_default(),
            priority: self.priority.unwrap_or(plain.priority),
            timeout: self.timeout,
            max_attempts: self.max_attempts.map_or(plain.max_attempts, |Attempts(given)| given),
            retry: self.retry(),
            lane: self.entity.as_ref().map(Lane::of).or_else(|| self.lane.clone()),
            require_entity: self.require_entity,
            tags: self.tags.clone(),
            ..plain
        };
        task.check()?;
        Ok(task)
    }

    fn retry(&self) -> RetryPolicy {
        let plain = RetryPolicy::default();
        let backoff = self.retry.map_or(plain.backoff, |retry| match retry {
            Retry::Exponential => Backoff::Exponential { factor: 2.0 },
            Retry::Fixed => Backoff::Fixed,
            Retry::Linear => Backoff::Linear,
            Retry::Fibonacci => Backoff::Fibonacci,
            Retry::None => Backoff::None,
        });
        let (base, cap) = (self.retry_base.unwrap_or(plain.base), self.retry_cap.unwrap_or(plain.cap));
        RetryPolicy { backoff, base, cap, ..plain }
    }
}

/// A checked task as a client submits it; what makes it this one (id, key, start, actor) is left out.
pub(crate) fn submit(client: &Client, task: &NewTask) -> Submit {
    let mut submit = client
        .submit_json(&task.kind, task.payload.as_str())
        .queue(&task.queue)
        .priority(task.priority)
        .max_attempts(task.max_attempts.map(NonZeroU32::get))
        .retry(task.retry);
    if let Some(timeout) = task.timeout {
        submit = submit.timeout(timeout);
    }
    if let Some(lane) = &task.lane {
        submit = submit.lane(lane.clone());
    }
    if task.require_entity {
        submit = submit.require_entity();
    }
    task.tags.iter().fold(submit, Submit::tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(options: &TaskOptions) -> Result<NewTask, Invalid> {
        options.task(Name::default(), Name::stored("x"), Json::default())
    }

    #[test]
    fn without_options_it_is_the_plain_task() {
        let made = task(&TaskOptions::default()).unwrap();
        assert_eq!(made, NewTask::new(made.id, Name::stored("x"), Json::default()));
    }

    #[test]
    fn lanes_are_keys_with_limits() {
        assert_eq!(lane("a:b:3").unwrap(), Lane::new("a:b", 3).unwrap());
        for bad in ["a", "a:", ":3", "a:0", "a:-1", "@a:1", "a:100001"] {
            assert!(lane(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn attempts_are_a_number_or_none() {
        assert_eq!(attempts("7").unwrap(), Attempts(NonZeroU32::new(7)));
        assert_eq!(attempts("none").unwrap(), Attempts(None));
        for bad in ["0", "-1", "", "null", "1000001", "1.5"] {
            let error = attempts(bad).unwrap_err().to_string();
            assert!(error.contains("1 to 1000000, or none for no limit"), "{error}");
        }
    }

    #[test]
    fn a_base_beyond_the_cap_is_refused() {
        let long = TaskOptions { retry_base: Some(Duration::from_secs(61)), ..TaskOptions::default() };
        assert!(task(&long).unwrap_err().to_string().contains("at most the cap"));
    }

    #[tokio::test]
    async fn what_is_submitted_is_what_was_checked() {
        let options = TaskOptions {
            queue: Name::queue("q").ok(),
            priority: Some(-3),
            timeout: Some(Duration::from_secs(5)),
            max_attempts: Some(Attempts(None)),
            retry: Some(Retry::Fibonacci),
            entity: "planner:42".parse().ok(),
            require_entity: true,
            tags: vec!["a".into(), "b".into()],
            ..TaskOptions::default()
        };
        let client = windlass::Windlass::open("memory:").await.unwrap().client();
        let made = task(&options).unwrap();
        let built = submit(&client, &made).build().unwrap();
        assert_eq!(NewTask { id: made.id, ..built }, made);
    }
}
