//! `/v1/workflows`.

mod start;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{GetWorkflow, ListReadyWorkflows, ListWorkflows, Start, Steer};
use windlass::{By, Command, Invalid, Name, ReadyWorkflow, Rejected, Steering, WorkflowFilter, WorkflowId};

use super::super::extract::{BothInPath, InPath, JsonBody, OptionalBody, Query};
use super::super::{Answered, App, Caller, Problem};
use super::definitions::read;
use super::tasks::{ByJson, ResolveJson, RetryJson, answer, at_most, bad_query, page, query_problem, words};
use crate::picture::Format;
use crate::show::step::Steps;
use crate::show::task::ReceiptJson;
use crate::show::workflow::{AncestorJson, Seen, SeenJson, StartedJson, WorkflowJson};

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(ready))
        .routes(routes!(get))
        .routes(routes!(graph_svg))
        .routes(routes!(graph_mermaid))
}

pub(crate) fn reads_of_workers() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ancestors))
}

pub(crate) fn starts() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(start::start))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(resolve))
        .routes(routes!(give_up))
        .routes(routes!(rerun))
        .routes(routes!(cancel_step))
        .routes(routes!(retry_step))
        .routes(routes!(resolve_step))
        .routes(routes!(skip_step))
}

/// Which workflows to list. Everything that is said must hold.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// In this state; several with commas
    state: Option<String>,
    /// Of the definition with this name
    definition: Option<String>,
    /// All of them, if none is said
    namespace: Option<String>,
    /// Those that this task is
    parent: Option<String>,
    /// How many at most; 100 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Go on after an earlier page
    cursor: Option<String>,
    /// Oldest first instead of newest first
    oldest_first: Option<bool>,
}

impl ListQuery {
    fn filter(&self) -> Result<WorkflowFilter, Invalid> {
        Ok(WorkflowFilter {
            states: words(self.state.as_deref())?,
            namespace: self.namespace.as_deref().map(Name::namespace).transpose()?,
            name: self.definition.as_deref().map(crate::definition::name).transpose()?,
            parent: self.parent.as_deref().map(str::parse).transpose()?,
        })
    }
}

/// A page of workflows.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkflowList)]
struct WorkflowsJson<'a> {
    workflows: Vec<WorkflowJson<'a>>,
    /// Where to go on; a page may be short and still have one.
    next_cursor: Option<String>,
}

/// List workflows, newest first
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows", params(ListQuery), responses(
    (status = 200, description = "A page of workflows", body = WorkflowsJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Answered<Response> {
    let filter = query.filter().map_err(|invalid| bad_query(&invalid))?;
    let page = page(query.limit, query.cursor.as_deref(), query.oldest_first);
    let page = page.map_err(|invalid| bad_query(&invalid))?;
    let gate = app.gate(&caller);
    let admitted = gate.admit(ListWorkflows { filter, page }).await?;
    let listing = gate.perform(admitted).await.map_err(query_problem)?;
    let workflows = listing.workflows.iter().map(WorkflowJson::of).collect();
    Ok(answer(&WorkflowsJson { workflows, next_cursor: listing.next.map(|next| next.to_string()) }))
}

/// Which of the workflows that are ready, and how many.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReadyQuery {
    /// All of them, if none is said
    namespace: Option<String>,
    /// Of the definition with this name
    definition: Option<String>,
    /// How many at most; 100 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A workflow that has steps which can be claimed.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ReadyWorkflow)]
struct ReadyJson<'a> {
    workflow: WorkflowJson<'a>,
    ready_steps: u64,
    computed_priority: f64,
}

/// Workflows that have steps which can be claimed.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ReadyWorkflows)]
struct ReadyListJson<'a> {
    workflows: Vec<ReadyJson<'a>>,
}

/// Workflows that have steps which can be claimed, highest computed priority first
#[utoipa::path(get, path = "/v1/workflows/ready", tag = "workflows", params(ReadyQuery), responses(
    (status = 200, description = "Ready workflows", body = ReadyListJson),
))]
async fn ready(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<ReadyQuery>,
) -> Answered<Response> {
    let limit = at_most(query.limit, 100).map_err(|invalid| bad_query(&invalid))?;
    let client = app.client(None)?;
    let namespace = query.namespace.as_deref().map(Name::namespace).transpose();
    let namespace = namespace.map_err(|invalid| bad_query(&invalid))?;
    let name = query.definition.as_deref().map(crate::definition::name).transpose();
    let name = name.map_err(|invalid| bad_query(&invalid))?;
    let (of, called) = (namespace.clone(), name.clone());
    app.gate(&caller).admit(ListReadyWorkflows { namespace: of, name: called, limit }).await?;
    let ready =
        client.functions().discovery().ready_workflows(namespace.as_ref(), name.as_ref(), limit).await;
    let (ready, now) = (ready.map_err(query_problem)?, client.store().now().await?);
    let workflows = ready.iter().map(|ReadyWorkflow { workflow, ready }| ReadyJson {
        ready_steps: *ready,
        computed_priority: workflow.computed_priority(now),
        workflow: WorkflowJson::of(workflow),
    });
    Ok(answer(&ReadyListJson { workflows: workflows.collect() }))
}

/// How much of a large workflow is told.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StepsQuery {
    /// So many steps at most; 1,000 unless said
    #[param(minimum = 0)]
    steps: Option<usize>,
    /// So many items of a step at most; 10 unless said
    #[param(minimum = 0)]
    items: Option<u32>,
}

/// A workflow with its steps, its output if it has ended well, and its history
#[utoipa::path(get, path = "/v1/workflows/{id}", tag = "workflows", params(("id" = uuid::Uuid, Path), StepsQuery),
    responses((status = 200, description = "The workflow", body = SeenJson)))]
async fn get(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    Query(query): Query<StepsQuery>,
) -> Answered<Response> {
    app.gate(&caller).admit(GetWorkflow { id }).await?;
    let most = Steps { steps: query.steps.unwrap_or(1_000), items: query.items.unwrap_or(10) };
    let seen = Seen::look(&app.client(None)?, id, most).await?;
    let seen = seen.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
    Ok(answer(&SeenJson::of(&seen)))
}

/// Steps and items of a workflow that is drawn. All of them are read for it.
const MOST_DRAWN: u32 = 100_000;

/// Draws a workflow as it stands.
async fn draw(app: &App, caller: &Caller, id: WorkflowId, format: Format) -> Answered<String> {
    let unknown = Rejected::UnknownWorkflow { workflow: id };
    let record = app.gate(caller).run(GetWorkflow { id }).await?.ok_or(unknown)?;
    let tasks = record.workflow.counts.total();
    if tasks > MOST_DRAWN {
        let detail = format!(
            "the workflow has {tasks} steps and items, and at most {MOST_DRAWN} are drawn; `windlass definition show NAME --graph svg` draws its definition"
        );
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", detail));
    }
    let inspection =
        app.client(None)?.inspect(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
    app.evaluate(move || format.text(&inspection.drawing())).await
}

/// The picture of a workflow as it stands
#[utoipa::path(get, path = "/v1/workflows/{id}/graph.svg", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The picture", body = String, content_type = "image/svg+xml")))]
async fn graph_svg(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
) -> Answered<Response> {
    let text = draw(&app, &caller, id, Format::Svg).await?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], text).into_response())
}

/// The picture of a workflow as it stands, for Mermaid
#[utoipa::path(get, path = "/v1/workflows/{id}/graph.mmd", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The picture", body = String, content_type = "text/plain")))]
async fn graph_mermaid(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
) -> Answered<Response> {
    let text = draw(&app, &caller, id, Format::Mermaid).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// Steps that come before another.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Ancestors)]
struct AncestorsJson<'a> {
    ancestors: Vec<AncestorJson<'a>>,
}

/// The steps that come before a step, nearest first, with what they have returned
#[utoipa::path(get, path = "/v1/workflows/{id}/steps/{step}/ancestors", tag = "workflows",
    params(("id" = uuid::Uuid, Path), ("step" = String, Path)), responses((status = 200, description = "Ancestors", body = AncestorsJson)))]
async fn ancestors(
    Shared(app): Shared<App>,
    caller: Caller,
    BothInPath(id, step): BothInPath<WorkflowId, String>,
) -> Answered<Response> {
    app.gate(&caller).admit(GetWorkflow { id }).await?;
    let ancestors = app.client(None)?.ancestors(id, &step).await.map_err(step_problem)?;
    Ok(answer(&AncestorsJson { ancestors: ancestors.iter().map(AncestorJson::of).collect() }))
}

/// A step that is not there came from the path.
fn step_problem(error: windlass::Error) -> super::super::Problem {
    match error.rejected() {
        Some(Rejected::Invalid(invalid)) if invalid.field == "step" => {
            super::super::Problem::new(StatusCode::NOT_FOUND, "step_not_found", invalid.to_string())
        }
        _ => error.into(),
    }
}

/// Changes a workflow as a whole.
async fn steer(
    app: &App,
    caller: &Caller,
    id: WorkflowId,
    steering: Steering,
    ByJson { reason, actor }: ByJson,
) -> Answered<Response> {
    let steer = Steer { workflow: id, steering, by: By { actor, note: reason } };
    let Steer { steering, by, .. } = app.gate(caller).admit(steer).await?;
    let workflow = app.client(None)?.steer(id, steering, by).await?;
    Ok(answer(&WorkflowJson::of(&workflow)))
}

/// Stop a workflow: what has not ended is cancelled, and what runs is told to stop
#[utoipa::path(post, path = "/v1/workflows/{id}/cancel", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = WorkflowJson)))]
async fn cancel(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    steer(&app, &caller, id, Steering::Cancel, by).await
}

/// Let nothing more of a workflow start; what is running goes on
#[utoipa::path(post, path = "/v1/workflows/{id}/pause", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = WorkflowJson)))]
async fn pause(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    steer(&app, &caller, id, Steering::Pause, by).await
}

/// Let a paused workflow go on
#[utoipa::path(post, path = "/v1/workflows/{id}/resume", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = WorkflowJson)))]
async fn resume(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    steer(&app, &caller, id, Steering::Resume, by).await
}

/// Settle a workflow by hand: what has not ended is cancelled
#[utoipa::path(post, path = "/v1/workflows/{id}/resolve", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = WorkflowJson)))]
async fn resolve(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    steer(&app, &caller, id, Steering::Resolve, by).await
}

/// Take the failures of a workflow that is blocked by them as final
#[utoipa::path(post, path = "/v1/workflows/{id}/give-up", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = WorkflowJson)))]
async fn give_up(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    steer(&app, &caller, id, Steering::GiveUp, by).await
}

/// From which step a workflow is repeated.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Rerun)]
struct RerunJson {
    /// The first step that is done again.
    from: String,
    reason: Option<String>,
    actor: Option<String>,
}

/// Start a workflow that repeats another from a step on
#[utoipa::path(post, path = "/v1/workflows/{id}/rerun", tag = "workflows", params(("id" = uuid::Uuid, Path)),
    request_body = RerunJson, responses((status = 201, description = "Started", body = StartedJson)))]
async fn rerun(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<WorkflowId>,
    JsonBody(RerunJson { from, reason, actor }): JsonBody<RerunJson>,
) -> Answered<(StatusCode, Json<StartedJson>)> {
    let (client, caller) = (app.client(None)?, caller.because(actor, reason));
    let workflow = client.build_rerun(id, &from, By::default()).await?;
    let Start { workflow } = app.gate(&caller).admit(Start { workflow }).await?;
    let started = client.start_new(workflow).await?;
    Ok((StatusCode::CREATED, Json(StartedJson::of(&started))))
}

/// Changes a step: it is a task like any other.
async fn operate(
    app: &App,
    caller: &Caller,
    (id, step): (WorkflowId, &str),
    command: impl FnOnce(windlass::TaskId) -> Command,
) -> Answered<Json<ReceiptJson>> {
    let step = app.client(None)?.step(id, step).await.map_err(step_problem)?;
    super::tasks::operate(app, caller, command(step)).await
}

/// Stop a step
#[utoipa::path(post, path = "/v1/workflows/{id}/steps/{step}/cancel", tag = "workflows",
    params(("id" = uuid::Uuid, Path), ("step" = String, Path)), request_body(content = Option<ByJson>),
    responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn cancel_step(
    Shared(app): Shared<App>,
    caller: Caller,
    BothInPath(id, step): BothInPath<WorkflowId, String>,
    OptionalBody(ByJson { reason, actor }): OptionalBody<ByJson>,
) -> Answered<Json<ReceiptJson>> {
    let by = By { actor, note: reason };
    operate(&app, &caller, (id, &step), |task| Command::Cancel { task, by }).await
}

/// Let a step run now: a failed or cancelled one again, a waiting one without its delay
#[utoipa::path(post, path = "/v1/workflows/{id}/steps/{step}/retry", tag = "workflows",
    params(("id" = uuid::Uuid, Path), ("step" = String, Path)), request_body(content = Option<RetryJson>),
    responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn retry_step(
    Shared(app): Shared<App>,
    caller: Caller,
    BothInPath(id, step): BothInPath<WorkflowId, String>,
    OptionalBody(RetryJson { reason, actor, force }): OptionalBody<RetryJson>,
) -> Answered<Json<ReceiptJson>> {
    let by = By { actor, note: reason };
    operate(&app, &caller, (id, &step), |task| Command::Retry { task, force, by }).await
}

/// Settle a step by hand, with what it would have returned
#[utoipa::path(post, path = "/v1/workflows/{id}/steps/{step}/resolve", tag = "workflows",
    params(("id" = uuid::Uuid, Path), ("step" = String, Path)), request_body(content = Option<ResolveJson>),
    responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn resolve_step(
    Shared(app): Shared<App>,
    caller: Caller,
    BothInPath(id, step): BothInPath<WorkflowId, String>,
    OptionalBody(body): OptionalBody<ResolveJson>,
) -> Answered<Json<ReceiptJson>> {
    let (result, by) = (body.result()?, By { actor: body.actor, note: body.reason });
    operate(&app, &caller, (id, &step), |task| Command::Resolve { task, result, by }).await
}

/// Decide that a step is not needed; what needs it is skipped too
#[utoipa::path(post, path = "/v1/workflows/{id}/steps/{step}/skip", tag = "workflows",
    params(("id" = uuid::Uuid, Path), ("step" = String, Path)), request_body(content = Option<ByJson>),
    responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn skip_step(
    Shared(app): Shared<App>,
    caller: Caller,
    BothInPath(id, step): BothInPath<WorkflowId, String>,
    OptionalBody(ByJson { reason, actor }): OptionalBody<ByJson>,
) -> Answered<Json<ReceiptJson>> {
    let by = By { actor, note: reason };
    operate(&app, &caller, (id, &step), |task| Command::Skip { task, by }).await
}
