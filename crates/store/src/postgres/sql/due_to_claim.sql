-- Tasks that a claim could take if somebody had promoted them, earliest first. Each queue and kind is its own range of the index.
WITH moment AS MATERIALIZED (
    SELECT coalesce($4, clock_timestamp()) AS now
)
SELECT t.id FROM (
    SELECT d.seq, d.due_at FROM moment m, unnest($2::text[]) AS q (queue), unnest($3::text[]) AS k (kind) CROSS JOIN LATERAL (
        SELECT l.seq, l.due_at FROM windlass.live l
        WHERE l.namespace = $1 AND l.queue = q.queue AND l.kind = k.kind AND l.due_at <= m.now
        ORDER BY l.due_at, l.seq LIMIT $5
    ) d
    WHERE NOT EXISTS (SELECT FROM windlass.paused_queues p WHERE p.namespace = $1 AND p.queue = q.queue)
    ORDER BY d.due_at, d.seq LIMIT $5
) d CROSS JOIN LATERAL (SELECT t.id FROM windlass.tasks t WHERE t.seq = d.seq OFFSET 0) t
ORDER BY d.due_at, d.seq
