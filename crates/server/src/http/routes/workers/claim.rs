//! Claims: a request that waits for work, and what becomes of it if who asked goes away.

use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::TakeTurn;
use windlass::{
    Claim, Command, Handed, HandedStep, Invalid, Name, Receipt, Rejected, Token, Turn, WorkerId, limits,
};

use super::super::tasks::answer;
use super::finish::{ReportedJson, commands};
use super::{InPathWorker, PathWorker, SECRET, wait};
use crate::http::extract::{InPath, JsonBody};
use crate::http::polls::{Look, Wanted};
use crate::http::{Answered, App, Caller};
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
#[utoipa::path(post, path = "/v1/workers/{id}/claim", tag = "workers", params(
    ("id" = String, Path), ("Windlass-Worker-Secret" = String, Header, description = SECRET)),
    request_body = ClaimJson, responses((status = 200, description = "Tasks, best first; none, if there are none", body = ClaimedJson)))]
async fn claim(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
    JsonBody(body): JsonBody<ClaimJson>,
) -> Answered<axum::response::Response> {
    let _place = app.places.claim()?;
    let (limit, wait) = (body.limit.unwrap_or(1), wait(body.wait_seconds)?);
    if limit > limits::BATCH {
        return Err(Invalid::number("limit", limit, "0 to 1000").into());
    }
    let (tasks, commands) = commands(&worker, body.outcomes)?;
    let wanted = app.fleet.wanted(&app, &worker).await?;
    let request = Request { app: app.clone(), worker, wanted, limit, until: Instant::now() + wait };
    let turn = Turn { commands, claim: Some(request.claim()), term: None };
    let TakeTurn { turn } = app.gate(&caller).admit(TakeTurn { turn }).await?;
    let (receipts, handed) = request.serve(turn.commands).await?;
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

/// What became of one turn.
struct Turned {
    receipts: Receipts,
    delivery: Result<Delivery, Rejected>,
    /// What follows from it may be claimed at once.
    went_on: bool,
}

impl Request {
    fn claim(&self) -> Claim {
        Claim {
            worker: self.worker.clone(),
            namespace: self.wanted.namespace.clone(),
            queues: self.wanted.queues.clone(),
            kinds: self.wanted.kinds.clone(),
            limit: self.limit,
        }
    }

    async fn serve(self, mut commands: Vec<Command>) -> Answered<(Receipts, Delivery)> {
        let (mut receipts, mut called) = (Vec::new(), false);
        loop {
            let worth_it = self.app.polls.worth_a_look(&self.wanted);
            let may_wait = Instant::now() < self.until;
            let (Ok(heard) | Err(heard)) = worth_it;
            let looks = self.limit > 0 && (worth_it.is_ok() || called || !may_wait);
            let told = !commands.is_empty();
            if told || looks {
                // Whichever way it ends, and if who asks goes away: what it does not find is found by the
                // next.
                let look = (self.limit > 0).then(|| self.app.polls.look(&self.wanted));
                let turned = match self.turn(std::mem::take(&mut commands)).await {
                    Ok(turned) => turned,
                    Err(problem) => {
                        look.into_iter().for_each(Look::failed);
                        return Err(problem);
                    }
                };
                if told {
                    receipts = turned.receipts;
                }
                match turned.delivery {
                    Ok(delivery) if !delivery.handed.is_empty() => return Ok((receipts, delivery)),
                    Ok(_) if turned.went_on => continue,
                    Ok(_) => look.into_iter().for_each(|look| look.in_vain(heard)),
                    Err(rejected) => {
                        self.app.fleet.forget(&self.worker);
                        // What was told is told: only the claim is refused, and there is nothing to wait for.
                        return if told {
                            Ok((receipts, Delivery::none(&self)))
                        } else {
                            Err(rejected.into())
                        };
                    }
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

    /// One turn with the store. It comes to its end even if the caller goes away, and what was claimed for
    /// nobody is given back.
    async fn turn(&self, commands: Vec<Command>) -> Answered<Turned> {
        let claim = (self.limit > 0).then(|| self.claim());
        let place = self.app.places.turn().await;
        let (app, worker) = (self.app.clone(), self.worker.clone());
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let client = app.windlass.client();
            let turned = client.turn_elsewhere(Turn { commands, claim, term: None }).await;
            drop(place);
            let turned = turned.map(|turned| Turned {
                receipts: turned.receipts,
                delivery: turned.handed.map(|handed| Delivery { app, worker, handed }),
                went_on: turned.went_on,
            });
            // Who is gone drops the delivery, which gives back what is in it.
            let _ = answer.send(turned);
        });
        // It was begun, and nobody knows how far it came.
        let fault = |_| windlass::Error::Unknown("the turn was ended by a fault".into());
        Ok(answered.await.map_err(fault)??)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::http::testing::{Fault, Served};

    #[tokio::test(start_paused = true)]
    async fn after_one_who_was_called_and_failed_the_next_looks() {
        let served = Served::start();
        let me = served.worker().await;
        let wait = || served.asking(format!("{me}/claim"), json!({ "wait_seconds": 60 }));
        let (first, second) = (wait(), wait());
        served.waits(2).await;
        served.plan.once("turn", Fault::Down);
        let begun = tokio::time::Instant::now();
        let id = served.submit().await;
        let (failed, found) = tokio::join!(first, second);
        let (failed, found) = (failed.unwrap(), found.unwrap());
        assert_eq!((failed.0, found.0), (503, 200));
        assert_eq!(found.2["tasks"][0]["id"], id);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn after_one_who_was_called_and_went_away_the_next_looks() {
        let served = Served::start();
        let me = served.worker().await;
        let wait = || served.asking(format!("{me}/claim"), json!({ "wait_seconds": 60 }));
        let first = wait();
        served.waits(1).await;
        let second = wait();
        served.waits(2).await;
        let looks = served.plan.calls("turn");
        served.plan.hold("turn");
        served.plan.once("turn", Fault::Down);
        let id = served.submit().await;
        served.plan.called("turn", looks + 1).await;
        // What it has begun fails, and nobody is there to notice.
        first.abort();
        served.plan.let_go("turn");
        let begun = tokio::time::Instant::now();
        assert_eq!(second.await.unwrap().2["tasks"][0]["id"], id);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_claim_is_told_what_became_of_its_reports_and_does_not_wait() {
        let served = Served::start();
        let (gone, me) = (served.worker().await, served.worker().await);
        served.submit().await;
        let task = served.post(&format!("{gone}/claim"), json!({})).await["tasks"][0].clone();
        let finish = json!({ "id": task["id"], "lease": task["lease"], "outcome": "completed" });
        let waiting = served.asking(format!("{me}/claim"), json!({ "wait_seconds": 60 }));
        served.waits(1).await;
        // By way of another server: this one believes that it knows it.
        let id = gone.rsplit('/').next().unwrap();
        served.app.windlass.store().deregister(windlass::WorkerId::new(id).unwrap()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let told =
            served.post(&format!("{gone}/claim"), json!({ "wait_seconds": 60, "outcomes": [finish] })).await;
        assert_eq!((&told["tasks"], begun.elapsed().as_secs()), (&json!([]), 0), "{told}");
        assert_eq!(served.app.polls.waiting(), 1, "only the other waits");
        let next = served.submit().await;
        assert_eq!(waiting.await.unwrap().2["tasks"][0]["id"], next);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_workflow_is_is_looked_up_once_for_all_its_steps() {
        let served = Served::start();
        let me = served.worker().await;
        let steps = json!({ "a": { "task": "x" }, "b": { "task": "x", "needs": "a" }, "c": { "task": "x", "needs": "b" } });
        served.post("/v1/workflows", json!({ "steps": steps })).await;
        let before = served.plan.calls("workflow");
        let mut told = json!([]);
        for step in ["a", "b", "c"] {
            let claimed = served.post(&format!("{me}/claim"), json!({ "outcomes": told })).await;
            let task = &claimed["tasks"][0];
            assert_eq!(task["step"], step);
            told = json!([{ "id": task["id"], "lease": task["lease"], "outcome": "completed" }]);
        }
        assert_eq!(served.plan.calls("workflow") - before, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_ended_by_a_fault_may_have_been_made() {
        let served = Served::start();
        let me = served.worker().await;
        served.plan.once("turn", Fault::Panic);
        let (status, _, problem) = served.ask("POST", &format!("{me}/claim"), json!({})).await;
        assert_eq!((status, &problem["code"]), (503, &json!("unknown_outcome")));
        served.plan.once("turn", Fault::Panic);
        let outcome = json!({ "id": windlass::task_id().to_string(), "lease": 1, "outcome": "completed" });
        let (status, _, problem) =
            served.ask("POST", &format!("{me}/finish"), json!({ "outcomes": [outcome] })).await;
        assert_eq!((status, &problem["code"]), (503, &json!("unknown_outcome")));
    }

    #[tokio::test(start_paused = true)]
    async fn more_claims_and_heartbeats_than_may_be_are_told_to_come_later() {
        let served = Served::with(|limits| limits.polls = 2);
        let me = served.worker().await;
        for (verb, route) in [("turn", "claim"), ("heartbeat", "heartbeat")] {
            served.plan.hold(verb);
            let (before, path) = (served.plan.calls(verb), format!("{me}/{route}"));
            let first: Vec<_> = (0..2).map(|_| served.asking(path.clone(), json!({}))).collect();
            served.plan.called(verb, before + 2).await;
            let (status, headers, problem) = served.ask("POST", &path, json!({})).await;
            assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{route}");
            assert_eq!(headers["retry-after"], "1");
            served.plan.let_go(verb);
            for one in first {
                assert_eq!(one.await.unwrap().0, 200);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_claims_as_requests_may_be_look_at_once() {
        let served = Served::with(|limits| limits.requests = 3);
        let me = served.worker().await;
        served.plan.hold("turn");
        let claims: Vec<_> = (0..10).map(|_| served.asking(format!("{me}/claim"), json!({}))).collect();
        served.plan.called("turn", 3).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(served.plan.calls("turn"), 3);
        served.plan.let_go("turn");
        for one in claims {
            assert_eq!(one.await.unwrap().0, 200, "the others wait for their turn");
        }
    }
}
