//! Heartbeats: they keep leases alive, and bring news of those that are lost.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Shared;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::Heartbeat;
use windlass::{Command, Filter, Invalid, Lease, Page, State, TaskId, Token, WorkerId, limits};

use super::{InPathWorker, PathWorker, SECRET, wait};
use crate::http::extract::{InPath, OptionalBody};
use crate::http::{Answered, App, Caller};

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
#[utoipa::path(post, path = "/v1/workers/{id}/heartbeat", tag = "workers", params(
    ("id" = String, Path), ("Windlass-Worker-Secret" = String, Header, description = SECRET)),
    request_body(content = Option<HeartbeatJson>), responses((status = 200, description = "What it must let go", body = PulseJson)))]
async fn heartbeat(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
    OptionalBody(body): OptionalBody<HeartbeatJson>,
) -> Answered<Json<PulseJson>> {
    let _place = app.places.heartbeat()?;
    app.gate(&caller).admit(Heartbeat { worker: worker.clone(), held: Vec::new() }).await?;
    let until = Instant::now() + wait(body.wait_seconds)?;
    if body.running.len() > limits::POOL {
        return Err(Invalid::number("number of leases", body.running.len(), "at most 10000").into());
    }
    let read = |lease: &LeaseJson| Ok((lease.id.parse::<TaskId>()?, lease.lease));
    let running = body.running.iter().map(read).collect::<Result<Vec<_>, Invalid>>()?;
    let (store, mut rings) = (app.windlass.store(), app.windlass.store().watch());
    let mut heard = rings.borrow_and_update().revoked;
    let mut pulse = store.heartbeat(worker.clone(), running.clone()).await?;
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
        // Somebody's claim was taken away, which nearly always is another's: only reading costs little.
        if !holds_all(&app, &worker, &running).await? {
            pulse = store.heartbeat(worker.clone(), running.clone()).await?;
        }
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

/// Whether a worker still holds all that it works on.
async fn holds_all(app: &App, worker: &WorkerId, running: &[(TaskId, Lease)]) -> Answered<bool> {
    let held = held(app, worker).await?;
    let held: BTreeSet<_> = held.iter().map(|task| (task.id, task.status.lease)).collect();
    Ok(running.iter().all(|claim| held.contains(claim)))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::http::testing::Served;

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_from_others_is_not_written_about() {
        let served = Served::start();
        let (me, other) = (served.worker().await, served.worker().await);
        let claim = |path: String| {
            let served = served.clone();
            async move {
                served.submit().await;
                let task = &served.post(&format!("{path}/claim"), json!({})).await["tasks"][0];
                json!({ "id": task["id"], "lease": task["lease"] })
            }
        };
        let cancel = |task: &Value| {
            let (served, path) =
                (served.clone(), format!("/v1/tasks/{}/cancel", task["id"].as_str().unwrap()));
            async move { served.post(&path, json!({})).await }
        };
        let (mine, theirs) = (claim(me.clone()).await, claim(other).await);
        let beat = served.asking(format!("{me}/heartbeat"), json!({ "running": [mine], "wait_seconds": 60 }));
        served.plan.called("tasks", 1).await;
        let (reads, writes) = (served.plan.calls("tasks"), served.plan.calls("heartbeat"));
        cancel(&theirs).await;
        served.plan.called("tasks", reads + 1).await;
        cancel(&mine).await;
        assert_eq!(beat.await.unwrap().2, json!({ "lost": [], "cancel": [mine["id"]] }));
        assert_eq!(served.plan.calls("heartbeat"), writes + 1, "only to learn what is lost");
    }
}
