//! What routes read from a request. Whatever cannot be read is refused in the one shape.

use std::str::FromStr;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use windlass::evaluators;

use super::App;
use super::problem::Problem;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &App) -> Result<Self, Problem> {
        check_type(&request, &["application/json"])?;
        let bytes = read(request.into_body()).await?;
        evaluators::read(bytes.len(), move || read_json(&bytes)).await.map(Self)
    }
}

/// A JSON body that may be left out: then it is as if it were `{}`.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &App) -> Result<Self, Problem> {
        let typed = check_type(&request, &["application/json"]);
        let bytes = read(request.into_body()).await?;
        if bytes.is_empty() {
            return read_json(b"{}").map(Self);
        }
        typed?;
        evaluators::read(bytes.len(), move || read_json(&bytes)).await.map(Self)
    }
}

/// A definition, in YAML or JSON.
#[derive(Debug)]
pub(crate) struct Document(pub(crate) String);

impl FromRequest<App> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(&request, &["application/yaml", "application/json"])?;
        let bytes = read(request.into_body()).await?;
        app.check_definition_size(bytes.len())?;
        String::from_utf8(bytes.into())
            .map(Self)
            .map_err(|_| Problem::bad_body("the definition is not UTF-8 text; send YAML or JSON in UTF-8"))
    }
}

/// A web page can send other types to any address without asking; these it cannot.
pub(super) fn check_type(request: &Request, accepted: &[&str]) -> Result<(), Problem> {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if accepted.iter().any(|accepted| given.eq_ignore_ascii_case(accepted)) {
        return Ok(());
    }
    let detail = format!("the content type is {given:?}; send {}", accepted.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail))
}

/// All of a body, which is here already: see [`super::guard`].
pub(super) async fn read(body: Body) -> Result<Bytes, Problem> {
    let read = body.collect().await.map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(read.to_bytes())
}

fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Fields without their names, in a list, would be accepted as well.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::bad_body("the body is a list; send an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        Problem::bad_body(format!("{place}{}", error.inner()))
    })?;
    reader.end().map_err(|error| Problem::bad_body(format!("more than one JSON value: {error}")))?;
    Ok(value)
}

/// Something with a textual form in the path.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: FromStr> FromRequestParts<App> for InPath<T>
where
    T::Err: ToString,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Path(text) = path::<String>(parts, app).await?;
        parse(&text).map(Self)
    }
}

/// Two of them.
#[derive(Debug)]
pub(crate) struct BothInPath<A, B>(pub(crate) A, pub(crate) B);

impl<A: FromStr, B: FromStr> FromRequestParts<App> for BothInPath<A, B>
where
    A::Err: ToString,
    B::Err: ToString,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Path((one, other)) = path::<(String, String)>(parts, app).await?;
        Ok(Self(parse(&one)?, parse(&other)?))
    }
}

async fn path<T: DeserializeOwned + Send>(parts: &mut Parts, app: &App) -> Result<Path<T>, Problem> {
    Path::from_request_parts(parts, app).await.map_err(|error| Problem::bad_request(error.body_text()))
}

fn parse<T: FromStr>(text: &str) -> Result<T, Problem>
where
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| Problem::bad_request(error.to_string()))
}

/// What stands after the `?`. Names that mean nothing are refused: they would be mistakes.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|error| Problem::bad_request(error.body_text()))
    }
}
