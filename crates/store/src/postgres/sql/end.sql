-- Moves tasks from live to ended, which are found by the places of their rows alone (no index knows "is not distinct"). The last line fails if one was not as it was believed to be.
WITH said AS (
    {said_ended}
), gone AS (
    DELETE FROM windlass.live l USING said u
    WHERE l.ctid = u.at AND l.seq IS NOT DISTINCT FROM u.seq AND l.entries = u.before RETURNING u.*, l.ready_at
), kept AS (
    INSERT INTO windlass.ended (
        seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, error, rank, entries, plain,
        result, is_step, ready_at)
    SELECT seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, error, rank, entries,
        plain, result::json, is_step, ready_at
    FROM gone
)
SELECT CASE WHEN count(*) = $18 THEN 1 ELSE 1 / (count(*) - count(*)) END FROM gone
