//! `/v1/stats` and `/v1/analytics`.

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{CountWorkflows, GetActivity, ListSlowest, ListWorkflows};
use windlass::{Client, Executions, Invalid, Name, Page, Patience, Timestamp, WorkflowFilter};

use super::super::extract::Query;
use super::super::{Answered, App, Caller};
use super::tasks::{at_most, bad_query, query_problem};
use crate::moment;
use crate::show::stats::{ExecutionJson, HealthJson, Numbers, StaleJson, StatsJson};

/// What is lately, unless said.
const LATELY: std::time::Duration = std::time::Duration::from_secs(86_400);

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(stats))
        .routes(routes!(analytics))
        .routes(routes!(stale))
        .routes(routes!(slowest_steps))
        .routes(routes!(slowest_workflows))
}

/// Whose.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NamespaceQuery {
    /// All of them, if none is said
    namespace: Option<String>,
}

impl NamespaceQuery {
    fn namespace(&self) -> Answered<Option<Name>> {
        let namespace = self.namespace.as_deref().map(Name::namespace).transpose();
        namespace.map_err(|invalid| bad_query(&invalid))
    }
}

/// How many tasks and workflows are where
#[utoipa::path(get, path = "/v1/stats", tag = "stats", params(NamespaceQuery), responses(
    (status = 200, description = "Counts", body = StatsJson),
))]
async fn stats(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<NamespaceQuery>,
) -> Answered<Json<StatsJson>> {
    app.gate(&caller).admit(CountWorkflows {}).await?;
    let namespace = query.namespace()?;
    if let Some(namespace) = &namespace {
        caller.check_namespace(namespace)?;
    }
    let mut numbers = Numbers::read(&app.client(None)?, namespace.as_ref()).await?;
    numbers.tasks.retain(|count| caller.sees(&count.namespace, std::slice::from_ref(&count.queue)));
    numbers.workflows.retain(|count| caller.sees(&count.namespace, &[]));
    Ok(Json(StatsJson::of(&numbers)))
}

/// Since when, and whose.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AnalyticsQuery {
    /// The moment, as in RFC 3339 (default: a day ago)
    since: Option<String>,
    /// Only this namespace (default: all of them)
    namespace: Option<String>,
}

async fn since(client: &Client, given: Option<&str>) -> Answered<Timestamp> {
    match given {
        Some(text) => moment::parse(text).map_err(|invalid| bad_query(&invalid)),
        None => Ok(client.store().now().await?.minus(LATELY)),
    }
}

/// How all workflows are doing, or those of a namespace, and what has happened lately
#[utoipa::path(get, path = "/v1/analytics", tag = "stats", params(AnalyticsQuery), responses(
    (status = 200, description = "Analytics", body = HealthJson),
))]
async fn analytics(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<AnalyticsQuery>,
) -> Answered<Json<HealthJson>> {
    let client = app.client(None)?;
    let since = since(&client, query.since.as_deref()).await?;
    let namespace = query.namespace.as_deref().map(Name::namespace).transpose();
    let namespace = namespace.map_err(|invalid| bad_query(&invalid))?;
    let GetActivity { since, namespace } = app.gate(&caller).admit(GetActivity { since, namespace }).await?;
    let health = client.functions().health().counts(namespace.as_ref()).await?;
    let metrics = client.functions().analytics().metrics(namespace.as_ref(), Some(since)).await?;
    Ok(Json(HealthJson::of(&health, &metrics)))
}

/// Workflows that rest for too long, or nearly.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = StaleWorkflows)]
struct StaleListJson {
    stale: Vec<StaleJson>,
}

/// Workflows that rest for too long, or nearly
#[utoipa::path(get, path = "/v1/analytics/stale", tag = "stats", params(NamespaceQuery), responses(
    (status = 200, description = "Workflows", body = StaleListJson),
))]
async fn stale(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<NamespaceQuery>,
) -> Answered<Json<StaleListJson>> {
    let namespace = query.namespace()?;
    let filter = WorkflowFilter { namespace: namespace.clone(), ..WorkflowFilter::default() };
    app.gate(&caller).admit(ListWorkflows { filter, page: Page::default() }).await?;
    let mut stale = app.client(None)?.functions().health().stale(Patience::default()).await?;
    stale.retain(|one| namespace.as_ref().is_none_or(|wanted| one.workflow.namespace == *wanted));
    stale.retain(|one| caller.sees(&one.workflow.namespace, &[]));
    Ok(Json(StaleListJson { stale: stale.iter().map(StaleJson::of).collect() }))
}

/// Of what ended lately, which.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SlowestQuery {
    /// The moment, as in RFC 3339; a day ago unless said
    since: Option<String>,
    /// How many at most; 10 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// All of them, if none is said
    namespace: Option<String>,
    /// Of the definition with this name
    definition: Option<String>,
    /// And this version
    version: Option<String>,
    /// Each by itself, and not all of a definition or of a step together
    each: Option<bool>,
    /// Leave out what there were fewer of, if they are taken together
    min_executions: Option<u64>,
}

impl SlowestQuery {
    fn wanted(self, of_steps: bool, since: Timestamp) -> Result<Executions, Invalid> {
        Ok(Executions {
            of_steps,
            since,
            limit: at_most(self.limit, 10)?,
            namespace: self.namespace.as_deref().map(Name::namespace).transpose()?,
            name: self.definition.as_deref().map(crate::definition::name).transpose()?,
            version: self.version,
            together: (!self.each.unwrap_or(false)).then_some(self.min_executions.unwrap_or(1)),
        })
    }
}

/// What took longest.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Executions)]
struct ExecutionsJson {
    slowest: Vec<ExecutionJson>,
}

async fn slowest(
    app: &App,
    caller: &Caller,
    query: SlowestQuery,
    of_steps: bool,
) -> Answered<Json<ExecutionsJson>> {
    let client = app.client(None)?;
    let since = since(&client, query.since.as_deref()).await?;
    let wanted = query.wanted(of_steps, since).map_err(|invalid| bad_query(&invalid))?;
    let ListSlowest { wanted } = app.gate(caller).admit(ListSlowest { wanted }).await?;
    let found = client.functions().analytics().slowest(wanted).await.map_err(query_problem)?;
    Ok(Json(ExecutionsJson { slowest: found.iter().map(ExecutionJson::of).collect() }))
}

/// The steps that took longest, of those that ended lately
#[utoipa::path(get, path = "/v1/analytics/slowest-steps", tag = "stats", params(SlowestQuery), responses(
    (status = 200, description = "Slowest first", body = ExecutionsJson),
))]
async fn slowest_steps(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<SlowestQuery>,
) -> Answered<Json<ExecutionsJson>> {
    slowest(&app, &caller, query, true).await
}

/// The workflows that took longest, of those that ended lately
#[utoipa::path(get, path = "/v1/analytics/slowest-workflows", tag = "stats", params(SlowestQuery), responses(
    (status = 200, description = "Slowest first", body = ExecutionsJson),
))]
async fn slowest_workflows(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<SlowestQuery>,
) -> Answered<Json<ExecutionsJson>> {
    slowest(&app, &caller, query, false).await
}
