//! Claims: a request that waits for work, and what becomes of it if who asked goes away.

use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::{
    Claim, Command, Handed, HandedStep, Invalid, Name, Receipt, Rejected, Token, Turn, WorkerId, limits,
};

use super::super::super::extract::{InPath, JsonBody};
use super::super::super::polls::Wanted;
use super::super::super::{Answered, App, Caller};
use super::super::tasks::answer;
use super::finish::{ReportedJson, commands};
use super::{InPathWorker, PathWorker, wait};
use crate::show::{Seconds, Verbatim};
use crate::wire::OutcomeJson;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(claim))
}

/// A request for work.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = ClaimRequest)]
struct ClaimJson {
    /// How many tasks at most; 1 unless said.
    #[schema(minimum = 0, maximum = 1000)]
    limit: Option<usize>,
    /// How long to wait if there is nothing to do, at most 60; not at all unless said.
    #[schema(minimum = 0, maximum = 60)]
    wait_seconds: Option<f64>,
    /// What became of earlier claims: carried out first, in the same transaction.
    #[serde(default)]
    outcomes: Vec<OutcomeJson>,
}

/// A task for a worker.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ClaimedTask)]
struct HandedJson<'a> {
    id: String,
    /// The proof of the claim, with the id.
    lease: u32,
    kind: &'a str,
    queue: &'a str,
    payload: Verbatim<'a>,
    attempt: u32,
    max_attempts: Option<u32>,
    entity: Option<String>,
    tags: &'a [String],
    /// When the attempt must be over, if it starts now.
    deadline: Option<String>,
    timeout_seconds: Option<Seconds>,
    /// What an earlier attempt left behind to go on from.
    #[schema(value_type = serde_json::Value)]
    checkpoint: Option<Verbatim<'a>>,
    /// W3C trace context of who submitted it.
    traceparent: Option<String>,
    workflow_id: Option<String>,
    /// The name of the step, with the number of the item if it is one.
    step: Option<&'a str>,
    /// What the steps that it needs have returned, by name.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    results: ResultsJson<'a>,
}

/// Results by name.
#[derive(Debug)]
struct ResultsJson<'a>(&'a [(Name, Option<windlass::Json>)]);

impl Serialize for ResultsJson<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, json)| (&**name, json.as_ref().map(Verbatim))))
    }
}

impl<'a> HandedJson<'a> {
    fn of(Handed { claimed, place }: &'a Handed) -> Self {
        let (task, spec) = (&claimed.task, &claimed.task.spec);
        Self {
            id: task.id.to_string(),
            lease: task.status.lease,
            kind: &spec.kind,
            queue: &spec.queue,
            payload: Verbatim(&claimed.payload),
            attempt: task.status.attempt,
            max_attempts: spec.max_attempts.map(std::num::NonZero::get),
            entity: spec.lane.as_ref().and_then(windlass::Lane::entity).map(|entity| entity.to_string()),
            tags: &spec.tags,
            deadline: spec.timeout.zip(task.status.claimed_at).map(|(limit, at)| at.plus(limit).to_string()),
            timeout_seconds: spec.timeout.map(Seconds),
            checkpoint: claimed.details.as_ref().map(Verbatim),
            traceparent: spec.traceparent.map(|traceparent| traceparent.to_string()),
            workflow_id: spec.workflow.map(|id| id.to_string()),
            step: place.as_ref().map(|place| &*place.name),
            results: ResultsJson(place.as_ref().map_or(&[], |HandedStep { results, .. }| results)),
        }
    }
}

/// The answer to a request for work.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ClaimResponse)]
struct ClaimedJson<'a> {
    tasks: Vec<HandedJson<'a>>,
    /// One for each outcome that was told, in order.
    outcomes: Vec<ReportedJson>,
}

/// Claim tasks, waiting for them if there are none
///
/// What it answers is the worker's until it reports, or is silent for too long.
#[utoipa::path(post, path = "/v1/workers/{id}/claim", tag = "workers", params(("id" = String, Path)),
    request_body = ClaimJson, responses((status = 200, description = "Tasks, best first; none, if there are none", body = ClaimedJson)))]
async fn claim(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
    JsonBody(body): JsonBody<ClaimJson>,
) -> Answered<axum::response::Response> {
    let (limit, wait) = (body.limit.unwrap_or(1), wait(body.wait_seconds)?);
    if limit > limits::BATCH {
        return Err(Invalid::number("limit", limit, "0 to 1000").into());
    }
    let (tasks, commands) = commands(&worker, body.outcomes)?;
    let wanted = app.fleet.wanted(&app, &worker).await?;
    wanted.queues.iter().try_for_each(|queue| caller.check_queue(queue))?;
    let request = Request { app, worker, wanted, limit, until: Instant::now() + wait };
    let (receipts, handed) = request.serve(commands).await?;
    let outcomes = ReportedJson::all(&tasks, receipts);
    let body = ClaimedJson { tasks: handed.handed.iter().map(HandedJson::of).collect(), outcomes };
    let response = answer(&body);
    handed.are_delivered();
    Ok(response)
}

/// A request for work that is being served.
struct Request {
    app: App,
    worker: WorkerId,
    wanted: Wanted,
    limit: usize,
    until: Instant,
}

/// What became of the commands of a request.
type Receipts = Vec<Result<Receipt, Rejected>>;

impl Request {
    async fn serve(self, mut commands: Vec<Command>) -> Answered<(Receipts, Delivery)> {
        let (mut receipts, mut called) = (Vec::new(), false);
        loop {
            let looked = self.app.polls.look(&self.wanted);
            let may_wait = Instant::now() < self.until;
            let is_worth_it = looked.is_ok() || called || !may_wait;
            let (Ok(heard) | Err(heard)) = looked;
            let told = !commands.is_empty();
            if told || (is_worth_it && self.limit > 0) {
                let (new, delivery, went_on) = self.turn(std::mem::take(&mut commands)).await?;
                if told {
                    receipts = new;
                }
                if !delivery.handed.is_empty() {
                    self.app.polls.call_next(&self.wanted);
                    return Ok((receipts, delivery));
                }
                if went_on {
                    continue;
                }
            }
            called = may_wait && self.limit > 0 && self.rest(heard).await?;
            if !called {
                return Ok((receipts, Delivery::none(&self)));
            }
        }
    }

    /// Waits until it makes sense to look again; `false` when time is up, or the server stops.
    async fn rest(&self, heard: u64) -> Answered<bool> {
        tokio::select! {
            biased;
            () = self.app.stopping.cancelled() => Ok(false),
            again = self.app.polls.wait(&self.wanted, heard, self.until) => again,
        }
    }

    /// One turn with the store. It comes to its end even if the caller goes away, and what was claimed for nobody is given back.
    async fn turn(&self, commands: Vec<Command>) -> Answered<(Receipts, Delivery, bool)> {
        let claim = (self.limit > 0).then(|| Claim {
            worker: self.worker.clone(),
            namespace: self.wanted.namespace.clone(),
            queues: self.wanted.queues.clone(),
            kinds: self.wanted.kinds.clone(),
            limit: self.limit,
        });
        let (app, worker) = (self.app.clone(), self.worker.clone());
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let client = app.windlass.client();
            let turned = client.turn_elsewhere(Turn { commands, claim, term: None }).await;
            let turned = turned.map(|turned| {
                let went_on = turned.went_on;
                let delivery = turned.handed.map(|handed| Delivery { app, worker, handed });
                (turned.receipts, delivery, went_on)
            });
            // Who is gone drops the delivery, which gives back what is in it.
            let _ = answer.send(turned);
        });
        let gone = || windlass::Error::Unavailable("the request was given up".into());
        let (receipts, delivery, went_on) = answered.await.map_err(|_| gone())??;
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(rejected) => {
                self.app.fleet.forget(&self.worker);
                // What was told is told: only the claim is refused.
                if receipts.is_empty() {
                    return Err(rejected.into());
                }
                Delivery::none(self)
            }
        };
        Ok((receipts, delivery, went_on))
    }
}

/// Tasks on their way to a worker. If they do not get as far as the answer, they are given back.
struct Delivery {
    app: App,
    worker: WorkerId,
    handed: Vec<Handed>,
}

impl Delivery {
    fn none(request: &Request) -> Self {
        Self { app: request.app.clone(), worker: request.worker.clone(), handed: Vec::new() }
    }

    /// The answer that tells them is on its way.
    fn are_delivered(mut self) {
        self.handed.clear();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.handed.is_empty() {
            return;
        }
        let release = |handed: &Handed| Command::Release {
            token: Token {
                task: handed.claimed.task.id,
                lease: handed.claimed.task.status.lease,
                worker: self.worker.clone(),
            },
            note: Some("who asked for it was gone".into()),
        };
        let (app, commands) = (self.app.clone(), self.handed.iter().map(release).collect());
        tokio::spawn(async move {
            if let Err(error) = app.fold.apply(commands).await {
                tracing::warn!(%error, "claims for a worker that is gone were not given back; they will expire");
            }
        });
    }
}
