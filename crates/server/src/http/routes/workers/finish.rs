//! Reports: what became of claims, and how far attempts are.

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{Heartbeat, TakeTurn};
use windlass::{Command, Invalid, Receipt, Rejected, TaskId, Turn, WorkerId, limits};

use super::{InPathWorker, PathWorker, SECRET};
use crate::http::extract::{InPath, JsonBody};
use crate::http::{Answered, App, Caller, Problem};
use crate::wire::{OutcomeJson, ReportJson};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(finish)).routes(routes!(report))
}

/// What became of one report.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ReportedOutcome)]
pub(super) struct ReportedJson {
    id: String,
    /// Where the task is, if the report was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Whether it changed anything; not if it had been carried out before.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    /// Why it was refused, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

impl ReportedJson {
    fn of(task: TaskId, receipt: Result<Receipt, Rejected>) -> Self {
        let id = task.to_string();
        match receipt {
            Ok(Receipt { state, changed, .. }) => {
                Self { id, state: Some(state.word()), changed: Some(changed), error: None }
            }
            Err(rejected) => Self { id, state: None, changed: None, error: Some(rejected.into()) },
        }
    }

    pub(super) fn all(tasks: &[TaskId], receipts: Vec<Result<Receipt, Rejected>>) -> Vec<Self> {
        tasks.iter().zip(receipts).map(|(task, receipt)| Self::of(*task, receipt)).collect()
    }
}

/// The commands for outcomes, and the tasks they are about.
pub(super) fn commands(
    worker: &WorkerId,
    outcomes: Vec<OutcomeJson>,
) -> Answered<(Vec<TaskId>, Vec<Command>)> {
    if outcomes.len() > limits::BATCH {
        return Err(Invalid::number("number of outcomes", outcomes.len(), "at most 1000").into());
    }
    let commands = outcomes.into_iter().enumerate().map(|(index, outcome)| {
        let command = outcome.command(worker);
        command.map_err(|invalid| Problem { index: Some(index), ..invalid.into() })
    });
    let commands = commands.collect::<Answered<Vec<_>>>()?;
    Ok((commands.iter().map(Command::task).collect(), commands))
}

/// What became of claims.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Outcomes)]
struct OutcomesJson {
    /// At most 1,000.
    outcomes: Vec<OutcomeJson>,
}

/// What became of reports.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ReportedOutcomes)]
struct ReportedOutcomesJson {
    /// One for each, in order.
    outcomes: Vec<ReportedJson>,
}

/// Carries out what a worker says of its claims.
async fn apply(
    app: &App,
    caller: &Caller,
    worker: WorkerId,
    commands: Vec<Command>,
) -> Answered<Vec<Result<Receipt, Rejected>>> {
    if commands.is_empty() {
        app.gate(caller).admit(Heartbeat { worker, held: Vec::new() }).await?;
        return Ok(Vec::new());
    }
    let turn = Turn { commands, ..Turn::default() };
    let TakeTurn { turn } = app.gate(caller).admit(TakeTurn { turn }).await?;
    Ok(app.fold.apply(turn.commands).await?)
}

/// Report what became of claims
///
/// The same report again is accepted again, and changes nothing. One that is refused does not hinder the
/// others.
#[utoipa::path(post, path = "/v1/workers/{id}/finish", tag = "workers", params(
    ("id" = String, Path), ("Windlass-Worker-Secret" = String, Header, description = SECRET)),
    request_body = OutcomesJson, responses((status = 200, description = "One answer each", body = ReportedOutcomesJson)))]
async fn finish(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
    JsonBody(body): JsonBody<OutcomesJson>,
) -> Answered<Json<ReportedOutcomesJson>> {
    let (tasks, commands) = commands(&worker, body.outcomes)?;
    let receipts = apply(&app, &caller, worker, commands).await?;
    Ok(Json(ReportedOutcomesJson { outcomes: ReportedJson::all(&tasks, receipts) }))
}

/// How far attempts are.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Reports)]
struct ReportsJson {
    /// At most 1,000.
    reports: Vec<ReportJson>,
}

/// Tell how far attempts are: progress, lines of log, and where a next attempt would go on
#[utoipa::path(post, path = "/v1/workers/{id}/report", tag = "workers", params(
    ("id" = String, Path), ("Windlass-Worker-Secret" = String, Header, description = SECRET)),
    request_body = ReportsJson, responses((status = 200, description = "One answer each", body = ReportedOutcomesJson)))]
async fn report(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
    JsonBody(body): JsonBody<ReportsJson>,
) -> Answered<Json<ReportedOutcomesJson>> {
    if body.reports.len() > limits::BATCH {
        return Err(Invalid::number("number of reports", body.reports.len(), "at most 1000").into());
    }
    let now = app.windlass.store().now().await?;
    let commands = body.reports.into_iter().enumerate().map(|(index, report)| {
        let command = report.command(&worker, now);
        command.map_err(|invalid| Problem { index: Some(index), ..invalid.into() })
    });
    let commands = commands.collect::<Answered<Vec<Command>>>()?;
    let tasks: Vec<TaskId> = commands.iter().map(Command::task).collect();
    let receipts = apply(&app, &caller, worker, commands).await?;
    Ok(Json(ReportedOutcomesJson { outcomes: ReportedJson::all(&tasks, receipts) }))
}
