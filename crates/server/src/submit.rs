//! `windlass submit`.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use windlass::{Client, Name, NewTask, OnConflict, Start, State, Submitted, Timestamp};

use crate::actor;
use crate::batch;
use crate::input::Source;
use crate::options::TaskOptions;
use crate::session::Session;
use crate::show::Answer;
use crate::show::task::{RecordJson, SubmittedJson, page};
use crate::trace::TraceArgs;
use crate::{duration, moment};

/// Submit a task, or many.
///
/// It is durable when the command returns. With a key, submitting again answers with the first task.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass submit email:send '{\"to\": \"ada\"}' --key 'welcome ada'
  windlass submit report:make @report.json --queue reports --delay 10m --max-attempts 5
  windlass submit invoice:pay 42 --entity customer:7 --wait --wait-for 30s
  windlass submit --batch @tasks.jsonl

A line of a batch is what POST /v1/tasks takes, with kind, and any of payload, namespace, queue, priority, max_attempts,
retry, idempotency_key, on_conflict, entity, require_entity, lane, run_at, delay_seconds, timeout_seconds, tags and
traceparent:
  {\"kind\": \"email:send\", \"payload\": {\"to\": \"ada\"}, \"idempotency_key\": \"welcome ada\"}")]
pub(crate) struct SubmitArgs {
    /// What finds its handler
    #[arg(value_parser = Name::kind, required_unless_present = "batch")]
    kind: Option<Name>,
    /// Its input: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<Source>,
    #[command(flatten)]
    options: TaskOptions,
    /// Submitting the same key again answers with the first task, while that exists
    #[arg(long)]
    key: Option<String>,
    /// Submitting the same key again is refused
    #[arg(long, requires = "key")]
    reject_duplicate: bool,
    /// Not before this long from now, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Not before this moment, such as 2030-01-31T18:00:00Z
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse)]
    at: Option<Timestamp>,
    /// Who submits it, for the history [default: $USER]
    #[arg(long)]
    actor: Option<String>,
    #[command(flatten)]
    trace: TraceArgs,
    /// Wait until it is over; the exit code is 0 if it completed
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "wait")]
    wait_for: Option<Duration>,
    /// Submit a task for each line of JSON in @FILE or - (standard input)
    #[arg(
        long,
        value_name = "@FILE|-",
        conflicts_with_all = ["kind", "payload", "TaskOptions", "key", "reject_duplicate", "delay", "at", "wait", "wait_for"]
    )]
    batch: Option<Source>,
}

pub(crate) async fn run(session: &Session, args: &SubmitArgs) -> Result<Answer> {
    let (actor, traceparent) =
        (args.actor.clone().or_else(actor::from_environment), args.trace.traceparent());
    if let Some(source) = &args.batch {
        return batch::run(session, source, actor, traceparent).await;
    }
    let task = NewTask { actor, traceparent, ..args.task(session.namespace())? };
    let client = session.client().await?;
    let submitted = client.submit_all(vec![task]).await?.pop().context("the store gave no answer")?;
    if args.wait {
        return wait(session, &client, &submitted, args.wait_for).await;
    }
    Ok(answer(session, &submitted))
}

/// A submitted task.
pub(crate) fn answer(session: &Session, submitted: &Submitted) -> Answer {
    let existed = if submitted.created { "" } else { "  existed already" };
    let text = format!("{}  {}{existed}\n", submitted.id, session.paint().state(submitted.state));
    Answer::new(text, &SubmittedJson::of(submitted))
}

impl SubmitArgs {
    /// The task, with every value checked.
    fn task(&self, namespace: Name) -> Result<NewTask> {
        let kind = self.kind.clone().context("a task has a kind")?;
        let payload =
            self.payload.as_ref().map(|source| source.json("payload")).transpose()?.unwrap_or_default();
        let mut task = self.options.task(namespace, kind, payload)?;
        task.key.clone_from(&self.key);
        if self.reject_duplicate {
            task.on_conflict = OnConflict::Reject;
        }
        task.start = match (self.delay, self.at) {
            (Some(delay), _) => Start::After(delay),
            (None, Some(at)) => Start::At(at),
            (None, None) => Start::Now,
        };
        task.check()?;
        Ok(task)
    }
}

/// The task when it is over.
async fn wait(
    session: &Session,
    client: &Client,
    submitted: &Submitted,
    most: Option<Duration>,
) -> Result<Answer> {
    let id = submitted.id;
    let finished = match most {
        None => client.wait(id).await?,
        Some(most) => match tokio::time::timeout(most, client.wait(id)).await {
            Ok(finished) => finished?,
            Err(_) => {
                let most = duration::exact(most);
                return Err(anyhow!(
                    "task {id} is not over after {most}; `windlass why {id}` says why, and it goes on"
                ));
            }
        },
    };
    let now = client.store().now().await?;
    let answer = Answer::new(page(&finished, now, session.paint()), &RecordJson::of(&finished));
    Ok(match finished.task.status.state {
        State::Completed => answer,
        state => answer
            .but(Some(format!("task {id} is {state}, not completed; `windlass why {id}` says what to do"))),
    })
}
