-- The steps of a workflow, and the items of a step. All of them, or none: the last line fails if one was there already.
WITH new AS MATERIALIZED (
    SELECT nextval('windlass.tasks_seq_seq') AS seq, u.*, u.state IN ('pending', 'waiting') AND u.note IS NULL AS plain
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::bigint[], $8::boolean[],
        $9::bigint[], $10::bigint[], $11::text[], $12::timestamptz[], $13::text[], $14::text[], $15::bigint[],
        $16::text[], $17::text[], $18::text[], $19::bigint[], $20::bigint[], $21::text[], $22::text[]
    ) AS u (
        id, namespace, queue, kind, priority, lane, lane_limit, lane_strict,
        timeout, max_attempts, retry, created_at, payload, state, rank,
        actor, note, waits, met, others, result, traceparent)
), added AS (
    INSERT INTO windlass.tasks (
        seq, id, namespace, queue, kind, priority, per_hour, per_retry, lane, lane_limit, lane_strict, timeout,
        max_attempts, retry, created_at, actor, payload, is_step, traceparent)
    SELECT seq, id, namespace, queue, kind, priority, 0, 0, lane, lane_limit, lane_strict, timeout,
        max_attempts, retry::json, created_at, actor, payload::json, true, traceparent
    FROM new ON CONFLICT DO NOTHING RETURNING 1
), begun AS (
    INSERT INTO windlass.live (
        seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, updated_at, slot, rank, entries, plain, is_step, waits,
        met, others)
    SELECT seq, namespace, queue, kind, lane, lane_limit, state, 0, 0, created_at, false, rank, 1, plain, true, waits,
        met, others
    FROM new WHERE state <> 'resolved_manually'
), over AS (
    INSERT INTO windlass.ended (
        seq, state, attempt, lease, finished_at, updated_at, rank, entries, plain, result, is_step)
    SELECT seq, state, 0, 0, created_at, created_at, rank, 1, false, result::json, true
    FROM new WHERE state = 'resolved_manually'
), told AS (
    INSERT INTO windlass.history_rows (task, n, state, at, reason, actor, note)
    SELECT seq, 1, state, created_at, 'submitted', actor, note FROM new WHERE NOT plain
)
SELECT CASE WHEN count(*) = $23 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM added
