//! A demonstration: every promise that one small run can show.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::{
    Claim, Client, Context, Input, Name, NewWorker, Record, RetryPolicy, Submit, TaskError, TaskId, Windlass,
    WorkerId,
};

use crate::session::Session;
use crate::show::Answer;
use crate::show::task::{RecordJson, story};
use crate::why;

/// How long the worker that dies may be silent before its task goes to another.
const DEAD_AFTER: Duration = Duration::from_millis(200);

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Input for Greet {
    const KIND: &'static str = "demo:greet";
}

async fn greet(context: Context, input: Greet) -> Result<String, TaskError> {
    context.log(format!("greeting {}", input.name));
    Ok(format!("hello {}", input.name))
}

#[derive(Serialize, Deserialize)]
struct Call {
    /// How often it fails before it succeeds.
    failures: u32,
}

impl Input for Call {
    const KIND: &'static str = "demo:call";
}

async fn call(context: Context, input: Call) -> Result<&'static str, TaskError> {
    context.log(format!("calling, attempt {}", context.attempt()));
    if context.attempt() <= input.failures {
        return Err(TaskError::retry("connection refused"));
    }
    Ok("answered")
}

#[derive(Serialize, Deserialize)]
struct Step {
    number: u64,
}

impl Input for Step {
    const KIND: &'static str = "demo:step";
}

async fn step(context: Context, input: Step) -> Result<u64, TaskError> {
    context.progress(input.number, 2, Some("one step of an entity at a time".into()));
    Ok(input.number)
}

/// What programs get.
#[derive(Serialize)]
struct Demonstrated<'a> {
    tasks: Vec<RecordJson<'a>>,
    why: Box<RawValue>,
}

/// Submits, works, loses a worker, recovers, and shows what happened.
pub(crate) async fn run(session: &Session) -> Result<Answer> {
    let windlass = session.open().await?;
    let demo = Demo::new(windlass, session.namespace())?;
    session.say("Submitting: a greeting (twice, with one key), a flaky call, a hopeless one, two steps of one entity, …")?;
    let tasks = demo.submit().await?;
    let (last, others) = tasks.split_last().context("there are tasks")?;
    session.say(
        "A worker takes the first and is killed. Its lease runs out; another worker takes everything.\n",
    )?;
    let victim = demo.lose_a_worker().await?;
    let records = demo.work_off(others).await;
    demo.client.store().deregister(victim.clone()).await?;
    let mut records = records?;
    records.push(demo.client.get(*last).await?.context("a submitted task is there")?);

    let because = why::answer(&demo.client, *last, session.paint()).await?;
    let stories: Vec<_> = records.iter().map(|record| story(record, session.paint())).collect();
    let text = format!(
        "{}\nWhy is the last one not running?\n{}\nTry: windlass task list, windlass task get ID, windlass stats\n",
        stories.join("\n"),
        because.text
    );
    let tasks = records.iter().map(RecordJson::of).collect();
    Ok(Answer::new(text, &Demonstrated { tasks, why: RawValue::from_string(because.json)? }))
}

struct Demo<'w> {
    windlass: &'w Windlass,
    client: Client,
    namespace: Name,
    /// Demonstrations in one store stay apart.
    queue: Name,
}

impl<'w> Demo<'w> {
    fn new(windlass: &'w Windlass, namespace: Name) -> Result<Self> {
        let client = windlass.client().namespace(&namespace)?;
        let id = windlass::task_id().to_string();
        let queue = Name::queue(&format!("demo-{}", &id[id.len() - 12..]))?;
        Ok(Self { windlass, client, namespace, queue })
    }

    fn task(&self, input: &impl Input) -> Submit {
        let retry = RetryPolicy { base: Duration::from_millis(50), ..RetryPolicy::default() };
        self.client.submit(input).queue(&self.queue).actor("demo").retry(retry)
    }

    /// The last one is of a kind that no worker knows.
    async fn submit(&self) -> Result<Vec<TaskId>> {
        let greeting = || {
            let greet = Greet { name: "Ada".into() };
            self.task(&greet).key(format!("greet Ada in {}", self.queue)).priority(10)
        };
        let later = Greet { name: "Grace, a little later".into() };
        let batch = [
            greeting(),
            greeting(),
            self.task(&Call { failures: 2 }),
            self.task(&Call { failures: 9 }).max_attempts(2),
            self.task(&Step { number: 1 }).entity("planner:42"),
            self.task(&Step { number: 2 }).entity("planner:42"),
            self.task(&later).delay(Duration::from_millis(300)),
            self.client.submit_json("demo:unknown", "null").queue(&self.queue).actor("demo"),
        ];
        let batch = batch.into_iter().map(Submit::build).collect::<Result<_, _>>()?;
        let submitted = self.client.submit_all(batch).await?;
        Ok(submitted.iter().filter(|one| one.created).map(|one| one.id).collect())
    }

    /// A worker claims one task and is never heard of again.
    async fn lose_a_worker(&self) -> Result<WorkerId> {
        let kinds = vec![Name::kind(Greet::KIND)?];
        let queues = vec![self.queue.clone()];
        let mut worker = NewWorker::new(windlass::worker_id());
        worker.namespace = self.namespace.clone();
        worker.queues.clone_from(&queues);
        worker.kinds.clone_from(&kinds);
        worker.dead_after = DEAD_AFTER;
        let worker = self.client.store().register(worker).await?.id;
        let claim =
            Claim { worker: worker.clone(), namespace: self.namespace.clone(), queues, kinds, limit: 1 };
        self.client.store().claim(claim).await?;
        Ok(worker)
    }

    /// A real worker, until all of `tasks` are over.
    async fn work_off(&self, tasks: &[TaskId]) -> Result<Vec<Record>> {
        let worker = self.windlass.worker().namespace(self.namespace.clone()).queues([&*self.queue]);
        let worker = worker.handle(greet).handle(call).handle(step).start().await?;
        let mut records = Vec::new();
        for id in tasks {
            records.push(self.client.wait(*id).await?.0);
        }
        worker.stop().await?;
        Ok(records)
    }
}
