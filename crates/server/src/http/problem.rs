//! What went wrong, for programs: one shape, with a stable code, for every refusal of every route.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Error, Invalid, Rejected};

/// After how many seconds a request that could not be served may be tried again.
const RETRY_AFTER: u32 = 1;

/// A refusal, as `application/problem+json`.
#[derive(Serialize, ToSchema, Clone, PartialEq, Debug)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// A word that never changes its meaning, such as `task_not_found`.
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

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }
}

/// The status for a refusal, which its code alone decides.
fn status_of(code: &str) -> StatusCode {
    match code {
        "task_not_found"
        | "workflow_not_found"
        | "definition_not_found"
        | "schedule_not_found"
        | "worker_not_found" => StatusCode::NOT_FOUND,
        "invalid_task" | "invalid_worker" | "unknown_entity" | "cycle" | "invalid_definition"
        | "too_deep" => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::CONFLICT,
    }
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        let code = match &rejected {
            // A worker that nobody knows is not the same as a name that cannot be one.
            Rejected::InvalidWorker { .. } => "worker_not_found",
            other => other.code(),
        };
        Self::new(status_of(code), code, rejected.to_string())
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Rejected::from(invalid).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let unavailable =
            |error: &Error| Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), error.to_string());
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

    #[test]
    fn a_refusal_says_which_of_a_batch_it_is() {
        let rejected = Rejected::from(Invalid::number("priority", 1, "less"));
        let problem = Problem::from(Error::InBatch { index: 7, rejected });
        assert_eq!((problem.status, &*problem.code, problem.index), (422, "invalid_task", Some(7)));
    }

    #[test]
    fn a_store_that_is_down_can_be_asked_again() {
        let response = Problem::from(Error::Unavailable("gone".into())).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
