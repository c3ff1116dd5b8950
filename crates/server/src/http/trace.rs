//! What a request is part of.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use tracing::field::Empty;
use tracing::{Span, info_span};
use windlass::{TraceParent, trace};

use super::App;

/// How the header is described.
pub(super) const TRACEPARENT: &str =
    "What the request is part of: a W3C trace context. One that cannot be read is ignored";

/// What tasks of a request are part of if they name nothing: what its header says. Nothing, if the request
/// has a span that is recorded: then they are part of a span within that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace(pub(crate) Option<TraceParent>);

impl FromRequestParts<App> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let is_recorded = trace::identify(&Span::current()).is_some();
        Ok(Self(if is_recorded { None } else { read(&parts.headers) }))
    }
}

/// The header of a request. As the specification says, one that cannot be read, or that is there twice, is as
/// if it were not there.
pub(super) fn read(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all("traceparent").iter();
    let only = given.next().filter(|_| given.next().is_none())?;
    only.to_str().ok()?.parse().ok()
}

/// The span of a request, which is part of what its header says. Only a tracer has a use for it. Who asks
/// whether the server lives, again and again, is no story to be told.
pub(super) fn span(request: &Request, route: &str) -> Span {
    if !trace::is_on() || ["/health", "/ready", "/metrics"].contains(&route) {
        return Span::none();
    }
    let method = request.method().as_str();
    let span = info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    trace::follow(&span, read(request.headers()));
    span
}

/// A request was answered.
pub(super) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let value = |value: &&[u8]| ("traceparent".parse().unwrap(), HeaderValue::from_bytes(value).unwrap());
        values.iter().map(value).collect()
    }

    #[test]
    fn one_header_is_read() {
        assert_eq!(read(&headers(&[GIVEN.as_bytes()])), GIVEN.parse().ok());
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        let given = GIVEN.as_bytes();
        for bad in [&[][..], &[given, given], &[given, b"x"], &[b""], &[&given[1..]], &[b"00-\xff"]] {
            assert_eq!(read(&headers(bad)), None, "{bad:?}");
        }
    }
}
