//! `/v1/definitions`.

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::flow::{self, Problem as FlowProblem};
use windlass::verbs::{Define, GetDefinition, ListDefinitions};
use windlass::{Definition, Flaw, Rejected};

use super::super::extract::{Document, InPath, Query};
use super::super::problem::Mistake;
use super::super::{Answered, App, Caller, Problem};
use super::tasks::{answer, query_problem};
use crate::show::definition::{AppliedJson, DefinitionJson, LineJson};

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(versions))
}

pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(apply))
}

impl Mistake {
    fn of(problem: &FlowProblem) -> Self {
        Self {
            line: problem.line,
            column: problem.column,
            path: problem.path.clone(),
            problem: problem.problem.clone(),
            advice: problem.advice.clone(),
        }
    }
}

/// The definition in a text.
pub(super) fn read(text: &str) -> Answered<Definition> {
    let problems = match flow::check(text) {
        Ok((document, _)) => return Ok(document.into_blueprint().into_definition()),
        Err(problems) => problems,
    };
    let errors: Vec<_> = problems.iter().filter(|problem| !problem.is_warning).collect();
    let is_cycle =
        |problem: &&FlowProblem| Flaw::new(&*problem.path, &*problem.problem, &*problem.advice).is_cycle();
    let code = if errors.iter().any(is_cycle) { "cycle" } else { "invalid_definition" };
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    let more = match errors.len() {
        0 | 1 => String::new(),
        errors => format!(" (and {} more)", errors - 1),
    };
    Err(Problem {
        problems: errors.into_iter().map(Mistake::of).collect(),
        ..Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, code, format!("{first}{more}"))
    })
}

/// Whose definition.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NamespaceQuery {
    /// `default` unless said
    namespace: Option<String>,
}

/// Whose definition, who keeps it, and why: the body is the definition itself.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ApplyQuery {
    /// `default` unless said
    namespace: Option<String>,
    /// Why, for the audit
    reason: Option<String>,
    /// On whose behalf, for the audit
    actor: Option<String>,
}

/// Keep a definition
///
/// The body is the definition itself, in YAML or JSON. The same content gives the same version.
#[utoipa::path(put, path = "/v1/definitions/{name}", tag = "definitions", params(("name" = String, Path), ApplyQuery),
    request_body(content((serde_json::Value = "application/json"), (String = "application/yaml"))),
    responses((status = 200, description = "Kept", body = AppliedJson)))]
async fn apply(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<ApplyQuery>,
    Document(text): Document,
) -> Answered<Json<AppliedJson>> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let definition = app.evaluate(move || read(&text)).await??;
    if *definition.name != *name {
        let detail = format!(
            "the definition is called {:?} and the path says {name:?}; make them the same",
            &*definition.name
        );
        return Err(Problem::bad_body(detail));
    }
    let caller = caller.because(query.actor, query.reason);
    let (name, namespace) = (definition.name.clone(), client.namespace_name().clone());
    let admitted = app.gate(&caller).admit(Define { namespace, definition }).await?;
    Ok(Json(AppliedJson::of(&name, client.define(admitted.definition).await?)))
}

/// Definitions.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = DefinitionList)]
struct DefinitionsJson<'a> {
    definitions: Vec<LineJson<'a>>,
}

/// List definitions: the newest version of each
#[utoipa::path(get, path = "/v1/definitions", tag = "definitions", params(NamespaceQuery), responses(
    (status = 200, description = "Definitions", body = DefinitionsJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<NamespaceQuery>,
) -> Answered<axum::response::Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let namespace = client.namespace_name().clone();
    let lines = app.gate(&caller).run(ListDefinitions { namespace, name: None }).await?;
    Ok(answer(&DefinitionsJson { definitions: lines.iter().map(LineJson::of).collect() }))
}

/// All versions of a definition, oldest first
#[utoipa::path(get, path = "/v1/definitions/{name}/versions", tag = "definitions", params(("name" = String, Path), NamespaceQuery),
    responses((status = 200, description = "Versions", body = DefinitionsJson)))]
async fn versions(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<NamespaceQuery>,
) -> Answered<axum::response::Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    let namespace = client.namespace_name().clone();
    app.gate(&caller).admit(ListDefinitions { namespace, name: None }).await?;
    let lines = client.definitions(Some(&name)).await.map_err(query_problem)?;
    if lines.is_empty() {
        return Err(Rejected::UnknownDefinition { name, version: None }.into());
    }
    Ok(answer(&DefinitionsJson { definitions: lines.iter().map(LineJson::of).collect() }))
}

/// Which version.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct VersionQuery {
    /// `default` unless said
    namespace: Option<String>,
    /// The newest unless said
    version: Option<String>,
}

/// A definition with all it says
#[utoipa::path(get, path = "/v1/definitions/{name}", tag = "definitions", params(("name" = String, Path), VersionQuery),
    responses((status = 200, description = "The definition", body = DefinitionJson)))]
async fn get(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(name): InPath<String>,
    Query(query): Query<VersionQuery>,
) -> Answered<axum::response::Response> {
    let client = app.client(query.namespace.as_deref()).map_err(query_problem)?;
    caller.check_namespace(client.namespace_name())?;
    let found = client.definition(&name, query.version.as_deref()).await.map_err(query_problem)?;
    let stored = found.ok_or(Rejected::UnknownDefinition { name, version: query.version })?;
    let (namespace, name) = (stored.namespace.clone(), stored.name().clone());
    let version = Some(stored.version.clone());
    app.gate(&caller).admit(GetDefinition { namespace, name, version }).await?;
    Ok(answer(&DefinitionJson::of(&stored)))
}
