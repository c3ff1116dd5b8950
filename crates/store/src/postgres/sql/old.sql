-- What retention does not keep, oldest first.
SELECT o.seq, t.namespace, t.queue, t.kind, o.state FROM (
    SELECT * FROM (
        SELECT e.seq, e.state, e.finished_at FROM unnest($1::text[], $2::timestamptz[]) AS c (state, before)
        CROSS JOIN LATERAL (
            SELECT e.seq, e.state, e.finished_at FROM windlass.ended e
            WHERE e.state <> 'completed' AND NOT e.is_step AND e.state = c.state AND e.finished_at < c.before
            ORDER BY e.finished_at, e.seq LIMIT $3 FOR UPDATE SKIP LOCKED
        ) e
        UNION ALL
        SELECT e.seq, e.state, e.finished_at FROM unnest($1::text[], $2::timestamptz[]) AS c (state, before)
        CROSS JOIN LATERAL (
            SELECT e.seq, e.state, e.finished_at FROM windlass.ended e
            WHERE e.state = 'completed' AND NOT e.is_step AND e.finished_at < c.before
            ORDER BY e.finished_at, e.seq LIMIT $3 FOR UPDATE SKIP LOCKED
        ) e
        WHERE c.state = 'completed'
    ) e ORDER BY e.finished_at, e.seq LIMIT $3
) o CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.seq = o.seq OFFSET 0) t
