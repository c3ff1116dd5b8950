//! Counters by hand on PostgreSQL, on the same tables, with the edges in one more.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass_store::Store;
use windlass_store::postgres::{Options, Schema};

use super::{BATCH, Shape};
use crate::postgres::by_hand::{CLAIM, connect, take};
use crate::through_store::RESULT;

const DEFINE: &str = "CREATE TABLE edges (parent bigint, child bigint, PRIMARY KEY (parent, child))";

const START: &str = "WITH new AS MATERIALIZED (
        SELECT u.seq, u.needs FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, needs)
    ), added AS (
        INSERT INTO tasks (seq, id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, is_step)
        SELECT seq, gen_random_uuid(), 'default', 'default', 'bench:noop', 0, 0, 0, 3, now(), '{}', true FROM new
    ), begun AS (
        INSERT INTO live (seq, namespace, queue, kind, state, attempt, lease, updated_at, slot, rank, entries, plain, waits, met, others)
        SELECT seq, 'default', 'default', 'bench:noop', CASE needs WHEN 0 THEN 'pending' ELSE 'waiting' END, 0, 0, now(), false, 0, 1,
            true, CASE WHEN needs > 0 THEN 'parents' END, CASE WHEN needs > 0 THEN 0 END, CASE WHEN needs > 0 THEN needs END
        FROM new
    ), workflow AS (
        INSERT INTO workflows (id, namespace, name, version, definition, priority, nesting, created_at, state, paused,
            waiting, nested, active, timed, done, skipped, cancelled, failed, updated_at, entries, retries, rank)
        SELECT $3, 'default', 'bench', '1', 1, 0, 0, now(), 'steps_in_process', false, count(*) FILTER (WHERE needs > 0), 0,
            count(*) FILTER (WHERE needs = 0), 0, 0, 0, 0, 0, now(), 1, 0, 0 FROM new
    )
    INSERT INTO counts AS c SELECT 'default', 'default', 'bench:noop', true,
        CASE needs WHEN 0 THEN 'pending' ELSE 'waiting' END, pg_backend_pid() % 64, count(*) FROM new GROUP BY 5
    ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks";

const FINISH: &str = "WITH said AS (
        SELECT * FROM unnest($2::text[]::tid[], $3::bigint[], $4::bigint[], $5::text[]) AS u (at, seq, lease, result)
    ), workflow AS MATERIALIZED (
        SELECT seq FROM workflows WHERE id = $6 FOR UPDATE
    ), gone AS (
        DELETE FROM live l USING said u, workflow w
        WHERE l.ctid = u.at AND l.seq = u.seq AND l.lease = u.lease AND l.worker = $1
        RETURNING l.seq, l.attempt, l.lease, l.claimed_at, l.ready_at, l.rank, l.entries, u.result
    ), kept AS (
        INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, ready_at, rank,
            entries, plain, result, is_step)
        SELECT seq, 'completed', attempt, lease, $1, claimed_at, now(), now(), now(), ready_at, rank, entries + 2, true,
            result::json, true FROM gone
    ), told AS MATERIALIZED (
        SELECT e.child, count(*) AS by FROM gone g CROSS JOIN LATERAL (SELECT * FROM edges e WHERE e.parent = g.seq OFFSET 0) e
        GROUP BY e.child
    ), children AS MATERIALIZED (
        SELECT l.at, l.seq, t.by FROM told t CROSS JOIN LATERAL (SELECT ctid AS at, seq FROM live WHERE seq = t.child OFFSET 0) l
    ), moved AS (
        UPDATE live l SET met = CASE WHEN l.met + c.by < l.others THEN l.met + c.by END,
            others = CASE WHEN l.met + c.by < l.others THEN l.others END,
            waits = CASE WHEN l.met + c.by < l.others THEN 'parents' END,
            state = CASE WHEN l.met + c.by < l.others THEN 'waiting' ELSE 'pending' END,
            ready_at = CASE WHEN l.met + c.by < l.others THEN NULL ELSE now() END,
            entries = CASE WHEN l.met + c.by < l.others THEN 1 ELSE 2 END, updated_at = now()
        FROM children c WHERE l.ctid = c.at AND l.seq IS NOT DISTINCT FROM c.seq RETURNING l.state
    ), sums AS MATERIALIZED (
        SELECT (SELECT count(*) FROM gone) AS done, (SELECT count(*) FROM moved WHERE state = 'pending') AS opened
    ), counted AS (
        INSERT INTO counts AS c SELECT 'default', 'default', 'bench:noop', true, d.state, pg_backend_pid() % 64, d.by
        FROM sums s CROSS JOIN LATERAL (VALUES ('completed', s.done), ('claimed', -s.done), ('pending', s.opened), ('waiting', -s.opened))
            AS d (state, by)
        ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks
    )
    UPDATE workflows w SET waiting = w.waiting - s.opened, active = w.active + s.opened - s.done, done = w.done + s.done, updated_at = now(),
        state = CASE WHEN w.waiting + w.active = s.done THEN 'complete' ELSE w.state END,
        finished_at = CASE WHEN w.waiting + w.active = s.done THEN now() END
    FROM sums s WHERE w.id = $6 RETURNING s.done";

/// Starts and works off one workflow; steps per second.
pub(super) async fn measure(url: &str, schema: &str, shape: Shape) -> Result<f64> {
    Options::new(url)?.schema(Schema::new(schema)?).open().await?.close().await?;
    let client = connect(url, schema).await?;
    client.batch_execute("SET jit = off").await?;
    define(&client, shape).await?;
    let (id, begun) = (Uuid::now_v7(), Instant::now());
    let (mut seqs, mut needs) = (Vec::new(), Vec::new());
    for at in 0..shape.steps() {
        seqs.push(i64::try_from(at)? + 1);
        needs.push(i64::try_from(shape.needs(at).len())?);
    }
    client.execute(START, &[&seqs, &needs, &id]).await?;
    let done = work(&client, id).await?;
    ensure!(done == shape.steps(), "{done} steps were done");
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
    Ok(rate)
}

/// What is known of every workflow of this shape.
async fn define(client: &Client, shape: Shape) -> Result<()> {
    client.batch_execute(DEFINE).await?;
    let (mut parents, mut children) = (Vec::new(), Vec::new());
    for child in 0..shape.steps() {
        for parent in shape.needs(child) {
            parents.push(i64::try_from(parent)? + 1);
            children.push(i64::try_from(child)? + 1);
        }
    }
    client
        .execute("INSERT INTO edges SELECT * FROM unnest($1::bigint[], $2::bigint[])", &[&parents, &children])
        .await?;
    Ok(())
}

async fn work(client: &Client, id: Uuid) -> Result<usize> {
    let (claim, finish) = (client.prepare(CLAIM).await?, client.prepare(FINISH).await?);
    let (worker, mut done) = ("hand", 0);
    let mut held = take(client, &claim, worker, BATCH).await?;
    while !held.is_empty() {
        let places: Vec<&str> = held.iter().map(|(.., at)| at.as_str()).collect();
        let seqs: Vec<i64> = held.iter().map(|(seq, ..)| *seq).collect();
        let leases: Vec<i64> = held.iter().map(|(_, lease, _)| *lease).collect();
        let results = vec![RESULT; held.len()];
        let finishing: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&worker, &places, &seqs, &leases, &results, &id];
        let (begun, finished, claimed, committed) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query_one(&finish, &finishing),
            take(client, &claim, worker, BATCH),
            client.batch_execute("COMMIT"),
        );
        begun?;
        let ended = usize::try_from(finished?.get::<_, i64>(0)).context("a count")?;
        ensure!(ended == held.len(), "a lease was lost");
        done += ended;
        held = claimed?;
        committed?;
    }
    Ok(done)
}
