-- All of them, or none: the last line fails if one was there already.
WITH new AS MATERIALIZED (
    SELECT nextval('windlass.tasks_seq_seq') AS seq, u.* FROM (SELECT
        unnest($1::uuid[]) AS id, unnest($2::text[]) AS namespace, unnest($3::text[]) AS queue,
        unnest($4::text[]) AS kind, unnest($5::integer[]) AS priority, unnest($6::bigint[]) AS per_hour,
        unnest($7::bigint[]) AS per_retry, unnest($8::text[]) AS key, unnest($9::text[]) AS lane,
        unnest($10::bigint[]) AS lane_limit, unnest($11::boolean[]) AS lane_strict, unnest($12::bigint[]) AS timeout,
        unnest($13::text[]) AS tags, unnest($14::bigint[]) AS max_attempts, unnest($15::text[]) AS retry,
        unnest($16::timestamptz[]) AS created_at, unnest($17::text[]) AS payload, unnest($18::text[]) AS state,
        unnest($19::timestamptz[]) AS due_at, unnest($20::bigint[]) AS rank, unnest($21::text[]) AS actor,
        unnest($22::text[]) AS traceparent
    ) u
), added AS (
    INSERT INTO windlass.tasks (
        seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout,
        tags, max_attempts, retry, created_at, actor, payload, traceparent)
    SELECT seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout,
        tags::json, max_attempts, retry::json, created_at, actor, payload::json, traceparent
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
SELECT CASE WHEN count(*) = $23 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM added
