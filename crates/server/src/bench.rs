//! `windlass bench`: how fast the engine is here, with real workers and handlers that do nothing.

mod ground;
mod shapes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass::{Context, NewTask, State, Store, TaskError};

use crate::address::is_postgres;
use crate::failure::Usage;
use crate::paint::Paint;
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use crate::table::{Cell, Table};
use ground::{Ground, Plot};
use shapes::{Shape, Taken};

/// Measure submit, drain, latency and the price of entities, with handlers that do nothing
///
/// Uses fresh files in a temporary directory below the present one, so that the disk is the one that matters,
/// and removes them. With the address of a PostgreSQL database it uses a schema of its own there,
/// windlass_bench_…, and drops it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass bench
  windlass bench --tasks 100000 --pool 24 --json
  windlass bench --workflow chain:400 --workflow fan:10000
  windlass bench --store postgres://postgres@127.0.0.1/postgres")]
pub(crate) struct BenchArgs {
    /// Tasks of one measurement
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = from_one(10_000_000))]
    tasks: usize,
    /// Handlers that run at once
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = from_one(10_000))]
    pool: usize,
    /// Entities that the tasks of one measurement are spread over; 0 to leave that out
    #[arg(long, value_name = "N", default_value_t = 100)]
    entities: usize,
    /// Tasks submitted one by one to an idle worker
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = from_one(1_000_000))]
    samples: usize,
    /// How often each measurement is made; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = from_one(1_000))]
    rounds: usize,
    /// Measure workflows of this shape instead: chain:N, fan:N (1, then N, then 1), map:N (the same, of one
    /// step) or layers:N (of 100 each)
    #[arg(long, value_name = "SHAPE:N")]
    workflow: Vec<Shape>,
    /// Measure only this durability of files; that of a PostgreSQL server is what the server is set to
    #[arg(long, value_parser = ["full", "normal"])]
    durability: Option<String>,
}

fn from_one(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

const KIND: &str = "bench:nothing";
const BATCH: usize = 1_000;

/// One durability's figures.
struct Figures {
    durability: String,
    submit: f64,
    drain: f64,
    cycle: f64,
    with_entities: Option<f64>,
    p50: Duration,
    p99: Duration,
}

pub(crate) async fn run(session: &Session, args: &BenchArgs) -> Result<Answer> {
    if let (true, Some(durability)) = (is_postgres(session.address()), &args.durability) {
        let told = format!(
            "--durability {durability} is for files; a PostgreSQL server decides itself, by synchronous_commit and fsync"
        );
        return Err(Usage::new(told).into());
    }
    if is_postgres(session.address()) {
        // A mistake in the address is told before anything is made.
        session.postgres()?;
    }
    let mut signals = Signals::listen()?;
    let ground = tokio::select! {
        biased;
        () = signals.next() => std::process::exit(130),
        ground = Ground::new(session.address()) => ground?,
    };
    let measured = tokio::select! {
        biased;
        () = signals.next() => None,
        told = measure_all(session.paint(), args, &ground) => Some(told),
    };
    let Some(told) = measured else {
        // Who insists is not kept waiting, and is left with what could not be removed yet.
        tokio::select! { _ = ground.remove() => {}, () = signals.next() => {} }
        std::process::exit(130);
    };
    let removed = ground.remove().await;
    let told = told?;
    removed?;
    Ok(told)
}

async fn measure_all(paint: Paint, args: &BenchArgs, ground: &Ground) -> Result<Answer> {
    let files = ["full", "normal"].map(Some).into_iter();
    let durabilities: Vec<Option<&str>> = match ground {
        Ground::Schema(_) => vec![None],
        Ground::Files(_) => {
            files.filter(|it| args.durability.is_none() || args.durability.as_deref() == *it).collect()
        }
    };
    if args.workflow.is_empty() {
        let mut all = Vec::new();
        for durability in durabilities {
            all.push(measure(args, ground, durability).await?);
        }
        return Ok(told(paint, args, &all));
    }
    let mut all = Vec::new();
    for durability in durabilities {
        for shape in &args.workflow {
            let mut rounds = Vec::new();
            for _ in 0..args.rounds {
                rounds.push(shapes::measure(*shape, args.pool, ground, durability).await?);
            }
            rounds.sort_unstable_by_key(|taken| taken.start + taken.run);
            all.push(rounds.swap_remove(rounds.len() / 2));
        }
    }
    Ok(shapes_told(paint, args, &all))
}

fn shapes_told(paint: Paint, args: &BenchArgs, all: &[Taken]) -> Answer {
    let mut table =
        Table::new(&["WORKFLOW", "STEPS", "DURABILITY", "START MS", "STEPS/S", "US A STEP", "PEAK MB"]);
    let number = |number: f64, digits: usize| Cell::Number(format!("{number:.digits$}"));
    for taken in all {
        let peak = taken.peak_bytes.map(|bytes| format!("{:.0}", bytes as f64 / 1e6)).unwrap_or_default();
        table.row([
            Cell::from(&*taken.shape.to_string()),
            Cell::Number(taken.shape.tasks().to_string()),
            Cell::from(&*taken.durability),
            number(taken.start.as_secs_f64() * 1e3, 1),
            number(taken.per_second(), 0),
            number(taken.per_step().as_secs_f64() * 1e6, 1),
            Cell::Number(peak),
        ]);
    }
    let text = table.render(paint, "");
    let figures: Value = all.iter().map(Taken::json).collect();
    Answer::new(text, &json!({ "pool": args.pool, "figures": figures }))
}

fn told(paint: Paint, args: &BenchArgs, all: &[Figures]) -> Answer {
    let rate = |rate: f64| Cell::Number(format!("{rate:.0}"));
    let millis = |duration: Duration| Cell::Number(format!("{:.2}", duration.as_secs_f64() * 1e3));
    let mut table = Table::new(&[
        "DURABILITY",
        "SUBMIT/S",
        "DRAIN/S",
        "CYCLE/S",
        "DRAIN/S WITH ENTITIES",
        "RATIO",
        "P50 MS",
        "P99 MS",
    ]);
    for one in all {
        let price = one.with_entities.map(|with| format!("{:.2}", with / one.drain)).unwrap_or_default();
        let with_entities = one.with_entities.map_or_else(|| "".into(), rate);
        let rates = [one.submit, one.drain, one.cycle].map(rate);
        let cells = std::iter::once((&*one.durability).into()).chain(rates);
        table.row(cells.chain([with_entities, Cell::Number(price), millis(one.p50), millis(one.p99)]));
    }
    let mut text = table.render(paint, "");
    text += &format!(
        "{} tasks, {} handlers, {} entities; latency from submit to the start of the handler, idle worker, {} samples\n",
        args.tasks, args.pool, args.entities, args.samples
    );
    let value = |one: &Figures| {
        json!({
            "durability": one.durability, "submit_per_second": one.submit, "drain_per_second": one.drain,
            "cycle_per_second": one.cycle, "drain_with_entities_per_second": one.with_entities,
            "p50_seconds": one.p50.as_secs_f64(), "p99_seconds": one.p99.as_secs_f64(),
        })
    };
    let figures: Value = all.iter().map(value).collect();
    Answer::new(text, &json!({ "tasks": args.tasks, "pool": args.pool, "figures": figures }))
}

async fn measure(args: &BenchArgs, ground: &Ground, durability: Option<&str>) -> Result<Figures> {
    let (mut submits, mut drains, mut cycles) = (Vec::new(), Vec::new(), Vec::new());
    let mut with_entities = Vec::new();
    let tasks = f64::from(u32::try_from(args.tasks)?);
    for _ in 0..args.rounds {
        let (submit, drain) = one_round(args, ground, durability, None).await?;
        submits.push(tasks / submit.as_secs_f64());
        drains.push(tasks / drain.as_secs_f64());
        cycles.push(tasks / (submit + drain).as_secs_f64());
        if args.entities > 0 {
            let (_, drain) = one_round(args, ground, durability, Some(args.entities)).await?;
            with_entities.push(tasks / drain.as_secs_f64());
        }
    }
    let (mut waits, durability) = latency(args, ground, durability).await?;
    waits.sort_unstable();
    let rank = |share: usize| waits[(waits.len() * share / 100).min(waits.len() - 1)];
    Ok(Figures {
        durability,
        submit: median(submits),
        drain: median(drains),
        cycle: median(cycles),
        with_entities: (!with_entities.is_empty()).then(|| median(with_entities)),
        p50: rank(50),
        p99: rank(99),
    })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// How durable a store is, in a word.
async fn durability_of(store: &dyn Store) -> Result<String> {
    let told = store.describe().await?.into_iter().find(|(name, _)| *name == "durability");
    Ok(told.map(|(_, value)| value.split(':').next().unwrap_or_default().to_owned()).unwrap_or_default())
}

/// Submits all tasks, then works them off: how long each took.
async fn one_round(
    args: &BenchArgs,
    ground: &Ground,
    durability: Option<&str>,
    entities: Option<usize>,
) -> Result<(Duration, Duration)> {
    let plot = ground.plot(durability).await?;
    let Plot { windlass, .. } = &plot;
    let client = windlass.client();
    let mut batches: Vec<Vec<NewTask>> = Vec::new();
    for number in 0..args.tasks {
        let mut task = client.submit_json(KIND, &number.to_string());
        if let Some(entities) = entities {
            task = task.entity(&format!("bench:{}", number % entities.max(1)));
        }
        if number % BATCH == 0 {
            batches.push(Vec::with_capacity(BATCH));
        }
        batches.last_mut().context("a batch was begun")?.push(task.build()?);
    }
    let begun = Instant::now();
    // As many callers as a worker would have turns at once: what is measured is the store, not the wait for
    // its answers.
    let callers = windlass.store().turns_at_once();
    let mut submits = JoinSet::new();
    for caller in 0..callers {
        let share: Vec<_> = batches.iter().skip(caller).step_by(callers).cloned().collect();
        let client = client.clone();
        submits.spawn(async move {
            for batch in share {
                client.submit_all(batch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(submitted) = submits.join_next().await {
        submitted??;
    }
    let submit = begun.elapsed();

    let order = Arc::new(Order { seen: Mutex::default(), wrong: AtomicUsize::new(0), entities });
    let (left, done) = (Arc::new(AtomicUsize::new(args.tasks)), Arc::new(Notify::new()));
    let begun = Instant::now();
    let (watched, counted, signal) = (order.clone(), left.clone(), done.clone());
    let worker = windlass.worker().pool(args.pool).handle_kind(KIND, move |context| {
        watched.note(&context);
        if counted.fetch_sub(1, Ordering::Relaxed) == 1 {
            signal.notify_one();
        }
        async { Ok(Value::Null) }
    });
    let worker = worker.start().await?;
    tokio::select! {
        () = done.notified() => worker.stop().await?,
        ended = worker.ended() => ended?,
    }
    let drain = begun.elapsed();
    let completed: u64 = client
        .stats()
        .await?
        .iter()
        .filter(|count| count.state == State::Completed)
        .map(|count| count.tasks)
        .sum();
    ensure!(completed == u64::try_from(args.tasks)?, "{completed} of {} tasks completed", args.tasks);
    ensure!(order.wrong.load(Ordering::Relaxed) == 0, "the order of an entity was not kept");
    windlass.close().await?;
    Ok((submit, drain))
}

/// Checks that the tasks of one entity run in submit order.
struct Order {
    seen: Mutex<HashMap<usize, usize>>,
    wrong: AtomicUsize,
    entities: Option<usize>,
}

impl Order {
    fn note(&self, context: &Context) {
        let Some(entities) = self.entities else { return };
        let number: usize = context.payload().as_str().parse().unwrap_or(usize::MAX);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.insert(number % entities.max(1), number).is_some_and(|before| before >= number) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How long it takes from submitting to an idle worker until its handler starts, again and again.
/// And how durable the store was.
async fn latency(
    args: &BenchArgs,
    ground: &Ground,
    durability: Option<&str>,
) -> Result<(Vec<Duration>, String)> {
    let plot = ground.plot(durability).await?;
    let Plot { windlass, .. } = &plot;
    let (origin, started, signal) = (Instant::now(), Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (clock, bell) = (started.clone(), signal.clone());
    let worker = windlass.worker().pool(args.pool).handle_kind(KIND, move |_| {
        clock.store(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
        bell.notify_one();
        async { Ok::<_, TaskError>(Value::Null) }
    });
    let worker = worker.start().await?;
    let client = windlass.client();
    let mut waits = Vec::with_capacity(args.samples);
    for _ in 0..args.samples {
        // Idle means idle: nothing is on its way and nobody is still awake from the last one.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let begun = origin.elapsed();
        client.submit_json(KIND, "null").await?;
        tokio::select! {
            () = signal.notified() => {}
            ended = worker.ended() => ended?,
        }
        waits.push(Duration::from_nanos(started.load(Ordering::SeqCst)).saturating_sub(begun));
    }
    worker.stop().await?;
    let durability = durability_of(&**windlass.store()).await?;
    windlass.close().await?;
    Ok((waits, durability))
}
