-- What retention does not keep, oldest first.
SELECT o.seq, o.id, o.definition, o.version, o.namespace, o.name, o.state FROM unnest($1::text[], $2::timestamptz[]) AS c (state, before)
CROSS JOIN LATERAL (
    SELECT w.seq, w.id, w.definition, w.version, w.namespace, w.name, w.state, w.finished_at FROM windlass.workflows w
    WHERE w.finished_at IS NOT NULL AND w.state = c.state AND w.finished_at < c.before
    ORDER BY w.finished_at, w.seq LIMIT $3 FOR UPDATE SKIP LOCKED
) o ORDER BY o.finished_at, o.seq LIMIT $3
