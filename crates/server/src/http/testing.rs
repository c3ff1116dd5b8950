//! A server for tests inside the process: its store fails, or holds calls back, when it is told to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower::ServiceExt;
use windlass::access::Scope;
use windlass::remote::WORKER_SECRET_HEADER;
use windlass::{AccessToken, Clock, Error, MemoryStore, Name, Timestamp, Windlass, Wrap, Wrapped};

use super::{App, Limits, Metrics, router};
use crate::secret::Fresh;

/// Lets others go on, and a clock that stands still move if nobody does.
pub(super) async fn moment() {
    tokio::time::sleep(Duration::from_millis(1)).await; // tidy: sleep: this is how tokio's paused clock is moved
}

/// What is done to calls of a store, and how often each was made. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan(Arc<Mutex<Planned>>);

#[derive(Debug, Default)]
struct Planned {
    faults: Vec<(&'static str, Fault)>,
    gates: HashMap<&'static str, Arc<Semaphore>>,
    calls: HashMap<&'static str, usize>,
}

/// What one call meets.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It is not made: the store is down.
    Down,
    /// The task that makes it panics.
    Panic,
}

impl Plan {
    fn planned(&self) -> MutexGuard<'_, Planned> {
        self.0.lock().unwrap()
    }

    /// The next call of this verb meets this.
    pub(super) fn once(&self, verb: &'static str, fault: Fault) {
        self.planned().faults.push((verb, fault));
    }

    /// From now on calls of this verb wait, until they are let through.
    pub(super) fn hold(&self, verb: &'static str) {
        self.planned().gates.insert(verb, Arc::new(Semaphore::new(0)));
    }

    /// Lets all calls of this verb through.
    pub(super) fn let_go(&self, verb: &'static str) {
        if let Some(gate) = self.planned().gates.remove(verb) {
            gate.close();
        }
    }

    /// How often a verb was called.
    pub(super) fn calls(&self, verb: &str) -> usize {
        self.planned().calls.get(verb).copied().unwrap_or(0)
    }

    /// Comes when a verb was called so often.
    pub(super) async fn called(&self, verb: &str, times: usize) {
        while self.calls(verb) < times {
            moment().await;
        }
    }

    fn meet(&self, verb: &'static str) -> (Option<Fault>, Option<Arc<Semaphore>>) {
        let mut planned = self.planned();
        *planned.calls.entry(verb).or_default() += 1;
        let at = planned.faults.iter().position(|(wanted, _)| *wanted == verb);
        (at.map(|at| planned.faults.remove(at).1), planned.gates.get(verb).cloned())
    }
}

#[async_trait]
impl Wrap for Plan {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let (fault, gate) = self.meet(verb);
        if let Some(gate) = gate {
            // It is opened by being closed.
            let _ = gate.acquire().await;
        }
        match fault {
            None => call.await,
            Some(Fault::Down) => Err(Error::Unavailable("down on purpose".into())),
            Some(Fault::Panic) => panic!("on purpose"),
        }
    }
}

/// A clock that goes as tokio's does, which a test may stop and move.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).plus(self.0.elapsed())
    }
}

/// A server.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) app: App,
    pub(super) plan: Plan,
    router: Router,
}

impl Served {
    pub(super) fn start() -> Self {
        Self::with(|_| ())
    }

    pub(super) fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let plan = Plan::default();
        let store =
            Wrapped::new(Arc::new(MemoryStore::new(Arc::new(TokioClock(Instant::now())))), plan.clone());
        let mut limits = Limits {
            body_bytes: 1 << 24,
            definition_bytes: 1 << 20,
            body_time: Duration::from_secs(30),
            requests: 256,
            polls: 5_000,
            rate: 0,
            open: true,
            without_tokens: false,
            listeners: 32,
            origins: Vec::new(),
        };
        change(&mut limits);
        let app = App::new(Windlass::new(Arc::new(store)), limits, Metrics::apart());
        Self { router: router(&app), app, plan }
    }

    /// Asks, and gives the status, the headers and the body.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, HeaderMap, Value) {
        let (status, headers, told) = self.ask_with(method, path, &[], &body).await;
        (status, headers, serde_json::from_str(&told).unwrap_or_default())
    }

    /// Asks with headers; comes when the answer has ended.
    pub(super) async fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
        body: &Value,
    ) -> (u16, HeaderMap, String) {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        request = request.header("host", "localhost");
        // All its workers have the same secret.
        let is_of_workers = path.starts_with("/v1/workers") || path.starts_with("/v1/store");
        if is_of_workers && !headers.iter().any(|(name, _)| *name == WORKER_SECRET_HEADER) {
            request = request.header(WORKER_SECRET_HEADER, format!("wlw_{}", "0".repeat(64)));
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body = if body.is_null() { Body::empty() } else { body.to_string().into() };
        let response = self.route(request.body(body).unwrap()).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Has the routes answer a request, whatever it is.
    pub(super) async fn route(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Makes a token that may do everything, and gives its secret.
    pub(super) async fn token(&self, name: &str, expires_at: Option<Timestamp>) -> String {
        let fresh = Fresh::make().unwrap();
        let token = AccessToken {
            name: Name::stored(name),
            id: fresh.id.clone(),
            digest: fresh.digest,
            scopes: [Scope::Admin].into(),
            queues: Vec::new(),
            namespaces: Vec::new(),
            groups: Vec::new(),
            created_at: Timestamp::MIN,
            created_by: None,
            expires_at,
            previous: Vec::new(),
            last_used_at: None,
        };
        self.app.windlass.store().put_access_token(token).await.unwrap();
        fresh.text
    }

    pub(super) async fn revoke(&self, name: &str) {
        self.app.windlass.store().revoke_access_token(Name::stored(name)).await.unwrap();
    }

    /// Comes when so many listen to events.
    pub(super) async fn listeners(&self, many: usize) {
        while self.app.feed.listeners() != many {
            moment().await;
        }
    }

    /// Asks what must be granted.
    pub(super) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, _, answer) = self.ask("POST", path, body).await;
        assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
        answer
    }

    /// Registers a worker for the kind `x`, and gives the path of its requests.
    pub(super) async fn worker(&self) -> String {
        let registered = self.post("/v1/workers", json!({ "kinds": ["x"] })).await;
        format!("/v1/workers/{}", registered["worker_id"].as_str().unwrap())
    }

    pub(super) async fn submit(&self) -> Value {
        self.post("/v1/tasks", json!({ "kind": "x" })).await["id"].clone()
    }

    /// Asks meanwhile.
    pub(super) fn asking(
        &self,
        path: String,
        body: Value,
    ) -> tokio::task::JoinHandle<(u16, HeaderMap, Value)> {
        let served = self.clone();
        tokio::spawn(async move { served.ask("POST", &path, body).await })
    }

    /// Comes when so many claims wait.
    pub(super) async fn waits(&self, many: usize) {
        while self.app.polls.waiting() != many {
            moment().await;
        }
    }
}
