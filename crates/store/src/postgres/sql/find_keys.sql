SELECT t.namespace, t.kind, t.key, t.id, s.state
FROM unnest($1::text[], $2::text[], $3::text[]) AS u (namespace, kind, key)
CROSS JOIN LATERAL (
    SELECT * FROM windlass.tasks t
    WHERE t.namespace = u.namespace AND t.kind = u.kind AND t.key = u.key OFFSET 0
) t
JOIN windlass.task_rows s ON s.seq = t.seq
