//! PostgreSQL: the store and the engine next to hand-written statements and to the queues of others, on one
//! private server, in turns.

pub(crate) mod by_hand;
mod peers;
mod processes;
mod through_engine;
mod through_store;

use std::time::Instant;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use windlass_store::Store;
use windlass_store::postgres::{Options, PostgresStore, Schema};
use windlass_testbed::postgres::Server;

pub(crate) use processes::drain_here;

use crate::table::{Row, Table};
use crate::{Args, median};

/// Tasks of one finish and claim.
const BATCH: usize = 500;

/// Tasks of one submit.
const SUBMITTED: usize = 1_000;

/// Callers, or connections, at once.
const CONNECTIONS: usize = 2;

/// What one measurement found: tasks per second, milliseconds, bytes per task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    submit: f64,
    drain: f64,
    cycle: f64,
    p50: f64,
    p99: f64,
    wal: f64,
}

impl Figures {
    fn new(tasks: usize, submitted: f64, drained: f64) -> Self {
        let tasks = tasks as f64;
        let (submit, drain, cycle) = (tasks / submitted, tasks / drained, tasks / (submitted + drained));
        Self { submit, drain, cycle, ..Self::default() }
    }

    fn middle(all: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(all.iter().map(figure).collect());
        Self {
            submit: of(|it| it.submit),
            drain: of(|it| it.drain),
            cycle: of(|it| it.cycle),
            p50: of(|it| it.p50),
            p99: of(|it| it.p99),
            wal: of(|it| it.wal),
        }
    }
}

/// A private server and what is measured on it.
struct Bench<'a> {
    server: Server,
    runtime: &'a Runtime,
    tasks: usize,
    rounds: usize,
}

/// All of it.
pub(crate) fn measure(runtime: &Runtime, args: &Args, table: &mut Table) -> Result<()> {
    let server = Server::start().context("no PostgreSQL to measure with")?;
    eprintln!(
        "PostgreSQL {}, default durability, 2 callers, batches of {SUBMITTED} and {BATCH}",
        server.version()
    );
    let tasks = args.tasks.next_multiple_of(SUBMITTED * CONNECTIONS);
    let bench = Bench { server, runtime, tasks, rounds: args.rounds };
    let mut push = |what: &str, ours: f64, base: f64, base_is: &'static str| {
        table.push(Row { what: format!("PostgreSQL, {what}"), ours, base, base_is }, args.json);
    };
    let (mut hand, mut store, mut engine, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        hand.push(bench.by_hand(&format!("hand_{round}"))?);
        store.push(bench.through_store(&format!("store_{round}"))?);
        engine.push(through_engine::measure(&bench.server.url(), tasks)?);
        others.extend(peers::measure(&bench.server.url(), tasks)?);
    }
    let (hand, store, engine) = (Figures::middle(&hand), Figures::middle(&store), Figures::middle(&engine));
    push("store, submit", store.submit, hand.submit, "by hand");
    push("store, drain", store.drain, hand.drain, "by hand");
    push("store, full cycle", store.cycle, hand.cycle, "by hand");
    push("store, WAL bytes a task", store.wal, hand.wal, "by hand");
    push("workers, submit", engine.submit, hand.submit, "by hand");
    push("workers, drain", engine.drain, hand.drain, "by hand");
    push("workers, full cycle", engine.cycle, hand.cycle, "by hand");
    push("workers, p99 idle, in ms, next to p50", engine.p99, engine.p50, "p50");
    if others.is_empty() {
        eprintln!("{}", peers::MISSING);
    }
    for name in ["graphile-worker", "pg-boss", "graphile_worker"] {
        let all: Vec<Figures> = others.iter().filter(|(peer, _)| peer == name).map(|(_, it)| *it).collect();
        if !all.is_empty() {
            let peer = Figures::middle(&all);
            push("workers, submit", engine.submit, peer.submit, name);
            push("workers, drain", engine.drain, peer.drain, name);
            push("workers, full cycle", engine.cycle, peer.cycle, name);
            push("workers, p50 idle, in ms", engine.p50, peer.p50, name);
        }
    }
    let (alone, four) = (bench.processes(1)?, bench.processes(4)?);
    push("4 processes, drain", four.drain, alone.drain, "1 process");
    push("4 processes, least next to most done", four.least, four.most, "most");
    let (with, without) = bench.with_reader(args.held)?;
    push(
        &format!("full cycle, a transaction held open {} s", args.held),
        with.cycle,
        without.cycle,
        "none open",
    );
    if args.finished > 0 {
        let (full, empty) = bench.with_finished(args.finished)?;
        push(&format!("full cycle, {} finished", args.finished), full.cycle, empty.cycle, "empty");
    }
    Ok(())
}

impl Bench<'_> {
    /// Makes the tables.
    fn open(&self, schema: &str) -> Result<PostgresStore> {
        let options = Options::new(&self.server.url())?.schema(Schema::new(schema)?);
        Ok(self.runtime.block_on(options.open())?)
    }

    fn by_hand(&self, schema: &str) -> Result<Figures> {
        self.runtime.block_on(self.open(schema)?.close())?;
        self.with_wal(|| self.runtime.block_on(by_hand::measure(&self.server.url(), schema, self.tasks)))
    }

    fn through_store(&self, schema: &str) -> Result<Figures> {
        let store = self.open(schema)?;
        self.with_wal(|| self.runtime.block_on(through_store::measure(store, self.tasks)))
    }

    /// The figures, with the bytes that the server logged meanwhile.
    fn with_wal(&self, measure: impl FnOnce() -> Result<Figures>) -> Result<Figures> {
        let before = self.server.sql("SELECT pg_current_wal_lsn()")?;
        let figures = measure()?;
        let logged = format!("SELECT pg_current_wal_lsn() - '{}'::pg_lsn", before.trim());
        let bytes: f64 = self.server.sql(&logged)?.trim().parse()?;
        Ok(Figures { wal: bytes / self.tasks as f64, ..figures })
    }

    /// A connection with a snapshot that keeps the server from removing anything; for as long as it lives.
    fn reader(&self) -> Result<tokio_postgres::Client> {
        self.runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.server.url(), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client
                .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()")
                .await?;
            Ok(client)
        })
    }

    /// With a transaction that has been open for so many seconds of load, and before it was opened.
    fn with_reader(&self, seconds: u64) -> Result<(Figures, Figures)> {
        let mut without = Vec::new();
        for _ in 0..self.rounds {
            without.push(self.through_store("reader")?);
        }
        let (reader, since) = (self.reader()?, Instant::now());
        let mut with = Vec::new();
        while with.len() < self.rounds || since.elapsed().as_secs() < seconds {
            with.push(self.through_store("reader")?);
        }
        drop(reader);
        Ok((Figures::middle(&with[with.len() - self.rounds..]), Figures::middle(&without)))
    }

    /// With many finished tasks in the tables, and with none.
    fn with_finished(&self, finished: usize) -> Result<(Figures, Figures)> {
        eprintln!("filling a schema with {finished} finished tasks …");
        self.runtime.block_on(self.open("filled")?.close())?;
        self.server.sql(&format!(
            "SET search_path = filled; \
             INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload) \
             SELECT gen_random_uuid(), 'default', 'default', 'bench:noop', 0, 0, 0, 3, now(), '{{}}' \
             FROM generate_series(1, {finished}); \
             INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank, \
                entries, plain, result) \
             SELECT seq, 'completed', 1, 1, 'gone', now(), now(), now(), now(), 0, 4, true, 'null' FROM tasks; \
             INSERT INTO counts SELECT 'default', 'default', 'bench:noop', false, 'completed', 0, count(*) FROM tasks"
        ))?;
        let (mut full, mut empty) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            empty.push(self.through_store(&format!("empty_{round}"))?);
            full.push(self.through_store("filled")?);
        }
        Ok((Figures::middle(&full), Figures::middle(&empty)))
    }
}
