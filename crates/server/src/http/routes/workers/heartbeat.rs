//! Heartbeats: they keep leases alive, and bring news of those that are lost.

use std::time::Duration;

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::{Command, Filter, Invalid, Lease, Page, State, TaskId, Token, WorkerId, limits};

use super::super::super::extract::{InPath, OptionalBody};
use super::super::super::{Answered, App};
use super::{InPathWorker, PathWorker, wait};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(heartbeat))
}

/// A claim that a worker does not speak of for so long is given back: the answer that gave it was lost.
const UNSPOKEN: Duration = Duration::from_secs(60);

/// The least time between two looks of one request that waits for news of its leases.
const REST: Duration = Duration::from_millis(100);

/// A claim.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Lease)]
struct LeaseJson {
    #[schema(format = Uuid)]
    id: String,
    lease: u32,
}

/// A worker says that it lives.
#[derive(Deserialize, ToSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Heartbeat)]
struct HeartbeatJson {
    /// What it works on.
    #[serde(default)]
    running: Vec<LeaseJson>,
    /// How long to wait for news of these, at most 60; not at all unless said.
    #[schema(minimum = 0, maximum = 60)]
    wait_seconds: Option<f64>,
    /// Whether everything else that was claimed for it is to be given back: it never heard of it.
    #[serde(default)]
    release_others: bool,
}

/// What a worker must let go.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Pulse)]
struct PulseJson {
    /// Tasks that it does not hold any more: stop, and report nothing.
    lost: Vec<String>,
    /// Tasks that were cancelled: stop.
    cancel: Vec<String>,
}

impl PulseJson {
    fn of(pulse: &windlass::Pulse) -> Self {
        let ids = |ids: &[TaskId]| ids.iter().map(ToString::to_string).collect();
        Self { lost: ids(&pulse.lost), cancel: ids(&pulse.cancelled) }
    }
}

/// Keep all leases of a worker alive, and learn what it must let go
#[utoipa::path(post, path = "/v1/workers/{id}/heartbeat", tag = "workers", params(("id" = String, Path)),
    request_body(content = Option<HeartbeatJson>), responses((status = 200, description = "What it must let go", body = PulseJson)))]
async fn heartbeat(
    Shared(app): Shared<App>,
    InPath(PathWorker(worker)): InPathWorker,
    OptionalBody(body): OptionalBody<HeartbeatJson>,
) -> Answered<Json<PulseJson>> {
    let until = Instant::now() + wait(body.wait_seconds)?;
    if body.running.len() > limits::POOL {
        return Err(Invalid::number("number of leases", body.running.len(), "at most 10000").into());
    }
    let read = |lease: &LeaseJson| Ok((lease.id.parse::<TaskId>()?, lease.lease));
    let running = body.running.iter().map(read).collect::<Result<Vec<_>, Invalid>>()?;
    let (store, mut rings) = (app.windlass.store(), app.windlass.store().watch());
    let mut heard = rings.borrow_and_update().revoked;
    let mut pulse = store.heartbeat(&worker, running.clone()).await?;
    settle(&app, &worker, &running, body.release_others).await?;
    while pulse.lost.is_empty() && pulse.cancelled.is_empty() && Instant::now() < until {
        let looked = Instant::now();
        tokio::select! {
            biased;
            () = app.stopping.cancelled() => break,
            () = tokio::time::sleep_until(until) => break,
            rang = rings.wait_for(|rings| rings.revoked != heard) => match rang {
                Ok(rings) => heard = rings.revoked,
                Err(_) => break,
            },
        }
        tokio::time::sleep_until((looked + REST).min(until)).await;
        pulse = store.heartbeat(&worker, running.clone()).await?;
    }
    Ok(Json(PulseJson::of(&pulse)))
}

/// Marks what a worker says it works on as running, and gives back what it never heard of.
async fn settle(
    app: &App,
    worker: &WorkerId,
    running: &[(TaskId, Lease)],
    release_others: bool,
) -> Answered<()> {
    let token = |(task, lease): (TaskId, Lease)| Token { task, lease, worker: worker.clone() };
    let start = |claim| Command::Start { token: token(claim), at: None };
    let mut commands: Vec<Command> = app.fleet.unmarked(worker, running).into_iter().map(start).collect();
    let now = app.windlass.store().now().await?;
    for task in held(app, worker).await? {
        let (claim, claimed_at) = ((task.id, task.status.lease), task.status.claimed_at.unwrap_or(now));
        if running.contains(&claim) || (!release_others && now.since(claimed_at) < UNSPOKEN) {
            continue;
        }
        let note = Some("the answer that gave it was lost".into());
        commands.push(Command::Release { token: token(claim), note });
    }
    for batch in commands.chunks(limits::BATCH) {
        // What is refused is not this worker's any more, as the heartbeat told it.
        app.fold.apply(batch.to_vec()).await?;
    }
    Ok(())
}

/// All that a worker holds.
async fn held(app: &App, worker: &WorkerId) -> Answered<Vec<windlass::Task>> {
    let states = vec![State::Claimed, State::Running];
    let filter = Filter { states, worker: Some(worker.clone()), ..Filter::default() };
    let (mut found, mut page) = (Vec::new(), Page { limit: limits::PAGE, ..Page::default() });
    loop {
        let listing = app.windlass.store().tasks(filter.clone(), page).await?;
        found.extend(listing.tasks);
        page.after = listing.next;
        if page.after.is_none() {
            return Ok(found);
        }
    }
}
