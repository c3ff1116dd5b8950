//! `windlass workflow start`.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use windlass::{Client, Name, Started, WorkflowId, WorkflowRecord};

use super::{StepsArgs, see};
use crate::definition::File;
use crate::duration;
use crate::input::Source;
use crate::progress::Progress;
use crate::session::Session;
use crate::show::Answer;
use crate::show::workflow::StartedJson;
use crate::trace::TraceArgs;
use crate::{actor, escape};

/// How often a wait that somebody looks at says how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// Start a workflow
///
/// It is durable when the command returns. With a key, starting it again answers with the first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass workflow start nightly --input '{\"day\": \"2030-01-31\"}'
  windlass workflow start nightly --version 2 --input @input.json --key 2030-01-31 --wait
  windlass workflow start --file once.yaml --wait

Exit codes: 0 started, or complete with --wait; 1 refused, or ended otherwise; 2 not understood.")]
pub(crate) struct StartArgs {
    /// The name of its definition
    #[arg(value_parser = crate::definition::name, required_unless_present = "file")]
    name: Option<Name>,
    /// Which of that name [default: the newest]
    #[arg(long, conflicts_with = "file")]
    version: Option<String>,
    /// A definition for this workflow alone, in YAML or JSON, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    file: Option<File>,
    /// What it is given: JSON, @FILE, or - for standard input [default: null]
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    input: Option<Source>,
    /// Starting the same key again answers with the first workflow, while that exists
    #[arg(long)]
    key: Option<String>,
    /// Starting the same key again is refused
    #[arg(long, requires = "key")]
    reject_duplicate: bool,
    /// Added to the priority of its steps; higher first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Who starts it, for the history [default: $USER]
    #[arg(long)]
    actor: Option<String>,
    #[command(flatten)]
    trace: TraceArgs,
    /// Wait until it is over, or blocked by failures; the exit code is 0 if it is complete
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "wait")]
    wait_for: Option<Duration>,
    #[command(flatten)]
    most: StepsArgs,
}

/// Everything is checked before the store is opened.
pub(super) async fn run(session: &Session, args: &StartArgs) -> Result<Answer> {
    let input = args.input.as_ref().map(|source| source.json("input")).transpose()?.unwrap_or_default();
    let definition = args.file.as_ref().map(File::check).transpose()?;
    // A definition must be there; one that is brought along needs no store before.
    let client = match definition {
        Some(_) => session.client().await?,
        None => session.existing().await?,
    };
    let mut start = match definition {
        Some((definition, _)) => client.start_ad_hoc(definition),
        None => client.start(args.name.as_deref().context("a workflow has a definition")?),
    };
    if let Some(version) = &args.version {
        start = start.version(version);
    }
    if let Some(key) = &args.key {
        start = start.key(key);
    }
    if args.reject_duplicate {
        start = start.reject_duplicate();
    }
    if let Some(actor) = args.actor.clone().or_else(actor::from_environment) {
        start = start.actor(actor);
    }
    if let Some(traceparent) = args.trace.traceparent() {
        start = start.traceparent(traceparent);
    }
    let start = start.input_json(input.as_str()).priority(args.priority.unwrap_or(0));
    let started = start.await?;
    if !args.wait {
        return Ok(answer(session, &started));
    }
    let record = wait(&client, started.id, args.wait_for).await?;
    let (id, workflow) = (started.id, &record.workflow);
    let failure = (!workflow.is_success()).then(|| {
        format!("workflow {id} is {}, not complete; `windlass workflow get {id}` says why", workflow.state)
    });
    Ok(see(session, &client, id, args.most.most()).await?.but(failure))
}

/// A workflow that was started.
pub(super) fn answer(session: &Session, started: &Started) -> Answer {
    let existed = if started.created { "" } else { "  existed already" };
    let text = format!("{}  {}{existed}\n", started.id, session.paint().workflow(started.state));
    Answer::new(text, &StartedJson::of(started))
}

/// The workflow when nothing more happens by itself.
async fn wait(client: &Client, id: WorkflowId, most: Option<Duration>) -> Result<WorkflowRecord> {
    let over = async {
        tokio::select! {
            record = client.wait_for_workflow(id) => Ok(record?),
            error = tell(client, id) => Err(error),
        }
    };
    match most {
        None => over.await,
        Some(most) => tokio::time::timeout(most, over).await.unwrap_or_else(|_| {
            let most = duration::exact(most);
            Err(anyhow!(
                "workflow {id} is not over after {most}; `windlass workflow get {id}` says where it is, and it goes on"
            ))
        }),
    }
}

/// Says how far a workflow is, again and again, if there is somebody to see it. Only ends if it cannot look.
async fn tell(client: &Client, id: WorkflowId) -> anyhow::Error {
    let mut progress = Progress::new("steps over");
    if !progress.is_seen() {
        return std::future::pending().await;
    }
    loop {
        match client.workflow(id).await {
            Ok(Some(WorkflowRecord { workflow, .. })) => {
                let (settled, total) = (workflow.counts.settled(), workflow.counts.total());
                let state = escape::plain(workflow.state.word());
                progress.say(&format!("{settled} of {total} steps over, {state}"));
            }
            Ok(None) => return super::unknown(id).into(),
            Err(error) => return error.into(),
        }
        tokio::time::sleep(LOOK).await;
    }
}
