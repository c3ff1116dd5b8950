-- Only workflows that have changed since then have anything that ended since then.
SELECT * FROM workflows WHERE finished_at IS NULL AND updated_at >= ?1
UNION ALL
SELECT * FROM workflows WHERE state IN ('complete', 'error', 'cancelled', 'resolved_manually') AND finished_at >= ?1
