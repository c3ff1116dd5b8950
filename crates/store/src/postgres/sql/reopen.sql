-- Moves tasks from ended back to live.
WITH said AS (
    {said_live}
), gone AS (
    DELETE FROM windlass.ended e USING said u
    WHERE e.ctid = u.at AND e.seq IS NOT DISTINCT FROM u.seq AND e.entries = u.before RETURNING u.*
), back AS (
    INSERT INTO windlass.live (
        seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, worker, due_at, claimed_at, started_at,
        updated_at, error, slot, rank, entries, plain, is_step, waits, met, others)
    SELECT g.seq, t.namespace, t.queue, t.kind, t.lane, t.lane_limit, g.state, g.attempt, g.lease, g.worker, g.due_at,
        g.claimed_at, g.started_at, g.updated_at, g.error, g.slot, g.rank, g.entries, g.plain, t.is_step, g.waits, g.met,
        g.others
    FROM gone g CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.seq = g.seq OFFSET 0) t
)
SELECT CASE WHEN count(*) = $20 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM gone
