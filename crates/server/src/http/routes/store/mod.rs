//! `/v1/store`: the store itself, for Windlass's own programs: the command line with `--server`, and Rust programs whose store is a server.
//!
//! One call of the store is one request. It is not part of the published description: what is sent has the shape of this version's types, and
//! both sides say which protocol they speak. What a caller may do is the same as by the other routes.

mod deeds;
mod queues;
mod scopes;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::time::{Instant, sleep_until};
use windlass::Error;
use windlass::remote::{Answering, Call, LONGEST_WATCH, PROTOCOL, PROTOCOL_HEADER, STORE_PATH, WATCH_PATH};

use super::super::extract::{check_type, read};
use super::super::{Answered, App, Caller, Problem};

pub(crate) fn routes() -> Router<App> {
    Router::new().route(STORE_PATH, post(ask)).route(WATCH_PATH, post(watch))
}

/// Has the store do something.
async fn ask(Shared(app): Shared<App>, caller: Caller, request: Request) -> Response {
    respond(asked(&app, caller, request).await)
}

/// Waits for a bell of the store.
async fn watch(Shared(app): Shared<App>, caller: Caller, request: Request) -> Response {
    respond(watched(&app, &caller, request).await)
}

async fn asked(app: &App, caller: Caller, request: Request) -> Answered<Vec<u8>> {
    let decoded = decode(request).await;
    if !matches!(decoded, Ok(Ok(Call::Heartbeat { .. }))) {
        app.guard.tokens.count(&caller, app.limits.rate)?;
    }
    let call = match decoded? {
        Ok(call) => call,
        Err(refused) => return Ok(app.answering.refusal(refused)),
    };
    if matches!(call, Call::Watch { .. }) {
        return Err(Problem::bad_body(format!("who waits asks {WATCH_PATH}")));
    }
    scopes::check(&caller, &call)?;
    let app = app.clone();
    // A request may go away; what it has begun may not.
    let doing = tokio::spawn(async move {
        queues::check(&app, &caller, &call).await?;
        let call = deeds::by(&caller, call);
        deeds::write_down(&app, &caller, &call).await?;
        let changed = match &call {
            Call::Register { worker } => Some(worker.id.clone()),
            Call::Deregister { worker } => Some(worker.clone()),
            _ => None,
        };
        let answer = app.answering.answer_within(call, &|queues| caller.sees(queues)).await;
        // What is remembered of it may not hold any more.
        changed.iter().for_each(|worker| app.fleet.forget(worker));
        Ok(answer)
    });
    doing.await.map_err(|_| Problem::fault("the call was ended by a fault"))?
}

async fn watched(app: &App, caller: &Caller, request: Request) -> Answered<Vec<u8>> {
    let call = match decode(request).await? {
        Ok(call) => call,
        Err(refused) => return Ok(app.answering.refusal(refused)),
    };
    let Call::Watch { server, heard } = call else {
        return Err(Problem::bad_body(format!("who does not wait asks {STORE_PATH}")));
    };
    scopes::check(caller, &call)?;
    let _seat = app.polls.seat()?;
    tokio::select! {
        biased;
        () = app.stopping.cancelled() => {}
        () = app.answering.rung(server, heard) => {}
        () = sleep_until(Instant::now() + LONGEST_WATCH) => {}
    }
    Ok(app.answering.answer(call).await)
}

/// The call in a request. The inner error is one that the store would have, and is told as such.
async fn decode(request: Request) -> Answered<Result<Call, Error>> {
    let spoken = request.headers().get(PROTOCOL_HEADER).and_then(|value| value.to_str().ok());
    if spoken != Some(&*PROTOCOL.to_string()) {
        let detail = format!(
            "the server speaks protocol {PROTOCOL}, this program {}; use the same version of both",
            spoken.unwrap_or("none")
        );
        return Err(Problem::new(StatusCode::CONFLICT, "protocol_mismatch", detail));
    }
    check_type(&request, &["application/json"])?;
    match Answering::read(&read(request.into_body()).await?) {
        Err(Error::Unusable(why)) => Err(Problem::bad_body(why)),
        read => Ok(read),
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
