//! `POST /v1/workflows`: starting one.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass::verbs::Start;
use windlass::{Invalid, NewWorkflow, Rejected, Source};

use super::read;
use crate::http::extract::JsonBody;
use crate::http::trace::{TRACEPARENT, Trace};
use crate::http::{Answered, App, Caller};
use crate::show::workflow::StartedJson;

/// A workflow to start: of a definition that the store has, or with steps of its own.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWorkflow)]
pub(super) struct NewWorkflowJson {
    /// Its id, if the caller made one: then it can be sent again without being started twice.
    #[schema(value_type = Option<String>, format = Uuid)]
    id: Option<String>,
    /// The name of its definition; of steps of its own, how it is called.
    definition: Option<String>,
    /// Default: the newest.
    version: Option<String>,
    /// The steps, as in a definition, if it is not of one that the store has.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    steps: Option<Box<RawValue>>,
    /// What steps of its own have in common, as in a definition.
    #[schema(value_type = Option<serde_json::Value>)]
    defaults: Option<Box<RawValue>>,
    /// What a failure of steps of its own means, as in a definition.
    #[schema(value_type = Option<String>)]
    on_failure: Option<Box<RawValue>>,
    /// What expressions call `input`, kept as it is sent.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// While a workflow of this name with this key exists, starting it again answers with the first.
    idempotency_key: Option<String>,
    /// `return` answers with the workflow that has the key, `reject` refuses. Default: `return`.
    on_conflict: Option<ConflictJson>,
    /// Added to the priority of its steps. Default: 0.
    priority: Option<i32>,
    /// Default: `default`.
    namespace: Option<String>,
    /// What its steps are part of, a W3C trace context. Default: that of the header.
    traceparent: Option<String>,
}

/// What to do about a key that exists.
#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
#[schema(as = OnWorkflowConflict)]
pub(super) enum ConflictJson {
    Return,
    Reject,
}

/// The default name of a workflow with steps of its own.
const AD_HOC: &str = "ad-hoc";

/// A definition for one workflow alone, as text.
#[derive(Serialize)]
struct AdHoc<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    defaults: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<&'a RawValue>,
    steps: &'a RawValue,
}

impl NewWorkflowJson {
    /// What it follows.
    async fn source(&self, app: &App) -> Answered<Source> {
        match (&self.definition, &self.steps) {
            (_, Some(_)) if self.version.is_some() => {
                let given = self.version.as_deref().unwrap_or_default();
                Err(Invalid::new("version", given, "none beside steps of its own").into())
            }
            (name, Some(steps)) => {
                let name = name.as_deref().unwrap_or(AD_HOC);
                let (defaults, on_failure) = (self.defaults.as_deref(), self.on_failure.as_deref());
                let text = serde_json::to_string(&AdHoc { name, defaults, on_failure, steps });
                let text = text.map_err(|error| Invalid::new("steps", &error.to_string(), "JSON"))?;
                app.check_definition_size(text.len())?;
                Ok(Source::AdHoc(Box::new(app.evaluate(move || read(&text)).await??)))
            }
            (Some(_), None) if self.defaults.is_some() || self.on_failure.is_some() => {
                Err(Invalid::number("defaults, on_failure", (), "none, unless there are steps").into())
            }
            (Some(name), None) => {
                Ok(Source::Named { name: crate::definition::name(name)?, version: self.version.clone() })
            }
            (None, None) => {
                Err(Invalid::number("definition", (), "the name of a definition, or steps").into())
            }
        }
    }

    async fn start(&self, app: &App, trace: Trace) -> Answered<NewWorkflow> {
        let traceparent = self.traceparent.as_deref().map(str::parse).transpose()?.or(trace.0);
        let client = app.client(self.namespace.as_deref())?;
        let mut start = match self.source(app).await? {
            Source::AdHoc(definition) => client.start_ad_hoc(*definition),
            Source::Named { name, .. } => client.start(&name),
        };
        if let Some(version) = &self.version {
            start = start.version(version);
        }
        if let Some(input) = &self.input {
            start = start.input_json(input.get());
        }
        if let Some(key) = &self.idempotency_key {
            start = start.key(key);
        }
        if self.on_conflict == Some(ConflictJson::Reject) {
            start = start.reject_duplicate();
        }
        if let Some(traceparent) = traceparent {
            start = start.traceparent(traceparent);
        }
        if let Some(id) = &self.id {
            start = start.id(id.parse()?);
        }
        Ok(start.priority(self.priority.unwrap_or(0)).build()?)
    }
}

/// Start a workflow
///
/// It is durable when the answer comes.
#[utoipa::path(post, path = "/v1/workflows", tag = "workflows", request_body = NewWorkflowJson, params(
    ("traceparent" = Option<String>, Header, description = TRACEPARENT),
), responses(
    (status = 201, description = "Started", body = StartedJson),
    (status = 200, description = "A workflow with this key, or this very workflow, exists", body = StartedJson),
))]
pub(super) async fn start(
    Shared(app): Shared<App>,
    caller: Caller,
    trace: Trace,
    JsonBody(body): JsonBody<NewWorkflowJson>,
) -> Answered<(StatusCode, Json<StartedJson>)> {
    let workflow = body.start(&app, trace).await?;
    let gate = app.gate(&caller);
    let Start { workflow } = gate.admit(Start { workflow }).await?;
    let client = app.client(None)?;
    let workflow = client.check_start(workflow).await?;
    let started = match caller.is_limited() {
        // The key may belong to a workflow that it must not see.
        true => gate.perform(Start { workflow }).await,
        false => client.start_new(workflow).await,
    };
    let started = match (started, &body.id) {
        (Err(error), Some(id)) if matches!(error.rejected(), Some(Rejected::WorkflowIdConflict { .. })) => {
            // Sent before, and the answer was lost; or another workflow has this id.
            let found = app.client(None)?.workflow(id.parse()?).await?.map(|record| record.workflow);
            let name = body.definition.as_deref().unwrap_or(AD_HOC);
            let is_open = |found: &&windlass::Workflow| caller.check_namespace(&found.namespace).is_ok();
            match found.as_ref().filter(is_open).filter(|found| *found.name == *name) {
                Some(found) => windlass::Started { id: found.id, state: found.state, created: false },
                None => return Err(error.into()),
            }
        }
        (answer, _) => answer?,
    };
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(StartedJson::of(&started))))
}
