//! The HTTP interface: a store for programs in any language.
//!
//! A route is: decode, one call of the client, encode. What is sent is in [`crate::wire`], what is answered
//! in [`crate::show`]: the same JSON that the command line prints. Routes are grouped by the scope that a
//! caller needs for them; whatever a caller sends, the answer to what cannot be done is a [`Problem`].
//!
//! What is *not* here: rules about tasks and workflows (the core's), and anything that only one store can do.

mod bodies;
mod caller;
mod extract;
mod feed;
mod fold;
mod gate;
mod guard;
#[cfg(test)]
mod matrix;
mod meta;
mod openapi;
mod places;
mod polls;
mod problem;
mod routes;
#[cfg(test)]
mod testing;
mod tokens;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use windlass::remote::Responder;
use windlass::{Client, Name, Windlass, evaluators};

pub(crate) use caller::Caller;
use feed::Feed;
use fold::Fold;
use guard::Guard;
pub(crate) use meta::Metrics;
use places::Places;
use polls::Polls;
use problem::Problem;
use routes::workers::Fleet;

/// The answer of a route, or why there is none.
type Answered<T> = Result<T, Problem>;

/// What a server holds a caller to.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of one body.
    pub(crate) body_bytes: usize,
    /// Bytes of one definition.
    pub(crate) definition_bytes: usize,
    /// How long a body may take to arrive.
    pub(crate) body_time: Duration,
    /// Requests that are worked on at once; those that wait for work do not count.
    pub(crate) requests: usize,
    /// Requests that may wait for work at once; and heartbeats, and listeners, each.
    pub(crate) polls: usize,
    /// Requests per second of one caller; 0 is no limit.
    pub(crate) rate: u32,
    /// Whether anybody may call while there are no tokens: on this machine alone.
    pub(crate) open: bool,
    /// Whether a store whose tokens were all revoked is open as one that never had any.
    pub(crate) without_tokens: bool,
    /// Listeners to events of one token.
    pub(crate) listeners: usize,
    /// Origins that pages of browsers may come from, beside the server's own.
    pub(crate) origins: Vec<String>,
}

/// What all routes share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<Shared>);

/// What an [`App`] points to.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) windlass: Windlass,
    pub(crate) limits: Limits,
    guard: Guard,
    fold: Fold,
    feed: Feed,
    polls: Polls,
    places: Places,
    fleet: Fleet,
    responder: Responder,
    meta: meta::Meta,
    stopping: tokio_util::sync::CancellationToken,
}

impl std::ops::Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(windlass: Windlass, limits: Limits, metrics: Metrics) -> Self {
        let store = windlass.store().clone();
        Self(Arc::new(Shared {
            guard: Guard::new(store.clone(), &limits),
            fold: Fold::start(store.clone()),
            feed: Feed::start(store.clone()),
            polls: Polls::start(&*store, limits.polls),
            places: Places::new(&limits),
            fleet: Fleet::default(),
            responder: Responder::new(store, uuid::Uuid::new_v4().as_u64_pair().0, env!("CARGO_PKG_VERSION")),
            meta: meta::Meta::new(metrics),
            stopping: tokio_util::sync::CancellationToken::new(),
            windlass,
            limits,
        }))
    }

    /// A client of the namespace that a caller named, or of the default one.
    fn client(&self, namespace: Option<&str>) -> Result<Client, windlass::Error> {
        match namespace {
            Some(namespace) => self.windlass.client().namespace(namespace),
            None => Ok(self.windlass.client()),
        }
    }

    /// Does what may take long where it keeps nobody else waiting; refused, if too many wait for that
    /// already.
    pub(crate) async fn evaluate<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answered<T> {
        if evaluators::is_full() {
            return Err(Problem::overloaded(
                "too many definitions and expressions wait to be checked; try again in a moment",
            ));
        }
        Ok(evaluators::run(work).await)
    }

    /// Whether a definition is short enough to be taken from a request.
    pub(crate) fn check_definition_size(&self, bytes: usize) -> Answered<()> {
        let most = self.limits.definition_bytes;
        if bytes <= most {
            return Ok(());
        }
        let detail = format!(
            "the definition has {bytes} bytes; this server takes at most {most} (its setting max_definition_bytes)"
        );
        Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail))
    }

    /// Whether there are tokens, so that others than this machine may be served.
    pub(crate) async fn has_tokens(&self) -> Result<bool, windlass::Error> {
        self.guard.tokens.are_there().await
    }

    /// Whether nobody may call, because every token was revoked.
    pub(crate) async fn are_all_tokens_revoked(&self) -> Result<bool, windlass::Error> {
        self.guard.tokens.are_all_revoked().await
    }

    /// Tells the store when tokens were last used.
    pub(crate) async fn record_token_use(&self) -> Result<(), windlass::Error> {
        self.guard.tokens.record_use().await
    }

    /// Lets requests that wait for something end with what there is.
    pub(crate) fn stop_waiting(&self) {
        self.stopping.cancel();
    }
}

/// All routes, and the description of them.
pub(crate) fn router(app: &App) -> Router {
    let (router, description) = openapi::describe(routes::all());
    let router = meta::with_description(router, &description).merge(routes::store::routes());
    guard::around(router, app).with_state(app.clone())
}

/// The description of all routes, as it is published.
pub(crate) fn description() -> String {
    let (_, description) = openapi::describe(routes::all());
    openapi::text(&description)
}

/// A name from outside, or the default one.
fn name_or_default(
    given: Option<&str>,
    read: impl Fn(&str) -> Result<Name, windlass::Invalid>,
) -> Result<Name, windlass::Invalid> {
    given.map_or_else(|| Ok(Name::default()), read)
}
