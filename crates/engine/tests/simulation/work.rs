//! Handlers: what a task is told to do in its payload, and what doing it may lead to.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use windlass::{Context, Json, Lease, Name, NewTask, Reason, Spec, StopReason, TaskError};
use windlass_store::conformance::checker::What;

use super::book::short;
use super::process::{Power, Process};
use super::world::World;

/// The kinds that there are. What a task does is in its payload; the kind only says who may do it.
pub(crate) const KINDS: [&str; 3] = ["a", "b", "c"];

/// What an attempt that was interrupted returns. It must never count as a failure.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// What one task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Succeeds.
    Succeed,
    /// Fails so often, then succeeds.
    Fail(u32),
    /// Fails every time.
    FailAlways,
    /// Fails for good.
    GiveUp,
    /// Panics so often, then succeeds.
    Panic(u32),
    /// Comes back later so often, then succeeds.
    Snooze(u32),
    /// Finds that it should not be done.
    Cancel,
    /// Takes longer than it may so often, then succeeds.
    Overtime(u32),
    /// The first time it goes on until it is told to stop.
    Endless,
    /// Submits another, then succeeds.
    Parent,
}

/// The payload of a task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    /// What it does.
    pub(crate) act: Act,
    /// How many milliseconds each attempt takes.
    pub(crate) work: u64,
    /// Whether it stops when it is told to.
    pub(crate) polite: bool,
    /// Whether it tells how far it is.
    pub(crate) talks: bool,
}

/// What an attempt does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Do {
    Succeed,
    Fail,
    GiveUp,
    Panic,
    Snooze,
    Cancel,
    Overtime,
    Endless,
    Parent,
}

impl Script {
    /// The text of a payload.
    pub(crate) fn to_json(self) -> Json {
        Json::payload(&serde_json::to_string(&self).unwrap()).unwrap()
    }

    /// From a payload.
    pub(crate) fn from_json(payload: &Json) -> Self {
        serde_json::from_str(payload.as_str()).unwrap()
    }

    fn plan(self, attempt: u32, lease: Lease) -> Do {
        match self.act {
            Act::Fail(times) if attempt <= times => Do::Fail,
            Act::Panic(times) if attempt <= times => Do::Panic,
            Act::Overtime(times) if attempt <= times => Do::Overtime,
            Act::Snooze(times) if lease <= times => Do::Snooze,
            Act::Endless if lease == 1 => Do::Endless,
            Act::FailAlways => Do::Fail,
            Act::GiveUp => Do::GiveUp,
            Act::Cancel => Do::Cancel,
            Act::Parent => Do::Parent,
            _ => Do::Succeed,
        }
    }

    /// How long it takes at most, from beginning to end, if nothing goes wrong but what it does itself.
    pub(crate) fn longest(self, spec: &Spec) -> Duration {
        let runs = match self.act {
            Act::Fail(times) | Act::Panic(times) | Act::Snooze(times) | Act::Overtime(times) => times + 1,
            Act::FailAlways => spec.max_attempts.map_or(1, |max| max.get()),
            Act::Endless | Act::Parent => 2,
            Act::Succeed | Act::GiveUp | Act::Cancel => 1,
        };
        // Whoever is told to stop has 5 s to do so, and one who ends where others wait is noticed at once.
        let each = Duration::from_millis(2 * self.work).max(spec.timeout.unwrap_or_default());
        (each + spec.retry.cap + Duration::from_secs(6)) * runs
    }

    /// Whether an attempt may end like this. What others may do to it at any time is not the script's
    /// business.
    pub(crate) fn may_end(
        self,
        attempt: u32,
        lease: Lease,
        reason: Reason,
        note: &str,
        limited: bool,
    ) -> bool {
        let plan = self.plan(attempt, lease);
        match reason {
            Reason::Completed => matches!(plan, Do::Succeed | Do::Parent),
            Reason::Failed if note.starts_with("timed out") => limited,
            Reason::Failed if note.contains(INTERRUPTED) || note.contains("dropped before its end") => false,
            Reason::Failed => matches!(plan, Do::Fail | Do::GiveUp | Do::Panic | Do::Parent),
            Reason::Snoozed => plan == Do::Snooze,
            _ => true,
        }
    }
}

/// Counts a handler as running until it ends or is dropped.
struct Presence {
    world: Arc<World>,
    process: Arc<Process>,
    context: Context,
    over: bool,
}

impl Presence {
    fn begin(world: &Arc<World>, process: &Arc<Process>, context: &Context) -> Self {
        let (task, lease, attempt) = (context.id(), context.lease(), context.attempt());
        let entity = context.task().spec.lane.as_ref().and_then(windlass::Lane::entity);
        let (at, entity) = (world.clock.true_time(), entity.map(|entity| entity.to_string()));
        world.book().handler(at, &process.name, What::HandlerStarted { task, lease, entity, attempt });
        world.trace(&process.name, &format!("starts {}.{lease} (attempt {attempt})", short(task)));
        world.count("handlers");
        let wrong = world.mirror().began(&process.name, task, lease);
        if let Some(wrong) = wrong {
            world.wrong(wrong);
        }
        let (running, pool) = (process.enter(), process.pool);
        if running > pool {
            world.wrong(format!("{} runs {running} handlers in a pool of {pool}", process.name));
        }
        Self { world: world.clone(), process: process.clone(), context: context.clone(), over: false }
    }

    fn end(mut self, result: &Result<Value, TaskError>) {
        let (word, text) = match result {
            Ok(value) => ("completed", Some(value.to_string())),
            Err(error) => (super::mirror::word(&error.clone().outcome()), None),
        };
        self.close(word, text);
    }

    fn close(&mut self, how: &'static str, result: Option<String>) {
        let (world, task, lease) = (&self.world, self.context.id(), self.context.lease());
        self.over = true;
        self.process.leave();
        world.book().handler(world.clock.true_time(), &self.process.name, What::HandlerEnded { task, lease });
        let reason = self.context.stop_reason();
        world.trace(&self.process.name, &format!("ends {}.{lease}: {how} {reason:?}", short(task)));
        match reason {
            Some(StopReason::Cancelled) => world.count("stopped: cancelled"),
            Some(StopReason::LeaseLost) => world.count("stopped: lease lost"),
            Some(StopReason::Fenced) => world.count("stopped: fenced"),
            Some(StopReason::TimedOut) => world.count("stopped: timed out"),
            Some(StopReason::Shutdown) => world.count("stopped: shutdown"),
            None => {}
        }
        if how != "dropped" {
            world.mirror().ended(task, lease, how, result);
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // What is left when the run is over was not dropped by the engine.
        if !self.over && self.process.power() != Power::Off && !self.world.is_over() {
            self.world.count("handlers dropped");
            // A panic unwinds through here; the engine makes a failure of it.
            let how = if std::thread::panicking() { "failed" } else { "dropped" };
            self.close(how, None);
        }
    }
}

/// The one handler.
pub(crate) async fn perform(
    world: Arc<World>,
    process: Arc<Process>,
    context: Context,
) -> Result<Value, TaskError> {
    process.awake().await;
    let script = Script::from_json(context.payload());
    let presence = Presence::begin(&world, &process, &context);
    let result = act(&world, &process, &context, script).await;
    process.awake().await;
    presence.end(&result);
    result
}

async fn act(
    world: &Arc<World>,
    process: &Arc<Process>,
    context: &Context,
    script: Script,
) -> Result<Value, TaskError> {
    let (attempt, lease) = (context.attempt(), context.lease());
    let plan = script.plan(attempt, lease);
    if let Some(left) = context.last_checkpoint::<(String, Lease)>()? {
        world.count("checkpoints found");
        if left.0 != short(context.id()) || left.1 >= lease {
            world.wrong(format!("{}.{lease} found the checkpoint {left:?}", short(context.id())));
        }
    }
    if script.talks {
        context.progress(0, 2, None);
        context.log("half way to half way");
        toil(process, context, script, script.work / 2).await?;
        context.checkpoint(&(short(context.id()), lease))?;
        context.progress(1, 2, Some("half way".into()));
    }
    match plan {
        Do::Overtime => toil(process, context, script, 3_600_000).await?,
        Do::Endless => {
            context.stopped().await;
            process.awake().await;
            return Err(TaskError::retry(INTERRUPTED));
        }
        _ => toil(process, context, script, script.work).await?,
    }
    match plan {
        Do::Fail => return Err(TaskError::retry("as told")),
        Do::GiveUp => return Err(TaskError::fail("as told")),
        // Without the hook that prints it.
        Do::Panic => std::panic::resume_unwind(Box::new("as told")),
        Do::Snooze => return Err(TaskError::snooze(Duration::from_millis(1 + script.work))),
        Do::Cancel => return Err(TaskError::cancel("as told")),
        Do::Parent => submit_child(world, context).await?,
        Do::Succeed | Do::Overtime | Do::Endless => {}
    }
    Ok(json!({ "task": short(context.id()), "lease": lease }))
}

/// Works for so many milliseconds, or until it is told to stop.
async fn toil(process: &Process, context: &Context, script: Script, millis: u64) -> Result<(), TaskError> {
    let end = Instant::now() + Duration::from_millis(millis);
    if !script.polite {
        sleep_until(end).await;
        process.awake().await;
        return Ok(());
    }
    let told = tokio::select! {
        biased;
        _ = context.stopped() => true,
        () = sleep_until(end) => false,
    };
    process.awake().await;
    if told { Err(TaskError::retry(INTERRUPTED)) } else { Ok(()) }
}

/// What follows is submitted once, however often this is done.
async fn submit_child(world: &World, context: &Context) -> Result<(), TaskError> {
    let script = Script { act: Act::Succeed, work: 5, polite: true, talks: false };
    let mut child = NewTask::new(world.new_id(), Name::kind(KINDS[0])?, script.to_json());
    child.key = Some(format!("child of {}", context.id()));
    let id = child.id;
    let answer = context.client().submit_all(vec![child]).await;
    world.told.lock().unwrap().insert(id, answer.clone().map(|mut one| one.remove(0)));
    answer?;
    Ok(())
}
