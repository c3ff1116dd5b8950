//! What Windlass costs, next to hand-written statements that do the same writes in the same run.
//!
//! Every figure is a ratio of two things measured alternately on the same machine within the same minute,
//! because absolute figures of a shared machine mean little. It does *not* test anything: a slow machine is
//! not a bug.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

mod by_hand;
mod http;
mod peer;
mod postgres;
mod program;
mod questions;
mod table;
mod through_engine;
mod through_store;
mod workflows;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use windlass_store::sqlite::Durability;

use crate::table::{Row, Table};

/// Measures the full cycle of a task (submit, claim, start, finish, history kept) on SQLite, next to
/// hand-written statements.
#[derive(Parser, Debug)]
#[command(after_help = "Examples:\n  windlass-bench\n  windlass-bench --tasks 20000 --rounds 5\n  \
    windlass-bench --finished 1000000   the same with a million finished tasks in the file\n  \
    windlass-bench --workflows --postgres   chains, fans and layers of steps on PostgreSQL\n  \
    windlass-bench --http   a server, and workers in another process\n  \
    windlass-bench --json > figures.json")]
struct Args {
    /// Tasks per measurement at batches of 100 and more; smaller batches take fewer.
    #[arg(long, default_value_t = 20_000)]
    tasks: usize,
    /// How often each measurement is repeated; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Also compare with a file that holds this many finished tasks.
    #[arg(long, default_value_t = 0)]
    finished: usize,
    /// Only measurements whose name contains this, such as "1000, Normal"; over HTTP "submit", "drain",
    /// "drain, 64", "wake" or "chain".
    #[arg(long, default_value = "")]
    only: String,
    /// Where the database files are made; a temporary directory if absent.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Measure on PostgreSQL instead of SQLite, on a private server.
    #[arg(long)]
    postgres: bool,
    /// Measure what it costs to ask about workflows instead, on PostgreSQL.
    #[arg(long, conflicts_with = "workflows")]
    questions: bool,
    /// Measure workflows instead of lone tasks.
    #[arg(long)]
    workflows: bool,
    /// Measure the server over HTTP, next to the engine in its own process.
    #[arg(long, conflicts_with_all = ["workflows", "questions"])]
    http: bool,
    /// For how many seconds a transaction is held open beside the load, on PostgreSQL.
    #[arg(long, default_value_t = 5)]
    held: u64,
    /// Only work off what there is at this address, in this schema; one of several processes that do.
    #[arg(long, num_args = 2, value_names = ["URL", "SCHEMA"], hide = true)]
    drain: Option<Vec<String>>,
    /// Print one JSON value instead of a table.
    #[arg(long)]
    json: bool,
}

/// One measurement: how durable, how many at a time, how many in all.
#[derive(Clone, Copy, Debug)]
struct Case {
    durability: Durability,
    batch: usize,
    tasks: usize,
}

impl Case {
    fn name(&self) -> String {
        format!("batches of {}, {:?}", self.batch, self.durability)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut table = Table::default();
    if let Some([url, schema]) = args.drain.as_deref() {
        println!("{}", runtime.block_on(postgres::drain_here(url, schema))?);
        return Ok(());
    }
    if args.questions {
        questions::measure(&runtime, &args, &mut table)?;
        if args.json {
            println!("{}", table.json());
        }
        return Ok(());
    }
    if args.postgres && !args.workflows && !args.http {
        postgres::measure(&runtime, &args, &mut table)?;
        if args.json {
            println!("{}", table.json());
        }
        return Ok(());
    }
    let temporary = match &args.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let directory = temporary.context("no directory for the database files")?;
    if args.workflows || args.http {
        let measure = if args.http { http::measure } else { workflows::measure };
        measure(&runtime, directory.path(), &args, &mut table)?;
        if args.json {
            println!("{}", table.json());
        }
        return Ok(());
    }
    for durability in [Durability::Full, Durability::Normal] {
        for batch in [1, 100, 1_000] {
            let tasks =
                if batch == 1 { (args.tasks / 20).max(200) } else { args.tasks.next_multiple_of(batch) };
            let case = Case { durability, batch, tasks };
            if case.name().contains(&args.only) {
                table.push(against_hand(&runtime, directory.path(), case, args.rounds)?, args.json);
            }
        }
        if format!("64 callers of one, {durability:?}").contains(&args.only) {
            table.push(concurrent_callers(&runtime, directory.path(), durability, &args)?, args.json);
        }
    }
    for durability in [Durability::Full, Durability::Normal] {
        let name = format!("workers and handlers, {durability:?}");
        if name.contains(&args.only) {
            for row in engine(directory.path(), name, durability, &args)? {
                table.push(row, args.json);
            }
        }
    }
    if args.finished > 0 {
        for row in with_history(&runtime, directory.path(), &args)? {
            table.push(row, args.json);
        }
    }
    if args.json {
        println!("{}", table.json());
    }
    Ok(())
}

/// The store next to hand-written statements, in turns.
fn against_hand(runtime: &tokio::runtime::Runtime, at: &Path, case: Case, rounds: usize) -> Result<Row> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let file = |who: &str| at.join(format!("{who}-{:?}-{}-{round}.db", case.durability, case.batch));
        theirs.push(by_hand::cycle(&file("hand"), case)?);
        ours.push(runtime.block_on(through_store::cycle(&file("store"), case))?);
    }
    Ok(Row { what: case.name(), ours: median(ours), base: median(theirs), base_is: "by hand" })
}

/// The engine, with a real worker and handlers that do nothing, next to hand-written statements in batches of
/// 1,000, which run nothing; and next to a queue of others, if it is installed.
fn engine(at: &Path, name: String, durability: Durability, args: &Args) -> Result<Vec<Row>> {
    let case = Case { durability, batch: 1_000, tasks: args.tasks.next_multiple_of(1_000) };
    let (mut ours, mut hand, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        hand.push(by_hand::cycle(&at.join(format!("hand-engine-{durability:?}-{round}.db")), case)?);
        ours.push(through_engine::cycle(at, case)?);
        peer.extend(peer::cycle(at, case)?);
    }
    let ours = median(ours);
    let mut rows = vec![Row { what: name.clone(), ours, base: median(hand), base_is: "by hand" }];
    if peer.is_empty() {
        eprintln!("{}", peer::MISSING);
    } else {
        rows.push(Row { what: name, ours, base: median(peer), base_is: "huey" });
    }
    Ok(rows)
}

/// 64 callers that do one thing at a time, next to one such caller.
fn concurrent_callers(
    runtime: &tokio::runtime::Runtime,
    at: &Path,
    durability: Durability,
    args: &Args,
) -> Result<Row> {
    let (mut many, mut one) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let file = |callers: usize| at.join(format!("callers-{durability:?}-{callers}-{round}.db"));
        let few = (args.tasks / 20).max(200);
        one.push(runtime.block_on(through_store::callers(&file(1), durability, 1, few))?);
        many.push(runtime.block_on(through_store::callers(&file(64), durability, 64, args.tasks))?);
    }
    Ok(Row {
        what: format!("64 callers of one, {durability:?}"),
        ours: median(many),
        base: median(one),
        base_is: "one caller",
    })
}

/// The store with finished tasks in the file, next to an empty one.
fn with_history(runtime: &tokio::runtime::Runtime, at: &Path, args: &Args) -> Result<Vec<Row>> {
    let full = at.join("full.db");
    eprintln!("filling a file with {} finished tasks …", args.finished);
    let fill = Case { durability: Durability::Normal, batch: 1_000, tasks: args.finished };
    runtime.block_on(through_store::cycle(&full, fill))?;
    let mut rows = Vec::new();
    for durability in [Durability::Full, Durability::Normal] {
        for batch in [100, 1_000] {
            let case = Case { durability, batch, tasks: args.tasks.next_multiple_of(batch) };
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for round in 0..args.rounds {
                let empty = at.join(format!("empty-{durability:?}-{batch}-{round}.db"));
                without.push(runtime.block_on(through_store::cycle(&empty, case))?);
                with.push(runtime.block_on(through_store::cycle(&full, case))?);
            }
            rows.push(Row {
                what: format!("{}, {} finished", case.name(), args.finished),
                ours: median(with),
                base: median(without),
                base_is: "empty file",
            });
        }
    }
    Ok(rows)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
