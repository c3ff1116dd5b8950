-- The same for the lanes of tasks.
SELECT pg_advisory_xact_lock(lock) FROM (
    SELECT DISTINCT hashtextextended(t.namespace || ' ' || t.lane, {salt}) AS lock
    FROM windlass.tasks t WHERE t.id = ANY ($1) AND t.lane IS NOT NULL ORDER BY lock OFFSET 0
) locks
