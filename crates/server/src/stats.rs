//! `windlass stats`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::{Count, Name, State, WorkflowCount};

use crate::paint::Paint;
use crate::session::Session;
use crate::show::Answer;
use crate::table::Table;

/// Count tasks by queue, kind and state, and workflows by name and state
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  windlass stats\n  windlass stats --all-namespaces --json")]
pub(crate) struct StatsArgs {
    /// Of all namespaces
    #[arg(long)]
    all_namespaces: bool,
}

pub(crate) async fn run(session: &Session, args: &StatsArgs) -> Result<Answer> {
    let scope = session.scope(args.all_namespaces)?;
    let client = session.existing().await?;
    let mut counts = client.stats().await?;
    counts.retain(|count| scope.as_ref().is_none_or(|wanted| *wanted == count.namespace));
    let mut workflows = client.workflow_stats().await?;
    workflows.retain(|count| scope.as_ref().is_none_or(|wanted| *wanted == count.namespace));
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    for count in &counts {
        *states.entry(count.state).or_default() += count.tasks;
    }
    let value = |Count { namespace, queue, kind, is_step, state, tasks }: &Count| {
        json!({
            "namespace": &**namespace, "queue": &**queue, "kind": &**kind, "is_step": is_step,
            "state": state.word(), "tasks": tasks,
        })
    };
    let workflow = |WorkflowCount { namespace, name, state, workflows }: &WorkflowCount| json!({ "namespace": &**namespace, "name": &**name, "state": state.word(), "workflows": workflows });
    let json = json!({
        "tasks": states.values().sum::<u64>(),
        "states": State::ALL.map(|state| (state.word().to_owned(), json!(states.get(&state).unwrap_or(&0))))
            .into_iter().collect::<serde_json::Map<String, Value>>(),
        "counts": counts.iter().map(value).collect::<Vec<_>>(),
        "workflows": workflows.iter().map(workflow).collect::<Vec<_>>(),
    });
    let paint = session.paint();
    let mut told = if counts.is_empty() { "no tasks\n".into() } else { text(&counts, &states, paint) };
    if !workflows.is_empty() {
        told += &format!("\n{}", workflow_text(&workflows, paint));
    }
    Ok(Answer::new(told, &json))
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
