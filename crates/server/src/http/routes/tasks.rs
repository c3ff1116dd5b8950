//! `/v1/tasks`.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{GetFacts, GetTask, ListTasks, Submit, TakeTurn};
use windlass::{
    By, Command, Cursor, Entity, Error, Filter, Invalid, Name, NewTask, OnConflict, Page, Record, Rejected,
    Submitted, Task, TaskId, Turn, WorkflowId, limits,
};

use super::super::extract::{InPath, JsonBody, OptionalBody, Query};
use super::super::trace::{TRACEPARENT, Trace};
use super::super::{Answered, App, Caller, Problem};
use crate::show::explanation::WhyJson;
use crate::show::task::{ReceiptJson, RecordJson, SubmittedJson, TaskJson};
use crate::wire::NewTaskJson;

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(by_key))
        .routes(routes!(get))
        .routes(routes!(why))
        .routes(routes!(log))
}

pub(crate) fn submits() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(submit)).routes(routes!(submit_batch))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(resolve))
        .routes(routes!(delete))
}

/// Submit a task
///
/// It is durable when the answer comes. A key that exists answers with the task that has it.
#[utoipa::path(post, path = "/v1/tasks", tag = "tasks", request_body = NewTaskJson, params(
    ("traceparent" = Option<String>, Header, description = TRACEPARENT),
), responses(
    (status = 201, description = "Submitted", body = SubmittedJson),
    (status = 200, description = "A task with this key, or this very task, exists", body = SubmittedJson),
))]
async fn submit(
    Shared(app): Shared<App>,
    caller: Caller,
    trace: Trace,
    JsonBody(body): JsonBody<NewTaskJson>,
) -> Answered<(StatusCode, Json<SubmittedJson>)> {
    let submitted = submit_all(&app, &caller, vec![task(trace, body)?]).await?.remove(0);
    let status = if submitted.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(SubmittedJson::of(&submitted))))
}

/// Tasks to submit together.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTasks)]
struct NewTasksJson {
    /// At most 1,000.
    tasks: Vec<NewTaskJson>,
}

/// The answers to tasks that were submitted together, in their order.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = SubmittedTasks)]
struct SubmittedTasksJson {
    tasks: Vec<SubmittedJson>,
}

/// Submit many tasks: all of them or none
#[utoipa::path(post, path = "/v1/tasks/batch", tag = "tasks", request_body = NewTasksJson, params(
    ("traceparent" = Option<String>, Header, description = TRACEPARENT),
), responses(
    (status = 201, description = "Submitted, in their order", body = SubmittedTasksJson),
))]
async fn submit_batch(
    Shared(app): Shared<App>,
    caller: Caller,
    trace: Trace,
    JsonBody(body): JsonBody<NewTasksJson>,
) -> Answered<(StatusCode, Json<SubmittedTasksJson>)> {
    let tasks =
        body.tasks.into_iter().enumerate().map(|(index, body)| {
            task(trace, body).map_err(|problem| Problem { index: Some(index), ..problem })
        });
    let tasks = tasks.collect::<Answered<Vec<_>>>()?;
    let submitted = submit_all(&app, &caller, tasks).await?;
    let tasks = submitted.iter().map(SubmittedJson::of).collect();
    Ok((StatusCode::CREATED, Json(SubmittedTasksJson { tasks })))
}

/// A task to submit. Default trace: that of the request.
fn task(trace: Trace, body: NewTaskJson) -> Answered<NewTask> {
    let task = body.task(&Name::default())?;
    Ok(NewTask { actor: None, traceparent: task.traceparent.or(trace.0), ..task })
}

/// Submits all or none. A task whose id exists, and which is the same, was submitted by a request whose
/// answer was lost; beside it, one whose key belongs to an older task was not new then either.
async fn submit_all(app: &App, caller: &Caller, tasks: Vec<NewTask>) -> Answered<Vec<Submitted>> {
    let gate = app.gate(caller);
    let Submit { tasks } = gate.admit(Submit { tasks }).await?;
    let client = app.client(None)?;
    let submitted = match caller.is_limited() {
        // Keys may belong to tasks that it must not see.
        true => gate.perform(Submit { tasks: tasks.clone() }).await,
        false => client.submit_all(tasks.clone()).await,
    };
    match submitted {
        Err(error) if matches!(error.rejected(), Some(Rejected::IdConflict { .. })) => {
            let mut found = Vec::with_capacity(tasks.len());
            for task in &tasks {
                let record = match client.get(task.id).await? {
                    Some(record) => Some(record).filter(|record| is_same(task, record)),
                    None => older(&client, task).await?,
                };
                let Some(Record { task: Task { id, spec, status, .. }, .. }) = record else {
                    return Err(error.into());
                };
                if !caller.sees(&spec.namespace, std::slice::from_ref(&spec.queue)) {
                    return Err(Rejected::KeyTaken { key: task.key.clone().unwrap_or_default() }.into());
                }
                found.push(Submitted { id, state: status.state, created: false });
            }
            Ok(found)
        }
        answer => Ok(answer?),
    }
}

/// The task that has the key of one that was not submitted for that reason.
async fn older(client: &windlass::Client, new: &NewTask) -> Answered<Option<Record>> {
    let Some(key) = new.key.as_deref().filter(|_| new.on_conflict == OnConflict::Return) else {
        return Ok(None);
    };
    match client.store().find(new.namespace.clone(), new.kind.clone(), key.into()).await? {
        Some(id) => Ok(client.get(id).await?),
        None => Ok(None),
    }
}

/// Whether this is the task that was asked for.
fn is_same(new: &NewTask, Record { task, payload, .. }: &Record) -> bool {
    let spec = &task.spec;
    (&new.namespace, &new.queue, &new.kind, &new.key, &new.payload)
        == (&spec.namespace, &spec.queue, &spec.kind, &spec.key, payload)
}

/// Which tasks to list. Everything that is said must hold.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// In this state; several with commas
    #[param(value_type = Option<String>)]
    state: Option<String>,
    kind: Option<String>,
    queue: Option<String>,
    /// All of them, if none is said
    namespace: Option<String>,
    /// Acting on this entity, written type:id
    entity: Option<String>,
    /// Part of this workflow
    workflow: Option<String>,
    tag: Option<String>,
    /// Held by this worker, or last held by it
    worker: Option<String>,
    /// Unchanged since before this moment
    updated_before: Option<String>,
    /// How many at most; 100 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Go on after an earlier page
    cursor: Option<String>,
    /// Oldest first instead of newest first
    oldest_first: Option<bool>,
}

impl ListQuery {
    fn filter(&self) -> Result<Filter, Invalid> {
        Ok(Filter {
            states: words(self.state.as_deref())?,
            namespace: self.namespace.as_deref().map(Name::namespace).transpose()?,
            queue: self.queue.as_deref().map(Name::queue).transpose()?,
            kind: self.kind.as_deref().map(Name::kind).transpose()?,
            entity: self.entity.as_deref().map(str::parse::<Entity>).transpose()?,
            tag: self.tag.clone(),
            workflow: self.workflow.as_deref().map(str::parse::<WorkflowId>).transpose()?,
            worker: self.worker.as_deref().map(windlass::WorkerId::new).transpose()?,
            updated_before: self.updated_before.as_deref().map(crate::moment::parse).transpose()?,
        })
    }
}

/// Words of a list that is written with commas.
pub(super) fn words<T: std::str::FromStr<Err = Invalid>>(list: Option<&str>) -> Result<Vec<T>, Invalid> {
    list.into_iter().flat_map(|list| list.split(',')).map(str::parse).collect()
}

/// A part of a listing.
pub(super) fn page(
    limit: Option<usize>,
    cursor: Option<&str>,
    oldest_first: Option<bool>,
) -> Result<Page, Invalid> {
    let plain = Page::default();
    Ok(Page {
        limit: limit.unwrap_or(plain.limit),
        after: cursor.map(str::parse::<Cursor>).transpose()?,
        oldest_first: oldest_first.unwrap_or(false),
    })
}

/// How many of a list are wanted.
pub(super) fn at_most(limit: Option<usize>, unless_said: usize) -> Result<usize, Invalid> {
    let limit = limit.unwrap_or(unless_said);
    let is_fit = (1..=limits::PAGE).contains(&limit);
    if is_fit { Ok(limit) } else { Err(Invalid::number("limit", limit, "1 to 1000")) }
}

/// What was asked for after the `?` cannot be meant.
pub(super) fn bad_query(invalid: &Invalid) -> Problem {
    Problem::bad_request(invalid.to_string())
}

/// A page of tasks.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = TaskList)]
struct TaskListJson<'a> {
    /// Without payloads, results and histories.
    tasks: Vec<TaskJson<'a>>,
    /// Where to go on; a page may be short and still have one.
    next_cursor: Option<String>,
}

/// List tasks, newest first
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(ListQuery), responses(
    (status = 200, description = "A page of tasks", body = TaskListJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Answered<axum::response::Response> {
    let filter = query.filter().map_err(|invalid| bad_query(&invalid))?;
    let page = page(query.limit, query.cursor.as_deref(), query.oldest_first);
    let page = page.map_err(|invalid| bad_query(&invalid))?;
    let gate = app.gate(&caller);
    let admitted = gate.admit(ListTasks { filter, page }).await?;
    let listing = gate.perform(admitted).await.map_err(query_problem)?;
    let tasks = listing.tasks.iter().map(TaskJson::of).collect();
    Ok(answer(&TaskListJson { tasks, next_cursor: listing.next.map(|next| next.to_string()) }))
}

/// A value that the store refuses came from the query.
pub(super) fn query_problem(error: Error) -> Problem {
    match error.rejected() {
        Some(Rejected::Invalid(invalid)) => bad_query(invalid),
        _ => error.into(),
    }
}

/// A JSON answer that borrows what it tells.
pub(super) fn answer(json: &impl Serialize) -> axum::response::Response {
    axum::response::IntoResponse::into_response(Json(json))
}

/// Which task has a key.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct KeyQuery {
    kind: String,
    key: String,
    namespace: Option<String>,
}

/// The task that has an idempotency key
#[utoipa::path(get, path = "/v1/tasks/by-key", tag = "tasks", params(KeyQuery), responses(
    (status = 200, description = "The task", body = RecordJson),
))]
async fn by_key(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<KeyQuery>,
) -> Answered<axum::response::Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    caller.check_namespace(client.namespace_name())?;
    let found = client.find(&query.kind, &query.key).await.map_err(query_problem)?;
    let id = found.ok_or_else(|| {
        let detail = format!("no task of kind {:?} has the key {:?}", query.kind, query.key);
        Problem::new(StatusCode::NOT_FOUND, "task_not_found", detail)
    })?;
    show(&app, &caller, id).await
}

/// A task with everything that belongs to it
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks", params(("id" = uuid::Uuid, Path)), responses(
    (status = 200, description = "The task", body = RecordJson),
))]
async fn get(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
) -> Answered<axum::response::Response> {
    show(&app, &caller, id).await
}

async fn show(app: &App, caller: &Caller, id: TaskId) -> Answered<axum::response::Response> {
    let record = find(app, caller, id).await?;
    let step = app.client(None)?.step_name(&record.task).await?;
    Ok(answer(&RecordJson::of(&record).at(step.as_deref())))
}

/// A task that the caller may see.
async fn find(app: &App, caller: &Caller, id: TaskId) -> Answered<Record> {
    Ok(app.gate(caller).run(GetTask { id }).await?.ok_or(Rejected::NotFound { task: id })?)
}

/// Why a task is not running
#[utoipa::path(get, path = "/v1/tasks/{id}/why", tag = "tasks", params(("id" = uuid::Uuid, Path)), responses(
    (status = 200, description = "Why", body = WhyJson),
))]
async fn why(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
) -> Answered<Json<WhyJson>> {
    let client = app.client(None)?;
    let unknown = Rejected::NotFound { task: id };
    let facts = app.gate(&caller).run(GetFacts { id }).await?.ok_or(unknown.clone())?;
    if facts.task.spec.workflow.is_some() {
        let step = client.explain_step(id).await?.ok_or(unknown)?;
        return Ok(Json(WhyJson::of_step(&step)));
    }
    Ok(Json(WhyJson::of(&windlass::explain(&facts))))
}

/// The logs of a task's attempts.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = TaskLog)]
struct TaskLogJson<'a> {
    id: String,
    attempts: Vec<crate::show::attempt::LogJson<'a>>,
}

/// What the attempts of a task have logged
#[utoipa::path(get, path = "/v1/tasks/{id}/log", tag = "tasks", params(("id" = uuid::Uuid, Path)), responses(
    (status = 200, description = "The lines that were kept, by attempt", body = TaskLogJson),
))]
async fn log(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
) -> Answered<axum::response::Response> {
    let record = find(&app, &caller, id).await?;
    let told = crate::show::attempt::all(&record.history, &record.notes);
    let attempts = told.iter().map(crate::show::attempt::LogJson::of).collect();
    Ok(answer(&TaskLogJson { id: id.to_string(), attempts }))
}

/// Who intervenes, and why.
#[derive(Deserialize, ToSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Intervention)]
pub(super) struct ByJson {
    /// Why, for the history.
    pub(super) reason: Option<String>,
    /// On whose behalf, for the history.
    pub(super) actor: Option<String>,
}

/// How a task is made to run again.
#[derive(Deserialize, ToSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Retry)]
pub(super) struct RetryJson {
    pub(super) reason: Option<String>,
    pub(super) actor: Option<String>,
    /// Start over with all attempts, even if they are used up.
    #[serde(default)]
    pub(super) force: bool,
}

/// How a task is settled by hand.
#[derive(Deserialize, ToSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Resolution)]
pub(super) struct ResolveJson {
    pub(super) reason: Option<String>,
    pub(super) actor: Option<String>,
    /// What it would have returned.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) result: Option<Box<RawValue>>,
}

impl ResolveJson {
    pub(super) fn result(&self) -> Result<Option<windlass::Json>, Invalid> {
        self.result.as_ref().map(|text| windlass::Json::new("result", text.get())).transpose()
    }
}

/// Carries out an operator's command on a task that the caller may touch.
pub(super) async fn operate(app: &App, caller: &Caller, command: Command) -> Answered<Json<ReceiptJson>> {
    let turn = Turn { commands: vec![command], ..Turn::default() };
    let TakeTurn { turn } = app.gate(caller).admit(TakeTurn { turn }).await?;
    let receipt = app.fold.apply(turn.commands).await?.remove(0)?;
    Ok(Json(ReceiptJson::of(&receipt)))
}

/// Stop a task, wherever it is
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ByJson>), responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn cancel(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    OptionalBody(ByJson { reason, actor }): OptionalBody<ByJson>,
) -> Answered<Json<ReceiptJson>> {
    operate(&app, &caller, Command::Cancel { task: id, by: By { actor, note: reason } }).await
}

/// Let a task run now: a failed, dead or cancelled one again, a waiting one without its delay
#[utoipa::path(post, path = "/v1/tasks/{id}/retry", tag = "tasks", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<RetryJson>), responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn retry(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    OptionalBody(RetryJson { reason, actor, force }): OptionalBody<RetryJson>,
) -> Answered<Json<ReceiptJson>> {
    operate(&app, &caller, Command::Retry { task: id, force, by: By { actor, note: reason } }).await
}

/// Settle a task by hand
#[utoipa::path(post, path = "/v1/tasks/{id}/resolve", tag = "tasks", params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<ResolveJson>), responses((status = 200, description = "Where it is now", body = ReceiptJson)))]
async fn resolve(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    OptionalBody(body): OptionalBody<ResolveJson>,
) -> Answered<Json<ReceiptJson>> {
    let (result, by) = (body.result()?, By { actor: body.actor, note: body.reason });
    operate(&app, &caller, Command::Resolve { task: id, result, by }).await
}

/// Who intervenes, and why, where there is no body to say it.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ByQuery {
    /// Why, for the audit
    reason: Option<String>,
    /// On whose behalf, for the audit
    actor: Option<String>,
}

/// Delete a task that is over, with its history and its key
#[utoipa::path(delete, path = "/v1/tasks/{id}", tag = "tasks", params(("id" = uuid::Uuid, Path), ByQuery),
    responses((status = 200, description = "Where it was", body = ReceiptJson)))]
async fn delete(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    Query(ByQuery { reason, actor }): Query<ByQuery>,
) -> Answered<Json<ReceiptJson>> {
    operate(&app, &caller.because(actor, reason), Command::Delete { task: id }).await
}
