//! `/v1/queues`.

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::Name;
use windlass::verbs::Pause;

use super::super::extract::{InPath, OptionalBody, Query};
use super::super::{Answered, App, Caller, name_or_default};
use super::tasks::bad_query;
use crate::queue::{PausedJson, QueueJson};

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(pause)).routes(routes!(resume))
}

/// Whose.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct QueuesQuery {
    /// All of them, if none is said
    namespace: Option<String>,
}

/// Queues.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = QueueList)]
struct QueuesJson {
    queues: Vec<QueueJson>,
}

/// List queues: those that have tasks, are paused, or are taken by a live worker
#[utoipa::path(get, path = "/v1/queues", tag = "queues", params(QueuesQuery), responses(
    (status = 200, description = "Queues", body = QueuesJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<QueuesQuery>,
) -> Answered<Json<QueuesJson>> {
    let namespace = query.namespace.as_deref().map(Name::namespace).transpose();
    let namespace = namespace.map_err(|invalid| bad_query(&invalid))?;
    let mut queues = QueueJson::all(&app.client(None)?, namespace.as_ref()).await?;
    queues.retain(|queue| {
        let [namespace, name] = [queue.namespace(), queue.name()].map(Name::stored);
        caller.sees(&namespace, &[name])
    });
    Ok(Json(QueuesJson { queues }))
}

/// Who intervenes, in which namespace, and why.
#[derive(Deserialize, ToSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueIntervention)]
struct PauseJson {
    /// `default` unless said.
    namespace: Option<String>,
    /// Why, for the audit.
    reason: Option<String>,
    /// On whose behalf, for the audit.
    actor: Option<String>,
}

async fn set(
    app: &App,
    caller: Caller,
    queue: &str,
    body: PauseJson,
    paused: bool,
) -> Answered<Json<PausedJson>> {
    let queue = Name::queue(queue).map_err(|invalid| bad_query(&invalid))?;
    let namespace = name_or_default(body.namespace.as_deref(), Name::namespace)?;
    let told = PausedJson { namespace: namespace.to_string(), queue: queue.to_string(), paused };
    let caller = caller.because(body.actor, body.reason);
    app.gate(&caller).run(Pause { namespace, queue, paused }).await?;
    Ok(Json(told))
}

/// Let nothing more of a queue be claimed; what is running goes on
#[utoipa::path(post, path = "/v1/queues/{name}/pause", tag = "queues", params(("name" = String, Path)),
    request_body(content = Option<PauseJson>), responses((status = 200, description = "Paused", body = PausedJson)))]
async fn pause(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(queue): InPath<String>,
    OptionalBody(body): OptionalBody<PauseJson>,
) -> Answered<Json<PausedJson>> {
    set(&app, caller, &queue, body, true).await
}

/// Let a paused queue go on
#[utoipa::path(post, path = "/v1/queues/{name}/resume", tag = "queues", params(("name" = String, Path)),
    request_body(content = Option<PauseJson>), responses((status = 200, description = "Not paused", body = PausedJson)))]
async fn resume(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(queue): InPath<String>,
    OptionalBody(body): OptionalBody<PauseJson>,
) -> Answered<Json<PausedJson>> {
    set(&app, caller, &queue, body, false).await
}
