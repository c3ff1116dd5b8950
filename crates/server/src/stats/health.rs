//! `windlass stats --health` and `--stale`: how the workflows of a store are doing, and what has happened.

use anyhow::Result;
use serde_json::json;
use windlass::{Client, Name, Patience};

use super::StatsArgs;
use crate::duration;
use crate::paint::Paint;
use crate::show::Answer;
use crate::show::stats::{HealthJson, StaleJson};
use crate::table::{Cell, Table};

pub(super) async fn run(
    client: &Client,
    namespace: Option<&Name>,
    args: &StatsArgs,
    paint: Paint,
) -> Result<Answer> {
    let functions = client.functions();
    let health = functions.health().counts(namespace).await?;
    let since = client.store().now().await?.minus(args.since);
    let metrics = functions.analytics().metrics(namespace, Some(since)).await?;
    let activity = metrics.activity;
    let mut table = Table::new(&["WHAT", "NUMBER"]);
    let mut row = |what: &str, number: String| table.row([what.into(), Cell::Number(number)]);
    row("health score, 0 to 1", format!("{:.3}", metrics.health_score));
    row("under heavy load", if health.is_under_heavy_load() { "yes" } else { "no" }.into());
    row("workflows", health.total_workflows().to_string());
    row("  not over", health.active_workflows().to_string());
    row("steps", health.total_steps().to_string());
    row(&format!("since {}", metrics.since), String::new());
    row("  started", activity.started.to_string());
    row("  completed", format!("{} ({} %)", activity.completed, metrics.completion_rate()));
    row("  given up", format!("{} ({} %)", activity.failed, metrics.error_rate()));
    row("  seconds a workflow", format!("{:.3}", metrics.average_workflow_seconds()));
    row("  steps completed", activity.steps.to_string());
    row("  steps failed", activity.failed_steps.to_string());
    row("  seconds a step", format!("{:.3}", metrics.average_step_seconds()));
    Ok(Answer::new(table.render(paint, ""), &HealthJson::of(&health, &metrics)))
}

pub(super) async fn stale(client: &Client, namespace: Option<&Name>, paint: Paint) -> Result<Answer> {
    let mut stale = client.functions().health().stale(Patience::default()).await?;
    stale.retain(|one| namespace.is_none_or(|namespace| one.workflow.namespace == *namespace));
    let mut table = Table::new(&["NAMESPACE", "WORKFLOW", "DEFINITION", "STATE", "RESTED", "ALLOWED", "IS"]);
    let mut all = Vec::new();
    for one in &stale {
        let workflow = &one.workflow;
        table.row([
            super::shown(&workflow.namespace).into(),
            workflow.id.to_string().into(),
            (&*workflow.name).into(),
            workflow.state.into(),
            Cell::Number(duration::rough(one.rested)),
            Cell::Number(duration::rough(one.allowed)),
            one.word().into(),
        ]);
        all.push(StaleJson::of(one));
    }
    let text = match stale.is_empty() {
        true => "no workflow rests for too long\n".into(),
        false => table.without_empty().render(paint, ""),
    };
    Ok(Answer::new(text, &json!({ "stale": all })))
}
