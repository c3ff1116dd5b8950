//! `/v1/workers`: workers elsewhere register, claim, say that they live, report and leave.

mod claim;
mod finish;
mod fleet;
mod heartbeat;

use std::time::Duration;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::verbs::{Deregister, ListWorkers, Register};
use windlass::{DEAD_AFTER, Invalid, Name, NewWorker, WORKFLOW, WorkerId, WorkerSecret};

use super::super::extract::{InPath, JsonBody, Query};
use super::super::gate::secret_required;
use super::super::{Answered, App, Caller, Problem, name_or_default};
use super::tasks::answer;
use crate::show::Seconds;
use crate::show::worker::WorkerJson;
use crate::wire::seconds;
pub(crate) use fleet::Fleet;

/// The longest that a request waits for work.
const LONGEST_WAIT: f64 = 60.0;

pub(crate) fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

pub(crate) fn works() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .merge(claim::routes())
        .merge(heartbeat::routes())
        .merge(finish::routes())
        .routes(routes!(deregister))
}

/// A worker in the path.
type InPathWorker = InPath<PathWorker>;

/// A worker's id, as it is written in a path.
#[derive(Debug)]
pub(super) struct PathWorker(WorkerId);

impl std::str::FromStr for PathWorker {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        WorkerId::new(text).map(Self)
    }
}

/// A worker that registers.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWorker)]
struct NewWorkerJson {
    /// Whose tasks it takes; `default` unless said.
    namespace: Option<String>,
    /// The queues it takes from; `default` unless said.
    queues: Option<Vec<String>>,
    /// The kinds it has handlers for.
    kinds: Vec<String>,
    /// How many tasks it works on at once.
    #[schema(minimum = 1)]
    pool_size: Option<u32>,
    version: Option<String>,
    hostname: Option<String>,
    /// How long it may be silent before others take its tasks, 1 to 3,600 s; 30 unless said.
    #[schema(minimum = 1, maximum = 3600)]
    dead_after_seconds: Option<f64>,
    /// Whether steps that are workflows are started for it, which takes no handler; so it is unless said.
    starts_workflows: Option<bool>,
    /// Its identity, which must be fresh at every start. Default: made by the server. One that exists is
    /// replaced only with its secret.
    worker_id: Option<String>,
}

impl NewWorkerJson {
    fn worker(self) -> Result<NewWorker, Invalid> {
        let names = |names: Vec<String>, read: fn(&str) -> Result<Name, Invalid>| {
            names.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>()
        };
        let mut kinds = names(self.kinds, Name::kind)?;
        if self.starts_workflows.unwrap_or(true) && !kinds.iter().any(|kind| **kind == *WORKFLOW) {
            kinds.push(Name::stored(WORKFLOW));
        }
        let hostname = self.hostname.unwrap_or_default();
        let id = match &self.worker_id {
            Some(id) => WorkerId::new(&**id)?,
            None => windlass::worker_id_at(&hostname),
        };
        let dead_after = self.dead_after_seconds.map(|given| seconds("dead_after_seconds", given));
        let worker = NewWorker {
            namespace: name_or_default(self.namespace.as_deref(), Name::namespace)?,
            queues: self
                .queues
                .map_or_else(|| Ok(vec![Name::default()]), |queues| names(queues, Name::queue))?,
            kinds,
            pool_size: self.pool_size.unwrap_or(1),
            version: self.version.unwrap_or_else(|| "unknown".into()),
            host: hostname,
            dead_after: dead_after.transpose()?.unwrap_or(DEAD_AFTER),
            ..NewWorker::new(id)
        };
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&worker.dead_after) {
            return Err(Invalid::number("dead_after_seconds", worker.dead_after, "1 to 3600 seconds"));
        }
        if worker.pool_size == 0 {
            return Err(Invalid::number("pool_size", 0, "1 or more"));
        }
        worker.check()?;
        Ok(worker)
    }
}

/// What the header is, in the description.
pub(super) const SECRET: &str = "The worker's secret, as it was answered when the worker registered";

/// What the header is when a worker registers.
const OWN_SECRET: &str = "The worker's secret, if it was registered before; or one of its own, `wlw_` and 64 hexadecimal digits from a secure \
    source of random numbers, so that the registration can be repeated if its answer is lost. Default: made by the server";

/// A worker that is registered.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = RegisteredWorker)]
struct RegisteredJson {
    worker_id: String,
    /// What proves that a caller is this worker: it goes with every later call, as the header
    /// `Windlass-Worker-Secret`.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    worker_secret: WorkerSecret,
    /// How often it is to say that it lives.
    heartbeat_seconds: Seconds,
    /// How long it may be silent before others take its tasks.
    dead_after_seconds: Seconds,
}

fn text<S: Serializer>(secret: &WorkerSecret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.text())
}

/// Register a worker
///
/// Its leases live as long as it sends heartbeats.
#[utoipa::path(post, path = "/v1/workers", tag = "workers", params(
    ("Windlass-Worker-Secret" = Option<String>, Header, pattern = r"^wlw_[0-9a-f]{64}$", description = OWN_SECRET),
), request_body = NewWorkerJson, responses(
    (status = 201, description = "Registered", body = RegisteredJson),
))]
async fn register(
    Shared(app): Shared<App>,
    caller: Caller,
    JsonBody(body): JsonBody<NewWorkerJson>,
) -> Answered<(StatusCode, Json<RegisteredJson>)> {
    let worker = body.worker()?;
    let (id, sent) = (worker.id.clone(), caller.worker_secret().cloned());
    let secret = sent.clone().map_or_else(new_secret, Ok)?;
    let caller = caller.with_worker_secret(Some(secret.clone()));
    let registered = app.gate(&caller).run(Register { worker }).await;
    let worker = registered.map_err(|problem| match sent {
        None if problem.code == "wrong_worker_secret" => secret_required(&id),
        _ => problem,
    })?;
    app.fleet.learn(&worker);
    let told = RegisteredJson {
        worker_id: worker.id.to_string(),
        worker_secret: secret,
        heartbeat_seconds: Seconds(worker.dead_after / 3),
        dead_after_seconds: Seconds(worker.dead_after),
    };
    Ok((StatusCode::CREATED, Json(told)))
}

/// A secret for a worker that brings none.
fn new_secret() -> Answered<WorkerSecret> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| Problem::fault("there are no random numbers for a secret"))?;
    Ok(WorkerSecret::new(random))
}

/// How long a request waits.
fn wait(seconds: Option<f64>) -> Result<Duration, Invalid> {
    let given = seconds.unwrap_or(0.0);
    if !(0.0..=LONGEST_WAIT).contains(&given) {
        return Err(Invalid::number("wait_seconds", given, "0 to 60"));
    }
    Ok(Duration::from_secs_f64(given))
}

/// A worker that leaves.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = DeregisteredWorker)]
struct DeregisteredJson {
    worker_id: String,
}

/// Deregister a worker: what it still holds goes to others at once
#[utoipa::path(delete, path = "/v1/workers/{id}", tag = "workers", params(
    ("id" = String, Path),
    ("Windlass-Worker-Secret" = Option<String>, Header, description = "The worker's secret; a token for `admin` needs none")),
    responses((status = 200, description = "Forgotten, or never known", body = DeregisteredJson)))]
async fn deregister(
    Shared(app): Shared<App>,
    caller: Caller,
    InPath(PathWorker(worker)): InPathWorker,
) -> Answered<Json<DeregisteredJson>> {
    app.gate(&caller).run(Deregister { worker: worker.clone() }).await?;
    app.fleet.forget(&worker);
    Ok(Json(DeregisteredJson { worker_id: worker.to_string() }))
}

/// Which workers to list.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WorkersQuery {
    /// All of them, if none is said
    namespace: Option<String>,
}

/// Registered workers.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkerList)]
struct WorkersJson<'a> {
    workers: Vec<WorkerJson<'a>>,
}

/// List workers: which are alive, which one leads, and what they take
#[utoipa::path(get, path = "/v1/workers", tag = "workers", params(WorkersQuery), responses(
    (status = 200, description = "All registered workers", body = WorkersJson),
))]
async fn list(
    Shared(app): Shared<App>,
    caller: Caller,
    Query(query): Query<WorkersQuery>,
) -> Answered<axum::response::Response> {
    let (gate, store) = (app.gate(&caller), app.windlass.store());
    let (leader, now) = (store.leader().await?, store.now().await?);
    let mut workers = gate.run(ListWorkers {}).await?;
    workers.retain(|worker| query.namespace.as_deref().is_none_or(|wanted| *worker.namespace == *wanted));
    let of = |worker| WorkerJson::of(worker, leader.as_ref(), now);
    Ok(answer(&WorkersJson { workers: workers.iter().map(of).collect() }))
}
