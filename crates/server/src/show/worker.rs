//! Workers.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Leadership, Name, Timestamp, Worker};

use super::Seconds;
use crate::moment;
use crate::paint::Paint;
use crate::table::Table;

/// One worker.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Worker)]
pub(crate) struct WorkerJson<'a> {
    worker_id: &'a str,
    alive: bool,
    leader: bool,
    namespace: &'a str,
    queues: Vec<&'a str>,
    kinds: Vec<&'a str>,
    pool_size: u32,
    hostname: &'a str,
    version: &'a str,
    started_at: String,
    heartbeat_at: String,
    dead_after_seconds: Seconds,
}

impl<'a> WorkerJson<'a> {
    pub(crate) fn of(worker: &'a Worker, leader: Option<&Leadership>, now: Timestamp) -> Self {
        let names = |names: &'a [Name]| names.iter().map(|name| &**name).collect();
        let Worker {
            id,
            host,
            version,
            pool_size,
            namespace,
            queues,
            kinds,
            dead_after,
            started_at,
            heartbeat_at,
            secret: _,
        } = worker;
        Self {
            worker_id: id.as_str(),
            alive: worker.is_alive(now),
            leader: leads(worker, leader, now),
            namespace,
            queues: names(queues),
            kinds: names(kinds),
            pool_size: *pool_size,
            hostname: host,
            version,
            started_at: started_at.to_string(),
            heartbeat_at: heartbeat_at.to_string(),
            dead_after_seconds: Seconds(*dead_after),
        }
    }
}

fn leads(worker: &Worker, leader: Option<&Leadership>, now: Timestamp) -> bool {
    leader.is_some_and(|leader| leader.holder == worker.id && leader.until > now)
}

/// Workers, one on each line.
pub(crate) fn table(
    workers: &[&Worker],
    leader: Option<&Leadership>,
    now: Timestamp,
    paint: Paint,
) -> String {
    let mut table = Table::new(&[
        "WORKER",
        "STATUS",
        "NAMESPACE",
        "POOL",
        "HEARTBEAT",
        "STARTED",
        "VERSION",
        "QUEUES",
        "KINDS",
    ]);
    for worker in workers {
        let status = match (worker.is_alive(now), leads(worker, leader, now)) {
            (true, true) => "alive, leader",
            (true, false) => "alive",
            (false, true) => "dead, leader",
            (false, false) => "dead",
        };
        let names = |names: &[Name]| names.iter().map(|name| &**name).collect::<Vec<_>>().join(",");
        let namespace = Some(&*worker.namespace).filter(|namespace| *namespace != "default");
        table.row([
            worker.id.as_str().into(),
            status.into(),
            namespace.unwrap_or_default().into(),
            worker.pool_size.into(),
            moment::relative(worker.heartbeat_at, now).into(),
            moment::relative(worker.started_at, now).into(),
            (&*worker.version).into(),
            names(&worker.queues).into(),
            names(&worker.kinds).into(),
        ]);
    }
    table.without_empty().render(paint, "")
}
