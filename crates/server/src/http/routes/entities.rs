//! `/v1/entities`.

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{HasEntity, ListEntities, SetEntity};
use windlass::{Entity, Name};

use super::super::extract::{InPath, Query};
use super::super::{Answered, App, Caller, name_or_default};
use super::tasks::{bad_query, query_problem};

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(register)).routes(routes!(forget))
}

/// Which entities.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// `default` unless said
    namespace: Option<String>,
    /// From the first after this one
    after: Option<String>,
    /// How many at most; 100 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Whose.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NamespaceQuery {
    /// `default` unless said
    namespace: Option<String>,
}

/// Whose, who registers or forgets it, and why.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ChangeQuery {
    /// `default` unless said
    namespace: Option<String>,
    /// Why, for the audit
    reason: Option<String>,
    /// On whose behalf, for the audit
    actor: Option<String>,
}

/// Registered entities, by name.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = EntityList)]
struct EntitiesJson {
    entities: Vec<String>,
    /// Where to go on.
    next_after: Option<String>,
}

/// List registered entities, by name
#[utoipa::path(get, path = "/v1/entities", tag = "entities", params(ListQuery), responses(
    (status = 200, description = "Entities", body = EntitiesJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Answered<Json<EntitiesJson>> {
    let namespace = namespace(query.namespace.as_deref())?;
    let after = query.after.as_deref().map(str::parse::<Entity>).transpose();
    let (after, limit) = (after.map_err(|invalid| bad_query(&invalid))?, query.limit.unwrap_or(100));
    let ListEntities { namespace, after, limit } =
        app.gate(&caller).admit(ListEntities { namespace, after, limit }).await?;
    let found = app.windlass.store().entities(namespace, after, limit).await.map_err(query_problem)?;
    let entities: Vec<String> = found.iter().map(ToString::to_string).collect();
    let next_after = entities.last().filter(|_| entities.len() == limit).cloned();
    Ok(Json(EntitiesJson { entities, next_after }))
}

/// Whether an entity is registered.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Entity)]
struct EntityJson {
    entity: String,
    registered: bool,
    /// Whether the request changed that.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
}

/// Whether an entity, written type:id, is registered
#[utoipa::path(get, path = "/v1/entities/{entity}", tag = "entities", params(("entity" = String, Path), NamespaceQuery),
    responses((status = 200, description = "Whether it is", body = EntityJson)))]
async fn get(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(entity): InPath<Entity>,
    Query(query): Query<NamespaceQuery>,
) -> Answered<Json<EntityJson>> {
    let (namespace, told) = (namespace(query.namespace.as_deref())?, entity.to_string());
    let registered = app.gate(&caller).run(HasEntity { namespace, entity }).await?;
    Ok(Json(EntityJson { entity: told, registered, changed: None }))
}

/// Register an entity
#[utoipa::path(put, path = "/v1/entities/{entity}", tag = "entities", params(("entity" = String, Path), ChangeQuery),
    responses((status = 200, description = "It is registered", body = EntityJson)))]
async fn register(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(entity): InPath<Entity>,
    Query(query): Query<ChangeQuery>,
) -> Answered<Json<EntityJson>> {
    set(&app, caller, entity, query, true).await
}

/// Forget an entity; its tasks stay
#[utoipa::path(delete, path = "/v1/entities/{entity}", tag = "entities", params(("entity" = String, Path), ChangeQuery),
    responses((status = 200, description = "It is not registered", body = EntityJson)))]
async fn forget(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(entity): InPath<Entity>,
    Query(query): Query<ChangeQuery>,
) -> Answered<Json<EntityJson>> {
    set(&app, caller, entity, query, false).await
}

async fn set(
    app: &App,
    caller: Caller,
    entity: Entity,
    query: ChangeQuery,
    known: bool,
) -> Answered<Json<EntityJson>> {
    let namespace = namespace(query.namespace.as_deref())?;
    let (caller, told) = (caller.because(query.actor, query.reason), entity.to_string());
    let changed = app.gate(&caller).run(SetEntity { namespace, entity, known }).await?;
    Ok(Json(EntityJson { entity: told, registered: known, changed: Some(changed) }))
}

/// Whose, as the query says.
fn namespace(given: Option<&str>) -> Answered<Name> {
    name_or_default(given, Name::namespace).map_err(|invalid| bad_query(&invalid))
}
