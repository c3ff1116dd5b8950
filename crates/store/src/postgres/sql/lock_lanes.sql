-- Everyone who changes the line of a lane takes its lock first, in one order.
SELECT pg_advisory_xact_lock(lock) FROM (
    SELECT DISTINCT hashtextextended(n.namespace || ' ' || n.lane, {salt}) AS lock
    FROM unnest($1::text[], $2::text[]) AS n (namespace, lane) ORDER BY lock OFFSET 0
) locks
