//! PostgreSQL: the store and the engine next to hand-written statements and to the queues of others, on one private server, in turns.

mod by_hand;
mod through_store;

use anyhow::{Context, Result};
use windlass_testbed::postgres::Server;

use crate::table::{Row, Table};
use crate::{Args, median};

/// Tasks of one finish and claim.
const BATCH: usize = 500;

/// Tasks of one submit.
const SUBMITTED: usize = 1_000;

/// Callers, or connections, at once.
const CONNECTIONS: usize = 2;

/// What one measurement found.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    submit: f64,
    drain: f64,
    cycle: f64,
    wal: f64,
}

impl Figures {
    fn new(tasks: usize, submitted: f64, drained: f64) -> Self {
        let tasks = tasks as f64;
        Self {
            submit: tasks / submitted,
            drain: tasks / drained,
            cycle: tasks / (submitted + drained),
            wal: 0.0,
        }
    }
}

/// All of it.
pub(crate) fn measure(runtime: &tokio::runtime::Runtime, args: &Args, table: &mut Table) -> Result<()> {
    let server = Server::start().context("no PostgreSQL to measure with")?;
    eprintln!(
        "PostgreSQL {}, default durability, 2 callers, batches of {SUBMITTED} and {BATCH}",
        server.version()
    );
    let tasks = args.tasks.next_multiple_of(SUBMITTED * CONNECTIONS);
    let (mut hand, mut store) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let schema = format!("bench_{round}");
        prepare(runtime, &server, &schema)?;
        hand.push(with_wal(&server, tasks, || {
            runtime.block_on(by_hand::measure(&server.url(), &schema, tasks))
        })?);
        let schema = format!("bench_store_{round}");
        prepare(runtime, &server, &schema)?;
        store.push(with_wal(&server, tasks, || {
            runtime.block_on(through_store::measure(&server.url(), &schema, tasks))
        })?);
    }
    let all = |figures: &[Figures], of: fn(&Figures) -> f64| median(figures.iter().map(of).collect());
    for (what, of) in [
        ("PostgreSQL, submit", (|figures| figures.submit) as fn(&Figures) -> f64),
        ("PostgreSQL, drain", |figures| figures.drain),
        ("PostgreSQL, full cycle", |figures| figures.cycle),
        ("PostgreSQL, WAL bytes per task", |figures| figures.wal),
    ] {
        let row = Row { what: what.into(), ours: all(&store, of), base: all(&hand, of), base_is: "by hand" };
        table.push(row, args.json);
    }
    Ok(())
}

/// Makes the tables.
fn prepare(runtime: &tokio::runtime::Runtime, server: &Server, schema: &str) -> Result<()> {
    use windlass_store::Store;
    use windlass_store::postgres::{Options, Schema};
    let options = Options::new(&server.url())?.schema(Schema::new(schema)?);
    runtime.block_on(async {
        let store = options.open().await?;
        store.close().await
    })?;
    Ok(())
}

/// The figures, with the bytes that the server logged meanwhile.
fn with_wal(server: &Server, tasks: usize, measure: impl FnOnce() -> Result<Figures>) -> Result<Figures> {
    let before = server.sql("SELECT pg_current_wal_lsn()")?;
    let figures = measure()?;
    let bytes = server.sql(&format!("SELECT pg_current_wal_lsn() - '{}'::pg_lsn", before.trim()))?;
    Ok(Figures { wal: bytes.trim().parse::<f64>()? / tasks as f64, ..figures })
}
