//! A demonstration: every promise that one small run can show.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use windlass::{
    Claim, Claimed, Command, Json, Lane, Name, NewTask, NewWorker, Outcome, Page, RetryPolicy, Start, State,
    Store, TaskId, Token, Turn, WorkerId,
};

use crate::show::{Answer, record_json, record_text};
use crate::task::why;

/// How long the worker that dies may be silent before its task goes to another.
const DEAD_AFTER: Duration = Duration::from_millis(200);

/// Submits, works, loses a worker, recovers, and shows what happened.
pub(crate) async fn run(store: &dyn Store, quiet: bool) -> Result<Answer> {
    let say = |line: &str| {
        if !quiet {
            println!("{line}");
        }
    };
    let demo = Demo::new(store);
    say(
        "Submitting: a greeting (twice, with one key), a flaky call, a hopeless one, two steps of one entity, …",
    );
    let tasks = demo.submit().await?;
    say("A worker takes the first and is killed. Its lease runs out; another worker takes everything.");
    demo.lose_a_worker().await?;
    let worker = demo.register(windlass::DEAD_AFTER).await?;
    demo.work_off(&worker, &tasks[..tasks.len() - 1]).await?;
    store.deregister(&worker).await?;

    let (mut text, mut values) = (String::from("\n"), Vec::new());
    for id in &tasks {
        let record = store.task(*id).await?.context("a submitted task is there")?;
        text += &record_text(&record);
        text.push('\n');
        values.push(record_json(&record));
    }
    let waiting = *tasks.last().context("there are tasks")?;
    let because = why(store, waiting).await?;
    text += &format!("Why is the last one not running?\n{}", because.text);
    text += "\nTry: windlass task list, windlass stats, windlass why ID\n";
    Ok(Answer { text, json: json!({ "tasks": Value::Array(values), "why": because.json }) })
}

struct Demo<'s> {
    store: &'s dyn Store,
    /// Demonstrations in one store stay apart.
    queue: Name,
}

/// The kinds that the worker has handlers for.
const KINDS: [&str; 4] = ["demo:greet", "demo:flaky", "demo:hopeless", "demo:step"];

impl<'s> Demo<'s> {
    fn new(store: &'s dyn Store) -> Self {
        let queue = format!("demo-{}", windlass::task_id());
        Self { store, queue: Name::stored(&queue) }
    }

    fn task(&self, kind: &str, payload: &str) -> Result<NewTask> {
        let mut task = NewTask::new(windlass::task_id(), Name::kind(kind)?, Json::payload(payload)?);
        task.queue = self.queue.clone();
        task.actor = Some("demo".into());
        task.retry = RetryPolicy { base: Duration::from_millis(50), ..RetryPolicy::default() };
        Ok(task)
    }

    /// The last one is of a kind that no worker knows.
    async fn submit(&self) -> Result<Vec<TaskId>> {
        let mut greet = self.task("demo:greet", r#"{"name":"Ada"}"#)?;
        greet.key = Some(format!("greet Ada in {}", &*self.queue));
        greet.priority = 10;
        let mut again = greet.clone();
        again.id = windlass::task_id();
        let mut hopeless = self.task("demo:hopeless", "null")?;
        hopeless.max_attempts = NonZeroU32::new(2);
        let mut batch = vec![greet, again, self.task("demo:flaky", "null")?, hopeless];
        for step in ["1", "2"] {
            let mut task = self.task("demo:step", step)?;
            task.lane = Some(Lane::of(&"planner:42".parse()?));
            batch.push(task);
        }
        let mut later = self.task("demo:greet", r#"{"name":"Grace, a little later"}"#)?;
        later.start = Start::After(Duration::from_millis(300));
        batch.push(later);
        batch.push(self.task("demo:unknown", "null")?);
        let submitted = self.store.submit(batch).await?;
        Ok(submitted.iter().filter(|one| one.created).map(|one| one.id).collect())
    }

    async fn register(&self, dead_after: Duration) -> Result<WorkerId> {
        let mut worker = NewWorker::new(windlass::worker_id());
        worker.queues = vec![self.queue.clone()];
        worker.kinds = KINDS.iter().map(|kind| Name::kind(kind)).collect::<Result<_, _>>()?;
        worker.dead_after = dead_after;
        Ok(self.store.register(worker).await?.id)
    }

    fn claim(&self, worker: &WorkerId, limit: usize) -> Result<Claim> {
        let kinds = KINDS.iter().map(|kind| Name::kind(kind)).collect::<Result<_, _>>()?;
        let queues = vec![self.queue.clone()];
        Ok(Claim { worker: worker.clone(), namespace: Name::default(), queues, kinds, limit })
    }

    /// A worker claims one task and is never heard of again.
    async fn lose_a_worker(&self) -> Result<()> {
        let victim = self.register(DEAD_AFTER).await?;
        self.store.claim(self.claim(&victim, 1)?).await?;
        Ok(())
    }

    /// Turn after turn: report, take more, and do what time asks for, until all of `tasks` are final.
    async fn work_off(&self, worker: &WorkerId, tasks: &[TaskId]) -> Result<()> {
        let mut done = Vec::new();
        loop {
            let mut commands = self.store.due(Page::default().limit).await?.commands;
            commands.append(&mut done);
            let claim = Some(self.claim(worker, 10)?);
            let turned = self.store.turn(Turn { commands, claim, term: None }).await?;
            done = turned.claimed?.iter().map(|claimed| finish(claimed, worker)).collect::<Result<_>>()?;
            if done.is_empty() && self.all_final(tasks).await? {
                return Ok(());
            }
            if done.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn all_final(&self, tasks: &[TaskId]) -> Result<bool> {
        for id in tasks {
            let record = self.store.task(*id).await?.context("a submitted task is there")?;
            if !record.task.status.state.is_final() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Stands in for handlers: what each kind's would decide.
fn finish(claimed: &Claimed, worker: &WorkerId) -> Result<Command> {
    let status = &claimed.task.status;
    debug_assert_eq!(status.state, State::Claimed);
    let failed =
        |error: &str, retryable| Outcome::Failed { error: error.into(), retryable, retry_after: None };
    let outcome = match (&*claimed.task.spec.kind, status.attempt) {
        ("demo:flaky", 1 | 2) => failed("connection refused", true),
        ("demo:hopeless", _) => failed("the address does not exist", true),
        _ => Outcome::Completed { result: Json::result(r#"{"ok":true}"#)? },
    };
    let token = Token { task: claimed.task.id, lease: status.lease, worker: worker.clone() };
    Ok(Command::Finish { token, outcome, started_at: None })
}
