//! `/v1/events`: changes as they happen, as server-sent events.
//!
//! Who reconnects says with `Last-Event-ID`, as every client of such streams does by itself, what it has
//! heard; it is told everything since, once. If that is not possible any more, it is told so (`reset`), and
//! has to look at everything anew.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::ListTasks;
use windlass::{
    Change, Event, EventId, Events, Filter, Invalid, Name, Page, State, TaskId, WorkflowId, WorkflowState,
};

use super::super::extract::Query;
use super::super::feed::Listener;
use super::super::places::ListenerPlace;
use super::super::{Answered, App, Caller, Problem};
use super::tasks::bad_query;

/// How long nothing is said at most: a connection on which nothing is said may be cut by those in between.
const SILENCE: Duration = Duration::from_secs(15);

/// How often it is looked whether who listens still may: so long a token that was revoked is of use, beside
/// what the server remembers.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long a client waits before it reconnects, in milliseconds.
const RECONNECT: u32 = 1_000;

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Which changes. Everything that is said must hold.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Of this task
    task: Option<String>,
    /// Of this workflow and its steps
    workflow: Option<String>,
    namespace: Option<String>,
    /// Of tasks of this queue
    queue: Option<String>,
    /// Of tasks of this kind
    kind: Option<String>,
    /// Of workflows of this definition
    definition: Option<String>,
    /// To this state; several with commas
    state: Option<String>,
    /// What was heard last, for those who cannot send the header `Last-Event-ID`
    last_event_id: Option<String>,
}

/// Which changes.
#[derive(Debug)]
struct Wanted {
    task: Option<TaskId>,
    workflow: Option<WorkflowId>,
    namespace: Option<Name>,
    queue: Option<Name>,
    kind: Option<Name>,
    definition: Option<Name>,
    /// Empty means any.
    states: Vec<String>,
}

impl EventsQuery {
    fn wanted(&self) -> Result<Wanted, Invalid> {
        let states: Vec<String> =
            self.state.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
        for state in &states {
            let is_known = state.parse::<State>().is_ok() || state.parse::<WorkflowState>().is_ok();
            if !is_known {
                return Err(Invalid::new("state", state, "a state of tasks or of workflows"));
            }
        }
        Ok(Wanted {
            task: self.task.as_deref().map(str::parse).transpose()?,
            workflow: self.workflow.as_deref().map(str::parse).transpose()?,
            namespace: self.namespace.as_deref().map(Name::namespace).transpose()?,
            queue: self.queue.as_deref().map(Name::queue).transpose()?,
            kind: self.kind.as_deref().map(Name::kind).transpose()?,
            definition: self.definition.as_deref().map(crate::definition::name).transpose()?,
            states,
        })
    }
}

impl Wanted {
    fn wants(&self, event: &Event) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, actual: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| actual == Some(wanted))
        }
        let state_is = |word: &str| self.states.is_empty() || self.states.iter().any(|state| state == word);
        is(self.namespace.as_ref(), Some(&event.namespace))
            && match &event.change {
                Change::Task { task, workflow, queue, kind, state, .. } => {
                    is(self.task.as_ref(), Some(task))
                        && is(self.workflow.as_ref(), workflow.as_ref())
                        && is(self.queue.as_ref(), Some(queue))
                        && is(self.kind.as_ref(), Some(kind))
                        && self.definition.is_none()
                        && state_is(state.word())
                }
                Change::Workflow { workflow, name, state } => {
                    is(self.workflow.as_ref(), Some(workflow))
                        && is(self.definition.as_ref(), Some(name))
                        && (self.task.is_none() && self.queue.is_none() && self.kind.is_none())
                        && state_is(state.word())
                }
            }
    }
}

/// A change of a task (`event: task`).
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = TaskEvent)]
struct TaskEventJson<'a> {
    id: String,
    namespace: &'a str,
    queue: &'a str,
    kind: &'a str,
    /// Where it is then.
    state: &'static str,
    attempt: u32,
    workflow_id: Option<String>,
    at: String,
}

/// A change of a workflow (`event: workflow`).
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkflowEvent)]
struct WorkflowEventJson<'a> {
    id: String,
    namespace: &'a str,
    definition: &'a str,
    /// Where it is then.
    state: &'static str,
    at: String,
}

/// The forms of what is told, which no answer names: a stream is text.
pub(crate) fn schemas() -> [(Cow<'static, str>, RefOr<Schema>); 2] {
    [
        (TaskEventJson::name(), TaskEventJson::schema()),
        (WorkflowEventJson::name(), WorkflowEventJson::schema()),
    ]
}

/// One event, as it is sent.
fn frame(id: EventId, event: &str, data: &impl Serialize) -> String {
    // Nothing that is told has keys that are not strings, which is all that can fail; and JSON has no line
    // ends.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("id: {id}\nevent: {event}\ndata: {data}\n\n")
}

fn told(event: &Event) -> String {
    let (namespace, at) = (&*event.namespace, event.at.to_string());
    match &event.change {
        Change::Task { task, workflow, queue, kind, state, attempt } => {
            let json = TaskEventJson {
                id: task.to_string(),
                namespace,
                queue,
                kind,
                state: state.word(),
                attempt: *attempt,
                workflow_id: workflow.map(|id| id.to_string()),
                at,
            };
            frame(event.id, "task", &json)
        }
        Change::Workflow { workflow, name, state } => {
            let id = workflow.to_string();
            frame(
                event.id,
                "workflow",
                &WorkflowEventJson { id, namespace, definition: name, state: state.word(), at },
            )
        }
    }
}

/// Changes of tasks and workflows, as they happen
///
/// Server-sent events: `ready` first, then `task` (its data is a `TaskEvent`) and `workflow`
/// (`WorkflowEvent`); `reset` if some were missed, and everything is to be looked at anew. `Last-Event-ID`
/// resumes without gaps and without repeats.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(
    EventsQuery,
    ("last-event-id" = Option<String>, Header, description = "The id of the event that was heard last; the stream goes on behind it"),
), responses(
    (status = 200, description = "A stream that does not end", body = String, content_type = "text/event-stream"),
))]
async fn events(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Answered<Response> {
    let wanted = query.wanted().map_err(|invalid| bad_query(&invalid))?;
    // Changes are open to callers that may list what changes.
    let filter =
        Filter { namespace: wanted.namespace.clone(), queue: wanted.queue.clone(), ..Filter::default() };
    app.gate(&caller).admit(ListTasks { filter, page: Page::default() }).await?;
    let listening = app.places.listener(&caller)?;
    if app.feed.listeners() >= app.limits.polls {
        return Err(Problem::overloaded("as many listen to events as may; try again later"));
    }
    let header = headers.get(HeaderName::from_static("last-event-id")).and_then(|id| id.to_str().ok());
    let heard = header.or(query.last_event_id.as_deref()).filter(|id| !id.is_empty());
    let heard = heard.map(str::parse::<EventId>).transpose().map_err(|invalid| bad_query(&invalid))?;
    let listener = app.feed.listen();
    let place = match heard {
        Some(place) => place,
        None => listener.beginning().await?,
    };
    let greeting = format!("retry: {RECONNECT}\n{}", frame(place, "ready", &serde_json::json!({})));
    let check_at = Instant::now() + LOOK_AGAIN;
    let greeting = Some(greeting);
    let telling = Telling { app, caller, check_at, wanted, listener, place, greeting, _listening: listening };
    let body = Body::from_stream(stream::unfold(telling, Telling::next));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// A stream to one listener.
struct Telling {
    app: App,
    caller: Caller,
    /// When it is looked again whether the caller may listen.
    check_at: Instant,
    wanted: Wanted,
    listener: Listener,
    /// What was told, or left out, so far.
    place: EventId,
    greeting: Option<String>,
    _listening: ListenerPlace,
}

impl Telling {
    /// Whether the server goes on, and the caller's token is still good.
    async fn may_go_on(&mut self) -> bool {
        if self.check_at <= Instant::now() {
            self.check_at = Instant::now() + LOOK_AGAIN;
            if !self.app.guard.tokens.still_knows(&self.caller, self.app.limits.open).await {
                return false;
            }
        }
        !self.app.stopping.is_cancelled()
    }

    /// The next part of the stream; its end when the server stops, the caller may not listen any more, or the
    /// store does not answer: the client comes again.
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        if let Some(greeting) = self.greeting.take() {
            return Some((Ok(greeting.into()), self));
        }
        let speak_at = Instant::now() + SILENCE;
        loop {
            // Every time: there may always be something to tell.
            if !self.may_go_on().await {
                return None;
            }
            let Events { events, last, complete } = self.listener.after(self.place).await.ok()?;
            let moved = last != self.place;
            self.place = last;
            let mut text = String::new();
            if !complete {
                text += &frame(
                    last,
                    "reset",
                    &serde_json::json!({ "reason": "some changes are not known any more" }),
                );
            }
            // Events of tasks are of queues, which the query names if the token is for some only.
            let is_open = |event: &&Event| self.caller.check_namespace(&event.namespace).is_ok();
            let wanted = events.iter().filter(is_open).filter(|event| self.wanted.wants(event));
            wanted.for_each(|event| text += &told(event));
            if !text.is_empty() {
                return Some((Ok(text.into()), self));
            }
            if moved && !events.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = self.app.stopping.cancelled() => return None,
                () = self.listener.changed() => {}
                () = sleep_until(self.check_at), if self.check_at < speak_at => {}
                () = sleep_until(speak_at) => {
                    // Without data it only tells the client how far it has come.
                    let still_here = format!("id: {}\n: still here\n\n", self.place);
                    return Some((Ok(still_here.into()), self));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use windlass::Timestamp;

    use crate::http::testing::Served;

    /// A stream, as it is told until it ends.
    fn listen(served: &Served, headers: &[(&'static str, String)]) -> tokio::task::JoinHandle<String> {
        let (served, headers) = (served.clone(), headers.to_vec());
        tokio::spawn(async move {
            let (status, _, told) = served.ask_with("GET", "/v1/events", &headers, &Value::Null).await;
            assert_eq!(status, 200, "{told}");
            told
        })
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_listen_any_more_is_told_nothing_more() {
        let served = Served::start();
        let now = served.app.windlass.store().now().await.unwrap();
        let bearer = |token: String| [("authorization", format!("Bearer {token}"))];
        let brief = served.token("brief", Some(now.plus(Duration::from_secs(60)))).await;
        let [brief, revoked] = [bearer(brief), bearer(served.token("revoked", None).await)];
        let [expires, ends] = [listen(&served, &brief), listen(&served, &revoked)];
        let begun = tokio::time::Instant::now();
        served.listeners(2).await;
        assert!(expires.await.unwrap().contains("event: ready"));
        assert!((60..70).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert!(!ends.is_finished(), "the other goes on");
        let begun = tokio::time::Instant::now();
        served.revoke("revoked").await;
        ends.await.unwrap();
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_needed_no_token_needs_one_when_there_are_some() {
        let served = Served::start();
        let open = listen(&served, &[]);
        served.listeners(1).await;
        served.token("first", Some(Timestamp::MAX)).await;
        open.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_always_more_to_tell_ends_when_the_server_stops() {
        let served = Served::start();
        let first = listen(&served, &[]);
        served.listeners(1).await;
        let tasks: Vec<_> = (0..1_000).map(|_| json!({ "kind": "x" })).collect();
        for _ in 0..3 {
            served.post("/v1/tasks/batch", json!({ "tasks": tasks })).await;
        }
        served.app.stop_waiting();
        let told = first.await.unwrap();
        assert!(told.matches("event: task").count() < 3_000, "it told everything before it ended");
        // Nor is anything told to who comes only now.
        let id = told.split_once("id: ").unwrap().1.split('\n').next().unwrap().to_owned();
        let late = listen(&served, &[("last-event-id", id)]).await.unwrap();
        assert_eq!(late.matches("event: task").count(), 0);
    }
}
