//! What went wrong, for programs: one shape, with a stable code, for every refusal of every route.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Error, Invalid, Rejected};

/// After how many seconds a request that could not be served may be tried again.
const RETRY_AFTER: u32 = 1;

/// Every code there is, with its status. `docs/http.md` says what each means; a code that was told once is
/// never given another meaning.
const CODES: [(&str, StatusCode); 67] = [
    // Of the server.
    ("bad_request", StatusCode::BAD_REQUEST),
    ("unauthenticated", StatusCode::UNAUTHORIZED),
    ("forbidden", StatusCode::FORBIDDEN),
    ("worker_secret_required", StatusCode::FORBIDDEN),
    ("wrong_worker_secret", StatusCode::FORBIDDEN),
    ("proxy_without_tokens", StatusCode::FORBIDDEN),
    ("route_not_found", StatusCode::NOT_FOUND),
    ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED),
    ("timeout", StatusCode::REQUEST_TIMEOUT),
    ("protocol_mismatch", StatusCode::CONFLICT),
    ("too_large", StatusCode::PAYLOAD_TOO_LARGE),
    ("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ("invalid_body", StatusCode::UNPROCESSABLE_ENTITY),
    ("rate_limited", StatusCode::TOO_MANY_REQUESTS),
    ("too_many_listeners", StatusCode::TOO_MANY_REQUESTS),
    ("fault", StatusCode::INTERNAL_SERVER_ERROR),
    ("overloaded", StatusCode::SERVICE_UNAVAILABLE),
    ("stopping", StatusCode::SERVICE_UNAVAILABLE),
    // Of the store.
    ("store_closed", StatusCode::SERVICE_UNAVAILABLE),
    ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
    ("unknown_outcome", StatusCode::SERVICE_UNAVAILABLE),
    ("unusable", StatusCode::SERVICE_UNAVAILABLE),
    ("store_moved", StatusCode::SERVICE_UNAVAILABLE),
    // What is not there.
    ("task_not_found", StatusCode::NOT_FOUND),
    ("step_not_found", StatusCode::NOT_FOUND),
    ("workflow_not_found", StatusCode::NOT_FOUND),
    ("definition_not_found", StatusCode::NOT_FOUND),
    ("schedule_not_found", StatusCode::NOT_FOUND),
    ("worker_not_found", StatusCode::NOT_FOUND),
    // What cannot be meant.
    ("invalid_task", StatusCode::UNPROCESSABLE_ENTITY),
    ("invalid_worker", StatusCode::UNPROCESSABLE_ENTITY),
    ("unknown_entity", StatusCode::UNPROCESSABLE_ENTITY),
    ("cycle", StatusCode::UNPROCESSABLE_ENTITY),
    ("invalid_definition", StatusCode::UNPROCESSABLE_ENTITY),
    ("too_deep", StatusCode::UNPROCESSABLE_ENTITY),
    ("lane_held_above", StatusCode::UNPROCESSABLE_ENTITY),
    ("lane_not_evaluated", StatusCode::UNPROCESSABLE_ENTITY),
    // What the state of things does not allow.
    ("already_claimed", StatusCode::CONFLICT),
    ("not_claimed", StatusCode::CONFLICT),
    ("task_completed", StatusCode::CONFLICT),
    ("task_failed", StatusCode::CONFLICT),
    ("task_settled", StatusCode::CONFLICT),
    ("max_attempts_reached", StatusCode::CONFLICT),
    ("wrong_worker", StatusCode::CONFLICT),
    ("lease_lost", StatusCode::CONFLICT),
    ("lease_alive", StatusCode::CONFLICT),
    ("key_conflict", StatusCode::CONFLICT),
    ("id_conflict", StatusCode::CONFLICT),
    ("not_final", StatusCode::CONFLICT),
    ("lane_full", StatusCode::CONFLICT),
    ("queue_paused", StatusCode::CONFLICT),
    ("not_due", StatusCode::CONFLICT),
    ("waiting", StatusCode::CONFLICT),
    ("not_timed", StatusCode::CONFLICT),
    ("not_retrying", StatusCode::CONFLICT),
    ("unreadable", StatusCode::CONFLICT),
    ("schedule_moved", StatusCode::CONFLICT),
    ("is_step", StatusCode::CONFLICT),
    ("not_step", StatusCode::CONFLICT),
    ("workflow_over", StatusCode::CONFLICT),
    ("workflow_moved", StatusCode::CONFLICT),
    ("workflow_owned", StatusCode::CONFLICT),
    ("workflow_id_conflict", StatusCode::CONFLICT),
    ("workflow_key_conflict", StatusCode::CONFLICT),
    ("definition_conflict", StatusCode::CONFLICT),
    ("token_conflict", StatusCode::CONFLICT),
    ("not_leader", StatusCode::CONFLICT),
];

/// A refusal, as `application/problem+json`.
#[derive(Serialize, ToSchema, Clone, PartialEq, Debug)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// A word that never changes its meaning, such as `task_not_found`; docs/http.md lists all of them.
    pub(crate) code: String,
    /// The status in words.
    pub(crate) title: String,
    /// What was wrong, and what would be accepted.
    pub(crate) detail: String,
    /// Which one of a batch it is about, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<usize>,
    /// The mistakes of a definition, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(crate) problems: Vec<Mistake>,
}

/// A mistake in a definition.
#[derive(Serialize, ToSchema, Clone, PartialEq, Debug)]
pub(crate) struct Mistake {
    /// The line, from 1, if it is known.
    pub(crate) line: Option<usize>,
    /// The column, from 1, if it is known.
    pub(crate) column: Option<usize>,
    /// Where in the definition.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) advice: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        debug_assert_eq!(status_of(code), Some(status), "{code} is in the list, with this status");
        Self {
            status: status.as_u16(),
            code: code.into(),
            title: status.canonical_reason().unwrap_or("Refused").into(),
            detail: detail.into(),
            index: None,
            problems: Vec::new(),
        }
    }

    /// A path or a query that cannot be meant.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// A body that cannot be meant.
    pub(crate) fn bad_body(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", detail)
    }

    /// The server has too much to do.
    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
    }

    /// Something in the server went wrong that never should.
    pub(crate) fn fault(detail: &str) -> Self {
        metrics::counter!("windlass_http_faults_total").increment(1);
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }
}

/// The status for a refusal, which its code alone decides.
fn status_of(code: &str) -> Option<StatusCode> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, status)| *status)
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        let code = match &rejected {
            // A worker that nobody knows is not the same as a name that cannot be one.
            Rejected::InvalidWorker { .. } => "worker_not_found",
            other => other.code(),
        };
        Self::new(status_of(code).unwrap_or(StatusCode::CONFLICT), code, rejected.to_string())
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Rejected::from(invalid).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let unavailable = |error: &Error| {
            let status = status_of(error.code()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            Self::new(status, error.code(), error.to_string())
        };
        match error {
            Error::Rejected(rejected) => rejected.into(),
            Error::InBatch { index, rejected } => Self { index: Some(index), ..Self::from(rejected) },
            error => unavailable(&error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Nothing in it can fail to be written.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_refusal_says_which_of_a_batch_it_is() {
        let rejected = Rejected::from(Invalid::number("priority", 1, "less"));
        let problem = Problem::from(Error::InBatch { index: 7, rejected });
        assert_eq!((problem.status, &*problem.code, problem.index), (422, "invalid_task", Some(7)));
    }

    #[test]
    fn what_is_too_large_says_so_wherever_it_is() {
        let long = format!("\"{}\"", "x".repeat(windlass::limits::JSON_BYTES));
        for field in ["payload", "result"] {
            let problem = Problem::from(windlass::Json::new(field, &long).unwrap_err());
            assert_eq!((problem.status, &*problem.code), (413, "too_large"));
        }
    }

    /// The codes in a source, between two texts.
    fn codes(path: &str, from: &str, to: &str) -> BTreeSet<String> {
        let source = std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let part = source.split_once(from).unwrap().1.split_once(to).unwrap().0;
        let words = part.lines().filter_map(|line| line.split_once("=> \"")?.1.split('"').next());
        words.map(str::to_owned).collect()
    }

    /// What the core and the store call their refusals is in the list, so that it has a status and a line in
    /// the page.
    #[test]
    fn the_list_has_every_code() {
        let core = codes("core/src/rejected.rs", "pub fn code", "\n    }\n");
        let store = codes("store/src/error.rs", "pub fn code", "\n    }\n");
        assert!(core.len() > 40 && store.len() == 6, "{core:?} {store:?}");
        for code in core.iter().chain(&store) {
            assert!(status_of(code).is_some(), "{code} is not in CODES");
        }
        assert_eq!(CODES.iter().map(|(code, _)| code).collect::<BTreeSet<_>>().len(), CODES.len());
    }

    #[test]
    fn the_page_lists_every_code_with_its_status() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
        let page = std::fs::read_to_string(path).unwrap();
        let row = |line: &str| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let code = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
            Some((code, cells.next()?.parse::<u16>().ok()?))
        };
        let listed: BTreeSet<_> = page.lines().filter_map(row).collect();
        let known: BTreeSet<_> =
            CODES.iter().map(|(code, status)| ((*code).to_owned(), status.as_u16())).collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn a_store_that_is_down_can_be_asked_again() {
        let response = Problem::from(Error::Unavailable("gone".into())).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
