-- The store's present, and which of these workers may claim.
SELECT m.now, ARRAY(SELECT w.id FROM windlass.workers w WHERE w.id = ANY ($1::text[]) AND {alive_until} > m.now)
FROM (SELECT coalesce($2, clock_timestamp()) AS now) m
