//! `windlass stats --slowest`: what took longest.

use anyhow::Result;
use serde_json::json;
use windlass::{Client, Execution, Executions, Name};

use super::{Slowest, StatsArgs};
use crate::duration;
use crate::paint::Paint;
use crate::show::Answer;
use crate::show::stats::ExecutionJson;
use crate::table::{Cell, Table};

pub(super) async fn run(
    client: &Client,
    namespace: Option<Name>,
    of: Slowest,
    args: &StatsArgs,
    paint: Paint,
) -> Result<Answer> {
    let now = client.store().now().await?;
    let wanted = Executions {
        of_steps: of == Slowest::Steps,
        since: now.minus(args.since),
        limit: args.limit,
        namespace,
        name: args.name.clone(),
        version: args.definition_version.clone(),
        together: (!args.each).then_some(args.min_executions),
    };
    let found = client.functions().analytics().slowest(wanted).await?;
    let text = match found.is_empty() {
        true => format!("nothing has ended in the last {}\n", duration::exact(args.since)),
        false => table(&found, paint),
    };
    Ok(Answer::new(text, &json!({ "slowest": found.iter().map(ExecutionJson::of).collect::<Vec<_>>() })))
}

fn table(found: &[Execution], paint: Paint) -> String {
    let mut table = Table::new(&[
        "NAMESPACE",
        "DEFINITION",
        "VERSION",
        "STEP",
        "ID",
        "RUNS",
        "ERRORS",
        "AVERAGE",
        "LONGEST",
        "SHORTEST",
    ]);
    let many = found.iter().any(|one| one.executions > 1);
    for one in found {
        let id = one.task.map(|task| task.to_string()).or(one.workflow.map(|workflow| workflow.to_string()));
        let time = |time| Cell::Number(duration::rough(time));
        let (longest, shortest) = if many { (time(one.max), time(one.min)) } else { ("".into(), "".into()) };
        table.row([
            super::shown(&one.namespace).into(),
            (&*one.name).into(),
            (&*one.version).into(),
            one.step.as_deref().unwrap_or_default().into(),
            id.unwrap_or_default().into(),
            if many { one.executions.into() } else { "".into() },
            if one.errors > 0 { one.errors.into() } else { "".into() },
            time(one.average),
            longest,
            shortest,
        ]);
    }
    table.without_empty().render(paint, "")
}
