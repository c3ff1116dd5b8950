-- The store's present, and whether a worker may claim.
SELECT m.now, EXISTS (SELECT FROM windlass.workers w WHERE w.id = $1 AND {alive_until} > m.now)
FROM (SELECT coalesce($2, clock_timestamp()) AS now) m
