//! The server, asked over HTTP by clients and workers in another process, next to the engine in its own
//! process, in the same run.

mod server;
mod wire;
mod worker;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::program::{answer, figure, windlass};
use crate::table::{Row, Table};
use crate::{Args, median};
use server::Server;
use wire::Wire;
use worker::{KIND, Worker};

/// Tasks of one batch.
const BATCH: usize = 1_000;

/// Tasks that one worker takes at once, if it does not take them one by one: as many as the clients do unless
/// told otherwise.
const POOL: usize = 10;

/// Steps of a chain.
const CHAIN: usize = 400;

/// Tasks submitted one by one to workers that wait.
const SAMPLES: usize = 300;

/// Requests that wait at once, each for how many seconds before it comes again, and how long that is looked
/// at: long enough for all of them to have come again twice.
const IDLE: usize = 1_000;
const IDLE_WAIT: u32 = 20;
const IDLE_LOOK: Duration = Duration::from_secs(45);

/// Where tasks live while they are measured.
#[derive(Clone, Copy, Debug)]
enum Ground<'a> {
    File(&'a Path, &'static str),
    Database(&'a windlass_testbed::postgres::Server),
}

impl Ground<'_> {
    fn name(&self) -> String {
        match self {
            Self::File(_, durability) => format!("SQLite {durability}"),
            Self::Database(_) => "PostgreSQL".into(),
        }
    }

    /// A place that nothing was in before.
    fn fresh(&self, what: &str) -> Result<String> {
        Ok(match self {
            Self::File(at, durability) => {
                format!("sqlite:{}/{what}-{durability}.db?durability={durability}", at.display())
            }
            Self::Database(server) => server.create_database(&format!("bench_{what}"))?,
        })
    }

    /// What the engine does in its own process.
    fn in_process(&self, more: &[&str]) -> Result<Value> {
        let mut command = windlass()?;
        match self {
            Self::File(at, durability) => {
                command.current_dir(at).args(["bench", "--durability", durability]);
            }
            Self::Database(server) => {
                command.args(["--store", &server.url(), "bench"]);
            }
        }
        Ok(answer(command.args(["--json", "--rounds", "1"]).args(more))?["figures"][0].clone())
    }
}

/// All of it, on files or on PostgreSQL.
pub(crate) fn measure(runtime: &Runtime, at: &Path, args: &Args, table: &mut Table) -> Result<()> {
    if args.postgres {
        let server = windlass_testbed::postgres::Server::start().context("no PostgreSQL to measure with")?;
        return on(runtime, Ground::Database(&server), args, table);
    }
    on(runtime, Ground::File(at, "full"), args, table)?;
    on(runtime, Ground::File(at, "normal"), args, table)
}

/// What is measured, where, and next to what.
struct Run<'a> {
    runtime: &'a Runtime,
    ground: Ground<'a>,
    server: Server,
    args: &'a Args,
    table: &'a mut Table,
}

fn on(runtime: &Runtime, ground: Ground<'_>, args: &Args, table: &mut Table) -> Result<()> {
    let server = Server::start(&ground.fresh("tasks")?)?;
    let mut run = Run { runtime, ground, server, args, table };
    run.all()
}

impl Run<'_> {
    fn all(&mut self) -> Result<()> {
        let megabytes = self.server.megabytes()?;
        self.push("memory of an idle server, MB", megabytes, 40.0, "target");
        for (part, measure) in [
            ("submit", Self::submits as fn(&mut Self) -> Result<()>),
            ("drain", Self::drains),
            ("wake", Self::wakes),
            ("chain", Self::chains),
        ] {
            if self.args.only.contains(part) || part.contains(&*self.args.only) {
                measure(self)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, what: &str, ours: f64, base: f64, base_is: &'static str) {
        let what = format!("{}: {what}", self.ground.name());
        self.table.push(Row { what, ours, base, base_is }, self.args.json);
    }

    fn tasks(&self) -> usize {
        self.args.tasks.next_multiple_of(BATCH)
    }

    /// So few that one after the other does not take for ever.
    fn few(&self) -> usize {
        (self.tasks() / 20).max(200)
    }

    /// Figures of the engine in its own process.
    fn in_process(&self, samples: usize) -> Result<Value> {
        let (samples, tasks) = (samples.to_string(), self.tasks().to_string());
        self.ground.in_process(&["--entities", "0", "--samples", &samples, "--tasks", &tasks])
    }

    fn submits(&mut self) -> Result<()> {
        let (address, tasks) = (self.server.address, self.tasks());
        let base = figure(&self.in_process(1)?, "submit_per_second")?;
        let single = self.runtime.block_on(one_by_one(address, self.few()))?;
        self.push("submit one by one", single, base, "in process");
        let batches = self.runtime.block_on(in_batches(address, tasks))?;
        self.push(&format!("submit in batches of {BATCH}"), batches, base, "in process");
        self.runtime.block_on(drain_with(address, 8, POOL))?;
        Ok(())
    }

    /// Each next to the engine just before: what else the machine does should concern both.
    fn drains(&mut self) -> Result<()> {
        let (address, tasks, few) = (self.server.address, self.tasks(), self.few());
        for (workers, pool, tasks) in [
            (1, 1, few),
            (8, 1, few * 4),
            (64, 1, tasks),
            (1, POOL, tasks),
            (8, POOL, tasks),
            (64, POOL, tasks),
        ] {
            let what = format!("drain, {workers} workers of {pool}");
            if !what.contains(&*self.args.only) {
                continue;
            }
            let (mut bases, mut rates) = (Vec::new(), Vec::new());
            for _ in 0..self.args.rounds {
                bases.push(figure(&self.in_process(1)?, "drain_per_second")?);
                self.runtime.block_on(in_batches(address, tasks.next_multiple_of(BATCH)))?;
                rates.push(self.runtime.block_on(drain_with(address, workers, pool))?);
            }
            let (base, rate) = (median(bases), median(rates));
            self.push(&what, rate, base, "in process");
            if workers == 64 {
                self.push(&format!("{what}, of in process"), rate / base, 0.5, "target");
            }
        }
        Ok(())
    }

    fn wakes(&mut self) -> Result<()> {
        let base = self.in_process(SAMPLES)?;
        let (p50, p99) = (figure(&base, "p50_seconds")? * 1e3, figure(&base, "p99_seconds")? * 1e3);
        let alone = self.runtime.block_on(wakes(self.server.address, 0))?;
        self.push("submit to worker p50, ms", alone.0, p50, "in process");
        self.push("submit to worker p99, ms", alone.1, p99, "in process");
        let before = self.server.megabytes()?;
        let crowd = self.runtime.block_on(wakes_in_a_crowd(&self.server))?;
        self.push(&format!("the same p50 beside {IDLE} that wait"), crowd.p50, alone.0, "alone");
        self.push(&format!("the same p99 beside {IDLE} that wait"), crowd.p99, alone.1, "alone");
        self.push(&format!("server with {IDLE} that wait, MB"), crowd.megabytes, before, "without");
        self.push(&format!("{IDLE} that wait, % of a core"), crowd.percent, 1.0, "one");
        Ok(())
    }

    fn chains(&mut self) -> Result<()> {
        let (mut bases, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..self.args.rounds {
            let base = self.ground.in_process(&["--workflow", &format!("chain:{CHAIN}")])?;
            bases.push(figure(&base, "seconds_per_step")? * 1e3);
            steps.push(self.runtime.block_on(chain(self.server.address))?);
        }
        let (base, step) = (median(bases), median(steps));
        self.push("one chained step, ms", step, base, "in process");
        self.push("added to a chained step, ms", step - base, 3.0, "target");
        Ok(())
    }
}

/// Tasks per second of one client that submits one after the other.
async fn one_by_one(address: SocketAddr, tasks: usize) -> Result<f64> {
    let (mut wire, task) =
        (Wire::connect(address).await?, json!({ "kind": KIND, "payload": {} }).to_string());
    let begun = Instant::now();
    for _ in 0..tasks {
        wire.post("/v1/tasks", &task).await?;
    }
    Ok(tasks as f64 / begun.elapsed().as_secs_f64())
}

/// Tasks per second of two clients that submit batches.
async fn in_batches(address: SocketAddr, tasks: usize) -> Result<f64> {
    let batch: Vec<Value> = (0..BATCH).map(|_| json!({ "kind": KIND, "payload": {} })).collect();
    let batch: Arc<str> = json!({ "tasks": batch }).to_string().into();
    let (left, begun) = (Arc::new(AtomicUsize::new(tasks / BATCH)), Instant::now());
    let mut clients = JoinSet::new();
    for _ in 0..2 {
        let (batch, left) = (batch.clone(), left.clone());
        clients.spawn(async move {
            let mut wire = Wire::connect(address).await?;
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                wire.post("/v1/tasks/batch", &batch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(tasks as f64 / begun.elapsed().as_secs_f64())
}

/// Tasks per second of workers that take all there is.
async fn drain_with(address: SocketAddr, workers: usize, pool: usize) -> Result<f64> {
    let mut crew = Vec::new();
    for _ in 0..workers {
        crew.push(Worker::register(address, pool).await?);
    }
    let begun = Instant::now();
    let mut working = JoinSet::new();
    for mut worker in crew {
        working.spawn(async move {
            let mut done = 0;
            loop {
                match worker.turn(0).await? {
                    0 => return anyhow::Ok(done),
                    more => done += more,
                }
            }
        });
    }
    let mut done = 0;
    while let Some(ended) = working.join_next().await {
        done += ended??;
    }
    ensure!(done > 0, "there was nothing to do");
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

/// Milliseconds from the submit of a task until a worker that waits has it: the median, and the hundredth.
async fn wakes(address: SocketAddr, others: usize) -> Result<(f64, f64)> {
    let (mut wire, mut worker) = (Wire::connect(address).await?, Worker::register(address, 1).await?);
    let task = json!({ "kind": KIND, "payload": {} }).to_string();
    let mut taken = Vec::new();
    for _ in 0..SAMPLES {
        let waiting = tokio::spawn(async move {
            let many = worker.turn(60).await?;
            anyhow::Ok((worker, many, Instant::now()))
        });
        until_waiting(&mut wire, others + 1).await?;
        let begun = Instant::now();
        wire.post("/v1/tasks", &task).await?;
        let (back, many, at) = waiting.await??;
        ensure!(many == 1, "a worker was woken for nothing");
        taken.push((at - begun).as_secs_f64() * 1e3);
        worker = back;
    }
    worker.turn(0).await?;
    taken.sort_by(f64::total_cmp);
    Ok((taken[SAMPLES / 2], taken[SAMPLES * 99 / 100]))
}

/// Comes when so many requests wait for work.
async fn until_waiting(wire: &mut Wire, many: usize) -> Result<()> {
    loop {
        let text = wire.text("/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix("windlass_http_waiting_claims "));
        if line.and_then(|number| number.parse::<usize>().ok()).is_some_and(|waiting| waiting >= many) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a crowd that waits for something else costs.
struct Crowd {
    p50: f64,
    p99: f64,
    megabytes: f64,
    percent: f64,
}

async fn wakes_in_a_crowd(server: &Server) -> Result<Crowd> {
    let mut waiting = JoinSet::new();
    for _ in 0..IDLE {
        let mut worker = Worker::elsewhere(server.address).await?;
        waiting.spawn(async move { while worker.turn(IDLE_WAIT).await.is_ok() {} });
    }
    let mut wire = Wire::connect(server.address).await?;
    until_waiting(&mut wire, IDLE).await?;
    let (before, begun) = (server.cpu_seconds()?, Instant::now());
    tokio::time::sleep(IDLE_LOOK).await;
    let percent = (server.cpu_seconds()? - before) / begun.elapsed().as_secs_f64() * 100.0;
    let (p50, p99) = wakes(server.address, IDLE).await?;
    let megabytes = server.megabytes()?;
    waiting.abort_all();
    Ok(Crowd { p50, p99, megabytes, percent })
}

/// Milliseconds of one step after the other, from the start of a chain to its end, with one worker.
async fn chain(address: SocketAddr) -> Result<f64> {
    let step = |at: usize| {
        let needs: Vec<String> = at.checked_sub(1).map(|above| format!("s{above}")).into_iter().collect();
        (format!("s{at}"), json!({ "task": KIND, "needs": needs, "input": {} }))
    };
    let steps: serde_json::Map<String, Value> = (0..CHAIN).map(step).collect();
    let (mut wire, mut worker) = (Wire::connect(address).await?, Worker::register(address, 1).await?);
    let workflow = json!({ "steps": steps }).to_string();
    let begun = Instant::now();
    let started = wire.post("/v1/workflows", &workflow).await?;
    let start = begun.elapsed();
    let mut done = 0;
    while done < CHAIN {
        done += worker.turn(10).await?;
    }
    worker.turn(0).await?;
    let taken = begun.elapsed() - start;
    let id = started["id"].as_str().context("a workflow without an id")?;
    let seen = wire.get(&format!("/v1/workflows/{id}?steps=0")).await?;
    ensure!(seen["state"] == "complete", "the chain is {}", seen["state"]);
    Ok(taken.as_secs_f64() * 1e3 / CHAIN as f64)
}
