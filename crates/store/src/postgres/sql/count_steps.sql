SELECT t.namespace, t.queue, t.kind, r.state, count(*) FROM windlass.tasks t
CROSS JOIN LATERAL (
    SELECT l.state FROM windlass.live l WHERE l.seq = t.seq UNION ALL SELECT e.state FROM windlass.ended e WHERE e.seq = t.seq
) r
WHERE t.id >= $1 AND t.id <= $2 AND t.is_step GROUP BY 1, 2, 3, 4
