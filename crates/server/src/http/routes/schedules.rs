//! `/v1/schedules`.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{FireSchedule, ListSchedules, RemoveSchedule, SetSchedule};
use windlass::{Client, Invalid, Name, NewTask, Rejected, Schedule, Start};

use super::super::extract::{InPath, JsonBody, OptionalBody, Query};
use super::super::{Answered, App, Caller, name_or_default};
use super::tasks::{ByJson, answer, bad_query, query_problem};
use crate::options::submit;
use crate::schedule::look;
use crate::show::schedule::ScheduleJson;
use crate::show::task::SubmittedJson;
use crate::wire::NewTaskJson;

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(set))
        .routes(routes!(remove))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(run))
}

/// Whose.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NamespaceQuery {
    /// `default` unless said; of a list, all unless said
    namespace: Option<String>,
}

/// Schedules.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ScheduleList)]
struct SchedulesJson<'a> {
    schedules: Vec<ScheduleJson<'a>>,
}

/// List schedules, by namespace and name
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", params(NamespaceQuery), responses(
    (status = 200, description = "Schedules", body = SchedulesJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<NamespaceQuery>,
) -> Answered<Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let mut schedules = app.gate(&caller).run(ListSchedules {}).await?;
    schedules.retain(|one| query.namespace.as_deref().is_none_or(|wanted| *one.namespace == *wanted));
    let mut seen = Vec::with_capacity(schedules.len());
    for schedule in schedules {
        seen.push(look(&client, schedule).await?);
    }
    Ok(answer(&SchedulesJson { schedules: seen.iter().map(ScheduleJson::of).collect() }))
}

/// A schedule that is open to the caller.
async fn find(caller: &Caller, client: &Client, name: &str) -> Answered<Schedule> {
    caller.check_namespace(client.namespace_name())?;
    let found = client.schedules().await?.into_iter().find(|schedule| *schedule.name == *name);
    let schedule = found.ok_or_else(|| Rejected::UnknownSchedule { name: name.into() })?;
    caller.check_queues(&schedule.namespace, std::slice::from_ref(&schedule.template.task().queue))?;
    Ok(schedule)
}

async fn show(client: &Client, schedule: Schedule) -> Answered<Response> {
    let seen = look(client, schedule).await?;
    Ok(answer(&ScheduleJson::of(&seen)))
}

/// A schedule
#[utoipa::path(get, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path), NamespaceQuery),
    responses((status = 200, description = "The schedule", body = ScheduleJson)))]
async fn get(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
) -> Answered<Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let schedule = find(&caller, &client, &name).await?;
    show(&client, schedule).await
}

/// A schedule to make, or to change.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule)]
struct NewScheduleJson {
    /// The cron expression: minute, hour, day of month, month, day of week.
    cron: String,
    /// The time zone that it is meant in; `UTC` unless said.
    zone: Option<String>,
    /// What to do about slots that passed while nobody could fire them: `skip`, `one` (unless said) or
    /// `all:N`.
    missed: Option<String>,
    /// What to do when the task of the slot before is not over: `allow` (unless said), `skip`, `queue` or
    /// `replace`.
    overlap: Option<String>,
    /// Whether it begins paused.
    #[serde(default)]
    paused: bool,
    /// What it submits; without an id, a key, a start and a namespace of its own.
    task: NewTaskJson,
    /// Why, for the audit.
    reason: Option<String>,
    /// On whose behalf, for the audit.
    actor: Option<String>,
}

/// What makes a task one that is submitted once.
fn check(task: &NewTask, namespace: &Name) -> Result<(), Invalid> {
    if task.key.is_some() || task.start != Start::Now {
        return Err(Invalid::number("task", (), "no key and no start: its schedule gives it both"));
    }
    if task.namespace != *namespace {
        return Err(Invalid::new("task.namespace", &task.namespace, "the namespace of the schedule"));
    }
    Ok(())
}

/// Make a schedule, or change the one of that name
#[utoipa::path(put, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path), NamespaceQuery),
    request_body = NewScheduleJson, responses((status = 200, description = "The schedule", body = ScheduleJson)))]
async fn set(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
    JsonBody(body): JsonBody<NewScheduleJson>,
) -> Answered<Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let namespace = Name::namespace(query.namespace.as_deref().unwrap_or("default"))?;
    let task = body.task.task(&namespace)?;
    check(&task, &namespace)?;
    let mut schedule = client.schedule(&name, &body.cron, submit(&client, &task));
    if let Some(zone) = &body.zone {
        schedule = schedule.zone(zone);
    }
    if let Some(missed) = &body.missed {
        schedule = schedule.missed(missed.parse()?);
    }
    if let Some(overlap) = &body.overlap {
        schedule = schedule.overlap(overlap.parse()?);
    }
    if body.paused {
        schedule = schedule.paused(true);
    }
    let (caller, schedule) = (caller.because(body.actor, body.reason), schedule.build().await?);
    show(&client, app.gate(&caller).run(SetSchedule { schedule }).await?).await
}

/// Whose, who removes it, and why.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RemoveQuery {
    /// `default` unless said
    namespace: Option<String>,
    /// Why, for the audit
    reason: Option<String>,
    /// On whose behalf, for the audit
    actor: Option<String>,
}

/// A schedule that was removed.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = RemovedSchedule)]
struct RemovedJson {
    namespace: String,
    name: String,
    removed: bool,
}

/// Remove a schedule; tasks that it submitted stay
#[utoipa::path(delete, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path), RemoveQuery),
    responses((status = 200, description = "Removed", body = RemovedJson)))]
async fn remove(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<RemoveQuery>,
) -> Answered<Json<RemovedJson>> {
    let namespace = name_or_default(query.namespace.as_deref(), Name::namespace);
    let namespace = namespace.map_err(|invalid| bad_query(&invalid))?;
    let schedule = Name::new("schedule", &name).map_err(|invalid| bad_query(&invalid))?;
    let told = RemovedJson { namespace: namespace.to_string(), name: name.clone(), removed: true };
    let caller = caller.because(query.actor, query.reason);
    if !app.gate(&caller).run(RemoveSchedule { namespace, name: schedule }).await? {
        return Err(Rejected::UnknownSchedule { name }.into());
    }
    Ok(Json(told))
}

async fn pause_or_resume(
    app: &App,
    caller: Caller,
    (name, query): (&str, &NamespaceQuery),
    ByJson { reason, actor }: ByJson,
    paused: bool,
) -> Answered<Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let (caller, schedule) = (caller.because(actor, reason), client.build_paused(name, paused).await?);
    let action = if paused { "schedule.pause" } else { "schedule.resume" };
    show(&client, app.gate(&caller).called(action).run(SetSchedule { schedule }).await?).await
}

/// Let a schedule submit nothing
#[utoipa::path(post, path = "/v1/schedules/{name}/pause", tag = "schedules", params(("name" = String, Path), NamespaceQuery),
    request_body(content = Option<ByJson>), responses((status = 200, description = "The schedule", body = ScheduleJson)))]
async fn pause(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    pause_or_resume(&app, caller, (&name, &query), by, true).await
}

/// Let a schedule go on
#[utoipa::path(post, path = "/v1/schedules/{name}/resume", tag = "schedules", params(("name" = String, Path), NamespaceQuery),
    request_body(content = Option<ByJson>), responses((status = 200, description = "The schedule", body = ScheduleJson)))]
async fn resume(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
    OptionalBody(by): OptionalBody<ByJson>,
) -> Answered<Response> {
    pause_or_resume(&app, caller, (&name, &query), by, false).await
}

/// Submit now what a schedule would submit
#[utoipa::path(post, path = "/v1/schedules/{name}/run", tag = "schedules", params(("name" = String, Path), NamespaceQuery),
    request_body(content = Option<ByJson>), responses((status = 201, description = "Submitted", body = SubmittedJson)))]
async fn run(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
    OptionalBody(ByJson { reason, actor }): OptionalBody<ByJson>,
) -> Answered<(StatusCode, Json<SubmittedJson>)> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let (caller, firing) = (caller.because(actor, reason), client.build_firing(&name).await?);
    app.gate(&caller).admit(FireSchedule { firing, term: None }).await?;
    let submitted = client.run_schedule(&name).await?;
    Ok((StatusCode::CREATED, Json(SubmittedJson::of(&submitted))))
}
