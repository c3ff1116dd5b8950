//! What stands before all routes: who may come in, and how many at once.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tracing::{Instrument, error};
use windlass::remote::{STORE_PATH, WATCH_PATH, WORKER_SECRET_HEADER};
use windlass::{Store, WorkerSecret};

use super::bodies::{self, Bodies, Share};
use super::tokens::Tokens;
use super::{App, Caller, Limits, Problem, trace};

/// Routes whose callers wait, and who are counted where they wait.
const WAITING: [&str; 4] = ["/v1/workers/{id}/claim", "/v1/workers/{id}/heartbeat", "/v1/events", WATCH_PATH];

/// Routes on which nobody is told to slow down here: who is refused a heartbeat loses its leases, and among
/// calls of the store there are some as well, so those are counted where it is known what they are.
const UNCOUNTED: [&str; 2] = ["/v1/workers/{id}/heartbeat", STORE_PATH];

/// Routes that anybody may ask, and whose bodies nobody reads.
const OPEN: [&str; 4] = ["/health", "/ready", "/openapi.json", UNKNOWN];

/// The route of what has none.
const UNKNOWN: &str = "none";

/// Who may come in.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) tokens: Tokens,
    requests: Arc<Semaphore>,
    bodies: Bodies,
}

impl Guard {
    pub(super) fn new(store: Arc<dyn Store>, limits: &Limits) -> Self {
        let requests = Arc::new(Semaphore::new(limits.requests));
        Self { tokens: Tokens::new(store, limits.without_tokens), requests, bodies: Bodies::new() }
    }
}

/// Puts the guard before all routes.
pub(super) fn around(routes: Router<App>, app: &App) -> Router<App> {
    routes
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn(catch))
        .layer(from_fn_with_state(app.clone(), admit))
        .layer(from_fn_with_state(app.clone(), observe))
}

async fn unknown_route(uri: Uri) -> Problem {
    let detail = format!("there is no route {}; see /openapi.json", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "route_not_found", detail)
}

async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} cannot be asked with {method}; see /openapi.json", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// A fault in a route is answered, and counted, and ends nothing else.
async fn catch(request: Request, next: Next) -> Response {
    let mut running = pin!(next.run(request));
    // What is left of it after a panic is dropped and not looked at.
    let ended = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    });
    ended.await.unwrap_or_else(|| {
        error!("a request was ended by a fault");
        Problem::fault("the request was ended by a fault of the server; what it says is in the log")
            .into_response()
    })
}

/// The route of a request, as it is declared: a bounded number of words, for metrics.
fn route(request: &Request) -> String {
    request.extensions().get::<MatchedPath>().map_or_else(|| UNKNOWN.into(), |path| path.as_str().to_owned())
}

/// Counts requests, times them, makes each a span, and tells browsers how to treat the answer.
async fn observe(Shared(_): Shared<App>, request: Request, next: Next) -> Response {
    let (route, method, begun) = (route(&request), request.method().clone(), Instant::now());
    let span = trace::span(&request, &route);
    let mut response = next.run(request).instrument(span.clone()).await;
    trace::answered(&span, response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let method = match method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    let status = response.status().as_u16().to_string();
    metrics::counter!("windlass_http_requests_total", "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    metrics::histogram!("windlass_http_request_seconds", "route" => route, "method" => method)
        .record(begun.elapsed().as_secs_f64());
    response
}

/// Lets a request in, or says why not; a page that may ask is told either.
async fn admit(Shared(app): Shared<App>, request: Request, next: Next) -> Response {
    let origin = match check_host(&request).and_then(|()| check_origin(&app, &request)) {
        Ok(origin) => origin,
        Err(problem) => {
            let (head, body) = request.into_parts();
            bodies::ignore(body, &head.headers, &app.limits);
            return problem.into_response();
        }
    };
    if request.method() == Method::OPTIONS
        && let Some(origin) = &origin
    {
        return preflight(origin);
    }
    let mut response = let_in(&app, request, next).await.unwrap_or_else(Problem::into_response);
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// The answer of the route, if there is a place for the request. Nothing of a body is read before it is known
/// who calls.
async fn let_in(app: &App, request: Request, next: Next) -> Result<Response, Problem> {
    let route = route(&request);
    let (mut head, mut body) = request.into_parts();
    let is_open = OPEN.contains(&&*route);
    let reading = async {
        if is_open {
            return Ok((Caller::anybody(), Bytes::new(), Share::default()));
        }
        let caller = who(app, &route, &head.headers).await?;
        let caller = caller.with_worker_secret(worker_secret(&head.headers)?);
        let (bytes, share) = app.guard.bodies.read(&mut body, &app.limits).await?;
        Ok((caller, bytes, share))
    };
    let read: Result<_, Problem> = reading.await;
    // One that dawdles was waited for long enough.
    let is_late = read.as_ref().is_err_and(|problem| problem.status == StatusCode::REQUEST_TIMEOUT);
    if (is_open || read.is_err()) && !is_late {
        bodies::ignore(body, &head.headers, &app.limits);
    }
    let (caller, bytes, share) = read?;
    head.extensions.insert(caller);
    let place = match WAITING.contains(&&*route) || !route.starts_with("/v1") {
        true => None,
        false => Some(app.guard.requests.clone().try_acquire_owned().map_err(|_| {
            Problem::overloaded("the server works on as many requests as it may; try again in a moment")
        })?),
    };
    let response = next.run(Request::from_parts(head, Body::from(bytes))).await;
    drop((place, share));
    Ok(response)
}

/// Who calls.
async fn who(app: &App, route: &str, headers: &HeaderMap) -> Result<Caller, Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let caller = app.guard.tokens.recognise(text(header::AUTHORIZATION), app.limits.open).await?;
    let is_elsewhere = |host: &HeaderValue| !host.to_str().is_ok_and(is_here);
    if caller.is_anybody() && headers.get(header::HOST).is_some_and(is_elsewhere) {
        // Elsewhere a name may be made to point here, and a page of that name then counts as ours.
        return Err(Problem::forbidden("without tokens, ask localhost or an address, not another name"));
    }
    if caller.is_anybody()
        && let Some(sign) = headers.keys().map(HeaderName::as_str).find(|name| is_of_proxy(name))
    {
        // It speaks for others, from wherever they come.
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "proxy_without_tokens",
            format!(
                "the request came through a proxy (it has the header {sign:?}), and without tokens only this machine is served; create a token with `windlass token create`"
            ),
        ));
    }
    if !UNCOUNTED.contains(&route) {
        app.guard.tokens.count(&caller, app.limits.rate)?;
    }
    Ok(caller)
}

/// The secret of the worker that calls, if it sent one.
fn worker_secret(headers: &HeaderMap) -> Result<Option<WorkerSecret>, Problem> {
    let mut sent = headers.get_all(WORKER_SECRET_HEADER).iter();
    let Some(secret) = sent.next() else { return Ok(None) };
    match (secret.to_str(), sent.next()) {
        (Ok(secret), None) => Ok(Some(WorkerSecret::sent(secret))),
        _ => Err(Problem::bad_request(format!(
            "send one header {WORKER_SECRET_HEADER}, of visible characters"
        ))),
    }
}

/// Whether a header is one that proxies add.
fn is_of_proxy(header: &str) -> bool {
    header.starts_with("x-forwarded-") || ["forwarded", "x-real-ip", "via"].contains(&header)
}

/// Whether a host is this machine, or an address.
fn is_here(host: &str) -> bool {
    let is_port = |text: &str| text.is_empty() || text.parse::<u16>().is_ok();
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, rest)) => (address, Some(rest.strip_prefix(':').unwrap_or("none"))),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if !port.is_none_or(is_port) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// What a page from an origin that is allowed may do.
fn preflight(origin: &HeaderValue) -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE")),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(
                "authorization, content-type, last-event-id, traceparent, windlass-worker-secret",
            ),
        ),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        (header::VARY, HeaderValue::from_static("origin")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Every request names one host, so that no proxy before this server takes it for another's. Probes that
/// speak HTTP/1.0 need not.
fn check_host(request: &Request) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let is_probe = request.version() == Version::HTTP_10 && OPEN.contains(&&*route(request));
    let named = request.uri().authority().map(|authority| authority.as_str());
    match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
        (Some(Ok(host)), None) if named.is_none_or(|named| named == host) => Ok(()),
        (Some(Ok(_)), None) => {
            Err(Problem::bad_request("the address of the request and its header Host name different servers"))
        }
        (None, None) if is_probe => Ok(()),
        (None, None) => Err(Problem::bad_request("the request has no header Host; send one")),
        _ => Err(Problem::bad_request(
            "the request has more than one header Host, or one that is no text; send one",
        )),
    }
}

/// A browser says which page a request comes from. One from elsewhere is let in only if its origin is
/// allowed, and then told so.
fn check_origin(app: &App, request: &Request) -> Result<Option<HeaderValue>, Problem> {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    let Some(origin) = headers.get(header::ORIGIN) else {
        let site = text(HeaderName::from_static("sec-fetch-site"));
        let is_elsewhere = matches!(site, Some("cross-site" | "same-site"));
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
        return match is_elsewhere && changes {
            true => Err(Problem::forbidden("pages from elsewhere may not change anything here")),
            false => Ok(None),
        };
    };
    let given = origin.to_str().unwrap_or_default();
    if app.limits.origins.iter().any(|allowed| allowed == given) {
        return Ok(Some(origin.clone()));
    }
    let its_host = given.split_once("://").map(|(_, host)| host);
    if its_host.zip(host).is_some_and(|(its_host, host)| its_host.eq_ignore_ascii_case(host)) {
        return Ok(None);
    }
    let detail = format!("pages from {given:?} may not use this server; --allow-origin lets them");
    Err(Problem::forbidden(detail))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Served;
    use super::*;
    use axum::body::to_bytes;
    use axum::routing::get;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    #[tokio::test]
    async fn more_requests_than_may_be_worked_on_are_told_to_come_later() {
        let served = Served::with(|limits| limits.requests = 2);
        served.plan.hold("submit");
        let submits: Vec<_> =
            (0..2).map(|_| served.asking("/v1/tasks".into(), json!({ "kind": "x" }))).collect();
        served.plan.called("submit", 2).await;
        let (status, headers, problem) = served.ask("GET", "/v1/stats", Value::Null).await;
        assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{problem}");
        assert_eq!(headers[header::RETRY_AFTER], "1");
        assert_eq!(served.ask("GET", "/health", Value::Null).await.0, 200, "it lives all the same");
        served.plan.let_go("submit");
        for submit in submits {
            assert_eq!(submit.await.unwrap().0, 201);
        }
        assert_eq!(served.ask("GET", "/v1/stats", Value::Null).await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_are_not_refused_for_being_many() {
        use windlass::remote::{PROTOCOL, PROTOCOL_HEADER, STORE_PATH};
        let served = Served::with(|limits| limits.rate = 2);
        let me = served.worker().await;
        let id = me.rsplit('/').next().unwrap();
        let mut refused = 0;
        for _ in 0..10 {
            let (status, headers, problem) = served.ask("GET", "/v1/stats", Value::Null).await;
            if status == 429 {
                assert_eq!(
                    (&problem["code"], &headers[header::RETRY_AFTER]),
                    (&json!("rate_limited"), &HeaderValue::from(1))
                );
                refused += 1;
            }
            assert_eq!(served.ask("POST", &format!("{me}/heartbeat"), Value::Null).await.0, 200);
        }
        assert_eq!(refused, 9);
        // Nor those of programs whose store is this server.
        let version = [(PROTOCOL_HEADER, PROTOCOL.to_string())];
        for (call, expected) in [
            (json!({ "heartbeat": { "worker": id, "held": [] } }), 200),
            (json!({ "counts": {} }), 429),
            (json!({ "nothing": {} }), 429),
        ] {
            let (status, _, told) = served.ask_with("POST", STORE_PATH, &version, &call).await;
            assert_eq!(status, expected, "{call}: {told}");
        }
    }

    #[tokio::test]
    async fn a_fault_is_answered() {
        let bad = async || -> &'static str { panic!("on purpose") };
        let late = async || -> &'static str {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        let good = async || "good";
        let routes =
            Router::new().route("/bad", get(bad)).route("/late", get(late)).route("/good", get(good));
        let routes: Router = routes.layer(from_fn(catch));
        for path in ["/bad", "/late"] {
            let asked =
                routes.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(asked.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(asked.headers()[header::CONTENT_TYPE], "application/problem+json");
            let body = to_bytes(asked.into_body(), 10_000).await.unwrap();
            let problem: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(problem["code"], "fault");
        }
        let asked = routes.oneshot(Request::get("/good").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(asked.status(), StatusCode::OK);
    }

    /// A server behind a proxy on the same machine was open to everyone who reached the proxy.
    #[tokio::test]
    async fn without_tokens_what_came_through_a_proxy_is_refused() {
        let served = Served::start();
        for (header, value) in [
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "192.0.2.1"),
            ("via", "1.1 proxy"),
            ("Via", ""),
        ] {
            let headers = [(header, value.to_owned())];
            let (status, _, told) = served.ask_with("GET", "/v1/tasks", &headers, &Value::Null).await;
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!((status, &told["code"]), (403, &json!("proxy_without_tokens")), "{header}");
            assert!(told["detail"].as_str().unwrap().contains("windlass token create"));
            assert_eq!(served.ask_with("GET", "/health", &headers, &Value::Null).await.0, 200);
        }
        assert_eq!(served.ask("GET", "/v1/tasks", Value::Null).await.0, 200);
        let token = served.token("first", None).await;
        let headers = [("via", "1.1 proxy".into()), ("authorization", format!("Bearer {token}"))];
        assert_eq!(served.ask_with("GET", "/v1/tasks", &headers, &Value::Null).await.0, 200);
    }

    #[test]
    fn names_that_may_be_made_to_point_here_are_told_apart() {
        for here in [
            "localhost",
            "LOCALHOST",
            "LocalHost:1",
            "localhost:7070",
            "127.0.0.1:1",
            "10.0.0.1",
            "[::1]:7070",
            "[::1]",
        ] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "",
            "evil.example",
            "localhost.evil.example:7070",
            "127.0.0.1.nip.example",
            "[x]",
            "[::1]evil.example",
            "[::1]:x",
            "localhost:7070:x",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
