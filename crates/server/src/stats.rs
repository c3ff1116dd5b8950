//! `windlass stats`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::{Count, State};

use crate::paint::Paint;
use crate::session::Session;
use crate::show::Answer;
use crate::table::Table;

/// Count tasks by queue, kind and state
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  windlass stats\n  windlass stats --all-namespaces --json")]
pub(crate) struct StatsArgs {
    /// Of all namespaces
    #[arg(long)]
    all_namespaces: bool,
}

pub(crate) async fn run(session: &Session, args: &StatsArgs) -> Result<Answer> {
    let scope = session.scope(args.all_namespaces)?;
    let mut counts = session.existing().await?.stats().await?;
    counts.retain(|count| scope.as_ref().is_none_or(|wanted| *wanted == count.namespace));
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    for count in &counts {
        *states.entry(count.state).or_default() += count.tasks;
    }
    let value = |Count { namespace, queue, kind, state, tasks }: &Count| json!({ "namespace": &**namespace, "queue": &**queue, "kind": &**kind, "state": state.word(), "tasks": tasks });
    let json = json!({
        "tasks": states.values().sum::<u64>(),
        "states": State::ALL.map(|state| (state.word().to_owned(), json!(states.get(&state).unwrap_or(&0))))
            .into_iter().collect::<serde_json::Map<String, Value>>(),
        "counts": counts.iter().map(value).collect::<Vec<_>>(),
    });
    let text = if counts.is_empty() { "no tasks\n".into() } else { text(&counts, &states, session.paint()) };
    Ok(Answer::new(text, &json))
}

fn text(counts: &[Count], states: &BTreeMap<State, u64>, paint: Paint) -> String {
    let mut table = Table::new(&["NAMESPACE", "QUEUE", "KIND", "STATE", "TASKS"]);
    for Count { namespace, queue, kind, state, tasks } in counts {
        let namespace = Some(&**namespace).filter(|namespace| *namespace != "default").unwrap_or_default();
        table.row([namespace.into(), (&**queue).into(), (&**kind).into(), (*state).into(), (*tasks).into()]);
    }
    let mut totals = Table::new(&["TOTAL", "TASKS"]);
    for (state, tasks) in states {
        totals.row([(*state).into(), (*tasks).into()]);
    }
    totals.row(["all".into(), states.values().sum::<u64>().into()]);
    format!("{}\n{}", table.without_empty().render(paint, ""), totals.render(paint, ""))
}
