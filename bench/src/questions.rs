//! What it costs to ask about workflows on PostgreSQL: the functions of document 002, called as any client
//! would, in milliseconds, with few and with many workflows waiting and a million finished steps beside them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};
use windlass_core::{Definition, Name, NewWorkflow, Source, WorkflowId};
use windlass_store::Store;
use windlass_store::postgres::Options;
use windlass_testbed::postgres::Server;

use crate::table::{Row, Table};
use crate::{Args, median};

/// How often each question is asked; the median counts.
const TIMES: usize = 21;

/// Workflows that were started.
static STARTED: AtomicU64 = AtomicU64::new(1);

/// Milliseconds that no answer should take, however many workflows wait; and one about the graph of ten
/// thousand steps.
const TARGET: f64 = 5.0;
const TARGET_OF_MANY_STEPS: f64 = 100.0;

/// Callers that start workflows at once.
const CALLERS: usize = 8;

/// Finished workflows of four steps each.
const FINISHED: usize = 250_000;

const FILL: &str = "SET search_path = windlass;
    INSERT INTO workflows (id, namespace, name, version, definition, priority, nesting, created_at, state, paused, waiting, nested, active,
        timed, done, skipped, cancelled, failed, updated_at, finished_at, entries, retries, rank)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, 'default', 'diamond', '1', 1, 0, 0, now(), 'complete', false,
        0, 0, 0, 0, 4, 0, 0, 0, now(), now(), 6, 0, 0 FROM generate_series(1, {finished}) n;
    INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, is_step)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000' || lpad(to_hex((s + 1) << 17), 9, '0'))::uuid, 'default', 'default', 'work', 0,
        0, 0, 3, now(), 'null', true FROM generate_series(1, {finished}) n, generate_series(0, 3) s;
    INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank, entries, plain, result, is_step)
    SELECT seq, 'completed', 1, 1, 'gone', now(), now(), now(), now(), 0, 4, true, 'null', true FROM tasks;
    INSERT INTO counts VALUES ('default', 'default', 'work', true, 'completed', 0, {finished} * 4);
    INSERT INTO workflow_counts VALUES ('default', 'diamond', 'complete', 0, {finished});
    INSERT INTO activity VALUES (date_trunc('minute', now()), 0, {finished}, {finished}, 0, 0, {finished} * 4, 0, 0, 'default')";

/// All of it.
pub(crate) fn measure(runtime: &Runtime, args: &Args, table: &mut Table) -> Result<()> {
    let server = Server::start().context("no PostgreSQL to measure with")?;
    let mut all = Vec::new();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(Options::new(&server.url())?.open().await?);
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
        tokio::spawn(connection);
        store.define(Name::default(), definition("diamond", &diamond())?).await?;
        eprintln!("filling the tables with {FINISHED} finished workflows of 4 steps …");
        client.batch_execute(&FILL.replace("{finished}", &FINISHED.to_string())).await?;
        client.batch_execute("ANALYZE; SET search_path = tasker, public").await?;
        let mut waiting = 0;
        for (many, text) in [(5_000, "5,000"), (50_000, "50,000")] {
            eprintln!("starting workflows until {text} wait …");
            let one = start(&store, many - waiting).await?;
            waiting = many;
            for (name, sql) in questions(one) {
                all.push((name, text, ask(&client, &sql).await?));
            }
        }
        for (what, steps, last) in
            [("38-step ladder", ladder(), 37), ("10,000 layered steps", layers(), 9_999)]
        {
            let name = if last == 37 { "ladder" } else { "layers" };
            store.define(Name::default(), definition(name, &steps)?).await?;
            let id = start_one(&store, name).await?;
            let step = id.step(last);
            let levels =
                format!("SELECT count(*), max(dependency_level) FROM calculate_dependency_levels('{id}')");
            let ancestors =
                format!("SELECT count(*), max(distance) FROM get_step_transitive_dependencies('{step}')");
            for (question, sql) in [("levels", levels), ("transitive dependencies", ancestors)] {
                let millis = ask(&client, &sql).await?;
                let limit = if last == 37 { TARGET } else { TARGET_OF_MANY_STEPS };
                let what = format!("ms: {question}, {what}");
                table.push(Row { what, ours: millis, base: limit, base_is: "the target" }, args.json);
            }
        }
        store.close().await?;
        anyhow::Ok(())
    })?;
    for (name, waiting, millis) in all {
        let what = format!("ms: {name}, {waiting} waiting");
        table.push(Row { what, ours: millis, base: TARGET, base_is: "the target" }, args.json);
    }
    Ok(())
}

/// What is asked, about all of them or about one.
fn questions(one: WorkflowId) -> [(&'static str, String); 5] {
    [
        ("get_next_ready_tasks", "SELECT * FROM get_next_ready_tasks(50)".into()),
        ("get_step_readiness_status", format!("SELECT * FROM get_step_readiness_status('{one}')")),
        ("get_task_execution_context", format!("SELECT * FROM get_task_execution_context('{one}')")),
        ("get_system_health_counts", "SELECT * FROM get_system_health_counts()".into()),
        ("get_analytics_metrics", "SELECT * FROM get_analytics_metrics()".into()),
    ]
}

/// Milliseconds until the answer is there.
async fn ask(client: &Client, sql: &str) -> Result<f64> {
    let mut taken = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        let rows = client.query(sql, &[]).await.with_context(|| sql.to_owned())?;
        taken.push(begun.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(!rows.is_empty(), "{sql} answers nothing");
    }
    Ok(median(taken))
}

async fn start_one(store: &Arc<dyn Store>, name: &str) -> Result<WorkflowId> {
    let source = Source::Named { name: Name::new("definition", name)?, version: None };
    // The last bits number the steps. One after the other, behind those that are finished.
    let number = u128::from(STARTED.fetch_add(1, Ordering::Relaxed));
    let id =
        WorkflowId::new(uuid::Uuid::from_u128(0x0f00_0000_0000_7000_8000_0000_0000_0000 + (number << 34)));
    let input = windlass_core::Json::new("input", "{}")?;
    Ok(store.start(NewWorkflow::new(id, source, input)).await?.id)
}

/// Starts so many, and says which was the last.
async fn start(store: &Arc<dyn Store>, many: usize) -> Result<WorkflowId> {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            let mut last = None;
            for _ in 0..many / CALLERS {
                last = Some(start_one(&store, "diamond").await?);
            }
            anyhow::Ok(last)
        });
    }
    let mut last = None;
    while let Some(done) = callers.join_next().await {
        last = done??;
    }
    last.context("none was started")
}

fn definition(name: &str, steps: &str) -> Result<Definition> {
    Ok(serde_json::from_str(&format!("{{\"name\":\"{name}\",\"steps\":{{{steps}}}}}"))?)
}

fn step(text: &mut String, at: usize, needs: &[usize]) {
    let needs: Vec<String> = needs.iter().map(|at| format!("\"s{at}\"")).collect();
    let comma = if at == 0 { "" } else { "," };
    // Writing to a text cannot fail.
    let _ = write!(text, "{comma}\"s{at}\":{{\"task\":\"work\",\"needs\":[{}]}}", needs.join(","));
}

fn diamond() -> String {
    let mut text = String::new();
    for (at, needs) in [&[][..], &[0], &[0], &[1, 2]].into_iter().enumerate() {
        step(&mut text, at, needs);
    }
    text
}

/// Two beside one another, each after both of those before: more than half a million ways from the first to
/// the last.
fn ladder() -> String {
    let mut text = String::new();
    for at in 0..38 {
        let above: Vec<usize> = if at < 2 { Vec::new() } else { vec![at / 2 * 2 - 2, at / 2 * 2 - 1] };
        step(&mut text, at, &above);
    }
    text
}

fn layers() -> String {
    let mut text = String::new();
    for at in 0..10_000_usize {
        let (row, column) = (at / 100, at % 100);
        let above: Vec<usize> = if row == 0 {
            Vec::new()
        } else {
            [column, (column + 1) % 100].map(|it| (row - 1) * 100 + it).to_vec()
        };
        step(&mut text, at, &above);
    }
    text
}
