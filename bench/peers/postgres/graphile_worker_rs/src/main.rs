//! graphile_worker, the rewrite of graphile-worker in Rust, with the settings that were fastest: measures
//! what `measure.mjs` measures of the queues for node, in the same way, and prints the same line. It deletes
//! a task when it is completed. A handler's end is told to the database later, for many tasks in one
//! statement.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use graphile_worker::{
    Database, DbExecutor, DbParams, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec,
    TaskHandler, Worker, WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const PEER: &str = "graphile_worker";
const SCHEMA: &str = "peer_graphile_worker_rs";
const BATCH: usize = 1_000;
const SAMPLES: usize = 300;
/// Idle means idle: nothing is on its way and nobody is still awake from the last one.
const PAUSE: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Serialize, Deserialize)]
struct Nothing {
    n: usize,
}

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        match context.get_ext::<Starts>() {
            Some(starts) => {
                starts.note();
                Ok(())
            }
            None => Err("the count of starts is missing"),
        }
    }
}

/// Counts handlers that have begun.
#[derive(Clone, Debug)]
struct Starts {
    count: Arc<AtomicUsize>,
    /// From this count on each start is told; to tell of those before would only cost the workers time.
    told_from: usize,
    last: watch::Sender<(usize, Instant)>,
}

impl Starts {
    fn told_from(told_from: usize) -> Self {
        Self { count: Arc::default(), told_from, last: watch::Sender::new((0, Instant::now())) }
    }

    fn note(&self) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= self.told_from {
            self.last.send_replace((count, Instant::now()));
        }
    }

    /// When the last of so many began.
    async fn reached(&self, count: usize) -> Result<Instant> {
        let mut last = self.last.subscribe();
        let (_, at) = *last.wait_for(|(started, _)| *started >= count).await?;
        Ok(at)
    }
}

struct Figures {
    drain: Duration,
    waits: Vec<Duration>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (tasks, concurrency) = arguments()?;
    let url = env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    // A queue that lost a task would be waited for without end.
    let limit = Duration::from_secs(60) + Duration::from_millis(2) * tasks;
    let measured = timeout(limit, measure(&url, usize::try_from(tasks)?, concurrency)).await;
    measured.map_err(|_| format!("not done after {limit:?}"))?
}

fn arguments() -> Result<(u32, u32)> {
    let (mut tasks, mut concurrency) = (20_000, 24);
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        let value = value.ok_or(format!("{name}: expected a number from 1 up"))?;
        match name.as_str() {
            "--tasks" => tasks = value,
            "--concurrency" => concurrency = value,
            _ => return Err(format!("{name}: expected --tasks or --concurrency").into()),
        }
    }
    Ok((tasks, concurrency))
}

async fn measure(url: &str, tasks: usize, concurrency: u32) -> Result<()> {
    let database: Database = PgPoolOptions::new().max_connections(concurrency + 1).connect(url).await?.into();
    database.execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"), DbParams::new()).await?;
    let queue = WorkerUtils::new(database.clone(), SCHEMA);
    queue.migrate().await?;

    let jobs: Vec<RawJobSpec> = (0..tasks).map(job).collect();
    let begun = Instant::now();
    submit_all(&queue, &jobs).await?;
    let submit = begun.elapsed();

    let starts = Starts::told_from(tasks);
    let begun = Instant::now();
    let worker = Arc::new(worker(&database, usize::try_from(concurrency)?, &starts).await?);
    let running = worker.clone();
    let mut ended = tokio::spawn(async move { running.run().await });
    let figures = tokio::select! {
        figures = work(&database, &queue, &starts, tasks, begun) => figures?,
        ended = &mut ended => return Err(format!("the worker ended: {ended:?}").into()),
    };
    print(tasks, submit, figures);

    worker.request_shutdown();
    ended.await??;
    database.execute(&format!("DROP SCHEMA {SCHEMA} CASCADE"), DbParams::new()).await?;
    Ok(())
}

async fn worker(database: &Database, concurrency: usize, starts: &Starts) -> Result<Worker> {
    let worker = WorkerOptions::default()
        .database(database.clone())
        .schema(SCHEMA)
        .concurrency(concurrency)
        .local_queue(LocalQueueConfig::default().with_size(2_000).with_queue_count(2))
        .complete_job_batch_delay(Duration::from_millis(1))
        .fail_job_batch_delay(Duration::from_millis(1))
        .listen_os_shutdown_signals(false)
        .add_extension(starts.clone())
        .define_job::<Nothing>();
    Ok(worker.init().await?)
}

/// Two batches at once, so that the next is put together while the database stores the last.
async fn submit_all(queue: &WorkerUtils, jobs: &[RawJobSpec]) -> Result<()> {
    let submit = |odd: usize| async move {
        for batch in jobs.chunks(BATCH).skip(odd).step_by(2) {
            queue.add_raw_jobs(batch).await?;
        }
        Result::Ok(())
    };
    tokio::try_join!(submit(0), submit(1))?;
    Ok(())
}

async fn work(
    database: &Database,
    queue: &WorkerUtils,
    starts: &Starts,
    tasks: usize,
    begun: Instant,
) -> Result<Figures> {
    starts.reached(tasks).await?;
    // A handler that has ended says nothing yet: only the database knows what is completed.
    while left(database).await? > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let drain = begun.elapsed();
    let mut waits = Vec::with_capacity(SAMPLES);
    for n in 1..=SAMPLES {
        sleep(PAUSE).await;
        let begun = Instant::now();
        queue.add_job(Nothing { n }, JobSpec::default()).await?;
        waits.push(starts.reached(tasks + n).await?.duration_since(begun));
    }
    Ok(Figures { drain, waits })
}

fn job(n: usize) -> RawJobSpec {
    RawJobSpec {
        identifier: Nothing::IDENTIFIER.to_owned(),
        payload: serde_json::json!({ "n": n }),
        spec: JobSpec::default(),
    }
}

async fn left(database: &Database) -> Result<i64> {
    let sql = format!("SELECT count(*) AS left FROM {SCHEMA}._private_jobs");
    Ok(database.fetch_one(&sql, DbParams::new()).await?.try_get("left")?)
}

fn print(tasks: usize, submit: Duration, mut figures: Figures) {
    figures.waits.sort();
    let rank = |percent: usize| figures.waits[(SAMPLES * percent).div_ceil(100) - 1].as_secs_f64() * 1_000.0;
    let per_second = |time: Duration| (tasks as f64 / time.as_secs_f64()).round();
    println!(
        r#"{{"peer":"{PEER}","version":"{}","tasks":{tasks},"submit_per_s":{},"drain_per_s":{},"cycle_per_s":{},"p50_ms":{:.2},"p99_ms":{:.2}}}"#,
        version(),
        per_second(submit),
        per_second(figures.drain),
        per_second(submit + figures.drain),
        rank(50),
        rank(99),
    );
}

/// From the lock file: no crate tells the version of another.
fn version() -> &'static str {
    let entry = include_str!("../Cargo.lock").split_once("name = \"graphile_worker\"\nversion = \"");
    entry.and_then(|(_, rest)| rest.split_once('"')).map_or("unknown", |(version, _)| version)
}
