//! `/v1/store`: the store itself, for Windlass's own programs: the command line with `--server`, and Rust
//! programs whose store is a server.
//!
//! One call of the store is one request. It is not part of the published description: what is sent has the
//! shape of this version's types, and both sides say which protocol they speak. What a caller may do is the
//! same as by the other routes.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::time::{Instant, sleep_until};
use windlass::remote::{LONGEST_WATCH, PROTOCOL, PROTOCOL_HEADER, Responder, STORE_PATH, WATCH_PATH};
use windlass::verbs::{Call, ConnectionCall, Define, Deregister, Register, Start};
use windlass::{Definition, Error, Source, evaluators};

use super::super::extract::{check_type, read};
use super::super::{Answered, App, Caller, Problem};

pub(crate) fn routes() -> Router<App> {
    Router::new().route(STORE_PATH, post(ask)).route(WATCH_PATH, post(watch))
}

/// Has the store do something.
async fn ask(Shared(app): Shared<App>, caller: Caller, request: Request) -> Response {
    respond(asked(&app, caller, request).await)
}

/// Waits for a wake-up of the store.
async fn watch(Shared(app): Shared<App>, request: Request) -> Response {
    respond(watched(&app, request).await)
}

async fn asked(app: &App, caller: Caller, request: Request) -> Answered<Vec<u8>> {
    let decoded = decode(app, request).await;
    if !matches!(decoded, Ok(Ok(Call::Heartbeat(_)))) {
        app.guard.tokens.count(&caller, app.limits.rate)?;
    }
    let call = match decoded? {
        Ok(call) => call,
        Err(refused) => return Ok(app.responder.refusal(refused)),
    };
    if matches!(call, Call::Connection(ConnectionCall::Watch { .. })) {
        return Err(Problem::bad_body(format!("to wait for a wake-up, post to {WATCH_PATH}")));
    }
    let app = app.clone();
    // A request may go away; what it has begun may not.
    let doing = tokio::spawn(async move {
        let changed = match &call {
            Call::Register(Register { worker }) => Some(worker.id.clone()),
            Call::Deregister(Deregister { worker }) => Some(worker.clone()),
            _ => None,
        };
        let answer = app.responder.answer_through(&app.gate(&caller), call).await;
        // What is remembered of it may not hold any more.
        changed.iter().for_each(|worker| app.fleet.forget(worker));
        answer
    });
    doing.await.map_err(|_| Problem::fault("the call was ended by a fault"))?
}

async fn watched(app: &App, request: Request) -> Answered<Vec<u8>> {
    let call = match decode(app, request).await? {
        Ok(call) => call,
        Err(refused) => return Ok(app.responder.refusal(refused)),
    };
    let Call::Connection(ConnectionCall::Watch { server, heard }) = call else {
        return Err(Problem::bad_body(format!("what does not wait is posted to {STORE_PATH}")));
    };
    let _seat = app.polls.seat()?;
    tokio::select! {
        biased;
        () = app.stopping.cancelled() => {}
        () = app.responder.wait(server, heard) => {}
        () = sleep_until(Instant::now() + LONGEST_WATCH) => {}
    }
    Ok(app.responder.answer(call).await)
}

/// The call in a request. The inner error is one that the store would have, and is told as such.
async fn decode(app: &App, request: Request) -> Answered<Result<Call, Error>> {
    let spoken = request.headers().get(PROTOCOL_HEADER).and_then(|value| value.to_str().ok());
    if spoken != Some(&*PROTOCOL.to_string()) {
        let detail = format!(
            "the server speaks protocol {PROTOCOL}, this program {}; use the same version of both",
            spoken.unwrap_or("none")
        );
        return Err(Problem::new(StatusCode::CONFLICT, "protocol_mismatch", detail));
    }
    check_type(&request, &["application/json"])?;
    let bytes = read(request.into_body()).await?;
    let (length, most) = (bytes.len(), app.limits.definition_bytes);
    let read = move || {
        let read = Responder::read(&bytes);
        // A short request holds no long definition.
        let definition = read.as_ref().ok().and_then(definition).filter(|_| length > most);
        let size = definition.map_or(0, |definition| definition.content().len());
        (read, size)
    };
    let (read, size) = evaluators::read(length, read).await;
    app.check_definition_size(size)?;
    match read {
        Err(Error::Unusable(why)) => Err(Problem::bad_body(why)),
        read => Ok(read),
    }
}

/// The definition that comes with a call.
fn definition(call: &Call) -> Option<&Definition> {
    match call {
        Call::Define(Define { definition, .. }) => Some(definition),
        Call::Start(Start { workflow }) => match &workflow.source {
            Source::AdHoc(definition) => Some(definition),
            Source::Named { .. } => None,
        },
        _ => None,
    }
}

fn respond(answered: Answered<Vec<u8>>) -> Response {
    let mut response = match answered {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response(),
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(PROTOCOL_HEADER, HeaderValue::from(PROTOCOL));
    response
}
