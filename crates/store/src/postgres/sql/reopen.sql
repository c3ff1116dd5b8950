-- Moves tasks from ended back to live.
WITH said AS (
    SELECT * FROM unnest(
        $1::text[]::tid[], $2::bigint[], $3::integer[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
        $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::boolean[],
        $14::bigint[], $15::integer[], $16::boolean[]
    ) AS u (
        at, seq, before, state, attempt, lease, worker,
        due_at, claimed_at, started_at, updated_at, error, slot, rank, entries, plain)
), gone AS (
    DELETE FROM windlass.ended e USING said u
    WHERE e.ctid = u.at AND e.seq IS NOT DISTINCT FROM u.seq AND e.entries = u.before RETURNING u.*
), back AS (
    INSERT INTO windlass.live (
        seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, worker, due_at, claimed_at, started_at,
        updated_at, error, slot, rank, entries, plain)
    SELECT g.seq, t.namespace, t.queue, t.kind, t.lane, t.lane_limit, g.state, g.attempt, g.lease, g.worker, g.due_at,
        g.claimed_at, g.started_at, g.updated_at, g.error, g.slot, g.rank, g.entries, g.plain
    FROM gone g CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.seq = g.seq OFFSET 0) t
)
SELECT CASE WHEN count(*) = $17 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM gone
