-- Changes tasks that are not over. The guard fails if one was not as it was believed to be.
WITH said AS (
    {said_live}
), changed AS (
    UPDATE windlass.live l SET
        state = u.state, attempt = u.attempt, lease = u.lease, worker = u.worker, due_at = u.due_at,
        claimed_at = u.claimed_at, started_at = u.started_at, updated_at = u.updated_at, error = u.error, slot = u.slot,
        rank = u.rank, entries = u.entries, plain = u.plain, waits = u.waits, met = u.met, others = u.others,
        ready_at = CASE WHEN l.state = 'waiting' AND u.state = 'pending' AND u.plain THEN u.updated_at ELSE l.ready_at END
    FROM said u WHERE l.ctid = u.at AND l.seq IS NOT DISTINCT FROM u.seq AND l.entries = u.before RETURNING l.seq, l.ctid::text AS at
)
SELECT c.seq, c.at, g.guard
FROM (SELECT CASE WHEN count(*) = $20 THEN 1 ELSE 1 / (count(*) - count(*)) END AS guard FROM changed) g
LEFT JOIN changed c ON true
