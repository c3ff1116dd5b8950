//! `windlass stats --health` and `--stale`: how the workflows of a store are doing, and what has happened.

use anyhow::Result;
use serde_json::{Map, Value, json};
use windlass::{Client, Name, Patience, StepState, WorkflowState};

use super::StatsArgs;
use crate::duration;
use crate::paint::Paint;
use crate::show::Answer;
use crate::table::{Cell, Table};

pub(super) async fn run(client: &Client, args: &StatsArgs, paint: Paint) -> Result<Answer> {
    let functions = client.functions();
    let health = functions.health().counts().await?;
    let since = client.store().now().await?.minus(args.since);
    let metrics = functions.analytics().metrics(Some(since)).await?;
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
    let workflows: Map<String, Value> = WorkflowState::ALL
        .map(|state| (state.word().into(), json!(health.workflows(state))))
        .into_iter()
        .collect();
    let steps: Map<String, Value> =
        StepState::ALL.map(|state| (state.word().into(), json!(health.steps(state)))).into_iter().collect();
    let json = json!({
        "health_score": metrics.health_score, "is_under_heavy_load": health.is_under_heavy_load(),
        "workflows": workflows, "steps": steps,
        "total_workflows": health.total_workflows(), "total_steps": health.total_steps(),
        "active_workflows": metrics.active_workflows, "namespaces": metrics.namespaces, "definitions": metrics.definitions,
        "since": metrics.since.to_string(), "at": metrics.at.to_string(),
        "started": activity.started, "completed": activity.completed, "failed": activity.failed,
        "completion_rate": metrics.completion_rate(), "error_rate": metrics.error_rate(),
        "average_workflow_seconds": metrics.average_workflow_seconds(),
        "steps_completed": activity.steps, "steps_failed": activity.failed_steps,
        "average_step_seconds": metrics.average_step_seconds(),
    });
    Ok(Answer::new(table.render(paint, ""), &json))
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
        all.push(json!({
            "workflow": workflow.id.to_string(), "namespace": &*workflow.namespace, "name": &*workflow.name,
            "state": workflow.state.word(), "rested_seconds": one.rested.as_secs_f64(),
            "allowed_seconds": one.allowed.as_secs_f64(), "level": one.word(),
        }));
    }
    let text = match stale.is_empty() {
        true => "no workflow rests for too long\n".into(),
        false => table.without_empty().render(paint, ""),
    };
    Ok(Answer::new(text, &json!({ "stale": all })))
}
