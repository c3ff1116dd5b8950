//! The floor on PostgreSQL: hand-written, prepared statements on the same tables that do the same writes,
//! with no store in between: no lanes, keys, delays, retries, or refusals.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use super::{BATCH, CONNECTIONS, Figures, SUBMITTED};
use crate::through_store::{PAYLOAD, RESULT};

const SUBMIT: &str = "WITH new AS MATERIALIZED (
        SELECT nextval('tasks_seq_seq') AS seq, u.id, u.payload FROM unnest($1::uuid[], $2::text[]) AS u (id, payload)
    ), added AS (
        INSERT INTO tasks (seq, id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload)
        SELECT seq, id, 'default', 'default', 'bench:noop', 0, 0, 0, 3, now(), payload::json FROM new
    ), begun AS (
        INSERT INTO live (seq, namespace, queue, kind, state, attempt, lease, updated_at, slot, rank, entries, plain)
        SELECT seq, 'default', 'default', 'bench:noop', 'pending', 0, 0, now(), false, 0, 1, true FROM new
    )
    INSERT INTO counts AS c VALUES ('default', 'default', 'bench:noop', false, 'pending', pg_backend_pid() % 64, $3::bigint)
    ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks";

pub(crate) const CLAIM: &str = "WITH picked AS MATERIALIZED (
        SELECT ctid AS at FROM live
        WHERE namespace = 'default' AND queue = 'default' AND kind = 'bench:noop' AND state = 'pending'
            AND (lane IS NULL OR slot)
        ORDER BY ~rank, seq LIMIT $2 FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE live SET state = 'claimed', attempt = attempt + 1, lease = lease + 1, worker = $1, claimed_at = now(),
            updated_at = now(), entries = entries + 1
        WHERE ctid = ANY (ARRAY(SELECT at FROM picked)) RETURNING seq, lease, attempt, ctid AS at
    ), counted AS (
        INSERT INTO counts AS c SELECT 'default', 'default', 'bench:noop', false, d.state, pg_backend_pid() % 64, d.sign * count(*)
        FROM taken, (VALUES ('claimed', 1), ('pending', -1)) AS d (state, sign) GROUP BY d.state, d.sign
        ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks
    )
    SELECT l.seq, l.lease, l.attempt, l.at::text, t.id, t.kind, t.max_attempts, t.timeout, t.payload::text
    FROM taken l CROSS JOIN LATERAL (SELECT * FROM tasks t WHERE t.seq = l.seq OFFSET 0) t";

const FINISH: &str = "WITH said AS (
        SELECT * FROM unnest($2::text[]::tid[], $3::bigint[], $4::bigint[], $5::text[]) AS u (at, seq, lease, result)
    ), gone AS (
        DELETE FROM live l USING said u WHERE l.ctid = u.at AND l.seq = u.seq AND l.lease = u.lease AND l.worker = $1
        RETURNING l.seq, l.attempt, l.lease, l.claimed_at, l.rank, u.result
    ), kept AS (
        INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank,
            entries, plain, result)
        SELECT seq, 'completed', attempt, lease, $1, claimed_at, now(), now(), now(), rank, 4, true, result::json FROM gone
    ), counted AS (
        INSERT INTO counts AS c SELECT 'default', 'default', 'bench:noop', false, d.state, pg_backend_pid() % 64, d.sign * count(*)
        FROM gone, (VALUES ('completed', 1), ('claimed', -1)) AS d (state, sign) GROUP BY d.state, d.sign
        ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks
    )
    SELECT count(*) FROM gone";

/// Submits, then claims and finishes `tasks`, on [`CONNECTIONS`] connections.
pub(crate) async fn measure(url: &str, schema: &str, tasks: usize) -> Result<Figures> {
    let start = Instant::now();
    let mut submitters = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = connect(url, schema).await?;
        submitters.push(tokio::spawn(async move { submit(&client, tasks / CONNECTIONS).await }));
    }
    for submitter in submitters {
        submitter.await??;
    }
    let submitted = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut workers = Vec::new();
    for n in 0..CONNECTIONS {
        let client = connect(url, schema).await?;
        workers.push(tokio::spawn(async move { drain(&client, &format!("hand-{n}")).await }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    ensure!(done == tasks, "{done} of {tasks} were done");
    Ok(Figures::new(tasks, submitted, start.elapsed().as_secs_f64()))
}

pub(crate) async fn connect(url: &str, schema: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(&format!(
            "SET search_path = {schema}; SET enable_seqscan = off; SET enable_bitmapscan = off; \
             SET plan_cache_mode = force_generic_plan"
        ))
        .await?;
    Ok(client)
}

async fn submit(client: &Client, tasks: usize) -> Result<()> {
    let statement = client.prepare(SUBMIT).await?;
    for _ in 0..tasks / SUBMITTED {
        let ids: Vec<Uuid> = (0..SUBMITTED).map(|_| Uuid::now_v7()).collect();
        let payloads = vec![PAYLOAD; SUBMITTED];
        client.execute(&statement, &[&ids, &payloads, &i64::try_from(SUBMITTED)?]).await?;
    }
    Ok(())
}

/// Finishes the last batch and claims the next in one transaction, until there is nothing left.
async fn drain(client: &Client, worker: &str) -> Result<usize> {
    let (claim, finish) = (client.prepare(CLAIM).await?, client.prepare(FINISH).await?);
    let (mut held, mut done) = (Vec::new(), 0);
    loop {
        let (begun, finished, claimed, committed) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            report(client, &finish, worker, &held),
            take(client, &claim, worker, BATCH),
            client.batch_execute("COMMIT"),
        );
        begun?;
        ensure!(finished? == held.len(), "a lease was lost");
        let next = claimed?;
        committed?;
        done += held.len();
        held = next;
        if held.is_empty() {
            return Ok(done);
        }
    }
}

pub(crate) type Held = (i64, i64, String);

async fn report(client: &Client, finish: &Statement, worker: &str, held: &[Held]) -> Result<usize> {
    if held.is_empty() {
        return Ok(0);
    }
    let places: Vec<&str> = held.iter().map(|(.., at)| at.as_str()).collect();
    let seqs: Vec<i64> = held.iter().map(|(seq, ..)| *seq).collect();
    let leases: Vec<i64> = held.iter().map(|(_, lease, _)| *lease).collect();
    let results = vec![RESULT; held.len()];
    let row = client.query_one(finish, &[&worker, &places, &seqs, &leases, &results]).await?;
    usize::try_from(row.get::<_, i64>(0)).context("a count")
}

pub(crate) async fn take(
    client: &Client,
    claim: &Statement,
    worker: &str,
    limit: usize,
) -> Result<Vec<Held>> {
    let rows = client.query(claim, &[&worker, &i64::try_from(limit)?]).await?;
    let held = rows.iter().map(|row| {
        let _for_the_handler: (i64, Uuid, String, Option<i64>, Option<i64>, String) =
            (row.get(2), row.get(4), row.get(5), row.get(6), row.get(7), row.get(8));
        (row.get(0), row.get(1), row.get(3))
    });
    Ok(held.collect())
}
