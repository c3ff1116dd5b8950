//! About the server itself: whether it lives, whether it can do its work, its numbers, and the description of
//! its routes.

// The macros that describe routes write such code.
#![allow(unused_qualifications, elided_lifetimes_in_paths)]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::{Error, NewWorker, Rejected, Store, WorkerId};

use super::{Answered, App, Caller, Problem, openapi};

/// How long the store may take to show that it can be written to.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long such an answer is good for, however often it is asked for.
const FRESH: Duration = Duration::from_secs(1);

/// Bounds of how long things take, in seconds.
const BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The numbers of this process.
#[derive(Clone)]
pub(crate) struct Metrics(PrometheusHandle);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Begins to count.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("seconds".into()), &BUCKETS)?;
        Ok(Self(builder.install_recorder()?))
    }

    /// Numbers that nobody counts.
    #[cfg(test)]
    pub(crate) fn apart() -> Self {
        Self(PrometheusBuilder::new().build_recorder().handle())
    }

    /// Lets what was counted be merged; otherwise it gathers until somebody looks.
    pub(crate) fn keep_up(&self) {
        self.0.run_upkeep();
    }
}

/// What a server knows about itself.
#[derive(Debug)]
pub(super) struct Meta {
    metrics: Metrics,
    /// When the store was last found fit, or why it was not.
    checked: Mutex<Option<(Instant, Result<(), Error>)>>,
    /// The version of the store's schema, if it has one, when this server began.
    schema: OnceLock<Option<String>>,
    id: WorkerId,
}

impl Meta {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, checked: Mutex::new(None), schema: OnceLock::new(), id: windlass::worker_id() }
    }
}

impl App {
    /// The server's own identity, by which it may lead.
    pub(crate) fn id(&self) -> &WorkerId {
        &self.meta.id
    }

    /// Writes to the store that this server lives: so it is known to others, and known to be able to write.
    pub(crate) async fn beat(&self) -> Result<(), Error> {
        let store = self.windlass.store();
        match store.heartbeat(self.meta.id.clone(), Vec::new()).await {
            Err(Error::Rejected(Rejected::InvalidWorker { .. })) => {
                let host = self.meta.id.as_str().split('-').next().unwrap_or_default().into();
                let version = concat!("windlass ", env!("CARGO_PKG_VERSION"), " server").into();
                let new =
                    NewWorker { host, version, queues: Vec::new(), ..NewWorker::new(self.meta.id.clone()) };
                store.register(new).await.map(|_| ())
            }
            answer => answer.map(|_| ()),
        }
    }

    /// Whether the store is one that this version can use, and can be written to. What it is, is told.
    pub(crate) async fn check_store(&self) -> Result<Vec<(String, String)>, Error> {
        let described = self.windlass.store().describe().await?;
        let version = described.iter().find(|(name, _)| *name == "schema version");
        let version = version.map(|(_, version)| version.clone());
        // Opening it has compared that; since then a newer version may have changed it.
        let opened = self.meta.schema.get_or_init(|| version.clone());
        if *opened != version {
            let [was, is] = [opened, &version].map(|one| one.as_deref().unwrap_or("none"));
            return Err(Error::Unusable(format!(
                "its schema was version {was} when this server opened it and is {is} now; start a server of that version"
            )));
        }
        self.beat().await?;
        Ok(described)
    }

    /// Whether the store can be used.
    async fn ready(&self) -> Result<(), Error> {
        let mut checked = self.meta.checked.lock().await;
        if let Some((at, answer)) = checked.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            let _ = at;
            return answer.clone();
        }
        let late = || Error::Unavailable(format!("the store did not answer within {PATIENCE:?}"));
        let answer = timeout(PATIENCE, self.check_store()).await.unwrap_or_else(|_| Err(late())).map(drop);
        *checked = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Takes this server from the list of those that live.
    pub(crate) async fn farewell(&self) -> Result<(), Error> {
        let store: &Arc<dyn Store> = self.windlass.store();
        store.deregister(self.meta.id.clone()).await
    }
}

/// The routes about the server itself that anybody may ask.
pub(super) fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready))
}

/// Those that take a token.
pub(super) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// The description of all routes, which is a route itself, beside them.
pub(super) fn with_description(routes: Router<App>, description: &OpenApi) -> Router<App> {
    let text: Arc<str> = openapi::text(description).into();
    let description = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text.to_string()) }
    };
    routes.route("/openapi.json", get(description))
}

/// Whether a server lives.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ServerHealth)]
struct HealthJson {
    /// `healthy`.
    status: &'static str,
    /// Of the program.
    version: &'static str,
}

/// Whether the process answers
#[utoipa::path(get, path = "/health", tag = "server", responses(
    (status = 200, description = "It does", body = HealthJson),
))]
async fn health() -> Json<HealthJson> {
    Json(HealthJson { status: "healthy", version: env!("CARGO_PKG_VERSION") })
}

/// Whether a server can do its work.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ServerReadiness)]
struct ReadyJson {
    /// `ready`.
    status: &'static str,
}

/// Whether the store can be reached, its schema is right, and it can be written to
#[utoipa::path(get, path = "/ready", tag = "server", responses(
    (status = 200, description = "It can", body = ReadyJson),
))]
async fn ready(Shared(app): Shared<App>) -> Answered<Json<ReadyJson>> {
    if app.stopping.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping"));
    }
    app.ready().await?;
    Ok(Json(ReadyJson { status: "ready" }))
}

/// Numbers of all namespaces and queues, for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "All numbers of this process", body = String, content_type = "text/plain"),
))]
async fn metrics(Shared(app): Shared<App>, caller: Caller) -> Answered<Response> {
    // They are of all namespaces and queues.
    caller.check_unlimited()?;
    let waiting = u32::try_from(app.polls.waiting()).unwrap_or(u32::MAX);
    metrics::gauge!("windlass_http_waiting_claims").set(f64::from(waiting));
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], app.meta.metrics.0.render()).into_response())
}
