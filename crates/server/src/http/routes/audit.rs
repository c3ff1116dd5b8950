//! `/v1/audit`.

use axum::Json;
use axum::extract::State as Shared;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::ListAudit;

use super::super::extract::Query;
use super::super::{Answered, App, Caller};
use super::tasks::{bad_query, page, query_problem};
use crate::token::{AuditEntryJson, AuditJson};

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Which part.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// How many at most; 100 unless said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Go on after an earlier page
    cursor: Option<String>,
}

/// What operators asked for, newest first
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditQuery), responses(
    (status = 200, description = "Entries", body = AuditJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Answered<Json<AuditJson>> {
    let page = page(query.limit, query.cursor.as_deref(), None).map_err(|invalid| bad_query(&invalid))?;
    let gate = app.gate(&caller);
    let admitted = gate.admit(ListAudit { page }).await?;
    let listing = gate.perform(admitted).await.map_err(query_problem)?;
    let entries = listing.entries.iter().map(AuditEntryJson::of).collect();
    Ok(Json(AuditJson { entries, next_cursor: listing.next.map(|next| next.to_string()) }))
}
