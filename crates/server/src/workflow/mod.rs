//! `windlass workflow`: starting workflows, looking at them and intervening.

mod operate;
mod start;
mod target;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass::{
    Client, Cursor, Name, Page, ReadyWorkflow, Rejected, Steering, WorkflowFilter, WorkflowId, WorkflowState,
    limits,
};

use crate::actor::ByArgs;
use crate::failure::Usage;
use crate::input::Source;
use crate::picture::Format;
use crate::session::Session;
use crate::show::Answer;
use crate::show::step::Steps;
use crate::show::workflow::{AncestorJson, Seen, SeenJson, WorkflowJson, ancestors_table, page, table};
use crate::table::{Cell, Table};
use operate::Verb;
pub(crate) use target::StepTarget;
use target::Target;

#[derive(Subcommand, Debug)]
pub(crate) enum WorkflowCommand {
    Start(Box<start::StartArgs>),
    /// Show a workflow with its steps and its history
    #[command(after_help = "Examples:
  windlass workflow get 01890a5d-ac96-774b-bcce-b30000000000
  windlass workflow get 01890a5d-ac96-774b-bcce-b30000000000 --items 100 --json")]
    Get {
        /// The workflow's id
        id: WorkflowId,
        #[command(flatten)]
        most: StepsArgs,
    },
    /// List workflows, newest first
    #[command(after_help = "Examples:
  windlass workflow list --state blocked_by_failures
  windlass workflow list --name nightly --limit 20")]
    List(ListArgs),
    /// Stop a workflow, or a step: what runs is told to stop
    #[command(after_help = "Examples:
  windlass workflow cancel 01890a5d-ac96-774b-bcce-b30000000000 --reason 'not needed'
  windlass workflow cancel 01890a5d-ac96-774b-bcce-b30000000000/publish")]
    Cancel {
        /// The workflow's id, or ID/STEP
        #[arg(value_name = "ID[/STEP]")]
        target: Target,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Let nothing more of a workflow start; what is running goes on
    #[command(after_help = "Example:\n  windlass workflow pause 01890a5d-ac96-774b-bcce-b30000000000")]
    Pause(SteerArgs),
    /// Let a paused workflow go on
    #[command(after_help = "Example:\n  windlass workflow resume 01890a5d-ac96-774b-bcce-b30000000000")]
    Resume(SteerArgs),
    /// Settle a workflow, or a step, by hand
    #[command(after_help = "Examples:
  windlass workflow resolve 01890a5d-ac96-774b-bcce-b30000000000 --reason 'done elsewhere'
  windlass workflow resolve 01890a5d-ac96-774b-bcce-b30000000000/extract --result '{\"errors\": 0}'")]
    Resolve {
        /// The workflow's id, or ID/STEP
        #[arg(value_name = "ID[/STEP]")]
        target: Target,
        /// What the step would have returned: JSON, @FILE, or - for standard input
        #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
        result: Option<Source>,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Take the failures of a workflow that is blocked by them as final
    #[command(after_help = "Example:\n  windlass workflow give-up 01890a5d-ac96-774b-bcce-b30000000000")]
    GiveUp(SteerArgs),
    /// Let a step run now: a failed or cancelled one again, a waiting one without its delay
    #[command(
        after_help = "Example:\n  windlass workflow retry 01890a5d-ac96-774b-bcce-b30000000000/extract --force"
    )]
    Retry {
        #[command(flatten)]
        step: StepArgs,
        /// Start over with all attempts, even if they are used up
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Decide that a step is not needed; what needs it is skipped too
    #[command(after_help = "Example:\n  windlass workflow skip 01890a5d-ac96-774b-bcce-b30000000000/alert")]
    Skip {
        #[command(flatten)]
        step: StepArgs,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Settle a step by hand, with what it would have returned
    #[command(
        after_help = "Example:\n  windlass workflow complete 01890a5d-ac96-774b-bcce-b30000000000/regions[3] --result 42"
    )]
    Complete {
        #[command(flatten)]
        step: StepArgs,
        /// What it would have returned: JSON, @FILE, or - for standard input
        #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
        result: Source,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Start a workflow that repeats another from a step on, and takes over what else is done
    #[command(
        after_help = "Example:\n  windlass workflow rerun 01890a5d-ac96-774b-bcce-b30000000000 --from regions"
    )]
    Rerun {
        /// The workflow's id
        id: WorkflowId,
        /// The first step that is done again
        #[arg(long, value_name = "STEP")]
        from: String,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Draw a workflow as it stands
    #[command(after_help = "Example:
  windlass workflow graph 01890a5d-ac96-774b-bcce-b30000000000 --format svg --output nightly.svg")]
    Graph {
        /// The workflow's id
        id: WorkflowId,
        /// What the picture is written in
        #[arg(long, value_name = "FORMAT", default_value = "mermaid")]
        format: Format,
        /// Write it to this file
        #[arg(long, value_name = "FILE")]
        output: Option<String>,
    },
    /// List the steps that come before a step, nearest first, with what they have returned
    #[command(
        after_help = "Example:\n  windlass workflow ancestors 01890a5d-ac96-774b-bcce-b30000000000/publish"
    )]
    Ancestors(StepArgs),
}

/// A workflow that an operator changes as a whole.
#[derive(Args, Debug)]
pub(crate) struct SteerArgs {
    /// The workflow's id
    id: WorkflowId,
    #[command(flatten)]
    by: ByArgs,
}

/// A step that an operator is concerned with.
#[derive(Args, Debug)]
pub(crate) struct StepArgs {
    /// The workflow's id and the step's name; an item is written ID/STEP[3]
    #[arg(value_name = "ID/STEP")]
    target: StepTarget,
}

/// How much of a large workflow is shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct StepsArgs {
    /// Show at most so many steps
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    steps: usize,
    /// Show at most so many items of a step
    #[arg(long, value_name = "N", default_value_t = 10)]
    items: u32,
}

impl StepsArgs {
    fn most(self) -> Steps {
        Steps { steps: self.steps, items: self.items }
    }
}

/// List workflows, newest first
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// In this state; several with commas
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    states: Vec<WorkflowState>,
    /// Of the definition with this name
    #[arg(long, value_parser = crate::definition::name)]
    name: Option<Name>,
    /// Only those with steps that can be claimed, highest computed priority first
    #[arg(long, conflicts_with_all = ["states", "cursor", "oldest_first"])]
    ready: bool,
    /// How many at most, 1 to 1000
    #[arg(long, value_name = "N", default_value = "100", value_parser = crate::task::limit)]
    limit: usize,
    /// Go on after an earlier page
    #[arg(long)]
    cursor: Option<Cursor>,
    /// Oldest first
    #[arg(long)]
    oldest_first: bool,
    /// Of all namespaces
    #[arg(long)]
    all_namespaces: bool,
}

pub(crate) async fn run(session: &Session, command: &WorkflowCommand) -> Result<Answer> {
    use WorkflowCommand as It;
    match command {
        It::Start(args) => start::run(session, args).await,
        It::Get { id, most } => see(session, &session.existing().await?, *id, most.most()).await,
        It::List(args) => list(session, args).await,
        It::Cancel { target, by } => match target {
            Target::Workflow(id) => operate::steer(session, *id, Steering::Cancel, by).await,
            Target::Step(step) => operate::step(session, step, Verb::Cancel, by).await,
        },
        It::Pause(SteerArgs { id, by }) => operate::steer(session, *id, Steering::Pause, by).await,
        It::Resume(SteerArgs { id, by }) => operate::steer(session, *id, Steering::Resume, by).await,
        It::GiveUp(SteerArgs { id, by }) => operate::steer(session, *id, Steering::GiveUp, by).await,
        It::Resolve { target: Target::Workflow(_), result: Some(_), .. } => {
            Err(Usage::new("--result is for a step; say ID/STEP").into())
        }
        It::Resolve { target: Target::Workflow(id), by, .. } => {
            operate::steer(session, *id, Steering::Resolve, by).await
        }
        It::Resolve { target: Target::Step(step), result, by } => {
            let result = result.as_ref().map(|source| source.json("result")).transpose()?;
            operate::step(session, step, Verb::Resolve(result), by).await
        }
        It::Complete { step, result, by } => {
            let result = result.json("result")?;
            operate::step(session, &step.target, Verb::Resolve(Some(result)), by).await
        }
        It::Retry { step, force, by } => {
            operate::step(session, &step.target, Verb::Retry { force: *force }, by).await
        }
        It::Skip { step, by } => operate::step(session, &step.target, Verb::Skip, by).await,
        It::Rerun { id, from, by } => {
            let started = session.existing().await?.rerun(*id, from, by.by()).await?;
            Ok(start::answer(session, &started))
        }
        It::Graph { id, format, output } => graph(session, *id, *format, output.as_deref()).await,
        It::Ancestors(StepArgs { target }) => ancestors(session, target).await,
    }
}

fn unknown(workflow: WorkflowId) -> Rejected {
    Rejected::UnknownWorkflow { workflow }
}

/// A workflow with its steps, and with its output if it has ended well.
async fn see(session: &Session, client: &Client, id: WorkflowId, most: Steps) -> Result<Answer> {
    let seen = Seen::look(client, id, most).await?.ok_or_else(|| unknown(id))?;
    let now = client.store().now().await?;
    Ok(Answer::new(page(&seen, now, session.paint()), &SeenJson::of(&seen)))
}

/// Those with steps that can be claimed.
async fn list_ready(session: &Session, args: &ListArgs) -> Result<Answer> {
    let (scope, client) = (session.scope(args.all_namespaces)?, session.existing().await?);
    let now = client.store().now().await?;
    let discovery = client.functions().discovery();
    let ready = discovery.ready_workflows(scope.as_ref(), args.name.as_ref(), args.limit).await?;
    let mut table = Table::new(&["WORKFLOW", "DEFINITION", "STATE", "READY", "PRIORITY", "COMPUTED"]);
    let mut all = Vec::new();
    for ReadyWorkflow { workflow, ready } in &ready {
        let computed = workflow.computed_priority(now);
        table.row([
            workflow.id.to_string().into(),
            (&*workflow.name).into(),
            workflow.state.into(),
            (*ready).into(),
            Cell::Number(workflow.priority.to_string()),
            Cell::Number(format!("{computed:.3}")),
        ]);
        all.push(json!({
            "workflow": WorkflowJson::of(workflow), "ready_steps": ready, "computed_priority": computed,
        }));
    }
    let text = match ready.is_empty() {
        true => "no workflow has steps to claim\n".into(),
        false => table.render(session.paint(), ""),
    };
    Ok(Answer::new(text, &json!({ "workflows": all })))
}

/// A full page, if there is that much: a store may answer with less and go on.
async fn list(session: &Session, args: &ListArgs) -> Result<Answer> {
    if args.ready {
        return list_ready(session, args).await;
    }
    let filter = WorkflowFilter {
        states: args.states.clone(),
        namespace: session.scope(args.all_namespaces)?,
        name: args.name.clone(),
        parent: None,
    };
    let client = session.existing().await?;
    let mut page = Page { limit: args.limit, after: args.cursor, oldest_first: args.oldest_first };
    let mut workflows = Vec::new();
    let next = loop {
        let listing = client.workflows(filter.clone(), page).await?;
        workflows.extend(listing.workflows);
        page.limit = args.limit.min(limits::PAGE).saturating_sub(workflows.len());
        page.after = listing.next;
        if page.limit == 0 || page.after.is_none() {
            break listing.next.map(|next| next.to_string());
        }
    };
    let now = client.store().now().await?;
    let mut text = match workflows.is_empty() {
        true => "no such workflows\n".into(),
        false => table(&workflows, now, session.paint()),
    };
    if let Some(next) = &next {
        text += &format!("more with --cursor {next}\n");
    }
    let workflows: Vec<_> = workflows.iter().map(WorkflowJson::of).collect();
    Ok(Answer::new(text, &json!({ "workflows": workflows, "next_cursor": next })))
}

async fn graph(session: &Session, id: WorkflowId, format: Format, output: Option<&str>) -> Result<Answer> {
    let client = session.existing().await?;
    let drawing = client.inspect(id).await?.ok_or_else(|| unknown(id))?.drawing();
    match output {
        None => Ok(format.answer(&drawing)),
        Some(path) => {
            std::fs::write(path, format.text(&drawing))
                .map_err(|error| Usage::new(format!("picture to {path}: {error}")))?;
            Ok(format.written(path))
        }
    }
}

async fn ancestors(session: &Session, StepTarget { workflow, step }: &StepTarget) -> Result<Answer> {
    let ancestors = session.existing().await?.ancestors(*workflow, step).await?;
    let text = match ancestors.is_empty() {
        true => "nothing comes before it\n".into(),
        false => ancestors_table(&ancestors, session.paint()),
    };
    let all: Vec<_> = ancestors.iter().map(AncestorJson::of).collect();
    Ok(Answer::new(text, &Ancestors { ancestors: all }))
}

/// Not made with `json!`, which would read the results.
#[derive(serde::Serialize)]
struct Ancestors<'a> {
    ancestors: Vec<AncestorJson<'a>>,
}
