//! `windlass stats`.

mod health;
mod slowest;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use windlass::{Count, Name, State, WorkflowCount};

use crate::paint::Paint;
use crate::session::Session;
use crate::show::Answer;
use crate::show::stats::{Numbers, StatsJson};
use crate::table::Table;

/// Count tasks by queue, kind and state, and workflows by name and state
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  windlass stats\n  windlass stats --all-namespaces --json\n  windlass stats --slowest steps --since 1h\n  \
    windlass stats --slowest workflows --each --name nightly\n  windlass stats --health\n  windlass stats --health --namespace acme\n  windlass stats --stale"
)]
pub(crate) struct StatsArgs {
    /// Of all namespaces
    #[arg(long)]
    all_namespaces: bool,
    /// Show what took longest instead, of what ended lately
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["health", "stale"])]
    slowest: Option<Slowest>,
    /// Show how workflows are doing instead, and what has happened lately: of all namespaces, or of the one
    /// given with --namespace
    #[arg(long, conflicts_with = "stale")]
    health: bool,
    /// Show the workflows instead that have rested for too long, or nearly
    #[arg(long)]
    stale: bool,
    /// What is lately
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = crate::duration::parse)]
    since: Duration,
    /// Each by itself, and not all of a definition or of a step together
    #[arg(long, requires = "slowest")]
    each: bool,
    /// Leave out what there were fewer of, if they are shown together
    #[arg(long, value_name = "N", default_value_t = 1, requires = "slowest")]
    min_executions: u64,
    /// Of the definition with this name
    #[arg(long, value_parser = crate::definition::name, requires = "slowest")]
    name: Option<Name>,
    /// And this version
    #[arg(long, value_name = "VERSION", requires = "slowest")]
    definition_version: Option<String>,
    /// How many of the slowest at most, 1 to 1000
    #[arg(long, value_name = "N", default_value = "10", value_parser = crate::task::limit)]
    limit: usize,
}

/// What may be slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Slowest {
    /// Steps, and items of lists
    Steps,
    /// Whole workflows
    Workflows,
}

pub(crate) async fn run(session: &Session, args: &StatsArgs) -> Result<Answer> {
    let scope = session.scope(args.all_namespaces)?;
    let client = session.existing().await?;
    if let Some(of) = args.slowest {
        return slowest::run(&client, scope, of, args, session.paint()).await;
    } else if args.health {
        return health::run(&client, session.given_namespace(), args, session.paint()).await;
    } else if args.stale {
        return health::stale(&client, scope.as_ref(), session.paint()).await;
    }
    let numbers = Numbers::read(&client, scope.as_ref()).await?;
    let (states, paint) = (numbers.states(), session.paint());
    let mut told = match numbers.tasks.is_empty() {
        true => "no tasks\n".into(),
        false => text(&numbers.tasks, &states, paint),
    };
    if !numbers.workflows.is_empty() {
        told += &format!("\n{}", workflow_text(&numbers.workflows, paint));
    }
    Ok(Answer::new(told, &StatsJson::of(&numbers)))
}

fn shown(namespace: &Name) -> &str {
    Some(&**namespace).filter(|namespace| *namespace != "default").unwrap_or_default()
}

fn workflow_text(counts: &[WorkflowCount], paint: Paint) -> String {
    let mut table = Table::new(&["NAMESPACE", "WORKFLOW", "STATE", "WORKFLOWS"]);
    for WorkflowCount { namespace, name, state, workflows } in counts {
        table.row([shown(namespace).into(), (&**name).into(), (*state).into(), (*workflows).into()]);
    }
    table.without_empty().render(paint, "")
}

fn text(counts: &[Count], states: &BTreeMap<State, u64>, paint: Paint) -> String {
    let mut table = Table::new(&["NAMESPACE", "QUEUE", "KIND", "STATE", "TASKS"]);
    // A kind may be of steps and of lone tasks: that is one row.
    let mut sums: BTreeMap<_, u64> = BTreeMap::new();
    for Count { namespace, queue, kind, state, tasks, .. } in counts {
        *sums.entry((namespace, queue, kind, state)).or_default() += tasks;
    }
    for ((namespace, queue, kind, state), tasks) in &sums {
        table.row([
            shown(namespace).into(),
            (&***queue).into(),
            (&***kind).into(),
            (**state).into(),
            (*tasks).into(),
        ]);
    }
    let mut totals = Table::new(&["TOTAL", "TASKS"]);
    for (state, tasks) in states {
        totals.row([(*state).into(), (*tasks).into()]);
    }
    totals.row(["all".into(), states.values().sum::<u64>().into()]);
    format!("{}\n{}", table.without_empty().render(paint, ""), totals.render(paint, ""))
}
