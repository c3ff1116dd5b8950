//! About the server itself: whether it lives, whether it can do its work, its numbers, and the description of its routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use utoipa::openapi::OpenApi;
use windlass::{Error, NewWorker, Rejected, Store, WorkerId};

use super::{Answered, App, Problem, openapi};

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
    id: WorkerId,
}

impl Meta {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, checked: Mutex::new(None), id: windlass::worker_id() }
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
        match store.heartbeat(&self.meta.id, Vec::new()).await {
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

    /// Whether the store can be read and written.
    async fn ready(&self) -> Result<(), Error> {
        let mut checked = self.meta.checked.lock().await;
        if let Some((at, answer)) = checked.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            let _ = at;
            return answer.clone();
        }
        let late = || Error::Unavailable(format!("the store did not answer within {PATIENCE:?}"));
        let answer = timeout(PATIENCE, self.beat()).await.unwrap_or_else(|_| Err(late()));
        *checked = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Takes this server from the list of those that live.
    pub(crate) async fn farewell(&self) -> Result<(), Error> {
        let store: &Arc<dyn Store> = self.windlass.store();
        store.deregister(&self.meta.id).await
    }
}

/// The routes about the server itself, which need no token, beside the others.
pub(super) fn with_description(routes: Router<App>, description: &OpenApi) -> Router<App> {
    let text: Arc<str> = openapi::text(description).into();
    let description = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text.to_string()) }
    };
    routes
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(description))
}

/// The process answers.
async fn health() -> Response {
    axum::Json(json!({ "status": "healthy", "version": env!("CARGO_PKG_VERSION") })).into_response()
}

/// The store is reachable, its schema is right, and it can be written to.
async fn ready(Shared(app): Shared<App>) -> Answered<Response> {
    if app.stopping.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping"));
    }
    app.ready().await?;
    Ok(axum::Json(json!({ "status": "ready" })).into_response())
}

/// For Prometheus.
async fn metrics(Shared(app): Shared<App>) -> Response {
    let waiting = u32::try_from(app.polls.waiting()).unwrap_or(u32::MAX);
    metrics::gauge!("windlass_http_waiting_claims").set(f64::from(waiting));
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], app.meta.metrics.0.render()).into_response()
}
