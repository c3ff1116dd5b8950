//! The handler of steps: it looks at what its parents have returned before it does anything.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{Context, Input, Join, TaskError, WorkerBuilder};

use super::chores::Done;
use super::gates::say;

/// How often a step fails.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fails {
    Never,
    /// In its first attempt.
    Once,
    /// For good.
    Always,
}

/// What a step is given.
#[derive(Serialize, Deserialize)]
pub(crate) struct Link {
    n: u64,
    millis: u64,
    fails: Fails,
}

impl Input for Link {
    const KIND: &'static str = "link";
}

/// What it returns.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct Linked {
    pub(crate) n: u64,
    pub(crate) done: Done,
    /// What it saw of its parents, by name: too much to repeat it all.
    pub(crate) saw: BTreeMap<String, Option<String>>,
}

/// A short word for a result, however it is written.
pub(crate) fn digest(result: &str) -> String {
    let value: Value = serde_json::from_str(result).unwrap();
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:x}", value.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// Handlers for steps, also for those that are workflows.
pub(crate) fn of(worker: WorkerBuilder) -> WorkerBuilder {
    worker.handle(link).starts_workflows()
}

async fn link(context: Context, link: Link) -> Result<Linked, TaskError> {
    let saw = look(&context).await?;
    if link.millis > 0 {
        // tidy: sleep because a handler that takes a while is what is killed in the middle
        tokio::time::sleep(Duration::from_millis(link.millis)).await;
    }
    match link.fails {
        Fails::Once if context.attempt() == 1 => Err(TaskError::retry("the first time")),
        Fails::Always => Err(TaskError::fail("for good")),
        _ => Ok(Linked { n: link.n, done: Done::by(&context), saw }),
    }
}

/// What the parents have returned. A handler that should not run yet says so aloud, for its worker may be
/// killed before it can report it.
async fn look(context: &Context) -> Result<BTreeMap<String, Option<String>>, TaskError> {
    let wrong = |what: String| {
        say(&format!("wrong {} {}: {what}", context.id(), context.lease()));
        TaskError::fail(what)
    };
    let step = context.step().ok_or_else(|| wrong("it is no step".into()))?;
    let mut saw = BTreeMap::new();
    for need in &step.needs {
        let result = context.result_of::<Value>(need).await?;
        saw.insert(need.to_string(), result.map(|result| digest(&result.to_string())));
    }
    let done = saw.values().flatten().count();
    let enough = match step.join {
        Join::All => saw.len(),
        Join::Any => saw.len().min(1),
        Join::AtLeast(many) => usize::try_from(many).unwrap(),
        Join::AllDone => 0,
    };
    if done < enough {
        return Err(wrong(format!("it needs {} of {saw:?}", step.join)));
    }
    // To look at all that came before takes a while where much has.
    if context.id().as_bytes()[15].is_multiple_of(8) {
        let before = context.ancestors().await?;
        let near: Vec<_> = before.iter().filter(|ancestor| ancestor.distance == 1).collect();
        let is_same = |name: &str, result: Option<&str>| match saw.get(name) {
            Some(Some(seen)) => result.map(digest).as_ref() == Some(seen),
            Some(None) => true,
            None => false,
        };
        let all = near.iter().all(|one| is_same(&one.name, one.result.as_ref().map(windlass::Json::as_str)));
        if near.len() != saw.len() || !all {
            return Err(wrong(format!("its parents {near:?} are not {saw:?}")));
        }
    }
    Ok(saw)
}
