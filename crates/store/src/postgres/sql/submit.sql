-- All of them, or none: the last line fails if one was there already.
WITH new AS MATERIALIZED (
    SELECT nextval('windlass.tasks_seq_seq') AS seq, u.*
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::bigint[], $7::bigint[], $8::text[],
        $9::text[], $10::bigint[], $11::boolean[], $12::bigint[], $13::text[], $14::bigint[], $15::text[],
        $16::timestamptz[], $17::text[], $18::text[], $19::timestamptz[], $20::bigint[], $21::text[]
    ) AS u (
        id, namespace, queue, kind, priority, per_hour, per_retry, key,
        lane, lane_limit, lane_strict, timeout, tags, max_attempts, retry,
        created_at, payload, state, due_at, rank, actor)
), added AS (
    INSERT INTO windlass.tasks (
        seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout,
        tags, max_attempts, retry, created_at, actor, payload)
    SELECT seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout,
        tags::json, max_attempts, retry::json, created_at, actor, payload::json
    FROM new ON CONFLICT DO NOTHING RETURNING 1
), begun AS (
    INSERT INTO windlass.live (
        seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, due_at, updated_at, slot, rank, entries,
        plain)
    SELECT seq, namespace, queue, kind, lane, lane_limit, state, 0, 0, due_at, created_at, false, rank, 1,
        state = 'pending'
    FROM new
), told AS (
    INSERT INTO windlass.history_rows (task, n, state, at, reason, actor)
    SELECT seq, 1, state, created_at, 'submitted', actor FROM new WHERE state <> 'pending'
)
SELECT CASE WHEN count(*) = $22 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM added
