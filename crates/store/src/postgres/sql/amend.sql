-- Changes how tasks ended.
WITH said AS (
    {said_ended}
), changed AS (
    UPDATE windlass.ended e SET
        state = u.state, attempt = u.attempt, lease = u.lease, worker = u.worker, claimed_at = u.claimed_at,
        started_at = u.started_at, finished_at = u.finished_at, updated_at = u.updated_at, error = u.error, rank = u.rank,
        entries = u.entries, plain = u.plain, result = coalesce(u.result::json, e.result)
    FROM said u WHERE e.ctid = u.at AND e.seq IS NOT DISTINCT FROM u.seq AND e.entries = u.before RETURNING 1
)
SELECT CASE WHEN count(*) = $18 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM changed
